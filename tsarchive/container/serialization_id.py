"""The record ``.data/serialization_id``: a fingerprint of the other records, as torch computes it.

Forty digits: a 64 bit hash of the record names, then one of the CRC-32 values of the records.

The names are hashed in the iteration order of libstdc++'s ``unordered_set``, and records of extra
files are written in that of its ``unordered_map``. All nodes of such a hash table are in one linked
list in which each bucket's nodes are neighbours. A node of a new bucket becomes the head of the
list; any other goes in front of the nodes of its bucket.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from struct import unpack

from tsarchive.container.layout import DESCRIPTOR_SIGNATURE, STORED

_MASK = (1 << 64) - 1
_SEED = 0xC70F6907
_MULTIPLIER = 0xC6A4A7935BD1E995

# Bucket counts for requests below 14, then the larger ones in ascending order.
_SMALL_COUNTS = (1, 2, 2, 3, 5, 5, 7, 7, 11, 11, 11, 11, 13, 13)
# fmt: off
_COUNTS = (
    17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 103, 109, 113, 127,
    137, 139, 149, 157, 167, 179, 193, 199, 211, 227, 241, 257, 277, 293, 313, 337, 359, 383, 409,
    439, 467, 503, 541, 577, 619, 661, 709, 761, 823, 887, 953, 1031, 1109, 1193, 1289, 1381, 1493,
    1613, 1741, 1879, 2029, 2179, 2357, 2549, 2753, 2971, 3209, 3469, 3739, 4027, 4349, 4703, 5087,
    5503, 5953, 6427, 6949, 7517, 8123, 8783, 9497, 10273, 11113, 12011, 12983, 14033, 15173, 16411,
    17749, 19183, 20753, 22447, 24281, 26267, 28411, 30727, 33223, 35933, 38873, 42043, 45481,
    49201, 53201, 57557, 62233, 67307, 72817, 78779, 85229, 92203, 99733, 107897, 116731, 126271,
    136607, 147793, 159871, 172933, 187091, 202409, 218971, 236897, 256279, 277261, 299951, 324503,
    351061, 379787, 410857, 444487, 480881, 520241, 562841, 608903, 658753, 712697, 771049, 834181,
    902483, 976369, 1056323, 1142821, 1236397, 1337629, 1447153, 1565659, 1693859, 1832561, 1982627,
    2144977, 2320627, 2510653, 2716249, 2938679, 3179303, 3439651, 3721303, 4026031, 4355707,
    4712381, 5098259, 5515729, 5967347, 6456007, 6984629, 7556579, 8175383, 8844859, 9569143,
    10352717, 11200489, 12117689, 13109983, 14183539, 15345007, 16601593, 17961079, 19431899,
    21023161, 22744717, 24607243, 26622317, 28802401, 31160981, 33712729, 36473443, 39460231,
    42691603, 46187573, 49969847, 54061849, 58488943, 63278561, 68460391, 74066549, 80131819,
    86693767, 93793069, 101473717, 109783337, 118773397, 128499677, 139022417, 150406843, 162723577,
    176048909, 190465427, 206062531, 222936881, 241193053, 260944219, 282312799, 305431229,
    330442829, 357502601, 386778277, 418451333, 452718089, 489790921, 529899637, 573292817,
    620239453, 671030513, 725980837, 785430967, 849749479, 919334987, 994618837, 1076067617,
    1164186217, 1259520799, 1362662261, 1474249943, 1594975441, 1725587117, 1866894511, 2019773507,
    2185171673, 2364114217, 2557710269, 2767159799, 2993761039, 3238918481, 3504151727, 3791104843,
    4101556399, 4294967291,
)
# fmt: on

# Bucket count that the first insertion into a table without reserved room asks for.
_FIRST_REQUEST = 12


@lru_cache(maxsize=1 << 12)
def string_hash(data: bytes) -> int:
    """``std::hash<std::string>`` of libstdc++ on a 64 bit machine: MurmurHash64A."""
    value = _SEED ^ (len(data) * _MULTIPLIER & _MASK)
    whole = len(data) & ~7
    for word in unpack(f"<{whole >> 3}Q", data[:whole]):
        mixed = word * _MULTIPLIER & _MASK  # _mix, inlined: names are hashed on each save
        mixed = (mixed ^ (mixed >> 47)) * _MULTIPLIER & _MASK
        value = (value ^ mixed) * _MULTIPLIER & _MASK
    if whole != len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = _mix(value)
    return value ^ (value >> 47)


def _mix(word: int) -> int:
    return (word ^ (word >> 47)) * _MULTIPLIER & _MASK


def bucket_count(wanted: int) -> int:
    """Return the number of buckets of a table that asks for at least ``wanted``."""
    if wanted < len(_SMALL_COUNTS):
        return _SMALL_COUNTS[wanted]
    return _COUNTS[bisect_left(_COUNTS, wanted)]


def unordered_map_order(keys: Sequence[str], reserve: int) -> list[str]:
    """Return ``keys``, inserted in this order, in iteration order.

    ``reserve`` is the number of elements that room was made for first, 0 for none. Duplicate keys
    are inserted once.
    """
    unique = list(dict.fromkeys(keys))
    # The writer rejects lone surrogates later.
    hashes = [string_hash(key.encode("utf-8", "surrogatepass")) for key in unique]
    return [unique[index] for index in iteration_order(hashes, reserve)]


def iteration_order(hashes: Sequence[int], reserve: int) -> list[int]:
    """Return the indices of distinct keys with these hashes in iteration order.

    The buckets stand in the order of their first node, and the nodes of each in insertion order, so
    the linked list is all of that read backwards.
    """
    count = bucket_count(reserve) if reserve else 0
    buckets: dict[int, list[int]] = {}
    for index in range(len(hashes)):
        if index == count:
            count = bucket_count(2 * count or _FIRST_REQUEST)
            nodes, buckets = _linked(buckets), {}
            for node in nodes:
                buckets.setdefault(hashes[node] % count, []).append(node)
        buckets.setdefault(hashes[index] % count, []).append(index)
    return _linked(buckets)


def _linked(buckets: dict[int, list[int]]) -> list[int]:
    forwards = [index for bucket in buckets.values() for index in bucket]
    return forwards[::-1]


RECORD_NAME = ".data/serialization_id"

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
        """Return the contents of the record."""
        hashes = [string_hash(name.encode()) for name in self._names]
        names = 0
        for index in iteration_order(hashes, 0):
            names = combine(names, hashes[index])
        return f"{names:020d}{self._checksums:020d}"
