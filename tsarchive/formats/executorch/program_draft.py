"""A program under edit."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from tsarchive.errors import CallError, MissingRecordError, UnsupportedError

from .alignment import CONSTANT_ALIGNMENT, align_up
from .header import program_header
from .pieces import Pieces
from .pools import InlinePool, Pool, SegmentPool
from .program import RECORD, Program
from .program_tensors import (
    StoredTensor,
    clear_name,
    make_internal,
    set_name,
    stored_tensors,
    tensors_of,
)
from .segment_users import renumber_segments, segment_users
from .segmented_draft import open_draft
from .table_values import Values, set_scalar
from .tensor_bytes import bytes_for

# The length field of a header from before ExecuTorch 1.0.
_OLD_HEADER: Final = struct.pack("<I", 24)
# Initial values of buffers are packed: they are copied when a method is loaded.
_MUTABLE_ALIGNMENT: Final = 1


class ProgramDraft:
    """Tensors by name, and their bytes: constants, and initial values of buffers."""

    def __init__(self, found: Program) -> None:
        data, segments = found.data, found.segments
        self.file = open_draft(data, found.root(), found.header, segments, program_header)
        self.root: Values = self.file.values
        self.is_edited = False
        self._pools: dict[bool, Pool] = {}
        self._tensors: dict[str, StoredTensor] | None = None

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """All tensors with initial bytes, wherever these are."""
        if self._tensors is None:
            self._tensors = stored_tensors(self.root)
        return self._tensors

    def forget_tensors(self) -> None:
        """Discard the collected tensors, because their tables were changed."""
        self._tensors = None

    def tensor(self, name: str) -> StoredTensor:
        """Return a tensor. Raises MissingRecordError when there is none of this name."""
        found = self.tensors.get(name)
        if found is None:
            message = f"the program has no tensor {name!r}"
            hint = "'tsarchive tensors' lists those that begin with bytes"
            raise MissingRecordError(message, record=RECORD, hint=hint)
        return found

    def replace(self, name: str, data: Any) -> None:
        """Replace the bytes of a tensor; others that share the old ones keep them."""
        stored = self.tensor(name)
        if stored.is_external:
            hint = "Replace them there"
            raise UnsupportedError(f"the bytes of {name!r} are in a data file", hint=hint)
        new = bytes_for(name, stored.layout, data)
        pool = self.pool(stored.is_mutable)
        pool.require(stored.number)
        if self._users(stored) == len(stored.tables):
            pool.items[stored.number] = new
            return
        number = pool.add(new)
        for table in stored.tables:
            make_internal(table, number)
        self._put(name, replace(stored, number=number))

    def rename(self, old: str, new: str) -> None:
        """Rename a tensor.

        Raises MissingRecordError when there is no such tensor, CallError when the name is taken.
        """
        stored = self.tensor(old)
        if new in self.tensors:
            raise CallError(f"the program has a tensor {new!r} already")
        for one in self._with_key(stored):
            for table in one.tables:
                set_name(table, new)
        self._put(old, replace(stored, name=new))

    def _with_key(self, stored: StoredTensor) -> list[StoredTensor]:
        """Return a tensor and, if its bytes are in a data file, the others that share its key."""
        if not stored.is_external:
            return [stored]
        key = stored.key
        return [one for one in self.tensors.values() if one.is_external and one.key == key]

    def strip_stack_traces(self) -> bool:
        """Remove the lines of user source. Returns whether there were any."""
        chains = [chain for plan in self.root.get("execution_plan", ())
                  for chain in plan.get("chains", ())]  # fmt: skip
        return any([chain.pop("stacktrace", None) is not None for chain in chains])

    def strip_names(self) -> bool:
        """Remove names, except those that refer to data files. Returns whether there were any."""
        self.forget_tensors()
        return any([clear_name(table) for _, table in tensors_of(self.root)])

    def align(self, segments: int | None, constants: int | None) -> None:
        """Align segments, or constants within theirs, to multiples of these."""
        pool = None if constants is None or not self._sizes(False) else self.pool(False)
        if segments is not None:
            self.file.align_segments(segments)
        if pool is not None and constants is not None:
            pool.align(constants)
            self._align_base(constants)

    def upgrade(self) -> bool:
        """Move inline constants into a segment, and write the current header.

        Returns whether the file had an older layout.
        """
        is_old = self._extract_constants()
        if self.file.inserted[4:8] == _OLD_HEADER:
            width = len(self.file.inserted)
            self.file.inserted = program_header(b"", 0, 0, 0).ljust(width, b"\0")
            is_old = True
        return is_old

    def assemble(self) -> Pieces:
        """Return the whole file."""
        for pool in self._pools.values():
            pool.write()
        return self.file.assemble()

    def pool(self, is_mutable: bool) -> Pool:
        """Return the pool of constants, or that of the initial values of buffers."""
        found = self._pools.get(is_mutable)
        if found is None:
            made = self._mutable_pool() if is_mutable else self._constant_pool()
            found = self._pools[is_mutable] = made
        return found

    def drop(self, is_mutable: bool, numbers: Collection[int]) -> None:
        """Remove bytes that no tensor refers to any more, renumbering the others."""
        pool, all_ = self.pool(is_mutable), self.tensors.values()
        stored = [one for one in all_ if one.is_mutable == is_mutable and one.number]
        renumbered = pool.drop({*numbers} - {one.number for one in stored})
        for one in stored:
            for table in one.tables:
                make_internal(table, renumbered.get(one.number, one.number))
        self.forget_tensors()
        if is_mutable and len(pool.items) == 1:
            self._drop_mutable()

    def drop_segment(self, number: int) -> None:
        """Remove a segment that no table refers to any more."""
        self.file.drop_segment(number)
        renumber_segments(self.root, number)

    @property
    def _has_inline_constants(self) -> bool:
        in_segment = self.root.get("constant_segment", {}).get("offsets")
        return not in_segment and bool(self.root.get("constant_buffer"))

    def _put(self, name: str, one: StoredTensor) -> None:
        """Put a tensor in place of the one of this name."""
        pairs = (
            (one.name, one) if key == name else (key, old) for key, old in self.tensors.items()
        )
        self._tensors = dict(pairs)

    def _users(self, stored: StoredTensor) -> int:
        """Return the number of tensors that have these bytes."""
        place = stored.number, stored.is_mutable
        all_ = self.tensors.values()
        return sum(len(one.tables) for one in all_ if (one.number, one.is_mutable) == place)

    def _sizes(self, is_mutable: bool) -> dict[int, int]:
        found: dict[int, int] = {}
        for one in self.tensors.values():
            if one.is_mutable == is_mutable and one.number:
                found[one.number] = max(found.get(one.number, 0), one.layout.nbytes)
        return found

    def _constant_pool(self) -> Pool:
        if self._has_inline_constants:
            return InlinePool(self.root["constant_buffer"], self.file.encoding.alignments)
        group = self.root.setdefault("constant_segment", {})
        return self._segment_pool(group, False, CONSTANT_ALIGNMENT)

    def _mutable_pool(self) -> Pool:
        groups = self.root.setdefault("mutable_data_segments", [])
        if not groups:
            groups.append({})
        return self._segment_pool(groups[0], True, _MUTABLE_ALIGNMENT)

    def _segment_pool(self, group: Values, is_mutable: bool, usual: int) -> SegmentPool:
        """Return the pool of a table of offsets, adding a segment if it has none."""
        number = group.get("segment_index", 0)
        others = [table for table, field in segment_users(self.root)
                  if table is not group and table.get(field, 0) == number]  # fmt: skip
        if not group.get("offsets") or others:
            data = self.file.segment(number).data if group.get("offsets") else b""
            group["offsets"] = group.get("offsets") or (0,)
            number = self.file.add_segment(data)
            set_scalar(group, "segment_index", number)
        return SegmentPool(group, self.file.segment(number), self._sizes(is_mutable), usual)

    def _extract_constants(self) -> bool:
        if not self._has_inline_constants:
            return False
        items = self.pool(False).items
        self.root["constant_buffer"] = []
        del self._pools[False]
        pool = self.pool(False)
        for item in items[1:]:
            pool.add(item)
        return True

    def _drop_mutable(self) -> None:
        del self._pools[True]
        (group,) = self.root.pop("mutable_data_segments")
        self.drop_segment(group.get("segment_index", 0))

    def _align_base(self, width: int) -> None:
        """Raise the alignment of the segment base, so that alignments hold in the whole file."""
        file = self.file
        if file.inserted:
            file.inserted = file.inserted.ljust(align_up(len(file.inserted), width), b"\0")
        file.base_alignment = max(file.base_alignment, width) if file.base_alignment else 0
