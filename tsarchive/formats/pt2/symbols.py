"""Parsing and printing of symbolic expressions over sizes, without sympy, and of guards over them.

Programs of schema 8 hold the text of ``sympy.srepr``, ``Add(Symbol('s77', integer=True),
Integer(1))``; older ones, and keys of range constraints, hold infix text, ``s77 + 1``. One grammar
covers both. Guards are Python text, which torch compiles and runs: here only a few forms of syntax
are accepted, each of which maps to an expression. Nothing is ever evaluated as Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn

from tsarchive.errors import FormatError, SourceError, UnsupportedError
from tsarchive.ir.text_limits import check_text, parse_expression

# Far above what torch writes; only a text made to exhaust the stack or memory has more.
MAX_TEXT, MAX_DEPTH, MAX_DIGITS = 100_000, 100, 320
INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number:
    """A number or truth value. ``1``, ``1.0`` and ``True`` are distinct."""

    value: bool | int | float | Fraction
    kind: type = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value))

    def __str__(self) -> str:
        if isinstance(self.value, float) and self.value in (INFINITY, -INFINITY):
            return "oo" if self.value > 0 else "-oo"
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Operation:
    """``function`` is a key of :data:`ARITIES`."""

    function: str
    arguments: tuple[Expression, ...]
    depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        depth = 1 + max((depth_of(one) for one in self.arguments), default=0)
        object.__setattr__(self, "depth", depth)

    def __str__(self) -> str:
        return _shown(self)


Expression = Symbol | Number | Operation

_ANY = 1 << 20
FLOAT_FUNCTIONS = (
    "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "exp", "log",
    "asinh", "log2",
)  # fmt: skip
# Minimum and maximum number of arguments. The names are those of sympy and of
# torch/utils/_sympy/functions.py.
ARITIES: dict[str, tuple[int, int]] = {
    "Add": (0, _ANY), "Mul": (0, _ANY), "Pow": (2, 2), "PowByNatural": (2, 2), "FloatPow": (2, 2),
    "Mod": (2, 2), "PythonMod": (2, 2), "ModularIndexing": (3, 3),
    "FloorDiv": (2, 2), "CleanDiv": (2, 2), "CeilDiv": (2, 2),
    "IntTrueDiv": (2, 2), "FloatTrueDiv": (2, 2), "LShift": (2, 2), "RShift": (2, 2),
    "Max": (1, _ANY), "Min": (1, _ANY), "Abs": (1, 1), "floor": (1, 1), "ceiling": (1, 1),
    "CeilToInt": (1, 1), "FloorToInt": (1, 1), "TruncToInt": (1, 1), "TruncToFloat": (1, 1),
    "RoundToInt": (1, 1), "RoundDecimal": (2, 2), "ToFloat": (1, 1), "Identity": (1, 1),
    "Eq": (2, 2), "Ne": (2, 2), "Lt": (2, 2), "Le": (2, 2), "Gt": (2, 2), "Ge": (2, 2),
    "And": (0, _ANY), "Or": (0, _ANY), "Not": (1, 1), "Where": (3, 3),
    "IsNonOverlappingAndDenseIndicator": (0, _ANY),
    "BitwiseAnd": (2, 2), "BitwiseOr": (2, 2), "BitwiseXor": (2, 2),
    **dict.fromkeys(FLOAT_FUNCTIONS, (1, 1)),
}  # fmt: skip
_OTHER_NAMES = {
    "Equality": "Eq", "Unequality": "Ne", "StrictLessThan": "Lt", "LessThan": "Le",
    "StrictGreaterThan": "Gt", "GreaterThan": "Ge", "ITE": "Where",
    "BitwiseFn_bitwise_and": "BitwiseAnd", "BitwiseFn_bitwise_or": "BitwiseOr",
    "BitwiseFn_bitwise_xor": "BitwiseXor",
    **{f"OpaqueUnaryFn_{name}": name for name in FLOAT_FUNCTIONS},
}  # fmt: skip
_CONSTANTS = {
    "true": Number(True), "True": Number(True), "false": Number(False), "False": Number(False),
    "oo": Number(INFINITY), "int_oo": Number(INFINITY), "inf": Number(INFINITY),
}  # fmt: skip

# Binary operators with their precedence, which is Python's.
_INFIX = {
    "or": (1, "Or"), "and": (2, "And"), "==": (4, "Eq"), "!=": (4, "Ne"), "<": (4, "Lt"),
    "<=": (4, "Le"), ">": (4, "Gt"), ">=": (4, "Ge"), "|": (5, "Or"), "&": (6, "And"),
    "<<": (7, "LShift"), ">>": (7, "RShift"), "+": (8, "Add"), "-": (8, "Sub"), "*": (9, "Mul"),
    "/": (9, "Div"), "//": (9, "FloorDiv"), "%": (9, "Mod"), "**": (11, "Pow"),
}  # fmt: skip
_NOT, _COMPARISON, _NEGATIVE, _ATOM = 3, 4, 10, 12
_SHOWN_INFIX = {
    "Or": "or", "And": "and", "Eq": "==", "Ne": "!=", "Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">=",
    "Add": "+", "Mul": "*", "FloorDiv": "//", "Pow": "**",
}  # fmt: skip
_FLATTENED = frozenset({"Add", "Mul", "And", "Or"})
_COMMUTATIVE = _FLATTENED | {"Max", "Min", "Eq", "Ne"}

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|'(?P<text>[^'\\]*)'|(?P<sign>\*\*|//|<<|>>|[=!<>]=|[-+*/%<>()&|~,=])|(?P<end>$))",
    re.ASCII,
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*", re.ASCII)
_DECIMAL = re.compile(r"[-+]?\d{1,320}(\.\d{0,320})?([eE][-+]?\d{1,4})?", re.ASCII)


def depth_of(expression: Expression) -> int:
    return expression.depth if isinstance(expression, Operation) else 1


def free_symbols(expression: Expression) -> frozenset[str]:
    """Return the names of the symbols in an expression."""
    if isinstance(expression, Symbol):
        return frozenset([expression.name])
    inner = expression.arguments if isinstance(expression, Operation) else ()
    return frozenset[str]().union(*map(free_symbols, inner))


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Parse the text of an expression in either form.

    Raises FormatError for text that violates the grammar, or is too long, deep or large.
    """
    if len(text) > MAX_TEXT:
        raise FormatError("an expression is too long", limit=MAX_TEXT)
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._next()

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._place)
        if match is None:
            raise self.error("holds a character that no expression has")
        self._place = match.end()
        self._kind = match.lastgroup or "end"
        self._token = match[self._kind]
        if self._token in ("and", "or", "not"):
            self._kind = "sign"

    def error(self, message: str) -> FormatError:
        text = self._text if len(self._text) <= 100 else f"{self._text[:97]}..."
        return FormatError(f"the expression {text!r} {message}")

    def whole(self) -> Expression:
        found = self.expression(0, 0)
        if self._kind != "end":
            raise self.error(f"goes on where it should end, at {self._token[:50]!r}")
        return found

    def _takes(self, sign: str) -> bool:
        if self._kind != "sign" or self._token != sign:
            return False
        self._next()
        return True

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self.error(f"has no {sign!r} where one is expected")

    def expression(self, strength: int, depth: int) -> Expression:
        """Parse operators of at least this precedence."""
        if depth > MAX_DEPTH:
            raise FormatError("an expression is nested too deeply", limit=MAX_DEPTH)
        left = self._prefixed(depth)
        compared = False
        while self._kind == "sign" and self._token in _INFIX:
            own, function = _INFIX[self._token]
            if own < strength:
                break
            if own == _COMPARISON and compared:
                raise self.error("compares more than two values at once")
            compared = own == _COMPARISON
            self._next()
            right = self.expression(own if function == "Pow" else own + 1, depth + 1)
            left = self._joined(function, left, right)
        return left

    def _prefixed(self, depth: int) -> Expression:
        if self._takes("-"):
            return _negative(self.expression(_NEGATIVE, depth + 1))
        if self._takes("+"):
            return self.expression(_NEGATIVE, depth + 1)
        if self._takes("not"):
            return self._made("Not", (self.expression(_NOT, depth + 1),))
        if self._takes("~"):
            return self._made("Not", (self.expression(_NEGATIVE, depth + 1),))
        return self._atom(depth)

    def _joined(self, function: str, left: Expression, right: Expression) -> Expression:
        if function == "Sub":
            function, right = "Add", _negative(right)
        elif function == "Div":
            function = "Mul"
            if not (isinstance(right, Number) and isinstance(right.value, int | Fraction)):
                right = self._made("Pow", (right, Number(-1)))
            elif right.value:
                right = rational(Fraction(1) / right.value)
            else:
                raise self.error("divides by zero")
        return self._made(function, (left, right))

    def _made(self, function: str, arguments: tuple[Expression, ...]) -> Expression:
        least, most = ARITIES[function]
        if not least <= len(arguments) <= most:
            raise self.error(f"gives {function} {len(arguments)} arguments")
        if function in _FLATTENED:
            arguments = tuple(_flattened(function, arguments))
        made = Operation(function, arguments)
        if made.depth > MAX_DEPTH:
            raise FormatError("an expression is nested too deeply", limit=MAX_DEPTH)
        return made

    def _atom(self, depth: int) -> Expression:
        kind, token = self._kind, self._token
        if kind == "number":
            self._next()
            return self._number(token)
        if kind == "name":
            self._next()
            return (
                self._named(token, depth)
                if self._takes("(")
                else _CONSTANTS.get(token) or Symbol(token)
            )
        if self._takes("("):
            found = self.expression(0, depth + 1)
            self._expect(")")
            return found
        raise self.error(f"has no value before {token[:50]!r}" if token else "ends too early")

    def _number(self, text: str) -> Number:
        if not _DECIMAL.fullmatch(text):
            raise FormatError("a number in an expression is too long", limit=MAX_DIGITS)
        return Number(float(text)) if any(sign in text for sign in ".eE") else Number(int(text))

    def _named(self, name: str, depth: int) -> Expression:
        leaf = _LEAVES.get(name)
        if leaf is not None:
            return leaf(self)
        if name in _INFINITIES:
            self._expect(")")
            return _INFINITIES[name]
        function = _OTHER_NAMES.get(name, name)
        if function not in ARITIES:
            raise self.error(f"names {name[:50]!r}, which is no function of expressions")
        return self._made(function, tuple(self._arguments(depth)))

    def _arguments(self, depth: int) -> Iterator[Expression]:
        if self._takes(")"):
            return
        yield self.expression(0, depth + 1)
        while self._takes(","):
            yield self.expression(0, depth + 1)
        self._expect(")")

    def _assumptions(self) -> None:
        """Parse ``integer=True``, assumptions of sympy about a symbol, which change no value."""
        while self._takes(","):
            if self._kind != "name":
                raise self.error("has an argument without name where one is expected")
            self._next()
            self._expect("=")
            if self._kind not in ("name", "number"):
                raise self.error("has an argument of another form")
            self._next()
        self._expect(")")

    def symbol(self) -> Symbol:
        if self._kind != "text" or not _NAME.fullmatch(self._token):
            raise self.error("has a symbol whose name is none")
        name = self._token
        self._next()
        self._assumptions()
        return Symbol(name)

    def integer(self) -> Number:
        found = self._signed_integer()
        self._expect(")")
        return Number(found)

    def rational(self) -> Number:
        numerator = self._signed_integer()
        self._expect(",")
        denominator = self._signed_integer()
        self._expect(")")
        if not denominator:
            raise self.error("divides by zero")
        return rational(Fraction(numerator, denominator))

    def _signed_integer(self) -> int:
        sign = -1 if self._takes("-") else 1
        value = self._number(self._token).value if self._kind == "number" else None
        if type(value) is not int:
            raise self.error("has no integer where one is expected")
        self._next()
        return sign * value

    def decimal(self) -> Number:
        if self._kind not in ("text", "number") or not _DECIMAL.fullmatch(self._token):
            raise self.error("has no number where one is expected")
        value = float(self._token)
        self._next()
        self._assumptions()
        return Number(value)


