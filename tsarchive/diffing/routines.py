"""Differences between two functions: operators, constants, and lines of code."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tsarchive.analyses.encoding import Plain
from tsarchive.diffing.alignment import Pair, Span, aligned, spans_between
from tsarchive.diffing.plain_values import as_written, is_same
from tsarchive.diffing.report import Change, SourceLine
from tsarchive.formats.contents import Body, Operation, Place, Routine
from tsarchive.ir.names import unmangled_text

_OLDER: Final = "older meaning"
_LOOP: Final = "prim::Loop"
# Inputs of a loop before those that it carries: trip count and condition.
_BEFORE_CARRIED: Final = 2
# Nodes that are no operators: calls, attributes, and what makes lists and the like.
_SYNTAX: Final = re.compile("prim::[A-Z]")
# So many changes of one function are told one by one, however much of it they are.
_FEW: Final = 3
# More pairs of values that blocks give are not weighed against each other.
_MOST_LIKENESSES: Final = 2_500


class Found(NamedTuple):
    """The differences of two functions: those that no other explains, those that are ``told``
    elsewhere, those that follow from others, and the numbers of the lines that differ, before and
    after."""

    changes: Sequence[Change]
    told: Sequence[Change]
    derived: Sequence[Change]
    lines: tuple[frozenset[int], frozenset[int]]


def compare_routines(
    where: str, before: Routine, after: Routine, is_told: Callable[[Change], bool]
) -> Found:
    """Return the differences between two bodies, whose names are those of after."""
    comparison = _Comparison(where, _Side(before), _Side(after), is_told)
    comparison.function()
    return comparison.found()


def body_key(body: Body) -> tuple[Hashable, ...]:
    """Return what is equal for bodies that are equal, and only there."""
    operations = tuple(
        (
            operation.operator,
            repr(operation.inputs),
            repr(sorted(operation.attributes.items())),
            tuple(map(body_key, operation.bodies)),
            repr(operation.outputs),
        )
        for operation in body.operations
    )
    return repr(body.params), operations, repr(body.results)


def digest_of(parts: object) -> str:
    """Return what stands for plain data, and does not grow where one stands in another."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()


def base_name(operator: str) -> str:
    """Return the name of an operator without its overload."""
    namespace, separator, name = operator.partition("::")
    return namespace + separator + name.partition(".")[0]


