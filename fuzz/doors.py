"""Fuzz targets that load. Each returns a result or raises ArchiveError."""

from __future__ import annotations

import io
from collections.abc import Callable
from math import prod
from typing import Any

import torch

import tsarchive
from tsarchive.formats.executorch.methods import Tensor
from tsarchive.formats.torchscript.tensors import without_warnings
from tsarchive.ir.types import annotation
from tsarchive.run.modules import ArchiveModule
from tsarchive.testing.mutated_archive import take_apart

MOST_ELEMENTS = 1 << 20
LIMITS = tsarchive.Limits(steps=2000, seconds=1.0, nbytes=1 << 26)


def load(data: bytes) -> None:
    """Load with the default policy for untrusted files."""
    tsarchive.load(io.BytesIO(data))


def load_moved(data: bytes) -> None:
    """Load with devices changed, which reads and edits the code records."""
    tsarchive.load(io.BytesIO(data), map_location="meta")


def compile_all(data: bytes) -> None:
    """Load, and compile each method of each class."""
    module = tsarchive.load(io.BytesIO(data))
    classes = type(module).tsarchive_classes
    for _, type_ in classes.table.module_classes():
        for function in type_.methods.values():
            classes.compiler.function(function).compile()


def run(data: bytes) -> None:
    """Load and call ``forward`` with small tensors, with limits.

    Code may raise anything, but must exhaust neither memory nor Python's stack.
    """
    module = tsarchive.load(io.BytesIO(data), limits=LIMITS)
    _call(module, _arguments(module))


def _call(module: Callable[..., Any], arguments: list[Any]) -> None:
    try:
        module(*arguments)
    except (tsarchive.ArchiveError, MemoryError, RecursionError, SystemError):
        raise
    except Exception as error:
        raise tsarchive.CallError(f"the call raised {type(error).__name__}") from error


def run_exported(data: bytes) -> None:
    """Load a PT2 archive, and call it with small tensors, with limits."""
    module = tsarchive.load(io.BytesIO(data), limits=LIMITS)
    _call(module, [_VALUES.get(type_, torch.ones(2, 4)) for type_ in _types(module)])


def run_program(data: bytes) -> None:
    """Load an ExecuTorch program, and call each method with matching tensors, with limits."""
    module = tsarchive.load(io.BytesIO(data), limits=LIMITS)
    with tsarchive.open(io.BytesIO(data)) as archive:
        methods = archive.executorch.regions.require_program().methods
    for method in methods:
        call = vars(type(module)).get(method.name)
        if call is not None:
            inputs = [_like(method.values[index]) for index in method.inputs]
            _call(call.__get__(module, type(module)), inputs)


def _like(value: Any) -> Any:
    """Return an argument for an input of a program."""
    if not isinstance(value, Tensor):
        return value
    if prod(value.sizes) > MOST_ELEMENTS:
        raise tsarchive.CallError("an input is large")
    with without_warnings():  # about dtypes, which are the caller's here
        return torch.ones(value.sizes).to(getattr(torch, value.dtype))


def _arguments(module: ArchiveModule) -> list[Any]:
    return [_VALUES.get(type_, torch.ones(2, 2)) for type_ in _types(module, required=True)]


def _types(module: ArchiveModule, *, required: bool = False) -> list[str]:
    forward = module.tsarchive_class.methods.get("forward")
    if forward is None:
        return []
    arguments = forward.schema.arguments[1:]
    return [annotation(a.type) for a in arguments if not (required and a.has_default)]


_VALUES: dict[str, Any] = {
    "int": 2,
    "float": 0.5,
    "bool": True,
    "str": "a{}b",
    "List[int]": [1, 2],
    "List[float]": [0.5],
    "List[str]": ["a", "b"],
    "List[Tensor]": [torch.ones(2, 2)] * 2,
    "Dict[str, Tensor]": {"a": torch.ones(2, 2)},
    "Optional[Tensor]": None,
}


def replaced(archive: bytes, record: str, content: bytes) -> bytes:
    """Return the archive with other content for a record, in a sound container."""
    draft = take_apart(archive).copy()
    for index, member in enumerate(draft.members):
        if member.record == record:
            draft.members[index] = member.with_content(content, content, 0)
    return draft.written()
