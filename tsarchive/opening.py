"""Opening: a file as an archive to look at, without torch."""

from __future__ import annotations

import os
from typing import BinaryIO

from tsarchive.archive import Archive
from tsarchive.formats.archive import Opened
from tsarchive.formats.registry import format_of, opened_file


def open(source: str | os.PathLike[str] | BinaryIO) -> Archive:  # the verb of the public interface
    """Open an archive (a path or a binary file object) for looking at; torch is not imported.

    Raises FormatError when the file is neither a sound zip archive nor a sound file of ExecuTorch,
    OSError when it cannot be read.
    """
    return archive_of(opened_file(source))


def archive_of(opened: Opened) -> Archive:
    """A file that was opened as an archive to look at."""
    return Archive(opened, format_of(opened))