class _Side:
    """A function before or after: the numbers of its values, and the keys of its operations."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.first_param: dict[int, int] = {}
        self.first_output: dict[int, int] = {}
        self.maker: list[Operation | None] = []
        self.count = 0
        self._shapes: dict[int, str] = {}
        self._origins: list[str] = []
        self._number(routine.body)

    def _number(self, body: Body) -> None:
        self.first_param[id(body)] = len(self.maker)
        self.maker += [None] * len(body.params)
        self._origins += [f"parameter {index}" for index, _ in enumerate(body.params)]
        for operation in body.operations:
            self.count += 1
            for inner in operation.bodies:
                self._number(inner)
            self.first_output[id(operation)] = len(self.maker)
            self.maker += [operation] * len(operation.outputs)
            origin = _brief(operation)
            self._origins += [f"{index} of {origin}" for index, _ in enumerate(operation.outputs)]

    def shape(self, operation: Operation) -> str:
        """Return all of an operation but where its inputs come from."""
        known = self._shapes.get(id(operation))
        if known is None:
            constants = [None if isinstance(use, int) else use for use in operation.inputs]
            attributes = sorted(operation.attributes.items())
            inner = [[*map(self.shape, body.operations)] for body in operation.bodies]
            parts = operation.operator, constants, attributes, inner, operation.outputs
            known = self._shapes[id(operation)] = digest_of(parts)
        return known

    def with_origins(self, operation: Operation) -> Hashable:
        """Return the shape of an operation, and what makes its inputs."""
        made_by = [self._origins[use] for use in operation.inputs if isinstance(use, int)]
        return self.shape(operation), tuple(made_by)

    def written(self, body: Body) -> Sequence[Operation]:
        """Return the operations of a block, without those that make defaults of parameters."""
        if body is not self.routine.body or not any(default for *_, default in _arguments(self)):
            return body.operations
        ends = (place.line for place in self.routine.lines() if place.text.rstrip().endswith(":"))
        end = next(ends, 0)
        return [each for each in body.operations if not each.place or each.place.line > end]

    @property
    def last_line(self) -> Place | None:
        """The line that returns."""
        return next(iter([*self.routine.lines()][-1:]), None)

    def end_of(self, operation: Operation, index: int) -> Place | None:
        """Return the last line of a block of a condition or loop, as far as there is text."""
        if operation.place is None:
            return None
        lines = self.routine.lines()
        first = next(place for place in lines if place.line == operation.place.line)
        ends, last = [], first
        for place in lines[lines.index(first) + 1 :]:
            if _depth(place) <= _depth(first):
                ends.append(last)
                if place.text.strip() != "else:":
                    break
            last = place
        return [*ends, last][min(index, len(ends))]

    def carried_uses(self, loop: Operation) -> list[Sequence[Hashable]]:
        """Return, of each value that a loop carries, what uses it and what makes its next one."""
        (body,) = loop.bodies
        first = self.first_param[id(body)] + 1
        found: list[list[Hashable]] = [[] for _ in loop.outputs]
        for operation in walk(body):
            for slot, use in enumerate(operation.inputs):
                if isinstance(use, int) and first <= use < first + len(found):
                    found[use - first].append((_brief(operation), slot))
        for traits, result in zip(found, body.results[1:], strict=False):
            traits.append(self._origins[result] if isinstance(result, int) else repr(result))
        return [*found]


def _arguments(side: _Side) -> Sequence[Sequence[Any]]:
    return [[*argument] for argument in side.routine.arguments if isinstance(argument, list)]


def _depth(place: Place) -> int:
    return len(place.text) - len(place.text.lstrip())


def walk(body: Body) -> Iterator[Operation]:
    """Yield the operations of a body, and those of the bodies in them."""
    for operation in body.operations:
        yield operation
        for inner in operation.bodies:
            yield from walk(inner)


def _brief(operation: Operation) -> str:
    return f"{operation.operator} {operation.attributes.get('name', '')}"


def _with_name(operation: Operation) -> Hashable:
    """Return what operations have in common that may be one with other arguments."""
    return _without_name(operation), str(operation.attributes.get("name"))


def _without_name(operation: Operation) -> Hashable:
    # How many values come out of blocks follows from what uses them.
    outputs = 0 if operation.bodies else len(operation.outputs)
    return base_name(operation.operator), len(operation.bodies), outputs


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Operations that stand on one side alone, or differ in more than can be told of one.

    ``is_certain`` is set where one takes another value, whatever its text.
    """

    before: list[Operation] = field(default_factory=list)
    after: list[Operation] = field(default_factory=list)
    is_certain: bool = False

    def touches(self, other: _Hunk) -> bool:
        """Whether both stand on one line."""
        return any(
            not _lines(own).isdisjoint(_lines(others))
            for own, others in ((self.before, other.before), (self.after, other.after))
        )

    def add(self, other: _Hunk) -> None:
        self.before.extend(other.before)
        self.after.extend(other.after)


def _lines(operations: Sequence[Operation]) -> set[int]:
    return {operation.place.line for operation in operations if operation.place}


