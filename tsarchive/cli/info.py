"""``tsarchive info``: what a file is and what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tsarchive.cli.command import Command, file_argument, json_option
from tsarchive.cli.output import console, print_json, table
from tsarchive.cli.text import plural, size, visible

if TYPE_CHECKING:
    from rich.table import Table

    from tsarchive.cli.facts import Facts, ProgramFacts, TensorFacts

# The document given by --json has every operator.
_OPERATORS_SHOWN = 12


@click.command(cls=Command)
@file_argument
@json_option
def command(file: str, *, as_json: bool) -> None:
    """Show what a file is and what it holds.

    Runs nothing and does not import torch.

    \b
    Examples:
      tsarchive info model.pt
      tsarchive info model.pt --json
    """
    from tsarchive.cli.facts import facts_of_file

    facts = facts_of_file(file)
    if as_json:
        print_json(asdict(facts))
    else:
        _show(facts)


def _show(facts: Facts) -> None:
    out = console()
    out.print(_pairs(_lines(facts)))
    out.print()
    out.print(_groups(facts))


def _pairs(lines: Iterator[tuple[str, str]]) -> Table:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in lines:
        grid.add_row(label, visible(value))
    return grid


def _lines(facts: Facts) -> Iterator[tuple[str, str]]:
    version = "not recorded" if facts.format_version is None else str(facts.format_version)
    yield "file", facts.file
    yield "kind", f"{facts.kind}, format version {version}"
    yield "size", f"{size(facts.bytes)} ({facts.bytes:,} bytes)"
    yield "root folder", facts.root or "none"
    yield "byte order", facts.byte_order or "not recorded"
    yield "compression", _counts(facts.compression)
    yield "serialization id", facts.serialization_id or "not recorded"
    if facts.program is not None:
        yield from _program_lines(facts.program)
    if facts.tensors is not None:
        yield from _tensor_lines(facts.tensors)


def _program_lines(program: ProgramFacts) -> Iterator[tuple[str, str]]:
    yield "main class", program.main_class
    yield "origin", "traced" if program.has_traced_inputs else "not recorded"
    yield "modules", f"{plural(program.modules, 'module')} of {plural(program.classes, 'class')}"
    yield (
        "code",
        f"{plural(program.methods, 'method')}, {plural(program.functions, 'free function')}",
    )
    if program.native_classes:
        yield "torchbind classes", ", ".join(program.native_classes)
    yield "operators", _counts(program.operators, _OPERATORS_SHOWN)


def _tensor_lines(tensors: TensorFacts) -> Iterator[tuple[str, str]]:
    yield (
        "parameters",
        f"{plural(tensors.parameters, 'tensor')}, {plural(tensors.parameter_elements, 'element')}",
    )
    yield "tensors", f"{plural(tensors.count, 'tensor')}, {size(tensors.bytes)}"
    yield "dtypes", _counts(tensors.dtypes)
    yield "devices", _counts(tensors.devices)


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
