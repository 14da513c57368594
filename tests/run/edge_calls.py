"""Runs the fixture modules on edge values by both engines, in slices: NUMBER SLICES.

Modules run in child processes, as torch ends its process on some of these values, a division by
zero for one. Prints a JSON line for each module: its name and what differs.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from fixtures.modules import all_cases
from tests.support.archives import loaded, torch_loaded, torch_saved
from tests.support.children import Ended, Say, answers
from tests.support.running import is_same, outcome

PATIENCE = 5  # seconds of the processor, which a busy machine does not shorten

INTS = (0, 1, -1, 3, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, -1.5, 1e308, 5e-324, math.nan, math.inf, -math.inf)
TEXTS = ("", " ", "é∂", "a\nb", "0", "-1")


def tensors(value: torch.Tensor) -> Iterator[torch.Tensor]:
    yield torch.zeros_like(value)
    yield -value if value.dtype not in (torch.bool, torch.uint8) else ~value
    yield value[:0] if value.dim() else value.reshape(1)
    yield value.transpose(0, -1).contiguous().transpose(0, -1) if value.dim() > 1 else value
    if value.is_floating_point():
        yield torch.full_like(value, math.nan)
        yield value * 1e30
        yield value.double()
        yield value.detach().clone().requires_grad_()
    elif value.dtype != torch.bool:
        yield value.to(torch.int32)


def variants(value: Any) -> Iterator[Any]:
    """Values of the same type at the edges of it."""
    match value:
        case bool():
            yield not value
        case int():
            yield from INTS
        case float():
            yield from FLOATS
        case str():
            yield from TEXTS
        case torch.Tensor() if value.layout == torch.strided and not value.is_quantized:
            yield from tensors(value)
        case list() if value:
            yield []
            yield value * 2
            yield from ([edge, *value[1:]] for edge in variants(value[0]))
        case dict() if value:
            yield {}
            key = next(iter(value))
            yield from ({**value, key: edge} for edge in variants(value[key]))
        case tuple() if type(value) is tuple and value:
            yield from ((edge, *value[1:]) for edge in variants(value[0]))


def calls(arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The arguments with one of them at an edge."""
    for position, value in enumerate(arguments):
        for edge in variants(value):
            yield (*arguments[:position], edge, *arguments[position + 1 :])


def differences(case: Any, say: Say) -> list[str]:
    """The calls whose outcomes differ; ``say`` is told of each call before torch makes it."""
    data = torch_saved(case.build())
    found = []
    for arguments in case.inputs[:1]:
        for given in calls(arguments):
            say(f"torch {given!r}")
            expected = outcome(torch_loaded(data), *given)
            say(f"tsarchive {given!r}")
            ours = outcome(loaded(data), *given)
            if not is_same(expected, ours) and not unoptimised_agrees(data, given, ours):
                found.append(f"{given!r}: torch {expected!r}, tsarchive {ours!r}"[:600])
    return found


def unoptimised_agrees(data: bytes, given: tuple[Any, ...], ours: tuple[str, Any]) -> bool:
    """torch's optimiser removes code that may raise, and now and then fails on right code."""
    with torch.jit.optimized_execution(False):
        return is_same(outcome(torch_loaded(data), *given), ours)


def found_in(answer: list[str] | Ended) -> list[str]:
    """The differences of a case; where the process ends by torch, the calls up to there count."""
    if isinstance(answer, Ended):
        return [] if answer.last.startswith("torch ") else [f"{answer.last} ended the process"]
    return answer


def main(number: int, slices: int) -> None:
    warnings.simplefilter("ignore")
    cases = all_cases()[number::slices]
    for case, answer in zip(cases, answers(cases, differences, patience=PATIENCE), strict=True):
        print(json.dumps([case.name, found_in(answer)]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
