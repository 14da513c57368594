"""Lowering of torch.export programs to ExecuTorch programs, which are written and compared.

The executorch package does the lowering: edge dialect, out variants, memory plan, delegates.
Recorded operators that it does not accept are replaced by core ATen operators before. It is asked
for bytes that hold the whole model: initial values of mutated buffers, which it omits by default,
and a data file under its final name. What was written is run beside its source and in the runtime.
"""

from __future__ import annotations

import copy
import importlib
import io
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._pytree import tree_leaves

from tsarchive.container.writer import replacing
from tsarchive.errors import ArchiveError, CallError, UnsupportedError
from tsarchive.formats.executorch.modules.comparing import compare_outputs
from tsarchive.formats.executorch.modules.delegates import Backends
from tsarchive.loading import load
from tsarchive.lowering import (
    ExampleCall,
    outputs_of,
    quietly,
    refuse_packed_constants,
    source_outputs,
    with_core_operators,
)
from tsarchive.steps import no_step

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# Name of a backend -> location of its partitioner, which selects the subgraphs to delegate.
BACKENDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"xnnpack": ("executorch.backends.xnnpack.partition.xnnpack_partitioner", "XnnpackPartitioner")}
)


def lower(
    methods: Mapping[str, ExportedProgram],
    *,
    backends: Sequence[str] = (),
    data_name: str | None = None,
) -> Any:
    """Lower programs to the methods of one ExecuTorch program; return the package's own of them.

    ``backends`` are names of `BACKENDS` to delegate to, in order of precedence. Constants go to a
    data file called ``data_name``, without ``.ptd``, if that is given. Raises CallError for an
    unknown backend, UnsupportedError where the package is not installed or cannot lower the
    programs, such as those with tensors that oneDNN packed.
    """
    for program in methods.values():
        refuse_packed_constants(program)
    require_package()
    partitioners = [_partitioner(name) for name in backends]
    # With gradients enabled, retracing fails for buffers that are assigned results of weights.
    with quietly(), torch.no_grad():
        try:
            return _lowered(methods, partitioners, data_name)
        except Exception as error:  # the package raises errors of many unrelated classes
            raise UnsupportedError(
                f"executorch cannot lower the program: {type(error).__name__}: {_told(error)}",
                hint="The traceback of its cause tells where it stopped",
            ) from error


def _told(error: Exception) -> str:
    """The first line of an error; of one without a text, the line of code that raised it."""
    first = str(error).strip().partition("\n")[0]
    frames = traceback.extract_tb(error.__traceback__)
    return first or f"{frames[-1].line} in {frames[-1].name}"


def require_package() -> None:
    """Raise UnsupportedError unless the executorch package can be imported."""
    try:
        importlib.import_module("executorch.exir")
    except ImportError as error:
        raise UnsupportedError(
            "programs of ExecuTorch are made by the executorch package, which cannot be imported: "
            f"{error}",
            hint='pip install "tsarchive[executorch]"',
        ) from error


def _partitioner(name: str) -> Any:
    known = BACKENDS.get(name.lower())
    if known is None:
        raise CallError(f"no backend is called {name!r}", hint=f"There are: {', '.join(BACKENDS)}")
    module, member = known
    return getattr(importlib.import_module(module), member)()


def _lowered(
    methods: Mapping[str, ExportedProgram], partitioners: list[Any], data_name: str | None
) -> Any:
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    core = {name: with_core_operators(program) for name, program in methods.items()}
    edge = to_edge_transform_and_lower(core, partitioner=partitioners or None)
    programs = map(edge.exported_program, methods)  # only here are their mutations known
    buffers = sorted({name for program in programs for name in _changed_buffers(program)})
    config = ExecutorchBackendConfig(
        passes=[InitializedMutableBufferPass(buffers)] if buffers else [],
        external_constants=(lambda node: data_name) if data_name else False,
        emit_mutable_buffer_names=bool(buffers),
    )
    return edge.to_executorch(config)


