"""Parsing of guards that programs hold as Python text.

torch compiles such text and runs it. Here only a few forms of syntax are accepted, each of which
maps to an expression; everything else is refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tsarchive.errors import FormatError, SourceError, UnsupportedError
from tsarchive.ir.text_limits import check_text, parse_expression

from .symbols import ARITIES, MAX_DEPTH, MAX_TEXT, Expression, Number, Operation, Symbol

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "Add", ast.Mult: "Mul", ast.FloorDiv: "FloorDiv", ast.Mod: "PythonMod",
    ast.Div: "FloatTrueDiv", ast.Pow: "Pow", ast.LShift: "LShift", ast.RShift: "RShift",
    ast.BitAnd: "BitwiseAnd", ast.BitOr: "BitwiseOr", ast.BitXor: "BitwiseXor",
}  # fmt: skip
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "Eq", ast.NotEq: "Ne", ast.Lt: "Lt", ast.LtE: "Le", ast.Gt: "Gt", ast.GtE: "Ge",
    ast.Is: "Eq", ast.IsNot: "Ne",
}  # fmt: skip
_FUNCTIONS: Mapping[str, str] = {
    "max": "Max", "min": "Min", "abs": "Abs", "int": "TruncToInt", "float": "ToFloat",
    "round": "RoundToInt", "math.floor": "FloorToInt", "math.ceil": "CeilToInt",
    "math.trunc": "TruncToInt", "math.isnan": "isnan", "torch.sym_float": "ToFloat",
    "torch.sym_max": "Max", "torch.sym_min": "Min", "torch.sym_not": "Not",
    "torch._sym_sqrt": "sqrt", "math.sqrt": "sqrt", "math.exp": "exp", "math.log": "log",
    "math.log2": "log2",
    **{f"math.{name}": name for name in (
        "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "asinh",
    )},
}  # fmt: skip
_STRING = re.compile(r"""'[^'\\\n]*'|"[^"\\\n]*\"""")
_NAMED_NUMBERS = {"math.inf": float("inf"), "inf": float("inf"), "math.nan": float("nan")}
# Methods of a tensor: those that take an index, and those that do not.
_LISTS, _NUMBERS = frozenset({"size", "stride"}), frozenset({"storage_offset", "dim", "numel"})


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a value: ``method`` of the argument at ``place``, or the argument itself."""

    place: str
    method: str | None = None
    index: int | None = None

    def __str__(self) -> str:
        method = "" if self.method is None else f".{self.method}()"
        return f"{self.place}{method}{'' if self.index is None else f'[{self.index}]'}"


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition whose symbols are the texts of sources; ``text`` is for messages."""

    condition: Expression
    sources: Mapping[str, Source]
    text: str


def read_guard(text: str) -> Guard:
    """Parse the text of a condition.

    Raises FormatError for text that is not a Python expression or is too large, UnsupportedError
    for an unknown form.
    """
    tree = _parsed(text)
    reader = _Reader(text)
    return Guard(reader.expression(tree, 0), reader.sources, ast.unparse(_ByName().visit(tree)))


def _parsed(text: str) -> ast.expr:
    if len(text) > MAX_TEXT:
        raise FormatError("a guard is too long", limit=MAX_TEXT)
    flat = " ".join(text.split())
    # A comment would continue on the next line, which flattened text does not have.
    if "#" in _STRING.sub("", text):
        raise UnsupportedError(f"the guard {text[:100]!r} has a comment")
    try:
        check_text(flat, None)
        return parse_expression(flat).body
    except (SyntaxError, ValueError, RecursionError, MemoryError, SourceError) as error:
        raise FormatError(f"the guard {text[:100]!r} is no expression: {error}") from None


