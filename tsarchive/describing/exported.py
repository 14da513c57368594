"""The facts about archives of torch.export, also in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .text import OPERATORS_SHOWN, Lines, counts_text, named, plural, size


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """A weight or constant that only a pickle describes. ``class_name`` is None where the
    restricted reader cannot tell."""

    name: str
    kind: str
    class_name: str | None
    record: str


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """An exported program. ``operators`` counts nodes; ``needs`` are what does not come with
    torch, each with what to do. ``sample_inputs`` are types, None where there are no inputs;
    ``sample_inputs_problem`` tells why they cannot be described."""

    name: str
    main_class: str
    schema_version: str
    torch_version: str
    opset: Mapping[str, int]
    verifiers: tuple[str, ...]
    signature: str
    modules: int
    nodes: int
    graphs: int
    operators: Mapping[str, int]
    needs: Mapping[str, str]
    parameters: int
    buffers: int
    constants: int
    ranges: Mapping[str, str]
    guards: tuple[str, ...]
    objects: tuple[ObjectFacts, ...]
    sample_inputs: str | None
    sample_inputs_problem: str | None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled model.

    ``files`` are its files with their bytes; ``metadata`` is their description of the machine and
    the device, ``weights`` the number of weights stored beside the code.
    """

    name: str
    files: Mapping[str, int]
    metadata: Mapping[str, str]
    weights: int


@dataclass(frozen=True, slots=True)
class ExportedFacts:
    """``compiled`` is machine code, which is never loaded; ``executorch`` and ``extra`` are files
    with their bytes."""

    layout: str
    models: tuple[ModelFacts, ...]
    compiled: tuple[Compiled, ...]
    executorch: Mapping[str, int]
    extra: Mapping[str, int]


_LAYOUTS = {
    "raw": "a record for each storage, as torch 2.9 and later write it",
    "whole": "one record for all weights of a model, as torch 2.8 wrote it",
    "flat": "one program with its weights, as torch 2.3 to 2.7 wrote it",
}
_GUARDS_SHOWN = 5


def exported_lines(facts: ExportedFacts) -> Lines:
    yield "layout", _LAYOUTS[facts.layout] if facts.models else "no exported program"
    for model in facts.models:
        yield from _model_lines(model)
    for machine in facts.compiled:
        yield from _compiled_lines(machine)
    if facts.executorch:
        yield "ExecuTorch", _files(facts.executorch)
    if facts.extra:
        yield "extra files", _files(facts.extra)
    for model in facts.models:
        suffix = f" of {model.name}" if len(facts.models) > 1 else ""
        yield f"operators{suffix}", counts_text(model.operators, OPERATORS_SHOWN)
        yield from named(f"needs{suffix}", model.needs, "nothing beyond torch")


def _model_lines(model: ModelFacts) -> Lines:
    opset = ", ".join(f"{name} {number}" for name, number in model.opset.items())
    yield "model", f"{model.name}, of class {model.main_class}"
    yield (
        "exported by",
        f"torch {model.torch_version}, schema {model.schema_version}, opset {opset or 'none'}, "
        f"{', '.join(model.verifiers) or 'no verifier'}",
    )
    yield "signature", model.signature
    yield (
        "graph",
        f"{plural(model.nodes, 'node')} in {plural(model.graphs, 'graph')}, "
        f"{plural(model.modules, 'module')}",
    )
    yield (
        "weights",
        f"{plural(model.parameters, 'parameter')}, {plural(model.buffers, 'buffer')}, "
        f"{plural(model.constants, 'constant')}",
    )
    yield from _symbol_lines(model)
    for held in model.objects:
        class_name = held.class_name or "unknown class"
        yield "pickled", f"{held.name}: {held.kind} of {class_name}, in {held.record}"
    problem = model.sample_inputs_problem
    inputs = model.sample_inputs or "none"
    yield "sample inputs", inputs if problem is None else f"not described: {problem}"


def _symbol_lines(model: ModelFacts) -> Lines:
    if model.ranges:
        yield "ranges", ", ".join(f"{symbol}: {text}" for symbol, text in model.ranges.items())
    for number, guard in enumerate(model.guards[:_GUARDS_SHOWN]):
        yield "" if number else "guards", guard
    if (more := len(model.guards) - _GUARDS_SHOWN) > 0:
        yield "", f"and {more:,} more: --json lists them"


def _compiled_lines(machine: Compiled) -> Lines:
    total = sum(machine.files.values())
    yield (
        "machine code",
        f"{machine.name}, by AOTInductor: {plural(len(machine.files), 'file')}, {size(total)}; "
        "it is never loaded",
    )
    if machine.metadata:
        yield "", ", ".join(f"{key} {value}" for key, value in machine.metadata.items())
    if machine.weights:
        yield "", f"{plural(machine.weights, 'weight')} beside the code"
    yield "", _files(machine.files)


def _files(files: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({size(nbytes)})" for name, nbytes in files.items())
