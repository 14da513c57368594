"""Conditions on a file of a survey, as TOML has them: columns, and what they must be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fnmatch import translate
from functools import cache
from operator import eq, ge, gt, le, lt
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args, get_type_hints

from tsarchive.describing.text import listed
from tsarchive.errors import FormatError
from tsarchive.findings import Nature, Severity
from tsarchive.formats.registry import FORMATS
from tsarchive.operators.risks import Risk
from tsarchive.scanning.collecting import FORM_KINDS

from .grouping import Place
from .listing import SIGNATURE
from .rows import FileRow, FindingRow, Status

Table: TypeAlias = Mapping[str, Any]
"""A table of TOML."""

How: TypeAlias = Literal["any", "all", "only"]

VERBS: Final = ("verify", "audit")
_SHOWN: Final = 5


class Known(Protocol):
    """What other rows than that of a file tell of it."""

    def twin_of(self, row: FileRow, column: str) -> Place | None:
        """Return the first file with the digest that this one has; None where it is this one."""

    def is_signed(self, row: FileRow) -> bool:
        """Return whether a signature is beside the file, or its digest is listed."""

    def finding(self, row: FileRow, condition: FindingCondition) -> str | None:
        """Return the first finding of the file that fits."""


class Condition(Protocol):
    """A condition on a file; as text, what it asks for."""

    @property
    def asks(self) -> tuple[str, ...]:
        """The columns that it asks for, and the verbs whose findings it does."""

    def holds(self, row: FileRow, known: Known) -> bool:
        """Return whether it holds. What is not known of a file is never what was asked for."""

    def found(self, row: FileRow, known: Known) -> str:
        """Tell what the file has there."""


class Pattern:
    """Shell patterns, any of which may fit; ``*`` stands for all characters, also ``/``."""

    def __init__(self, *patterns: str) -> None:
        self._text = " or ".join(patterns)
        # Without patterns there is nothing that fits.
        self._fits = re.compile("|".join(map(translate, patterns)) or r"(?!)").match

    def __contains__(self, text: str) -> bool:
        return self._fits(text) is not None

    def __str__(self) -> str:
        return self._text or "nothing"


@dataclass(frozen=True, slots=True)
class TextCondition:
    """A column is a text that fits; what is not known is empty."""

    column: str
    pattern: Pattern

    @property
    def asks(self) -> tuple[str, ...]:
        return (self.column,)

    def holds(self, row: FileRow, known: Known) -> bool:
        return (getattr(row, self.column) or "") in self.pattern

    def found(self, row: FileRow, known: Known) -> str:
        return f"{self.column} is {getattr(row, self.column) or 'unknown'}"

    def __str__(self) -> str:
        return f"{self.column} {self.pattern}"


@dataclass(frozen=True, slots=True)
class ItemsCondition:
    """``any`` item of a column fits, ``all`` patterns fit an item, or ``only`` such items are there
    that fit."""

    column: str
    how: How
    patterns: tuple[Pattern, ...]

    @property
    def asks(self) -> tuple[str, ...]:
        return (self.column,)

    def holds(self, row: FileRow, known: Known) -> bool:
        items = getattr(row, self.column)
        if self.how == "all":
            return all(any(item in pattern for item in items) for pattern in self.patterns)
        return (all if self.how == "only" else any)(map(self._fits, items))

    def found(self, row: FileRow, known: Known) -> str:
        items = getattr(row, self.column)
        telling = [item for item in items if self._fits(item) is not (self.how == "only")]
        shown = listed(telling if self.how != "all" and telling else items, _SHOWN)
        return f"{self.column}: {shown or 'none'}"

    def _fits(self, item: str) -> bool:
        return any(item in pattern for pattern in self.patterns)

    def __str__(self) -> str:
        return f"{self.column} {self.how} of {', '.join(map(str, self.patterns)) or 'nothing'}"


Scale: TypeAlias = Callable[[Any], Any]
"""Makes values of a column, and those that they are compared with, comparable."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Values of a scale that are ``sign``, such as ``>=``, to ``bound``."""

    sign: str
    bound: Any

    def __contains__(self, value: Any) -> bool:
        return _SIGNS[self.sign](value, self.bound)


_SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": ge, "<=": le, ">": gt, "<": lt, "=": eq,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OrderedCondition:
    """A column is as all comparisons say; ``text`` are these as the policy has them."""

    column: str
    scale: Scale
    comparisons: tuple[Comparison, ...]
    text: str

    @property
    def asks(self) -> tuple[str, ...]:
        return (self.column,)

    def holds(self, row: FileRow, known: Known) -> bool:
        value = getattr(row, self.column)
        return value is not None and self.fits(value)

    def fits(self, value: Any) -> bool:
        """Return whether a value that is known is as all comparisons say."""
        place = self.scale(value)
        return all(place in comparison for comparison in self.comparisons)

    def found(self, row: FileRow, known: Known) -> str:
        value = getattr(row, self.column)
        shown = f"{value:,}" if isinstance(value, int) else value
        return f"{self.column} is {'unknown' if value is None else shown}"

    def __str__(self) -> str:
        return f"{self.column} {self.text}"


