"""Verification of a TorchScript archive: records, pickles with their tensors, and code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tsarchive.container import Container
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Findings, Nature, Severity, broken, fault, note, unusual
from tsarchive.formats.base import Step
from tsarchive.formats.records import RecordTable, Role
from tsarchive.formats.torchscript.code_records import (
    DEBUG_SUFFIX,
    NEWEST_VERSION,
    OLDEST_VERSION,
    CodeRecords,
    format_version,
)
from tsarchive.frontend import CodeImporter
from tsarchive.pickler import Object

from .code import MAX_CODE_BYTES, code_findings, importer, syntax_findings, too_much_code
from .pickles import (
    Pickle,
    Storages,
    debug_findings,
    is_debug,
    is_pickle,
    read_pickle,
    unreferenced,
    use_findings,
)


@dataclass
class ArchiveCheck:
    """Checks that have several layers. Records that are ``damaged`` cannot be read and are passed
    over."""

    container: Container
    table: RecordTable
    findings: Findings
    damaged: Collection[str]
    reads_pickles: bool = field(default=True, init=False)

    @cached_property
    def storages(self) -> Storages:
        return Storages(self.container, self.damaged)

    def sound_names(self) -> Iterator[str]:
        """Return the names of the records that can be read."""
        return (name for name in self.container.records if name not in self.damaged)

    def pickles(self) -> Iterator[tuple[str, Pickle]]:
        """Yield the pickles that can be read; ``reads_pickles`` tells afterwards if all can."""
        for name in filter(is_pickle, self.sound_names()):
            found = read_pickle(self.container, name)
            if isinstance(found, Pickle):
                yield name, found
            else:
                self.findings.add(found)
                self.reads_pickles = False

    def is_short(self, code: Iterable[str]) -> bool:
        """Return whether the records of code are not too long to be read."""
        if sum(self.container.records[name].size for name in code) <= MAX_CODE_BYTES:
            return True
        self.findings.add([too_much_code()])
        return False

    def has_code_syntax(self, name: str, text: str) -> bool:
        """Return whether a record has the syntax of code."""
        found = list(syntax_findings(name, text))
        self.findings.add(found)
        return not found

    def may_lack_code(self) -> bool:
        """Return whether code may be lost with the damaged records.

        A record of no name that is known may have code: its name may be damaged.
        """
        return any(name.endswith(".py") or not self.table.has(name) for name in self.damaged)


@dataclass
class TorchScriptCheck(ArchiveCheck):
    """Checks an archive of torch 1.3 and later."""

    _pickles: dict[str, Pickle] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)

    @property
    def code_records(self) -> int:
        return len(self._texts)

    def run(self, step: Step) -> None:
        """Look at everything; ``step`` is told what comes next."""
        step("records")
        self.findings.add(record_findings(self.container, self.table, has_debug=True))
        step("pickles")
        self._read_pickles()
        step("code")
        code = self._check_code()
        step("tensors")
        self._check_uses(code)

    def _read_pickles(self) -> None:
        for name, found in self.pickles():
            if is_debug(name):
                code = self.container.records.get(name.removesuffix(DEBUG_SUFFIX))
                size = None if code is None else code.size
                self.findings.add(use_findings(found, None))
                self.findings.add(debug_findings(self.container, name, size))
            else:
                self._pickles[name] = found

    def _check_code(self) -> CodeImporter | None:
        """Check the code; give what finds its classes, unless any of it is not code."""
        records = CodeRecords(self.container)
        if not self.is_short(records):
            return None
        for name in filter(records.__contains__, self.sound_names()):
            try:
                self._texts[name] = records[name]
            except ArchiveError as error:
                self.findings.add([fault(error, "zip-record", record=name)])
        is_code = [self.has_code_syntax(*item) for item in self._texts.items()]
        if len(self._texts) < len(records) or not all(is_code):
            return None
        table = self._pickles.get("constants.pkl")
        constants = None if table is None else table.value
        code = importer(self._texts, constants, self._version())
        self.findings.add(code_findings(code, self._texts, constants))
        return code

    def _version(self) -> int:
        try:
            return format_version(self.container)
        except ArchiveError:
            return NEWEST_VERSION

    def _check_uses(self, code: CodeImporter | None) -> None:
        may_lack_code = self.may_lack_code()
        for pickle in self._pickles.values():
            self.findings.add(use_findings(pickle, code, may_lack_code=may_lack_code))
            self.findings.add(self.storages.findings(pickle))
        root = self._pickles.get("data.pkl")
        if root is not None and not isinstance(root.value, Object):
            message = "the root of the archive is not an object"
            self.findings.add([broken("pickle-root", message, "data.pkl")])
        if self.reads_pickles and not self.damaged:
            self.findings.add(unreferenced(self.container, self.storages.referenced))


# What file managers put into the folders that they show.
_OF_DESKTOPS = re.compile(r"(\A|/)(\.DS_Store|\._[^/]*|Thumbs\.db|desktop\.ini)\Z")
_BYTE_ORDERS = (b"little", b"big")


def record_findings(
    container: Container, table: RecordTable, *, has_debug: bool
) -> Iterator[Finding]:
    """Check the set of records of a TorchScript archive.

    ``has_debug`` tells that code has debug records beside it.
    """
    yield from unknown_records(container, table)
    yield from _version(container)
    yield from byte_order_findings(container)
    if has_debug:
        yield from _undocumented(container)
    yield from _notes(container, table)


def unknown_records(container: Container, table: RecordTable) -> Iterator[Finding]:
    """Yield a finding for each record that the format does not have."""
    for name in container.records:
        if not table.has(name):
            by_desktop = _OF_DESKTOPS.search(name) is not None
            yield Finding(
                "record-unknown",
                Severity.INFO if by_desktop else Severity.WARNING,
                Nature.UNUSUAL,
                "the format has no such record: nothing reads it",
                name,
                hint="See what it is before you pass the file on",
            )


def _version(container: Container) -> Iterator[Finding]:
    try:
        version = format_version(container)
    except ArchiveError as error:
        yield fault(error, "record-version")
        return
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        yield broken(
            "record-version",
            f"the format version is {version}; {OLDEST_VERSION} to {NEWEST_VERSION} are known",
            ".data/version" if ".data/version" in container.records else "version",
            "A newer torch wrote it, or it is damaged",
        )
    if {"version", ".data/version"} <= container.records.keys():
        message = "there are two version records; .data/version counts"
        yield unusual("record-version", message, "version")


def byte_order_findings(container: Container) -> Iterator[Finding]:
    """Check the record that names the byte order."""
    if "byteorder" not in container.records:
        return
    try:
        order = container.read("byteorder")
    except ArchiveError:
        return  # which the check of its data has found
    if order not in _BYTE_ORDERS:
        message = f"the byte order is {order[:20]!r}, neither little nor big"
        yield Finding("record-byteorder", Severity.WARNING, Nature.BROKEN, message, "byteorder")
    elif order == b"big":
        yield unusual(
            "record-byteorder",
            "a big-endian machine wrote the tensors; they are read as little-endian",
            "byteorder",
            "Save it again on the machine that wrote it, in little-endian byte order",
        )


def _undocumented(container: Container) -> Iterator[Finding]:
    """Code without a debug record, and debug records of no code."""
    for name in container.records:
        if not name.startswith("code/"):
            continue
        if name.endswith(".py") and name + DEBUG_SUFFIX not in container.records:
            rule = "record-no-debug"
            message = "it has no debug record: errors cannot name the lines of the original source"
        elif (
            name.endswith(f".py{DEBUG_SUFFIX}")
            and name.removesuffix(DEBUG_SUFFIX) not in container.records
        ):
            rule, message = "record-debug", "it is the debug record of code that is not there"
        else:
            continue
        yield note(rule, message, name)


def _notes(container: Container, table: RecordTable) -> Iterator[Finding]:
    for name, record in container.records.items():
        if table.role(name) is Role.EXTRA:
            message = f"an extra file of {record.size:,} bytes, which torch does not look into"
            yield note("record-extra", message, name)
    if "traced_inputs.pkl" in container.records:
        message = "the example inputs of torch.jit.trace, without their data"
        yield note("record-inputs", message, "traced_inputs.pkl")
