"""The facts of a file in words: a label and a text each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .contents import totals_text
from .facts import (
    Compiled,
    ExecutorchFacts,
    ExportedFacts,
    Facts,
    MethodFacts,
    ModelFacts,
    ProgramFacts,
    TensorFacts,
)
from .text import listed, plural, size

Lines = Iterator[tuple[str, str]]

_LAYOUTS = {
    "raw": "a record for each storage, as torch 2.9 and later write it",
    "whole": "one record for all weights of a model, as torch 2.8 wrote it",
    "flat": "one program with its weights, as torch 2.3 to 2.7 wrote it",
}
_GUARDS_SHOWN = 5
_NAMES_SHOWN = 12
_OPERATORS_SHOWN = 12


def fact_lines(facts: Facts) -> Lines:
    """Yield all but the records; an empty label continues the line before."""
    version = "not recorded" if facts.format_version is None else str(facts.format_version)
    yield "file", facts.file
    yield "kind", f"{facts.kind}, format version {version}"
    yield "size", f"{size(facts.bytes)} ({facts.bytes:,} bytes)"
    if facts.executorch is None:
        yield "root folder", facts.root or "none"
        yield "byte order", facts.byte_order or "not recorded"
        yield "compression", _counts(facts.compression)
        yield "serialization id", facts.serialization_id or "not recorded"
    else:
        yield from _executorch_lines(facts.executorch)
    if facts.program is not None:
        yield from _program_lines(facts.program)
    if facts.exported is not None:
        yield from _exported_lines(facts.exported)
    if facts.tensors is not None:
        yield from _tensor_lines(facts.tensors, has_roles=facts.executorch is None)


def named(label: str, hints: Mapping[str, str], nothing: str) -> Lines:
    """Yield names under a label; those with the same hint together, and the hint below them."""
    if not hints:
        yield label, nothing
    for hint in dict.fromkeys(hints.values()):
        yield label, ", ".join(name for name, other in hints.items() if other == hint)
        yield "", hint
        label = ""


def _program_lines(program: ProgramFacts) -> Lines:
    yield "main class", program.main_class
    yield "origin", "traced" if program.has_traced_inputs else "not recorded"
    yield "modules", f"{plural(program.modules, 'module')} of {plural(program.classes, 'class')}"
    yield (
        "code",
        f"{plural(program.methods, 'method')}, {plural(program.functions, 'free function')}",
    )
    for number, text in enumerate(program.signatures):
        yield "" if number else "methods", text
    if program.native_classes:
        yield "torchbind classes", ", ".join(program.native_classes)
    yield "operators", _counts(program.operators, _OPERATORS_SHOWN)
    yield from named("needs", program.needs, "nothing beyond torch")


def _exported_lines(facts: ExportedFacts) -> Lines:
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
        yield f"operators{suffix}", _counts(model.operators, _OPERATORS_SHOWN)
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


def _executorch_lines(facts: ExecutorchFacts) -> Lines:
    bytes_text = "none" if facts.header_bytes is None else f"{facts.header_bytes} bytes"
    yield "header", bytes_text
    if facts.is_data_of_06:
        yield "layout", "of ExecuTorch 0.6, which later runtimes do not read"
    for method in facts.methods:
        yield from _method_lines(method)
    if facts.named_data:
        yield "named data", listed(facts.named_data, _NAMES_SHOWN)
    if facts.external:
        yield "needs data", f"{listed(facts.external, _NAMES_SHOWN)}: in a data file (.ptd)"
    for method_name, cases in facts.test_cases.items():
        yield "test suite", f"{method_name}: {plural(cases, 'call')} with expected results"


def _method_lines(method: MethodFacts) -> Lines:
    yield "method", method.signature
    yield "", f"{plural(method.values, 'value')}, {plural(method.instructions, 'instruction')}"
    if method.operators:
        yield "", _counts(method.operators, _OPERATORS_SHOWN)
    for backend, nbytes in method.delegates.items():
        yield "", f"delegate to {backend}: {size(nbytes)}"
    if any(method.arenas):
        yield "", f"memory plan: {', '.join(size(nbytes) for nbytes in method.arenas)}"


def _tensor_lines(tensors: TensorFacts, *, has_roles: bool) -> Lines:
    """Yield totals; files of ExecuTorch record neither parameters nor devices."""
    if has_roles:
        elements = plural(tensors.parameter_elements, "element")
        yield "parameters", f"{plural(tensors.parameters, 'tensor')}, {elements}"
    yield "tensors", totals_text(tensors)
    yield "dtypes", _counts(tensors.dtypes)
    if has_roles:
        yield "devices", _counts(tensors.devices)


def _counts(counts: Mapping[str, int], shown: int | None = None) -> str:
    """``aten::conv2d 20, aten::relu 17 and 3 more``, largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{name} {count:,}" for name, count in ordered]
    return listed(texts, len(texts) if shown is None else shown) or "none"
