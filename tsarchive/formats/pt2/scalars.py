"""Arithmetic on sizes and values computed from them, as nodes of a program graph.

Programs name Python functions here, with Python semantics. They become operators of TorchScript
code where these do the same. Symbolic expressions of sizes are lowered the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.graph import Value
from tsarchive.ir.subtyping import unify
from tsarchive.ir.types import BOOL, FLOAT, INT, STRING, Type, annotation

from . import schema
from .arguments import INT64, SYMBOLIC, Values, bind_results, operands
from .building import Body, Loop
from .symbols import Expression, Number, Operation, Symbol

Scalar = Callable[[Body, Sequence[Value], Type], Value]

_NUMBERS: Final = (INT, FLOAT, BOOL)


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
    loop = Loop(body, exponent, body.constant(True, BOOL), [body.integer(1)])
    inside = loop.body
    # The condition is the first result of the body, so its node must come first.
    condition = inside.constant(True, BOOL)
    (power,) = loop.end(condition, [inside.value("aten::mul", *loop.carried, base)])
    return power


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
    return _folded(body, "aten::add", given or [body.integer(0)])


def _folded(body: Body, kind: str, values: Sequence[Value]) -> Value:
    """Apply a binary operator from left to right."""
    return reduce(lambda one, other: body.value(kind, one, other), values)


SCALARS: Final[Mapping[str, tuple[int | None, str | Scalar]]] = {
    **{
        f"_operator.{name}": (2, f"aten::{name}")
        for name in ("add", "eq", "ge", "gt", "le", "lt", "mul", "ne", "sub")
    },
    "_operator.and_": (2, "aten::__and__"),
    "_operator.floordiv": (2, _division("aten::floordiv")),
    "_operator.lshift": (2, "aten::__lshift__"),
    "_operator.mod": (2, _division("aten::remainder")),
    "_operator.neg": (1, "aten::neg"),
    "_operator.or_": (2, "aten::__or__"),
    "_operator.pos": (1, lambda body, given, wanted: given[0]),
    "_operator.pow": (2, _power),
    "_operator.rshift": (2, "aten::__rshift__"),
    "_operator.truediv": (2, _division("aten::div")),
    "math.ceil": (1, "aten::ceil"),
    "math.floor": (1, "aten::floor"),
    "math.trunc": (1, _cast(INT)),
    "torch._sym_sqrt": (1, _square_root),
    "torch.sym_float": (1, _cast(FLOAT)),
    "torch.sym_int": (1, _cast(INT)),
    "torch.sym_ite": (3, _chosen),
    "torch.sym_max": (2, "prim::max"),
    "torch.sym_min": (2, "prim::min"),
    "torch.sym_not": (1, "aten::__not__"),
    "torch.sym_sqrt": (1, _square_root),
    "torch.sym_sum": (None, _sum),
}
"""The number of arguments of each function, None for any, and its translation.

