"""Atomic writing of drafts, several together."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack

from tsarchive.container.writer import replacing
from tsarchive.errors import CallError

from .draft import Draft


def write_together(drafts: Iterable[tuple[Draft, str | os.PathLike[str]]]) -> list[int]:
    """Write each draft to its path; none is replaced before all are complete.

    Returns the sizes in bytes. Raises CallError for a path that is given twice, OSError when a file
    cannot be written, and what :meth:`Draft.write` raises.
    """
    pairs = [(draft, os.fsdecode(path)) for draft, path in drafts]
    targets = [os.path.realpath(path) for _, path in pairs]
    for target in targets:
        if targets.count(target) > 1:
            raise CallError(f"two files would be written to {target!r}")
    with ExitStack() as files:
        return [draft.write(files.enter_context(replacing(path))) for draft, path in pairs]
