"""The data of a record, inflated and checked against its CRC-32."""

from __future__ import annotations

from collections.abc import Iterator

from tsarchive.container.checksum import crc32
from tsarchive.container.entries import Entry
from tsarchive.container.faults import Faults, Place
from tsarchive.container.inflate import PIECE_BYTES, inflated_pieces


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
