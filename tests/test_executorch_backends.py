"""Programs with parts of backends, beside a runtime that only counts: the real one is optional."""

from __future__ import annotations

import copy
import inspect
import io
import pickle

import pytest
import torch
from cli_support import error

import tsarchive
from fixtures.executorch_programs import file_of, method
from fixtures.executorch_samples import tensor

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


@pytest.fixture
def program(monkeypatch):
    """The bytes of one."""
    monkeypatch.setattr("tsarchive.pte.opening.can_run", lambda: True)
    monkeypatch.setattr("tsarchive.pte.delegates._runtime", Counting)
    made = method([X, Y], [CALL], [0], [1], delegates=[BACKEND])
    return io.BytesIO(file_of(made, backend_delegate_data=[{"data": bytes(32)}]))


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
    monkeypatch.setattr("tsarchive.pte.opening.can_run", lambda: False)
    path = tmp_path / "x.pte"
    path.write_bytes(program.getvalue())
    found = error("run", path, "--random", "2")
    assert found["type"] == "UnsupportedError"
    assert found["message"].startswith(
        "method 'forward', instruction 0: the backend XnnpackBackend"
    )
    assert found["hint"] == 'pip install "tsarchive[executorch]" brings the runtime that has it'
