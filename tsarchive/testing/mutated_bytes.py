"""Mutation of bytes regardless of their meaning."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

# Values on both sides of the limits of 8, 16, 31, 32, 63 and 64 bits, and some in between.
BOUNDARIES: Final = (
    0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 1000, 4095, 4096, 4097,
    0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 0x10000, 0xFFFFFF, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000,
    0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000,
    0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF,
)  # fmt: skip
_WIDTHS = (1, 2, 4, 8)
_LONGEST_INSERTION = 64


def boundary(random: Random, near: int, bits: int) -> int:
    """Return a number of at most ``bits`` bits: a boundary, or one close to ``near``."""
    chosen = random.choice(BOUNDARIES)
    if random.random() < 0.3:
        chosen = near + random.randint(-2, 2)
    return chosen & ((1 << bits) - 1)


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Return ``data`` after one to four changes: bits, numbers, cuts, insertions, repetitions."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        random.choice(_CHANGES)(changed, random)
    return bytes(changed)


_Change: TypeAlias = Callable[[bytearray, Random], None]


def _place(data: bytearray, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _flip_bit(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] = random.randrange(256)


def _set_number(data: bytearray, random: Random) -> None:
    width, place = random.choice(_WIDTHS), _place(data, random)
    number = boundary(random, len(data), 8 * width)
    data[place : place + width] = number.to_bytes(width, "little")


def _insert(data: bytearray, random: Random) -> None:
    place = _place(data, random)
    data[place:place] = random.randbytes(random.randint(1, _LONGEST_INSERTION))


def _delete(data: bytearray, random: Random) -> None:
    place = _place(data, random)
    del data[place : place + random.randint(1, _LONGEST_INSERTION)]


def _repeat(data: bytearray, random: Random) -> None:
    place = _place(data, random)
    data[place:place] = data[place : place + random.randint(1, _LONGEST_INSERTION)]


def _cut(data: bytearray, random: Random) -> None:
    del data[_place(data, random) :]


_CHANGES: tuple[_Change, ...] = (
    *(_flip_bit, _set_byte, _set_number) * 3,
    *(_insert, _delete, _repeat, _cut),
)
