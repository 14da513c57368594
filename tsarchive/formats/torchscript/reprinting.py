"""Printing of code records from the graphs that were read from them alone.

This tests that graphs hold everything: whatever a graph does not hold is lost here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from tsarchive.comparing import GraphReport, Unprinted, changes
from tsarchive.container import Container
from tsarchive.container.deflating import deflated
from tsarchive.container.layout import DEFLATED
from tsarchive.errors import ArchiveError
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.syntax import bounded
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.types import own_name
from tsarchive.policy import FOR_STRANGERS, Guard
from tsarchive.printer.canonical import CanonicalDefinitions
from tsarchive.printer.definitions import Definitions
from tsarchive.printer.literals import Literals
from tsarchive.printer.reading_back import ranges_after_reading

from .code_records import CodeRecords, encoded, format_version
from .debug_records import DEBUG_SUFFIX, DebugWriter, read_debug_record
from .importer import Importer, runnable_code
from .program import ConstantNumbers, definition
from .tensors import given_device


@dataclass(frozen=True, slots=True)
class Reprinted:
    """The reprinted code of an archive by record, or the reason for a failure."""

    bodies: Mapping[str, TaggedText]
    failures: Mapping[str, ArchiveError]

    @property
    def texts(self) -> dict[str, bytes]:
        """The records as bytes."""
        return {name: encoded(str(body)) for name, body in self.bodies.items()}


class Reprinter:
    """Prints the code of one archive again; entries of the constant table keep their numbers."""

    def __init__(
        self,
        container: Container,
        map_location: str | torch.device | None,
        guard: Guard = FOR_STRANGERS,
    ) -> None:
        """Load the archive.

        Raises ArchiveError if it is not a TorchScript archive that can be loaded.
        """
        self._table = ConstantNumbers(
            Importer(container, given_device(map_location), guard).constant
        )
        self._version = format_version(container)
        self._read = CodeRecords(container)
        self._definitions: type[Definitions] = Definitions

    def once(self) -> Reprinted:
        """Print the code of the archive from its graphs.

        Canonical archives are recognised by their text: if all of it prints the same in canonical
        form, and only then, that form is used.
        """
        usual = self._print(self._read)
        if any(str(body) != self._read[name] for name, body in usual.bodies.items()):
            self._definitions = CanonicalDefinitions
            canonical = self._print(self._read)
            if {name: str(body) for name, body in canonical.bodies.items()} == dict(self._read):
                return canonical
            self._definitions = Definitions
        return usual

    def again(self, printed: Reprinted) -> Reprinted:
        """Print code again that was printed before."""
        bodies = {name: str(body) for name, body in printed.bodies.items()}
        return self._print({**self._read, **bodies})

    def _print(self, texts: Mapping[str, str]) -> Reprinted:
        code = runnable_code(texts, self._table.constant, self._version)
        bodies: dict[str, TaggedText] = {}
        failures: dict[str, ArchiveError] = {}
        for record in texts:
            try:
                with bounded(record):
                    bodies[record] = self._body(code, record)
            except ArchiveError as error:
                failures[record] = error
        return Reprinted(bodies, failures)

    def _body(self, code: CodeImporter, record: str) -> TaggedText:
        """Print the definitions of a record from their graphs, in file order."""
        literals = Literals(self._table, own_name)
        # Dependencies are ignored: every definition of a record is printed anyway.
        printer = self._definitions(literals, own_name, lambda _: None)
        for name in code.definitions(record):
            printer.define(definition(code, name))
        return printer.body


def debug_after_reading(container: Container, printed: Reprinted) -> dict[str, bytes]:
    """Return the debug records that a loader would write again, for those that the archive has.

    Raises PickleError for debug records of an older form.
    """
    debug = ((f"{name}{DEBUG_SUFFIX}", body) for name, body in printed.bodies.items())
    bodies = {name: body for name, body in debug if name in container.records}
    read = {name: read_debug_record(container.read(name), name) for name in bodies}
    writer = DebugWriter()
    ranges = ranges_after_reading(bodies, read)
    return {name: writer.record(rows) for name, rows in ranges.items()}


def graph_report(
    container: Container,
    map_location: str | torch.device | None,
    guard: Guard,
    *,
    is_own: bool | None = None,
) -> GraphReport:
    """Compare the code of an archive with what its graphs print. Unless ``is_own`` tells whether
    tsarchive was the first to save it, the compression does."""
    if is_own is None:
        is_own = _is_own(container)
    reprinter = Reprinter(container, map_location, guard)
    printed = reprinter.once()
    unprinted = tuple(Unprinted(name, error.message) for name, error in printed.failures.items())
    code = tuple(changes({name: container.read(name) for name in printed.texts}, printed.texts))
    records = tuple(changes(printed.texts, reprinter.again(printed).texts)) if code else ()
    if code or unprinted:
        return GraphReport(code, records, (), unprinted, is_own)
    try:
        debug = debug_after_reading(container, printed)
    except ArchiveError as error:
        unread = (Unprinted(error.record or "", error.message),)
        return GraphReport(unprinted=unread, is_own=is_own)
    changed = tuple(changes({name: container.read(name) for name in debug}, debug))
    return GraphReport(debug=changed, is_own=is_own)


def _is_own(container: Container) -> bool:
    """Return whether code is compressed as tsarchive does it: torch's deflater gives other bytes.

    Code that was loaded keeps the form that its first writer gave it.
    """
    packed = [
        record
        for name, record in container.records.items()
        if name.startswith("code/") and record.method == DEFLATED
    ]
    return bool(packed) and all(
        deflated(container.read(record.name)) == container.payload(record.name) for record in packed
    )
