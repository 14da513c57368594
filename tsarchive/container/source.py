"""The bytes of an archive: a private map of a file, or a copy of what a file object gives."""

from __future__ import annotations

import io
import mmap
import os
import stat
from typing import Any, BinaryIO

from tsarchive.errors import CallError

__all__ = ["load_bytes"]


def load_bytes(source: str | os.PathLike[str] | BinaryIO) -> mmap.mmap | bytearray:
    """Map the file, or read it when it cannot be mapped: a pipe, a buffer, a decompressor.

    The map is private: it may be written to, and the file does not change. Raises CallError for
    what is neither a path nor a binary file object, OSError when it cannot be read.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return _bytes_of(file)
    if not hasattr(source, "read"):
        raise _not_a_file(type(source).__name__)
    return _bytes_of(source)


def _bytes_of(file: BinaryIO) -> mmap.mmap | bytearray:
    # A file object gives what follows its position; a map can only begin at the first byte.
    if _is_plain_file(file) and file.tell() == 0:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    content: Any = file.read()
    if isinstance(content, str):
        raise _not_a_file("a file opened as text")
    return bytearray(content)


def _not_a_file(what: str) -> CallError:
    hint = "Pass a path, a file opened with mode 'rb', or io.BytesIO(data)"
    return CallError(f"an archive cannot be read from {what}", hint=hint)


def _is_plain_file(file: BinaryIO) -> bool:
    """Whether the file object gives the bytes of a file on disk, one for one.

    Having a file number is not enough: a gzip.GzipFile has that of its compressed file.
    """
    raw = getattr(file, "raw", file)
    if not isinstance(raw, io.FileIO):
        return False
    status = os.fstat(raw.fileno())
    return stat.S_ISREG(status.st_mode) and status.st_size > 0
