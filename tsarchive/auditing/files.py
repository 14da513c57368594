"""Auditing files of any kind: the verb, the records of zip archives, and what is damaged."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import BinaryIO, Final

from tsarchive.archive import Archive, archive_of
from tsarchive.container import Container, Record
from tsarchive.container.faults import DAMAGED_DATA, STRICT
from tsarchive.container.layout import DEFLATED, LOCAL, LOCAL_SIGNATURE
from tsarchive.container.opening import open_source
from tsarchive.container.recognise import HEAD_BYTES, recognise
from tsarchive.container.source import Source, lent
from tsarchive.errors import ArchiveError
from tsarchive.findings import Nature, Severity
from tsarchive.formats.base import OTHER_KIND, FileFormat, known_totals
from tsarchive.formats.foreign import UNKNOWN as UNKNOWN_FORMAT
from tsarchive.formats.records import Role
from tsarchive.formats.registry import format_beginning, get_ahead, weights_of, zip_format
from tsarchive.formats.torchscript.inspection import BYTECODE
from tsarchive.formats.torchscript.program import program_of
from tsarchive.formats.torchscript.verifying.checking import MAX_CODE_BYTES, too_much_code
from tsarchive.garbage import rarely_collecting
from tsarchive.renaming import renamed
from tsarchive.scanning.collecting import (
    TAR,
    UNKNOWN,
    ZIP,
    Collected,
    Form,
    Surroundings,
    ends_of,
    form_of,
    has_zip_end,
)
from tsarchive.scanning.pickle_names import Budgets
from tsarchive.scanning.report import AuditReport, Payload
from tsarchive.steps import Measured, Step, no_step
from tsarchive.verifying import VerifyReport, verify_source

from .programs import audit_program

_LONGEST_FILE: Final = 1 << 31
# Archives in archives are looked into, and no further.
_DEPTH: Final = 1


@renamed(source="f")
def audit(
    f: str | os.PathLike[str] | BinaryIO,
    *,
    weights: bool | None = None,
    verified: VerifyReport | None = None,
    step: Step | None = None,
) -> AuditReport:
    """List what a file (a path or a binary file object) can do, and when.

    Nothing of the file runs, no name in it is imported, nothing is unpickled, and torch is not
    imported. Files of every kind give a report: TorchScript archives of any age, torch.export,
    torch.save and torch.package archives, pickles, NumPy and tar files. What cannot be looked
    into is a finding. ``verified`` is what :func:`tsarchive.verify` found in this file, where that
    is at hand: it is verified otherwise.

    With ``weights`` the data of tensors is read as well: its checksums are checked, and pickles and
    programs are looked for in it. Otherwise a finding tells what was left unread. None stands for
    True where the file is on this machine, for False where it is elsewhere. ``step`` is called with
    the name of each record of an archive when it has been looked into.

    Raises OSError when the file cannot be read, CallError when ``f`` is no file, FormatError
    when it has no end.

        >>> tsarchive.audit("net.pt").ok
        True
    """
    with closing(open_source(f)) as opened:
        if weights:
            opened.expect_all()
        elif weights is not None:
            opened.is_sparing = True
        return audit_source(opened, verified, step or no_step)


@rarely_collecting()
def audit_source(
    source: Source, verified: VerifyReport | None = None, step: Step = no_step
) -> AuditReport:
    """List what the bytes of a file can do, as :func:`audit` does.

    Where the source is sparing, the data of tensors is left unread.
    """
    get_ahead(source)
    size = source.size
    found = Collected(Budgets.of_file(size))
    head, tail = ends_of(source)
    form = form_of(head, tail)
    kind = form.kind
    if form is ZIP or has_zip_end(tail):
        kind = audit_zip(source, found, _DEPTH, verified, step)
    own = format_beginning(head)
    if own is not None:
        is_looked_into = _audit_own(source, own, found, verified)
        kind = own.kind if is_looked_into else kind
        form = replace(form, is_inert=is_looked_into)
    if form.is_inert and own is not None and source.is_sparing:
        _tell_unread(found, "the data behind the tables is left unread")
    elif form is not ZIP:
        _audit_bytes(_bytes_of(source, 0, _LONGEST_FILE), form, found)
    if size > _LONGEST_FILE and form is not ZIP:
        message = f"only its first {_LONGEST_FILE >> 30} GiB are looked into"
        found.find("record-unread", Severity.WARNING, Nature.UNUSUAL, message)
    return found.report(kind, size)


def _audit_own(
    source: Source, format_: FileFormat, found: Collected, verified: VerifyReport | None
) -> bool:
    """Add what a file with a container of its own can do; false where it cannot be opened."""
    add_soundness(source, found, verified)
    try:
        archive = archive_of(format_.opened(lent(source)))
    except ArchiveError:
        return False
    format_.audit(archive, found)
    return True


def _tell_unread(found: Collected, what: str) -> None:
    message, hint = (
        f"{what}: nothing is looked for there",
        "Audit all of it: weights=True, on the command line --weights",
    )
    found.find("record-unread", Severity.INFO, Nature.UNUSUAL, message, hint=hint)


def _bytes_of(source: Source, start: int, stop: int) -> bytes:
    source.require_unchanged(STRICT, contents=True)
    return bytes(source.piece(start, stop))


def _audit_bytes(data: bytes, form: Form, found: Collected) -> None:
    streams = found.look_at(data, None, Surroundings())
    if form is TAR:
        for name, content in members_of(data):
            found.count("members", len(content), len(content))
            found.look_at(content, name, Surroundings())
    for payload in found.payloads:
        if payload.record is None:
            message = f"the file is native code or a program ({payload.format})"
            found.find("record-native", Severity.ERROR, Nature.HOSTILE, message)
    if not form.is_inert and not streams.pickles:
        message, hint = f"it is of the kind {form.kind}", form.advice
        if form is UNKNOWN:
            looks = recognise(data[:HEAD_BYTES])
            message = "it is of no kind that is known here"
            hint = f"By its looks {looks.message}. {looks.hint}"
        found.find("file-kind", Severity.WARNING, Nature.OTHER_KIND, message, hint=hint)


# Longer records are looked into up to here.
_LONGEST_RECORD: Final = 1 << 28
# Findings which say that data is not what the directory and its checksum tell.
_DOUBTED_DATA: Final = DAMAGED_DATA | {"zip-inflates-to-more"}
_OF_EXECUTORCH: Final = "ExecuTorch"
_USES_PICKLE = re.compile(rb'"use_pickle"\s*:\s*true')


def audit_zip(
    source: Source,
    found: Collected,
    depth: int,
    verified: VerifyReport | None = None,
    step: Step = no_step,
) -> str:
    """Add what a zip archive holds, and return its kind; ``depth`` is that of archives inside."""
    found.findings.excuse(add_soundness(source, found, verified))
    try:
        container = Container.of_source(lent(source))
    except ArchiveError:
        salvage(_bytes_of(source, 0, _LONGEST_RECORD), found)
        return UNKNOWN_FORMAT.kind
    with container:
        archive = _Archive(container, found, depth)
        archive.audit(step)
        found.tensors = known_totals(Archive(container, archive.format))
    if archive.has_refused:
        salvage(_bytes_of(source, 0, _LONGEST_RECORD), found)
    return archive.format.kind


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

    def audit(self, step: Step) -> None:
        code = dict(self._code())
        program = program_of(code, self.container)
        around = Surroundings(program.record_of, self.format.python_modules(self.roles))
        exported = self.format.exported_audit(self.roles, self._read)
        self.unpickled = exported.unpickled if exported is not None else self.unpickled
        left_out = self._left_out()
        self.container.prefetch(name for name in self.roles if name not in left_out)
        kept = {}
        measured = Measured(step, sum(record.size for record in self.container.records.values()))
        for name, record in self.container.records.items():
            self.found.count(self.roles[name].audited, record.size, record.stored_size)
            if name in left_out:
                continue
            data = code.get(name) or self._read(name)
            if name not in code:
                self._record(name, data, around)
            measured.add(name, record.size)
            if name in ("data.pkl", "constants.pkl", "attributes.pkl", BYTECODE):
                kept[name] = data
        if code or BYTECODE in kept:
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
            yield record.name, self._read(record.name)

    def _read(self, name: str) -> bytes:
        """Return the data of a record.

        Of one that is too long or damaged, return what can be had of it; none if it is refused.
        """
        record = self.container.records[name]
        try:
            if record.size <= _LONGEST_RECORD:
                return self.container.read(record.name)
            self._unread(record, f"only its first {_LONGEST_RECORD >> 20} MiB are looked into")
        except ArchiveError as error:
            self._unread(record, f"it cannot be read: {error.message}")
        try:
            stored = bytes(self.container.payload(record.name)[:_LONGEST_RECORD])
        except ArchiveError:
            self.has_refused = True
            return b""
        return inflated(stored) if record.method == DEFLATED else stored

    def _unread(self, record: Record, why: str) -> None:
        is_tensor = self.roles[record.name] is Role.TENSORS
        severity = Severity.INFO if is_tensor else Severity.WARNING
        self.found.find("record-unread", severity, Nature.BROKEN, why, record.name)

    def _left_out(self) -> frozenset[str]:
        """Return the weights that are left unread; of archives among them, look at the pickles."""
        if not self.container.is_sparing:
            return frozenset()
        saved = self.format.saved(self.container)
        for name in saved:
            self._nested(name, self.container.part(name))
        elements = weights_of(self.container).difference(saved, self.unpickled)
        self._tell_left_out(elements)
        return elements.union(saved)

    def _tell_left_out(self, names: frozenset[str]) -> None:
        nbytes = sum(self.container.records[name].stored_size for name in names)
        if nbytes:
            weights = f"the weights ({nbytes:,} bytes in {len(names):,} records)"
            _tell_unread(self.found, f"{weights} are left unread, their checksums unchecked")

    def _nested(self, name: str, source: Source) -> None:
        inner = Collected(self.found.budgets, prefix=f"{name}/")
        audit_zip(source, inner, self.depth - 1)
        self.found.take(inner)

    def _record(self, name: str, data: bytes, around: Surroundings) -> None:
        if data.startswith(LOCAL_SIGNATURE) and self.depth > 0:
            self._nested(name, Source(memoryview(data)))
        else:
            self._single(name, data, around)
        if not self.format.has_programs and name.endswith(".json") and _USES_PICKLE.search(data):
            message = "it tells the reader to unpickle a record, whatever that may call"
            hint = "torch.export.load has no way to refuse: see what the pickles name"
            self.found.find(
                "record-use-pickle", Severity.WARNING, Nature.ABILITY, message, name, hint
            )
        if self.roles[name] is Role.EXECUTORCH:
            self.found.payloads.append(Payload(name, _OF_EXECUTORCH, len(data)))
        if not self.table.has(name) or self.roles[name] is Role.UNKNOWN_BESIDE_NATIVE:
            message = f"an archive of kind {self.format.kind} has no such record"
            self.found.find("record-unknown", Severity.INFO, Nature.UNUSUAL, message, name)

    def _single(self, name: str, data: bytes, around: Surroundings) -> None:
        self.found.look_at(data, name, around, is_unpickled=name in self.unpickled)
        if data.startswith(LOCAL_SIGNATURE):
            message = "an archive in an archive in an archive is not opened"
            self.found.find("record-nested", Severity.WARNING, Nature.UNUSUAL, message, name)

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

    def _native(self, name: str, kind: str) -> None:
        role = self.roles[name]
        is_expected = role in (Role.NATIVE, Role.EXECUTORCH)
        is_unknown = not self.format.is_known
        severity = Severity.WARNING if is_expected or is_unknown else Severity.ERROR
        nature = Nature.ABILITY if is_expected else Nature.HOSTILE
        message = f"it is native code or a program ({kind})"
        hint = "Code that is loaded from it is bound by nothing"
        if role is Role.NATIVE:
            hint = f"load_pt2 and aoti_load_package of torch load it as they open the file. {hint}"
        self.found.find("record-native", severity, nature, message, name, hint)


_PIECE: Final = 1 << 16
# Of one record, and of all of them: a bomb is not inflated to its end.
_LONGEST_INFLATED: Final = 1 << 25
_MOST_INFLATED: Final = 1 << 27
_MOST_HEADERS: Final = 65_536


def salvage(data: bytes, found: Collected) -> None:
    """Look at the file as it is, where records in it begin, and at what it holds deflated."""
    found_headers = islice(re.finditer(re.escape(LOCAL_SIGNATURE), data), _MOST_HEADERS)
    headers = [_header(data, match.start()) for match in found_headers]
    starts = [start for method, start in headers if method != DEFLATED]
    found.look_at(data, None, Surroundings(), starts=starts)
    room = _MOST_INFLATED
    for method, start in headers:
        content = inflated(memoryview(data)[start:]) if method == DEFLATED else b""
        if content:
            found.look_at(content, None, Surroundings())
        room -= len(content)
        if room <= 0:
            break
    if room <= 0 or len(headers) == _MOST_HEADERS:
        message = "there is too much in the container to look at all of it"
        found.find("record-unread", Severity.WARNING, Nature.HOSTILE, message)


def _header(data: bytes, offset: int) -> tuple[int, int]:
    """Return the compression method of a local header, and where the data behind it begins."""
    method, name, extra = (
        int.from_bytes(data[offset + at : offset + at + 2], "little") for at in (8, 26, 28)
    )
    return method, offset + LOCAL.size + name + extra


def inflated(stored: memoryview | bytes) -> bytes:
    """Inflate data up to a limit, and as far as it is sound."""
    content, inflater = bytearray(), zlib.decompressobj(-zlib.MAX_WBITS)
    for start in range(0, len(stored), _PIECE):
        try:
            content += inflater.decompress(stored[start : start + _PIECE], _LONGEST_INFLATED)
        except zlib.error:
            break
        if inflater.eof or len(content) >= _LONGEST_INFLATED:
            break
    return bytes(content)


_BLOCK: Final = 512
_NAME: Final = slice(0, 100)
_SIZE: Final = slice(124, 136)
_MAGIC: Final = slice(257, 262)
_MOST_MEMBERS: Final = 100_000


def members_of(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents, up to the first header that is none."""
    position = 0
    for _ in range(_MOST_MEMBERS):
        header = data[position : position + _BLOCK]
        size = _number(header[_SIZE])
        if header[_MAGIC] != b"ustar" or size is None:
            return
        name = header[_NAME].partition(b"\0")[0].decode("utf-8", "replace")
        position += _BLOCK
        yield name, data[position : position + size]
        position += -(-size // _BLOCK) * _BLOCK


def _number(field: bytes) -> int | None:
    """Parse a size: octal digits or, for large ones, binary behind a bit that says so."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and set(digits) <= set(b"01234567") else None


_UNUSUAL: Final = {Nature.UNUSUAL: Severity.WARNING}
_VERIFY: Final = "'tsarchive verify' lists all that is wrong with the file"


def add_soundness(
    source: Source, found: Collected, verified: VerifyReport | None
) -> frozenset[str]:
    """Add the worst of what verifying finds, and return the records whose checksum is wrong.

    A file that is no sound archive is not known to be harmless, whatever its code can do. What
    stands in a record with a wrong checksum may be the work of damage: torch does not read it.
    """
    report = verify_source(lent(source)) if verified is None else verified
    findings = [f for f in report.findings if f.rule != OTHER_KIND]
    grave = [finding for finding in findings if finding.severity > Severity.INFO]
    if not grave:
        return frozenset()
    # What is unusual keeps the file from being loaded, and harms nobody.
    severities = {f: min(f.severity, _UNUSUAL.get(f.nature, Severity.ERROR)) for f in grave}
    worst = max(grave, key=lambda f: (severities[f], f.nature.rank))
    others = f" ({len(grave) - 1} more)" if len(grave) > 1 else ""
    message, severity = worst.message + others, severities[worst]
    found.findings.add([replace(worst, message=message, severity=severity, hint=_VERIFY)])
    return frozenset(f.record for f in grave if f.rule in _DOUBTED_DATA and f.record is not None)
