"""Drawing of expressions, statements and blocks, and the variables that these may use."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from .forms import LOOPS, UNROLLED, WITH
from .vocabulary import LITERALS, Hole, Vocabulary, holes, parts, split

_EXPRESSION_DEPTH = 2
_MOST_STATEMENTS = 4
_MOST_TURNS = 4


@dataclass(slots=True)
class Scope:
    """The variables in scope.

    ``types``: the type of every variable that may be read; ``fixed``: those of them that may not be
    assigned; ``used``: every name of the function, since torch compiles some blocks as part of
    their surroundings.
    """

    types: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        return replace(self, types={**self.types}, fixed={*self.fixed})

    def closed(self) -> Scope:
        """Return an inner scope in which no variable of this one may be assigned."""
        return replace(self.inner(), fixed={*self.types})

    def named(self, type_: str) -> list[str]:
        return [name for name, found in self.types.items() if found == type_]

    def declare(self, name: str, type_: str) -> None:
        self.types[name] = type_
        self.used.add(name)

    def refine(self, name: str, type_: str) -> None:
        """Refine a variable to ``type_``; assigning it would undo that."""
        self.types[name] = type_
        self.fixed.add(name)

    def join(self, before: Container[str], branches: Iterable[Scope]) -> None:
        """Adopt the variables that every branch that falls through defines with the same type.

        ``before`` are the names that existed before the branches.
        """
        first, *rest = branches
        for name, type_ in first.types.items():
            if name not in before and all(branch.types.get(name) == type_ for branch in rest):
                self.declare(name, type_)


@dataclass(frozen=True, slots=True)
class Place:
    """The context of a statement: how many blocks deeper it may nest, and what may leave it.

    ``exits`` says whether the function has return, break and continue anywhere but at its end.
    """

    depth: int
    result: str
    exits: bool
    nested: bool = False
    in_loop: bool = False
    may_return: bool = True

    def inside(self) -> Place:
        return replace(self, depth=self.depth - 1, nested=True)


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of code, indented from zero; ``leaves`` when control never reaches their end."""

    lines: list[str]
    leaves: bool = False

    def indented(self) -> list[str]:
        return ["    " + line for line in self.lines]


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition and its refinements: a variable's type where it holds, and where it does not.

    An empty type is one that stays unknown.
    """

    text: str
    variable: str = ""
    holds: str = ""
    fails: str = ""


class Statements:
    """Draws expressions of a wanted type, statements and blocks."""

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
        options += [_LITERAL] if type_ in LITERALS else self.vocabulary.leaves_of(type_)
        if depth:
            options += self.usable(self.vocabulary.expressions.get(type_, []), scope)
        chosen = self.pick(options)
        if chosen == _LITERAL:
            return self.draw(LITERALS[type_])
        return self.fill(chosen, scope, max(depth - 1, 0))[0]

    def usable(self, forms: Sequence[str], scope: Scope) -> list[str]:
        """Return the forms whose holes can be filled from the scope."""
        return [
            form
            for form in forms
            if all(_variables(hole, scope) for hole in holes(form) if hole.needs_variable)
        ]

    def fill(self, form: str, scope: Scope, depth: int) -> tuple[str, dict[str, str]]:
        """Return the text of a form, and the variables that it defines."""
        texts: list[str] = []
        labelled: dict[str, str] = {}
        defined: dict[str, str] = {}
        for part in parts(form):
            if isinstance(part, str):
                texts.append(part)
                continue
            if not part.type:
                name = labelled[part.label]
            elif part.marker == "+":
                name = self.new_name(scope, defined)
                defined[name] = part.type
            elif part.needs_variable:
                name = self.pick(_variables(part, scope))
            else:
                inside = scope.inner() if part.extra else scope
                if part.extra:
                    inside.declare(*part.extra)
                name = self.expression(part.type, inside, depth)
            labelled[part.label] = name
            texts.append(name)
        return "".join(texts), defined

    def new_name(self, scope: Scope, also_taken: Container[str] = ()) -> str:
        stem = name = self.pick(_NAMES)
        count = 1
        while name in also_taken or name in scope.used:
            count += 1
            name = f"{stem}_{count}"
        return name

    def body(self, scope: Scope, result: str, depth: int) -> list[str]:
        """Return the lines of a function that returns ``result``."""
        block = self.block(scope, Place(depth, result, exits=self.chance(2)))
        if block.leaves:
            return block.lines
        return [*block.lines, self._return(scope, result)]

    def block(self, scope: Scope, place: Place) -> Block:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, _MOST_STATEMENTS))):
            statement = self._statement(scope, place)
            lines += statement.lines
            if statement.leaves:
                return Block(lines, leaves=True)
        return Block(lines)

    def _statement(self, scope: Scope, place: Place) -> Block:
        kinds = [Statements._simple] * 4 + [Statements._refining_assert]
        kinds += [Statements._exit] * 3 * (place.in_loop and place.exits)
        if place.depth:
            kinds += [
                Statements._if, Statements._if, Statements._loop, Statements._while,
                Statements._unrolled, Statements._with, Statements._exit,
            ]  # fmt: skip
        return self.pick(kinds)(self, scope, place)

    def _text(self, type_: str, scope: Scope) -> str:
        return self.expression(type_, scope, self.draw(st.integers(0, _EXPRESSION_DEPTH)))

    def _filled(self, form: str, scope: Scope) -> tuple[str, dict[str, str]]:
        return self.fill(form, scope, self.draw(st.integers(0, _EXPRESSION_DEPTH)))

    def _simple(self, scope: Scope, place: Place) -> Block:
        form = self.pick(self.usable(self.vocabulary.statements, scope))
        text, defined = self._filled(form, scope)
        _declare(scope, defined)
        return Block(text.split("\n"))

    def _return(self, scope: Scope, result: str) -> str:
        return "return" if result == "None" else f"return {self._text(result, scope)}"

    def _refining_assert(self, scope: Scope, place: Place) -> Block:
        optional = [name for name, type_ in scope.types.items() if type_.startswith("Optional[")]
        if not optional:
            return self._simple(scope, place)
        name = self.pick(optional)
        (inner,) = split(scope.types[name])[1]
        scope.refine(name, inner)
        return Block([f"assert {name} is not None"])

    def _exit(self, scope: Scope, place: Place) -> Block:
        """Draw a conditional exit from the block."""
        condition = self._condition(scope)
        inner = scope.inner()
        _refine(inner, condition.variable, condition.holds)
        lines = [f"if {condition.text}:", f"    {self._way_out(inner, place)}"]
        _refine(scope, condition.variable, condition.fails)
        return Block(lines)

    def _way_out(self, scope: Scope, place: Place) -> str:
        ways = ["raise"]
        if place.exits:
            ways += ["return"] * 2 * place.may_return + ["break", "continue"] * place.in_loop
        way = self.pick(ways[::-1])
        if way == "raise":
            return f"raise {self.pick(_RAISED)}({self._text('str', scope)})"
        return self._return(scope, place.result) if way == "return" else way

    def _condition(self, scope: Scope) -> _Condition:
        refining = [
            name for name, type_ in scope.types.items() if split(type_)[0] in ("Optional", "Union")
        ]
        if refining and self.chance(2):
            return self._refining_condition(self.pick(refining), scope)
        plain = self.pick(("<bool>", "<Tensor>.sum() > 0", "<int>", "<bool> and <bool>"))
        return _Condition(self._filled(plain, scope)[0])

    def _refining_condition(self, name: str, scope: Scope) -> _Condition:
        head, arguments = split(scope.types[name])
        if head == "Union":
            first, second = arguments
            return _Condition(f"isinstance({name}, {first})", name, first, second)
        (inner,) = arguments
        known = scope.inner()
        known.refine(name, inner)
        more = self._text("bool", known)
        return self.pick(
            (
                _Condition(f"{name} is not None", name, inner, "None"),
                _Condition(f"{name} is None", name, "None", inner),
                _Condition(f"{name} is not None and {more}", name, holds=inner),
                _Condition(f"{name} is None or {more}", name, fails=inner),
            )
        )

    def _if(self, scope: Scope, place: Place) -> Block:
        condition = self._condition(scope)
        # Refinements of older variables end with the branch: torch forgets them in loops.
        before = frozenset((*scope.used, *scope.types))
        branches = [scope.inner(), scope.inner()]
        _refine(branches[0], condition.variable, condition.holds)
        _refine(branches[1], condition.variable, condition.fails)
        then = self.block(branches[0], place.inside())
        lines = [f"if {condition.text}:", *then.indented()]
        if self.chance(2):
            other = self._otherwise(branches[1], place)
            lines += other.lines
        else:
            other = Block([])
        going_on = [b for b, block in zip(branches, (then, other), strict=True) if not block.leaves]
        if not going_on:
            return Block(lines, leaves=True)
        scope.join(before, going_on)
        return Block(lines)

    def _otherwise(self, scope: Scope, place: Place) -> Block:
        """Draw `else`, or `elif` for an `else` that consists of another `if`."""
        if place.depth > 1 and self.chance(3):
            nested = self._if(scope, place.inside())
            return Block([f"el{nested.lines[0]}", *nested.lines[1:]], nested.leaves)
        block = self.block(scope, place.inside())
        return Block(["else:", *block.indented()], block.leaves)

    def _loop(self, scope: Scope, place: Place) -> Block:
        form = self.pick(self.usable(LOOPS, scope))
        return self._repeated(form, scope, replace(place.inside(), in_loop=True))

    def _unrolled(self, scope: Scope, place: Place) -> Block:
        form = self.pick(self.usable(UNROLLED, scope))
        # All iterations share one scope, in which blocks may not declare a variable again.
        return self._repeated(form, scope, replace(place.inside(), depth=0, in_loop=False))

    def _repeated(self, form: str, scope: Scope, place: Place) -> Block:
        header, defined = self._filled(form, scope)
        inner = scope.inner()
        _declare(inner, defined)
        return Block([f"{header}:", *self.block(inner, place).indented()])

    def _while(self, scope: Scope, place: Place) -> Block:
        turns = self.new_name(scope)
        scope.declare(turns, "int")
        scope.fixed.add(turns)
        condition = self._text("bool", scope)
        header = self.pick((f"while {turns} < {_MOST_TURNS}", f"while {turns} < 3 and {condition}"))
        inner = scope.inner()
        block = self.block(inner, replace(place.inside(), in_loop=True))
        lines = [f"{turns} = 0", f"{header}:", f"    {turns} += 1", *block.indented()]
        return Block(lines)

    def _with(self, scope: Scope, place: Place) -> Block:
        inside = replace(place.inside(), in_loop=False, may_return=False)
        if place.exits or place.nested:
            # Here torch may fail on variables that are first assigned inside `with`.
            scope = scope.closed()
        block = self.block(scope, inside)
        return Block([f"{self.pick(WITH)}:", *block.indented()], block.leaves)


_RAISED = ("ValueError", "RuntimeError", "AssertionError", "NotImplementedError")


def _declare(scope: Scope, defined: dict[str, str]) -> None:
    for name, type_ in defined.items():
        scope.declare(name, type_)


def _refine(scope: Scope, name: str, type_: str) -> None:
    if type_ == "None":
        del scope.types[name]
    elif type_:
        scope.refine(name, type_)


T = TypeVar("T")

_LITERAL = ""
# Names with a meaning in serialized code, and names that look generated.
_NAMES = (
    "a", "b", "x", "y", "out", "n", "x1", "x10", "_0", "_1", "_x", "value", "result", "attribute",
    "aten", "ops", "fork", "inf", "nan", "getattr", "uninitialized", "CONSTANTS", "self_",
    "a_variable_with_a_name_that_is_long",
)  # fmt: skip


def _variables(hole: Hole, scope: Scope) -> list[str]:
    """Return the variables that may stand in a hole."""
    is_assigned = hole.marker == "="
    return [name for name in scope.named(hole.type) if not (is_assigned and name in scope.fixed)]
