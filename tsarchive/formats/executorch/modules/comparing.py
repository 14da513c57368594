"""Numeric comparison of the results of two runs of the same call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

# The tolerances of ExecuTorch's runtime.
RELATIVE: Final = 1e-5
ABSOLUTE: Final = 1e-8


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of all outputs.

    ``max_difference`` is the maximum over all elements, None where there are none to compare.
    ``problem`` says why the results are not equal, None where they are.
    """

    max_difference: float | None
    problem: str | None


def compare_outputs(
    found: Sequence[Any], expected: Sequence[Any], *, rtol: float = RELATIVE, atol: float = ABSOLUTE
) -> Comparison:
    """Compare outputs one by one, up to the first that is not equal.

    An element is equal where it is within ``atol + rtol * |expected|``, or both are nan.
    """
    if len(found) != len(expected):
        return Comparison(None, f"{len(found)} outputs, and {len(expected)} are expected")
    differences: list[float] = []
    for position, (one, other) in enumerate(zip(found, expected, strict=True)):
        problem = _difference(one, other, (rtol, atol), differences)
        if problem is not None:
            return Comparison(max(differences, default=None), f"output {position} {problem}")
    return Comparison(max(differences, default=None), None)


def flatten_outputs(value: Any) -> list[Any]:
    """Return the outputs as a flat list, however they are nested."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flatten_outputs(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flatten_outputs(item)]
    return [value]


def _difference(
    found: Any, expected: Any, tolerances: tuple[float, float], differences: list[float]
) -> str | None:
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        is_same = type(found) is type(expected) and found == expected
        return None if is_same else f"is {found!r}, not {expected!r}"
    if found.shape != expected.shape or found.dtype is not expected.dtype:
        return f"is {_shown(found)}, not {_shown(expected)}"
    rtol, atol = tolerances
    one, other = found.to(torch.float64), expected.to(torch.float64)
    if one.numel():
        apart = (one - other).abs().nan_to_num(0.0)
        differences.append(float(apart.max()))
    if torch.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True):
        return None
    return f"is up to {differences[-1]:.3g} apart"


def _shown(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
