"""The generated Python source: how it reads, what it withstands, where it shows up."""

from __future__ import annotations

import gc
import inspect
import keyword
import linecache
import traceback
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.running import Graph, constant, operator, our_module, ours, scripted, source
from tsarchive.errors import PolicyError, ScriptError
from tsarchive.ir.graph import Block, Value
from tsarchive.ir.types import BOOL, INT, TENSOR
from tsarchive.policy import Guard, Policy
from tsarchive.run.classes import Classes
from tsarchive.run.expressions import LocalNames
from tsarchive.run.linkage import source_of


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, n: int):
        y = torch.relu(self.layer(x))
        for _ in range(n):
            y = y * 2
        return y.reshape([2, -1])


def test_it_reads_like_python():
    module = our_module(torch.jit.script(Small()))
    module(torch.ones(1, 2), 1)
    forward = module.tsarchive_class.methods["forward"]
    text = source_of(module.tsarchive_classes.compiler.function(forward).compile())
    assert text.splitlines() == [
        "def forward(self, x, n):",
        "    layer = self.__dict__['_modules']['layer']",
        "    if own := plain_members(layer, Linear):",
        "        parameters = own['_parameters']",
        "        forward_1 = aten_linear(x, "
        "(parameters['weight'] if 'weight' in parameters else find_parameter(layer, 'weight')), "
        "(parameters['bias'] if 'bias' in parameters else find_parameter(layer, 'bias'))); del x",
        "    else:",
        "        forward_1 = call_module(layer, (x, x := None)[0])",
        "    y = aten_relu(forward_1); del forward_1",
        "    for _ in range(n):",
        "        y = aten_mul_Scalar(y, 2)",
        "    y = aten_reshape(y, ints)",
        "    return y",
    ]


HOSTILE = [
    *keyword.kwlist, *keyword.softkwlist, "", "é", "x y", "a\nb", "1abc", "_", "__builtins__",
    "__class__", "range", "self", "__import__('os').system('false')", "x" * 500, "#", "'", "\\",
    "aten_add_int", "BaseException", "f",
]  # fmt: skip


def summed(names: list[str]):
    """A function that adds arguments of these names."""
    graph = Graph(f"__torch__.{names[0] or 'f'}")
    params = [graph.param(INT, name) for name in names]
    total = params[0]
    for param in params[1:]:
        total = operator(graph.block, "aten::add.int", total, param, name=param.name)
    return graph.function(total)


def test_hostile_names():
    function = Classes().compiler.function(summed(HOSTILE))
    assert function(*range(len(HOSTILE))) == sum(range(len(HOSTILE)))


@given(st.lists(st.text(max_size=8), min_size=1, max_size=8))
def test_any_text_as_a_name(names):
    assert Classes().compiler.function(summed(names))(*range(len(names))) == sum(range(len(names)))


@given(st.lists(st.text(max_size=6) | st.sampled_from(HOSTILE), max_size=30))
def test_names_are_distinct_identifiers(candidates):
    names = LocalNames()
    made = [names.unique(candidate) for candidate in candidates]
    assert len(set(made)) == len(made)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in made)
    assert not any(name.startswith("_") for name in made)


CONSTANTS = [
    0, -1, 2**63 - 1, -(2**63), True, 0.0, -0.0, 1.5, 1e300, 5e-324, float("inf"), float("-inf"),
    float("nan"), 1 + 2j, complex(-0.0, float("nan")), "", "'\"\\\n\0", "é\udc80", None,
    (1, (2.5, "a")), (), [1, 2], {"a": [1]}, tuple(range(50)),
]  # fmt: skip


@pytest.mark.parametrize("value", CONSTANTS, ids=ascii)
def test_constants_come_out_as_they_went_in(value):
    graph = Graph()
    function = graph.function(constant(graph.block, value, TENSOR))
    assert repr(Classes().compiler.function(function)()) == repr(value)


def nested(block: Block, depth: int, kind: str, test: Value, x: Value) -> Value:
    """``depth`` ifs, loops or both inside each other, around adding one."""
    if depth == 0:
        return operator(block, "aten::add.int", x, constant(block, 1, INT), name="x")
    kind_here = kind if kind != "mixed" else ("if", "loop")[depth % 2]
    if kind_here == "if":
        node = block.append("prim::If", [test])
        true, false = node.add_block(), node.add_block()
        true.add_return(nested(true, depth - 1, kind, test, x))
        false.add_return(x)
        return node.add_output(INT, "x")
    always = constant(block, True, BOOL)
    node = block.append("prim::Loop", [constant(block, 1, INT), always, x])
    body = node.add_block()
    body.add_param(INT, "i")
    param = body.add_param(INT, "x")
    result = nested(body, depth - 1, kind, test, param)
    body.add_return(always)
    body.add_return(result)
    return node.add_output(INT, "x")