@dataclass(frozen=True, slots=True)
class FindingCondition:
    """A finding of the file fits in its texts, and in what is ordered."""

    texts: tuple[TextCondition, ...]
    ordered: tuple[OrderedCondition, ...]

    @property
    def asks(self) -> tuple[str, ...]:
        asked = [text.pattern for text in self.texts if text.column == "verb"]
        return tuple(verb for verb in VERBS if all(verb in pattern for pattern in asked))

    def fits(self, row: FindingRow) -> bool:
        """Return whether this finding fits."""
        return all((getattr(row, c.column) or "") in c.pattern for c in self.texts) and all(
            c.fits(getattr(row, c.column)) for c in self.ordered
        )

    def holds(self, row: FileRow, known: Known) -> bool:
        return known.finding(row, self) is not None

    def found(self, row: FileRow, known: Known) -> str:
        return known.finding(row, self) or "no such finding"

    def __str__(self) -> str:
        return f"a finding of {', '.join(map(str, (*self.texts, *self.ordered)))}"


@dataclass(frozen=True, slots=True)
class TwinCondition:
    """Another file, which comes before it by root and path, has the same digest."""

    column: str

    @property
    def asks(self) -> tuple[str, ...]:
        return (self.column,)

    def holds(self, row: FileRow, known: Known) -> bool:
        return known.twin_of(row, self.column) is not None

    def found(self, row: FileRow, known: Known) -> str:
        twin = known.twin_of(row, self.column)
        return (
            f"{self.column} is that of {twin.path}" if twin else f"{self.column} of no other file"
        )

    def __str__(self) -> str:
        return f"twin {self.column}"


@dataclass(frozen=True, slots=True)
class SignedCondition:
    """A signature is beside the file, or its digest is listed; or, with False, neither."""

    wanted: bool

    @property
    def asks(self) -> tuple[str, ...]:
        return ()

    def holds(self, row: FileRow, known: Known) -> bool:
        return known.is_signed(row) is self.wanted

    def found(self, row: FileRow, known: Known) -> str:
        return "signed" if known.is_signed(row) else "not signed"

    def __str__(self) -> str:
        return "signed" if self.wanted else "not signed"


def conditions(table: Table, where: str) -> tuple[Condition, ...]:
    """Read a table of conditions, all of which must hold. ``where`` names it in errors.

    Raises FormatError for a column that there is not, and for a value that it cannot have.
    """
    if not isinstance(table, dict) or not table:
        raise _wrong(where, table, 'a table of conditions, such as { kind = "pt2" }')
    return tuple(_condition(name, asked, f"{where}.{name}") for name, asked in table.items())


def known_keys(table: Any, known: Iterable[str], where: str) -> None:
    """Raise FormatError for what is no table, and for a key that is not known."""
    if not isinstance(table, dict):
        raise _wrong(where, table, "a table")
    for name in table:
        _known(name, tuple(known), where)


def texts(value: Any, where: str, *, may_be_none: bool = False) -> tuple[str, ...]:
    """Return a text, or a list of them, as a tuple.

    Raises FormatError for anything else, and for a list of none where that means nothing.
    """
    found = value if isinstance(value, list) else [value]
    is_enough = bool(found) or may_be_none
    if not (is_enough and all(isinstance(item, str) for item in found)):
        raise _wrong(where, value, "a text, or a list of them")
    return tuple(found)


def _condition(name: str, asked: Any, where: str) -> Condition:
    read = _READERS.get(name)
    if read is not None:
        return read(name, asked, where)
    kinds = _columns()
    _known(name, (*kinds, *_READERS), where.rpartition(".")[0])
    return kinds[name](name, asked, where)


_Reader: TypeAlias = Callable[[str, Any, str], Condition]


@cache
def _columns() -> Mapping[str, _Reader]:
    """Return what reads conditions on each column of the rows of files, by its type."""
    types = get_type_hints(FileRow)
    return {field.name: _reader(field.name, types[field.name]) for field in fields(FileRow)}


def _reader(column: str, annotation: Any) -> _Reader:
    if column in ("torch_first", "torch_last"):
        return _release
    if annotation is int or int in get_args(annotation):
        return _number
    return _items if annotation == tuple[str, ...] else _text


def _text(name: str, asked: Any, where: str) -> TextCondition:
    return TextCondition(name, Pattern(*_words(name, asked, where)))


def _words(name: str, asked: Any, where: str, *, may_be_none: bool = False) -> tuple[str, ...]:
    """Return patterns, each of which can fit: what has only few values has no others."""
    patterns, values = texts(asked, where, may_be_none=may_be_none), _VALUES.get(name)
    for pattern in patterns if values else ():
        if not any(value in Pattern(pattern) for value in values or ()):
            raise _unknown(where, pattern, values or ())
    return patterns


