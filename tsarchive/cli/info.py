"""``tsarchive info``: what a file is and what it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tsarchive.cli.command import FINDINGS, Command, file_argument, json_option
from tsarchive.cli.imports import import_option
from tsarchive.cli.output import print_json, show, table
from tsarchive.cli.tables import Column, Table
from tsarchive.cli.text import plural, size, visible
from tsarchive.garbage import not_collecting

if TYPE_CHECKING:
    from tsarchive import Missing
    from tsarchive.cli.exported_facts import ExportedFacts
    from tsarchive.cli.facts import ExecutorchFacts, Facts, ProgramFacts, TensorFacts

# The document given by --json has every operator.
_OPERATORS_SHOWN = 12


@click.command(cls=Command)
@file_argument
@click.option(
    "--check", is_flag=True, help="Compare with the operators and classes of this process."
)
@import_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, file: str, *, check: bool, imports: tuple[str, ...], as_json: bool
) -> None:
    """Show what a file is and what it holds.

    Runs nothing of the file, and does not import torch. The line 'needs' names the operators
    and torchbind classes that do not come with torch.

    With --check, torch and the modules given with --import are imported, and what the file
    needs is looked up. The exit code is 1 when anything is missing.

    \b
    Examples:
      tsarchive info model.pt
      tsarchive info model.pt --json
      tsarchive info detector.pt --check --import torchvision
    """
    with not_collecting():
        from tsarchive.cli.facts import facts_of_file

    facts = facts_of_file(file)
    found = _missing(file) if check else None
    if as_json:
        print_json({**asdict(facts), **({} if found is None else {"missing": _document(found)})})
    else:
        _show(facts, found)
    if found:
        ctx.exit(FINDINGS)


def _missing(file: str) -> Missing:
    import tsarchive

    return tsarchive.missing(file)


def _document(found: Missing) -> dict[str, object]:
    return {"operators": found.operators, "classes": found.classes, "hints": found.hints}


def _show(facts: Facts, found: Missing | None) -> None:
    lines = [*_lines(facts), *([] if found is None else _named("missing", found.hints, "nothing"))]
    show((*_pairs(lines).lines(), "", *_groups(facts).lines()))


def _named(label: str, hints: Mapping[str, str], nothing: str) -> Iterator[tuple[str, str]]:
    """Names under a label; those with the same hint together, and the hint below them."""
    if not hints:
        yield label, nothing
    for hint in dict.fromkeys(hints.values()):
        yield label, ", ".join(name for name, other in hints.items() if other == hint)
        yield "", hint
        label = ""


def _pairs(lines: Iterable[tuple[str, str]]) -> Table:
    grid = Table([Column(style="bold"), Column()], gap=2)
    for label, value in lines:
        grid.add_row(label, visible(value))
    return grid


def _lines(facts: Facts) -> Iterator[tuple[str, str]]:
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


def _program_lines(program: ProgramFacts) -> Iterator[tuple[str, str]]:
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
    yield from _named("needs", program.needs, "nothing beyond torch")


def _exported_lines(exported: ExportedFacts) -> Iterator[tuple[str, str]]:
    from tsarchive.cli.exported_text import exported_lines

    yield from exported_lines(exported)
    for model in exported.models:
        suffix = f" of {model.name}" if len(exported.models) > 1 else ""
        yield f"operators{suffix}", _counts(model.operators, _OPERATORS_SHOWN)
        yield from _named(f"needs{suffix}", model.needs, "nothing beyond torch")


def _executorch_lines(facts: ExecutorchFacts) -> Iterator[tuple[str, str]]:
    from tsarchive.cli.executorch_text import executorch_lines

    yield from executorch_lines(facts, lambda counts: _counts(counts, _OPERATORS_SHOWN))


def _tensor_lines(tensors: TensorFacts) -> Iterator[tuple[str, str]]:
    yield (
        "parameters",
        f"{plural(tensors.parameters, 'tensor')}, {plural(tensors.parameter_elements, 'element')}",
    )
    yield from _stored_lines(tensors)
    yield "devices", _counts(tensors.devices)


def _stored_lines(tensors: TensorFacts) -> Iterator[tuple[str, str]]:
    yield "tensors", f"{plural(tensors.count, 'tensor')}, {size(tensors.bytes)}"
    yield "dtypes", _counts(tensors.dtypes)


def _counts(counts: Mapping[str, int], shown: int | None = None) -> str:
    """``aten::conv2d 20, aten::relu 17 and 3 more``, largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{name} {count:,}" for name, count in ordered[:shown])
    left = 0 if shown is None else len(ordered) - shown
    return f"{text} and {left:,} more" if left > 0 else text or "none"


def _groups(facts: Facts) -> Table:
    figures = ("count", "bytes", "in the file")
    made = table("records", *figures, right=figures)
    for name, group in facts.groups.items():
        made.add_row(name, f"{group.records:,}", f"{group.bytes:,}", f"{group.stored_bytes:,}")
    return made
