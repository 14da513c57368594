"""Lowering of symbolic expressions to nodes of a program graph."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.graph import Value
from tsarchive.ir.types import BOOL, FLOAT, INT, STRING, Type

from .building import Body
from .symbols import Expression, Number, Operation, Symbol

# Operators that take the arguments as they are, folded pairwise where there are more.
_OPERATORS = MappingProxyType(
    {
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
    }
)  # fmt: skip
_OF_FLOATS = frozenset({"FloatTrueDiv", "floor", "ceiling", "CeilToInt", "FloorToInt", "isnan"})
_EMPTY = MappingProxyType({"Add": 0, "Mul": 1, "And": True, "Or": False})
_CONSTANT_TYPES: Mapping[type, Type] = MappingProxyType(
    {bool: BOOL, int: INT, float: FLOAT, str: STRING}
)
# Powers up to this are multiplied out; sizes overflow long before.
_GREATEST_POWER = 16
_INT64 = range(-(1 << 63), 1 << 63)


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
    kind = _OPERATORS.get(expression.function)
    if kind is None:
        raise UnsupportedError(f"{expression} cannot be checked: it has {expression.function}")
    arguments = [lower(body, argument, values) for argument in expression.arguments]
    return _joined(body, expression.function, kind, arguments)


def _number(body: Body, value: bool | int | float | Fraction) -> Value:
    if isinstance(value, Fraction):
        value = float(value)
    if type(value) is int and value not in _INT64:
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
    result, *others = arguments
    for other in others:
        result = body.value(kind, result, other)
    return result


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
    result, *others = factors
    for factor in others:
        result = body.value("aten::mul", result, factor)
    if scale.denominator == 1:
        return result
    kind = "aten::floordiv" if result.type == INT else "aten::div"
    return body.value(kind, result, _number(body, scale.denominator))


def _power(body: Body, expression: Operation, values: Mapping[str, Value]) -> Value:
    base, exponent = expression.arguments
    value = lower(body, base, values)
    times = exponent.value if isinstance(exponent, Number) and exponent.kind is int else 0
    if not 1 <= times <= _GREATEST_POWER:
        return body.value("aten::pow", value, lower(body, exponent, values))
    result = value
    for _ in range(int(times) - 1):
        result = body.value("aten::mul", result, value)
    return result


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


def _same(body: Body, expression: Operation, values: Mapping[str, Value]) -> Value:
    return lower(body, expression.arguments[0], values)


_SPECIAL = MappingProxyType(
    {
        "Mul": _product,
        "Pow": _power,
        "PowByNatural": _power,
        "FloatPow": _power,
        "CeilDiv": _quotient_rounded_up,
        "ModularIndexing": _modular_index,
        "Where": _where,
        "RoundToInt": _rounded,
        "Identity": _same,
    }
)