def _items(name: str, asked: Any, where: str) -> ItemsCondition:
    table: Mapping[How, Any] = asked if isinstance(asked, dict) else {"any": asked}
    known_keys(table, _HOW, where)
    if len(table) != 1:
        raise _wrong(where, asked, f"one of {', '.join(_HOW)}")
    ((how, patterns),) = table.items()
    words = _words(name, patterns, where, may_be_none=how == "only")
    return ItemsCondition(name, how, tuple(map(Pattern, words)))


def _number(name: str, asked: Any, where: str) -> OrderedCondition:
    return _ordered(name, asked, where, _amount, "a number, or a bound such as '<= 2 GiB'")


def _amount(value: Any) -> int:
    """Return a number of a row, or one with a unit of bytes."""
    if isinstance(value, int):
        return value
    digits, unit = _parts(_AMOUNT, value)
    return int(digits) * _UNITS[unit]


_AMOUNT: Final = re.compile(r"(\d[\d_]*)\s*(\w*)", re.ASCII)
_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def _release(name: str, asked: Any, where: str) -> OrderedCondition:
    return _ordered(name, asked, where, _version, "a release of torch, or a bound such as '>= 1.8'")


def _version(name: str) -> tuple[int, int]:
    major, minor = _parts(_VERSION, name)
    return int(major), int(minor)


_VERSION: Final = re.compile(r"(\d+)\.(\d+)", re.ASCII)


def _ranked(
    enum: type[Severity] | type[Nature],
) -> Callable[[str, Any, str], OrderedCondition]:
    """Return what reads bounds of values that have an order."""
    names = [member.value for member in enum]
    expected = f"one of {', '.join(names)}, or a bound such as '>= {names[1]}'"

    def read(name: str, asked: Any, where: str) -> OrderedCondition:
        return _ordered(name, asked, where, names.index, expected)

    return read


def _ordered(name: str, asked: Any, where: str, scale: Scale, expected: str) -> OrderedCondition:
    """Read a value, a bound or a list of bounds of a column."""
    bounds = asked if isinstance(asked, list) and asked else [asked]
    try:
        comparisons = tuple(_comparison(bound, scale) for bound in bounds)
    except (KeyError, TypeError, ValueError):
        raise _wrong(where, asked, expected) from None
    return OrderedCondition(name, scale, comparisons, " and ".join(map(str, bounds)))


def _comparison(bound: Any, scale: Scale) -> Comparison:
    if isinstance(bound, bool):
        raise TypeError
    if isinstance(bound, int):
        return Comparison("=", scale(bound))
    sign, value = _parts(_BOUND, bound)
    return Comparison(sign or "=", scale(value))


def _parts(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    """Return the groups of a pattern. Raises ValueError for a text that it does not fit."""
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match.groups("")


_BOUND: Final = re.compile(r"\s*(>=|<=|>|<|=)?\s*(\S.*?)\s*")


def _finding(_: str, asked: Any, where: str) -> FindingCondition:
    known_keys(asked, (*_OF_FINDINGS, *_RANKED), where)
    if not asked:
        raise _wrong(where, asked, "a table such as { severity = '>= warning' }")
    texts = [_text(n, value, f"{where}.{n}") for n, value in asked.items() if n in _OF_FINDINGS]
    ranked = [_RANKED[n](n, value, f"{where}.{n}") for n, value in asked.items() if n in _RANKED]
    return FindingCondition(tuple(texts), tuple(ranked))


def _twin(_: str, asked: Any, where: str) -> TwinCondition:
    if asked not in ("model", "sha256"):
        raise _wrong(where, asked, "'model' or 'sha256'")
    return TwinCondition(asked)


def _signed(_: str, asked: Any, where: str) -> SignedCondition:
    if not isinstance(asked, bool):
        raise _wrong(where, asked, "true or false")
    return SignedCondition(asked)


_HOW: Final = get_args(How)
_OF_FINDINGS: Final = ("rule", "verb", "message", "record")
_RANKED: Final = {"severity": _ranked(Severity), "nature": _ranked(Nature)}
_READERS: Final[Mapping[str, _Reader]] = {
    "finding": _finding, "twin": _twin, "signed": _signed,
}  # fmt: skip
"""Conditions on other things than the columns of a file's own row."""
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "status": get_args(Status),
    "kind": ("", *sorted({SIGNATURE, *FORM_KINDS, *(each.kind for each in FORMATS)})),
    "effects": tuple(risk.value for risk in Risk),
    "verb": VERBS,
}
"""All values of columns that have few; an empty one stands for what is not known."""


def _known(name: str, known: Iterable[str], where: str) -> None:
    if name not in known:
        raise _unknown(where, name, known)


def _unknown(where: str, name: str, known: Iterable[str]) -> FormatError:
    """Return the error about a word that is none of those that are known."""
    near = get_close_matches(name, known, n=1)
    hint = f"Known are {', '.join(filter(None, known))}"
    if near:
        hint = f"Did you mean {near[0]!r}? {hint}"
    return FormatError(f"{where} does not know {name!r}", hint=hint)


def _wrong(where: str, value: Any, expected: str) -> FormatError:
    return FormatError(f"{where} is {value!r}", hint=f"Give {expected}")
