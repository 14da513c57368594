"""The record ``.data/serialization_id``: a fingerprint of the other records, as torch computes it.

Forty digits: a 64 bit hash of the record names, then one of the CRC-32 values of the records.
"""

from __future__ import annotations

from tsarchive.container.layout import DESCRIPTOR_SIGNATURE, STORED

from .unordered_map import iteration_order, string_hash

RECORD_NAME = ".data/serialization_id"

_MASK = (1 << 64) - 1
_GOLDEN_RATIO = 0x9E3779B9


def combine(seed: int, value: int) -> int:
    """``c10::hash_combine`` for 64 bit numbers."""
    return seed ^ ((value + _GOLDEN_RATIO + (seed << 6) + (seed >> 2)) & _MASK)


class SerializationId:
    """Computes the id from the records of an archive, added in the order they are written."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._checksums = 0

    def add(self, name: str, method: int, crc: int, payload: memoryview) -> None:
        """Add one record by its name without root and its bytes as stored in the file."""
        self._names[name] = None
        if not payload:
            return
        # torch scans its output for descriptors and mistakes stored data that begins like one for
        # one. Compressed data never begins so.
        if method == STORED and len(payload) >= 8 and payload[:4] == DESCRIPTOR_SIGNATURE:
            self._checksums = combine(self._checksums, int.from_bytes(payload[4:8], "little"))
        self._checksums = combine(self._checksums, crc)

    def digits(self) -> str:
        """The contents of the record."""
        hashes = [string_hash(name.encode()) for name in self._names]
        names = 0
        for index in iteration_order(hashes, 0):
            names = combine(names, hashes[index])
        return f"{names:020d}{self._checksums:020d}"
