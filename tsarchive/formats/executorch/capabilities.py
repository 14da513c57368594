"""Files of ExecuTorch: which operators and backends their programs call, and what data they need.

Programs have no code of their own: instructions call kernels that the runtime has, and delegates
hand bytes to a backend, which may run them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from tsarchive.container.directory import read_directory
from tsarchive.container.faults import Collected as Faults
from tsarchive.container.faults import Stopped
from tsarchive.describing.text import listed
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.formats.base import OpenedArchive
from tsarchive.formats.records import RecordTable
from tsarchive.operators.risks import Risk, row_of
from tsarchive.scanning.collecting import Collected, has_zip_end, native_format
from tsarchive.scanning.report import (
    EntryPoint,
    OperatorUse,
    Payload,
    Place,
    When,
    operator_findings,
    ordered,
)

from .content import RECORD, Program
from .regions import Regions, find_unclaimed
from .view import OWN_NAMESPACES, ExecutorchView, called

_OWN_REASON: Final = "computes, as a part of ExecuTorch itself"
_COMPUTING: Final = OWN_NAMESPACES | {"quantized_decomposed"}
# Their bytes are a graph and weights for a library of kernels, not a program of a machine.
_INTERPRETED: Final = frozenset({"XnnpackBackend"})
_SHOWN: Final = 12
_NATIVE_BYTES: Final = 4096
_TWO_FILES: Final = "Do not pass it on: what it does depends on what reads it"
_PICKLE_START: Final = re.compile(rb"\x80[\x02-\x05]")
_LOOK: Final = "Run it only if you know who made these bytes: nothing can be said of what they do"


def audit_executorch(archive: OpenedArchive, table: RecordTable, found: Collected) -> None:
    """Add what a file of ExecuTorch can do to ``found``, and close the file."""
    view = archive.view
    assert isinstance(view, ExecutorchView)
    with archive:
        try:
            _look_into(view, table, found)
            found.tensors = archive.totals
        except ArchiveError as error:
            found.find("record-unread", Severity.WARNING, Nature.BROKEN, error.message, RECORD)


def _hidden(view: ExecutorchView, found: Collected) -> None:
    """Report a file that other readers find: torch.jit.load looks for a zip from the end."""
    what = None
    with suppress(Stopped):  # the bytes do not end as a zip archive does
        if read_directory(view.regions.source, Faults()).entries:
            what = "a zip archive"
    for _, data, _ in find_unclaimed(view.regions.content):
        content = bytes(data).lstrip(b"\0")
        if has_zip_end(content):
            what = "a zip archive"
        elif what is None and _PICKLE_START.match(content):
            what = "a pickle"
    if what is not None:
        message = f"there is {what} in the file, which other readers find"
        found.find("file-hidden", Severity.ERROR, Nature.HOSTILE, message, hint=_TWO_FILES)


def _look_into(view: ExecutorchView, table: RecordTable, found: Collected) -> None:
    _hidden(view, found)
    program = view.program
    for name, record in view.regions.records.items():
        found.count(table.role(name).audited, record.size, record.stored_size)
    for name in _looked_at(view):
        _native(name, view.regions, found)
    if program is None:
        return
    found.entry_points += [EntryPoint(When.CALL, name) for name in program.method_names]
    uses = ordered(_uses(program))
    found.operators += uses
    found.findings.add(operator_findings(uses))
    found.findings.add(_delegates(program))
    if program.external_names:
        message = f"it reads {listed(program.external_names, _SHOWN)} from a data file"
        found.find("program-data", Severity.INFO, Nature.ABILITY, message, RECORD)
    found.findings.add(_paths(program))


def _looked_at(view: ExecutorchView) -> Collection[str]:
    """Return the parts whose start is read: where weights are left unread, those for backends."""
    regions, program = view.regions, view.program
    if not regions.source.is_sparing:
        return regions.records
    methods = () if program is None else program.methods
    delegates = (delegate for method in methods for delegate in method.delegates)
    names = {f"segments/{each.index}" for each in delegates if not each.is_inline}
    names &= regions.records.keys()
    regions.prefetch_starts(names, _NATIVE_BYTES)
    return names


def _native(name: str, regions: Regions, found: Collected) -> None:
    """Report a part that is native code, whatever its name says."""
    kind = native_format("", bytes(regions.start_of(name, _NATIVE_BYTES)))
    if kind is not None:
        size = regions.records[name].size
        found.payloads.append(Payload(name, kind, size))
        message = f"it is native code or a program ({kind})"
        found.find("record-native", Severity.WARNING, Nature.ABILITY, message, name, _LOOK)


def _uses(program: Program) -> Iterator[OperatorUse]:
    """Yield every operator, with a place for each method that calls it."""
    places: dict[str, dict[str, Place]] = {}
    for method in program.methods:
        for qualified in called(method):
            name = qualified.partition(".")[0]
            place = Place(RECORD, None, method.name, (When.CALL,))
            places.setdefault(name, {}).setdefault(method.name, place)
    for name, found in places.items():
        row = None if name.partition("::")[0] in _COMPUTING else row_of(name)
        risk, reason = (Risk.COMPUTE, _OWN_REASON) if row is None else (row.risk, row.reason)
        yield OperatorUse(name, risk, reason, tuple(found.values()))


def _delegates(program: Program) -> Iterator[Finding]:
    for method in program.methods:
        for delegate in method.delegates:
            size = program.delegate_place(delegate).size
            message = f"{method.name} hands {size:,} bytes to the backend {delegate.backend!r}"
            is_plain = delegate.backend in _INTERPRETED
            severity = Severity.INFO if is_plain else Severity.WARNING
            hint = None if is_plain else _LOOK
            yield Finding("program-delegate", severity, Nature.ABILITY, message, RECORD, hint=hint)


def _paths(program: Program) -> Iterator[Finding]:
    files = {
        frame.file
        for method in program.methods
        for chain in method.chains
        for frames in chain.frames
        for frame in frames
    }
    if files:
        message = f"it tells lines and paths of {len(files):,} source files of who exported it"
        yield Finding("program-paths", Severity.INFO, Nature.UNUSUAL, message, RECORD)
