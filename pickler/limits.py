"""Limits on the size of a pickle record, in bytes and in values."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Bounds on one pickle record; beyond any of them reading ends with a PickleError.

    Depth needs no bound: the machine does not recurse.
    """

    max_bytes: int = 1 << 28
    """Size of the record."""
    max_opcodes: int = 1 << 24
    """Opcodes. Bounds time, and memory: each may leave one value on the stack."""
    max_memo: int = 1 << 22
    """Memoised values."""
    max_items: int = 1 << 24
    """Items put into containers."""
    max_values: int = 1 << 22
    """Containers, marks, names, and values made of them. Bounds memory: a container costs about 80
    bytes for the one byte that makes it.
    """
    max_repeats: int = 1 << 22
    """How often a walk along every reference meets values again. A list of a list twice, thirty
    times over, is a billion of them in a hundred bytes.
    """
