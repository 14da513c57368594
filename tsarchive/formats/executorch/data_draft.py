"""A data file under edit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tsarchive.errors import CallError, MissingRecordError, UnsupportedError

from .alignment import SEGMENT_ALIGNMENT
from .data_file import RECORD, DataFile
from .encoding import Order
from .encoding_detection import TableEncoding
from .header import data_header
from .pieces import Bytes, Pieces
from .program_tensors import layout_of
from .schema_flat_tensor import FLAT_TENSOR
from .segmented_draft import SegmentedDraft, open_draft
from .table_values import Values, set_scalar
from .tensor_bytes import bytes_for, raw_bytes
from .values import Layout

# Headers of 40 bytes, rounded up to the alignment of tables.
_TABLES_AT: Final = 48
_UPGRADE: Final = "Call upgrade() first, which writes it in the layout of today"


class DataDraft:
    """Entries by key, in segments that several entries may share."""

    def __init__(self, found: DataFile | None = None) -> None:
        self.is_of_06 = found is not None and found.is_of_06
        self.file = _new_file() if found is None else _opened(found)
        self.is_edited = found is None
        self._found = found
        self._added: dict[object, int] = {}

    @property
    def layouts(self) -> Mapping[str, Layout | None]:
        """The layout of each key, None for bytes that are not a tensor."""
        return {key: self._layout(table) for key, table in self._entries().items()}

    def replace(self, key: str, data: Any) -> None:
        """Replace the bytes of a key; keys that share the old ones keep them."""
        table = self._entry(key)
        self._require_today()
        segment = self.file.segment(table.get("segment_index", 0))
        layout = self._layout(table)
        if layout is None:
            new: Bytes = raw_bytes(key, len(segment.data), data)
        else:
            new = bytes_for(key, layout, data)
        if self._is_shared(table):
            set_scalar(table, "segment_index", self.file.add_segment(new, segment.alignment))
        else:
            segment.data = new

    def rename(self, old: str, new: str) -> None:
        """Rename a key.

        Raises MissingRecordError when there is no such key, CallError when the new one is taken.
        """
        table = self._entry(old)
        if new in self._entries():
            raise CallError(f"the data file has {new!r} already")
        table["fully_qualified_name" if "key" not in table else "key"] = new

    def is_new(self, key: str, layout: Layout | None, data: Bytes) -> bool:
        """Return whether there is no entry of this key.

        Raises CallError when there is a different one, UnsupportedError for a file of ExecuTorch
        0.6.
        """
        self._require_today()
        known = self._entries().get(key)
        if known is None:
            return True
        old = self.file.segment(known.get("segment_index", 0)).data
        if self._layout(known) != layout or old != data:
            hint = "Rename it in one of them"
            raise CallError(f"both files have {key!r}, and not the same", hint=hint)
        return False

    def add(
        self, key: str, layout: Layout | None, data: Bytes, source: object,
        alignment: int = SEGMENT_ALIGNMENT,
    ) -> None:  # fmt: skip
        """Add an entry that ``is_new``; entries with the same ``source`` share a segment."""
        number = self._added.get(source)
        if number is None:
            number = self._added[source] = self.file.add_segment(data, alignment)
        self.file.values.setdefault("named_data", []).append(_entry(key, number, layout))

    def merge(self, other: DataFile) -> None:
        """Add all entries of another file.

        Raises CallError for a key that differs between the two.
        """
        found = [(entry, other.data_of(entry)) for entry in other.by_key.values()]
        new = [(one, data) for one, data in found if self.is_new(one.key, one.layout, data)]
        for one, data in new:
            self.add(one.key, one.layout, data, (other, one.segment, one.offset, len(data)))

    def upgrade(self) -> bool:
        """Convert a file of ExecuTorch 0.6 to the current layout. Returns whether it was one."""
        if not self.is_of_06:
            return False
        assert self._found is not None
        self.file = _new_file()
        self.is_of_06 = False
        self.merge(self._found)
        return True

    def align(self, width: int) -> None:
        """Align all entries to multiples of ``width``."""
        self.file.align_segments(width)

    def assemble(self) -> Pieces:
        """Return the whole file."""
        return self.file.assemble()

    def _entries(self) -> dict[str, Values]:
        """Return the first table of each key."""
        found: dict[str, Values] = {}
        for key, table in _keyed(self.file.values):
            found.setdefault(key, table)
        return found

    def _entry(self, key: str) -> Values:
        found = self._entries().get(key)
        if found is None:
            raise MissingRecordError(f"the data file has no {key!r}", record=RECORD)
        return found

    def _layout(self, table: Values) -> Layout | None:
        described = table if "fully_qualified_name" in table else table.get("tensor_layout")
        return None if described is None else layout_of(described)

    def _is_shared(self, table: Values) -> bool:
        number = table.get("segment_index", 0)
        users = [each.get("segment_index", 0) for _, each in _keyed(self.file.values)]
        return users.count(number) > 1

    def _require_today(self) -> None:
        if self.is_of_06:
            raise UnsupportedError("the data file is of ExecuTorch 0.6", hint=_UPGRADE)


def _new_file() -> SegmentedDraft:
    values: Values = {"segments": [], "named_data": []}
    made = SegmentedDraft(FLAT_TENSOR, data_header, values, TableEncoding(Order.FLATC))
    made.inserted = data_header(b"", _TABLES_AT, 0, 0).ljust(_TABLES_AT, b"\0")
    return made


def _opened(found: DataFile) -> SegmentedDraft:
    made = open_draft(found.data, found.root(), found.header, found.segments, data_header)
    made.keeps_header = True
    return made


def _keyed(root: Values) -> Iterator[tuple[str, Values]]:
    """Yield all entries, in files of 0.6 tensors before others."""
    for table in root.get("tensors", ()):
        yield table.get("fully_qualified_name", ""), table
    for table in root.get("named_data", ()):
        yield table.get("key", ""), table


def _entry(key: str, number: int, layout: Layout | None) -> Values:
    table: Values = {"key": key}
    set_scalar(table, "segment_index", number)
    if layout is not None:
        made: Values = {"sizes": layout.sizes, "dim_order": bytes(layout.dim_order)}
        set_scalar(made, "scalar_type", layout.scalar_type)
        table["tensor_layout"] = made
    return table
