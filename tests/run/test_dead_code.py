"""Code whose result nobody uses does not run, in the cases where torch does not run it."""

from __future__ import annotations

import io
import math

import pytest
import torch

import tsarchive
from tests.support.comparing import equal
from tests.support.running import check_same, hand_written, method, outcome
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import (
    DictType,
    HandleType,
    ListType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    VarType,
)
from tsarchive.operators.effects import WITH_EFFECTS
from tsarchive.run.operators import operator_schemas

# What runs is seen by the random numbers that the last line draws, or by errors.
KEPT_AND_DROPPED = {
    "a draw": "r = torch.rand([2])",
    "a fill": "z = torch.zeros([2])\n_0 = torch.uniform_(z)",
    "a fill of the argument": "_0 = torch.uniform_(x)",
    "a fill of a view of the argument": "z = torch.view(x, [-1])\n_0 = torch.uniform_(z)",
    "a fill of a sum": "z = torch.add(x, 1)\n_0 = torch.uniform_(z)",
    "a fill of a list item": "z = torch.zeros([2])\nl = [z]\n_0 = torch.uniform_(z)",
    "a fill of a buffer": "z = self.buffer\n_0 = torch.uniform_(z)",
    "a fill of a parameter's data": "_0 = torch.uniform_(torch.detach(self.weight))",
    "a fill of what was concatenated":
        "z = torch.zeros([2])\ny = torch.cat([z, x])\n_0 = torch.uniform_(z)",
    "a change of listed arguments": "torch._foreach_add_([x], 1)",
    "a change of an attribute's items": "torch._foreach_add_([self.buffer, x], [x, x])",
    "a change of a list that is dropped": "l = [torch.zeros([2])]\ntorch._foreach_add_(l, 1)",
    "an if": "if bool(torch.gt(torch.sum(x), 0)):\n  y = torch.rand([2])\nelse:\n  y = x",
    "a for": "y = x\nfor i in range(3):\n  y = torch.rand([2])",
    "a fill in a loop": "y = torch.zeros([2])\nfor i in range(3):\n  _0 = torch.uniform_(y)",
    "a while":
        "k = 0\nc = torch.lt(k, 3)\nwhile c:\n  y = torch.rand([2])\n  k = torch.add(k, 1)\n"
        "  c = torch.lt(k, 3)",
    "errors": "_0 = torch.view(x, [7])\n_1 = [1][5]\n_2 = int(\"abc\")",
    "an empty optional": "_0 = torch._unwrap_optional(annotate(Optional[int], None))",
    "a missing key": "d = {\"a\": x}\n_0 = d[\"b\"]",
    "unpacking": "l = [1, 2, 3]\na, b, = l",
    "dropout": "_0 = torch.dropout(x, 0.5, True)",
    "an append": "l = annotate(List[int], [])\n_0 = torch.append(l, torch.len(self.items))",
    "an append to an attribute": "l = self.items\n_0 = torch.append(l, 5)",
    "a length": "_0 = torch.len([torch.rand([2]), x])\nself.number = _0",
    "an attribute": "self.number = torch.add(self.number, 1)",
    "an assertion": "if torch.eq(self.number, 9):\n  pass\nelse:\n  "
        "ops.prim.RaiseException(\"AssertionError: no\")",
    "a call": "_0 = (self).draws(x, )",
    "a call that writes": "_0 = (self).writes(x, )",
    "a call that prints": "_0 = (self).prints(x, )",
    "a call of a call": "_0 = (self).calls(x, )",
    "half of a call": "a, b, = (self).pair(x, )\n_0 = torch.add_(x, a)",
    "a tuple": "_0 = (torch.rand([2]), x)\na, b, = _0\n_1 = torch.add_(x, b)",
    "a fork": "def __forked_function():\n  return torch.rand([2])\n_0 = fork(__forked_function)",
    "a fork that is waited for":
        "def __forked_function():\n  return torch.rand([2])\n_0 = fork(__forked_function)\n"
        "_1 = torch.wait(_0)",
    "an awaitable":
        "def __awaitable_function():\n  return torch.rand([2])\n"
        "_0 = awaitable(__awaitable_function)",
    "an awaitable that is waited for":
        "def __awaitable_function():\n  return torch.rand([2])\n"
        "_0 = awaitable(__awaitable_function)\n_1 = ops.prim.awaitable_wait(_0)",
    "a seed": "torch.manual_seed(9)",
    "gradient mode": "torch.set_grad_enabled(False)\n_0 = torch.mul_(x, 2)\n"
        "torch.set_grad_enabled(True)",
}  # fmt: skip
HELPERS = (
    method("return torch.rand([2])", "draws(self, x: Tensor) -> Tensor")
    + method("_0 = torch.add_(x, 1)\nreturn torch.rand([2])", "writes(self, x: Tensor) -> Tensor")
    + method('print("seen")\nreturn torch.rand([2])', "prints(self, x: Tensor) -> Tensor")
    + method(
        "_0 = (self).draws(x, )\nreturn (self).writes(x, )", "calls(self, x: Tensor) -> Tensor"
    )
    + method("return (x, torch.rand([2]))", "pair(self, x: Tensor) -> Tuple[Tensor, Tensor]")
)


def both(data: bytes):
    """The module of an archive of this process, by torch.jit and by tsarchive."""
    ours = tsarchive.load(io.BytesIO(data), policy=tsarchive.Policy.trusted())
    return torch.jit.load(io.BytesIO(data)), ours


