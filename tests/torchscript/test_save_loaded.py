"""Saving what torch.jit.load made: the records are those that torch.jit.save writes of it."""

from __future__ import annotations

import copy
import io
import linecache
from typing import Any

import pytest
import torch
from torch import Tensor

import tsarchive
from tests.support.archives import (
    ARCHIVES,
    CORPUS,
    FIXTURES,
    case_archive,
    comparable_records,
    records_of,
    saved,
    torch_loaded,
    torch_saved,
)
from tests.support.hidden import (
    AreaOfParameter,
    Calls,
    CallsWithTypes,
    ChangesArea,
    ChangesLayer,
    HasLayers,
    HoldsAreas,
    HoldsObjects,
    HoldsShades,
    Other,
    Wraps,
)
from tsarchive.container import NewRecord, write_container

IDENTIFIER = ".data/serialization_id"


def without_id(data: bytes) -> dict[str, bytes]:
    records = records_of(data)
    del records[IDENTIFIER]
    return records


def renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    """The archive with other names of types, for which there are no Python classes."""
    kept = [
        NewRecord(name.replace(old.decode(), new.decode()), content.replace(old, new))
        for name, content in without_id(data).items()
        if not name.endswith(".debug_pkl")
    ]
    buffer = io.BytesIO()
    write_container(buffer, kept)
    return buffer.getvalue()


def check(module: Any) -> None:
    """The records are those of torch, and both libraries read them."""
    expected = without_id(torch_saved(module))  # before Python has seen its tensors
    data = saved(module)
    assert without_id(data) == expected
    assert comparable_records(records_of(saved(torch_loaded(data)))) == comparable_records(
        records_of(data)
    )
    tsarchive.load(io.BytesIO(data))


# --- what the fixtures have ---


def test_every_construct_is_saved_as_torch_saves_it(case):
    """The sources of this process are at hand, so debug records are equal, too."""
    check(torch_loaded(case_archive(case)))


REAL = sorted((CORPUS / "torchscript").glob("*")) if CORPUS.is_dir() else []
OLD = [*sorted(ARCHIVES.glob("*.pt")), *sorted((FIXTURES / "old").rglob("*.pt")), *REAL]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", OLD, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_files_are_saved_as_torch_saves_them(path):
    try:
        module = torch.jit.load(path, map_location="cpu")
    except RuntimeError:
        pytest.skip("this torch does not load the file")
    expected = records_of(torch_saved(module))
    found = records_of(saved(module))
    assert comparable_records(found) == comparable_records(expected)
    assert found.keys() == expected.keys()


# --- what torch does not show to Python ---


HIDDEN = [Calls, CallsWithTypes, HoldsShades, HoldsObjects, HoldsAreas, AreaOfParameter,
          HasLayers, ChangesLayer, ChangesArea]  # fmt: skip
FROZEN = [HasLayers, ChangesLayer, AreaOfParameter]
X = torch.ones(3)


def same(found: Any, expected: Any) -> bool:
    return str(found) == str(expected)


@pytest.mark.whole
@pytest.mark.parametrize("kind", HIDDEN)
@pytest.mark.parametrize("knows_classes", [True, False])
def test_what_python_is_not_shown(kind, knows_classes):
    data = torch_saved(torch.jit.script(kind()))
    if not knows_classes:
        data = renamed(data, b"hidden", b"hiding")
    module = torch_loaded(data)
    check(module)
    for options in ({}, {"canonical": True}):
        written = saved(module, **options)
        assert same(torch_loaded(written)(X), module(X))
        assert same(tsarchive.load(io.BytesIO(written))(X), module(X))


@pytest.mark.whole
@pytest.mark.parametrize("kind", [HoldsAreas, HasLayers, ChangesLayer, ChangesArea])
def test_objects_behind_interfaces_of_this_process(kind):
    module = torch.jit.script(kind())
    found, first = records_of(saved(module)), torch_saved(module)
    second = records_of(torch_saved(torch_loaded(first)))
    expected = {**records_of(first), "data.pkl": second["data.pkl"]}
    assert comparable_records(found) == comparable_records(expected)
    assert same(tsarchive.load(io.BytesIO(saved(module)))(X), module(X))


