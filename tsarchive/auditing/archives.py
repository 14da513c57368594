"""Going through the records of an archive."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from tsarchive.archive import Archive
from tsarchive.auditing.collecting import Collected
from tsarchive.auditing.exported import Exported
from tsarchive.auditing.pickles import Surroundings
from tsarchive.auditing.program import Program
from tsarchive.auditing.programs import audit_program
from tsarchive.auditing.record_kinds import (
    CODE,
    EXECUTORCH,
    NATIVE,
    OTHER,
    PYTHON,
    TENSORS,
    group_of,
)
from tsarchive.auditing.salvage import DEFLATED, LOCAL_HEADER, inflated, salvage
from tsarchive.auditing.soundness import add_soundness, from_start
from tsarchive.auditing.values import Payload
from tsarchive.container import Container, Record
from tsarchive.errors import ArchiveError
from tsarchive.findings import Nature, Severity
from tsarchive.kinds import PT2, TORCH_PACKAGE, UNKNOWN, kind_of, what_to_do
from tsarchive.torchscript.bytecode import BYTECODE
from tsarchive.verifying.code import MAX_CODE_BYTES, too_much_code
from tsarchive.verifying.totals import known_totals

__all__ = ["audit_zip"]

# Longer records are looked into up to here.
_LONGEST: Final = 1 << 28
_OF_EXECUTORCH: Final = "ExecuTorch"
_USES_PICKLE = re.compile(rb'"use_pickle"\s*:\s*true')


def audit_zip(source: str | BinaryIO, data: bytes | None, found: Collected, depth: int) -> str:
    """Add what a zip archive holds, and give its kind. ``data`` are the bytes where they have
    been read; ``depth`` is how far archives inside are looked into."""
    add_soundness(source, found)
    try:
        container = Container.open(from_start(source))
    except ArchiveError:
        salvage(_all_bytes(source) if data is None else data, found)
        return UNKNOWN
    with container:
        archive = _Archive(container, found, depth)
        kind = archive.audit()
        found.tensors = known_totals(Archive(container))
    if archive.has_refused:
        salvage(_all_bytes(source) if data is None else data, found)
    return kind


def _all_bytes(source: str | BinaryIO) -> bytes:
    if isinstance(source, str):
        with open(source, "rb") as file:
            return file.read(_LONGEST)
    source.seek(0)
    return source.read(_LONGEST)


class _Archive:
    def __init__(self, container: Container, found: Collected, depth: int) -> None:
        self.container = container
        self.found = found
        self.depth = depth
        self.kind = kind_of(container.records)
        self.groups = {name: group_of(self.kind, name) for name in container.records}
        self.unpickled: set[str] = set()
        self.has_refused = False

    def audit(self) -> str:
        code = dict(self._code())
        program = Program(code)
        modules = self._package_modules() if self.kind == TORCH_PACKAGE else None
        around = Surroundings(program.classes, modules)
        exported = Exported(self.groups, self._content) if self.kind == PT2 else None
        self.unpickled = exported.unpickled if exported is not None else self.unpickled
        kept = {}
        for name, record in self.container.records.items():
            self.found.count(self.groups[name], record.size, record.stored_size)
            data = code.get(name) or self._read(record)
            if name not in code:
                self._record(name, data, around)
            if name in ("data.pkl", "constants.pkl", "attributes.pkl", BYTECODE):
                kept[name] = data
        if code:
            audit_program(self.kind, program, code, kept, self.found)
        if exported is not None:
            exported.add_to(self.found)
        self._as_a_whole()
        return self.kind

    def _code(self) -> Iterator[tuple[str, bytes]]:
        records = [r for r in self.container.records.values() if self.groups[r.name] == CODE]
        if sum(record.size for record in records) > MAX_CODE_BYTES:
            self.found.findings.add([too_much_code()])
            return
        for record in records:
            yield record.name, self._read(record)

    def _package_modules(self) -> frozenset[str]:
        """The Python modules that a torch.package brings."""
        sources = [name for name in self.groups if name.endswith(".py")]
        modules = (name.removesuffix(".py").removesuffix("/__init__") for name in sources)
        return frozenset(name.replace("/", ".") for name in modules)

    def _read(self, record: Record) -> bytes:
        """The data of a record, or what can be had of it."""
        try:
            if record.size <= _LONGEST:
                return self.container.read(record.name)
            self._unread(record, f"only its first {_LONGEST >> 20} MiB are looked into")
        except ArchiveError as error:
            self._unread(record, f"it cannot be read: {error.message}")
        return self._as_stored(record)

    def _content(self, name: str) -> bytes:
        return self._read(self.container.records[name])

    def _as_stored(self, record: Record) -> bytes:
        """The first bytes of a record that is too long or damaged; none where it is refused."""
        try:
            stored = bytes(self.container.payload(record.name)[:_LONGEST])
        except ArchiveError:
            self.has_refused = True
            return b""
        return inflated(stored) if record.method == DEFLATED else stored

    def _unread(self, record: Record, why: str) -> None:
        is_tensor = self.groups[record.name] == TENSORS
        severity = Severity.INFO if is_tensor else Severity.WARNING
        self.found.find("record-unread", severity, Nature.BROKEN, why, record.name)

    def _record(self, name: str, data: bytes, around: Surroundings) -> None:
        if data.startswith(LOCAL_HEADER) and self.depth > 0:
            self._inner(name, data)
        else:
            self._single(name, data, around)
        if self.kind != PT2 and name.endswith(".json") and _USES_PICKLE.search(data):
            self._uses_pickle(name)
        if self.groups[name] == EXECUTORCH:
            self.found.payloads.append(Payload(name, _OF_EXECUTORCH, len(data)))
        if self.groups[name] == OTHER and self.kind != UNKNOWN:
            message = f"an archive of kind {self.kind} has no such record"
            self.found.find("record-unknown", Severity.INFO, Nature.UNUSUAL, message, name)

    def _single(self, name: str, data: bytes, around: Surroundings) -> None:
        self.found.look_at(data, name, around, is_unpickled=name in self.unpickled)
        if data.startswith(LOCAL_HEADER):
            message = "an archive in an archive in an archive is not opened"
            self.found.find("record-nested", Severity.WARNING, Nature.UNUSUAL, message, name)

    def _inner(self, name: str, data: bytes) -> None:
        inner = Collected(self.found.budgets, prefix=f"{name}/")
        audit_zip(io.BytesIO(data), data, inner, self.depth - 1)
        self.found.take(inner)

    def _uses_pickle(self, name: str) -> None:
        message = "it tells the reader to unpickle a record, whatever that may call"
        hint = "torch.export.load has no way to refuse: see what the pickles name"
        self.found.find("record-use-pickle", Severity.WARNING, Nature.ABILITY, message, name, hint)

    def _as_a_whole(self) -> None:
        holds_arrays_alone = all(name.endswith(".npy") for name in self.groups)
        if self.kind == UNKNOWN and not (self.found.prefix or holds_arrays_alone):
            self.found.find(
                "file-kind", Severity.WARNING, Nature.OTHER_KIND,
                "it is a zip archive of no kind that is known here: only pickles and programs are "
                "looked for in it",
                hint=what_to_do(UNKNOWN),
            )  # fmt: skip
        for payload in self.found.payloads:
            if payload.record in self.groups:
                self._native(payload.record, payload.format)
        sources = [name for name, group in self.groups.items() if group == PYTHON]
        if sources:
            message = f"{len(sources)} records are Python source, which runs when it is opened"
            self.found.find(
                "record-python", Severity.WARNING, Nature.ABILITY, message, sources[0],
                "Treat it as a program: a torch.package is one",
            )  # fmt: skip

    def _native(self, name: str | None, kind: str) -> None:
        group = None if name is None else self.groups[name]
        is_expected = self.kind == PT2 and group in (NATIVE, EXECUTORCH)
        severity = Severity.WARNING if is_expected or self.kind == UNKNOWN else Severity.ERROR
        nature = Nature.ABILITY if is_expected else Nature.HOSTILE
        message = f"it is native code or a program ({kind})"
        hint = "Code that is loaded from it is bound by nothing"
        if is_expected and group == NATIVE:
            hint = f"load_pt2 and aoti_load_package of torch load it as they open the file. {hint}"
        self.found.find("record-native", severity, nature, message, name, hint)
