"""When each function of an archive can run: from which entry points it is reached."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tsarchive.analyses.program import Program
from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import closure
from tsarchive.scanning.report import EntryPoint, When

_AT_LOAD: Final = "__setstate__"


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
