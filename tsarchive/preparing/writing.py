"""Writing of ExecuTorch programs, and their agreement with their source and with the runtime."""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from tsarchive.container.writer import replacing
from tsarchive.errors import ArchiveError, CallError
from tsarchive.formats.executorch.modules.comparing import compare_outputs
from tsarchive.formats.executorch.modules.delegates import Backends
from tsarchive.loading import load

from .lowering import lower, quietly
from .sources import Source

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
        found = _outputs(getattr(module, name)(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
    except (ArchiveError, RuntimeError) as error:
        return Agreement(name, None, None, f"our runner: {error}")
    beside = compare_outputs(found, expected, rtol=_RELATIVE, atol=_ABSOLUTE)
    try:
        runtime = Backends(program, () if data is None else (data,))
        there = _outputs(
            runtime.run(name, tree_leaves((copy.deepcopy(args), copy.deepcopy(kwargs))))
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
        return _outputs(module(*copy.deepcopy(args), **copy.deepcopy(kwargs)))


def _outputs(result: Any) -> list[Any]:
    return [
        leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in tree_leaves(result)
    ]


_SUFFIX = ".ptd"


def data_name(data: str | os.PathLike[str]) -> str:
    """Return the package's name of a data file. Raises CallError where its suffix is wrong."""
    path = Path(os.fsdecode(data))
    if path.suffix != _SUFFIX or not path.stem:
        raise CallError(f"the name {path.name!r} of the data file does not end in {_SUFFIX}")
    return path.stem


def write(
    source: Source,
    dst: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    *,
    backends: Sequence[str] = (),
    step: Callable[[str], None] = lambda description: None,
) -> bool:
    """Lower programs and write them, with their constants in the file ``data`` if given.

    Returns whether a data file was written: none is where backends took all constants. Either both
    files are replaced, or none. Raises what ``lower`` raises, and OSError.
    """
    name = None if data is None else data_name(data)
    step("lowering")
    lowered = lower(source.methods, backends=backends, data_name=name)
    constants = (lowered._tensor_data or {}).get(name)
    step(f"writing {os.fspath(dst)}")
    with ExitStack() as files:
        lowered.write_to_file(files.enter_context(replacing(os.fsdecode(dst))))
        if data is not None and constants is not None:
            constants.write_to_file(files.enter_context(replacing(os.fsdecode(data))))
    return constants is not None


def check(
    source: Source, dst: str | os.PathLike[str], data: str | os.PathLike[str] | None
) -> tuple[Agreement, ...]:
    """Compare the written program with its source and with the runtime.

    Each method that has example inputs is run three times: here, in the runtime, and its source.
    """
    if not source.examples:
        return ()
    program = Path(dst).read_bytes()
    content = None if data is None else Path(data).read_bytes()
    return tuple(
        _of_method(name, program, content, source.methods[name], args, kwargs)
        for name, (args, kwargs) in source.examples.items()
    )
