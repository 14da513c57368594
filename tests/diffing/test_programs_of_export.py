"""Differences of archives of torch.export, against changes made to their JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch.export import Dim, export

import tsarchive
from tests.support.archives import export_saved, saved
from tests.support.pt2_archives import (
    NAMES,
    changed,
    fixture,
    records_in,
    with_another_bit,
)
from tsarchive.diffing import diff

MODEL = "models/model.json"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x, flag: bool = True):
        self.count.add_(1)
        found = torch.cat([self.layer(x) * 2, x[:, :3] + self.scratch])
        return {"found": found, "flag": flag}


def exported() -> bytes:
    shapes = {"x": {0: Dim("rows", min=2, max=9)}, "flag": None}
    return export_saved(export(Net(), (torch.ones(3, 4), True), dynamic_shapes=shapes))


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "program.pt2"
    path.write_bytes(exported())
    return path


def graph_of(values: Any) -> Any:
    return values["graph_module"]["graph"]


def node_of(values: Any, name: str) -> Any:
    return next(node for node in graph_of(values)["nodes"] if name in node["target"])


def spec_of(values: Any, kind: str) -> Any:
    specs = values["graph_module"]["signature"]["input_specs"]
    return next(spec[kind] for spec in specs if kind in spec)


def swapped(values: Any) -> None:
    first, other = node_of(values, "cat")["inputs"][0]["arg"]["as_tensors"]
    first["name"], other["name"] = other["name"], first["name"]


def other_meta(values: Any) -> None:
    graph_of(values)["tensor_values"]["x"]["dtype"] = 8


def other_range(values: Any) -> None:
    next(iter(values["range_constraints"].values()))["max_val"] = 8


def add_guard(values: Any) -> None:
    values["guards_code"] = [*values.get("guards_code", []), "L['x'].size()[0] > 1"]


def less_persistent(values: Any) -> None:
    spec_of(values, "buffer")["persistent"] = False


def other_name(values: Any) -> None:
    calls = values["graph_module"]["module_call_graph"]
    signature = next(call["signature"] for call in calls if call["fqn"] == "")
    signature["forward_arg_names"] = ["y", "flag"]


def set_to(name: str, index: int, key: str, value: Any) -> Callable[[Any], None]:
    def change(values: Any) -> None:
        node_of(values, name)["inputs"][index]["arg"][key] = value

    return change


def retarget(name: str, target: str) -> Callable[[Any], None]:
    def change(values: Any) -> None:
        node_of(values, name)["target"] = target

    return change


# What is changed, and the one change that is told.
CHANGES: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "operator": (retarget("mul.Tensor", "torch.ops.aten.div.Tensor"), "operator", "forward"),
    "constant": (set_to("mul.Tensor", 1, "as_int", 3), "constant", "forward"),
    "order of tensors": (swapped, "code", "forward"),
    "type of an input": (other_meta, "input", "0"),
    "range": (other_range, "range", "s#0"),
    "guard": (add_guard, "guard", "0"),
    "role of a buffer": (less_persistent, "code", "forward"),
    "name of a parameter": (other_name, "nesting", "by names"),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_told_alone(name, program, tmp_path):
    change, kind, where = CHANGES[name]
    report = diff(program, changed(program, MODEL, change, tmp_path / "other.pt2"))
    assert [(found.kind, found.where) for found in report.changes] == [(kind, where)]


def test_values_of_changes_are_those_of_the_program(program, tmp_path):
    def told(name: str) -> list[tuple[Any, Any]]:
        other = changed(program, MODEL, CHANGES[name][0], tmp_path / "other.pt2")
        return [(found.before, found.after) for found in diff(program, other).changes]

    assert told("operator") == [("aten::mul", "aten::div")]
    assert told("constant") == [(2, 3)]
    assert told("range") == [([2, 9], [2, 8])]
    assert told("type of an input") == [
        ("float32[s#0, 4], s#0 = 3", "float64[s#0, 4], s#0 = 3"),
    ]


def test_operators_gained_and_lost(program, tmp_path):
    other = changed(program, MODEL, CHANGES["operator"][0], tmp_path / "other.pt2")
    report = diff(program, other)
    assert [use.operator for use in report.operators_gained] == ["aten::div"]
    assert [use.operator for use in report.operators_lost] == ["aten::mul"]


def test_lines_of_the_user_are_told(program, tmp_path):
    other = changed(program, MODEL, CHANGES["constant"][0], tmp_path / "other.pt2")
    (found,) = diff(program, other).changes
    line = found.source[0]
    assert line is not None
    assert line.file == __file__
    assert "self.layer(x) * 2" in line.text


def test_other_numbers_of_symbols_mean_nothing(program):
    report = diff(program, io.BytesIO(exported()), only=["code", "structure"])
    assert report.same


@pytest.mark.parametrize("name", [name for name in NAMES if name != "two_models"])
def test_a_program_saved_again_is_the_same(name):
    assert diff(fixture(name), io.BytesIO(saved(tsarchive.load(fixture(name))))).same


def test_an_operator_of_a_branch_is_told(tmp_path):
    path = fixture("control_flow")
    record = next(name for name in records_in(path) if name.startswith("models/"))

    def change(values: Any) -> None:
        graph = node_of(values, "cond")["inputs"][1]["arg"]["as_graph"]["graph"]
        graph["nodes"][-1]["target"] = "torch.ops.aten.tan.default"

    (found,) = diff(path, changed(path, record, change, tmp_path / "other.pt2")).changes
    assert (found.kind, found.after) == ("operator", "aten::tan")


def test_a_model_of_several_is_told_by_its_name(tmp_path):
    path = fixture("two_models")
    record = next(name for name in records_in(path) if name == "models/first.json")

    def change(values: Any) -> None:
        graph_of(values)["nodes"][0]["target"] = "torch.ops.aten.other.default"

    (found,) = diff(path, changed(path, record, change, tmp_path / "other.pt2")).changes
    assert (found.kind, found.where) == ("operator", "first.layer.forward")


def test_one_bit_of_a_weight_is_told_at_its_name(program, tmp_path):
    name, other = with_another_bit(program, tmp_path / "other.pt2")
    (found,) = diff(program, other).changes
    assert (found.kind, found.where) == ("tensor values", name)
    assert found.values is not None
    assert found.values.differing == 1


def config(name: str, value: Any) -> Callable[[Any], None]:
    return lambda values: values["config"]["layer.weight"].__setitem__(name, value)


def meta(name: str, value: Any) -> Callable[[Any], None]:
    return lambda values: values["config"]["layer.weight"]["tensor_meta"].__setitem__(name, value)


# Changes of the description of a weight, which the graph has once more.
DESCRIBED = {
    "role": (config("is_param", False), "tensor role"),
    "shape": (meta("sizes", [{"as_int": 2}, {"as_int": 4}]), "tensor shape"),
    "gradient": (meta("requires_grad", False), "tensor gradient"),
    "device": (meta("device", {"type": "cuda", "index": 1}), "tensor device"),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_descriptions_of_weights_are_told(name, program, tmp_path):
    change, kind = DESCRIBED[name]
    record = "data/weights/model_weights_config.json"
    (found,) = diff(program, changed(program, record, change, tmp_path / "other.pt2")).changes
    assert (found.kind, found.where) == (kind, "layer.weight")


def test_the_type_of_a_weight_is_told_where_the_tensor_has_another(program, tmp_path):
    def change(values: Any) -> None:
        metas = graph_of(values)["tensor_values"]
        metas[spec_of(values, "parameter")["arg"]["name"]]["dtype"] = 8

    (found,) = diff(program, changed(program, MODEL, change, tmp_path / "other.pt2")).changes
    assert (found.kind, found.where) == ("input", "layer.weight")
    assert (found.before, found.after) == (
        "float32[3, 4], with gradient",
        "float64[3, 4], with gradient",
    )


class Wider(Net):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3, bias=False)


def test_a_weight_of_one_side_is_told_with_the_code_that_uses_it(program):
    shapes = {"x": {0: Dim("rows", min=2, max=9)}, "flag": None}
    other = export_saved(export(Wider(), (torch.ones(3, 4), True), dynamic_shapes=shapes))
    found = [c for c in diff(program, io.BytesIO(other)).changes if c.kind != "tensor values"]
    assert {(change.kind, change.where) for change in found} == {
        ("code", "forward"),
        ("code", "layer.forward"),
        ("tensor", "layer.bias"),
    }


# What the fingerprint leaves out.
_NO_PART = {"metadata", "torch_version", "opset_version", "schema_version", "verifiers"}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        if isinstance(item, dict | list):
            found += leaves(item, (*path, key))
        elif key not in _NO_PART:
            found.append((*path, key))
    return [leaf for leaf in found if not _NO_PART & {*map(str, leaf)}]


def mutated(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
    return 3


@pytest.mark.parametrize("seed", range(20))
def test_values_of_the_json_that_differ_are_told(seed, program, tmp_path):
    """Where the fingerprints differ, and only there."""
    random = Random(seed)
    values = json.loads(records_in(program)[MODEL])
    for leaf in random.sample(leaves(values), 5):

        def change(values: Any, leaf: tuple[Any, ...] = leaf) -> None:
            for key in leaf[:-1]:
                values = values[key]
            values[leaf[-1]] = mutated(values[leaf[-1]])

        other = changed(program, MODEL, change, tmp_path / "other.pt2")
        try:
            is_same = tsarchive.fingerprint(program) == tsarchive.fingerprint(other)
        except tsarchive.ArchiveError:
            continue
        assert diff(program, other).same == is_same, leaf
