"""A data file (.ptd): tensors and other bytes by key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from tsarchive.errors import FormatError, LimitError, MissingRecordError

from .flatbuffer import Buffer, EncodedFile, Table, check_all
from .header import Header, read_data_header
from .schema import FLAT_TENSOR, FLAT_TENSOR_06, Schema
from .segments import Entry, Segment, first_by_key, named_data, part_of, segments_of, tensors_of_06

RECORD = "tables"
_FIELDS_07 = 3


class DataFile(EncodedFile):
    """A data file; ``version`` is 0 in every file so far, also those of ExecuTorch 0.6."""

    def __init__(self, data: memoryview) -> None:
        self.header: Header = read_data_header(data)
        self.is_of_06 = self._is_of_06(data)
        super().__init__(data)

    def root(self) -> Table:
        return self._root_of(FLAT_TENSOR_06 if self.is_of_06 else FLAT_TENSOR, self.data)

    @property
    def is_complete(self) -> bool:
        """Whether segments and keys are both there, which the runtime assumes unchecked."""
        return self._root.has("segments") and self._root.has("named_data")

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, all of which lie in the file."""
        return segments_of(self._root, self.header, len(self.data))

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries in file order; the runtime searches them from the first."""
        entries = named_data(self._root)
        return tensors_of_06(self._root) + entries if self.is_of_06 else entries

    @cached_property
    def by_key(self) -> Mapping[str, Entry]:
        """The first entry of each key."""
        return first_by_key((entry.key, entry) for entry in self.entries)

    def entry(self, key: str) -> Entry:
        """Return the first entry of a key. Raises MissingRecordError when there is none."""
        found = self.by_key.get(key)
        if found is None:
            raise MissingRecordError(f"the data file has no {key!r}", record=RECORD)
        return found

    def data_of(self, entry: Entry) -> memoryview:
        """Return the bytes of an entry. Raises FormatError when its segment has too few bytes."""
        if not 0 <= entry.segment < len(self.segments):
            message = f"{entry.key!r} names segment {entry.segment}, which is not there"
            raise FormatError(message, record=RECORD, limit=len(self.segments))
        start, size = self.segments[entry.segment]
        found = self.data[start : start + size]
        if entry.layout is None:
            return found
        return part_of(found, entry.offset, entry.layout.nbytes, f"segments/{entry.segment}")

    def _is_of_06(self, data: memoryview) -> bool:
        """Return whether the file is of 0.6, which has a number in place of the vector of segments.

        Later tables have three fields. Were they extended, a misdetection would require that all of
        them read as tables of 0.6, and that the vector lies at a distance which is a power of two.
        """
        root = self._root_of(FLAT_TENSOR_06, data)
        if not any(root.is_set(place) for place in range(_FIELDS_07, root.places)):
            return False
        try:
            check_all(root)
        except (FormatError, LimitError):
            return False
        alignment: int = root.scalar("tensor_alignment")
        return alignment & (alignment - 1) == 0

    def _root_of(self, schema: Schema, data: memoryview) -> Table:
        return Buffer(data[: self.header.tables_size], schema, RECORD).root()
