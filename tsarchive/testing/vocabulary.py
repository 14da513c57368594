"""The forms, arguments and literals from which programs are drawn; definitions add their own forms.

A form is a piece of source with typed holes, such as ``(<int> + len(<str>))``:

| hole | stands for |
|---|---|
| ``<int>`` | an expression of the type |
| ``<int|i:str>`` | an expression that may use the variable ``i`` of the second type as well |
| ``<.int>`` | a variable of the type |
| ``<=int>`` | a variable of the type that may be assigned |
| ``<+int>`` | a new variable of the type |
| ``<.int:v>``, then ``<:v>`` | a variable, and the same variable again |

Types are annotation text, with patterns over them such as ``Dict[str, T]``.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from . import forms

if TYPE_CHECKING:
    import torch


_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-3, 6),
    "float": st.sampled_from((0.5, -1.5, 2.0, 0.1)),
    "bool": st.booleans(),
    "str": st.text("abc ", max_size=5),
    "complex": st.sampled_from((1j, 2 - 0.5j)),
}
_SHAPES = ((3,), (2, 3), (), (3, 3), (0,))


def _tensor(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    import torch

    count = torch.Size(shape).numel()
    return (torch.arange(count) - 1).reshape(shape).to(getattr(torch, dtype))


def arguments(type_: str) -> st.SearchStrategy[Any]:
    """Draw values for a parameter annotated with ``type_``."""
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if type_ == "Tensor":
        dtypes = st.sampled_from(("float32", "float32", "int64", "float64", "bool"))
        return st.builds(_tensor, st.sampled_from(_SHAPES), dtypes)
    head, inner = split(type_)
    inside = [arguments(part) for part in inner]
    match head:
        case "List":
            return st.lists(*inside, min_size=1, max_size=3)
        case "Dict":
            return st.dictionaries(*inside, min_size=1, max_size=3)
        case "Tuple":
            return st.tuples(*inside)
        case "Optional":
            return st.none() | inside[0]
    return st.one_of(inside)


_SMALL = st.integers(-3, 9)
_WHOLE = st.one_of(_SMALL, _SMALL, st.sampled_from((100, 2**31, 2**40, -(2**62))))


def _is_kept(value: float) -> bool:
    # TorchScript writes 1e10 as `10000000000`, which it reads back as an int.
    return math.isfinite(value) and not (1e10 <= abs(value) < 1e18)


_FLOATS = st.one_of(
    st.sampled_from((0.5, 2.0, -1.5, 0.0, 1.0, 1e-5, 3e20, 0.1)),
    st.floats(-4, 4),
    st.floats(allow_nan=False).filter(_is_kept),
)
# Carriage returns do not read back. TorchScript counts bytes, so non-ASCII text appears only in
# forms that do not slice it.
_TEXT = st.one_of(
    st.text("abc ", max_size=4),
    st.text("a'\"\\\n\t\x01\x7f{}%", max_size=4),
    st.sampled_from(("a text that is too long to stand inside an expression", "")),
)


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


LITERALS: dict[str, st.SearchStrategy[str]] = {
    "int": _WHOLE.map(str).map(_signed),
    "float": _FLOATS.map(repr).map(_signed),
    "bool": st.booleans().map(str),
    "str": _TEXT.map(repr),
    "complex": st.sampled_from(("1j", "(2+0.5j)", "complex(1, -1)")),
}


PLAIN_TYPES = ("int", "float", "Tensor", "bool", "str", "complex")
TYPES = (
    *PLAIN_TYPES,
    "List[int]", "List[Tensor]", "Optional[int]", "Optional[Tensor]", "Tuple[int, float]",
    "Dict[str, int]", "List[str]", "List[float]", "List[bool]", "List[List[int]]",
    "List[Tuple[int, str]]", "Dict[int, Tensor]", "Dict[str, List[int]]", "Tuple[Tensor, Tensor]",
    "Tuple[int, Tuple[float, str]]", "Tuple[float, str]", "Optional[str]", "Optional[List[int]]",
    "Optional[float]", "Tuple[List[int], bool]", "Union[int, str]",
)  # fmt: skip


def _bindings(pattern: str, types: Iterable[str] = TYPES) -> Iterator[dict[str, str]]:
    """Yield the bindings of the types that fit a pattern."""
    return (bound for type_ in types if (bound := match(pattern, type_)) is not None)


def _forms_by_type() -> dict[str, list[str]]:
    found = defaultdict(list, {type_: list(texts) for type_, texts in forms.CONCRETE.items()})
    for pattern, result, texts in forms.GENERIC:
        for bound in _bindings(pattern):
            found[substitute(result, bound)] += [substitute(text, bound) for text in texts]
    return found


@cache
def _leaves(type_: str) -> list[str]:
    return [
        substitute(text, bound)
        for pattern, texts in forms.LEAVES.items()
        for bound in _bindings(pattern, [type_])
        for text in texts
    ]


def _statements() -> list[str]:
    generic = [
        substitute(text, bound)
        for pattern, texts in forms.GENERIC_STATEMENTS
        for bound in _bindings(pattern)
        for text in texts
    ]
    return [*forms.SIMPLE_STATEMENTS, *generic]


@dataclass(slots=True)
class Vocabulary:
    """The available forms.

    ``types`` are those a new variable or parameter may have; ``objects`` those of them that are
    script classes, ``names`` all definitions.
    """

    types: list[str] = field(default_factory=lambda: list(TYPES))
    expressions: dict[str, list[str]] = field(default_factory=_forms_by_type)
    leaves: dict[str, list[str]] = field(default_factory=dict)
    statements: list[str] = field(default_factory=_statements)
    names: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)

    def leaves_of(self, type_: str) -> list[str]:
        """Return forms that build a value from simpler ones: constructors and displays."""
        return self.leaves.get(type_) or _leaves(type_)

    def add(self, type_: str, *texts: str) -> None:
        self.expressions.setdefault(type_, []).extend(texts)

    def copy(self) -> Vocabulary:
        """Return a copy to extend: forms that only methods may use stay with the methods."""
        return Vocabulary(
            list(self.types),
            {type_: list(texts) for type_, texts in self.expressions.items()},
            {type_: list(texts) for type_, texts in self.leaves.items()},
            list(self.statements),
            set(self.names),
            set(self.objects),
        )


_HOLE = re.compile(
    r"<(?P<marker>[.=+]?)(?P<type>[A-Za-z][\w\[\], .]*)?(?::(?P<label>\w+))?"
    r"(?:\|(?P<name>\w+):(?P<extra>[\w\[\], ]+))?>"
)


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a form; ``type`` is empty where a label is used again."""

    marker: str
    type: str
    label: str
    extra: tuple[str, str] | None

    @property
    def needs_variable(self) -> bool:
        return self.marker in (".", "=") and self.type != ""


