"""The encoding of the tables of a file, found such that writing them anew gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from .encoding import Order, encode
from .flatbuffer import Table
from .header import AT, Header
from .table_values import Values

# Alignments that writers may use for blobs in the tables of a program, the usual first.
_ALIGNMENTS: Final = tuple(1 << power for power in range(4, 13))
_BLOBS: Final = {
    "constant_buffer": ("Buffer", "storage"),
    "backend_delegate_data": ("BackendDelegateInlineData", "data"),
}


@dataclass(frozen=True, slots=True)
class TableEncoding:
    """The encoding of a file's tables, which end at ``size``, possibly before the buffer ends.

    ``inserted`` bytes stand between head and body. Both are None when no known order gives the
    tables of the file, which are then written in the current one.
    """

    order: Order = Order.PYTHON
    alignments: dict[tuple[str, str], int] = field(default_factory=dict)
    inserted: int | None = None
    size: int | None = None


def detect_encoding(root: Table, values: Values, header: Header | None) -> TableEncoding:
    """Return the first order that gives the tables of a file; ``values`` are their contents.

    The offset of the root tells how much is inserted before them: at least the header, nothing in a
    file without one.
    """
    for alignments, order in product(_alignments(root), Order):
        made = encode(root.buffer.schema, values, order, alignments)
        inserted = root.position - made.root
        is_possible = inserted == 0 if header is None else inserted >= header.length
        if is_possible and made.body.is_at(root.buffer.data, AT + inserted):
            return TableEncoding(order, alignments, inserted, AT + inserted + len(made.body))
    return TableEncoding()


def _alignments(root: Table) -> Iterator[dict[tuple[str, str], int]]:
    """Yield the alignments that the writer may have used, judging by the positions of blobs."""
    known = [name for name in _BLOBS if name in root.buffer.schema.slots[root.name]]
    starts = {name: _blob_starts(root, name) for name in known}
    present = [_BLOBS[name] for name in known if starts[name]]
    for chosen in product(*(_possible_alignments(found) for found in starts.values() if found)):
        yield dict(zip(present, chosen, strict=True))


def _blob_starts(root: Table, field: str) -> list[int]:
    """Return where blobs begin; empty ones, not always aligned, only if there are no others."""
    blob = _BLOBS[field][1]
    tables = [table for table in root.tables(field) or () if table.has(blob)]
    full = [table for table in tables if table.data(blob)]
    return [table.data_start(blob) for table in full or tables]


def _possible_alignments(starts: list[int]) -> list[int]:
    """Return the usual alignment, and larger ones at whose multiples all blobs begin."""
    usual, *larger = _ALIGNMENTS
    return [usual, *(width for width in larger if not any(start % width for start in starts))]
