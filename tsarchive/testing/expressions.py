"""Drawing of expressions of a wanted type."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from . import literals
from .holes import Hole, holes, parts
from .scope import Scope
from .vocabulary import Vocabulary

T = TypeVar("T")

_LITERAL = ""
# Names with a meaning in serialized code, and names that look generated.
_NAMES = (
    "a", "b", "x", "y", "out", "n", "x1", "x10", "_0", "_1", "_x", "value", "result", "attribute",
    "aten", "ops", "fork", "inf", "nan", "getattr", "uninitialized", "CONSTANTS", "self_",
    "a_variable_with_a_name_that_is_long",
)  # fmt: skip


@dataclass(slots=True)
class _Filling:
    """State shared by the holes of one form: labelled variables, and those it will define."""

    labelled: dict[str, str] = field(default_factory=dict)
    defined: dict[str, str] = field(default_factory=dict)


class Expressions:
    def __init__(self, draw: DrawFn, vocabulary: Vocabulary) -> None:
        self.draw = draw
        self.vocabulary = vocabulary

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def chance(self, out_of: int) -> bool:
        """Return True once in ``out_of`` draws; False is the simpler answer."""
        return self.draw(st.integers(1, out_of)) == out_of

    def expression(self, type_: str, scope: Scope, depth: int) -> str:
        """Draw an expression of ``type_``, of forms nested up to ``depth`` deep."""
        options = scope.named(type_)
        options += [_LITERAL] if type_ in literals.BY_TYPE else self.vocabulary.leaves_of(type_)
        if depth:
            options += self.usable(self.vocabulary.expressions.get(type_, []), scope)
        chosen = self.pick(options)
        if chosen == _LITERAL:
            return self.draw(literals.BY_TYPE[type_])
        return self.fill(chosen, scope, max(depth - 1, 0))[0]

    def usable(self, forms: Sequence[str], scope: Scope) -> list[str]:
        """Return the forms whose holes can be filled from the scope."""
        return [form for form in forms if all(_has_variable(hole, scope) for hole in holes(form))]

    def fill(self, form: str, scope: Scope, depth: int) -> tuple[str, dict[str, str]]:
        """Return the text of a form, and the variables that it defines."""
        filling = _Filling()
        text = "".join(
            part if isinstance(part, str) else self._fill_hole(part, filling, scope, depth)
            for part in parts(form)
        )
        return text, filling.defined

    def _fill_hole(self, hole: Hole, filling: _Filling, scope: Scope, depth: int) -> str:
        if not hole.type:
            return filling.labelled[hole.label]
        if hole.marker == "+":
            name = self.new_name(scope, filling.defined)
            filling.defined[name] = hole.type
        elif hole.needs_variable:
            name = self.pick(_variables(hole, scope))
        else:
            return self._fill_expression(hole, scope, depth)
        if hole.label:
            filling.labelled[hole.label] = name
        return name

    def _fill_expression(self, hole: Hole, scope: Scope, depth: int) -> str:
        if hole.extra:
            scope = scope.inner()
            scope.declare(*hole.extra)
        return self.expression(hole.type, scope, depth)

    def new_name(self, scope: Scope, also_taken: Container[str] = ()) -> str:
        stem = name = self.pick(_NAMES)
        count = 1
        while name in also_taken or name in scope.used:
            count += 1
            name = f"{stem}_{count}"
        return name


def _variables(hole: Hole, scope: Scope) -> list[str]:
    return scope.assignable(hole.type) if hole.marker == "=" else scope.named(hole.type)


def _has_variable(hole: Hole, scope: Scope) -> bool:
    return not hole.needs_variable or bool(_variables(hole, scope))
