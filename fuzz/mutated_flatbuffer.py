"""Mutation of FlatBuffers: of aligned numbers, which are offsets, counts and vtables."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from tsarchive.testing.mutated_records import boundary, mutate_bytes

__all__ = ["mutate_flatbuffer"]

_SHORTEST: Final = 16
_CHANCE_OF_BLIND_CHANGE: Final = 0.2
_PIECES: Final = (4, 8, 32)


def mutate_flatbuffer(data: bytes, random: Random) -> bytes:
    """Return ``data``, a file of ExecuTorch or any other buffer, after one to four changes."""
    if len(data) < _SHORTEST or random.random() < _CHANCE_OF_BLIND_CHANGE:
        return mutate_bytes(data, random)
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        random.choice(_CHANGES)(changed, random)
    return bytes(changed)


_Change: TypeAlias = Callable[[bytearray, Random], None]


def _number(width: int) -> _Change:
    def change(data: bytearray, random: Random) -> None:
        """Overwrite a number by a boundary, or by an offset into the buffer."""
        place = random.randrange(len(data) // width) * width
        bits = 8 * width
        inside = random.randrange(len(data)) & ((1 << bits) - 1)
        number = boundary(random, len(data) - place, bits) if random.random() < 0.5 else inside
        data[place : place + width] = number.to_bytes(width, "little")

    return change


def _copy(data: bytearray, random: Random) -> None:
    """Overwrite aligned bytes by others, so that tables and vectors point elsewhere."""
    size = random.choice(_PIECES)
    source, target = (random.randrange(len(data) // 4) * 4 for _ in range(2))
    piece = data[source : source + size]
    data[target : target + len(piece)] = piece


_CHANGES: tuple[_Change, ...] = (*(_number(4),) * 4, *(_number(2),) * 2, _number(1), _number(8),
                                 _copy)  # fmt: skip