_LEAVES: dict[str, Callable[[_Parser], Expression]] = {
    "Symbol": _Parser.symbol, "Integer": _Parser.integer, "Rational": _Parser.rational,
    "Float": _Parser.decimal,
}  # fmt: skip
_INFINITIES = {"IntInfinity": Number(INFINITY), "NegativeIntInfinity": Number(-INFINITY)}
FUNCTION_NAMES = frozenset({*ARITIES, *_OTHER_NAMES, *_LEAVES, *_INFINITIES})
"""Every name that stands before a bracket in expressions."""


def rational(value: Fraction) -> Number:
    return Number(int(value) if value.denominator == 1 else value)


def _negative(value: Expression) -> Expression:
    if isinstance(value, Number) and not isinstance(value.value, bool):
        return Number(-value.value)
    if isinstance(value, Operation) and value.function == "Mul":
        first, *rest = value.arguments
        if isinstance(first, Number) and not isinstance(first.value, bool):
            return Operation("Mul", (Number(-first.value), *rest))
    return Operation("Mul", tuple(_flattened("Mul", (Number(-1), value))))


def _flattened(function: str, arguments: tuple[Expression, ...]) -> Iterator[Expression]:
    for argument in arguments:
        if isinstance(argument, Operation) and argument.function == function:
            yield from argument.arguments
        else:
            yield argument


