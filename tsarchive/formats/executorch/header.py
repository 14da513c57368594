"""The extended headers after the first eight bytes, which locate the tables and segments."""

from __future__ import annotations

import struct
from mmap import mmap
from typing import TYPE_CHECKING, Final, NamedTuple

from tsarchive.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from tsarchive.container.source import Source

# The kinds of files: programs, data, programs with calls.
PTE: Final = "pte"
PTD: Final = "ptd"
BPTE: Final = "bpte"
_KINDS: Final = {b"ET": PTE, b"FT": PTD, b"BP": BPTE}
_IDENTIFIER: Final = slice(4, 8)
TO_LOOK_AT: Final = "'tsarchive info', 'code', 'tensors', 'tree' and 'verify' show what it holds"
PROGRAM_MAGIC: Final = b"eh00"
DATA_MAGIC: Final = b"FH01"
_DATA_FAMILY: Final = b"FH"
_FAMILY: Final = b"eh"
AT: Final = 8
# The runtime reads this many bytes before it looks at anything.
HEAD_BYTES: Final = 64
_SHORTEST: Final = 24
_WITH_DATA_SIZE: Final = 32
_DATA_HEADER_BYTES: Final = 40
_INCOMPLETE: Final = "The file may be cut short: download or copy it again"


class Header(NamedTuple):
    """An extended header.

    ``length`` is that of the header itself; ``tables_size`` counts from the start of the file to
    the end of the tables, header included; ``segment_base`` is what offsets of segments are
    relative to, 0 for none. ``segments_size`` is None where the header does not store it.
    """

    length: int
    tables_size: int
    segment_base: int
    segments_size: int | None

    @property
    def told_size(self) -> int:
        """The size of the file, or the least that it may be where segments are not told."""
        return max(self.tables_size, self.segment_base + (self.segments_size or 0))


def kind_of(data: bytes | bytearray | memoryview | mmap) -> str | None:
    """Return the kind of a file of ExecuTorch of any version by its first bytes, if it is one."""
    identifier = bytes(memoryview(data)[_IDENTIFIER])
    is_known = len(identifier) == 4 and identifier[2:].isdigit()
    return _KINDS.get(identifier[:2]) if is_known else None


def no_zip(kind: str) -> UnsupportedError:
    """Return the error for a question that zip archives alone answer."""
    return UnsupportedError(
        f"a {kind} file is no zip archive: it has no models by name and no TorchScript",
        hint=TO_LOOK_AT,
    )


def read_program_header(source: Source) -> Header | None:
    """Return the header of a program; None where it has none and so no segments with bytes.

    Raises FormatError for one that contradicts the file, UnsupportedError for an unknown version:
    ExecuTorch would ignore the header, and take the first bytes of the file for weights.
    """
    found = _program_header(source.piece(0, HEAD_BYTES))
    return None if found is None else _check_bounds(found, source.size)


def _program_header(data: memoryview) -> Header | None:
    _require(data, HEAD_BYTES)
    magic = bytes(data[AT : AT + 4])
    if magic[:2] != _FAMILY:
        return None
    if magic != PROGRAM_MAGIC:
        raise UnsupportedError(
            f"the extended header is {magic!r}, not {PROGRAM_MAGIC!r}", offset=AT,
            hint="Never run this file: readers disagree about where its weights are",
        )  # fmt: skip
    (length,) = struct.unpack_from("<I", data, AT + 4)
    if length < _SHORTEST:
        raise _error(f"the extended header has {length} bytes", AT + 4, _SHORTEST)
    size, base = struct.unpack_from("<QQ", data, AT + 8)
    segments = struct.unpack_from("<Q", data, AT + 24)[0] if length >= _WITH_DATA_SIZE else None
    if AT + length > size:
        raise _error(f"the extended header of {length} bytes is longer than the program", AT + 4)
    return Header(length, size, base, segments)


