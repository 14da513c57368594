"""Differences of tensors: by name, what they are, their values, and how they are read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import tsarchive
from tests.support.archives import saved
from tsarchive.container.opening import open_source
from tsarchive.container.source import Source
from tsarchive.diffing import Change, diff
from tsarchive.diffing.tensors import tensor_changes
from tsarchive.formats.contents import TensorContent
from tsarchive.formats.reading import Reading
from tsarchive.formats.registry import format_of, opened_source

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*uantize")

Tensors = Mapping[str, Any]


def checkpoint(value: Any) -> io.BytesIO:
    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    return stream


def read(source: Any) -> tuple[Mapping[str, TensorContent], Reading]:
    found = open_source(source)
    opened = opened_source(found)
    return format_of(opened).contents(opened).tensors, Reading(found)


def changes(before: Tensors, after: Tensors, **options: Any) -> list[Change]:
    (one, reading), (other, its) = read(checkpoint(before)), read(checkpoint(after))
    return [*tensor_changes(one, other, (reading, its), **options)]


def told(found: list[Change]) -> list[tuple[Any, ...]]:
    return [(change.kind, change.where, change.before, change.after) for change in found]


def tensors() -> dict[str, Any]:
    return {
        "layer.weight": torch.arange(6.0).reshape(2, 3),
        "layer.bias": torch.ones(3),
        "turned": torch.arange(6.0).reshape(2, 3).t(),
        "quantized": torch.quantize_per_tensor(torch.ones(3), 0.5, 3, torch.qint8),
        "channels": torch.quantize_per_channel(
            torch.ones(2, 3), torch.ones(2) / 2, torch.zeros(2), 0, torch.qint8
        ),
        "sparse": torch.eye(3).to_sparse(),
        "rows": torch.eye(3).to_sparse_csr(),
        "complex": torch.ones(2, dtype=torch.complex64),
    }


def quantized(scale: float, zero_point: int) -> torch.Tensor:
    numbers = tensors()["quantized"].int_repr()
    return torch._make_per_tensor_quantized_tensor(numbers, scale, zero_point)


WEIGHT = "layer.weight"
# What replaces a tensor, and the kind, before and after of what is told.
SCALES = {"scale": 0.5, "zero point": 3}, {"scale": 0.25, "zero point": 3}
REPLACED: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor], list[Any]]] = {
    "shape": (WEIGHT, lambda old: old.reshape(3, 2), [("tensor shape", [2, 3], [3, 2])]),
    "dtype": (WEIGHT, torch.Tensor.double, [("tensor dtype", "float32", "float64")]),
    "gradient": (WEIGHT, torch.Tensor.requires_grad_, [("tensor gradient", False, True)]),
    "strides": ("turned", torch.Tensor.contiguous, []),
    "scale": ("quantized", lambda _: quantized(0.25, 3), [("tensor quantization", *SCALES)]),
    "sign of the scale": (
        "quantized",
        lambda _: quantized(-0.5, 3),
        [("tensor quantization", SCALES[0], {"scale": -0.5, "zero point": 3})],
    ),
    "no quantization": (
        "quantized",
        lambda _: torch.ones(3),
        [("tensor dtype", "qint8", "float32"), ("tensor quantization", SCALES[0], {})],
    ),
    "dense": ("sparse", lambda _: torch.eye(3), [("tensor layout", "sparse_coo", "strided")]),
    "rows": (
        "sparse",
        lambda _: torch.eye(3).to_sparse_csr(),
        [("tensor layout", "sparse_coo", "sparse_csr")],
    ),
    "wider": (
        "sparse",
        lambda old: torch.sparse_coo_tensor(old.indices(), old.values(), (3, 4)),
        [("tensor shape", [3, 3], [3, 4])],
    ),
    "conjugate": ("complex", torch.Tensor.conj, [("tensor flags", [], ["conj"])]),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", REPLACED)
def test_what_a_tensor_is(name):
    where, replace, expected = REPLACED[name]
    after = {**tensors(), where: replace(tensors()[where])}
    found = [(kind, *sides) for kind, place, *sides in told(changes(tensors(), after))]
    assert found == expected
    assert all(change.where == where for change in changes(tensors(), after))


def test_the_same_tensors_have_no_changes():
    assert changes(tensors(), tensors()) == []


def plus_one(tensor: torch.Tensor) -> torch.Tensor:
    return tensor + 1


VALUES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "dense": (WEIGHT, plus_one, WEIGHT),
    "turned": ("turned", plus_one, "turned"),
    "values of a sparse tensor": ("sparse", lambda tensor: tensor * 2, "sparse.1"),
    "values of rows": ("rows", lambda tensor: tensor * 2, "rows.2"),
    "complex": ("complex", plus_one, "complex"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_have_their_digests_and_differences(name):
    key, change, where = VALUES[name]
    before, after = checkpoint(tensors()), checkpoint({**tensors(), key: change(tensors()[key])})
    (found,) = diff(before, after).changes
    digests = []
    for stream in (before, after):
        stream.seek(0)
        digests.append(tsarchive.fingerprint(stream).tensors[where])
    assert told([found]) == [("tensor values", where, *digests)]
    assert found.part == "weights"
    assert found.values is not None
    assert found.values.max_absolute == 1.0
    assert found.values.share == 1.0


def test_scales_of_channels_are_tensors_of_their_own():
    scales = torch.tensor([0.5, 0.25])
    numbers = tensors()["channels"].int_repr()
    other = torch._make_per_channel_quantized_tensor(numbers, scales.double(), torch.zeros(2), 0)
    found = changes(tensors(), {**tensors(), "channels": other})
    assert [(change.kind, change.where) for change in found] == [
        ("tensor values", "channels.scales")
    ]


def test_a_scale_that_is_no_number_is_the_same_twice():
    odd = {"a": torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)}
    odd["a"] = torch._make_per_tensor_quantized_tensor(odd["a"].int_repr(), float("nan"), 0)
    assert changes(odd, odd) == []


@pytest.mark.parametrize("name", ["channels", "sparse", "quantized", "complex"])
def test_a_tensor_of_one_side_is_one_change(name):
    """With all of its parts."""
    others = {key: value for key, value in tensors().items() if key != name}
    (gone,) = changes(tensors(), others)
    (new,) = changes(others, tensors())
    assert (gone.kind, gone.where, gone.after) == ("tensor", name, None)
    assert (new.where, new.before, new.after) == (name, None, gone.before)


def renamed(names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): tensor for name, tensor in tensors().items()}


@pytest.mark.parametrize("name", [WEIGHT, "sparse", "channels"])
def test_a_renamed_tensor_is_found_by_its_content(name):
    assert told(changes(tensors(), renamed({name: "other"}))) == [
        ("tensor renamed", "other", name, "other")
    ]


def test_a_tensor_is_renamed_where_one_alone_has_its_content():
    """One number, or a content that several have, tells nothing."""
    one, zero = torch.ones(1), torch.zeros(2)
    assert {c.kind for c in changes({"a": one}, {"b": one})} == {"tensor"}
    assert {c.kind for c in changes({"a": zero}, {"b": zero, "c": zero.clone()})} == {"tensor"}
    assert {c.kind for c in changes({"a": zero}, {"b": torch.ones(2)})} == {"tensor"}


def test_names_of_renamed_modules_are_given():
    names = {"sparse": "m.sparse", "sparse.0": "m.sparse.0", "sparse.1": "m.sparse.1"}
    after = renamed({"sparse": "m.sparse"})
    assert changes(tensors(), after, names=names) == []
    (found,) = changes(tensors(), {**after, "m.sparse": after["m.sparse"] * 2}, names=names)
    assert (found.kind, found.where) == ("tensor values", "m.sparse.1")


def test_of_two_formats_only_what_both_have_is_compared():
    others = {WEIGHT: tensors()[WEIGHT].requires_grad_(), "new": torch.ones(2)}
    assert changes(tensors(), others, is_common_only=True) == []
    others = {WEIGHT: tensors()[WEIGHT] + 1}
    (found,) = changes(tensors(), others, is_common_only=True)
    assert found.where == WEIGHT


class Tied(torch.nn.Module):
    def __init__(self, value: float = 1.0, device: str = "cpu"):
        super().__init__()
        self.first = torch.nn.Linear(2, 2, bias=False, device=device)
        with torch.no_grad():
            self.first.weight.fill_(value)
        self.second = torch.nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight


def test_a_tensor_with_two_names_is_told_at_both():
    one, other = (io.BytesIO(saved(torch.jit.script(Tied(value)))) for value in (1.0, 2.0))
    found = diff(one, other).changes
    assert [(change.kind, change.where) for change in found] == [
        ("tensor values", "first.weight"),
        ("tensor values", "second.weight"),
    ]


def test_tensors_without_elements_are_on_another_device():
    one, other = (io.BytesIO(saved(torch.jit.script(Tied(device=d)))) for d in ("cpu", "meta"))
    assert told(diff(one, other).changes) == [
        ("tensor device", f"{name}.weight", "cpu", "meta") for name in ("first", "second")
    ]


# Views of the same 60 numbers.
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda numbers: numbers.reshape(3, 4, 5),
    "turned": lambda numbers: numbers.reshape(5, 4, 3).permute(2, 1, 0),
    "mixed": lambda numbers: numbers.reshape(4, 5, 3).permute(2, 0, 1),
    "sliced": lambda numbers: numbers.reshape(3, 4, 5)[:, 1:, ::2],
    "expanded": lambda numbers: numbers.reshape(3, 1, 20).expand(3, 2, 20),
    "overlapping": lambda numbers: numbers.as_strided((5, 4), (2, 1)),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("is_copied", [False, True])
def test_elements_are_compared_whatever_their_order_in_memory(name, is_copied):
    numbers = torch.arange(60.0)
    view = VIEWS[name](numbers)
    other = numbers.clone()
    other[5] += 1
    changed = VIEWS[name](other)
    after = view.contiguous() if is_copied else view
    assert changes({"a": view}, {"a": after}) == []
    (found,) = changes({"a": view}, {"a": changed.contiguous() if is_copied else changed})
    assert found.values is not None
    assert found.values.differing == int((view != changed).sum())


def test_steps_are_told_for_each_tensor():
    steps: list[str] = []
    changes(tensors(), tensors(), step=steps.append)
    assert steps == [*tensors()]


@pytest.mark.parametrize("side", [0, 1])
def test_a_file_that_changes_meanwhile_is_refused(side, tmp_path):
    paths = [tmp_path / name for name in ("one.pt", "other.pt")]
    for path in paths:
        torch.save({"a": torch.ones(1 << 10), "b": torch.ones(8)}, path)
    found = [read(path) for path in paths]
    os.utime(paths[side], ns=(1, 1))
    with pytest.raises(tsarchive.FormatError, match="written to after it was opened"):
        [*tensor_changes(found[0][0], found[1][0], (found[0][1], found[1][1]))]


def test_mapped_files_are_let_go_of(monkeypatch, tmp_path):
    monkeypatch.setattr("tsarchive.formats.reading._HELD", 1 << 16)
    let_go: list[Source] = []
    monkeypatch.setattr(Source, "let_go", lambda source: let_go.append(source))
    paths = [tmp_path / name for name in ("one.pt", "other.pt")]
    for path in paths:
        torch.save({"a": torch.ones(1 << 16)}, path)
    assert diff(*paths).same
    assert len({*map(id, let_go)}) == 2


def test_the_same_bytes_again_and_again_are_refused(monkeypatch):
    monkeypatch.setattr("tsarchive.formats.reading._MOST_BYTES", 0)
    huge = {"a": torch.ones(1).expand(1 << 24)}
    with pytest.raises(tsarchive.FormatError, match="again and again") as error:
        changes({}, huge)
    assert error.value.limit