That is an operator whose overloads for numbers behave like Python, or what appends nodes.
"""


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
    result = body.value(call, *given) if isinstance(call, str) else call(body, given, wanted)
    bind_results(body, node.outputs, [result], values)


# Operators that take the arguments as they are, folded pairwise where there are more.
_OPERATOR_FORMS = {
    "Add": "aten::add", "FloorDiv": "aten::floordiv", "CleanDiv": "aten::floordiv",
    "Mod": "aten::remainder", "PythonMod": "aten::remainder", "Max": "prim::max",
    "Min": "prim::min", "Abs": "prim::abs", "IntTrueDiv": "aten::div",
    "FloatTrueDiv": "aten::div", "LShift": "aten::__lshift__", "RShift": "aten::__rshift__",
    "Eq": "aten::eq", "Ne": "aten::ne", "Lt": "aten::lt", "Le": "aten::le", "Gt": "aten::gt",
    "Ge": "aten::ge", "And": "aten::__and__", "Or": "aten::__or__", "Not": "aten::__not__",
    "floor": "aten::floor", "ceiling": "aten::ceil", "CeilToInt": "aten::ceil",
    "FloorToInt": "aten::floor", "TruncToInt": "aten::Int", "ToFloat": "aten::Float",
    "BitwiseAnd": "aten::__and__", "BitwiseOr": "aten::__or__", "BitwiseXor": "aten::__xor__",
    **{name: f"aten::{name}" for name in (
        "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp",
        "log", "asinh",
    )},
    "isnan": "aten::isnan",
}  # fmt: skip
_OF_FLOATS = frozenset({"FloatTrueDiv", "floor", "ceiling", "CeilToInt", "FloorToInt", "isnan"})
_EMPTY = {"Add": 0, "Mul": 1, "And": True, "Or": False}
_CONSTANT_TYPES: Mapping[type, Type] = {bool: BOOL, int: INT, float: FLOAT, str: STRING}
# Powers up to this are multiplied out; sizes overflow long before.
_GREATEST_POWER = 16


def lower(body: Body, expression: Expression, values: Mapping[str, Value]) -> Value:
    """Return the value of an expression whose symbols have these values.

    Raises FormatError for a symbol without value, UnsupportedError for what TorchScript has no
    operator for.
    """
    if isinstance(expression, Symbol):
        found = values.get(expression.name)
        if found is None:
            raise FormatError(f"{expression.name!r} stands in an expression and has no value")
        return found
    if isinstance(expression, Number):
        return _number(body, expression.value)
    made = _SPECIAL.get(expression.function)
    if made is not None:
        return made(body, expression, values)
    kind = _OPERATOR_FORMS.get(expression.function)
    if kind is None:
        raise UnsupportedError(f"{expression} cannot be checked: it has {expression.function}")
    arguments = [lower(body, argument, values) for argument in expression.arguments]
    return _joined(body, expression.function, kind, arguments)


def _number(body: Body, value: bool | int | float | Fraction) -> Value:
    if isinstance(value, Fraction):
        value = float(value)
    if type(value) is int and value not in INT64:
        raise FormatError(f"the integer {value} in an expression does not fit 64 bits")
    return body.constant(value, _CONSTANT_TYPES[type(value)])


def _joined(body: Body, function: str, kind: str, arguments: list[Value]) -> Value:
    if not arguments:
        return _number(body, _EMPTY[function])
    if function in _OF_FLOATS:
        arguments = [body.as_type(argument, FLOAT) for argument in arguments]
    if len(arguments) == 1:
        one = arguments[0]
        return one if function in ("Add", "Max", "Min", "And", "Or") else body.value(kind, one)
    return _folded(body, kind, arguments)


def _product(body: Body, expression: Operation, values: Mapping[str, Value]) -> Value:
    """Lower a product; the denominator of a rational factor divides last, when it is exact."""
    scale = Fraction(1)
    factors = []
    for argument in expression.arguments:
        if isinstance(argument, Number) and argument.kind is Fraction:
            scale *= Fraction(argument.value)
        else:
            factors.append(lower(body, argument, values))
    if scale.numerator != 1 or not factors:
        factors.insert(0, _number(body, scale.numerator))
    result = _folded(body, "aten::mul", factors)
    if scale.denominator == 1:
        return result
    kind = "aten::floordiv" if result.type == INT else "aten::div"
    return body.value(kind, result, _number(body, scale.denominator))


def _lowered_power(body: Body, expression: Operation, values: Mapping[str, Value]) -> Value:
    base, exponent = expression.arguments
    value = lower(body, base, values)
    times = exponent.value if isinstance(exponent, Number) and exponent.kind is int else 0
    if not 1 <= times <= _GREATEST_POWER:
        return body.value("aten::pow", value, lower(body, exponent, values))
    return _folded(body, "aten::mul", [value] * int(times))


def _quotient_rounded_up(body: Body, expression: Operation, values: Mapping[str, Value]) -> Value:
    value, divisor = [lower(body, argument, values) for argument in expression.arguments]
    down = body.value("aten::floordiv", body.value("aten::neg", value), divisor)
    return body.value("aten::neg", down)


def _modular_index(body: Body, expression: Operation, values: Mapping[str, Value]) -> Value:
    value, divisor, modulus = [lower(body, one, values) for one in expression.arguments]
    return body.value("aten::remainder", body.value("aten::floordiv", value, divisor), modulus)


def _where(body: Body, expression: Operation, values: Mapping[str, Value]) -> Value:
    condition, *branches = expression.arguments
    choice = body.append("prim::If", [lower(body, condition, values)])
    for branch in branches:
        inner = body.inside(choice.add_block())
        inner.block.add_return(lower(inner, branch, values))
    types = {block.returns[0].type for block in choice.blocks}
    if len(types) != 1:
        raise UnsupportedError(f"{expression} cannot be checked: its type depends on a condition")
    return choice.add_output(types.pop())


def _rounded(body: Body, expression: Operation, values: Mapping[str, Value]) -> Value:
    value = body.as_type(lower(body, expression.arguments[0], values), FLOAT)
    return body.as_type(body.value("aten::round", value), INT)


_Lower = Callable[[Body, Operation, Mapping[str, Value]], Value]
_SPECIAL: Final[Mapping[str, _Lower]] = {
    "Mul": _product,
    "Pow": _lowered_power,
    "PowByNatural": _lowered_power,
    "FloatPow": _lowered_power,
    "CeilDiv": _quotient_rounded_up,
    "ModularIndexing": _modular_index,
    "Where": _where,
    "RoundToInt": _rounded,
    "Identity": lambda body, one, values: lower(body, one.arguments[0], values),
}
