"""Listings of exported programs: what they say, and that they are one meaning for every program."""

from __future__ import annotations

import ast
import json

import pytest
import torch
from torch.export import export

import tsarchive
from tests.support.features import exports_numbers
from tests.support.pt2_archives import NAMES, changed, corpus_files, fixture
from tsarchive.container import Container
from tsarchive.formats.pt2.listing import Listings, argument, expression, name, range_text, target
from tsarchive.formats.pt2.records import Records
from tsarchive.formats.pt2.schema import RangeConstraint

MODEL = "models/model.json"
LINEAR = """\
# models/model.json: schema 8.20, torch 2.13.0+cpu, opset aten 10, TRAINING
# s77: 2 to 64

class Linear:
  def forward(self, x: float32[s77, 4]) -> float32[s77, 3]:
    p_layer_weight = self.layer.weight  # parameter float32[3, 4]
    p_layer_bias = self.layer.bias  # parameter float32[3]
    # layer: torch.nn.modules.linear.Linear
    linear = torch.ops.aten.linear.default(x, p_layer_weight, p_layer_bias)  # float32[s77, 3]
    # (root): fixtures.pt2_modules.cases.Linear
    relu = torch.ops.aten.relu.default(linear)  # float32[s77, 3]
    return relu
"""


def listings(path, *, sources=False) -> Listings:
    records = Records(Container.open(path))
    return Listings(records, records.models, sources=sources)


def text_of(path, *, sources=False) -> str:
    (text,) = listings(path, sources=sources).values()
    return text


def exported(module, *args, **options) -> str:
    """The listing of a module that torch exports now."""
    import io

    file = io.BytesIO()
    torch.export.save(export(module, args, **options), file)
    file.seek(0)
    return text_of(file)


def test_a_small_program_to_the_letter():
    assert text_of(fixture("linear")) == LINEAR


# What the listing of a fixture has

LINES = {
    "nested": [
        "items: [float32[2], float32[2]], table: {'z': float32[2]}",
        "pair: Pair(first=float32[2], second=float32[2]), nothing: Literal[None], *, scale:",
        "flag: Literal[True], text: Literal['x']",
        "items_1 = items[1]",
        "table_z = table['z']",
        "pair_first = pair.first",
        "return {'sum': add_1, 'pair': Pair(first=pair_second, second=mul), 'rest': (None, 5)}",
    ],
    "control_flow": [
        "    def true_graph_0(x: float32[3], p_layer_bias: float32[3],",
        "      sin = torch.ops.aten.sin.default(linear)  # float32[3]",
        "      return sin,",
        "    def while_loop_cond_graph_0(arg0_1: int64[()], arg1_1: float32[3]):",
        "      return lt\n",
        "      return add, mul\n",
        "torch.ops.higher_order.cond(choice, true_graph_0, false_graph_0, [x, p_layer_bias,",
        "dtype=torch.int64, device=torch.device('cpu'), pin_memory=False",
    ],
    "mutating": [
        "b_count = self.count  # buffer float32[2]",
        "b_scratch = self.scratch  # buffer, not persistent float32[2]",
        "c_factor = self.factor  # constant float32[2]",
        "    self.count.copy_(add)\n",
        "    self.scratch.copy_(sub)\n",
        "    x.copy_(mul)\n    return add_2\n",
    ],
    "linear-2.4": [
        "# serialized_exported_program.json: schema 5.3, torch <=2.4, opset aten 10, TRAINING",
        "def forward(self, x: float32[s77, 4]) -> float32[s77, 3]:",
        "torch.ops.aten.relu.default(self=linear)",
    ],
    "nested-2.4": [
        "nothing: Literal[None]",
        "'rest': (None, 5)",
        "args_2: Pair(float32[2], float32[2])",
    ],
    "linear-2.5": ["schema 7.3, torch 2.5.0", "# s77: 2 to 64"],
    "linear-2.8": ["schema 8.8, torch 2.8.0"],
}


