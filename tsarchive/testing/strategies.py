"""Hypothesis strategies for whole programs, and for damaged archives, pickles and code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from .drawing import Definitions, Models, Signature
from .mutated_archive import mutate_archive, small_archive, small_code, small_pickle
from .mutated_records import mutate_code, mutate_json, mutate_pickle
from .program import Program
from .vocabulary import TYPES, Vocabulary, arguments

_CALLS = 2
_HEADER = """\
import math
from enum import Enum
from typing import Dict, Final, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

"""
_TENSORS = st.sampled_from(("Tensor", "Tuple[Tensor, Tensor]", "List[Tensor]"))


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    types: Sequence[str] = TYPES,
    result: st.SearchStrategy[str] | None = None,
    least: int = 0,
) -> Program:
    """Draw well-typed programs, which torch.jit.script accepts.

    ``types`` are the types of the parameters of ``forward``, as annotation text, of which there are
    ``least`` at least; ``result`` is a strategy for its return type. Calls may raise: lists are too
    short, shapes do not fit.
    """
    outside = Definitions(draw, Vocabulary())
    lines = outside.definitions()
    model = Models(draw, outside.vocabulary.copy())
    if model.chance(3):
        lines += model.add_part()
    parameters = model.parameters(types, by_name=False, least=least)
    values = [t for t in model.vocabulary.types if t not in model.vocabulary.objects]
    returned = draw(result) if result is not None else model.pick([*values, "None"])
    lines += model.module_class("Model", Signature("forward", parameters, returned, "self"))
    calls = st.tuples(*(arguments(parameter.type) for parameter in parameters))
    inputs: list[tuple[Any, ...]] = draw(st.lists(calls, min_size=_CALLS, max_size=_CALLS))
    return Program(_HEADER + "\n".join(lines), tuple(inputs))


def traceable_programs() -> st.SearchStrategy[Program]:
    """Draw programs from tensors to tensors, for torch.jit.trace; some of them raise."""
    return programs(types=("Tensor",), result=_TENSORS, least=1)


_S = TypeVar("_S", bytes, str)


def mutated_archives(seeds: Sequence[bytes] | None = None) -> st.SearchStrategy[bytes]:
    """Draw whole archives with a few changes to zip headers, to records, or to any bytes.

    ``seeds`` are sound archives, small ones for speed; by default there is one of a kilobyte. Drawn
    archives may still be sound.
    """
    pool = tuple(seeds) if seeds is not None else (small_archive(),)
    return _mutated(partial(mutate_archive, donors=pool), pool)


def mutated_pickles(seeds: Sequence[bytes] | None = None) -> st.SearchStrategy[bytes]:
    """Draw pickle records with a few changes to opcodes, to their arguments, or to any bytes.

    ``seeds`` are pickles as torch writes them: ``data.pkl``, ``constants.pkl``, ``.debug_pkl``.
    """
    pool = tuple(seeds) if seeds is not None else (small_pickle(),)
    return _mutated(partial(mutate_pickle, donors=pool), pool)


def mutated_code(seeds: Sequence[str] | None = None) -> st.SearchStrategy[str]:
    """Draw code records with a few changes to tokens, lines, expressions and annotations.

    ``seeds`` are texts that parse. Many drawn texts do not, and some are deeply nested.
    """
    pool = tuple(seeds) if seeds is not None else (small_code(),)
    return _mutated(partial(mutate_code, donors=pool), pool)


def mutated_programs(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Draw JSON records with a few changes to values, fields, tags and depth.

    ``seeds`` are records of PT2 archives: programs, and configurations of payloads.
    """
    return _mutated(mutate_json, seeds)


def _mutated(mutate: Callable[[_S, Random], _S], seeds: Sequence[_S]) -> st.SearchStrategy[_S]:
    # A seed reproduces an input outside hypothesis, too; smaller seeds are not simpler.
    randoms = st.integers(0, 2**64 - 1).map(Random)
    return st.builds(mutate, st.sampled_from(tuple(seeds)), randoms)
