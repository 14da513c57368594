"""Programs with parts of backends, beside a runtime that only counts: the real one is optional."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import struct

import pytest
import torch

import tsarchive
from fixtures.executorch_programs import file_of, method
from fixtures.executorch_samples import data_file, tensor
from fixtures.flatbuffer_encoder import Encoder
from tests.support.command_line import error
from tsarchive.formats.executorch.modules.delegates import XNN_GRAPH

X, Y = tensor([2], at=(1, 0)), tensor([2], at=(1, 16))
CALL = {"instr_args": ("DelegateCall", {"delegate_index": 0, "args": [0, 1]})}
BACKEND = {"id": "XnnpackBackend", "processed": {"location": 0, "index": 0}}


class Counting:
    """In the place of the runtime: each call of a method gives one more than the last."""

    def load_program(self, data):
        assert data[4:8] == b"ET12"
        return self

    def load_method(self, name):
        self.calls = 0
        return self

    def execute(self, inputs):
        self.calls += 1
        return [inputs[0] + self.calls]


def delegated(part=bytes(32), **more):
    """A program of which a backend runs ``part``."""
    made = method([X, Y], [CALL], [0], [1], delegates=[BACKEND])
    return io.BytesIO(file_of(made, backend_delegate_data=[{"data": part}], **more))


@pytest.fixture(autouse=True)
def _runtime(monkeypatch):
    monkeypatch.setattr("tsarchive.formats.executorch.modules.delegates.can_run", lambda: True)
    monkeypatch.setattr("tsarchive.formats.executorch.modules.delegates._runtime", Counting)


@pytest.fixture
def program():
    return delegated()


def test_methods_are_called(program):
    module = tsarchive.load(program)
    given = torch.zeros(2)
    assert module(given).tolist() == [1, 1]
    assert module.forward(given).tolist() == [2, 2]
    assert module(given).tolist() == [3, 3]
    with pytest.raises(tsarchive.CallError, match="input 0 should be float32"):
        module(torch.zeros(3))


def test_methods_are_shown_and_copied(program):
    module = tsarchive.load(program)
    assert str(inspect.signature(module.forward)) == "(*inputs)"
    module(torch.zeros(2))
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert again(torch.zeros(2)).tolist() == [1, 1]


def test_without_the_runtime_the_command_says_what_to_install(program, tmp_path, monkeypatch):
    monkeypatch.setattr("tsarchive.formats.executorch.modules.delegates.can_run", lambda: False)
    path = tmp_path / "x.pte"
    path.write_bytes(program.getvalue())
    found = error("run", path, "--random", "2")
    assert found["type"] == "UnsupportedError"
    assert found["message"].startswith(
        "method 'forward', instruction 0: the backend XnnpackBackend"
    )
    assert found["hint"] == 'pip install "tsarchive[executorch]" brings the runtime that has it'


def naming(*keys, size=8):
    """A part for XNNPACK whose constants have these keys and are nowhere in it."""
    constants = [{"offset": 0}, *({"size": size, "named_key": key} for key in keys)]
    tables = Encoder(XNN_GRAPH).encode({"constant_data": constants})
    return struct.pack("<4x4sHIIIQ", b"XH00", 30, 32, len(tables), 32 + len(tables), 0) + (
        bytes(2) + tables
    )


def beside(key, count):
    entry = {"key": key, "segment_index": 0}
    segments = [{"offset": 0, "size": count}]
    return io.BytesIO(data_file({"named_data": [entry], "segments": segments}, bytes(count)))


def test_constants_of_xnnpack_that_are_nowhere_are_told_of():
    """Its code takes them for granted, and ends the process."""
    with pytest.raises(tsarchive.MissingRecordError, match="'k' of the program is in a data file"):
        tsarchive.load(delegated(naming("k")))
    with pytest.raises(tsarchive.MissingRecordError, match="of the program is in none of"):
        tsarchive.load(delegated(naming("k")), data=beside("other", 8))
    with pytest.raises(tsarchive.FormatError, match="'k' takes 8 bytes, and 7 are there"):
        tsarchive.load(delegated(naming("k")), data=beside("k", 7))
    assert tsarchive.load(delegated(naming("k")), data=beside("k", 8)).forward


def test_constants_of_xnnpack_in_the_program():
    within = {"named_data": [{"key": "k", "segment_index": 0}], "data": bytes(8)}
    within["segments"] = [{"offset": 0, "size": 8}]
    assert tsarchive.load(delegated(naming("k"), **within)).forward
    with pytest.raises(tsarchive.MissingRecordError, match="'l'"):
        tsarchive.load(delegated(naming("k", "l"), **within))


@pytest.mark.parametrize("part", [b"", b"\0\0\0\0XH00", bytes(64)])
def test_parts_that_are_none_are_for_the_backend_to_refuse(part):
    assert tsarchive.load(delegated(part)).forward


def test_tables_of_a_part_that_lead_nowhere_are_refused():
    broken = naming("k")
    at = broken.index(b"XN01") - 4
    with pytest.raises(tsarchive.FormatError, match="XNNGraph"):
        tsarchive.load(delegated(broken[:40]))
    with pytest.raises(tsarchive.FormatError, match="XNNGraph"):
        tsarchive.load(delegated(broken[:at] + struct.pack("<I", 4000) + broken[at + 4 :]))
