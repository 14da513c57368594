"""What we save of a live module, record by record, against what torch saves of it.

Code and the order of records are those of torch's first save; pickles and storages those of its
second save, which no longer depend on reference counts.
"""

from __future__ import annotations

import gc
import io
from types import FunctionType

import pytest
import torch

import tsarchive
from tests.support.archives import (
    comparable_records,
    expected_records,
    records_of,
    saved,
    torch_loaded,
    torch_saved,
)
from tests.support.networks import build, each_network
from tests.support.processes import torch_output_of


def test_records_equal_those_of_torch(case):
    module = case.build()
    ours, expected = records_of(saved(module)), expected_records(module)
    assert comparable_records(ours) == comparable_records(expected)


def test_record_order_equals_that_of_torch(case):
    module = case.build()
    assert list(records_of(saved(module))) == list(records_of(torch_saved(module)))


def test_saving_twice_gives_the_same_bytes(case):
    module = case.build()
    assert saved(module) == saved(module)


@pytest.mark.sample(3)
@each_network
def test_torch_networks(name, kind):
    module, inputs = build(name, kind)
    ours = saved(module)
    assert comparable_records(records_of(ours)) == comparable_records(expected_records(module))
    if hasattr(module, "forward"):  # the overloads of scripted RNNs have no such name
        assert torch.equal(first(torch_loaded(ours)(*inputs)), first(module(*inputs)))


def first(result):
    return result if isinstance(result, torch.Tensor) else first(result[0])


def test_debug_records_can_be_left_out(case):
    names = records_of(saved(case.build(), debug=False))
    assert not [name for name in names if name.endswith(".debug_pkl")]
    assert "data.pkl" in names


@pytest.mark.parametrize("count", [0, 1, 2, 5, 12])
def test_extra_files(count):
    module = torch.jit.script(torch.nn.ReLU())
    files = {f"notes/{number}.txt": f"text {number}" for number in range(count)}
    theirs = io.BytesIO()
    torch.jit.save(module, theirs, _extra_files=files)
    ours = saved(module, extra_files=files)
    assert list(records_of(ours)) == list(records_of(theirs.getvalue()))
    read = dict.fromkeys(files, "")
    torch.jit.load(io.BytesIO(ours), _extra_files=read)
    assert {name: bytes(text, "utf-8") for name, text in files.items()} == read


class CutString(torch.nn.Module):
    def forward(self) -> str:
        return "über"[0]  # the first byte of two, to torch


def test_a_string_that_torch_does_not_show_is_refused():
    with pytest.raises(tsarchive.SaveError, match="is not UTF-8"):
        saved(torch.jit.script(CutString()))


class UnusedDefault(torch.nn.Module):
    def forward(self, x, y=None):
        return x


def test_a_class_that_torch_does_not_print_is_refused():
    with pytest.raises(tsarchive.SaveError, match="UnusedDefault") as caught:
        saved(torch.jit.script(UnusedDefault()))
    assert "Optional[Tensor]" in str(caught.value.hint)


def test_a_plain_module_is_refused():
    with pytest.raises(tsarchive.SaveError, match="has no TorchScript code"):
        saved(torch.nn.ReLU())


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"old")
    with pytest.raises(tsarchive.SaveError):
        tsarchive.save(torch.nn.ReLU(), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


class _Hooked(torch.nn.Module):
    """Has a submodule with a hook, a list that two slots share, and a constant of its own."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ReLU()
        self.inner.register_forward_hook(_doubled)
        self.sizes = [1, 2]
        self.same = self.sizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + _scaled(x, self.sizes[0])


def _doubled(module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return output * 2


def _scaled(x: torch.Tensor, size: int) -> torch.Tensor:
    return x * torch.tensor([1.0, 2.0]) * size


_LEAVES_NO_GARBAGE = {
    "scripted": lambda: torch.jit.script(_Hooked()),
    "traced": lambda: torch.jit.trace(torch.nn.Sequential(torch.nn.ReLU()), torch.ones(1, 2)),
    "function": lambda: torch.jit.script(_scaled),
}


def left_by_a_save(kind: str) -> list[str]:
    """What of tsarchive a save leaves in cycles, in a process where nothing else runs."""
    module = _LEAVES_NO_GARBAGE[kind]()
    tsarchive.save(module, io.BytesIO())  # imports, and what a process keeps
    gc.disable()
    while gc.collect():
        pass
    gc.set_debug(gc.DEBUG_SAVEALL)
    tsarchive.save(module, io.BytesIO())
    gc.collect()
    return [shown for shown in map(_class_of, gc.garbage) if "tsarchive" in shown]


def _class_of(found: object) -> str:
    """The name of its class; functions and classes have names of their own."""
    named = found if isinstance(found, FunctionType | type) else type(found)
    return f"{named.__module__}.{named.__qualname__}"


_LEFT = """
import sys
from tests.torchscript.test_save_records import left_by_a_save
print(left_by_a_save(sys.argv[1]))
"""


@pytest.mark.parametrize("kind", _LEAVES_NO_GARBAGE)
def test_a_save_leaves_nothing_for_the_collector(kind):
    assert torch_output_of("-W", "ignore", "-c", _LEFT, kind) == "[]\n"