def canonical(expression: Expression) -> Expression:
    """Return a normal form up to commuted operands and constant folding."""
    if not isinstance(expression, Operation):
        return expression
    function = "FloorDiv" if expression.function == "CleanDiv" else expression.function
    arguments = tuple([canonical(argument) for argument in expression.arguments])
    if function == "Identity":
        return arguments[0]
    if function in ("Add", "Mul"):
        arguments = _folded(function, tuple(_flattened(function, arguments)))
        if len(arguments) == 1:
            return arguments[0]
    if function in _COMMUTATIVE:
        # The conventional order: 2*s0 + 1.
        last = function == "Add"
        arguments = tuple(
            sorted(arguments, key=lambda one: (isinstance(one, Number) is last, str(one)))
        )
    return Operation(function, arguments)


def _folded(function: str, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Fold the exact numbers among the arguments of a sum or product."""
    start = Fraction(function == "Mul")
    total, others = start, []
    for argument in arguments:
        if isinstance(argument, Number) and argument.kind in (int, Fraction):
            number = Fraction(argument.value)
            total = total * number if function == "Mul" else total + number
        else:
            others.append(argument)
    if total == start and others:
        return tuple(others)
    return (rational(total), *others)


def _shown(operation: Operation) -> str:
    function, arguments = operation.function, operation.arguments
    sign = _SHOWN_INFIX.get(function)
    if function == "Not":
        return f"not {_inside(arguments[0], _NOT + 1)}"
    if sign is None or len(arguments) < 2:
        return f"{function}({', '.join(map(str, arguments))})"
    if function == "Add":
        return _sum(arguments)
    if function == "Mul":
        return _product(arguments)
    strength = _INFIX[sign][0] + 1
    joined = sign if function in ("Pow", "FloorDiv") else f" {sign} "
    return joined.join([_inside(argument, strength) for argument in arguments])


def _sum(arguments: tuple[Expression, ...]) -> str:
    text = _inside(arguments[0], _INFIX["+"][0])
    for argument in arguments[1:]:
        term = _inside(argument, _INFIX["+"][0] + 1)
        text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
    return text


def _product(arguments: tuple[Expression, ...]) -> str:
    first, *rest = arguments
    factors = [_inside(argument, _INFIX["*"][0] + 1) for argument in rest]
    if first == Number(-1) and not factors[0].startswith("-"):
        return "-" + "*".join(factors)
    return "*".join([_inside(first, _INFIX["*"][0]), *factors])


def _inside(expression: Expression, strength: int) -> str:
    """Print an operand, in parentheses where operators around it bind more tightly."""
    text = str(expression)
    return f"({text})" if _strength(expression) < strength else text


def _strength(expression: Expression) -> int:
    if isinstance(expression, Number):
        if expression.kind is Fraction:
            return _INFIX["*"][0]
        return _NEGATIVE if expression.kind is not bool and expression.value < 0 else _ATOM
    if isinstance(expression, Symbol):
        return _ATOM
    if expression.function == "Not":
        return _NOT
    sign = _SHOWN_INFIX.get(expression.function)
    return _ATOM if sign is None or len(expression.arguments) < 2 else _INFIX[sign][0]


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
                named = _NAMED_NUMBERS.get(_dotted(node) or "")
                if named is not None:
                    return Number(named)
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
