"""Mutation of a whole archive: of its container, its records by kind, or any of its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from .mutated_bytes import mutate_bytes
from .mutated_json import mutate_json
from .mutated_pickle import mutate_pickle
from .mutated_source import mutate_code
from .mutated_zip import mutate_zip

_CHANCE_OF_BLIND_CHANGE = 0.1


def mutate_archive(data: bytes, random: Random, *, donors: Sequence[bytes] = ()) -> bytes:
    """Return the sound archive ``data`` after a few changes at any layer.

    See :func:`mutate_zip`.
    """
    if random.random() < _CHANCE_OF_BLIND_CHANGE:
        return mutate_bytes(data, random)
    return mutate_zip(data, random, donors=donors, inside=mutate_record)


def mutate_record(name: str, content: bytes, random: Random) -> bytes:
    """Mutate the content of a record according to its kind, which its name tells."""
    if name.endswith((".pkl", ".debug_pkl")):
        return mutate_pickle(content, random)
    if name.endswith(".py"):
        # Mutated text may hold lone surrogates, which no file can.
        return mutate_code(content.decode(), random).encode("utf-8", "replace")
    if name.endswith(".json"):
        return mutate_json(content, random)
    return mutate_bytes(content, random)
