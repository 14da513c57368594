"""The forms from which expressions and statements are drawn; definitions add their own."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

from . import forms, statement_forms
from .type_text import match, substitute

PLAIN_TYPES = ("int", "float", "Tensor", "bool", "str", "complex")
TYPES = (
    *PLAIN_TYPES,
    "List[int]", "List[Tensor]", "Optional[int]", "Optional[Tensor]", "Tuple[int, float]",
    "Dict[str, int]", "List[str]", "List[float]", "List[bool]", "List[List[int]]",
    "List[Tuple[int, str]]", "Dict[int, Tensor]", "Dict[str, List[int]]", "Tuple[Tensor, Tensor]",
    "Tuple[int, Tuple[float, str]]", "Tuple[float, str]", "Optional[str]", "Optional[List[int]]",
    "Optional[float]", "Tuple[List[int], bool]", "Union[int, str]",
)  # fmt: skip


def _forms_by_type() -> dict[str, list[str]]:
    found = defaultdict(list, {type_: list(texts) for type_, texts in forms.CONCRETE.items()})
    for pattern, result, texts in forms.GENERIC:
        for type_ in TYPES:
            bound = match(pattern, type_)
            if bound is not None:
                found[substitute(result, bound)] += [substitute(text, bound) for text in texts]
    return found


@cache
def _leaves(type_: str) -> list[str]:
    found: list[str] = []
    for pattern, texts in forms.LEAVES.items():
        bound = match(pattern, type_)
        if bound is not None:
            found += [substitute(text, bound) for text in texts]
    return found


def _statements() -> list[str]:
    found = list(statement_forms.SIMPLE)
    for pattern, texts in statement_forms.GENERIC:
        for type_ in TYPES:
            bound = match(pattern, type_)
            if bound is not None:
                found += [substitute(text, bound) for text in texts]
    return found


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
    loops: list[str] = field(default_factory=lambda: list(statement_forms.LOOPS))
    unrolled: list[str] = field(default_factory=lambda: list(statement_forms.UNROLLED))
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
            list(self.loops),
            list(self.unrolled),
            set(self.names),
            set(self.objects),
        )
