"""Each construct of serialized code: its graph, and that it prints again as it was."""

from __future__ import annotations

import math

import pytest

from tests.support.frontend import constant_of, function_of, kinds, only, reprinted, walk
from tsarchive.ir.constants import Device, EnumMember, TableConstant
from tsarchive.ir.graph import MAX_TRIP_COUNT
from tsarchive.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    STRING,
    TENSOR,
    DictType,
    HandleType,
    OptionalType,
    TupleType,
    UnionType,
    annotation,
)

TYPES = """class Color(Enum):
  RED = 1
  BLUE = 2
class Point(NamedTuple):
  x : Tensor
  y : int
class Shape(Interface):
  def area(self, scale: float) -> Tensor:
    pass
class Counter:
  count : int
  inner : __torch__.Shape
  def __init__(self: __torch__.Counter,
    start: int) -> NoneType:
    self.count = start
    return None
  def __enter__(self: __torch__.Counter) -> int:
    return self.count
  def __exit__(self: __torch__.Counter,
    kind: Any,
    value: Any,
    trace: Any) -> NoneType:
    return None
  def add(self: __torch__.Counter,
    n: int=1) -> int:
    count = self.count
    self.count = torch.add(count, n)
    return self.count
def a_function_with_a_name_that_is_long(x: Tensor) -> Tensor:
  return torch.neg(x)
def double(x: Tensor,
    times: float=2.) -> Tensor:
  return torch.mul(x, times)
"""

# Bodies of `def f(PARAMETERS) -> Any`, as torch prints them.
PARAMETERS = """x: Tensor,
    i: int,
    b: bool,
    xs: List[Tensor],
    named: Dict[str, int],
    o: Optional[Tensor],
    a: Any,
    color: __torch__.Color,
    point: __torch__.Point,
    counter: __torch__.Counter,
    shape: __torch__.Shape"""