@pytest.mark.parametrize("name", LINES)
def test_what_a_listing_has(name):
    text = text_of(fixture(name))
    assert [line for line in LINES[name] if line not in text] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_listing_is_a_syntax_of_python(name):
    for text in listings(fixture(name), sources=True).values():
        (made,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        (forward,) = made.body
        assert isinstance(forward, ast.FunctionDef)


def names_of(record: bytes) -> set[str]:
    """The names of values that are results of nodes, at every depth."""
    found: set[str] = set()

    def visit(value) -> None:
        if isinstance(value, list):
            for item in value:
                visit(item)
        if isinstance(value, dict):
            for output in value.get("outputs", []) if "target" in value else []:
                for item in output.values():
                    items = item if isinstance(item, list) else [item]
                    found.update(i.get("name") or i.get("as_name") for i in items if i)
            for item in value.values():
                visit(item)

    visit(json.loads(record))
    return found


def test_every_program_of_the_corpus(corpus):
    """Each parses, and assigns each result of each node."""
    for path in corpus_files():
        records = Records(Container.open(path))
        for model, text in zip(records.models, listings(path).values(), strict=True):
            tree = ast.parse(text)
            stored = {
                node.id
                for node in ast.walk(tree)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            assert names_of(records.container.read(records.program_record(model))) <= stored


def test_several_models():
    found = listings(fixture("two_models"))
    assert list(found) == ["models/first.py", "models/second.py"]
    assert "class Shared:" in found["models/second.py"]
    with pytest.raises(KeyError):
        found["models/third.py"]


def test_lines_of_source_on_request():
    text = text_of(fixture("linear"), sources=True)
    without = [line for line in text.splitlines() if "cases.py:" not in line]
    assert "return torch.relu(self.layer(x))" in text
    assert "linear.py:" in text
    assert text.count("# ") > LINEAR.count("# ")
    kept = [line for line in without if "torch/nn/modules/" not in line]
    assert kept == LINEAR.splitlines()


# Programs that torch exports now


class Symbols(torch.nn.Module):
    def forward(self, x, n: int):
        return x.reshape(x.shape[0] // 2, 2), x.shape[0] + n


class Kinds(torch.nn.Module):
    def forward(self, x):
        y = x.to(torch.float16).contiguous(memory_format=torch.channels_last)
        return torch.full_like(y, float("inf")), torch.tensor([1, 2]), [y, -y]


@exports_numbers
def test_symbols_are_expressions():
    dims = {"x": {0: 2 * torch.export.Dim("half", min=2, max=8)}, "n": torch.export.Dim.DYNAMIC}
    text = exported(Symbols(), torch.ones(4), 3, dynamic_shapes=dims)
    signature = next(line for line in text.splitlines() if "def forward" in line)
    assert "n: int[s" in signature
    assert ", 2], int[" in signature
    assert " + s" in signature or "*s" in signature


def test_literals():
    text = exported(Kinds(), torch.ones(1, 2, 3, 3))
    assert "dtype=torch.float16" in text or "torch.float16" in text
    assert "torch.channels_last" in text
    assert "float('inf')" in text
    assert ", [" in text.rpartition("return")[2]


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (2, 64, "2 to 64"),
        (2, None, "at least 2"),
        (None, 3, "at most 3"),
        (None, None, "any"),
        (0, (1 << 63) - 2, "at least 0"),
        (-(1 << 63), 5, "at most 5"),
    ],
)
def test_ranges(low, high, text):
    assert range_text(RangeConstraint(low, high)) == text


# What a file may say that is no name


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (name("x\nimport os"), r"'x\nimport os'"),
        (name("lambda"), "'lambda'"),
        (name("x"), "x"),
        (target("torch.ops.aten.add.Tensor"), "torch.ops.aten.add.Tensor"),
        (target("a.b c"), "'a.b c'"),
        (expression("__import__('os')"), "\"__import__('os')\""),
        (expression("Add(Symbol('s0', integer=True), Integer(1))"), "s0 + 1"),
    ],
)
def test_names_that_are_none_are_strings(shown, text):
    assert shown == text


