"""Numbers as they are written, and the operators behind arithmetic signs."""

from __future__ import annotations

import ast
import math

_NUMBERS = frozenset({int, float, complex})
_INT64 = range(-(2**63), 2**63)
_NAMED = {"inf": math.inf, "nan": math.nan}
_NAMED_IMAGINARY = {"infj": math.inf, "nanj": math.nan}

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "aten::add", ast.Sub: "aten::sub", ast.Mult: "aten::mul", ast.Div: "aten::div",
    ast.FloorDiv: "aten::floordiv", ast.Mod: "aten::remainder", ast.Pow: "aten::pow",
    ast.MatMult: "aten::matmul", ast.BitAnd: "aten::__and__", ast.BitOr: "aten::__or__",
    ast.BitXor: "aten::__xor__", ast.LShift: "aten::__lshift__", ast.RShift: "aten::__rshift__",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {
    ast.USub: "aten::neg", ast.Invert: "aten::bitwise_not", ast.Not: "aten::__not__",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "aten::eq", ast.NotEq: "aten::ne", ast.Lt: "aten::lt", ast.LtE: "aten::le",
    ast.Gt: "aten::gt", ast.GtE: "aten::ge", ast.Is: "aten::__is__", ast.IsNot: "aten::__isnot__",
    ast.In: "aten::__contains__",
}  # fmt: skip

# For each sign of ``x += y``: the operator for tensors and lists, and that for other values.
AUGMENTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("aten::add_", "aten::add"),
    ast.Sub: ("aten::sub_", "aten::sub"),
    ast.Mult: ("aten::mul_", "aten::mul"),
    ast.Div: ("aten::div_", "aten::div"),
    ast.Mod: ("aten::fmod_", "aten::fmod"),
    ast.Pow: ("aten::pow", "aten::pow"),
    ast.BitAnd: ("aten::bitwise_and", "aten::__and__"),
    ast.BitOr: ("aten::bitwise_or", "aten::__or__"),
    ast.BitXor: ("aten::bitwise_xor", "aten::__xor__"),
    ast.LShift: ("aten::__lshift__", "aten::__lshift__"),
    ast.RShift: ("aten::__irshift__", "aten::__rshift__"),
}


def number(node: ast.expr) -> int | float | complex | None:
    """Return the number that a literal writes: ``-1``, ``-inf``, ``1.+2.j``, ``1.5-nanj``.

    None for expressions that are not number literals. Raises OverflowError for an int that
    does not fit 64 bits.
    """
    if type(node) is ast.BinOp:
        return _complex(node)
    found = _signed(node)
    if type(found) is int and found not in _INT64:
        raise OverflowError(found)
    return found


def _signed(node: ast.expr) -> int | float | complex | None:
    if type(node) is ast.Constant:
        return node.value if type(node.value) in _NUMBERS else None  # type: ignore[return-value]
    match node:
        case ast.Name(name) if name in _NAMED:
            return _NAMED[name]
        case ast.Name(name) if name in _NAMED_IMAGINARY:
            return complex(0, _NAMED_IMAGINARY[name])
        case ast.UnaryOp(ast.USub(), operand):
            positive = _signed(operand)
            return None if positive is None else -positive
    return None


def _complex(node: ast.BinOp) -> complex | None:
    real = _signed(node.left)
    imaginary = _imaginary(node.right)
    if not isinstance(real, int | float) or imaginary is None:
        return None
    if isinstance(node.op, ast.Sub):
        return complex(real, -imaginary)
    return complex(real, imaginary) if isinstance(node.op, ast.Add) else None


def _imaginary(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(complex() as value):
            return value.imag
        case ast.Name(name):
            return _NAMED_IMAGINARY.get(name)
    return None
