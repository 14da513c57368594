"""Sources of ExecuTorch programs: torch.export programs by method name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from tsarchive.container import Container
from tsarchive.container.source import open_source
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.base import Example, LoadOptions, ZipFormat, leave_out
from tsarchive.formats.pt2.exporter import traced_program
from tsarchive.formats.registry import file_format, zip_format
from tsarchive.loading import load_opened
from tsarchive.policy import Guard, Policy

if TYPE_CHECKING:
    from torch.export import ExportedProgram


Call = tuple[Sequence[Any], Mapping[str, Any]]
FORWARD: Final = "forward"
EXPORTED: Final = "exported program"


@dataclass(frozen=True, slots=True)
class Source:
    """Programs by method, with example arguments where they have any.

    ``name`` and ``kind`` tell where they came from: a path and the kind of its archive.
    """

    name: str
    kind: str
    methods: Mapping[str, ExportedProgram]
    examples: Mapping[str, Call]


def is_program(value: Any) -> bool:
    """Return whether the value is a program of torch.export, or several by name."""
    if isinstance(value, Mapping):
        return bool(value) and all(map(is_program, value.values()))
    return isinstance(value, torch.export.ExportedProgram)


def source_of(
    src: Any, call: Example, *, model: str | None = None, policy: Policy | None = None
) -> Source:
    """Return programs as they are, those of a PT2 archive, or torch.export's traces of TorchScript.

    Several models of a PT2 archive become methods of their names, unless ``model`` selects one.
    Raises CallError for missing or surplus arguments, and what ``load`` raises.
    """
    if is_program(src):
        methods = dict(src) if isinstance(src, Mapping) else {FORWARD: src}
        _take_no_shapes(call)
        return Source(EXPORTED, EXPORTED, methods, _examples(methods, call))
    opened, found = opened_archive(src)
    options = LoadOptions(None, Guard() if policy is None else Guard(policy), model)
    if found.has_programs:
        _take_no_shapes(call)
        methods, samples = _models(opened, options)
    else:
        require_call(call)
        module = load_opened(opened, options)
        program = traced_program(
            module, call.args or (), call.kwargs, dynamic_shapes=call.dynamic_shapes
        )
        methods, samples = {FORWARD: program}, {}
    examples = _examples(methods, call) if call.is_given else samples
    return Source(os.fspath(src), found.kind, methods, examples)


def require_call(call: Example) -> None:
    """Raise CallError unless there are arguments that torch.export can trace."""
    if not call.is_given:
        raise CallError(
            "torch.export traces a call, so TorchScript is converted with example arguments",
            hint="Give them as args and kwargs",
        )


def opened_archive(src: str | os.PathLike[str]) -> tuple[Container, ZipFormat]:
    """Open a file to convert; return its format, too. Raises UnsupportedError for ExecuTorch."""
    source = open_source(src)
    own = file_format(source.data)
    if own is not None:
        source.close()
        raise UnsupportedError(
            f"a .{own.kind} file is not converted: what it was made from had more in it",
            hint="Convert the archive or program that it was made from",
        )
    container = Container.of_source(source)
    return container, zip_format(container.records)


def _models(
    opened: Container, options: LoadOptions
) -> tuple[dict[str, ExportedProgram], dict[str, Call]]:
    from tsarchive.formats.pt2.exporter import exported_program
    from tsarchive.formats.pt2.importer import sample_values
    from tsarchive.formats.pt2.records import Records

    methods: dict[str, ExportedProgram] = {}
    samples: dict[str, Call] = {}
    records = Records(opened)
    # Loading reports an unknown ``model``.
    names = records.models if options.model is None else [options.model]
    for name in names:
        method = name if len(names) > 1 else FORWARD
        methods[method] = exported_program(load_opened(opened, replace(options, model=name)))
        found = sample_values(records, name)
        if found is not None:
            samples[method] = found
    return methods, samples


def _take_no_shapes(call: Example) -> None:
    if call.dynamic_shapes is not None:
        raise CallError(
            "the sizes of an exported program are as they were exported",
            hint=leave_out("dynamic_shapes"),
        )


def _examples(methods: Mapping[str, ExportedProgram], call: Example) -> dict[str, Call]:
    """Return the given arguments, for a single method; else those that programs have."""
    if call.is_given:
        if len(methods) > 1:
            raise CallError("there are several methods, and arguments of one call")
        return {name: (call.args or (), call.kwargs or {}) for name in methods}
    return {
        name: program.example_inputs for name, program in methods.items() if program.example_inputs
    }
