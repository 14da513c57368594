"""Fuzz targets that edit files of ExecuTorch with every applicable edit."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache

from pools import POOL

import tsarchive
from tsarchive.archive import Archive
from tsarchive.executorch import Draft

_DATA_MAGIC = b"FT01"


def edit(data: bytes) -> None:
    """Check that unedited parts are copied, and that encoding edited ones is a fixpoint."""
    with tsarchive.open(io.BytesIO(data)) as archive:
        assert Draft(archive).pieces().join() == data
        for change in _EDITS:
            _try(archive, change)


def _try(archive: Archive, change: Callable[[Draft], object]) -> None:
    draft = Draft(archive)
    try:
        change(draft)
        made = draft.pieces().join()
    except tsarchive.ArchiveError as error:
        str(error)
        return
    if draft.is_edited:
        with tsarchive.open(io.BytesIO(made)) as written:
            assert Draft(written).pieces(anew=True).join() == made


def _replace_all(draft: Draft) -> None:
    for name, layout in draft.tensors.items():
        if layout is not None and layout.nbytes < 1 << 16:
            draft.replace(name, bytes(layout.nbytes))


def _rename_all(draft: Draft) -> None:
    for number, name in enumerate(list(draft.tensors)):
        draft.rename(name, f"{number}/new")


@cache
def _other() -> Archive:
    """Return a data file to take entries from."""
    data = next(data for data in POOL.executorch if data[4:8] == _DATA_MAGIC)
    return tsarchive.open(io.BytesIO(data))


_EDITS: tuple[Callable[[Draft], object], ...] = (
    _replace_all, _rename_all, Draft.externalize, Draft.strip, Draft.upgrade,
    lambda draft: draft.align(segments=64, constants=32),
    lambda draft: draft.internalize(_other()),
    lambda draft: draft.merge(_other()),
    lambda draft: draft.program.strip(),
)  # fmt: skip
