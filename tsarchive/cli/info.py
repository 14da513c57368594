"""``tsarchive info``: what a file is and what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

import tsarchive
from tsarchive.describing.contents import fact_lines
from tsarchive.describing.text import in_commands, named, plural
from tsarchive.garbage import not_collecting

from .command import FINDINGS, Command, file_argument, json_option
from .options import import_option, remote_limit_options
from .output import Column, Table, print_json, show, table

if TYPE_CHECKING:
    from tsarchive import Missing, Traffic
    from tsarchive.describing.contents import Facts


@click.command(cls=Command)
@file_argument
@click.option(
    "--check", is_flag=True, help="Compare with the operators and classes of this process."
)
@import_option
@remote_limit_options
@json_option
def command(file: str, *, check: bool, as_json: bool) -> int:
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
    from tsarchive.formats.registry import format_named

    with tsarchive.open(file) as archive, not_collecting():
        facts = format_named(archive.kind).describe(archive, file, archive.nbytes)
        traffic = archive.traffic
    found = tsarchive.missing(file) if check else None
    if as_json:
        missing = {} if found is None else {"missing": {**asdict(found), "hints": _hints(found)}}
        cost = {} if traffic is None else {"traffic": asdict(traffic)}
        print_json({**asdict(facts), **cost, **missing})
    else:
        _show(facts, found, traffic)
    return FINDINGS if found else 0


def _fetched(traffic: Traffic | None) -> Iterator[tuple[str, str]]:
    if traffic is not None:
        yield "fetched", f"{traffic.nbytes:,} bytes in {plural(traffic.requests, 'request')}"


def _hints(found: Missing) -> dict[str, str]:
    return {name: in_commands(hint) for name, hint in found.hints.items()}


def _show(facts: Facts, found: Missing | None, traffic: Traffic | None) -> None:
    missing = [] if found is None else named("missing", _hints(found), "nothing")
    labelled = Table([Column(style="bold"), Column()], gap=2)
    for label, text in (*fact_lines(facts), *_fetched(traffic), *missing):
        labelled.add_row(label, text)
    figures = ("count", "bytes", "in the file")
    groups = table("records", *figures, right=figures)
    for name, group in facts.groups.items():
        groups.add_row(name, f"{group.records:,}", f"{group.nbytes:,}", f"{group.stored_nbytes:,}")
    show((*labelled.lines(), "", *groups.lines()))
