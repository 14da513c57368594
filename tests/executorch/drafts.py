"""What tests of edits of files of ExecuTorch share: drafts of fixtures, and what was written."""

from __future__ import annotations

import io
import struct

import tsarchive
from tests.support.executorch_files import FIXTURES, opened
from tsarchive.executorch import Draft
from tsarchive.formats.executorch.methods import Tensor

NEW_BIAS = struct.pack("<3f", 7, 8, 9)
NEW_WEIGHT = struct.pack("<12f", *range(12, 24))


def draft_of(data):
    return Draft(opened(data))


def fixture(name):
    return draft_of((FIXTURES / name).read_bytes())


def written(draft):
    file = io.BytesIO()
    draft.write(file)
    return file.getvalue()


def reopened(draft):
    """What was written, which is sound."""
    data = written(draft)
    report = tsarchive.verify(io.BytesIO(data))
    assert report.ok, report.findings
    return opened(data)


def bytes_of(archive):
    """The bytes of all tensors that begin with some, by name; None where a data file has them."""
    found = archive.executorch.program
    shown = {}
    for method in found.methods:
        for index, value in enumerate(method.values):
            if isinstance(value, Tensor) and (value.is_external or value.data_index):
                data = found.initial_data(value)
                shown[value.name or f"{method.name}.{index}"] = data and bytes(data)
    return shown


def entries_of(archive):
    found = archive.executorch.regions.content
    return {key: bytes(found.data_of(entry)) for key, entry in found.by_key.items()}
