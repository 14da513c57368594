"""Literals and signatures as torch prints them, read without Python's parser.

What is written in any other way, or wrong, gives None here: the parser reads it, and says what is
wrong with it. What is read here has the meaning that the parser would give it.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from tsarchive.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    STRING,
    ListType,
    OptionalType,
    TupleType,
    Type,
)

from .grammar import OF_PYTHON

_SCALARS: Final[dict[Type, tuple[re.Pattern[str], Callable[[str], Any]]]] = {
    BOOL: (re.compile("True|False"), "True".__eq__),
    INT: (re.compile("-?(?:0|[1-9][0-9]{0,17})"), int),
    FLOAT: (re.compile(r"-?[0-9]{1,18}\.[0-9]{0,20}(?:e-?[0-9]{1,3})?"), float),
    STRING: (re.compile(r'"[ !#-\[\]-~]*"'), lambda text: text[1:-1]),
    NONE: (re.compile("None"), lambda text: None),
}
_NEVER: Final = re.compile("(?!)")
# A tuple has a comma behind its element, or between several.
_TUPLE: Final = re.compile(r"\((?:[^,]+,|[^,]+(?:, [^,]+)+)\)")


class Literal(NamedTuple):
    value: Any


def read_literal(text: str, type_: Type) -> Literal | None:
    """Return the value of a constant of ``type_``: a scalar, or a list or tuple of scalars."""
    if isinstance(type_, OptionalType) and text != "None":
        type_ = type_.element
    if isinstance(type_, ListType) and text.startswith("[") and text.endswith("]"):
        parts = text[1:-1].split(", ")
        return _sequence(list, parts, [type_.element] * len(parts))
    if isinstance(type_, TupleType) and type_.qualified_name is None and _TUPLE.fullmatch(text):
        return _sequence(tuple, text[1:-1].removesuffix(",").split(", "), type_.elements)
    return _scalar(text, type_)


def _scalar(text: str, type_: Type) -> Literal | None:
    if isinstance(type_, OptionalType):
        type_ = NONE if text == "None" else type_.element
    form, value = _SCALARS.get(type_, (_NEVER, str))
    return Literal(value(text)) if form.fullmatch(text) else None


def _sequence(
    kind: Callable[[Iterable[Any]], Any], parts: Sequence[str], types: Sequence[Type]
) -> Literal | None:
    """Read a list or tuple; a scalar that holds a comma is cut into parts that are none."""
    found = [*filter(None, map(_scalar, parts, types))]
    is_whole = len(found) == len(parts) == len(types)
    return Literal(kind(literal.value for literal in found)) if is_whole else None


class Parameter(NamedTuple):
    """``name: type=default``, parts that are absent being None."""

    name: str
    type: str | None
    default: str | None


_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_WORD: Final = re.compile(_NAME)
_DOTTED: Final = rf"{_NAME}(?:\.{_NAME})*"
_DEEPEST: Final = 4
# Names that are read here are far from the bound on their length.
_LONGEST: Final = 4_000
_NO_NAMES: Final = OF_PYTHON | {*keyword.kwlist}
# Parameters of these types hold lists and take numbers.
_BROADCASTING: Final = ("BroadcastingList", "_size_")


def _type(levels: int) -> str:
    if not levels:
        return _DOTTED
    # Each level stands once in the pattern: said twice, four levels are sixteen to compile.
    return rf"{_DOTTED}(?:\[(?:{_type(levels - 1)}(?:, (?!\])|(?=\])))+\])?"


_START: Final = re.compile(rf"(?:  )?def ({_NAME})\(")
_DEFAULT: Final = r'[^][\s,()="]+'
_DEFAULTS: Final = rf'"[^"\n]*"|{_DEFAULT}|\[{_DEFAULT}(?:, {_DEFAULT})*\]'
_PARAMETER: Final = re.compile(
    rf"[ \n]*({_NAME})(?:: ({_type(_DEEPEST)}))?(?:=({_DEFAULTS}))?([,)])"
)
_END: Final = re.compile(rf" -> ({_type(_DEEPEST)}):\n")


def read_signature(text: str) -> tuple[list[Parameter], str] | None:
    """Return the parameters and the result type of a function or method.

    None where its first lines take a parser.
    """
    start = _START.match(text)
    if start is None:
        return None
    parameters: list[Parameter] = []
    names = [start[1]]
    position, sign = start.end(), ","
    while sign == ",":
        found = _PARAMETER.match(text, position)
        if found is None:
            return None
        name, type_, default, sign = found.groups()
        parameters.append(Parameter(name, type_, default))
        names += name, type_ or ""
        position = found.end()
    end = _END.match(text, position)
    if end is None or end.end() > _LONGEST:
        return None
    names.append(end[1])
    return (parameters, end[1]) if _are_names(" ".join(names)) else None


def _are_names(text: str) -> bool:
    """Return whether words may be names in TorchScript, and types have no special form."""
    if any(special in text for special in _BROADCASTING):
        return False
    return _NO_NAMES.isdisjoint(_WORD.findall(text))
