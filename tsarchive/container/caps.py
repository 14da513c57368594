"""Caps on the resources that a reader spends before it knows the contents of an archive.

Each cap is far above what models need and far below what harms a machine that loads models.
"""

from __future__ import annotations

MIB = 1 << 20

# Pipes and file objects are read into memory and may never end; files are mapped.
MAX_COPIED_BYTES = 8192 * MIB
# The same cap for devices.
MAX_DEVICE_BYTES = 64 * MIB

# The largest models have some ten thousand tensors. This many entries open in two seconds.
MAX_ENTRIES = 1 << 18
# 256 bytes for each of the entries; those that torch writes take about a hundred.
MAX_DIRECTORY_BYTES = 64 * MIB

# Size caps of records that are read and parsed as a whole, by suffix of the name. The largest seen
# in public archives are below 1/200 of them.
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

# Total inflated size that is always allowed: freshly made weights are zeros, of which bzip2 packs a
# gigabyte into a kilobyte, and every machine has room for that.
FREE_INFLATED_BYTES = 1 << 30
# Maximum inflation ratio beyond that. Weights compress to a half at best, code to a twentieth;
# deflate itself reaches 1,032.
MAX_INFLATED_RATIO = 100

# The same, per record, for records that are parsed, where each byte takes time. Debug records
# compress the most: in public archives at most twenty-five-fold. The ratio is checked for each
# record, so that an incompressible record does not pay for another.
FREE_PARSED_BYTES = 2 * MIB

# Maximum LZMA dictionary size: what the strongest setting of 7-Zip asks for.
MAX_LZMA_WINDOW = 256 * MIB


def size_cap(name: str) -> int | None:
    """Return the maximum size in bytes of the record of this name; None when it has no cap."""
    path = f"/{name}"
    return next((cap for end, cap in PARSED_CAPS.items() if path.endswith(end)), None)


def inflated_cap(stored: int) -> int:
    """Return the maximum total size in bytes that ``stored`` bytes of records may inflate to."""
    return max(FREE_INFLATED_BYTES, MAX_INFLATED_RATIO * stored)