BODIES = {
    "none": "return None",
    "operator": "return torch.add(x, x, alpha=2)",
    "nested calls": "return torch.add(torch.mul(x, 2), x)",
    "temporary": "_0 = torch.relu(x)\nreturn torch.add(_0, _0)",
    "named": "y = torch.relu(x)\nreturn torch.neg(y)",
    "several results": "values, indices = torch.max(x, 0)\nreturn torch.add(values, indices)",
    "unused results": "_0, _1 = torch.max(x, 0)\nreturn _0",
    "statement": "_0 = torch.append(xs, x)\nreturn None",
    "no result": 'ops.prim.RaiseException("no", "builtins.ValueError")\nreturn None',
    "print": "print(x, 1)\nreturn None",
    "casts": "return (int(x), float(x), bool(x), str(x))",
    "implicit casts": "_0 = (annotate(int, x), annotate(float, x), annotate(number, x))\nreturn _0",
    "constants": '_0 = (1, -1, 2., -0., inf, -inf, "text", True, None)\nreturn _0',
    "complex": "return (1.+2.j, -1.-infj, 0.+0.j)",
    "device": 'return torch.device("cuda:0")',
    "table": "return torch.add(x, CONSTANTS.c1)",
    "enum": "_0 = (__torch__.Color.RED, (color).value, (color).name)\nreturn _0",
    "list": "return [i, 2, 3]",
    "empty list": "return annotate(List[int], [])",
    "list of optionals": "_0 = annotate(List[Optional[int]], [i, None])\nreturn _0",
    "dict": 'return {"a": i, "b": 2}',
    "empty dict": "return annotate(Dict[str, Tensor], {})",
    "tuple": "return (x, i)",
    "tuple of one": "return (x,)",
    "empty tuple": "return ()",
    "tuple index": "_0 = (x, i)\nreturn ((_0)[0], _0)",
    "tuple slice": "_0 = (x, i, b)\nreturn ((_0)[0:2], _0)",
    "unpack tuple": "y, n, = point\nreturn (n, y)",
    "unpack list": "y, z, = xs\nreturn (z, y)",
    "unpack one": "y, = xs\nreturn y",
    "named tuple": "return __torch__.Point(x, 1)",
    "element": '_0 = (named["k"], xs[0], (torch.split(x, 1))[0])\nreturn _0',
    "attribute": "count = counter.count\nreturn torch.add(count, i)",
    "assign attribute": "counter.count = i\nreturn None",
    "method": "return (counter).add(3, )",
    "method without arguments": "return (counter).__enter__()",
    "interface": "return (shape).area(2., )",
    "new object": (
        "_0 = __torch__.Counter.__new__(__torch__.Counter)\n_1 = (_0).__init__(1, )\nreturn _0"
    ),
    "function": "return __torch__.double(x, 2., )",
    "function twice": (
        "_0 = __torch__.a_function_with_a_name_that_is_long\nreturn [_0(x, ), _0(x, )]"
    ),
    "unwrap": "return torch._unwrap_optional(o)",
    "unwrap none": "_0 = torch._unwrap_optional(annotate(Optional[Tensor], None))\nreturn _0",
    "unchecked cast": "o0 = unchecked_cast(Tensor, o)\nreturn torch.neg(o0)",
    "isinstance": "_0 = isinstance(a, int)\n_1 = isinstance(a, (str, List[int]))\nreturn (_0, _1)",
    "tolist": "return annotate(List[float], x.tolist())",
    "uninitialized": "y = uninitialized(Tensor)\nreturn (y, y)",
    "if": "if b:\n  y = torch.relu(x)\nelse:\n  y = x\nreturn y",
    "if without results": (
        'if b:\n  pass\nelse:\n  ops.prim.RaiseException("no")\nreturn x'
    ),
    "if optional": "if b:\n  y : Optional[Tensor] = x\nelse:\n  y = None\nreturn y",
    "if two": "if b:\n  y, z = x, 1\nelse:\n  y, z = torch.neg(x), i\nreturn (y, z)",
    "nested if": (
        "if b:\n  if torch.gt(i, 0):\n    y0 = x\n  else:\n    y0 = torch.neg(x)\n  y = y0\n"
        "else:\n  y = x\nreturn y"
    ),
    "for": "y = x\nfor n in range(i):\n  y0 = torch.add(y, n)\n  y = torch.relu(y0)\nreturn y",
    "for without carried": "for _0 in range(3):\n  print(x)\nreturn None",
    "for two": (
        "y = x\nz = i\nfor n in range(torch.len(xs)):\n"
        "  y, z = torch.add(y, xs[n]), torch.add(z, n)\nreturn (y, z)"
    ),
    "for optional": (
        "y: Optional[Tensor] = None\nfor n in range(i):\n  y = xs[n]\nreturn y"
    ),
    "while": (
        "n = 0\n_0 = torch.lt(0, i)\nwhile _0:\n  n0 = torch.add(n, 1)\n"
        "  _0, n = torch.lt(n0, i), n0\nreturn n"
    ),
    "while true": "_0 = True\nwhile _0:\n  print(i)\n  _0 = True\nreturn None",
    "nested loops": (
        "y = x\nfor n in range(i):\n  y0 = y\n  for m in range(n):\n    y0 = torch.add(y0, m)\n"
        "  y = y0\nreturn y"
    ),
    "with": "with counter:\n  y = torch.relu(x)\nreturn y",
    "with as": "with counter as n:\n  y = torch.add(x, n)\nreturn y",
    "with pass": "with counter:\n  pass\nreturn None",
    "fork": (
        "def __forked_function():\n  y = torch.add(x, i)\n  return torch.relu(y)\n"
        "_0 = fork(__forked_function)\nreturn torch.wait(_0)"
    ),
    "awaitable": (
        "def __awaitable_function():\n  return torch.relu(x)\n"
        "_0 = awaitable(__awaitable_function)\nreturn ops.prim.awaitable_wait(_0)"
    ),
    "long string": (
        '_0 = "a text that is too long to stand inside of the expression that uses it"\n'
        "print(_0)\nreturn _0"
    ),
    "keywords": "_0 = torch.sum(x, dtype=6)\nreturn torch.ones([2], dtype=7)",
    "out": "return torch.add(x, x, out=x)",
    "names": "x0 = torch.relu(x)\nx3 = torch.relu(x0)\nx1 = torch.relu(x3)\nreturn torch.relu(x1)",
}  # fmt: skip


def record_with(body: str) -> str:
    lines = "".join(f"  {line}\n" for line in body.splitlines())
    return f"{TYPES}def f({PARAMETERS}) -> Any:\n{lines}"


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_prints_again_as_it_was(body):
    text = record_with(body)
    assert reprinted(text) == text


def graph_of(body):
    return function_of(record_with(body)).graph


def value_of(expression):
    return graph_of(f"return {expression}").returns[0]


