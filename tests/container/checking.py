"""What the checklist for zip archives asks of bytes: opened and read, and surveyed."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import pytest
import torch

from tests.container.forging import forge, member
from tsarchive.container import Container, survey
from tsarchive.container.faults import RULES
from tsarchive.errors import FormatError
from tsarchive.findings import Severity


def read_all(data):
    with Container.open(io.BytesIO(data)) as container:
        return {name: container.read(name) for name in container.records}


def surveyed(data):
    with survey(io.BytesIO(data)) as found:
        return found.findings


def is_refused(data, rule, kind=FormatError):
    """Opening or reading raises; the survey has the finding of this rule, which says where."""
    with pytest.raises(kind) as caught:
        read_all(data)
    assert RULES[rule].error is kind
    found = [finding for finding in surveyed(data) if finding.rule == rule]
    assert found
    assert all(finding.severity is Severity.ERROR for finding in found)
    if caught.value.message in {finding.message for finding in found}:
        place = {(finding.record, finding.offset) for finding in found}
        assert (caught.value.record, caught.value.offset) in place or caught.value.record
    return caught.value


def is_accepted(data, *rules):
    """Everything reads, and the survey finds no more than these rules, none of them an error."""
    records = read_all(data)
    found = [finding for finding in surveyed(data) if finding.rule not in HARMLESS]
    assert {finding.rule for finding in found} == set(rules)
    assert all(finding.severity is not Severity.ERROR for finding in found)
    return records


# What forged archives have because they are small: nothing in them is aligned.
HARMLESS = {"zip-alignment"}


def torch_reads(data, name):
    return torch._C.PyTorchFileReader(io.BytesIO(data)).get_record(name)


def zipfile_reads(data, name):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)


def with_comment(data, comment):
    return data[:-2] + struct.pack("<H", len(comment)) + comment


PLAIN = forge(member("root/version", b"3\n"), member())


def deflate(data):
    encoder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return encoder.compress(data) + encoder.flush()


def packed(name, content, **fields):
    data = deflate(content)
    crc = {"crc": zlib.crc32(content)}
    return member(name, data, method=8, stored=len(data), **{"size": len(content), **crc, **fields})