def read_data_header(source: Source) -> Header:
    """Return the header of a data file, which is mandatory.

    Raises FormatError if it is malformed.
    """
    return _check_bounds(_data_header(source.piece(0, HEAD_BYTES)), source.size)


def _data_header(data: memoryview) -> Header:
    _require(data, AT + _DATA_HEADER_BYTES)
    magic = bytes(data[AT : AT + 4])
    if magic != DATA_MAGIC:
        if magic[:2] == _DATA_FAMILY:
            raise UnsupportedError(f"the header is {magic!r}, not {DATA_MAGIC!r}", offset=AT)
        raise _error(f"the header is {magic!r}, not {DATA_MAGIC!r}", AT)
    length, tables, size, base, segments = struct.unpack_from("<IQQQQ", data, AT + 4)
    if length < _DATA_HEADER_BYTES:
        raise _error(f"the header has {length} bytes", AT + 4, _DATA_HEADER_BYTES)
    if AT + length > tables:
        raise _error(f"the tables begin at {tables}, inside of the header", AT + 8)
    return Header(length, tables + size, base, segments)


def program_header(old: bytes, tables_size: int, base: int, size: int) -> bytes:
    """Make a header with these sizes, other fields being those of ``old``; current if empty."""
    made = bytearray(old or PROGRAM_MAGIC + struct.pack("<I24x", _WITH_DATA_SIZE))
    struct.pack_into("<QQ", made, 8, tables_size, base)
    if struct.unpack_from("<I", made, 4)[0] >= _WITH_DATA_SIZE:
        struct.pack_into("<Q", made, 24, size)
    return bytes(made)


def data_header(old: bytes, tables_size: int, base: int, size: int) -> bytes:
    """Make the header of a data file; in a new one the tables begin after 48 bytes."""
    made = bytearray(old or DATA_MAGIC + struct.pack("<IQ32x", _DATA_HEADER_BYTES, 48))
    (start,) = struct.unpack_from("<Q", made, 8)
    struct.pack_into("<QQQ", made, 16, tables_size - start, base, size)
    return bytes(made)


def _check_bounds(header: Header, size: int) -> Header:
    """Check that the tables, and the segments behind them, lie in the file."""
    segments_end = header.segment_base + (header.segments_size or 0)
    if header.tables_size > size:
        raise _cut_short(header, size, f"the tables would end at {header.tables_size:,}", AT + 8)
    if header.segment_base and header.segment_base < header.tables_size:
        raise _error(f"segments would begin at {header.segment_base}, in the tables", AT + 16)
    if segments_end > size:
        raise _cut_short(header, size, f"segments would end at {segments_end:,}", AT + 16)
    return header


def told_size(head: memoryview, kind: str) -> int:
    """Return the size that a file had when it was whole, 0 where no header tells.

    ``head`` are its first HEAD_BYTES bytes.

    Raises FormatError for a malformed header.
    """
    if kind == BPTE:
        return 0
    found = _data_header(head) if kind == PTD else _program_header(head)
    return 0 if found is None else found.told_size


def _require(data: memoryview, size: int) -> None:
    if len(data) < size:
        from tsarchive.container.extent import Extent

        extent = Extent(len(data), size, is_exact=False)
        problem = f"the file has {len(data)} bytes, too few for its head; {extent.message}"
        raise _error(problem, len(data), size)


def _cut_short(header: Header, size: int, message: str, offset: int) -> FormatError:
    """Return the error that a file of this size ends before what its header tells."""
    from tsarchive.container.extent import RESCUE, Extent  # sound files need it not

    segments = header.segments_size
    extent = Extent(size, header.told_size, segments is not None or not header.segment_base)
    text = f"{message}; {extent.message}"
    return FormatError(text, offset=offset, limit=size, hint=RESCUE)


def _error(message: str, offset: int, limit: int | None = None) -> FormatError:
    return FormatError(message, offset=offset, limit=limit, hint=_INCOMPLETE)
