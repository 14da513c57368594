"""Differences between two files beside their models: extra files, and how they are packed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsarchive.diffing.report import Change
from tsarchive.formats.base import Opened


def extra_file_changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Change]:
    """Yield the differences of extra files, by name."""
    for name in sorted({*before, *after}):
        own, other = before.get(name), after.get(name)
        if own != other:
            yield Change("extra file", name, own, other, "extra files")


def packing_changes(before: Opened, after: Opened) -> Iterator[Change]:
    """Yield what differs beside the model: format, version, records, alignment, what wrote them."""
    raise NotImplementedError