@pytest.mark.parametrize("depth", [1, 15, 16, 17, 18, 33, 34, 35, 100])
@pytest.mark.parametrize("kind", ["if", "loop", "mixed"])
def test_deep_nesting(kind, depth):
    graph = Graph()
    test, x = graph.param(BOOL, "test"), graph.param(INT, "x")
    function = Classes().compiler.function(
        graph.function(nested(graph.block, depth, kind, test, x))
    )
    assert function(True, 5) == 6
    assert function(False, 5) == (5 if "if" in kind or (kind == "mixed" and depth > 1) else 6)


def test_nested_with_statements():
    depth = 30
    opened = "".join(f"{'    ' * (i + 1)}with torch.no_grad():\n" for i in range(depth))
    text = f"def f(x: Tensor):\n{opened}{'    ' * (depth + 1)}y = x * 2\n    return y, x * 3\n"
    doubled, tripled = ours(scripted(text))(torch.ones(1, requires_grad=True))
    assert (doubled.requires_grad, tripled.requires_grad) == (False, True)


def test_long_functions():
    count = 5000
    graph = Graph()
    x = graph.param(INT, "x")
    one = constant(graph.block, 1, INT)
    for _ in range(count):
        x = operator(graph.block, "aten::add.int", x, one, name="x")
    assert Classes().compiler.function(graph.function(x))(0) == count


def test_many_arguments():
    names = [f"x{number}" for number in range(1000)]
    assert Classes().compiler.function(summed(names))(*range(1000)) == sum(range(1000))


FAILING = "def f(x: Tensor, l: List[int]):\n    y = x + 1\n    return y + l[7]\n"


def test_tracebacks_show_the_generated_line():
    with pytest.raises(ScriptError) as caught:
        ours(scripted(FAILING))(torch.ones(1), [1])
    shown = "".join(traceback.format_tb(caught.value.__traceback__))
    assert 'File "<tsarchive f' in shown
    assert "getitem = l[7]" in shown


def test_inspect_finds_the_source_while_the_function_lives():
    classes = Classes()
    function = summed(["a", "b"])
    compiled = classes.compiler.function(function).compile()
    filename = compiled.__code__.co_filename
    assert inspect.getsource(compiled).startswith("def a(a_1, b):")
    assert source(function) == inspect.getsource(compiled)
    gone = weakref.ref(compiled)
    del compiled, classes
    gc.collect()
    assert gone() is None
    assert filename not in linecache.cache


def test_two_functions_of_one_name_keep_their_sources():
    first = Classes().compiler.function(summed(["a", "b"])).compile()
    second = Classes().compiler.function(summed(["a", "b", "c"])).compile()
    assert first.__code__.co_filename != second.__code__.co_filename
    assert (first(1, 2), second(1, 2, 3)) == (3, 6)
    assert "c" not in inspect.signature(first).parameters


def test_tensors_go_when_they_are_used_up():
    """No more than two results of a chain are alive at once, as in eager code."""
    graph = Graph()
    x = graph.param(TENSOR, "x")
    for number in range(10):
        x = operator(graph.block, "aten::relu", x, name="abcdefghij"[number])
    text = source(graph.function(x))
    assert text.count("del ") == 10
    assert "d = aten_relu(c); del c" in text


@pytest.mark.parametrize("names", [["x"], [None], ["x", None], ["x_1", "x2", None]], ids=str)
def test_a_result_takes_the_variable_of_a_tensor_that_goes(names):
    graph = Graph()
    x = graph.param(TENSOR, "x")
    for name in names * 3:
        x = operator(graph.block, "aten::relu", x, name=name)
    text = source(graph.function(x))
    assert text.splitlines()[1:] == ["    x = aten_relu(x)"] * len(names) * 3 + ["    return x"]


def test_a_variable_is_not_taken_before_the_last_use():
    graph = Graph()
    x = graph.param(TENSOR, "x")
    one = operator(graph.block, "aten::relu", x)
    two = operator(graph.block, "aten::add.Tensor", x, one, constant(graph.block, 1, INT))
    three = operator(graph.block, "aten::mul.Tensor", one, two)
    function = graph.function(three)
    value = torch.tensor([-2.0, 3.0])
    assert Classes().compiler.function(function)(value).tolist() == [0.0, 18.0]
    assert "add = " not in source(function)  # it is in the variable of x


def test_a_policy_can_refuse_operators():
    graph = Graph()
    function = graph.function(operator(graph.block, "aten::set_", graph.param(TENSOR)))
    with pytest.raises(PolicyError, match="by_hand names the operator aten::set_") as caught:
        Classes().compiler.function(function)(torch.ones(1))
    assert caught.value.operator == "aten::set_"
    assert caught.value.line is None
    allowing = Guard(Policy.default().allow("aten::set_"))
    Classes(guard=allowing).compiler.function(function)(torch.ones(1))
