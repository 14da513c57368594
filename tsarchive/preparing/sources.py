"""Sources of ExecuTorch programs: torch.export programs by method name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from tsarchive.container import Container
from tsarchive.errors import CallError
from tsarchive.exporting import to_exported_program
from tsarchive.kinds import PT2, kind_of
from tsarchive.loading import load
from tsarchive.policy import Policy

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["EXPORTED", "Call", "Source", "is_program", "require_call", "source_of"]

Example = tuple[Sequence[Any], Mapping[str, Any]]
FORWARD: Final = "forward"
EXPORTED: Final = "exported program"


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call, and the sizes that stay dynamic when it is traced."""

    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None

    @property
    def is_given(self) -> bool:
        return self.args is not None or self.kwargs is not None


@dataclass(frozen=True, slots=True)
class Source:
    """Programs by method, with example arguments where they have any.

    ``name`` and ``kind`` tell where they came from: a path and the kind of its archive.
    """

    name: str
    kind: str
    methods: Mapping[str, ExportedProgram]
    examples: Mapping[str, Example]


def is_program(value: Any) -> bool:
    """Return whether the value is a program of torch.export, or several by name."""
    if isinstance(value, Mapping):
        return bool(value) and all(map(is_program, value.values()))
    return isinstance(value, torch.export.ExportedProgram)


def source_of(
    src: Any, call: Call, *, model: str | None = None, policy: Policy | None = None
) -> Source:
    """Return programs as they are, those of a PT2 archive, or torch.export's traces of TorchScript.

    Several models of a PT2 archive become methods of their names, unless ``model`` selects one.
    Raises CallError for missing or surplus arguments, and what ``load`` raises.
    """
    if is_program(src):
        methods = dict(src) if isinstance(src, Mapping) else {FORWARD: src}
        _take_no_shapes(call)
        return Source(EXPORTED, EXPORTED, methods, _examples(methods, call))
    kind = _kind(src)
    if kind == PT2:
        _take_no_shapes(call)
        methods, samples = _models(src, model, policy)
        examples = _examples(methods, call) if call.is_given else samples
        return Source(os.fspath(src), kind, methods, examples)
    require_call(call)
    module = load(src, policy=policy, model=model)
    program = to_exported_program(
        module, call.args or (), call.kwargs, dynamic_shapes=call.dynamic_shapes
    )
    methods = {FORWARD: program}
    return Source(os.fspath(src), kind, methods, _examples(methods, call))


def require_call(call: Call) -> None:
    """Raise CallError unless there are arguments that torch.export can trace."""
    if not call.is_given:
        raise CallError(
            "torch.export traces a call, so TorchScript is converted with example arguments",
            hint="Give them as args and kwargs",
        )


def _kind(src: str | os.PathLike[str]) -> str:
    with Container.open(src) as container:
        return kind_of(container.records)


def _models(
    src: str | os.PathLike[str], model: str | None, policy: Policy | None
) -> tuple[dict[str, ExportedProgram], dict[str, Example]]:
    from tsarchive.pt2.records import Records
    from tsarchive.pt2.reexporting import exported_program
    from tsarchive.pt2.sample_values import sample_values

    methods: dict[str, ExportedProgram] = {}
    samples: dict[str, Example] = {}
    with Container.open(src) as container:
        records = Records(container)
        names = _method_names(records.models, model)
        for name, method in names.items():
            methods[method] = exported_program(load(src, policy=policy, model=name))
            found = sample_values(records, name)
            if found is not None:
                samples[method] = found
    return methods, samples


def _method_names(models: Sequence[str], model: str | None) -> dict[str, str]:
    """Return the method name of each model; loading reports an unknown ``model``."""
    if model is not None:
        return {model: FORWARD}
    return {name: name if len(models) > 1 else FORWARD for name in models}


def _take_no_shapes(call: Call) -> None:
    if call.dynamic_shapes is not None:
        raise CallError(
            "the sizes of an exported program are as they were exported",
            hint="Leave out dynamic_shapes",
        )


def _examples(methods: Mapping[str, ExportedProgram], call: Call) -> dict[str, Example]:
    """Return the given arguments, for a single method; else those that programs have."""
    if call.is_given:
        if len(methods) > 1:
            raise CallError("there are several methods, and arguments of one call")
        return {name: (call.args or (), call.kwargs or {}) for name in methods}
    return {
        name: program.example_inputs for name, program in methods.items() if program.example_inputs
    }
