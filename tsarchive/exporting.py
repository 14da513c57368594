"""Migration: a loaded archive as a program of torch.export, without torch.jit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.base import FileFormat
from tsarchive.formats.pt2.reexporting import traced_program
from tsarchive.formats.registry import format_of
from tsarchive.loading import load
from tsarchive.policy import Policy
from tsarchive.run.modules import ArchiveModule

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
    """Export the ``forward`` of a loaded module, or of the archive at a path, by torch.export.

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
    if isinstance(format_of(module.tsarchive_classes.container), FileFormat):
        raise UnsupportedError("a program of ExecuTorch is no longer what torch.export knows")
    return traced_program(module, example_inputs, kwargs, dynamic_shapes=dynamic_shapes)
