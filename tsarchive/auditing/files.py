"""The verb: audit a file of any kind."""

from __future__ import annotations

import io
import os
import stat
from dataclasses import replace
from typing import BinaryIO, Final

from tsarchive.auditing.archives import audit_zip
from tsarchive.auditing.soundness import add_soundness
from tsarchive.auditing.tars import members_of
from tsarchive.container.recognise import HEAD_BYTES, recognise
from tsarchive.container.source import open_source, read_all
from tsarchive.errors import ArchiveError, CallError
from tsarchive.findings import Nature, Severity
from tsarchive.formats.base import FileFormat
from tsarchive.formats.registry import file_format
from tsarchive.opening import archive_of
from tsarchive.scanning.budgets import Budgets
from tsarchive.scanning.collecting import Collected
from tsarchive.scanning.contents import TAR, UNKNOWN, ZIP, Form, form_of, has_zip_end
from tsarchive.scanning.pickles import Surroundings
from tsarchive.scanning.report import AuditReport

_LONGEST: Final = 1 << 31
# Archives in archives are looked into, and no further.
_DEPTH: Final = 1


def audit(source: str | os.PathLike[str] | BinaryIO) -> AuditReport:
    """List what a file (a path or a binary file object) can do, and when.

    Nothing of the file runs, no name in it is imported, nothing is unpickled, and torch is not
    imported. Files of every kind give a report: TorchScript archives of any age, torch.export,
    torch.save and torch.package archives, pickles, NumPy and tar files. What cannot be looked
    into is a finding.

    Raises OSError when the file cannot be read, CallError when ``source`` is no file, FormatError
    when it has no end.
    """
    if isinstance(source, str | os.PathLike):
        path = os.fsdecode(source)
        with open(path, "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _audit(file, path)
            return _audit(io.BytesIO(read_all(file)), None)
    if not hasattr(source, "read"):
        raise CallError(
            f"an archive cannot be read from {type(source).__name__}",
            hint="Pass a path, a file opened with mode 'rb', or io.BytesIO(data)",
        )
    return _audit(io.BytesIO(read_all(source)), None)


def _audit(file: BinaryIO, path: str | None) -> AuditReport:
    """``path`` is given for files on disk, of which the container maps what it needs."""
    size = file.seek(0, os.SEEK_END)
    found = Collected(Budgets.of_file(size))
    tail = _read(file, max(0, size - 66_000))
    head = _read(file, 0, HEAD_BYTES)
    form = form_of(head, tail)
    kind = form.kind
    if form is ZIP or has_zip_end(tail):
        kind = audit_zip(path if path is not None else file, None, found, _DEPTH)
    own = file_format(head)
    if own is not None:
        is_looked_into = _audit_own(path if path is not None else file, own, found)
        kind = own.kind if is_looked_into else kind
        form = replace(form, is_inert=is_looked_into)
    if form is not ZIP:
        _audit_bytes(_read(file, 0, _LONGEST), form, found)
    if size > _LONGEST and form is not ZIP:
        message = f"only its first {_LONGEST >> 30} GiB are looked into"
        found.find("record-unread", Severity.WARNING, Nature.UNUSUAL, message)
    return found.report(kind, size)


def _audit_own(source: str | BinaryIO, format_: FileFormat, found: Collected) -> bool:
    """Add what a file with a container of its own can do; false where it cannot be opened."""
    add_soundness(source, found)
    if not isinstance(source, str):
        source.seek(0)
    try:
        archive = archive_of(format_.opened(open_source(source)))
    except ArchiveError:
        return False
    format_.audit(archive, found)
    return True


def _read(file: BinaryIO, start: int, size: int = -1) -> bytes:
    file.seek(start)
    return file.read(size)


def _audit_bytes(data: bytes, form: Form, found: Collected) -> None:
    audit = found.look_at(data, None, Surroundings())
    if form is TAR:
        for name, content in members_of(data):
            found.count("members", len(content), len(content))
            found.look_at(content, name, Surroundings())
    for payload in found.payloads:
        if payload.record is None:
            message = f"the file is native code or a program ({payload.format})"
            found.find("record-native", Severity.ERROR, Nature.HOSTILE, message)
    if not form.is_inert and not audit.streams.pickles:
        message = f"it is {_described(form)}"
        hint = _looks(data) if form is UNKNOWN else form.advice
        found.find("file-kind", Severity.WARNING, Nature.OTHER_KIND, message, hint=hint)


def _looks(data: bytes) -> str:
    found = recognise(data[:HEAD_BYTES])
    return f"By its looks {found.message}. {found.hint}"


def _described(form: Form) -> str:
    return "of no kind that is known here" if form is UNKNOWN else f"of the kind {form.kind}"
