"""Differences of programs of ExecuTorch: methods, values, instructions, plans, data."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import numpy
import pytest

import tsarchive
from fixtures.executorch_programs import file_of, jump, method, move
from fixtures.executorch_samples import FILES, tensor
from tests.support.command_line import run
from tests.support.executorch_files import FIXTURES, edited
from tsarchive.diffing import Change, diff


def made(**more: Any) -> dict[str, Any]:
    """The parts of a method: ``x + y * 2``, and a branch."""
    return {
        "values": [
            tensor([2], at=(1, 0)), tensor([2], at=(1, 16)), 2, tensor([2], at=(1, 32)), True,
            [1, 2],
        ],
        "steps": [("aten::add.out", 0, 1, 2, 3, 3), jump(4, 3), move(0, 3)],
        "inputs": [0, 1],
        "outputs": [3],
        **more,
    }  # fmt: skip


def changes(**more: Any) -> list[Change]:
    one, other = (io.BytesIO(file_of(method(**parts))) for parts in (made(), made(**more)))
    return diff(one, other).changes


def with_value(index: int, value: Any) -> dict[str, Any]:
    values = made()["values"]
    values[index] = value
    return {"values": values}


def with_step(index: int, step: Any) -> dict[str, Any]:
    steps = made()["steps"]
    steps[index] = step
    return {"steps": steps}


# What a method has in its place, and the kind, place, before and after of the one change.
CHANGES: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "operator": (
        with_step(0, ("aten::sub.out", 0, 1, 2, 3, 3)),
        ("operator", "forward", "aten::add", "aten::sub"),
    ),
    "number": (with_value(2, 3), ("constant", "forward", 2, 3)),
    "argument": (
        with_step(0, ("aten::add.out", 1, 0, 2, 3, 3)),
        (
            "code",
            "forward",
            "aten::add.out(%0, %1, %2, %3, %3)",
            "aten::add.out(%1, %0, %2, %3, %3)",
        ),
    ),
    "shape": (
        with_value(3, tensor([3], at=(1, 32))),
        ("code", "forward", "%3: float32[2], arena 1 at 32", "%3: float32[3], arena 1 at 32"),
    ),
    "place": (
        with_value(3, tensor([2], at=(1, 48))),
        ("code", "forward", "%3: float32[2], arena 1 at 32", "%3: float32[2], arena 1 at 48"),
    ),
    "arena": ({"non_const_buffer_sizes": [0, 2048]}, ("plan", "forward.arena 1", 1024, 2048)),
    "destination": (with_step(1, jump(4, 2)), ("constant", "forward", 3, 2)),
    "output": (
        {"outputs": [0]},
        ("code", "forward", "output 0: %3", "output 0: %0"),
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_told_alone(name):
    more, expected = CHANGES[name]
    found = changes(**more)
    assert [(c.kind, c.where, c.before, c.after) for c in found] == [expected]


def test_values_that_are_added_leave_the_others_as_they_are():
    values = [*made()["values"], 7]
    (found,) = changes(values=values)
    assert (found.kind, found.before, found.after) == ("code", None, "%6: int = 7")


def test_values_that_are_inserted_leave_the_others_as_they_are():
    """One operator that takes a literal more is one change, however values are numbered then."""
    shapes = [tensor([2], at=(1, 16 * place)) for place in range(6)]
    calls = [(f"aten::{name}.out", place, place + 1, place + 1)
             for place, name in enumerate(("neg", "relu", "abs", "exp", "cos"))]  # fmt: skip
    one = {"values": shapes, "steps": calls, "inputs": [0], "outputs": [5]}
    values = [*shapes[:2], "none", [7, 8], *shapes[2:]]
    steps = [(name, *(arg + 2 * (arg > 1) for arg in args)) for name, *args in calls]
    steps[1] = ("aten::gelu.out", 1, 2, 4, 4)
    other = {"values": values, "steps": steps, "inputs": [0], "outputs": [7]}
    files = [io.BytesIO(file_of(method(**parts))) for parts in (one, other)]
    report = diff(*files)
    found = [change for change in report.changes if change.before is not None]
    assert [(c.kind, c.where, c.before, c.after) for c in found] == [
        ("operator", "forward", "aten::relu", "aten::gelu")
    ]
    assert [c.after for c in report.changes if c.before is None] == ["%3: int[]"]
    (told,) = report.methods
    assert [row.after for row in told.rows if not row.is_same and row.before] == [
        "aten::gelu.out(%1, 'none', %4, %4)"
    ]


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_is_the_same_as_itself(name):
    assert diff(io.BytesIO(FILES[name]()), io.BytesIO(FILES[name]())).same


@pytest.mark.parametrize(
    "options",
    [("--align", 256), ("--align-constants", 64), ("--strip", "stack-traces")],
    ids=lambda options: options[0],
)
def test_the_layout_of_a_file_means_nothing(options, tmp_path):
    path, other = FIXTURES / "linear.pte", tmp_path / "other.pte"
    assert run("edit", path, "-o", other, *options).exit_code == 0
    assert diff(path, other).same


def test_other_weights_are_told_by_their_name(tmp_path):
    path, other = FIXTURES / "linear.pte", tmp_path / "other.pte"
    with tsarchive.open(path) as archive:
        name, info = next(iter(archive.tensors.items()))
    numpy.save(tmp_path / "new.npy", numpy.zeros(info.shape, info.dtype))
    replaced = f"{name}={tmp_path / 'new.npy'}"
    assert run("edit", path, "-o", other, "--replace", replaced).exit_code == 0
    (found,) = diff(path, other).changes
    assert (found.kind, found.where) == ("tensor values", name)
    assert found.values is not None


def test_methods_are_modules():
    one = file_of(method(**made()))
    other = file_of(method(**made()), method(**made(), name="other"))
    (found,) = diff(io.BytesIO(one), io.BytesIO(other)).changes
    assert (found.kind, found.where, found.before) == ("module", "other", None)


def test_data_for_backends_is_told_by_its_digests():
    data = FILES["state.pte"]()
    with tsarchive.open(io.BytesIO(data)) as archive:
        at = archive.records["segments/2"].offset
    found = diff(io.BytesIO(data), io.BytesIO(edited(data, at, b"\xff"))).changes
    assert {change.kind for change in found} == {"data"}
    assert "step.delegate.0" in {change.where for change in found}
    assert all(change.values is None for change in found)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_that_differ_are_told(seed):
    """Where the fingerprints differ, and only there."""
    random = Random(seed)
    for _ in range(10):
        name = random.choice([*FILES])
        original = FILES[name]()
        at = random.randrange(8, len(original))
        other = edited(original, at, bytes([(original[at] + 1) % 256]))
        try:
            fingerprints = [tsarchive.fingerprint(io.BytesIO(data)) for data in (original, other)]
            report = diff(io.BytesIO(original), io.BytesIO(other))
        except tsarchive.ArchiveError:
            continue
        assert report.same == (fingerprints[0] == fingerprints[1]), (name, at)
