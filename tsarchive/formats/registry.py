"""The registry of formats, which finds the format of a file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import BinaryIO, Final

from tsarchive.container import Container
from tsarchive.container.directory import has_directory, has_end
from tsarchive.container.faults import Collected, Stopped
from tsarchive.container.members import read_members
from tsarchive.container.opening import open_source
from tsarchive.container.recognise import HEAD_BYTES, Diagnosis
from tsarchive.container.source import Source, Span
from tsarchive.errors import FormatError
from tsarchive.formats.base import FileFormat, Format, Opened, ZipFormat
from tsarchive.formats.foreign import BYTECODE, TORCH_PACKAGE, TORCH_SAVE, UNKNOWN

from .executorch.format import EXECUTORCH
from .legacy.format import LEGACY_TORCHSCRIPT
from .pt2.format import PT2
from .torchscript.format import TORCHSCRIPT

ZIP_FORMATS: Final[tuple[ZipFormat, ...]] = (
    BYTECODE, TORCHSCRIPT, LEGACY_TORCHSCRIPT, PT2, TORCH_PACKAGE, TORCH_SAVE, UNKNOWN,
)  # fmt: skip
"""The first that fits counts; the last fits every archive."""
FILE_FORMATS: Final[tuple[FileFormat, ...]] = EXECUTORCH
FORMATS: Final[tuple[Format, ...]] = (*FILE_FORMATS, *ZIP_FORMATS)
_KIND_BYTES: Final = 8
# The tables of most programs of ExecuTorch.
_AHEAD_BYTES: Final = 64 << 10


def zip_format(names: Collection[str]) -> ZipFormat:
    """Return the format of a zip archive with records of these names."""
    return next(found for found in ZIP_FORMATS if found.fits(names))


def file_format(source: Source) -> FileFormat | None:
    """Return the format of a file that has a container of its own, None for other files."""
    return format_beginning(source.piece(0, _KIND_BYTES))


def format_beginning(head: bytes | memoryview) -> FileFormat | None:
    """Return the format with a container of its own whose files begin so, if any."""
    start = memoryview(head)[:_KIND_BYTES]
    return next((found for found in FILE_FORMATS if found.begins(start)), None)


def format_named(kind: str) -> Format:
    """Return the format of this ``kind``."""
    return next(found for found in FORMATS if found.kind == kind)


def title_of(kind: str) -> str:
    """Return the title of the format of this ``kind``; the kind itself where there is none."""
    return next((found.title for found in FORMATS if found.kind == kind), kind)


def format_of(opened: Opened) -> Format:
    """Return the format of an open file."""
    if isinstance(opened, Container):
        return zip_format(opened.records)
    return format_named(opened.kind)


def opened_file(source: str | os.PathLike[str] | BinaryIO, *, whole: bool = False) -> Opened:
    """Open a file of any format, a path or a binary file object; nothing in it is read yet.

    Of one elsewhere ``whole`` lets all be fetched: no bounds hold.

    Raises FormatError when the file is neither a sound zip archive nor a sound file of ExecuTorch,
    OSError when it cannot be read.
    """
    found = open_source(source)
    if whole:
        found.expect_all()
    return opened_source(found)


def opened_source(found: Source) -> Opened:
    """Open the bytes of a file. Raises FormatError as :func:`opened_file` does."""
    archive = _archive_from_start(found) if found.is_elsewhere and found.is_sparing else None
    if archive is not None:
        found.prefetch(_ahead(archive))
        return archive
    get_ahead(found)
    own = file_format(found)
    return opened_zip(found) if own is None else own.opened(found)


def opened_zip(source: Source) -> Container:
    """Open the bytes of a zip archive, which are released when it cannot be opened.

    Raises FormatError, which says what has happened to the file where that is known.
    """
    damage = damage_of(source)
    if damage is not None:
        source.close()
        raise FormatError(damage.message, offset=damage.offset, hint=damage.hint)
    return Container.of_source(source)


def get_ahead(source: Source) -> None:
    """Get at once the start of a file elsewhere, and what listing and reading code take of it."""
    if not source.is_elsewhere:
        return
    found = _zip_at_end(source)
    if found is None:
        source.prefetch([Span(0, _AHEAD_BYTES)])
    else:
        source.prefetch([Span(0, HEAD_BYTES), *_ahead(found)])


def _ahead(archive: Container) -> Iterator[Span]:
    """Yield what listing and reading code take of an archive."""
    format_ = zip_format(archive.records)
    table = format_.table(archive)
    yield from archive.spans(name for name in archive.records if not table.role(name).is_bulk)
    yield from archive.ends(format_.saved(archive))


def _archive_from_start(source: Source) -> Container | None:
    """Return the archive at the end of a file if its directory tells that a record begins the file.

    No look at the first bytes is worth a request then: reading that record shows whether it is so.
    """
    found = _zip_at_end(source)
    if found is None or all(span.start for span in found.spans(found.records)):
        return None
    return found


def weights_of(container: Container) -> frozenset[str]:
    """Return the records that hold elements of tensors, be it in a file of torch.save."""
    table = zip_format(container.records).table(container)
    return frozenset(name for name in container.records if table.role(name).is_of_elements)


def _zip_at_end(source: Source) -> Container | None:
    """Return the archive whose directory is at the end of a file, None where it is refused."""
    if not has_end(source):
        return None
    faults = Collected()
    with suppress(Stopped):
        members = read_members(source, faults)
        return None if faults.refused else Container(source, members)
    return None


def damage_of(source: Source) -> Diagnosis | None:
    """Return what has happened to a file that is no sound zip archive; None where it is not known.

    What a sound one does not need is imported here.
    """
    if has_directory(source):
        return None
    from .diagnosing import diagnosis_of

    return diagnosis_of(source)
