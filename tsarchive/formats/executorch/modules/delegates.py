"""Execution of programs with delegated subgraphs in the ExecuTorch runtime.

The runtime and its backends are native code, and read the bytes of the file without checks of ours:
the file is verified before, and a policy can forbid backends by name.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import torch

from tsarchive.container.source import Source
from tsarchive.errors import FormatError, ScriptError, UnsupportedError
from tsarchive.findings import Severity
from tsarchive.formats.executorch.header import PTE, kind_of
from tsarchive.formats.executorch.program import Program
from tsarchive.formats.executorch.verifying.checking import verify_executorch
from tsarchive.policy import Policy

_RUNTIME: Final = "executorch"
_QUANTIZED: Final = "executorch.kernels.quantized"


def backends_of(program: Program) -> list[str]:
    """Return the backends that the methods of a program call, without duplicates."""
    found = (
        delegate.backend
        for index in program.indices.values()
        for delegate in program.methods[index].delegates
    )
    return list(dict.fromkeys(found))


def can_run() -> bool:
    """Return whether the runtime is installed."""
    return find_spec(_RUNTIME) is not None and find_spec(f"{_RUNTIME}.runtime") is not None


def are_allowed(program: Program, policy: Policy) -> bool:
    """Return whether the policy allows each backend that a program calls."""
    return not any(policy.refusal(f"delegate::{name}") for name in backends_of(program))


def check_sound(content: bytes) -> None:
    """Raise FormatError where verify finds an error: the runtime checks less."""
    source = Source(memoryview(content))
    report = verify_executorch(source, kind_of(content) or PTE, lambda step: None)
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
        self._loaded: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Backends, (self._program, self._data)

    def __deepcopy__(self, memo: dict[int, Any]) -> Backends:
        """Copy the program, but not the state that calls left in its memory."""
        return Backends(self._program, self._data)

    def run(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of a method. Raises ScriptError where the runtime fails."""
        try:
            outputs = self._method(method).execute(list(inputs))
        except (RuntimeError, ValueError) as error:
            raise ScriptError(f"the runtime of ExecuTorch fails in {method!r}: {error}") from error
        return [_own(output) for output in outputs]

    def _method(self, name: str) -> Any:
        if name not in self._methods:
            self._methods[name] = self._runtime_program().load_method(name)
        return self._methods[name]

    def _runtime_program(self) -> Any:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> Any:
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


def _own(output: Any) -> Any:
    return output.detach().clone() if isinstance(output, torch.Tensor) else output
