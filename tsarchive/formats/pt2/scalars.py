"""Scalar arithmetic of a program on sizes and values computed from them.

Programs name Python functions here, with Python semantics. They become operators of TorchScript
code where these do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tsarchive.errors import FormatError
from tsarchive.ir.graph import Value
from tsarchive.ir.subtyping import unify
from tsarchive.ir.types import BOOL, FLOAT, INT, Type, annotation

from . import schema
from .arguments import SYMBOLIC, Values, bind_results, operands
from .building import Body

Scalar = Callable[[Body, Sequence[Value], Type], Value]

_NUMBERS: Final = (INT, FLOAT, BOOL)


def _operator(kind: str) -> Scalar:
    """Translate to an operator whose overloads for numbers behave like Python."""

    def call(body: Body, given: Sequence[Value], wanted: Type) -> Value:
        return body.value(kind, *given)

    return call


def _division(kind: str) -> Scalar:
    """Divide with a check for zero: TorchScript gives inf or nan for floats, Python raises."""

    def call(body: Body, given: Sequence[Value], wanted: Type) -> Value:
        divisor = given[1]
        if not (divisor.node.is_constant and divisor.node.attributes["value"]):
            is_usable = body.value("aten::ne", divisor, body.integer(0))
            body.raise_unless(is_usable, "division by zero")
        return body.value(kind, *given)

    return call


def _square_root(body: Body, given: Sequence[Value], wanted: Type) -> Value:
    is_usable = body.value("aten::ge", given[0], body.integer(0))
    body.raise_unless(is_usable, "the square root of a negative number")
    return body.value("aten::sqrt", *given)


def _cast(type_: Type) -> Scalar:
    def call(body: Body, given: Sequence[Value], wanted: Type) -> Value:
        return body.as_type(given[0], type_)

    return call


def _same(body: Body, given: Sequence[Value], wanted: Type) -> Value:
    return given[0]


def _power(body: Body, given: Sequence[Value], wanted: Type) -> Value:
    base, exponent = given
    if wanted != INT or FLOAT in (base.type, exponent.type):
        return body.value("aten::pow", base, exponent)
    # In TorchScript an int to the power of an int is a float, and not exact.
    base, exponent = body.as_type(base, INT), body.as_type(exponent, INT)
    if exponent.node.is_constant:
        return _constant_power(body, base, exponent.node.attributes["value"])
    is_natural = body.value("aten::ge", exponent, body.integer(0))
    body.raise_unless(is_natural, "an int to a negative power is no int")
    return _multiplied(body, base, exponent)


def _constant_power(body: Body, base: Value, exponent: int) -> Value:
    if exponent < 0:
        raise FormatError("an int to a negative power is no int")
    if exponent == 0:
        return body.integer(1)
    result: Value | None = None
    while True:
        if exponent & 1:
            result = base if result is None else body.value("aten::mul", result, base)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        base = body.value("aten::mul", base, base)


def _multiplied(body: Body, base: Value, times: Value) -> Value:
    """Return ``base`` to the power of ``times`` by repeated multiplication."""
    always = body.constant(True, BOOL)
    loop = body.append("prim::Loop", [times, always, body.integer(1)], INT)
    block = loop.add_block()
    block.add_param(INT)
    product = block.add_param(INT)
    inside = body.inside(block)
    block.add_return(inside.constant(True, BOOL))
    # The condition is the first result of the body, but its node must come first too.
    block.add_return(inside.value("aten::mul", product, base))
    return loop.output


def _chosen(body: Body, given: Sequence[Value], wanted: Type) -> Value:
    condition, *choices = given
    type_ = unify(choices[0].type, choices[1].type)
    if type_ is None:
        shown = " and ".join(annotation(choice.type) for choice in choices)
        raise FormatError(f"the choices are of types {shown}")
    made = body.append("prim::If", [body.truth(condition)], type_)
    for choice in choices:
        made.add_block().add_return(choice)
    return made.output


def _sum(body: Body, given: Sequence[Value], wanted: Type) -> Value:
    total, *rest = given or [body.integer(0)]
    for value in rest:
        total = body.value("aten::add", total, value)
    return total


_OPERATORS: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        "_operator.add": (2, "aten::add"),
        "_operator.and_": (2, "aten::__and__"),
        "_operator.eq": (2, "aten::eq"),
        "_operator.ge": (2, "aten::ge"),
        "_operator.gt": (2, "aten::gt"),
        "_operator.le": (2, "aten::le"),
        "_operator.lshift": (2, "aten::__lshift__"),
        "_operator.lt": (2, "aten::lt"),
        "_operator.mul": (2, "aten::mul"),
        "_operator.ne": (2, "aten::ne"),
        "_operator.neg": (1, "aten::neg"),
        "_operator.or_": (2, "aten::__or__"),
        "_operator.rshift": (2, "aten::__rshift__"),
        "_operator.sub": (2, "aten::sub"),
        "math.ceil": (1, "aten::ceil"),
        "math.floor": (1, "aten::floor"),
        "torch.sym_max": (2, "prim::max"),
        "torch.sym_min": (2, "prim::min"),
        "torch.sym_not": (1, "aten::__not__"),
    }
)
SCALARS: Final[Mapping[str, tuple[int | None, Scalar]]] = MappingProxyType(
    {
        **{target: (count, _operator(kind)) for target, (count, kind) in _OPERATORS.items()},
        "_operator.floordiv": (2, _division("aten::floordiv")),
        "_operator.mod": (2, _division("aten::remainder")),
        "_operator.pos": (1, _same),
        "_operator.pow": (2, _power),
        "_operator.truediv": (2, _division("aten::div")),
        "math.trunc": (1, _cast(INT)),
        "torch.sym_float": (1, _cast(FLOAT)),
        "torch.sym_int": (1, _cast(INT)),
        "torch.sym_ite": (3, _chosen),
        "torch._sym_sqrt": (1, _square_root),
        "torch.sym_sqrt": (1, _square_root),
        "torch.sym_sum": (None, _sum),
    }
)
"""The number of arguments of each function, None for any, and its translation."""


def call_scalar(body: Body, node: schema.Node, values: Values) -> None:
    """Append the translation of a Python function, and bind its result.

    Raises FormatError for arguments that are not numbers, or for a wrong number of them.
    """
    count, call = SCALARS[node.target]
    given = [value for one in node.inputs for value in operands(body, one.arg, values)]
    if count is not None and len(given) != count:
        raise FormatError(f"it takes {count} numbers, not {len(given)}")
    for value in given:
        if value.type not in _NUMBERS:
            raise FormatError(f"it takes numbers, not a {annotation(value.type)}")
    if len(node.outputs) != 1 or node.outputs[0].tag not in SYMBOLIC:
        raise FormatError("its result is one number")
    wanted = SYMBOLIC[node.outputs[0].tag]
    bind_results(body, node.outputs, [call(body, given, wanted)], values)