@pytest.mark.parametrize("body", KEPT_AND_DROPPED.values(), ids=KEPT_AND_DROPPED)
def test_what_runs(body, capfd):
    result = "return (torch.rand([2]), x, self.buffer, self.items, self.number)"
    signature = "forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, List[int], int]"
    data = hand_written(method(f"{body}\n{result}", signature) + HELPERS)
    theirs, mine = both(data)
    expected = outcome(theirs, torch.tensor([1.0, 2.0]))
    printed = capfd.readouterr().out
    found = outcome(mine, torch.tensor([1.0, 2.0]))
    assert found[0] == expected[0], (expected, found)
    assert expected[0] == "error" or equal(expected[1], found[1]), (expected[1], found[1])
    assert capfd.readouterr().out == printed


def ir_type(type_: Type) -> str | None:
    """The type in the text form of torch's graphs; None for those that cannot be written."""
    names = {"list": "int[]", "tuple": "(int, int)", "number": "Scalar"}
    unwritable = {"AnyEnumType", "AnyClassType", "Capsule", "Quantizer", "PyObject"}
    match type_:
        case SimpleType(name):
            return None if name in unwritable else names.get(name, name)
        case VarType():
            return "Tensor"
        case ClassType():
            return type_.qualified_name
    parts = [ir_type(part) for part in type_.parts()]
    if None in parts:
        return None
    match type_:
        case OptionalType():
            return f"{parts[0]}?"
        case ListType():
            return f"{parts[0]}[]"
        case DictType():
            return f"Dict(str, {parts[1]})"
        case TupleType():
            return f"({', '.join(parts)})"
        case HandleType(kind):
            return f"{kind}({parts[0]})"
    return None


def is_kept(schema) -> bool | None:
    """Whether torch's dead code removal keeps a call without used results; None: no answer."""
    given = [ir_type(argument.type) for argument in schema.arguments]
    made = [ir_type(result.type) for result in schema.returns]
    if schema.is_vararg or schema.is_varret or None in given + made:
        return None
    params = ", ".join(f"%x{i} : {type_}" for i, type_ in enumerate(given))
    results = ", ".join(f"%y{i} : {type_}" for i, type_ in enumerate(made))
    values = ", ".join(f"%x{i}" for i in range(len(given)))
    call = f"{results}{' = ' if results else ''}{schema.name}({values})"
    try:
        graph = torch._C.parse_ir(
            f"graph({params}):\n  {call}\n  %z : NoneType = prim::Constant()\n  return (%z)"
        )
        torch._C._jit_pass_dce(graph)
    except RuntimeError:
        return None
    return any(node.kind() == schema.name for node in graph.nodes())


def test_operators_with_effects_are_those_that_torch_keeps():
    names = dict.fromkeys(schema.name for schema in torch._C._jit_get_all_schemas())
    del names["prim::awaitable_wait"]  # kept where the graph makes the awaitable, as above
    asked = 0
    for name in names:
        for schema in operator_schemas(name):
            writes = any(argument.is_write for argument in schema.arguments)
            if writes or not name.startswith(("aten::", "prim::")) or "builtin" in schema.overload:
                continue
            kept = is_kept(schema)
            asked += kept is not None
            assert kept is None or kept == (name in WITH_EFFECTS), schema.full_name
    assert asked > 2000


def test_gradients_of_what_is_kept():
    data = hand_written(
        method("y = torch.mul(x, self.weight)\n_0 = torch.rand([2])\nreturn torch.sum(y)")
    )
    theirs, mine = both(data)
    for module in (theirs, mine):
        module(torch.tensor([1.0, 2.0])).backward()
    assert equal(theirs.weight.grad, mine.weight.grad)
    check_same(theirs, mine, torch.tensor([1.0, 2.0]))


# torch decides these before it runs the code, by types and by what the two sides are.
COMPARED_WITH_ITSELF = {
    "float": ("x: float", (math.nan, 1.0)),
    "int": ("x: int", (2**63 - 1,)),
    "list": ("x: List[float]", ([math.nan], [])),
    "complex": ("x: complex", (complex(math.nan, 0), 1j)),
    "tensor": ("x: Tensor", (torch.tensor([math.nan, 1.0]),)),
}


@pytest.mark.parametrize("name", COMPARED_WITH_ITSELF)
def test_values_compared_with_themselves(name):
    parameter, values = COMPARED_WITH_ITSELF[name]
    body = "return (torch.eq(x, x), torch.ne(x, x))"
    data = hand_written(method(body, f"forward(self, {parameter})"))
    theirs, mine = both(data)
    for value in values:
        check_same(theirs, mine, value)


def test_the_ceiling_of_an_int_is_the_int():
    data = hand_written(method("return torch.ceil(x)", "forward(self, x: int) -> int"))
    theirs, mine = both(data)
    check_same(theirs, mine, 2**63 - 1)


def test_tensors_of_a_list_that_is_given_change():
    text = "torch._foreach_add_(x, 1)\nreturn x"
    data = hand_written(method(text, "forward(self, x: List[Tensor]) -> List[Tensor]"))
    theirs, mine = both(data)
    check_same(theirs, mine, [torch.ones(2), torch.zeros(1)])
    given = [torch.ones(2)]
    mine(given)
    assert equal(given[0], torch.full((2,), 2.0))
