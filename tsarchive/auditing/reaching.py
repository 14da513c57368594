"""When each function of an archive can run: from which entry points it is reached."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tsarchive.auditing.program import Program
from tsarchive.auditing.walking import Walked, walk_function
from tsarchive.formats.torchscript.program_text import FunctionText
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
    def walked(self) -> Mapping[str, Walked]:
        """What each function names, by its qualified name."""
        return {name: walk_function(self.program, f) for name, f in self.program.functions.items()}

    @cached_property
    def entry_points(self) -> tuple[EntryPoint, ...]:
        """The functions that run without being called by other code of the archive."""
        entries = [EntryPoint(When.CALL, name) for name, f in self._free_entries()]
        for name, class_ in self.program.classes.items():
            if class_.is_interface or (self.made is not None and name not in self.made):
                continue
            for method, function in class_.methods.items():
                entries.append(EntryPoint(_when(method, class_.hooks), function.qualified_name))
        order = list(When)
        return tuple(sorted(entries, key=lambda entry: order.index(entry.when)))

    def _free_entries(self) -> Iterable[tuple[str, FunctionText]]:
        """Methods of modules whose classes no record writes down."""
        for name, function in self.program.functions.items():
            if self.made is None and not function.owner:
                yield name, function

    @cached_property
    def when(self) -> Mapping[str, tuple[When, ...]]:
        """When each function can run, by its qualified name."""
        found: dict[str, list[When]] = {name: [] for name in self.program.functions}
        for when in When:
            beginnings = [e.function for e in self.entry_points if e.when is when]
            for name in closure(beginnings, lambda name: self.walked[name].leads_to):
                found[name].append(when)
        return {name: tuple(phases) or (When.NEVER,) for name, phases in found.items()}


def _when(method: str, hooks: Collection[str]) -> When:
    if method == _AT_LOAD:
        return When.LOAD
    return When.HOOK if method in hooks else When.CALL
