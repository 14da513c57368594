"""Files of ExecuTorch that are another file as well, for other readers."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest
import torch

import tsarchive
from fixtures.executorch_samples import LINEAR, LINEAR_DATA, program
from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.verifying import records, verified
from tsarchive.findings import Severity
from tsarchive.formats.executorch.header import AT

HIDDEN = records(ARCHIVES / "pre_hook.pt")
PICKLE = b"\x80\x02]q\x00."
FILES = {
    "program": (FIXTURES / "executorch/add.pte").read_bytes(),
    "segments": program(LINEAR, LINEAR_DATA),
    "bundle": (FIXTURES / "executorch/linear.bpte").read_bytes(),
    "data": (FIXTURES / "executorch/data.ptd").read_bytes(),
}
each = pytest.mark.parametrize("name", FILES)


def with_archive(data: bytes) -> bytes:
    written = io.BytesIO(data)
    with zipfile.ZipFile(written, "a") as archive:
        for name, content in HIDDEN.items():
            archive.writestr(f"m/{name}", content)
    return written.getvalue()


def audited(data: bytes) -> list[tuple[str, str]]:
    findings = tsarchive.audit(io.BytesIO(data)).findings
    return [(f.rule, f.message) for f in findings if f.severity is Severity.ERROR]


@each
def test_files_are_all_of_what_they_say(name):
    report = verified(FILES[name])
    assert "executorch-rest" not in {finding.rule for finding in report.findings}
    assert "file-hidden" not in dict(audited(FILES[name]))


@each
def test_an_archive_behind_the_parts_is_told(name):
    data = with_archive(FILES[name])
    assert torch.jit.load(io.BytesIO(data)) is not None
    (found,) = verified(data).findings
    assert found.offset is not None
    is_padded = found.offset < len(FILES[name])
    assert found.rule == ("executorch-rest" if is_padded else "file-two-in-one")
    assert found.severity is Severity.WARNING
    assert not FILES[name][found.offset :].strip(b"\0")
    assert "a zip archive" in dict(audited(data))["file-hidden"]


@each
def test_a_pickle_behind_the_parts_is_told(name):
    data = FILES[name] + bytes(3) + PICKLE
    assert [f.rule for f in verified(data).findings] == ["executorch-rest"]
    assert "a pickle" in dict(audited(data))["file-hidden"]


@each
def test_zeros_behind_the_parts_are_padding(name):
    assert verified(FILES[name] + bytes(20)).verdict == verified(FILES[name]).verdict


def test_an_archive_is_not_hidden_by_the_sizes_in_the_header():
    data = bytearray(with_archive(FILES["segments"]))
    (base,) = struct.unpack_from("<Q", data, AT + 16)
    struct.pack_into("<Q", data, AT + 24, len(data) - base)
    assert [f.rule for f in verified(bytes(data)).findings] == ["file-two-in-one"]
    struct.pack_into("<Q", data, AT + 24, (1 << 17) + len(data) - base)
    data += bytes(1 << 17)
    found = {finding.rule for finding in verified(bytes(data)).findings}
    assert found == {"file-two-in-one", "executorch-segment"}


def test_an_archive_in_front_of_a_segment_is_told():
    hidden = with_archive(b"")
    moved = [{"offset": len(hidden), "size": len(LINEAR_DATA)}]
    data = program({**LINEAR, "segments": moved}, hidden + LINEAR_DATA)
    (found,) = verified(data).findings
    assert found.rule == "executorch-rest"
    assert found.offset is not None
    assert found.offset <= data.index(hidden)
    assert "a zip archive" in dict(audited(data))["file-hidden"]


def test_an_archive_in_a_segment_is_told_by_audits():
    """Its bytes belong to the program, and torch.jit.load finds it all the same."""
    data = bytearray(with_archive(FILES["segments"]))
    archive = len(data) - len(FILES["segments"])
    grown = {**LINEAR, "segments": [{"offset": 0, "size": len(LINEAR_DATA) + archive}]}
    inside = program(grown, LINEAR_DATA + bytes(data[-archive:]))
    data = inside[: len(inside) - archive] + bytes(data[-archive:])
    assert "executorch-rest" not in {finding.rule for finding in verified(data).findings}
    assert "a zip archive" in dict(audited(data))["file-hidden"]
