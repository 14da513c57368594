"""Finding the archives below a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tsarchive.errors import ArchiveError
from tsarchive.kinds import EXECUTORCH, PT2, TORCHSCRIPT, executorch_kind

# The first record of an archive of torch, as its zip header names it.
_FIRST_RECORD = re.compile(
    rb"PK\x03\x04.{26}[^/]+/(?:data/|models/|data\.pkl|code/|constants|extra/|version|byteorder|\.)",
    re.DOTALL,
)
_HEAD_BYTES = 512


def files_below(folder: str) -> Iterator[str]:
    """Every regular file below a folder, in the order of names; links to folders are no way in.

    Raises OSError when the folder cannot be read.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(entry.path)
        elif entry.is_file():
            yield entry.path


def can_jitter(path: str) -> bool:
    """Whether a file is one that is saved again, or begins like one and cannot be opened.

    These are TorchScript and PT2 archives, and files of ExecuTorch.
    """
    import tsarchive

    try:
        with tsarchive.open(path) as archive:
            return archive.kind in (TORCHSCRIPT, PT2, *EXECUTORCH)
    except ArchiveError:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD_BYTES)
        return _FIRST_RECORD.match(head) is not None or executorch_kind(head) is not None
    except OSError:
        return True  # what cannot be read is not passed over