@cache
def parts(form: str) -> tuple[str | Hole, ...]:
    """Split a form into plain text and holes, in order."""
    found: list[str | Hole] = []
    end = 0
    for match in _HOLE.finditer(form):
        extra = (match["name"], match["extra"]) if match["name"] else None
        hole = Hole(match["marker"], match["type"] or "", match["label"] or "", extra)
        found += [form[end : match.start()], hole]
        end = match.end()
    return (*found, form[end:])


def holes(form: str) -> tuple[Hole, ...]:
    return tuple(part for part in parts(form) if isinstance(part, Hole))


_VARIABLE = re.compile(r"\b([TU])\b")


def split(type_: str) -> tuple[str, tuple[str, ...]]:
    """Split ``Dict[str, List[int]]`` into ``("Dict", ("str", "List[int]"))``."""
    head, bracket, rest = type_.partition("[")
    return head, tuple(_arguments(rest[:-1])) if bracket else ()


def _arguments(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and not depth:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


def match(pattern: str, type_: str) -> dict[str, str] | None:
    """Bind the type variables ``T`` and ``U`` of a pattern to parts of ``type_``.

    They are not bound to unions: an expression has one member of a union as its type.
    """
    if _VARIABLE.fullmatch(pattern):
        return None if type_.startswith("Union[") else {pattern: type_}
    (head, wanted), (found_head, found) = split(pattern), split(type_)
    if head != found_head or len(wanted) != len(found):
        return None
    bound: dict[str, str] = {}
    for one, other in zip(wanted, found, strict=True):
        inner = match(one, other)
        if inner is None:
            return None
        bound |= inner
    return bound


def substitute(text: str, bound: Mapping[str, str]) -> str:
    """Replace the type variables of ``text``."""
    return _VARIABLE.sub(lambda found: bound[found[1]], text)
