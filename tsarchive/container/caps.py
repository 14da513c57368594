"""How much an archive may make a reader do before any of its contents is known.

Each cap is far above what models need and far below what harms a machine that loads models.
"""

from __future__ import annotations

__all__ = [
    "MAX_COPIED_BYTES",
    "MAX_DEVICE_BYTES",
    "MAX_DIRECTORY_BYTES",
    "MAX_ENTRIES",
    "MAX_LZMA_WINDOW",
    "SMALLEST_CAP",
    "inflated_cap",
    "is_blown_up",
    "size_cap",
]

MIB = 1 << 20

# What is read into memory of pipes and file objects, which may have no end; files are mapped.
MAX_COPIED_BYTES = 8192 * MIB
# The same of devices.
MAX_DEVICE_BYTES = 64 * MIB

# The largest models have some ten thousand tensors. So many entries open in two seconds.
MAX_ENTRIES = 1 << 18
# 256 bytes for each of the entries; those that torch writes take about a hundred.
MAX_DIRECTORY_BYTES = 64 * MIB

# Records that are read and parsed as a whole, by the end of their name: what each may hold.
# The largest seen in public archives have less than 1/200 of it.
PARSED_CAPS = {
    ".py": 64 * MIB,
    ".pkl": 256 * MIB,
    ".debug_pkl": 256 * MIB,
    ".json": 256 * MIB,
    "/version": MIB,
    "/byteorder": MIB,
    "/serialization_id": MIB,
}
SMALLEST_CAP = min(PARSED_CAPS.values())

# What the compressed records of an archive may inflate to in any case: freshly made weights are
# zeros, of which bzip2 packs a gigabyte into a kilobyte, and every machine has room for that.
FREE_INFLATED_BYTES = 1 << 30
# Beyond that, how many times their size in the file they may inflate to. Weights shrink to a
# half at best, code to a twentieth, and deflate itself reaches 1,032.
MAX_INFLATED_RATIO = 100

# The same for records that are parsed, each byte of which takes time: of debug records, which
# shrink the most, public archives have none beyond a twenty-fifth. Here every record counts by
# itself, so that one of noise does not pay for another.
FREE_PARSED_BYTES = 2 * MIB

# What an LZMA decoder may keep of its output: as much as the strongest setting of 7-Zip asks for.
MAX_LZMA_WINDOW = 256 * MIB


def size_cap(name: str) -> int | None:
    """How many bytes the record of this name may hold, or None when no cap is on it."""
    path = f"/{name}"
    return next((cap for end, cap in PARSED_CAPS.items() if path.endswith(end)), None)


def inflated_cap(stored: int) -> int:
    """How many bytes the compressed records of an archive, ``stored`` bytes, may inflate to."""
    return max(FREE_INFLATED_BYTES, MAX_INFLATED_RATIO * stored)


def is_blown_up(size: int, stored: int) -> bool:
    """Whether ``stored`` bytes that inflate to ``size`` would be more than data shrinks to."""
    return size > MAX_INFLATED_RATIO * stored