@pytest.mark.parametrize(
    ("expression", "value", "type_"),
    [
        ("1", 1, INT),
        ("-9223372036854775808", -(2**63), INT),
        ("1.", 1.0, FLOAT),
        ("1e+17", 1e17, FLOAT),
        ("-inf", -math.inf, FLOAT),
        ("infj", complex(0, math.inf), None),
        ("1.+2.j", 1 + 2j, None),
        ("1.-infj", complex(1, -math.inf), None),
        ("True", True, BOOL),
        ("None", None, NONE),
        ('"a\\tb"', "a\tb", STRING),
        ('"\\303\\251"', "é", STRING),
        ('"é\\303\\251"', "éé", STRING),
        ("'a' \"b\"", "ab", STRING),
        ('torch.device("cpu")', Device("cpu"), None),
        ("CONSTANTS.c3", TableConstant(3), TENSOR),
        ("(1, (2., None))", (1, (2.0, None)), TupleType((INT, TupleType((FLOAT, NONE))))),
        ("annotate(Optional[int], None)", None, OptionalType(INT)),
        ("annotate(Union[int, str, NoneType], None)", None, UnionType((INT, NONE, STRING))),
        ("isinstance(i, int)", True, BOOL),
        ("isinstance(i, (str, Tensor))", False, BOOL),
    ],
)
def test_constants(expression, value, type_):
    found = value_of(expression)
    assert constant_of(found) == value
    assert type(constant_of(found)) is type(value)
    if type_ is not None:
        assert found.type == type_


def test_nan_is_a_constant():
    assert math.isnan(constant_of(value_of("nan")))
    assert math.isnan(constant_of(value_of("1.5-nanj")).imag)


def test_enum_members_are_constants():
    found = constant_of(value_of("__torch__.Color.BLUE"))
    assert isinstance(found, EnumMember)
    assert (found.name, found.value) == ("BLUE", 2)


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("[1, 2.]", "List[Union[float, int]]"),
        ("[1, None]", "List[Optional[int]]"),
        ("[x, o]", "List[Optional[Tensor]]"),
        ("[]", "List[Tensor]"),
        ("{}", "Dict[str, Tensor]"),
        ('{"a": 1, "b": x}', "Dict[str, Union[Tensor, int]]"),
        ("annotate(List[Any], [1])", "List[Any]"),
        ("annotate(Optional[List[int]], [])", "List[int]"),
        ("(x, o)", "Tuple[Tensor, Optional[Tensor]]"),
        ("__torch__.Point(x, 1)", "__torch__.Point"),
        ("__torch__.Point(y=1, x=x)", "__torch__.Point"),
        ("point.y", "int"),
        ("xs[0]", "Tensor"),
        ("xs[1:]", "List[Tensor]"),
        ("point[1]", "int"),
        ("torch.max(x, 0)", "Tuple[Tensor, Tensor]"),
        ("i if b else None", "Optional[int]"),
        ("b and i > 1", "bool"),
        ("x.shape", "List[int]"),
        ("__torch__.Counter(1)", "__torch__.Counter"),
    ],
)
def test_types_of_expressions(expression, type_):
    assert annotation(value_of(expression).type) == type_


def test_equal_constants_are_one_node():
    graph = graph_of("return (torch.add(x, 1), torch.add(x, 1.), torch.mul(x, 1))")
    ones = [node for node in walk(graph) if node.is_constant and constant_of(node.output) == 1]
    assert sorted(type(constant_of(node.output)).__name__ for node in ones) == ["float", "int"]
    assert all(node.is_constant for node in graph.nodes[: len(ones)])


def test_aliases_are_no_nodes():
    graph = graph_of("y = x\nz = y\nreturn z")
    assert graph.nodes == []
    assert graph.returns == [graph.params[0]]


def test_values_carry_the_name_of_their_first_variable():
    graph = graph_of("y = torch.relu(x)\nz = y\n_0 = torch.neg(z)\nreturn _0")
    assert [node.output.name for node in graph.nodes] == ["y", None]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("n = counter.count", "n"),
        ("_0 = counter.count", None),
        ("count = counter.count", "count"),
    ],
)
def test_attribute_reads_keep_the_name_in_the_text(line, name):
    node = only(graph_of(f"{line}\nreturn None"), "prim::GetAttr")
    assert node.output.name == name


def test_if_outputs_follow_the_order_of_assignment():
    graph = graph_of("if b:\n  z, y = 1, x\nelse:\n  z, y = 2, torch.neg(x)\nreturn (z, y)")
    node = only(graph, "prim::If")
    assert [value.name for value in node.outputs] == ["z", "y"]
    assert [constant_of(block.returns[0]) for block in node.blocks] == [1, 2]


def test_a_name_assigned_in_one_branch_keeps_its_old_value_in_the_other():
    graph = graph_of("y = torch.relu(x)\nif b:\n  y = torch.neg(y)\nreturn y")
    node = only(graph, "prim::If")
    assert node.blocks[1].returns == [only(graph, "aten::relu").output]
    assert graph.returns == node.outputs


def test_an_if_on_a_literal_compiles_only_the_branch_taken():
    assert kinds(graph_of("if True:\n  y = torch.relu(x)\nelse:\n  y = nothing\nreturn y")) == [
        "aten::relu"
    ]
    assert kinds(graph_of("if not True:\n  y = nothing\nelse:\n  y = x\nreturn y")) == []


