"""Decompression of a record's data, by method, into no more than its declared size.

A byte beyond the size shows that there is more. The decoder for Deflate64 cannot be limited and
is fed in small pieces instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tsarchive.container.layout import BZIP2, DEFLATE64, DEFLATED, LZMA, METHOD_NAMES, STORED
from tsarchive.errors import FormatError, UnsupportedError

__all__ = ["inflate"]

# Data, and whether the stream ended exactly at the end of the payload.
_Result = tuple[bytes, bool]


class _BadStream(Exception):
    """The decoder met bytes that are not of its format."""


def inflate(method: int, payload: memoryview, size: int, record: str) -> bytes:
    """Decompress ``payload`` into exactly ``size`` bytes.

    Raises FormatError when the payload is damaged or holds more or less than ``size`` bytes,
    UnsupportedError when the method, or the Python module for it, is not there.
    """
    decode = _DECODERS.get(method)
    if decode is None:
        raise _unknown_method(method, record)
    if size >= sys.maxsize:
        raise FormatError("the declared size is larger than any memory", record=record)
    try:
        data, complete = decode(payload, size)
    except ImportError as error:
        raise _missing_module(method, record, error) from error
    except _BadStream as error:
        raise FormatError(
            f"the {METHOD_NAMES[method]} data is damaged: {error}", record=record
        ) from error
    if len(data) != size:
        amount = "more" if len(data) > size else "fewer"
        raise FormatError(f"the record inflates to {amount} than {size} bytes", record=record)
    if not complete:
        raise FormatError("the compressed data does not end with the record", record=record)
    return data


def _stored(payload: memoryview, size: int) -> _Result:
    return bytes(payload), True


def _deflated(payload: memoryview, size: int) -> _Result:
    import zlib

    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = decoder.decompress(payload, size + 1)
    except zlib.error as error:
        raise _BadStream(error) from error
    return data, decoder.eof and not decoder.unused_data


# 65,538 bytes from a match of 18 bits, the shortest that Deflate64 has.
_DEFLATE64_RATIO = 65538 * 8 // 18
# A piece of input this small inflates to less than half a megabyte.
_DEFLATE64_PIECE = 16


def _deflate64(payload: memoryview, size: int) -> _Result:
    from zipfile_deflate64 import deflate64

    decoder = deflate64.Deflate64()
    pieces: list[bytes] = []
    position = total = 0
    while position < len(payload) and total <= size and not decoder.eof:
        following = position + _piece_length(len(payload) - position, size - total)
        try:
            pieces.append(decoder.decompress(payload[position:following]))
        except ValueError as error:
            raise _BadStream(error) from error
        total += len(pieces[-1])
        position = following
    return b"".join(pieces), decoder.eof and position == len(payload)


def _piece_length(payload_left: int, size_left: int) -> int:
    """How many bytes the Deflate64 decoder may get at once."""
    if payload_left <= _DEFLATE64_PIECE:
        # The decoder does not tell how much of its input it used: find the end byte by byte.
        return 1
    piece = max(_DEFLATE64_PIECE, size_left // _DEFLATE64_RATIO)
    return min(piece, payload_left - _DEFLATE64_PIECE)


def _bzip2(payload: memoryview, size: int) -> _Result:
    import bz2

    decoder = bz2.BZ2Decompressor()
    try:
        data = decoder.decompress(payload, size + 1)
    except (OSError, ValueError) as error:
        raise _BadStream(error) from error
    return data, decoder.eof and not decoder.unused_data


def _lzma(payload: memoryview, size: int) -> _Result:
    import lzma

    try:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[_lzma_filter(payload, size)])
        # The end marker is optional in a zip archive, so the data ends where its size says.
        return decoder.decompress(payload[9:], size), not decoder.unused_data
    except (lzma.LZMAError, ValueError) as error:
        raise _BadStream(error) from error


def _lzma_filter(payload: memoryview, size: int) -> dict[str, int]:
    """Read the header of LZMA data: version (2 bytes), 5 as a u16, packed lc/lp/pb, u32 window."""
    import lzma

    if len(payload) < 9 or bytes(payload[2:4]) != b"\x05\x00":
        raise _BadStream("it has no LZMA properties")
    rest, lc = divmod(payload[4], 9)
    pb, lp = divmod(rest, 5)
    window = int.from_bytes(payload[5:9], "little")
    # A window larger than the data is never used, and the decoder would allocate all of it.
    window = max(min(window, size), 4096)
    return {"id": lzma.FILTER_LZMA1, "lc": lc, "lp": lp, "pb": pb, "dict_size": window}


_DECODERS: dict[int, Callable[[memoryview, int], _Result]] = {
    STORED: _stored,
    DEFLATED: _deflated,
    DEFLATE64: _deflate64,
    BZIP2: _bzip2,
    LZMA: _lzma,
}


def _unknown_method(method: int, record: str) -> UnsupportedError:
    name = METHOD_NAMES.get(method, "unknown")
    return UnsupportedError(
        f"compression method {method} ({name}) is not supported",
        record=record,
        hint="Pack the archive again with stored or deflated members",
    )


def _missing_module(method: int, record: str, error: ImportError) -> UnsupportedError:
    return UnsupportedError(
        f"{METHOD_NAMES[method]} data needs a module that cannot be imported: {error}",
        record=record,
        hint="Install zipfile-deflate64" if method == DEFLATE64 else "Use a Python that has it",
    )
