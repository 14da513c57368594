"""The initial bytes of a program's tensors, by the numbers that tensors refer to.

Number 0 is a placeholder for none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from tsarchive.errors import FormatError

from .alignment import align_up, infer_alignments
from .pieces import Bytes, Pieces
from .program import RECORD
from .segmented_draft import NewSegment
from .segments import part_of
from .table_values import Values

Item: TypeAlias = bytes | memoryview


class Pool(ABC):
    """Numbered ``items`` of bytes; ``write`` stores them in the program."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    def add(self, data: Item) -> int:
        """Add an item. Returns its number."""
        self.items.append(data)
        return len(self.items) - 1

    def require(self, number: int) -> None:
        """Raise FormatError when there is no item of this number."""
        if not 0 < number < len(self.items):
            message = f"there is no constant {number}"
            raise FormatError(message, record=RECORD, limit=len(self.items))

    def drop(self, numbers: Collection[int]) -> dict[int, int]:
        """Remove items. Returns the new number of each one that stays."""
        kept = [number for number in range(len(self.items)) if number not in numbers]
        self.items[:] = [self.items[number] for number in kept]
        return {old: new for new, old in enumerate(kept)}

    @abstractmethod
    def align(self, width: int) -> None:
        """Align all items to multiples of ``width``."""

    @abstractmethod
    def write(self) -> None:
        """Store the items in the tables or the segment that they come from."""


class InlinePool(Pool):
    """Constants in tables, as programs before ExecuTorch 0.4 have them."""

    def __init__(self, tables: list[Values], alignments: dict[tuple[str, str], int]) -> None:
        super().__init__([table.get("storage", b"") for table in tables])
        self._tables = tables
        self._before = list(zip(self.items, tables, strict=True))
        self._alignments = alignments

    def align(self, width: int) -> None:
        self._alignments["Buffer", "storage"] = width

    def write(self) -> None:
        tables = {id(item): table for item, table in self._before}
        self._tables[:] = [tables.get(id(item), {"storage": item}) for item in self.items]


class SegmentPool(Pool):
    """Items in one segment, their offsets in the table ``group``.

    ``sizes`` are the sizes of those that tensors refer to. New items get the ``usual`` alignment
    unless that of the others is evident.
    """

    def __init__(
        self, group: Values, segment: NewSegment, sizes: Mapping[int, int], usual: int
    ) -> None:
        assert not isinstance(segment.data, Pieces)
        self._data = memoryview(segment.data)
        self._offsets = offsets = group.get("offsets") or (0,)
        super().__init__(_items(self._data, offsets, sizes))
        self._group = group
        self.segment = segment
        ends = [offset + len(item) for offset, item in zip(offsets, self.items, strict=True)]
        widths = infer_alignments(list(zip(ends[:-1], offsets[1:], strict=True)), usual)
        self._widths = [usual, *widths]
        self._usual = max(widths, default=usual)

    def add(self, data: Item) -> int:
        self._widths.append(self._usual)
        return super().add(data)

    def drop(self, numbers: Collection[int]) -> dict[int, int]:
        kept = super().drop(numbers)
        self._widths = [self._widths[old] for old in kept]
        return kept

    def align(self, width: int) -> None:
        self._usual = width
        self._widths = [width] * len(self.items)
        self.segment.alignment = max(self.segment.alignment, width)

    def write(self) -> None:
        """Store the items. Bytes between and after unmoved items stay, others are zeros."""
        offsets = self._placed()
        before = self._data if offsets == self._offsets else b""
        parts: list[Bytes] = []
        end = 0
        for item, offset in zip(self.items, offsets, strict=True):
            parts += (before[end:offset] or bytes(offset - end), item)
            end = offset + len(item)
        self._group["offsets"] = offsets
        self.segment.data = Pieces((*parts, before[end:]))

    def _placed(self) -> tuple[int, ...]:
        """Return the offset of each item."""
        offsets = []
        end = 0
        for item, width in zip(self.items, self._widths, strict=True):
            offsets.append(align_up(end, width))
            end = offsets[-1] + len(item)
        return tuple(offsets)


def _items(data: memoryview, offsets: Sequence[int], sizes: Mapping[int, int]) -> list[Item]:
    """Return the items; one that no tensor refers to ends where the next begins."""
    starts = sorted({*offsets, len(data)})
    ends = dict(pairwise(starts))
    items: list[Item] = [b""]
    for number, offset in enumerate(offsets[1:], 1):
        size = sizes.get(number, ends.get(offset, offset) - offset)
        items.append(part_of(data, offset, size, RECORD))
    return items
