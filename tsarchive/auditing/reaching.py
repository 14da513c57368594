"""When each function of an archive can run, and the operators that it then reaches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tsarchive.analyses.program import Program
from tsarchive.analyses.texts import PickledText, Texts
from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import closure
from tsarchive.operators.risks import Risk, row_of
from tsarchive.scanning.report import EntryPoint, OperatorUse, Place, When, ordered, use_of

_AT_LOAD: Final = "__setstate__"
# Code can name an operator in each of a million lines, and nobody reads that many: beyond these,
# places are kept that run at another moment.
_MOST_PLACES: Final = 1000


@dataclass
class Reach:
    """``made`` are the classes of the pickled objects; where it is None, nothing is known of
    them, and objects of every class may be there."""

    program: Program
    made: Collection[str] | None

    @cached_property
    def entry_points(self) -> tuple[EntryPoint, ...]:
        """The functions that run without being called by other code of the archive."""
        order = list(When)
        return tuple(sorted(self._entries(), key=lambda entry: order.index(entry.when)))

    def _entries(self) -> Iterator[EntryPoint]:
        if self.made is None:
            # Methods of modules whose classes no record writes down.
            free = (name for name in self.program.functions if name in self.program.record_of)
            yield from (EntryPoint(When.CALL, name) for name in free)
        for name, class_ in self.program.classes.items():
            if self.made is None or name in self.made:
                yield from _of_class(class_)

    @cached_property
    def when(self) -> Mapping[str, tuple[When, ...]]:
        """When each function can run, by its qualified name."""
        found: dict[str, list[When]] = {name: [] for name in self.program.functions}
        for when in When:
            beginnings = [e.function for e in self.entry_points if e.when is when]
            for name in closure(beginnings, lambda name: self.program.facts(name).leads_to):
                found[name].append(when)
        return {name: tuple(phases) or (When.NEVER,) for name, phases in found.items()}


def _of_class(class_: ClassType) -> Iterator[EntryPoint]:
    for method in class_.methods.values():
        when = When.LOAD if method.name == _AT_LOAD else When.CALL
        yield EntryPoint(when, method.qualified_name)
    for hook in class_.hooks():
        yield EntryPoint(When.HOOK, hook.qualified_name)


def operators_of(
    reach: Reach, renamed: Mapping[str, str], pickled: PickledText
) -> tuple[OperatorUse, ...]:
    """Return the operators that functions of the archive name, the most dangerous first."""
    program = reach.program
    texts = Texts(program, pickled)
    places: dict[tuple[str, bool], list[Place]] = {}
    moments: set[tuple[str, bool, tuple[When, ...]]] = set()
    seen: set[object] = set()
    for name in program.functions:
        record = program.place_of(name)
        for named in program.facts(name).operators:
            operator = renamed.get(named.operator, named.operator)
            risk = row_of(operator).risk
            if risk is Risk.UNKNOWN and not named.is_called:
                continue  # a constant, such as a dtype
            files = texts.given_to(name, named.node) if risk is Risk.FILES else ()
            # The condition of a loop is lowered before it, and at the end of its body.
            at = operator, named.node.place or named.node, files
            if at in seen:
                continue
            seen.add(at)
            place = Place(record, named.line, name, reach.when[name], files)
            found = places.setdefault((operator, named.is_certain), [])
            moment = operator, named.is_certain, place.when
            if len(found) < _MOST_PLACES or moment not in moments:
                moments.add(moment)
                found.append(place)
    return ordered(use_of(op, tuple(found), sure) for (op, sure), found in places.items())
