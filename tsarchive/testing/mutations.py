"""Hypothesis strategies for damaged and hostile archives, pickles and code."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeAlias

from hypothesis import strategies as st

from .mutated_archive import mutate_archive
from .mutated_json import mutate_json
from .mutated_pickle import mutate_pickle
from .mutated_source import mutate_code
from .seeds import small_archive, small_code, small_pickle

Seeds: TypeAlias = Sequence[bytes] | None


def mutated_archives(seeds: Seeds = None) -> st.SearchStrategy[bytes]:
    """Draw whole archives with a few changes to zip headers, to records, or to any bytes.

    ``seeds`` are sound archives, small ones for speed; by default there is one of a kilobyte. Drawn
    archives may still be sound.
    """
    pool = tuple(seeds) if seeds is not None else (small_archive(),)
    return st.builds(
        lambda seed, random: mutate_archive(seed, random, donors=pool),
        st.sampled_from(pool),
        _randoms(),
    )


def mutated_pickles(seeds: Seeds = None) -> st.SearchStrategy[bytes]:
    """Draw pickle records with a few changes to opcodes, to their arguments, or to any bytes.

    ``seeds`` are pickles as torch writes them: ``data.pkl``, ``constants.pkl``, ``.debug_pkl``.
    """
    pool = tuple(seeds) if seeds is not None else (small_pickle(),)
    return st.builds(
        lambda seed, random: mutate_pickle(seed, random, donors=pool),
        st.sampled_from(pool),
        _randoms(),
    )


def mutated_code(seeds: Sequence[str] | None = None) -> st.SearchStrategy[str]:
    """Draw code records with a few changes to tokens, lines, expressions and annotations.

    ``seeds`` are texts that parse. Many drawn texts do not, and some are deeply nested.
    """
    pool = tuple(seeds) if seeds is not None else (small_code(),)
    return st.builds(
        lambda seed, random: mutate_code(seed, random, donors=pool),
        st.sampled_from(pool),
        _randoms(),
    )


def mutated_programs(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Draw JSON records with a few changes to values, fields, tags and depth.

    ``seeds`` are records of PT2 archives: programs, and configurations of payloads.
    """
    return st.builds(mutate_json, st.sampled_from(tuple(seeds)), _randoms())


def _randoms() -> st.SearchStrategy[Random]:
    # A seed reproduces an input outside hypothesis, too; smaller seeds are not simpler.
    return st.integers(0, 2**64 - 1).map(Random)