def evil(program) -> None:
    graph = program["graph_module"]["graph"]
    graph["nodes"][1]["target"] = "x\n    import os"
    graph["nodes"][0]["metadata"]["nn_module_stack"] = "a,b\nimport os,c\x1b[2J"
    program["torch_version"] = "2\nimport os"
    program["guards_code"] = ["L['x'] == 1\nimport os"]


def test_a_listing_has_no_line_that_the_file_made_up(tmp_path):
    path = changed(fixture("linear"), MODEL, evil, tmp_path / "a.pt2")
    text = text_of(path, sources=True)
    assert not [line for line in text.splitlines() if line.strip().startswith("import")]
    assert "\x1b" not in text


def malformed(program) -> None:
    program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = "[1, null]"


def test_arguments_whose_nesting_is_unreadable_are_shown_flat(tmp_path):
    path = changed(fixture("nested"), MODEL, malformed, tmp_path / "a.pt2")
    text = text_of(path)
    assert text.count("# arguments are shown taken apart: a tree specification is malformed") == 1
    assert "def forward(self, items_0: float32[2], items_1: float32[2], table_z:" in text
    ast.parse(text)


def test_numbers_as_names_of_modules():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert "= getattr(self, '0').weight  # parameter" in exported(module, torch.ones(2))


def test_code_of_an_archive_is_its_listings():
    with tsarchive.open(fixture("linear")) as archive:
        assert dict(archive.code) == {"models/model.py": LINEAR}


def test_special_values_of_arguments():
    from tsarchive.formats.pt2.schema import Argument, decoded

    rows = {
        "[]": {"as_tensors": []},
        "None": {"as_none": []},
        "complex(1.0, float('-inf'))": {"as_complex": {"real": 1.0, "imag": "-Infinity"}},
        "[x, None]": {"as_optional_tensors": [{"as_tensor": {"name": "x"}}, {"as_none": True}]},
        "{'k': [1, 2]}": {"as_string_to_argument": {"k": {"as_ints": [1, 2]}}},
        "[[x], []]": {"as_nested_tensors": [[{"name": "x"}], []]},
        "torch.float8_e8m0fnu": {"as_scalar_type": 33},
        "torch.device('cuda:1')": {"as_device": {"type": "cuda", "index": 1}},
        "[s, 3]": {"as_sym_ints": [{"as_name": "s"}, {"as_int": 3}]},
    }
    for text, value in rows.items():
        assert argument(decoded(Argument, value, "test")) == text


def literals(program) -> None:
    """Literals where the format allows them beside values."""
    module = program["graph_module"]
    graph = module["graph"]
    given = {"as_sym_int": {"as_int": 3}}
    inner = {**graph, "nodes": [], "inputs": [given, {"as_float": 1.5}], "outputs": [given]}
    call = {"as_graph": {"name": "inner", "graph": inner}}
    node = {**graph["nodes"][1], "inputs": [{"name": "", "arg": call, "kind": 1}]}
    optional = {"as_optional_tensor": {"as_tensor": {"name": "some"}}}
    sizes = {"as_sym_ints": [{"as_name": "s"}, {"as_int": 3}]}
    graph["nodes"].append({**node, "outputs": [{"as_int": 2}, {"as_none": True}, optional, sizes]})


def test_literals_in_the_place_of_values(tmp_path):
    text = text_of(changed(fixture("linear"), MODEL, literals, tmp_path / "a.pt2"))
    ast.parse(text)
    assert "    def inner(_: Literal[3], _: Literal[1.5]):\n      return 3,\n" in text
    assert "    _, _, some, [s, _] = torch.ops.aten.relu.default(inner)  # int, None, ?" in text