class _Comparison:
    """Compares two functions, block by block. ``_map`` leads from values before to those after."""

    def __init__(
        self, where: str, before: _Side, after: _Side, is_told: Callable[[Change], bool]
    ) -> None:
        self._where = where
        self._is_told = is_told
        self._before, self._after = before, after
        self._map: dict[int, int] = {}
        self._mapped: set[int] = set()
        self._changes: list[Change | _Hunk] = []
        self._derived: list[Change] = []
        self._lines: tuple[set[int], set[int]] = set(), set()
        self._kept: tuple[set[int], set[int]] = set(), set()
        self._differing = 0

    def found(self) -> Found:
        """Return what was found; where most of a function differs, that is one change."""
        total = max(self._before.count, self._after.count)
        own: list[Change | _Hunk] = []
        told: list[Change] = []
        for change in self._changes:
            if isinstance(change, _Hunk) and self._is_derived(change):
                self._derived.append(self._code(change))
            elif isinstance(change, Change) and self._is_told(change):
                told.append(change)
            else:
                own.append(change)
        changes = [c if isinstance(c, Change) else self._code(c) for c in _merged(own)]
        if len(changes) > _FEW and (self._differing - len(told)) * 2 > total:
            changes = [self._all_of_it()]
        before, after = self._lines
        return Found(changes, told, self._derived, (frozenset(before), frozenset(after)))

    def _is_derived(self, hunk: _Hunk) -> bool:
        """Whether the lines are the same: what they do follows from something else then."""
        if hunk.is_certain:
            return False
        sides = zip((hunk.before, hunk.after), self._kept, strict=True)
        return all(each.place and each.place.line in kept for side, kept in sides for each in side)

    # Blocks

    def function(self) -> None:
        """Compare the two functions."""
        before, after = self._before.routine.body, self._after.routine.body
        self._block(before, after, _in_order(before.params, after.params))
        rows = zip(before.results, after.results, strict=False)
        is_same = len(before.results) == len(after.results)
        if not is_same or not all([self._is_same_result(*row) for row in rows]):
            self._lines_of(self._before.last_line, self._after.last_line)

    def _block(self, before: Body, after: Body, order: Sequence[Pair]) -> None:
        """Compare the operations of two blocks; ``order`` pairs their parameters."""
        first, other = self._before.first_param[id(before)], self._after.first_param[id(after)]
        self._define(first, other, order)
        if [before.params[b] for b, _ in order] != [after.params[a] for _, a in order]:
            self._derive("code", None, None, str(before.params), str(after.params))
        operations = self._before.written(before), self._after.written(after)
        pairs = self._pairs(*operations)
        gaps = spans_between(pairs, *map(len, operations))
        for gap, pair in zip(gaps, [*pairs, None], strict=True):
            self._gap(*operations, gap)
            if pair is not None:
                self._operation(operations[0][pair[0]], operations[1][pair[1]])

    def _define(self, first: int, other: int, order: Sequence[Pair]) -> None:
        """Let values before, counted from the first one, be those after."""
        for own, its in order:
            self._map[first + own] = other + its
            self._mapped.add(other + its)

    def _pairs(self, before: Sequence[Operation], after: Sequence[Operation]) -> list[Pair]:
        tiers = (
            (self._before.with_origins, self._after.with_origins),
            (self._before.shape, self._after.shape),
            (_with_name, _with_name),
            (_without_name, _without_name),
        )
        keys = [([*map(own, before)], [*map(its, after)]) for own, its in tiers]
        return aligned(keys, in_place=keys[2])

    def _gap(self, before: Sequence[Operation], after: Sequence[Operation], gap: Span) -> None:
        """Compare operations that have nothing in common: replaced one by one, or as a hunk."""
        old, new = before[gap.before : gap.before_end], after[gap.after : gap.after_end]
        is_replaced = len(old) == len(new) and all(map(_is_replaceable, old, new))
        if is_replaced and self._take_the_same(old, new):
            for row in zip(old, new, strict=True):
                self._operation(*row)
        elif gap.is_open:
            self._hunk(old, new)

    def _take_the_same(self, old: Sequence[Operation], new: Sequence[Operation]) -> bool:
        """Whether operations take the same values, constants aside."""
        for own, other in zip(old, new, strict=True):
            values = _values(own), _values(other)
            if len(values[0]) != len(values[1]) or not all(map(self._is_explained, *values)):
                return False
        return True

    def _is_explained(self, own: Plain, other: Plain) -> bool:
        """Whether a value is the same, or another because it is made by something else."""
        is_gone = isinstance(own, int) and own not in self._map
        is_new = isinstance(other, int) and other not in self._mapped
        return is_gone or is_new or (isinstance(own, int) and self._map[own] == other)

    # Operations

    def _operation(self, old: Operation, new: Operation) -> None:
        count = len(self._changes)
        if old.place and new.place and old.place.text == new.place.text:
            self._kept[0].add(old.place.line)
            self._kept[1].add(new.place.line)
        if base_name(old.operator) != base_name(new.operator):
            self._note("operator", old, new, base_name(old.operator), base_name(new.operator))
        self._attributes(old, new)
        is_loop = old.operator == new.operator == _LOOP
        carried = self._carried_into(old, new) if is_loop else None
        self._inputs(old, new, carried)
        if len(self._changes) > count:
            self._differing += 1
        else:
            self._meanings(old, new)
        if len(old.bodies) == len(new.bodies):
            self._bodies(old, new, carried)
        else:
            self._hunk([old], [new])

    def _meanings(self, old: Operation, new: Operation) -> None:
        """Compare what follows from what operations take, and is told where that is the same."""
        if old.attributes.get(_OLDER) != new.attributes.get(_OLDER):
            self._note("operator", old, new, _meaning(old), _meaning(new))
        elif old.operator != new.operator:
            self._derive("operator", old, new, old.operator, new.operator)
        if [*old.outputs] != [*new.outputs]:
            self._derive("code", old, new, str(old.outputs), str(new.outputs))

    def _attributes(self, old: Operation, new: Operation) -> None:
        names = dict.fromkeys([*old.attributes, *new.attributes])
        for name in names:
            own, other = old.attributes.get(name), new.attributes.get(name)
            if name == _OLDER or is_same(own, other):
                continue
            if isinstance(own, int | float) and isinstance(other, int | float):
                self._note("constant", old, new, own, other)
            else:
                self._hunk([old], [new])

    def _inputs(self, old: Operation, new: Operation, carried: Sequence[Pair] | None) -> None:
        own, others = old.inputs, new.inputs
        if carried is not None:
            own = [*own[:_BEFORE_CARRIED], *(own[b + _BEFORE_CARRIED] for b, _ in carried)]
            others = [*others[:_BEFORE_CARRIED], *(others[a + _BEFORE_CARRIED] for _, a in carried)]
        if len(own) == len(others):
            count = len(self._changes)
            results = [self._input(old, new, *row) for row in zip(own, others, strict=True)]
            is_told = all(results) and not self._are_reordered(self._changes[count:])
            if not is_told:  # the line tells the constants as well
                del self._changes[count:]
        else:
            is_told = self._are_alike(old, new)
        if not is_told:
            self._hunk([old], [new], is_certain=len(own) == len(others))

    def _are_reordered(self, noted: Sequence[Change | _Hunk]) -> bool:
        """Return whether constants of an operation are the same ones in another order."""
        others = [each for each in noted if isinstance(each, Change) and not self._is_told(each)]
        values = ([repr(each.before) for each in others], [repr(each.after) for each in others])
        return len(others) > 1 and sorted(values[0]) == sorted(values[1])

    def _input(self, old: Operation, new: Operation, own: Plain, other: Plain) -> bool:
        """Compare an input, and note another constant; return whether all is told of it."""
        if isinstance(own, int) or isinstance(other, int):
            return self._is_explained(own, other)
        (type_, value), (other_type, other_value) = typed(own), typed(other)
        if not is_same(value, other_value):
            self._note("constant", old, new, as_written(value), as_written(other_value))
        elif type_ != other_type:
            self._derive("code", old, new, type_, other_type)
        return True

    def _are_alike(self, old: Operation, new: Operation) -> bool:
        """Whether overloads with other numbers of arguments take the same ones."""
        if old.operator == new.operator or not self._take_the_same([old], [new]):
            return False
        given = [
            [typed(use)[1] for use in o.inputs if not isinstance(use, int)] for o in (old, new)
        ]
        own, others = ([value for value in values if value is not None] for values in given)
        return base_name(old.operator) != base_name(new.operator) or is_same(own, others)

    def _bodies(self, old: Operation, new: Operation, carried: Sequence[Pair] | None) -> None:
        """Compare the blocks of an operation, and let what comes out be the same."""
        shift = int(
            carried is not None
        )  # a loop counts, and goes on or not, before what it carries
        first = [(0, 0)] * shift
        for before, after in zip(old.bodies, new.bodies, strict=True):
            given = _in_order(before.params, after.params) if carried is None else carried
            self._block(before, after, [*first, *((b + shift, a + shift) for b, a in given)])
        order = carried
        if order is None:
            same = _in_order(old.outputs, new.outputs)
            order = self._carried_out(old, new) if old.bodies else same
        ends = [*first, *((b + shift, a + shift) for b, a in order)]
        for index, _ in enumerate(old.bodies):
            self._results(old, new, index, ends)
        self._define(self._before.first_output[id(old)], self._after.first_output[id(new)], order)

    def _results(self, old: Operation, new: Operation, index: int, order: Sequence[Pair]) -> None:
        """Compare what blocks of this number give."""
        before, after = old.bodies[index].results, new.bodies[index].results
        rows = [(before[b], after[a]) for b, a in order if b < len(before) and a < len(after)]
        if not all([self._is_same_result(*row) for row in rows]):
            self._lines_of(self._before.end_of(old, index), self._after.end_of(new, index))

    def _is_same_result(self, own: Plain, other: Plain) -> bool:
        if isinstance(own, int) or isinstance(other, int):
            return self._is_explained(own, other)
        if is_same(typed(own)[1], typed(other)[1]):
            return True
        values = as_written(typed(own)[1]), as_written(typed(other)[1])
        self._changes.append(Change("constant", self._where, *values, "code"))
        return True

    # Values that conditions and loops carry have an order that follows from their uses.

    def _carried_out(self, old: Operation, new: Operation) -> Sequence[Pair]:
        """Pair the outputs of an operation by what its blocks return."""
        own = [self._returned(old, index) for index, _ in enumerate(old.outputs)]
        others = [_returned_after(new, index) for index, _ in enumerate(new.outputs)]
        return _by_likeness(own, others)

    def _returned(self, old: Operation, index: int) -> Sequence[Hashable]:
        return [self._as_after(body.results[index]) for body in old.bodies if body.results[index:]]

    def _as_after(self, use: Plain) -> Hashable:
        return self._map.get(use, f"gone {use}") if isinstance(use, int) else repr(use)

    def _carried_into(self, old: Operation, new: Operation) -> Sequence[Pair]:
        """Pair the values that a loop carries by what they are at first, and by their uses."""
        starts = [self._as_after(use) for use in old.inputs[_BEFORE_CARRIED:]]
        others = [_key_after(use) for use in new.inputs[_BEFORE_CARRIED:]]
        if len({*starts}) < len(starts) or len({*others}) < len(others):
            uses, its = self._before.carried_uses(old), self._after.carried_uses(new)
        else:
            uses, its = [()] * len(starts), [()] * len(others)
        own = [[(start, "start"), *used] for start, used in zip(starts, uses, strict=True)]
        return _by_likeness(
            own, [[(start, "start"), *used] for start, used in zip(others, its, strict=True)]
        )

    # What is told

    def _note(self, kind: str, old: Operation, new: Operation, before: Plain, after: Plain) -> None:
        source = source_of(old.place), source_of(new.place)
        where = self._at([old], [new])
        self._changes.append(Change(kind, where, before, after, "code", source))
        self._touch([old], [new])

    def _derive(
        self,
        kind: str,
        old: Operation | None,
        new: Operation | None,
        before: Plain,
        after: Plain,
    ) -> None:
        source = source_of(old and old.place), source_of(new and new.place)
        where = self._at([old] if old else [], [new] if new else [])
        self._derived.append(Change(kind, where, before, after, "code", source))

    def _hunk(
        self, old: Sequence[Operation], new: Sequence[Operation], *, is_certain: bool = False
    ) -> None:
        self._changes.append(_Hunk([*old], [*new], is_certain))
        self._differing += max(len(old), len(new)) - (len(old) == len(new) == 1)
        self._touch(old, new)

    def _touch(self, old: Sequence[Operation], new: Sequence[Operation]) -> None:
        before, after = self._lines
        before |= _lines(old)
        after |= _lines(new)

    def _code(self, hunk: _Hunk) -> Change:
        """Return the change of a hunk: its lines, before and after."""
        texts = _text(hunk.before), _text(hunk.after)
        sources = _source(hunk.before), _source(hunk.after)
        where = self._at(hunk.before, hunk.after)
        return Change("code", where, *texts, "code", sources)

    def _at(self, before: Sequence[Operation], after: Sequence[Operation]) -> str:
        """Return where operations stand: in the module that recorded them, if they name one."""
        places = [operation.place for operation in (*after, *before) if operation.place]
        inside = {place.module for place in places}
        parent, _, name = self._where.rpartition(".")
        # Operations of several modules stand in what has them all.
        path = inside.pop() if len(inside) == 1 else ""
        return ".".join(filter(None, (parent, path, name))) if path else self._where

    def _all_of_it(self) -> Change:
        before, after = ([*side.routine.lines()] for side in (self._before, self._after))
        sources = source_of(before[0] if before else None), source_of(after[0] if after else None)
        return Change("code", self._where, _joined(before), _joined(after), "code", sources)

    def _lines_of(self, before: Place | None, after: Place | None) -> None:
        """Note lines that give another result."""
        for place, touched in zip((before, after), self._lines, strict=True):
            touched.update([place.line] if place else [])
        texts = (unmangled_text(place.text.strip()) if place else None for place in (before, after))
        own, other = texts
        sources = source_of(before), source_of(after)
        self._changes.append(Change("code", self._where, own, other, "code", sources))


