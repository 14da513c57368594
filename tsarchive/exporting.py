"""Migration: a loaded archive as a program of torch.export, without torch.jit."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tsarchive.container import Container
from tsarchive.errors import ArchiveError, CallError, UnsupportedError
from tsarchive.loading import load
from tsarchive.policy import Policy
from tsarchive.run.classes import ArchiveModule

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def to_exported_program(
    module: ArchiveModule | str | os.PathLike[str],
    example_inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    policy: Policy | None = None,
) -> ExportedProgram:
    """What torch.export makes of the ``forward`` of a loaded module, or of the archive at a path.

    ``example_inputs`` and ``kwargs`` are arguments of one call, which decide what is traced: the
    branches that these arguments take, in the mode (train or eval) that the module is in.
    ``dynamic_shapes`` says which sizes stay open, as for torch.export.export; all others become
    constants. The keys of the state_dict are those of the module, which is left as it was.
    ``policy`` is that of ``load``, for a path.

    Raises CallError for arguments that ``forward`` does not take; UnsupportedError where
    torch.export cannot follow the code, such as a branch on the values of a tensor, with what
    stopped it as the cause; what ``load`` raises for a path.
    """
    if isinstance(module, str | os.PathLike):
        module = load(module, policy=policy)
    if not isinstance(module, ArchiveModule):
        raise CallError(
            f"a {type(module).__name__} is neither a loaded module nor a path",
            hint="torch.export.export takes modules that are written in Python",
        )
    if not isinstance(module.tsarchive_classes.container, Container):
        raise UnsupportedError("a program of ExecuTorch is no longer what torch.export knows")
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
