"""Finding the archives below a folder, and why the other files there are none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tsarchive.errors import ArchiveError
from tsarchive.formats.registry import file_format, format_named

# The first record of an archive of torch, as its zip header names it.
_FIRST_RECORD = re.compile(
    rb"PK\x03\x04.{26}[^/]+/(?:data/|models/|data\.pkl|code/|constants|extra/|version|byteorder|\.)",
    re.DOTALL,
)
_HEAD_BYTES = 512


def files_below(folder: str) -> Iterator[str]:
    """The files below a folder, in the order of names; links are not followed.

    Raises OSError when the folder cannot be read.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(entry.path)
        else:
            yield entry.path


def reason_to_skip(path: str) -> str | None:
    """Why a file below a folder has no saves to compare; None where it has, or should have.

    TorchScript and PT2 archives and files of ExecuTorch are saved again. A file that begins like
    one of them, or cannot be read, is not skipped: checking it gives the error.
    """
    import tsarchive

    if not Path(path).is_file():
        return _irregular(Path(path))
    try:
        with tsarchive.open(path) as archive:
            found = format_named(archive.kind)
            return None if found.is_saved_again else found.what_it_is
    except ArchiveError as error:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD_BYTES)
        begins_like_one = _FIRST_RECORD.match(head) or file_format(head)
        return None if begins_like_one else error.message
    except OSError:
        return None


def _irregular(path: Path) -> str:
    if path.is_dir():
        return "a link to a folder, which is not followed"
    return "no regular file" if path.exists() else "a link to nothing"