def test_a_layer_that_was_changed():
    module = torch.jit.script(ChangesLayer())
    module.change(module.other)
    assert torch.equal(tsarchive.load(io.BytesIO(saved(module)))(X), X * (X + 1) * 2)
    check(torch_loaded(torch_saved(module)))


@pytest.mark.whole
@pytest.mark.parametrize("kind", FROZEN)
@pytest.mark.parametrize("knows_classes", [True, False])
def test_frozen_interfaces(kind, knows_classes):
    """A frozen module has objects as constants of its code."""
    frozen = torch.jit.freeze(torch.jit.script(kind().eval()))
    data = torch_saved(frozen)
    if not knows_classes:
        data = renamed(data, b"hidden", b"hiding")
    check(torch_loaded(data))
    assert same(tsarchive.load(io.BytesIO(saved(frozen)))(X), frozen(X))


CHANGES = {
    "deepcopy": copy.deepcopy,
    "double": lambda module: module.double(),
    "frozen": lambda module: torch.jit.freeze(module.eval()),
    "in a scripted module": lambda module: torch.jit.script(Wraps(module)),
}


@pytest.mark.whole
@pytest.mark.parametrize("change", CHANGES)
def test_modules_made_of_a_loaded_one(change):
    module = CHANGES[change](torch_loaded(torch_saved(torch.jit.script(Calls()))))
    expected = torch_saved(module)
    found = records_of(saved(module))
    assert comparable_records(found) == comparable_records(records_of(expected))


def test_functions_of_one_name_from_two_places_are_never_mixed_up():
    other = renamed(
        torch_saved(torch.jit.script(Other())), b"torch.mul(x, by)", b"torch.sub(x, by)"
    )
    module = torch.jit.script(Wraps(torch_loaded(other)))
    here, there = module(X)
    assert not torch.equal(here, there)
    for load in (torch.jit.load, tsarchive.load):
        assert same(load(io.BytesIO(saved(module)))(X), (here, there))


def test_enums_of_one_name_from_two_files_are_never_mixed_up():
    data = torch_saved(torch.jit.script(HoldsShades()))
    module = torch.jit.script(
        Wraps(torch_loaded(data), torch_loaded(renamed(data, b"UNUSED", b"NEVER_")))
    )
    with pytest.raises(tsarchive.SaveError, match=r"members of the enum .*Shade cannot be read"):
        saved(module)


def test_a_function_that_ran_is_read_as_it_was_written():
    """torch keeps what its optimiser has made of a function."""
    module = torch_loaded(torch_saved(torch.jit.script(Calls())))
    for _ in range(3):
        module(X)
    check(module)


def test_saving_leaves_the_executor_as_it_was():
    module = torch_loaded(torch_saved(torch.jit.script(Calls())))
    before = torch._C._get_graph_executor_optimize(), torch.is_autocast_enabled("cpu")
    expected = module(X)
    saved(module)
    assert (torch._C._get_graph_executor_optimize(), torch.is_autocast_enabled("cpu")) == before
    assert same(module(X), expected)


# --- sources that are not at hand ---

SOURCE = '''\
def one(x: Tensor) -> Tensor:
    """Say what it does.

    {hidden}

    """
    return x + 1
'''


def compiled(name: str, hidden: str) -> bytes:
    """A module whose source is in no file any more."""
    text = SOURCE.format(hidden=hidden)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"Tensor": Tensor, "__name__": "gone"}
    exec(compile(text, name, "exec"), space)
    data = torch_saved(torch.jit.script(space["one"]))
    del linecache.cache[name]
    return data


def test_lines_that_no_range_shows_are_nowhere_to_be_seen():
    """torch shows two lines around a range: a program is saved without the rest of its source."""
    one, other = (torch_loaded(compiled("gone.py", text)) for text in ("one", "two"))
    assert one.inlined_graph.str(True) == other.inlined_graph.str(True)
    nodes = zip(one.graph.nodes(), other.graph.nodes(), strict=True)
    assert all(mine.sourceRange() == its.sourceRange() for mine, its in nodes)
    assert torch_saved(one) != torch_saved(other)
    assert saved(one) == saved(other)
