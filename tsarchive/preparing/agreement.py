"""Whether a program that was made computes what it was made from, here and in the runtime."""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten

from tsarchive.errors import ArchiveError
from tsarchive.loading import load
from tsarchive.pte.comparing import compared, flattened
from tsarchive.pte.delegates import Backends

from .lowering import quietly

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["Agreement", "agreement_of"]

# Kernels of the runtime add in another order than those of torch.
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4


@dataclass(frozen=True, slots=True)
class Agreement:
    """The results of one method for its example inputs.

    ``runtime_difference`` is the largest between our runner and the runtime of ExecuTorch,
    ``source_difference`` between our runner and the program it was made from, of all elements;
    None where there are none to compare. ``problem`` says what does not agree, or fails.
    """

    method: str
    runtime_difference: float | None
    source_difference: float | None
    problem: str | None

    @property
    def ok(self) -> bool:
        return self.problem is None


def agreement_of(
    program: bytes,
    data: bytes | None,
    sources: Mapping[str, ExportedProgram],
    examples: Mapping[str, tuple[Sequence[Any], Mapping[str, Any]]],
) -> tuple[Agreement, ...]:
    """Run each method that has example inputs three times: here, in the runtime, as it was."""
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
        found = _outputs(getattr(module, name)(*_own(args), **_own(kwargs)))
    except (ArchiveError, RuntimeError) as error:
        return Agreement(name, None, None, f"our runner: {error}")
    beside = compared(found, expected, rtol=_RELATIVE, atol=_ABSOLUTE)
    try:
        runtime = Backends(program, () if data is None else (data,))
        there = _outputs(runtime.run(name, tree_flatten((_own(args), _own(kwargs)))[0]))
    except ArchiveError as error:
        return Agreement(name, None, beside.max_difference, str(error))
    other = compared(found, there, rtol=_RELATIVE, atol=_ABSOLUTE)
    problem = f"the runtime: {other.problem}" if other.problem else None
    if problem is None and beside.problem is not None:
        problem = f"the program it was made from: {beside.problem}"
    return Agreement(name, other.max_difference, beside.max_difference, problem)


def _of_source(
    source: ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """What the exported program gives; its buffers stay as they are."""
    with quietly():
        module = copy.deepcopy(source.module())
    with torch.no_grad():
        return _outputs(module(*_own(args), **_own(kwargs)))


def _own(given: Any) -> Any:
    """Arguments that a call may change."""
    return copy.deepcopy(given)


def _outputs(result: Any) -> list[Any]:
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in flattened(result)]
