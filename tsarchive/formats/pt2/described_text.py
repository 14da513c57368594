"""The facts of a PT2 archive in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsarchive.describing.facts import ExportedFacts, ModelFacts
from tsarchive.describing.text import plural, size

from .compiled import Compiled

Lines = Iterator[tuple[str, str]]

_LAYOUTS = {
    "raw": "a record for each storage, as torch 2.9 and later write it",
    "whole": "one record for all weights of a model, as torch 2.8 wrote it",
    "flat": "one program with its weights, as torch 2.3 to 2.7 wrote it",
}
_GUARDS_SHOWN = 5


def exported_lines(facts: ExportedFacts) -> Lines:
    """A label and a text each. Operators and needs of models are left to the caller."""
    yield "layout", _LAYOUTS[facts.layout] if facts.models else "no exported program"
    for model in facts.models:
        yield from _model_lines(model)
    for machine in facts.compiled:
        yield from _compiled_lines(machine)
    if facts.executorch:
        yield "ExecuTorch", _files(facts.executorch)
    if facts.extra:
        yield "extra files", _files(facts.extra)


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
    yield "sample inputs", _sample_inputs(model)


def _symbol_lines(model: ModelFacts) -> Lines:
    if model.ranges:
        yield "ranges", ", ".join(f"{symbol}: {text}" for symbol, text in model.ranges.items())
    for number, guard in enumerate(model.guards[:_GUARDS_SHOWN]):
        yield "" if number else "guards", guard
    if (more := len(model.guards) - _GUARDS_SHOWN) > 0:
        yield "", f"and {more:,} more: --json lists them"


def _sample_inputs(model: ModelFacts) -> str:
    if model.sample_inputs_problem is not None:
        return f"not described: {model.sample_inputs_problem}"
    return model.sample_inputs or "none"


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