def _joined(lines: Sequence[Place]) -> str:
    return unmangled_text("\n".join(place.text for place in lines))


def _merged(changes: Sequence[Change | _Hunk]) -> list[Change | _Hunk]:
    """Return the changes, hunks that share a line as one."""
    merged: list[Change | _Hunk] = []
    for change in changes:
        last = merged[-1] if merged else None
        if isinstance(change, _Hunk) and isinstance(last, _Hunk) and last.touches(change):
            last.add(change)
        else:
            merged.append(change)
    return merged


def _in_order(before: Sequence[Any], after: Sequence[Any]) -> list[Pair]:
    return [(index, index) for index in range(min(len(before), len(after)))]


def _by_likeness(
    before: Sequence[Sequence[Hashable]], after: Sequence[Sequence[Hashable]]
) -> list[Pair]:
    """Pair items with the same traits, then by how many they have in common, then in order."""
    found: dict[int, int] = {}
    places: dict[Hashable, list[int]] = defaultdict(list)
    for a, traits in enumerate(after):
        places[_tuple(traits)].append(a)
    for b, traits in enumerate(before):
        if same := places.get(_tuple(traits)):
            found[b] = b if b in same else same[0]
            same.remove(found[b])
    taken = {*found.values()}
    own = [b for b in range(len(before)) if b not in found]
    others = [a for a in range(len(after)) if a not in taken]
    if len(own) * len(others) > _MOST_LIKENESSES:
        return sorted([*found.items(), *zip(own, others, strict=False)])
    rows = sorted(
        (-(Counter(before[b]) & Counter(after[a])).total(), abs(b - a), b, a)
        for b in own
        for a in others
    )
    for _, _, b, a in rows:
        if b not in found and a not in taken:
            found[b] = a
            taken.add(a)
    return sorted(found.items())


