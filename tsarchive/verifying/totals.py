"""The tensors of files that may be broken, counted."""

from __future__ import annotations

from tsarchive.archive import Archive
from tsarchive.errors import ArchiveError
from tsarchive.formats.torchscript.tensor_infos import TensorTotals


def known_totals(archive: Archive) -> TensorTotals | None:
    """:attr:`tsarchive.Archive.totals`, or None where its tensors cannot be listed."""
    try:
        return archive.totals
    except (ArchiveError, RecursionError):
        return None
