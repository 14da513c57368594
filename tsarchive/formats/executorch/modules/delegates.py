"""Execution of programs with delegated subgraphs in the ExecuTorch runtime.

The runtime and its backends are native code, and read the bytes of the file without checks of ours:
the file is verified before, with the constants that XNNPACK does not check, and a policy can forbid
backends by name. Modules of such programs have methods like others, and no buffers: weights are
data of backends.
"""

from __future__ import annotations

import struct
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import torch

from tsarchive.container.source import Source
from tsarchive.errors import FormatError, ScriptError, UnsupportedError
from tsarchive.findings import Severity
from tsarchive.formats.base import leave_out
from tsarchive.formats.executorch.content import RECORD, Program, first_by_key
from tsarchive.formats.executorch.flatbuffer import Buffer
from tsarchive.formats.executorch.header import PTE, kind_of
from tsarchive.formats.executorch.methods import Method
from tsarchive.formats.executorch.regions import Regions
from tsarchive.formats.executorch.schema import Field, Schema, require_known
from tsarchive.formats.executorch.verification import verify_executorch
from tsarchive.ir.classes import ClassType, Function
from tsarchive.policy import NO_LIMITS, Guard
from tsarchive.run.objects import new_object
from tsarchive.run.slots import set_slot
from tsarchive.steps import no_step

from .calling_convention import MEMORY, Arguments, result_of, signature_of, with_lock
from .importer import TRAINING, Data, ProgramImporter, PteImporter, failing_method

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule

_RUNTIME: Final = "executorch"
_QUANTIZED: Final = "executorch.kernels.quantized"


def can_run() -> bool:
    """Return whether the runtime is installed."""
    return find_spec(_RUNTIME) is not None and find_spec(f"{_RUNTIME}.runtime") is not None


def check_sound(content: bytes) -> None:
    """Raise FormatError where verify finds an error: the runtime checks less."""
    source = Source(memoryview(content))
    report = verify_executorch(source, kind_of(content) or PTE, no_step)
    for finding in report.findings:
        if finding.severity is Severity.ERROR:
            raise FormatError(
                f"{finding.message} ({finding.rule})", record=finding.record,
                hint="The runtime of ExecuTorch is not given what is not sound",
            )  # fmt: skip


class Backends:
    """A program in the runtime, which owns its memory; loaded on the first call.

    ``data`` are the bytes of data files, of which the runtime accepts one.
    """

    def __init__(self, program: bytes, data: Sequence[bytes]) -> None:
        self._program = program
        self._data = tuple(data)
        self.lock = threading.RLock()
        self._methods: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the program, but not the state that calls left in its memory."""
        return Backends, (self._program, self._data)

    def run(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of a method. Raises ScriptError where the runtime fails."""
        try:
            outputs = self._method(method).execute(list(inputs))
        except (RuntimeError, ValueError) as error:
            raise ScriptError(f"the runtime of ExecuTorch fails in {method!r}: {error}") from error
        return [
            output.detach().clone() if isinstance(output, torch.Tensor) else output
            for output in outputs
        ]

    def _method(self, name: str) -> Any:
        if name not in self._methods:
            self._methods[name] = self._loaded.load_method(name)
        return self._methods[name]

    @cached_property
    def _loaded(self) -> Any:
        runtime = _runtime()
        if not self._data:
            return runtime.load_program(self._program)
        if len(self._data) > 1:
            raise UnsupportedError("the runtime of ExecuTorch takes one data file")
        return _from_files(runtime, self._program, self._data[0])


def _runtime() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import warns that it is experimental
        from executorch.runtime import Runtime

        if find_spec(_QUANTIZED) is not None:
            import_module(_QUANTIZED)  # registers operators that the runtime lacks by default
        return Runtime.get()


