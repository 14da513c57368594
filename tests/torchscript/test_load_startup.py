"""What a load imports, and how it leaves the process: the collector of garbage as it was."""

from __future__ import annotations

import gc
import io
import json
from contextlib import nullcontext

import pytest
import torch

import tsarchive
from tests.support.archives import torch_saved
from tests.support.command_line import SEQUENTIAL, process
from tsarchive.garbage import collecting, count_as_old, not_collecting, rarely_collecting

# What only other archives and other verbs need.
LATE = (
    "tsarchive.archive", "tsarchive.container.surveying",
    "tsarchive.container.writer", "tsarchive.formats.legacy.inspection", "tsarchive.run.metering",
    "tsarchive.run.costs", "tsarchive.formats.torchscript.devices",
    "tsarchive.formats.torchscript.inspection",
    "tsarchive.formats.torchscript.pickling", "tsarchive.formats.torchscript.saving",
)  # fmt: skip
BODIES = ("conversions", "emitter", "lowering", "matching")
_LOADING = """
import json, sys
import tsarchive
tsarchive.load(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""
_SAVING = """
import io, json, sys
import torch
import tsarchive
tsarchive.save(torch.jit.load(sys.argv[1]), io.BytesIO())
print(json.dumps(sorted(sys.modules)))
"""
_RUNS = ("tsarchive.frontend", "tsarchive.run")
_LOOKING = """
import json, sys
import tsarchive
with tsarchive.open(sys.argv[1]) as opened:
    opened.tree()
    dict(opened.tensors)
print(json.dumps(sorted(sys.modules)))
"""


def modules_after(code, tmp_path) -> set[str]:
    done = process("-c", code, SEQUENTIAL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.long("test_looking_imports_nothing_that_reads_bodies")
def test_a_load_imports_what_it_needs(tmp_path):
    assert modules_after(_LOADING, tmp_path).isdisjoint(LATE)


def test_saving_a_live_module_imports_nothing_that_runs(tmp_path):
    assert not [name for name in modules_after(_SAVING, tmp_path) if name.startswith(_RUNS)]


def test_looking_imports_nothing_that_reads_bodies(tmp_path):
    imported = modules_after(_LOOKING, tmp_path)
    assert imported.isdisjoint({f"tsarchive.frontend.{name}" for name in BODIES})
    assert imported.isdisjoint(
        {"tsarchive.formats.legacy.inspection", "tsarchive.formats.torchscript.devices"}
    )


@pytest.fixture(params=[True, False], ids=["on", "off"])
def collector(request):
    """Whether the collector is on; afterwards it is as it was before the test."""
    was_on = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was_on else gc.disable)()


def test_a_load_leaves_the_collector_as_it_was(collector):
    tsarchive.load(SEQUENTIAL)
    assert gc.isenabled() is collector
    with pytest.raises(tsarchive.FormatError):
        tsarchive.load(io.BytesIO(b"PK\x03\x04"))
    assert gc.isenabled() is collector


def test_the_collector_is_off_for_making_and_on_for_code(collector):
    with not_collecting():
        assert not gc.isenabled()
        with collecting():
            assert gc.isenabled() is collector
        with not_collecting():
            assert not gc.isenabled()
        assert not gc.isenabled()
    with collecting():
        assert gc.isenabled() is collector


class Counted(torch.nn.Module):
    """Its state is set by code of the archive."""

    def __init__(self):
        super().__init__()
        self.count = 1

    @torch.jit.export
    def __getstate__(self):
        return (self.count, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]):
        self.count = state[0] + 1
        self.training = state[1]

    def forward(self) -> int:
        return self.count


def test_code_that_a_load_runs_is_collected_after(monkeypatch):
    seen = []
    call = tsarchive.run.classes.Classes.call

    def watched(self, *arguments):
        seen.append(gc.isenabled())
        return call(self, *arguments)

    monkeypatch.setattr(tsarchive.run.classes.Classes, "call", watched)
    loaded = tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(Counted()))))
    assert loaded() == 2
    assert seen == [gc.isenabled()]


@pytest.fixture
def threshold():
    """Young objects that the collector waits for; afterwards they are as before the test."""
    before = gc.get_threshold()
    gc.set_threshold(600, 9, 8)
    yield gc.get_threshold()
    gc.set_threshold(*before)


class Seen(torch.nn.Module):
    """Calls a method that is compiled while ``forward`` runs."""

    def forward(self, x: int) -> int:
        return self.inner(x)

    @torch.jit.export
    def inner(self, x: int) -> int:
        if x == 0:
            raise ValueError("no")
        return 6 // x


@pytest.mark.parametrize("given", [2, 0])
def test_the_collector_waits_longer_in_first_calls_alone(given, threshold, monkeypatch):
    seen = []
    define = tsarchive.run.linkage._define

    def watched(*arguments):
        seen.append(gc.get_threshold())
        return define(*arguments)

    monkeypatch.setattr(tsarchive.run.linkage, "_define", watched)
    loaded = tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(Seen()))))
    with pytest.raises(tsarchive.ScriptError) if given == 0 else nullcontext():
        loaded(given)
    assert len(seen) == 2
    assert all(young > threshold[0] and tuple(older) == threshold[1:] for young, *older in seen)
    assert gc.get_threshold() == threshold


@pytest.mark.parametrize("chosen", [(0, 10, 10), (10**6, 10, 10)])
def test_a_collector_that_waits_longer_stays_so(chosen, threshold):
    gc.set_threshold(*chosen)
    with rarely_collecting():
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen


def test_what_code_sets_for_the_collector_stays(threshold):
    with rarely_collecting(), rarely_collecting():
        gc.set_threshold(500, 9, 8)
    assert gc.get_threshold() == (500, 9, 8)


@pytest.fixture
def unfrozen():
    """Nothing that the suite has frozen to run faster."""
    gc.unfreeze()
    yield
    gc.freeze()


_NAMING = """
import gc, json, sys
import torch, tsarchive
gc.collect()
visited = []
gc.callbacks.append(lambda phase, told: visited.append(told["generation"]))
tsarchive.load
made = [[] for _ in range(100)]
print(json.dumps([visited, gc.get_count()[1:]]))
"""


def test_what_was_imported_is_not_visited_when_the_collector_is_back(tmp_path):
    done = process("-c", _NAMING, cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, [[], [0, 0]]), done.stderr


_DROPPING = """
import gc, sys, weakref
import torch, tsarchive
gc.collect()
gc.freeze()
gc.set_threshold(700, 2, 2)
living = []
for _ in range(60):
    module = tsarchive.load(sys.argv[1])
    module(torch.ones(1, 2))
    living.append(weakref.ref(type(module)))
    del module
print(sum(reference() is not None for reference in living))
"""


def test_classes_of_modules_that_were_dropped_are_collected(tmp_path):
    # When all generations are collected depends on all that a process holds.
    path = tmp_path / "linear.pt"
    path.write_bytes(torch_saved(torch.jit.script(torch.nn.Linear(2, 2))))
    done = process("-c", _DROPPING, path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 30


def test_frozen_objects_stay_frozen(unfrozen):
    gc.freeze()
    frozen = gc.get_freeze_count()
    count_as_old()
    assert gc.get_freeze_count() >= frozen - 1_000 > 0
