"""Numerical agreement of a converted program with its source, here and in the runtime."""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten

from tsarchive.errors import ArchiveError
from tsarchive.formats.executorch.modules.comparing import compare_outputs, flatten_outputs
from tsarchive.formats.executorch.modules.delegates import Backends
from tsarchive.loading import load

from .lowering import quietly

if TYPE_CHECKING:
    from torch.export import ExportedProgram


# The runtime's kernels add in another order than torch's.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of one method's results for its example inputs.

    ``runtime_difference`` is the maximum difference of all elements between our runner and the
    ExecuTorch runtime, ``source_difference`` that between our runner and the source program; None
    where there are none to compare. ``problem`` says what disagrees, or fails.
    """

    method: str
    runtime_difference: float | None
    source_difference: float | None
    problem: str | None

    @property
    def ok(self) -> bool:
        return self.problem is None


def measure_agreement(
    program: bytes,
    data: bytes | None,
    sources: Mapping[str, ExportedProgram],
    examples: Mapping[str, tuple[Sequence[Any], Mapping[str, Any]]],
) -> tuple[Agreement, ...]:
    """Run each method that has example inputs three times: here, in the runtime, and its source."""
    return tuple(
        _of_method(name, program, data, sources[name], args, kwargs)
        for name, (args, kwargs) in examples.items()
    )


def _of_method(
    name: str,
    program: bytes,
    data: bytes | None,
    source: ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Agreement:
    expected = _of_source(source, args, kwargs)
    try:
        module: Any = load(io.BytesIO(program), data=None if data is None else io.BytesIO(data))
        found = _outputs(getattr(module, name)(*_copy_arguments(args), **_copy_arguments(kwargs)))
    except (ArchiveError, RuntimeError) as error:
        return Agreement(name, None, None, f"our runner: {error}")
    beside = compare_outputs(found, expected, rtol=_RELATIVE, atol=_ABSOLUTE)
    try:
        runtime = Backends(program, () if data is None else (data,))
        there = _outputs(
            runtime.run(name, tree_flatten((_copy_arguments(args), _copy_arguments(kwargs)))[0])
        )
    except ArchiveError as error:
        return Agreement(name, None, beside.max_difference, str(error))
    other = compare_outputs(found, there, rtol=_RELATIVE, atol=_ABSOLUTE)
    problem = f"the runtime: {other.problem}" if other.problem else None
    if problem is None and beside.problem is not None:
        problem = f"the program it was made from: {beside.problem}"
    return Agreement(name, other.max_difference, beside.max_difference, problem)


def _of_source(
    source: ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """Return the results of the exported program, whose buffers are left unchanged."""
    with quietly():
        module = copy.deepcopy(source.module())
    with torch.no_grad():
        return _outputs(module(*_copy_arguments(args), **_copy_arguments(kwargs)))


def _copy_arguments(given: Any) -> Any:
    """Copy arguments that a call may change."""
    return copy.deepcopy(given)


def _outputs(result: Any) -> list[Any]:
    return [
        leaf.detach() if isinstance(leaf, torch.Tensor) else leaf
        for leaf in flatten_outputs(result)
    ]
