"""Going through the records of an archive."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from tsarchive.archive import Archive
from tsarchive.auditing.programs import audit_program, program_of
from tsarchive.auditing.salvage import DEFLATED, LOCAL_HEADER, inflated, salvage
from tsarchive.auditing.soundness import add_soundness, from_start
from tsarchive.container import Container, Record
from tsarchive.errors import ArchiveError
from tsarchive.findings import Nature, Severity
from tsarchive.formats.archive import known_totals
from tsarchive.formats.foreign import UNKNOWN
from tsarchive.formats.records import Role
from tsarchive.formats.registry import zip_format
from tsarchive.formats.torchscript.bytecode import BYTECODE
from tsarchive.formats.torchscript.verifying.code import MAX_CODE_BYTES, too_much_code
from tsarchive.scanning.collecting import Collected
from tsarchive.scanning.pickles import Surroundings
from tsarchive.scanning.report import Payload

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
        return UNKNOWN.kind
    with container:
        archive = _Archive(container, found, depth)
        archive.audit()
        found.tensors = known_totals(Archive(container, archive.format))
    if archive.has_refused:
        salvage(_all_bytes(source) if data is None else data, found)
    return archive.format.kind


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
        self.format = zip_format(container.records)
        self.table = self.format.table(container)
        self.roles = {name: self.table.role(name) for name in container.records}
        self.unpickled: set[str] = set()
        self.has_refused = False

    def audit(self) -> None:
        code = dict(self._code())
        program = program_of(code, self.container)
        around = Surroundings(program.record_of, self.format.python_modules(self.roles))
        exported = self.format.exported_audit(self.roles, self._content)
        self.unpickled = exported.unpickled if exported is not None else self.unpickled
        kept = {}
        for name, record in self.container.records.items():
            self.found.count(self.roles[name].audited, record.size, record.stored_size)
            data = code.get(name) or self._read(record)
            if name not in code:
                self._record(name, data, around)
            if name in ("data.pkl", "constants.pkl", "attributes.pkl", BYTECODE):
                kept[name] = data
        if code:
            audit_program(self.format.old_operators(), program, code, kept, self.found)
        if exported is not None:
            exported.add_to(self.found)
        self._as_a_whole()

    def _code(self) -> Iterator[tuple[str, bytes]]:
        records = [r for r in self.container.records.values() if self.roles[r.name] is Role.CODE]
        if sum(record.size for record in records) > MAX_CODE_BYTES:
            self.found.findings.add([too_much_code()])
            return
        for record in records:
            yield record.name, self._read(record)

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
        is_tensor = self.roles[record.name] is Role.TENSORS
        severity = Severity.INFO if is_tensor else Severity.WARNING
        self.found.find("record-unread", severity, Nature.BROKEN, why, record.name)

    def _record(self, name: str, data: bytes, around: Surroundings) -> None:
        if data.startswith(LOCAL_HEADER) and self.depth > 0:
            self._inner(name, data)
        else:
            self._single(name, data, around)
        if not self.format.has_models and name.endswith(".json") and _USES_PICKLE.search(data):
            self._uses_pickle(name)
        if self.roles[name] is Role.EXECUTORCH:
            self.found.payloads.append(Payload(name, _OF_EXECUTORCH, len(data)))
        if not self.table.has(name):
            message = f"an archive of kind {self.format.kind} has no such record"
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
        holds_arrays_alone = all(name.endswith(".npy") for name in self.roles)
        if not self.format.is_known and not (self.found.prefix or holds_arrays_alone):
            self.found.find(
                "file-kind", Severity.WARNING, Nature.OTHER_KIND,
                "it is a zip archive of no kind that is known here: only pickles and programs are "
                "looked for in it",
                hint=self.format.what_to_do,
            )  # fmt: skip
        for payload in self.found.payloads:
            if payload.record in self.roles:
                self._native(payload.record, payload.format)
        sources = [name for name, role in self.roles.items() if role is Role.PYTHON]
        if sources:
            message = f"{len(sources)} records are Python source, which runs when it is opened"
            self.found.find(
                "record-python", Severity.WARNING, Nature.ABILITY, message, sources[0],
                "Treat it as a program: a torch.package is one",
            )  # fmt: skip

    def _native(self, name: str | None, kind: str) -> None:
        role = None if name is None else self.roles[name]
        is_expected = role in (Role.NATIVE, Role.EXECUTORCH)
        is_unknown = not self.format.is_known
        severity = Severity.WARNING if is_expected or is_unknown else Severity.ERROR
        nature = Nature.ABILITY if is_expected else Nature.HOSTILE
        message = f"it is native code or a program ({kind})"
        hint = "Code that is loaded from it is bound by nothing"
        if role is Role.NATIVE:
            hint = f"load_pt2 and aoti_load_package of torch load it as they open the file. {hint}"
        self.found.find("record-native", severity, nature, message, name, hint)
