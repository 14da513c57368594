"""Shared parts of the atheris harnesses: structure-aware mutators, and seeds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from struct import error as StructError

import atheris

Mutate = Callable[[bytes, Random], bytes]
_CHANCE_OF_BLIND_CHANGE = 0.3


def fuzz(run: Callable[[bytes], object], mutate: Mutate, seeds: Iterable[bytes]) -> None:
    """Fuzz ``run`` with libFuzzer; any exception but ArchiveError ends the process.

    The first positional argument of the process is the folder of the corpus.
    """
    _fill(sys.argv[1:], seeds)

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() >= _CHANCE_OF_BLIND_CHANGE:
            try:
                return mutate(data, random)[:most]
            except (ValueError, LookupError, OverflowError, StructError):
                pass  # the mutators expect sound data, which earlier mutations may have broken
        blind: bytes = atheris.Mutate(data, most)
        return blind

    atheris.Setup(sys.argv, run, custom_mutator=mutator)
    atheris.Fuzz()


def _fill(arguments: list[str], seeds: Iterable[bytes]) -> None:
    """Put the seeds into an empty folder of the corpus."""
    folders = [Path(argument) for argument in arguments if not argument.startswith("-")]
    if not folders:
        return
    folder = folders[0]
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        for number, seed in enumerate(dict.fromkeys(seeds)):
            (folder / f"seed-{number:04}").write_bytes(seed)
