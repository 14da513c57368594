"""Judging what a pickle does, by the table of names that are known to be harmless."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from tsarchive.findings import Finding, Nature, Severity, broken, hostile

from .pickle_names import Use, row_of_name
from .pickle_streams import Streams
from .pickle_walk import Act, Event, Walk
from .report import PickledName

_RULES: Final = {
    Act.NAME: "pickle-name",
    Act.CALL: "pickle-call",
    Act.MAKE: "pickle-make",
    Act.CHANGE: "pickle-change",
    Act.CALL_COMPUTED: "pickle-computed-call",
    Act.EXTENSION: "pickle-extension",
}
_USES: Final = {
    Act.NAME: (Use.NAME, Use.MAKE, Use.CALL),
    Act.MAKE: (Use.MAKE, Use.CALL),
    Act.CALL: (Use.CALL,),
}
_TORCH_LIKE: Final = ("torch.", "numpy.")
_OF_PACKAGE: Final = "which runs Python code of the package, or of torch for it"
# The functions that a torch.package puts graph modules and script modules together with.
_PACKAGE_FUNCTIONS: Final = {
    "torch.fx.graph_module.reduce_package_graph_module": _OF_PACKAGE,
    "torch.jit._script.unpackage_script_module":
        "which has torch.jit load a TorchScript module of the package",
}  # fmt: skip
# Modules that were compiled for a backend: their classes are outside of ``__torch__``, in modules
# that Python's torch.jit does not have. torch 1.7 and 1.8 put the backend before the word.
_LOWERED = re.compile(
    r"torch\.jit\.(___torch_mangle_\d+\.)?(\w+LoweredModule|Lowered(Module|Wrapper)\.[\w.]+)"
)
_NEVER_UNPICKLE: Final = "Do not unpickle it"
_AFTER_BREAK: Final = (
    "What stands before the break runs all the same, and another reader may not break off"
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a pickle: the classes that the archive's own code defines, and the
    Python modules that a torch.package brings (None in other files)."""

    archive_classes: Collection[str] = ()
    package_modules: Collection[str] | None = None

    def defines(self, name: str) -> bool:
        """Return whether a name is that of a class of the archive.

        An archive may define others, too: that does not make a name of Python harmless.
        """
        is_lowered = _LOWERED.fullmatch(name) is not None
        return name.startswith("__torch__.") or (is_lowered and name in self.archive_classes)

    def is_of_package(self, event: Event) -> bool:
        """Return whether a torch.package may do so: it is Python code by nature."""
        if self.package_modules is None:
            return False
        if event.name.rpartition(".")[0] in self.package_modules:
            return True
        is_torch = event.name.startswith("torch.")
        return event.name in _PACKAGE_FUNCTIONS or (is_torch and event.act in (Act.MAKE, Act.NAME))


@dataclass(slots=True)
class PickleAudit:
    """The pickles in one record or file, and the judgement of them."""

    streams: Streams
    names: list[PickledName] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def audit_pickles(streams: Streams, record: str | None, around: Surroundings) -> PickleAudit:
    """Judge every pickle that was found; none is unpickled, nothing is imported."""
    found = PickleAudit(streams)
    for pickle in found.streams.pickles:
        _judge_all(pickle, record, around, found)
        if pickle.is_too_long:
            found.findings.append(_unfinished(record))
        elif pickle.fault is not None:
            message = f"the pickle breaks off: {pickle.fault}"
            found.findings.append(
                broken("pickle-broken", message, record, _AFTER_BREAK, pickle.end)
            )
    for pickle in found.streams.hidden:
        _judge_hidden(pickle, record, around, found)
    if not found.streams.is_complete:
        found.findings.append(_unfinished(record))
    return found


def _judge_all(pickle: Walk, record: str | None, around: Surroundings, found: PickleAudit) -> None:
    called = {event.name for event in pickle.events if event.act is not Act.NAME}
    for event in pickle.events:
        is_called = event.act is not Act.NAME
        if not is_called and event.name in called:
            continue
        row = row_of_name(event.name)
        if row is not None and row.use not in _USES.get(event.act, ()):
            row = None
        is_defined = around.defines(event.name)
        reason = None if row is None else row.reason
        if is_defined:
            reason = "a class that the archive defines"
        found.names.append(PickledName(record, event.name, is_called, reason))
        if not is_defined and (row is None or (row.is_code and is_called)):
            found.findings.append(_finding(event, row is not None, record, around))


def _finding(event: Event, is_known: bool, record: str | None, around: Surroundings) -> Finding:
    severity, nature, why = _severity(event, is_known, around)
    message = f"the pickle {event.act.value} {event.name}, {why}"
    hint = None if severity < Severity.ERROR else _NEVER_UNPICKLE
    rule = _RULES[event.act]
    return Finding(rule, severity, nature, message, record, event.offset, hint=hint)


def _severity(event: Event, is_known: bool, around: Surroundings) -> tuple[Severity, Nature, str]:
    if is_known:
        why = "a module of torch.nn: reading it runs Python code of torch"
        return Severity.WARNING, Nature.ABILITY, why
    if around.is_of_package(event):
        return Severity.WARNING, Nature.ABILITY, _PACKAGE_FUNCTIONS.get(event.name, _OF_PACKAGE)
    if event.act is Act.NAME and event.name.startswith(_TORCH_LIKE):
        why = "which is not known to be harmless"
        return Severity.WARNING, Nature.ABILITY, why
    if event.act is Act.NAME:
        why = "which imports code that no pickle of tensors needs"
        return Severity.ERROR, Nature.HOSTILE, why
    return Severity.ERROR, Nature.HOSTILE, "which is not known to be harmless"


def _judge_hidden(
    pickle: Walk, record: str | None, around: Surroundings, found: PickleAudit
) -> None:
    inner = PickleAudit(found.streams)
    _judge_all(pickle, record, around, inner)
    worst = next((f for f in inner.findings if f.severity is Severity.ERROR), None)
    if worst is not None:
        message = f"a pickle is hidden here: {worst.message}"
        found.findings.append(
            hostile("pickle-hidden", message, record, _NEVER_UNPICKLE, pickle.start)
        )
        found.names += inner.names


def _unfinished(record: str | None) -> Finding:
    message = "there are too many opcodes, or beginnings of pickles, to look at all of them"
    return Finding("pickle-unfinished", Severity.WARNING, Nature.HOSTILE, message, record)
