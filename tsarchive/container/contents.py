"""The data of a record, inflated by its method and checked against its size and CRC-32.

One byte beyond the declared size shows that there is more. Each decoder yields its output in
pieces, so that only one of them is in memory; the Deflate64 decoder cannot be limited and is fed
small pieces of input instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeAlias

from tsarchive.container import caps
from tsarchive.container.directory import Entry
from tsarchive.container.faults import Faults, Place
from tsarchive.container.layout import BZIP2, DEFLATE64, DEFLATED, LZMA, METHOD_NAMES, STORED

if TYPE_CHECKING:
    from bz2 import BZ2Decompressor
    from lzma import LZMADecompressor

# Maximum bytes of a record that a survey holds in memory at a time.
PIECE_BYTES = 1 << 20
# Decoders copy unconsumed input, so they are fed a little at a time.
_INPUT_BYTES = 1 << 16
_PACK_AGAIN = "Pack the archive again with stored or deflated members"

_Pieces: TypeAlias = Iterator[bytes | memoryview]


class _BadStream(Exception):
    """Bytes that are invalid in the decoder's format."""


class _WrongEnd(Exception):
    """A stream that does not end exactly at the end of the payload."""


def inflated_pieces(
    method: int, payload: memoryview, size: int, at: Place, faults: Faults, most: int = PIECE_BYTES
) -> _Pieces:
    """Decompress ``payload`` into exactly ``size`` bytes, in pieces of at most ``most`` bytes.

    Pieces of stored data are views of the payload; those of Deflate64 may be larger. It is a fault
    if the payload is damaged or holds more or less than ``size`` bytes, or if the method is unknown
    or its Python module is not installed.
    """
    decode = _DECODERS.get(method)
    if decode is None:
        name = METHOD_NAMES.get(method, "unknown")
        problem = f"compression method {method} ({name}) is not supported"
        faults.stop("zip-method", problem, at, hint=_PACK_AGAIN)
    if size >= sys.maxsize:
        problem = "the declared size is larger than any memory"
        faults.stop("zip-impossible-size", problem, at)
    try:
        yield from _sized(decode(payload, size, most), size, at, faults)
    except ImportError as error:
        name = METHOD_NAMES[method]
        problem = f"{name} data needs a module that cannot be imported: {error}"
        hint = "Install zipfile-deflate64" if method == DEFLATE64 else "Use a Python that has it"
        faults.stop("zip-no-decoder", problem, at, hint=hint)
    except _BadStream as error:
        problem = f"the {METHOD_NAMES[method]} data is damaged: {error}"
        faults.stop("zip-damaged-data", problem, at)


def _sized(pieces: _Pieces, size: int, at: Place, faults: Faults) -> _Pieces:
    """Yield the pieces while they stay within ``size``, then check that nothing is missing."""
    total = 0
    complete = True
    try:
        for piece in pieces:
            total += len(piece)
            if total > size:
                problem = f"the record inflates to more than {size} bytes"
                faults.stop("zip-inflates-to-more", problem, at)
            yield piece
    except _WrongEnd:
        complete = False
    if total != size:
        problem = f"the record inflates to fewer than {size} bytes"
        faults.stop("zip-inflates-to-less", problem, at)
    if not complete:
        problem = "the compressed data does not end with the record"
        faults.report("zip-after-data", problem, at)


def _stored(payload: memoryview, size: int, most: int) -> _Pieces:
    for start in range(0, len(payload), most):
        yield payload[start : start + most]


def _deflated(payload: memoryview, size: int, most: int) -> _Pieces:
    import zlib

    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    position = 0
    try:
        while position < len(payload) and not decoder.eof:
            waiting: bytes | memoryview = payload[position : position + max(most, _INPUT_BYTES)]
            position += len(waiting)
            full = True
            while full and not decoder.eof:
                piece = decoder.decompress(waiting, most)
                yield piece
                waiting = decoder.unconsumed_tail
                full = len(piece) == most
    except zlib.error as error:
        raise _BadStream(error) from error
    if not decoder.eof or decoder.unused_data or position < len(payload):
        raise _WrongEnd


# A match of 18 bits, the shortest in Deflate64, expands to 65,538 bytes.
_DEFLATE64_RATIO = 65538 * 8 // 18
# A piece of input this small inflates to less than half a megabyte.
_DEFLATE64_PIECE = 16


