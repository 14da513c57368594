"""The facts of a file in words: a label and a text each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tsarchive.describing.tensors import totals_text
from tsarchive.describing.text import plural, size

if TYPE_CHECKING:
    from tsarchive.describing.facts import (
        ExecutorchFacts,
        ExportedFacts,
        Facts,
        ProgramFacts,
        TensorFacts,
    )


Lines = Iterator[tuple[str, str]]

_OPERATORS_SHOWN = 12


def fact_lines(facts: Facts) -> Lines:
    """Everything but the records; a label that is empty continues the line before."""
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
    if facts.executorch is not None and facts.tensors is not None:
        yield from _stored_lines(facts.tensors)
    elif facts.tensors is not None:
        yield from _tensor_lines(facts.tensors)


def named(label: str, hints: Mapping[str, str], nothing: str) -> Lines:
    """Names under a label; those with the same hint together, and the hint below them."""
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


def _exported_lines(exported: ExportedFacts) -> Lines:
    from tsarchive.formats.pt2.described_text import exported_lines

    yield from exported_lines(exported)
    for model in exported.models:
        suffix = f" of {model.name}" if len(exported.models) > 1 else ""
        yield f"operators{suffix}", _counts(model.operators, _OPERATORS_SHOWN)
        yield from named(f"needs{suffix}", model.needs, "nothing beyond torch")


def _executorch_lines(facts: ExecutorchFacts) -> Lines:
    from tsarchive.formats.executorch.described_text import executorch_lines

    yield from executorch_lines(facts, lambda counts: _counts(counts, _OPERATORS_SHOWN))


def _tensor_lines(tensors: TensorFacts) -> Lines:
    yield (
        "parameters",
        f"{plural(tensors.parameters, 'tensor')}, {plural(tensors.parameter_elements, 'element')}",
    )
    yield from _stored_lines(tensors)
    yield "devices", _counts(tensors.devices)


def _stored_lines(tensors: TensorFacts) -> Lines:
    yield "tensors", totals_text(tensors)
    yield "dtypes", _counts(tensors.dtypes)


def _counts(counts: Mapping[str, int], shown: int | None = None) -> str:
    """``aten::conv2d 20, aten::relu 17 and 3 more``, largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{name} {count:,}" for name, count in ordered[:shown])
    left = 0 if shown is None else len(ordered) - shown
    return f"{text} and {left:,} more" if left > 0 else text or "none"
