"""From a path or a file object to its bytes: a map, a copy, or ranges that are read on demand."""

from __future__ import annotations

import io
import mmap
import os
import stat
from typing import Any, BinaryIO

from tsarchive.container import caps
from tsarchive.container.faults import STRICT, Faults, Stopped
from tsarchive.container.source import Source
from tsarchive.errors import ArchiveError, CallError
from tsarchive.remote import is_url, located

_PIECE_BYTES = 1 << 20
_TO_DISK = "Write it to a file on disk, of which only what is needed is read"


def open_source(source: str | os.PathLike[str] | BinaryIO, faults: Faults = STRICT) -> Source:
    """Map the file, or read it when it cannot be mapped: a pipe, a buffer, a decompressor.

    The map is private: it may be written to, and the file does not change. Of another object that
    reads and seeks only what is needed is read, so it is needed itself until the source is closed.
    Of a URL, what is needed is fetched.

    Raises CallError for anything but a path, a URL or a binary file object; OSError when it cannot
    be read, which is a RemoteError for a URL. Any other failure of a file object is a fault.
    """
    source = located(source)
    if is_url(source):
        return _elsewhere(source)
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return _source_of(file, faults)
    if not hasattr(source, "read"):
        raise not_a_file(type(source).__name__)
    return _source_of(source, faults)


def _elsewhere(url: str) -> Source:
    from tsarchive.container.ranges import RangedSource
    from tsarchive.remote.opening import ranges_of

    return RangedSource(ranges_of(url))


def _source_of(file: BinaryIO, faults: Faults) -> Source:
    try:
        # A file object is read from its position; a map can only begin at the first byte.
        if _is_plain_file(file) and file.tell() == 0:
            return _map(file.fileno())
        if _gives_ranges(file):
            from tsarchive.container.ranges import RangedSource
            from tsarchive.remote.ranges import SeekableRanges

            return RangedSource(SeekableRanges(file))
        return Source(read_all(file, faults))
    except (ArchiveError, Stopped, OSError, MemoryError):
        raise
    except Exception as error:
        faults.stop(
            "file-unreadable",
            f"the file object fails with {type(error).__name__}: {error}",
            hint="A file object has to be open for reading in binary mode, 'rb'",
        )


def _map(number: int) -> Source:
    descriptor = os.dup(number)
    try:
        return Source(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY), descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def read_all(file: BinaryIO, faults: Faults = STRICT) -> bytearray:
    """Read up to the end, in as many reads as the object needs.

    Raises CallError when it gives no bytes, OSError when it cannot be read. An endless object is a
    fault.
    """
    raw = getattr(file, "raw", file)
    is_device = isinstance(raw, io.FileIO) and stat.S_ISCHR(os.fstat(raw.fileno()).st_mode)
    most = caps.MAX_DEVICE_BYTES if is_device else caps.MAX_COPIED_BYTES
    content = bytearray()
    while piece := _piece(file):
        content += piece
        if len(content) > most:
            problem = f"more than {most:,} bytes come, which are not read into memory"
            faults.stop("file-unreadable", problem, limit=most, hint=_TO_DISK)
    return content


def _piece(file: BinaryIO) -> memoryview:
    piece: Any = file.read(_PIECE_BYTES)
    if isinstance(piece, str):
        raise not_a_file("a file opened as text")
    if piece is None:
        raise BlockingIOError("the file object has no bytes at the moment")
    return memoryview(piece)


def not_a_file(what: str) -> CallError:
    """Return the error for an object that no archive can be read from."""
    hint = "Pass a path, a file opened with mode 'rb', or io.BytesIO(data)"
    return CallError(f"an archive cannot be read from {what}", hint=hint)


def _is_plain_file(file: BinaryIO) -> bool:
    """Return whether the file object gives exactly the bytes of a file on disk.

    A file number is not enough: a gzip.GzipFile has that of its compressed file.
    """
    raw = getattr(file, "raw", file)
    if not isinstance(raw, io.FileIO):
        return False
    status = os.fstat(raw.fileno())
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


# Classes of the standard library that have all in memory, or seek by decompressing anew.
_READ_WHOLE = frozenset(
    {
        ("_io", "BytesIO"),
        ("gzip", "GzipFile"),
        ("bz2", "BZ2File"),
        ("lzma", "LZMAFile"),
        ("zipfile", "ZipExtFile"),
        ("tempfile", "SpooledTemporaryFile"),
    }
)


def _gives_ranges(file: BinaryIO) -> bool:
    """Return whether any part of the file can be had without reading all of it."""
    raw = getattr(file, "raw", file)
    if isinstance(raw, io.FileIO) or any(
        (kind.__module__, kind.__name__) in _READ_WHOLE for kind in type(raw).__mro__
    ):
        return False
    seekable = getattr(file, "seekable", None)
    return callable(seekable) and bool(seekable()) and isinstance(file.read(0), bytes)
