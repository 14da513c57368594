"""What a container that is refused holds, header by header; and data that is damaged."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tsarchive.findings import Nature, Severity
from tsarchive.scanning.collecting import Collected
from tsarchive.scanning.pickles import Surroundings

LOCAL_HEADER: Final = b"PK\x03\x04"
DEFLATED: Final = 8
_HEADER_BYTES: Final = 30
_PIECE: Final = 1 << 16
# Of one record, and of all of them: a bomb is not inflated to its end.
_LONGEST: Final = 1 << 25
_LONGEST_TOTAL: Final = 1 << 27
_MOST_HEADERS: Final = 65_536


def salvage(data: bytes, found: Collected) -> None:
    """Look at the file as it is, where records in it begin, and at what it holds deflated."""
    headers = [_Header.at(data, offset) for offset in _offsets(data)]
    starts = [header.data for header in headers if header.method != DEFLATED]
    found.look_at(data, None, Surroundings(), starts=starts)
    room = _LONGEST_TOTAL
    for header in headers:
        content = inflated(memoryview(data)[header.data :]) if header.method == DEFLATED else b""
        if content:
            found.look_at(content, None, Surroundings())
        room -= len(content)
        if room <= 0:
            break
    if room <= 0 or len(headers) == _MOST_HEADERS:
        message = "there is too much in the container to look at all of it"
        found.find("record-unread", Severity.WARNING, Nature.HOSTILE, message)


@dataclass(frozen=True, slots=True)
class _Header:
    """What a local header says of how its record is stored, and where its data begin."""

    method: int
    data: int

    @classmethod
    def at(cls, data: bytes, offset: int) -> _Header:
        method, name, extra = (
            int.from_bytes(data[offset + at : offset + at + 2], "little") for at in (8, 26, 28)
        )
        return cls(method, offset + _HEADER_BYTES + name + extra)


def _offsets(data: bytes) -> Iterator[int]:
    """Where local headers stand, up to a number of them."""
    position = data.find(LOCAL_HEADER)
    for _ in range(_MOST_HEADERS):
        if position < 0:
            return
        yield position
        position = data.find(LOCAL_HEADER, position + 1)


def inflated(stored: memoryview | bytes) -> bytes:
    """What deflated data holds, up to a limit and as far as it is sound."""
    content, inflater = bytearray(), zlib.decompressobj(-zlib.MAX_WBITS)
    for start in range(0, len(stored), _PIECE):
        try:
            content += inflater.decompress(stored[start : start + _PIECE], _LONGEST)
        except zlib.error:
            break
        if inflater.eof or len(content) >= _LONGEST:
            break
    return bytes(content)
