"""Running the test calls of a bundled program and comparing their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tsarchive.errors import ArchiveError, CallError, FormatError, UnsupportedError
from tsarchive.formats.executorch.bundled import RECORD, BundledProgram, BundledTensor, BundledValue
from tsarchive.formats.executorch.regions import Regions
from tsarchive.formats.executorch.values import layout_problem

from .comparing import ABSOLUTE, RELATIVE, compare_outputs, flatten_outputs
from .memory import tensor_over

__all__ = ["ABSOLUTE", "RELATIVE", "CaseResult", "check_cases"]


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
            yield _result(module, suite.method, number, given, expected, (rtol, atol))


def _value(value: BundledValue) -> Any:
    if not isinstance(value, BundledTensor):
        return value
    problem = layout_problem(value.scalar_type, value.sizes, value.dim_order)
    if problem is not None or len(value.data) != value.nbytes:
        message = problem or f"it has {len(value.data):,} bytes, not {value.nbytes:,}"
        raise FormatError(f"a tensor of a test case: {message}", record=RECORD)
    dtype = getattr(torch, value.dtype, None)
    if dtype is None:
        raise UnsupportedError(f"this torch has no dtype {value.dtype}", record=RECORD)
    return tensor_over(value.data, value.sizes, value.strides, value.dtype)


def _result(
    module: Any,
    method: str,
    number: int,
    given: Sequence[Any],
    expected: Sequence[Any],
    tolerances: tuple[float, float],
) -> CaseResult:
    try:
        found = flatten_outputs(getattr(module, method)(*given))
    except (ArchiveError, RuntimeError, AttributeError) as error:
        return CaseResult(method, number, None, f"the call fails: {error}")
    outcome = compare_outputs(found, expected, rtol=tolerances[0], atol=tolerances[1])
    return CaseResult(method, number, outcome.max_difference, outcome.problem)
