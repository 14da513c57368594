"""Items of strided memory in the order of their indices, in few steps of Python."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import Final, Literal, TypeAlias

Dimensions: TypeAlias = Sequence[tuple[int, int]]
"""The number of indices and the step of each dimension, the outermost first."""
Piece: TypeAlias = memoryview | bytearray | bytes

# What does not follow each other is gathered to pieces of about so many bytes.
_PIECE: Final = 1 << 20
# Longer runs are given in pieces, so that what was read can be let go of.
_LONGEST: Final = 1 << 24
# Runs of so many bytes are copied one by one; of shorter ones, whole columns.
_LONG_RUN: Final = 1 << 10
# Columns of so many words are copied one by one; of shorter ones, words are picked.
_LONG_COLUMN: Final = 12
# Formats of a memoryview by the size of their items.
_FORMATS: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}


def pieces_of(data: memoryview, dimensions: Dimensions, itemsize: int) -> Iterator[Piece]:
    """Yield the items of ``data`` in the order of their indices, in pieces; steps are in bytes."""
    return _pieces(data, _merged(dimensions, itemsize))


def _merged(dimensions: Dimensions, itemsize: int) -> Dimensions:
    """Return fewer dimensions, of bytes: those of a run, of step 1, are the last of them."""
    found = [(itemsize, 1)]  # from the inside
    for count, step in reversed(dimensions):
        inner_count, inner_step = found[-1]
        if step == inner_count * inner_step:
            found[-1] = (inner_count * count, inner_step)
        elif count != 1:
            found.append((count, step))
    return found[::-1]


def _pieces(data: memoryview, dimensions: Dimensions) -> Iterator[Piece]:
    (count, step), *inner = dimensions
    if not inner:
        for start in range(0, count, _LONGEST):
            yield data[start : min(start + _LONGEST, count)]
        return
    size = prod(n for n, _ in inner)
    if size > _PIECE:
        for index in range(count):
            yield from _pieces(data[index * step :], inner)
        return
    rows = _PIECE // size
    for first in range(0, count, rows):
        yield _block(data[first * step :], [(min(rows, count - first), step), *inner])


def _block(data: memoryview, dimensions: Dimensions) -> Piece:
    """Return a copy of what a piece has."""
    *outer, (width, _) = dimensions
    if width >= _LONG_RUN:
        return b"".join([data[place : place + width] for place in _places(outer)])
    word = gcd(8, width, *(step for _, step in outer))
    end = sum((count - 1) * step for count, step in outer) + width
    words = data[:end].cast(_FORMATS[word])
    of_words = [(count, step // word) for count, step in outer]
    if width > word:
        of_words.append((width // word, 1))
    if max(count for count, _ in of_words) < _LONG_COLUMN:
        return _picked(words, of_words)
    return _by_columns(words, of_words)


def _picked(words: memoryview, dimensions: Dimensions) -> bytes:
    picked = [words[place] for place in _places(dimensions)]
    return array(_FORMATS[words.itemsize], picked).tobytes()


def _by_columns(words: memoryview, dimensions: Dimensions) -> bytearray:
    """Return a copy of words, made along the longest dimension in one step for each column."""
    counts = [count for count, _ in dimensions]
    copy = bytearray(prod(counts) * words.itemsize)
    target = memoryview(copy).cast(_FORMATS[words.itemsize])
    own = [(count, prod(counts[n + 1 :])) for n, count in enumerate(counts)]
    sources, longest = [*dimensions], counts.index(max(counts))
    (count, step), (_, to) = sources.pop(longest), own.pop(longest)
    for place, source in zip(_places(own), _places(sources), strict=True):
        column = _column(words, source, count, step)
        target[place : place + (count - 1) * to + 1 : to] = column
    return copy


def _column(words: memoryview, start: int, count: int, step: int) -> memoryview:
    if step:
        return words[start : start + (count - 1) * step + 1 : step]
    one = words[start : start + 1].tobytes()
    return memoryview(one * count).cast(_FORMATS[words.itemsize])


def _places(dimensions: Dimensions) -> list[int]:
    """Return the place of each item, in the order of their indices."""
    found = [0]
    for count, step in dimensions:
        found = [place + index * step for place in found for index in range(count)]
    return found
