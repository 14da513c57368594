"""Numeric comparison of the results of two runs, and of the test calls of bundled programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves

from tsarchive.errors import ArchiveError, CallError, FormatError, UnsupportedError
from tsarchive.formats.executorch.content import BUNDLE, BundledProgram, BundledTensor, BundledValue
from tsarchive.formats.executorch.regions import Regions

from .memory import tensor_over, type_text

# The tolerances of ExecuTorch's runtime.
RELATIVE: Final = 1e-5
ABSOLUTE: Final = 1e-8


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of all outputs.

    ``max_difference`` is the maximum over all elements, None where there are none to compare;
    ``relative_difference`` is the maximum over outputs of what an output differs by, as a part of
    its largest element. ``problem`` says why the results are not equal, None where they are.
    """

    max_difference: float | None
    problem: str | None
    relative_difference: float | None = None


def compare_outputs(
    found: Sequence[Any], expected: Sequence[Any], *, rtol: float = RELATIVE, atol: float = ABSOLUTE
) -> Comparison:
    """Compare outputs one by one, up to the first that is not equal.

    An element is equal where it is within ``atol + rtol * |expected|``, or both are nan.
    """
    if len(found) != len(expected):
        return Comparison(None, f"{len(found)} outputs, and {len(expected)} are expected")
    differences: list[tuple[float, float]] = []
    problem = None
    for position, (one, other) in enumerate(zip(found, expected, strict=True)):
        unequal = _difference(one, other, (rtol, atol), differences)
        if unequal is not None:
            problem = f"output {position} {unequal}"
            break
    most, relative = map(max, zip(*differences, strict=True)) if differences else (None, None)
    return Comparison(most, problem, relative)


def _difference(
    found: Any,
    expected: Any,
    tolerances: tuple[float, float],
    differences: list[tuple[float, float]],
) -> str | None:
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        is_same = type(found) is type(expected) and found == expected
        return None if is_same else f"is {found!r}, not {expected!r}"
    if found.shape != expected.shape or found.dtype is not expected.dtype:
        return f"is {type_text(found)}, not {type_text(expected)}"
    rtol, atol = tolerances
    one, other = found.to(torch.float64), expected.to(torch.float64)
    if one.numel():
        apart = float((one - other).abs().nan_to_num(0.0).max())
        largest = float(other.abs().nan_to_num(0.0, posinf=0.0).max())
        differences.append((apart, apart / largest if largest else apart))
    if torch.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True):
        return None
    return f"is up to {differences[-1][0]:.3g} apart"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one call.

    ``max_difference`` is the maximum over all elements, None where there is nothing to compare.
    ``problem`` says why the result is not as expected, None where it is.
    """

    method: str
    number: int
    max_difference: float | None
    problem: str | None

    @property
    def ok(self) -> bool:
        return self.problem is None


def check_cases(
    module: Any, *, rtol: float = RELATIVE, atol: float = ABSOLUTE
) -> Iterator[CaseResult]:
    """Run each call of a module that was loaded from a bundle, in file order.

    An element is as expected where it is within ``atol + rtol * |expected|``, or both are nan.
    Raises CallError for a module without a bundle, FormatError for a malformed bundle.
    """
    regions = type(module).tsarchive_classes.container
    bundle = regions.content if isinstance(regions, Regions) else None
    if not isinstance(bundle, BundledProgram):
        raise CallError("the module was not loaded from a bundled program (.bpte)")
    for suite in bundle.test_suites:
        for number, case in enumerate(suite.cases):
            expected = [_value(value) for value in case.expected_outputs]
            given = [_value(value) for value in case.inputs]
            try:
                found = tree_leaves(getattr(module, suite.method)(*given))
            except (ArchiveError, RuntimeError, AttributeError) as error:
                outcome = Comparison(None, f"the call fails: {error}")
            else:
                outcome = compare_outputs(found, expected, rtol=rtol, atol=atol)
            yield CaseResult(suite.method, number, outcome.max_difference, outcome.problem)


def _value(value: BundledValue) -> Any:
    if not isinstance(value, BundledTensor):
        return value
    if value.problem is not None or len(value.data) != value.nbytes:
        message = value.problem or f"it has {len(value.data):,} bytes, not {value.nbytes:,}"
        raise FormatError(f"a tensor of a test case: {message}", record=BUNDLE)
    dtype = getattr(torch, value.dtype, None)
    if dtype is None:
        raise UnsupportedError(f"this torch has no dtype {value.dtype}", record=BUNDLE)
    return tensor_over(value.data, value)