def _from_files(runtime: Any, program: bytes, data: bytes) -> Any:
    """Load from files: the runtime opens data only by path. The mapped file may then be deleted."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/program.pte", f"{folder}/program.ptd"]
        for path, content in zip(paths, (program, data), strict=True):
            with open(path, "wb") as file:
                file.write(content)
        return runtime.load_program(paths[0], data_path=paths[1])


_BACKEND: Final = "XnnpackBackend"
_MAGIC: Final = b"XH00"
_MAGIC_AT: Final = slice(4, 8)
# The offset and size of the tables in the subgraph, from its own header.
_TABLES: Final = struct.Struct("<10xII")

# The part of the backend's ``schema.fbs`` that is read: nodes and values are the backend's
# business.
XNN_GRAPH: Final = Schema(
    identifier=b"XN01",
    root="XNNGraph",
    tables={
        "XNNGraph": (
            Field("version", "text"),
            Field("xnodes", "[Unread]"),
            Field("xvalues", "[Unread]"),
            Field("num_externs", "u32"),
            Field("input_ids", "[u32]"),
            Field("output_ids", "[u32]"),
            Field("constant_buffer", "[Unread]"),
            Field("mem_buffer_sizes", "[u32]"),
            Field("constant_data", "[ConstantData]"),
        ),
        "ConstantData": (Field("offset", "u64"), Field("size", "u64"), Field("named_key", "text")),
        "Unread": (),
    },
    unions={},
)


def check_constants(program: Program, data: Data) -> None:
    """Raise MissingRecordError for a constant that neither program nor data files have.

    Raises FormatError for one that has fewer bytes there than it takes.
    """
    inside = first_by_key((entry.key, entry.segment) for entry in program.named_data)
    wanted = {
        key: size
        for method in program.reachable_methods
        for delegate in method.delegates
        if delegate.backend == _BACKEND
        for key, size in _named(program.delegate_data(delegate))
    }
    for key, size in wanted.items():
        found = program.segment(inside[key]) if key in inside else data.bytes_by_name(key)
        if len(found) < size:
            raise FormatError(
                f"the constant {key!r} takes {size:,} bytes, and {len(found):,} are there",
                record=f"named_data/{key}",
            )


def _named(part: memoryview) -> Iterator[tuple[str, int]]:
    """Yield names and sizes; none for earlier layouts, which contain all of their constants."""
    if bytes(part[_MAGIC_AT]) != _MAGIC or len(part) < _TABLES.size:
        return
    start, size = _TABLES.unpack_from(part)
    tables = part[start : start + size]
    if bytes(tables[_MAGIC_AT]) == XNN_GRAPH.identifier:
        for constant in Buffer(tables, XNN_GRAPH).root().tables("constant_data") or ():
            key = constant.text("named_key")
            if key:
                yield key, constant.scalar("size")


_NO_GRAPH = "it runs in the runtime of ExecuTorch, and has no graph here"


class DelegatedImporter(ProgramImporter):
    """Loads a program whose methods call backends; the runtime runs it.

    Raises FormatError for an invalid file, MissingRecordError for a constant that is in no data
    file, UnsupportedError for limits, which cannot be enforced in native code.
    """

    def __init__(self, regions: Regions, guard: Guard, data: Data | None) -> None:
        if guard.limits != NO_LIMITS:
            raise UnsupportedError("limits do not hold for parts that backends run")
        super().__init__(regions, guard, data)
        self._files = tuple(bytes(file.data) for file in self._data.files)

    def _fill(self, made: ClassType) -> None:
        for method in self.program.reachable_methods:
            made.methods[method.name] = failing_method(made, method, UnsupportedError(_NO_GRAPH))

    def _public(self, method: Method, function: Function) -> Callable[..., Any]:
        taken, finish = Arguments(method), result_of(method)

        def call(module: Any, *given: Any, **keywords: Any) -> Any:
            leaves = taken.flat(given, keywords)
            # A string leaves no trace in a program.
            plain = [None if isinstance(leaf, str) else leaf for leaf in leaves]
            outputs = module.__dict__[MEMORY].run(method.name, plain)
            return finish(outputs[0] if len(outputs) == 1 else tuple(outputs))

        call.__name__ = call.__qualname__ = method.name
        call.__signature__ = signature_of(taken)  # type: ignore[attr-defined]
        return with_lock(call)

    def load(self) -> ArchiveModule:
        """Return the module; the runtime loads the program when a method is first called."""
        content = bytes(self.program.data)
        for checked in (content, *self._files):
            check_sound(checked)
        check_constants(self.program, self._data)
        made = new_object(self.classes.table.python_class(self.type))
        made.__dict__[MEMORY] = Backends(content, self._files)
        set_slot(made, TRAINING, False)
        return made  # type: ignore[no-any-return]


def importer_of_program(
    regions: Regions, device: torch.device | None, guard: Guard, data: Data | None
) -> ProgramImporter:
    """Return an importer for the program.

    Raises UnsupportedError for data files, later versions and devices other than the CPU.
    """
    if device is not None and device.type != "cpu":
        raise UnsupportedError(
            f"a program of ExecuTorch runs on the CPU, not on {device}",
            hint=leave_out("map_location"),
        )
    program = regions.require_program()
    require_known(program.version, RECORD)
    backends = {one.backend for method in program.reachable_methods for one in method.delegates}
    is_allowed = not any(guard.policy.refusal(f"delegate::{name}") for name in backends)
    if backends and is_allowed and can_run():
        return DelegatedImporter(regions, guard, data)
    return PteImporter(regions, guard, data)
