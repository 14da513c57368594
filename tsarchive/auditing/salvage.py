"""What a container that is refused holds, header by header; and data that is damaged."""

from __future__ import annotations

import zlib
from typing import Final

from tsarchive.auditing.collecting import Collected
from tsarchive.auditing.pickles import Surroundings
from tsarchive.findings import Nature, Severity

__all__ = ["DEFLATED", "LOCAL_HEADER", "inflated", "salvage"]

LOCAL_HEADER: Final = b"PK\x03\x04"
DEFLATED: Final = 8
_HEADER_BYTES: Final = 30
_PIECE: Final = 1 << 16
# Of one record, and of all of them: a bomb is not inflated to its end.
_LONGEST: Final = 1 << 25
_LONGEST_TOTAL: Final = 1 << 27
_MOST_HEADERS: Final = 65_536


def salvage(data: bytes, found: Collected) -> None:
    """Look at the file as it is, and at what it holds deflated."""
    found.look_at(data, None, Surroundings())
    room, headers = _LONGEST_TOTAL, _MOST_HEADERS
    position = data.find(LOCAL_HEADER)
    while position >= 0:
        if room <= 0 or headers <= 0:
            message = "there is too much in the container to look at all of it"
            found.find("record-unread", Severity.WARNING, Nature.HOSTILE, message)
            return
        content = _content(memoryview(data)[position:])
        if content:
            found.look_at(content, None, Surroundings())
        room, headers = room - len(content), headers - 1
        position = data.find(LOCAL_HEADER, position + 1)


def _content(record: memoryview) -> bytes:
    """The data behind a local header that says it is deflated; stored data needs no care."""
    header = bytes(record[:_HEADER_BYTES])
    method, name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (8, 26, 28))
    start = _HEADER_BYTES + name + extra
    return inflated(record[start:]) if method == DEFLATED else b""


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