class _ByName(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(ast.Name("L"), ast.Constant(str(name))) if name.isidentifier():
                return ast.Name(name)
        return self.generic_visit(node)


class _Reader:
    def __init__(self, text: str) -> None:
        self.sources: dict[str, Source] = {}
        self._text = text

    def expression(self, node: ast.expr, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise FormatError("a guard is nested too deeply", limit=MAX_DEPTH)
        source = _source(node)
        if source is not None:
            self.sources[str(source)] = source
            return Symbol(str(source))
        return self._operation(node, depth + 1)

    def _fail(self) -> NoReturn:
        raise UnsupportedError(
            f"the guard {self._text[:200]!r} has a form that is not known",
            hint="The program cannot be run without this check of its arguments",
        )

    def _operation(self, node: ast.expr, depth: int) -> Expression:
        match node:
            case ast.Constant(bool() | int() | float() as value):
                return Number(value)
            case ast.BinOp(left, ast.Sub(), right):
                negative = Operation("Mul", (Number(-1), self.expression(right, depth)))
                return Operation("Add", (self.expression(left, depth), negative))
            case ast.BinOp(left, operator, right) if type(operator) in _BINARY:
                return self._made(_BINARY[type(operator)], (left, right), depth)
            case ast.UnaryOp(ast.USub(), operand):
                return self._negative(self.expression(operand, depth))
            case ast.UnaryOp(ast.UAdd(), operand):
                return self.expression(operand, depth)
            case ast.UnaryOp(ast.Not(), operand):
                return self._made("Not", (operand,), depth)
            case ast.BoolOp(operator, values):
                return self._made("And" if isinstance(operator, ast.And) else "Or", values, depth)
            case ast.Compare(left, operators, others):
                return self._comparison([left, *others], operators, depth)
            case ast.IfExp(test, body, orelse):
                return self._made("Where", (test, body, orelse), depth)
            case ast.Call(function, arguments, []):
                return self._called(_dotted(function), arguments, depth)
            case ast.Attribute() | ast.Name():
                return self._named_number(_dotted(node))
        self._fail()

    def _made(self, function: str, arguments: Any, depth: int) -> Expression:
        return Operation(function, tuple([self.expression(one, depth) for one in arguments]))

    def _negative(self, value: Expression) -> Expression:
        if isinstance(value, Number) and value.kind is not bool:
            return Number(-value.value)
        return Operation("Mul", (Number(-1), value))

    def _comparison(
        self, values: list[ast.expr], operators: list[ast.cmpop], depth: int
    ) -> Expression:
        """Translate ``a < b < c`` as ``a < b and b < c``."""
        terms = [self.expression(value, depth) for value in values]
        found: list[Expression] = []
        for position, operator in enumerate(operators):
            function = _COMPARISONS.get(type(operator))
            if function is None:
                self._fail()
            found.append(Operation(function, (terms[position], terms[position + 1])))
        return found[0] if len(found) == 1 else Operation("And", tuple(found))

    def _called(self, name: str | None, arguments: list[ast.expr], depth: int) -> Expression:
        function = _FUNCTIONS.get(name or "", name or "")
        least, most = ARITIES.get(function, (1, 1 if function == "isnan" else 0))
        if not least <= len(arguments) <= most:
            self._fail()
        return self._made(function, arguments, depth)

    def _named_number(self, name: str | None) -> Expression:
        value = _NAMED_NUMBERS.get(name or "")
        if value is None:
            self._fail()
        return Number(value)


def _source(node: ast.expr) -> Source | None:
    """Return the source of ``L['x'].size()[0]`` and the like; None for other syntax."""
    match node:
        case ast.Subscript(
            ast.Call(ast.Attribute(value, method), [], []), ast.Constant(int(index))
        ) if method in _LISTS:
            place = _place(value)
            return None if place is None else Source(place, method, index)
        case ast.Call(ast.Attribute(value, method), [], []) if method in _NUMBERS:
            place = _place(value)
            return None if place is None else Source(place, method)
    place = _place(node)
    return None if place is None else Source(place)


def _place(node: ast.expr) -> str | None:
    """Return ``x['key'].field`` for ``L['x']['key'].field``; None for anything but an argument."""
    match node:
        case ast.Subscript(ast.Name("L"), ast.Constant(str(name))):
            return name
        case ast.Subscript(value, ast.Constant(key)) if type(key) in (str, int, bool, float):
            around = _place(value)
            return None if around is None else f"{around}[{key!r}]"
        case ast.Attribute(value, field):
            around = _place(value)
            return None if around is None else f"{around}.{field}"
    return None


def _dotted(node: ast.expr) -> str | None:
    """Return ``math.floor`` and the like; None for anything but a name with at most one dot."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name(module), name):
            return f"{module}.{name}"
    return None