def _tuple(traits: Sequence[Hashable]) -> Hashable:
    return tuple(sorted(map(repr, traits)))


def _returned_after(new: Operation, index: int) -> Sequence[Hashable]:
    return [_key_after(body.results[index]) for body in new.bodies if body.results[index:]]


def _key_after(use: Plain) -> Hashable:
    return use if isinstance(use, int) else repr(use)


def _values(operation: Operation) -> list[Plain]:
    return [use for use in operation.inputs if isinstance(use, int)]


def typed(use: Plain) -> tuple[str, Plain]:
    """Return the type and the value of a constant."""
    assert isinstance(use, list | tuple)
    type_, value = use
    return str(type_), value


def _is_replaceable(old: Operation, new: Operation) -> bool:
    """Whether the operator alone may tell the difference."""
    is_plain = not old.bodies and not new.bodies and len(old.outputs) == len(new.outputs)
    return is_plain and not any(map(_SYNTAX.match, (old.operator, new.operator)))


def _meaning(operation: Operation) -> str:
    older = operation.attributes.get(_OLDER)
    return f"{operation.operator} as {older}" if older else operation.operator


def _text(operations: Sequence[Operation]) -> str | None:
    """Return the lines of operations."""
    lines = {
        operation.place.line: operation.place.text if operation.place else _brief(operation)
        for operation in operations
        if operation.place
    }
    others = [_brief(operation) for operation in operations if not operation.place]
    text = "\n".join([*(lines[number] for number in sorted(lines)), *others])
    return unmangled_text(text) or None


def _source(operations: Sequence[Operation]) -> SourceLine | None:
    """Return the line of the user that the first operation which has one comes from."""
    return next(filter(None, (source_of(operation.place) for operation in operations)), None)


def source_of(place: Place | None) -> SourceLine | None:
    """Return the line of the user at a place."""
    location = place.origin() if place else None
    return None if location is None else SourceLine(*location)