def _deflate64(payload: memoryview, size: int, most: int) -> _Pieces:
    from zipfile_deflate64 import deflate64

    decoder = deflate64.Deflate64()
    position = total = 0
    while position < len(payload) and not decoder.eof:
        room = min(most, size - total)
        following = position + _piece_length(len(payload) - position, room)
        try:
            piece = decoder.decompress(payload[position:following])
        except ValueError as error:
            raise _BadStream(error) from error
        yield piece
        total += len(piece)
        position = following
    if not decoder.eof or position < len(payload):
        raise _WrongEnd


def _piece_length(payload_left: int, room: int) -> int:
    """Return how much input to feed the Deflate64 decoder for little more than ``room`` bytes."""
    if payload_left <= _DEFLATE64_PIECE:
        # The decoder does not report how much input it consumed: find the end byte by byte.
        return 1
    piece = max(_DEFLATE64_PIECE, room // _DEFLATE64_RATIO)
    return min(piece, payload_left - _DEFLATE64_PIECE)


def _bzip2(payload: memoryview, size: int, most: int) -> _Pieces:
    import bz2

    decoder = bz2.BZ2Decompressor()
    try:
        fed = yield from _feed(decoder, payload, size + 1, most)
    except (OSError, ValueError) as error:
        raise _BadStream(error) from error
    if not decoder.eof or decoder.unused_data or fed < len(payload):
        raise _WrongEnd


def _lzma(payload: memoryview, size: int, most: int) -> _Pieces:
    import lzma

    try:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[_lzma_filter(payload, size)])
        # The end marker is optional in a zip archive, so the data ends at its declared size.
        fed = yield from _feed(decoder, payload[_LZMA_HEADER:], size, most)
    except (lzma.LZMAError, ValueError) as error:
        raise _BadStream(error) from error
    if decoder.unused_data or (decoder.eof and fed < len(payload) - _LZMA_HEADER):
        raise _WrongEnd


def _feed(
    decoder: BZ2Decompressor | LZMADecompressor, payload: memoryview, size: int, most: int
) -> Generator[bytes, None, int]:
    """Feed a decoder until it has yielded ``size`` bytes; return the amount of payload consumed."""
    position = total = 0
    while position < len(payload) and total < size and not decoder.eof:
        waiting = payload[position : position + max(most, _INPUT_BYTES)]
        position += len(waiting)
        while waiting or (total < size and not decoder.needs_input and not decoder.eof):
            piece = decoder.decompress(waiting, min(most, size - total))
            yield piece
            total += len(piece)
            waiting = payload[:0]
    return position


_LZMA_HEADER = 9


def _lzma_filter(payload: memoryview, size: int) -> dict[str, int]:
    """Parse the header of LZMA data: version (2 bytes), 5 as a u16, packed lc/lp/pb, u32 window."""
    import lzma

    if len(payload) < _LZMA_HEADER or bytes(payload[2:4]) != b"\x05\x00":
        raise _BadStream("it has no LZMA properties")
    rest, lc = divmod(payload[4], 9)
    pb, lp = divmod(rest, 5)
    window = int.from_bytes(payload[5:9], "little")
    # A window larger than the data is never used, but the decoder would allocate all of it.
    window = max(min(window, size), 4096)
    if window > caps.MAX_LZMA_WINDOW:
        raise _BadStream(f"its window of {window} bytes is above {caps.MAX_LZMA_WINDOW}")
    return {"id": lzma.FILTER_LZMA1, "lc": lc, "lp": lp, "pb": pb, "dict_size": window}


_DECODERS: dict[int, Callable[[memoryview, int, int], _Pieces]] = {
    STORED: _stored,
    DEFLATED: _deflated,
    DEFLATE64: _deflate64,
    BZIP2: _bzip2,
    LZMA: _lzma,
}


try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]


def checked_pieces(
    entry: Entry, payload: memoryview, at: Place, faults: Faults, most: int = PIECE_BYTES
) -> Iterator[bytes | memoryview]:
    """Yield the data in pieces of at most ``most`` bytes; ``at`` is where the payload begins.

    Data without a checksum is not verified.
    """
    crc = 0
    for piece in inflated_pieces(entry.method, payload, entry.size, at, faults, most):
        if entry.has_checksum:
            crc = crc32(piece, crc)
        yield piece
    if entry.has_checksum and crc != entry.crc:
        faults.report(
            "zip-crc",
            f"the data does not match its CRC-32: {crc:08x}, not {entry.crc:08x}",
            at,
            hint="The file is damaged: download or copy it again",
        )
