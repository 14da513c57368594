"""The code of a TorchScript archive: what it can do, and when."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tsarchive.analyses.program import PickledText, Program, Texts, line_of
from tsarchive.errors import ArchiveError, SourceError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.formats.torchscript.inspection import BYTECODE, operators_in_bytecode
from tsarchive.formats.torchscript.pickled import objects_of
from tsarchive.ir.graph import closure
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.operators.risks import Risk, row_of
from tsarchive.pickler import Object, loads
from tsarchive.scanning.collecting import Collected
from tsarchive.scanning.report import (
    SEVERITIES,
    EntryPoint,
    OperatorUse,
    Place,
    When,
    operator_findings,
    ordered,
    use_of,
)

_NATIVE_CLASS = re.compile(re.escape(NATIVE_PREFIX.encode()) + rb"(\w+\.\w+)")
# The pickles whose objects exist once the file is loaded.
_LOADED: Final = ("data.pkl", "constants.pkl", "attributes.pkl")
# A class is there only where its library is loaded, and that runs what the archive brings it.
_OF_CLASSES: Final = {Risk.NATIVE_CODE: Severity.INFO}
_SHOWN: Final = 200
_TOO_DEEP: Final = "the code is nested too deeply to be looked into"
_UNKNOWN: Final = "What it does is unknown: do not load the file"


def audit_program(
    renamed: Mapping[str, str] | None,
    program: Program,
    code: Mapping[str, bytes],
    pickles: Mapping[str, bytes],
    found: Collected,
) -> None:
    """Add what the code can do.

    ``renamed`` gives the operators of today for the names in archives of before torch 1.3, whose
    pickles name no classes; None for others. ``pickles`` are the records of the names that
    ``_LOADED`` has, and the bytecode.
    """
    made = {name.name for name in found.pickled_names if name.record in _LOADED}
    is_known = renamed is None and made & set(program.classes)
    reach = Reach(program, made if is_known else None)
    uses = operators_in_bytecode(pickles.get(BYTECODE, b""))
    try:
        uses += operators_of(reach, renamed or {}, _pickled_text(pickles))
        found.entry_points += reach.entry_points
        found.findings.add(_unknown_names(reach))
        program.check_syntax()
        found.findings.add(_unreadable(program))
    except RecursionError:
        found.find("code-unreadable", Severity.ERROR, Nature.HOSTILE, _TOO_DEEP, hint=_UNKNOWN)
    found.operators += ordered(uses)
    found.findings.add(operator_findings(uses))
    _native_classes(code, found)


def _unknown_names(reach: Reach) -> Iterator[Finding]:
    for function in reach.program.functions:
        record = reach.program.place_of(function)
        for name, line in reach.program.facts(function).unknown:
            message = (
                f"{function[:_SHOWN]} uses {name[:_SHOWN]}, which is nothing that TorchScript knows"
            )
            yield Finding(
                "code-unknown-name", Severity.WARNING, Nature.HOSTILE, message, record, line=line
            )


def _unreadable(program: Program) -> Iterator[Finding]:
    for error in program.faults:
        nature = Nature.BROKEN if error.limit is None else Nature.HOSTILE
        record = program.stored_as.get(error.record or "", error.record)
        message = f"the code cannot be looked into: {error.message}"
        line = error.line if isinstance(error, SourceError) else None
        yield Finding(
            "code-unreadable", Severity.ERROR, nature, message, record, line=line, hint=_UNKNOWN
        )


def _pickled_text(pickles: Mapping[str, bytes]) -> dict[tuple[str, str], list[str]]:
    """Return text in the attributes of pickled objects."""
    texts: dict[tuple[str, str], list[str]] = {}
    for record in _LOADED:
        try:
            root: Any = loads(pickles.get(record, b""), record=record)
        except ArchiveError:
            continue  # the walk over the pickle has told of it
        for value in objects_of(root):
            state = value.state if isinstance(value, Object) else None
            for attribute, text in state.items() if isinstance(state, dict) else ():
                if isinstance(text, str):
                    slot = value.cls.qualified_name, str(attribute)
                    texts.setdefault(slot, []).append(text)
    return texts


def _native_classes(code: Mapping[str, bytes], found: Collected) -> None:
    """Add the classes bound from C++, in code and in pickles."""
    named = {match.decode() for data in code.values() for match in _NATIVE_CLASS.findall(data)}
    pickled = (name.name for name in found.pickled_names if name.name.startswith(NATIVE_PREFIX))
    named |= {name.removeprefix(NATIVE_PREFIX) for name in pickled}
    found.classes |= named
    for name in sorted(named):
        row = row_of(name)
        severity = _OF_CLASSES.get(row.risk, SEVERITIES[row.risk])
        if severity is not None:
            message = f"the class {name} is bound from C++: {row.reason}"
            found.find("code-native-class", severity, Nature.ABILITY, message)


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
            if self.made is not None and name not in self.made:
                continue
            for method in class_.methods.values():
                when = When.LOAD if method.name == _AT_LOAD else When.CALL
                yield EntryPoint(when, method.qualified_name)
            for hook in class_.hooks():
                yield EntryPoint(When.HOOK, hook.qualified_name)

    @cached_property
    def when(self) -> Mapping[str, tuple[When, ...]]:
        """When each function can run, by its qualified name."""
        found: dict[str, list[When]] = {name: [] for name in self.program.functions}
        for when in When:
            beginnings = [e.function for e in self.entry_points if e.when is when]
            for name in closure(beginnings, lambda name: self.program.facts(name).leads_to):
                found[name].append(when)
        return {name: tuple(phases) or (When.NEVER,) for name, phases in found.items()}


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
            place = Place(record, line_of(named.node), name, reach.when[name], files)
            found = places.setdefault((operator, named.is_certain), [])
            moment = operator, named.is_certain, place.when
            if len(found) < _MOST_PLACES or moment not in moments:
                moments.add(moment)
                found.append(place)
    return ordered(use_of(op, tuple(found), sure) for (op, sure), found in places.items())
