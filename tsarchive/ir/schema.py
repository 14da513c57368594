"""Schemas of operators and functions, and the grammar of their text.

``aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor``
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from tsarchive.errors import FormatError

from .types import (
    FLOAT,
    NONE,
    SIMPLE_TYPES,
    DictType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    VarType,
)


class NoDefault:
    """The type of ``NO_DEFAULT``: None is itself a default value."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = NoDefault()


class Argument(NamedTuple):
    """One argument or result of a schema. ``repeat`` is N of a broadcasting list ``int[N]``."""

    name: str
    type: Type
    default: Any = NO_DEFAULT
    kwarg_only: bool = False
    repeat: int | None = None
    is_write: bool = False

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT

    @property
    def is_out(self) -> bool:
        return self.kwarg_only and self.is_write


class FunctionSchema(NamedTuple):
    """Name, overload name, arguments and results."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_vararg: bool = False
    is_varret: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def return_type(self) -> Type:
        """Return the type of a call: one result as it is, several as a tuple, none as None."""
        types = tuple(result.type for result in self.returns)
        return types[0] if len(types) == 1 else TupleType(types) if types else NONE

    @property
    def has_unnamed(self) -> bool:
        """True where tracing named the parameters: it calls those without a name ``argument_N``."""
        return any(a.name == f"argument_{place}" for place, a in enumerate(self.arguments))


# ScalarType, Layout, MemoryFormat and QScheme values are plain ints in TorchScript.
_OTHER_NAMES = {
    "AnyType": "Any", "AnyListType": "list", "AnyTupleType": "tuple", "Scalar": "number",
    "ConstQuantizerPtr": "Quantizer", "Dimname": "str", "DeviceObjType": "Device",
    "ScalarType": "int", "Layout": "int", "MemoryFormat": "int", "SymInt": "int",
    "SymIntType": "int", "SymFloat": "float", "SymBool": "bool",
}  # fmt: skip
_BASE_TYPES = SIMPLE_TYPES | {name: SIMPLE_TYPES[own] for name, own in _OTHER_NAMES.items()}

_NUMBER: Final = r"(?:inf|nan|\d+\.?\d*(?:[eE][-+]?\d+)?)"
_TOKEN = rf"""\s*(?:(?P<arrow>->)|(?P<dots>\.\.\.)|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>[-+]?{_NUMBER}(?:[-+]{_NUMBER}j|j)?)(?![\w.])
    |(?P<name>[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_0-9]\w*)*)|(?P<symbol>[()\[\],*?!=|<>]))"""

_VARIABLE: Final = re.compile(r"t\w{0,2}|[a-z]V")
_FULL_NAME = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?:\.[A-Za-z_0-9]\w*)?")
# An argument between commas; those in brackets do not count.
_PART = re.compile(r"(?:[^,()\[\]]|\([^()\[\]]*\)|\[[^()\[\]]*\])+")

Resolve = Callable[[str], Type]


def _no_classes(name: str) -> Type:
    raise FormatError(f"schema names the unknown type {name!r}")


@cache
def parse_schema(text: str) -> FunctionSchema:
    """Parse the text of a schema whose types are all built in.

    Raises FormatError where the text departs from the grammar.
    """
    return _Parser(text, _no_classes).schema()


def parse_schema_with(text: str, resolve: Resolve) -> FunctionSchema:
    """Like :func:`parse_schema`; ``resolve`` gives the types of dotted names and unknown names."""
    return _of_known_parts(text) or _Parser(text, resolve).schema()


def _of_known_parts(text: str) -> FunctionSchema | None:
    """Return a schema made of arguments that many schemas share; None for unusual ones."""
    head, _, tail = text.partition(") -> ")
    full_name, _, inside = head.partition("(")
    if not _FULL_NAME.fullmatch(full_name):
        return None
    name, _, overload = full_name.partition(".")
    is_list = tail.startswith("(") and tail.endswith(")")
    try:
        arguments = _known_arguments(inside)
        returns = _known_arguments(tail[1:-1]) if is_list else (_known_argument(tail, False),)
    except FormatError:
        return None
    return FunctionSchema(name, overload, arguments, returns)


def _known_arguments(text: str) -> tuple[Argument, ...]:
    """Parse arguments. Raises FormatError for what is no list of them, or where brackets nest."""
    found: list[Argument] = []
    kwarg_only = False
    parts = _PART.findall(text)
    if ",".join(parts) != text:
        raise FormatError(f"brackets nest in {text!r}")
    for part in map(str.strip, parts):
        if part == "*":
            kwarg_only = True
            continue
        argument = _known_argument(part, kwarg_only)
        found.append(argument if argument.name else argument._replace(name=str(len(found))))
    return tuple(found)


# The usual arguments: a type with a mark, made a list or optional, a name, and a plain default.
_MARK: Final = r"(?:\((?:\*|\w(!?)(?: -> \*)?)\))?"
_ARGUMENT: Final = re.compile(
    rf"([A-Za-z]\w*)(?:\((\w+), (\w+)\))?{_MARK}(\?)?(?:\[(\d{{0,3}})\]{_MARK}(\?)?)?"
    r"(?: ([A-Za-z_]\w*)(?:=([A-Za-z]\w*|-?\d+(?:\.\d*(?:e-?\d+)?)?|\[[-0-9, ]*\]|\"\w*\"))?)?",
    re.ASCII,
)


@lru_cache(4096)
def _known_argument(text: str, kwarg_only: bool) -> Argument:
    return _usual_argument(text, kwarg_only) or _parsed_argument(text, kwarg_only)


def _usual_argument(text: str, kwarg_only: bool) -> Argument | None:
    """Return what the parser returns, for usual arguments; None for others, and wrong ones."""
    found = _ARGUMENT.fullmatch(text)
    if found is None:
        return None
    base, key, item, write, is_optional, count, write_to_list, is_optional_list, name, written = (
        found.groups()
    )
    type_ = _usual_type(base, key, item, is_optional, count is not None, is_optional_list)
    if type_ is None:
        return None
    repeat = int(count) if count else None
    default: Any = NO_DEFAULT
    if written is not None:
        try:
            default = _fit(_usual_default(written), type_, repeat)
        except ValueError:
            return None
    return Argument(name or "", type_, default, kwarg_only, repeat, "!" in (write, write_to_list))


def _usual_default(written: str) -> Any:
    """Return the value of a usual default. Raises ValueError for others."""
    if written in _WORDS:
        return _WORDS[written]
    if written[0] == "[":
        return [_integer(item) for item in written[1:-1].split(", ")] if written != "[]" else []
    if written[0] == '"':
        return written[1:-1]
    return float(written) if "." in written else _integer(written)


def _integer(written: str) -> int:
    """Return the number that digits write. Raises ValueError where Python writes it otherwise."""
    number = int(written)
    if str(number) != written:
        raise ValueError(written)
    return number


@lru_cache(1024)
def _usual_type(
    base: str,
    key: str | None,
    item: str | None,
    is_optional: str | None,
    is_list: bool,
    is_optional_list: str | None,
) -> Type | None:
    type_ = _base_type(base)
    if key and item:
        type_ = _usual_dict(key, item) if base == "Dict" else None
    if type_ is None:
        return None
    if is_optional:
        type_ = OptionalType(type_)
    if is_list:
        type_ = ListType(type_)
    return OptionalType(type_) if is_optional_list else type_


def _usual_dict(key: str, item: str) -> Type | None:
    key_type, item_type = _base_type(key), _base_type(item)
    return DictType(key_type, item_type) if key_type and item_type else None


def _base_type(name: str) -> Type | None:
    """Return a type that is built in, or a type variable."""
    found: Type | None = _BASE_TYPES.get(name)
    return VarType(name) if found is None and _VARIABLE.fullmatch(name) else found


def _parsed_argument(text: str, kwarg_only: bool) -> Argument:
    parser = _Parser(text, _no_classes)
    argument = parser.argument("", kwarg_only=kwarg_only)
    if parser.at != len(parser.tokens):
        raise parser.fail("the end")
    return argument


class _Parser:
    def __init__(self, text: str, resolve: Resolve) -> None:
        self.text = text
        self.resolve = resolve
        self.tokens = list(_tokens(text))
        self.at = 0

    def fail(self, wanted: str) -> FormatError:
        offset = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)
        return FormatError(f"schema {self.text!r}: expected {wanted}", offset=offset)

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        if self.at == len(self.tokens):
            raise self.fail("more text")
        self.at += 1
        return self.tokens[self.at - 1][0]

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.fail(repr(token))

    def items(self, end: str) -> Iterator[None]:
        """Stop at each item of a list with commas, and take its ``end``."""
        while not self.accept(end):
            yield
            if self.peek() != end:
                self.expect(",")

    def schema(self) -> FunctionSchema:
        name, _, overload = self.take().partition(".")
        self.expect("(")
        arguments, is_vararg = self.arguments(")")
        self.expect("->")
        if self.accept("..."):
            returns: list[Argument] = []
            is_varret = True
        elif self.accept("("):
            returns, is_varret = self.arguments(")")
        else:
            returns, is_varret = [self.argument("", kwarg_only=False)], False
        if self.at != len(self.tokens):
            raise self.fail("the end")
        return FunctionSchema(
            name, overload, tuple(arguments), tuple(returns), is_vararg, is_varret
        )

    def arguments(self, end: str) -> tuple[list[Argument], bool]:
        found: list[Argument] = []
        kwarg_only = is_vararg = False
        for _ in self.items(end):
            if self.accept("*"):
                kwarg_only = True
            elif self.accept("..."):
                is_vararg = True
            else:
                found.append(self.argument(str(len(found)), kwarg_only=kwarg_only))
        return found, is_vararg

    def argument(self, unnamed: str, *, kwarg_only: bool) -> Argument:
        type_, repeat, is_write = self.type_and_alias()
        name = self.take() if re.match(r"[A-Za-z_]", self.peek()) else unnamed
        default: Any = NO_DEFAULT
        if self.accept("="):
            default = _fit(self.literal(), type_, repeat)
        return Argument(name, type_, default, kwarg_only, repeat, is_write)

    def type_and_alias(self) -> tuple[Type, int | None, bool]:
        type_: Type = self.base_type()
        is_write = self.alias()
        repeat: int | None = None
        while self.peek() in ("[", "?"):
            if self.accept("?"):
                type_ = OptionalType(type_)
            else:
                self.expect("[")
                repeat = None if self.peek() == "]" else int(self.take())
                self.expect("]")
                type_ = ListType(type_)
            is_write = self.alias() or is_write
        return type_, repeat, is_write

    def alias(self) -> bool:
        if not self.accept("("):
            return False
        is_write = False
        while not self.accept(")"):
            is_write = self.take() == "!" or is_write
        return is_write

    def base_type(self) -> Type:
        if self.accept("("):
            return TupleType(tuple(self.type_list(")")))
        name = self.take()
        if name == "Dict":
            self.expect("(")
            key, value = self.type_list(")")
            return DictType(key, value)
        if name in ("Future", "Await", "RRef"):
            self.expect("(")
            return HandleType(name, self.type_list(")")[0])
        if name == "Union":
            # torch reads brackets, and shows parentheses.
            if self.accept("("):
                return UnionType(tuple(self.type_list(")")))
            self.expect("[")
            return UnionType(tuple(self.type_list("]")))
        return _base_type(name) or self.resolve(name)

    def type_list(self, end: str) -> list[Type]:
        found = []
        for _ in self.items(end):
            found.append(self.type_and_alias()[0])
            if re.match(r"[A-Za-z_]", self.peek()):
                self.take()
        return found

    def literal(self) -> Any:
        if self.accept("["):
            return [self.literal() for _ in self.items("]")]
        token = self.take()
        if token in _WORDS:
            return _WORDS[token]
        if token.lstrip("+-") in ("inf", "nan"):
            return float(token)
        if token.endswith("j"):
            return complex(token)  # also what torch shows, as 0.+2.j
        try:
            from .text_limits import parse_expression

            return ast.literal_eval(parse_expression(token))
        except (ValueError, SyntaxError):
            raise self.fail("a default value") from None


_WORDS = {
    "None": None, "True": True, "False": False, "Mean": 1, "Sum": 2, "strided": 0, "long": 4,
    "contiguous_format": 0, "preserve_format": 1, "channels_last": 2,
}  # fmt: skip


def _tokens(text: str) -> list[tuple[str, int]]:
    token = re.compile(_TOKEN, re.VERBOSE)
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = token.match(text, at)
        if match is None:
            raise FormatError(f"schema {text!r}: cannot read {text[at]!r}", offset=at)
        found.append((match.group(match.lastgroup or 0), match.start()))
        at = match.end()
    return found


def _fit(value: Any, type_: Type, repeat: int | None) -> Any:
    """Return a default as torch holds it: ``float x=0`` is 0.0, ``int[2] x=1`` is [1, 1]."""
    element = type_.element if isinstance(type_, OptionalType) else type_
    if isinstance(element, ListType):
        if repeat is not None and isinstance(value, int | float):
            value = [value] * repeat
        if isinstance(value, list):
            return [_fit(item, element.element, None) for item in value]
    if type_ == FLOAT and type(value) is int:
        return float(value)
    return value
