"""Checks of the constants that XNNPACK subgraphs refer to.

The backend does not check whether it was given any: without them it crashes the process.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from tsarchive.errors import FormatError
from tsarchive.formats.executorch.flatbuffer import Buffer
from tsarchive.formats.executorch.program import Program
from tsarchive.formats.executorch.schema import Field, Schema

from .data import Data

_BACKEND: Final = "XnnpackBackend"
_MAGIC: Final = b"XH00"
_MAGIC_AT: Final = slice(4, 8)
# The offset and size of the tables in the subgraph, from its own header.
_TABLES: Final = struct.Struct("<10xII")

# The part of the backend's ``schema.fbs`` that is read: nodes and values are the backend's
# business.
XNN_GRAPH: Final = Schema(
    identifier=b"XN01",
    root="XNNGraph",
    tables={
        "XNNGraph": (
            Field("version", "text"),
            Field("xnodes", "[Unread]"),
            Field("xvalues", "[Unread]"),
            Field("num_externs", "u32"),
            Field("input_ids", "[u32]"),
            Field("output_ids", "[u32]"),
            Field("constant_buffer", "[Unread]"),
            Field("mem_buffer_sizes", "[u32]"),
            Field("constant_data", "[ConstantData]"),
        ),
        "ConstantData": (Field("offset", "u64"), Field("size", "u64"), Field("named_key", "text")),
        "Unread": (),
    },
    unions={},
)


def check_constants(program: Program, data: Data) -> None:
    """Raise MissingRecordError for a constant that neither program nor data files have.

    Raises FormatError for one that has fewer bytes there than it takes.
    """
    inside = {named.key: named.segment for named in reversed(program.named_data)}
    for key, size in _wanted(program).items():
        found = program.segment(inside[key]) if key in inside else data.bytes_by_name(key)
        if len(found) < size:
            raise FormatError(
                f"the constant {key!r} takes {size:,} bytes, and {len(found):,} are there",
                record=f"named_data/{key}",
            )


def _wanted(program: Program) -> Mapping[str, int]:
    """Return the size in bytes of each constant that a subgraph refers to."""
    return {
        key: size
        for index in program.indices.values()
        for delegate in program.methods[index].delegates
        if delegate.backend == _BACKEND
        for key, size in _named(program.delegate_data(delegate))
    }


def _named(part: memoryview) -> Iterator[tuple[str, int]]:
    """Yield names and sizes; none for earlier layouts, which contain all of their constants."""
    if bytes(part[_MAGIC_AT]) != _MAGIC or len(part) < _TABLES.size:
        return
    start, size = _TABLES.unpack_from(part)
    tables = part[start : start + size]
    if bytes(tables[_MAGIC_AT]) == XNN_GRAPH.identifier:
        for constant in Buffer(tables, XNN_GRAPH).root().tables("constant_data") or ():
            key = constant.text("named_key")
            if key:
                yield key, constant.scalar("size")