def test_while_does_not_carry_its_condition():
    graph = graph_of(BODIES["while"])
    loop = only(graph, "prim::Loop")
    assert constant_of(loop.inputs[0]) == MAX_TRIP_COUNT
    assert len(loop.inputs) == 3
    assert [value.name for value in loop.outputs] == ["n"]
    assert loop.blocks[0].returns[0].node.kind == "aten::lt"


def test_while_carries_a_condition_that_is_used_afterwards():
    graph = graph_of(BODIES["while"].replace("return n", "return (n, _0)"))
    assert len(only(graph, "prim::Loop").outputs) == 2


def test_loop_variables_keep_the_type_from_before():
    graph = graph_of("y: Optional[Tensor] = x\nfor n in range(i):\n  y = None\nreturn y")
    (output,) = only(graph, "prim::Loop").outputs
    assert output.type == OptionalType(TENSOR)


def test_a_loop_counter_that_existed_keeps_its_last_value():
    graph = graph_of("n = 0\nfor n in range(i):\n  print(n)\nreturn n")
    loop = only(graph, "prim::Loop")
    assert loop.blocks[0].returns[1] is loop.blocks[0].params[0]


def test_assigning_in_a_block_converts_to_the_outer_type():
    graph = graph_of("y = 1.\nif b:\n  y = torch.sum(x)\nreturn y")
    assert "aten::FloatImplicit" in kinds(graph)


def test_closures_capture_in_order_of_first_use():
    graph = graph_of(
        "def __forked_function():\n  y = torch.mul(i, 2)\n  return torch.add(torch.add(x, y), i)\n"
        "_0 = fork(__forked_function)\nreturn _0"
    )
    node = only(graph, "prim::fork")
    assert node.inputs == [graph.params[1], graph.params[0]]
    assert node.output.type == HandleType("Future", TENSOR)
    assert [param.type for param in node.attributes["subgraph"].params] == [INT, TENSOR]


def test_closures_have_their_own_constants():
    text = BODIES["fork"].replace("i)", "1)").replace("wait(_0)", "add(torch.wait(_0), 1)")
    graph = graph_of(text)
    body = only(graph, "prim::fork").attributes["subgraph"]
    assert body.nodes[0].is_constant
    assert graph.nodes[0].is_constant


def test_conditions_narrow_the_variable_they_ask_about():
    body = "if isinstance(a, int):\n  y = a + 1\nelse:\n  y = 0\nreturn y"
    assert "prim::unchecked_cast" in kinds(graph_of(body))
    body = "if o is None:\n  y = x\nelse:\n  y = torch.neg(o)\nreturn y"
    assert "aten::neg" in kinds(graph_of(body))
    body = "if x is None:\n  y = nothing\nelse:\n  y = x\nreturn y"
    assert kinds(graph_of(body)) == []


def test_dicts_are_typed_by_key_and_value():
    assert value_of('{"a": 1}').type == DictType(STRING, INT)
    assert value_of('annotate(Dict[str, Any], {"a": 1})').type == DictType(STRING, ANY)


def test_older_forms():
    assert "prim::unchecked_unwrap_optional" in kinds(
        graph_of("return ops.prim.unchecked_unwrap_optional(o)")
    )
    assert kinds(graph_of("return ops.prim.NumToTensor(i)")) == ["prim::NumToTensor"]
    assert kinds(graph_of("return ops.prim.shape(x)")) == ["prim::shape"]
    assert kinds(graph_of("return torch.autograd.grad([x], [x])")) == [
        "prim::ListConstruct", "prim::ListConstruct", "aten::grad",
    ]  # fmt: skip


def text_of(place) -> str:
    """The text of a code record at a place."""
    lines = [line.encode() for line in place.places.lines[place.line - 1 : place.end_line]]
    lines[-1] = lines[-1][: place.end_column]
    lines[0] = lines[0][place.column :]
    return b"\n".join(lines).decode()


BODY_OF_CALLS = """    y = torch.add(torch.mul(x, x), x,
      alpha=2)
    return torch.relu("é", y) if False else torch.relu(y)
"""


@pytest.mark.parametrize("name", ["f", "M.f"])
def test_nodes_tell_where_their_text_begins_and_ends(name):
    header = "  def f(self: __torch__.M,\n    x: Tensor) -> Tensor:\n"
    text = f"class M(Module):\n{header}{BODY_OF_CALLS}def f(x: Tensor) -> Tensor:\n{BODY_OF_CALLS}"
    nodes = [node for node in walk(function_of(text, name).graph) if not node.is_constant]
    assert {node.kind: text_of(node.place) for node in nodes} == {
        "aten::mul": "torch.mul(x, x)",
        "aten::add": "torch.add(torch.mul(x, x), x,\n      alpha=2)",
        "aten::relu": "torch.relu(y)",
    }