def _changed_buffers(program: ExportedProgram) -> Iterator[str]:
    """Yield the placeholders of buffers that the program mutates, unless initially zero.

    Arenas are zeros when a method is loaded.
    """
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    for placeholder, buffer in signature.inputs_to_buffers.items():
        found = program.state_dict.get(buffer, program.constants.get(buffer))
        if buffer in changed and isinstance(found, torch.Tensor) and found.count_nonzero():
            yield placeholder


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
    def max_difference(self) -> float | None:
        """The larger of both differences, None where there are none."""
        known = (self.runtime_difference, self.source_difference)
        return max((apart for apart in known if apart is not None), default=None)

    @property
    def ok(self) -> bool:
        return self.problem is None

    @property
    def summary(self) -> str:
        """The differences in words."""
        runtime, source = self.runtime_difference or 0.0, self.source_difference or 0.0
        return (
            f"results are {runtime:.3g} from those of the runtime, {source:.3g} from those of its "
            "source"
        )


def _of_method(
    name: str,
    program: bytes,
    data: bytes | None,
    source: ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Agreement:
    expected = source_outputs(source, (args, kwargs))
    try:
        module: Any = load(io.BytesIO(program), data=None if data is None else io.BytesIO(data))
        found = outputs_of(getattr(module, name)(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
    except (ArchiveError, RuntimeError) as error:
        return Agreement(name, None, None, f"our runner: {error}")
    beside = compare_outputs(found, expected, rtol=_RELATIVE, atol=_ABSOLUTE)
    try:
        runtime = Backends(program, () if data is None else (data,))
        there = outputs_of(
            runtime.run(name, tree_leaves((copy.deepcopy(args), copy.deepcopy(kwargs))))
        )
    except ArchiveError as error:
        return Agreement(name, None, beside.max_difference, str(error))
    other = compare_outputs(found, there, rtol=_RELATIVE, atol=_ABSOLUTE)
    problem = f"the runtime: {other.problem}" if other.problem else None
    if problem is None and beside.problem is not None:
        problem = f"the program it was made from: {beside.problem}"
    return Agreement(name, other.max_difference, beside.max_difference, problem)


def write(
    methods: Mapping[str, ExportedProgram],
    dst: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    *,
    backends: Sequence[str] = (),
    step: Callable[[str], None] = no_step,
) -> bool:
    """Lower programs and write them, with their constants in the file ``data`` if given.

    Returns whether a data file was written: none is where backends took all constants. Either both
    files are replaced, or none. Raises what ``lower`` raises, and OSError.
    """
    name = None
    if data is not None:
        path = Path(os.fsdecode(data))
        if path.suffix != ".ptd" or not path.stem:
            raise CallError(f"the name {path.name!r} of the data file does not end in .ptd")
        name = path.stem  # of the package
    step("lowering")
    lowered = lower(methods, backends=backends, data_name=name)
    constants = (lowered._tensor_data or {}).get(name)
    step(f"writing {os.fspath(dst)}")
    with ExitStack() as files:
        lowered.write_to_file(files.enter_context(replacing(os.fsdecode(dst))))
        if data is not None and constants is not None:
            constants.write_to_file(files.enter_context(replacing(os.fsdecode(data))))
    return constants is not None


def check(
    methods: Mapping[str, ExportedProgram],
    examples: Mapping[str, ExampleCall],
    dst: str | os.PathLike[str],
    data: str | os.PathLike[str] | None,
) -> tuple[Agreement, ...]:
    """Compare the written program with its source and with the runtime.

    Each method that has example inputs is run three times: here, in the runtime, and its source.
    """
    if not examples:
        return ()
    program = Path(dst).read_bytes()
    content = None if data is None else Path(data).read_bytes()
    return tuple(
        _of_method(name, program, content, methods[name], args, kwargs)
        for name, (args, kwargs) in examples.items()
    )
