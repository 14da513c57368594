"""A loaded module traced by torch.export."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tsarchive.errors import ArchiveError, CallError, UnsupportedError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from tsarchive.run.modules import ArchiveModule


def traced_program(
    module: ArchiveModule,
    example_inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """The program of one call of ``forward``. Raises CallError and UnsupportedError as
    :func:`tsarchive.to_exported_program` says."""
    given = dict(kwargs) if kwargs else None
    arguments = _checked(module, example_inputs, given or {})
    try:
        return torch.export.export(
            module, arguments, given, dynamic_shapes=dynamic_shapes, strict=False
        )
    except ArchiveError:
        raise
    except Exception as error:  # torch.export raises errors of many unrelated classes
        raise UnsupportedError(
            f"torch.export cannot export {type(module).__name__}: {_first_lines(error)}",
            hint="The traceback of its cause names the line of code; sizes that stay open need "
            "examples of 2 or more",
        ) from error


def _checked(
    module: ArchiveModule, inputs: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments of the example call. Raises CallError where they are none."""
    if not isinstance(inputs, tuple | list):
        raise CallError(
            f"example_inputs is a {type(inputs).__name__}, not a tuple of arguments",
            hint="Pass (x,) for a forward that takes x",
        )
    forward: Any = module.forward
    try:
        inspect.signature(forward).bind(*inputs, **keywords)
    except TypeError as error:
        raise CallError(f"forward{inspect.signature(forward)}: {error}") from None
    return tuple(inputs)


def _first_lines(error: Exception) -> str:
    """What an error says first: a line, and after a colon the one that it announces."""
    name = type(error).__name__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return name
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{name}: {first.rstrip('.')}"
