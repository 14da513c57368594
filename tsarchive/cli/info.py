"""``tsarchive info``: what a file is and what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import tsarchive
from tsarchive.describing.contents import fact_lines
from tsarchive.describing.text import in_commands, named, plural
from tsarchive.formats.registry import format_named
from tsarchive.garbage import not_collecting

from .command import FINDINGS, Command, json_option
from .many import Found, files_argument, jsonl_option, look_at
from .options import import_option, remote_limit_options
from .output import Column, Table, show, table

if TYPE_CHECKING:
    from tsarchive import Missing, Traffic
    from tsarchive.describing.contents import Facts
    from tsarchive.steps import Step


@click.command(cls=Command)
@files_argument
@click.option(
    "--check", is_flag=True, help="Compare with the operators and classes of this process."
)
@import_option
@remote_limit_options
@json_option
@jsonl_option
def command(files: tuple[str, ...], *, check: bool, as_json: bool, as_lines: bool) -> int:
    """Show what a file is and what it holds.

    Runs nothing of the file, and does not import torch. The line 'needs' names the operators
    and torchbind classes that do not come with torch.

    With --check, torch and the modules given with --import are imported, and what the file
    needs is looked up. The exit code is 1 when anything is missing.

    \b
    Examples:
      tsarchive info model.pt
      tsarchive info model.pt --json
      tsarchive info a.pt b.pt models
      tsarchive info detector.pt --check --import torchvision
    """
    look = partial(_look, check=check)
    return look_at(files, look, as_json=as_json, as_lines=as_lines, layout="blocks")


def _look(file: str, _step: Step, *, check: bool) -> Found:
    with tsarchive.open(file) as archive, not_collecting():
        facts = format_named(archive.kind).describe(archive, file, archive.nbytes)
        traffic = archive.traffic
    found = tsarchive.missing(file) if check else None
    return Found(
        lambda: _document(facts, found, traffic),
        lambda: _show(facts, found, traffic),
        FINDINGS if found else 0,
    )


def _document(facts: Facts, found: Missing | None, traffic: Traffic | None) -> dict[str, Any]:
    missing = {} if found is None else {"missing": {**asdict(found), "hints": _hints(found)}}
    cost = {} if traffic is None else {"traffic": asdict(traffic)}
    return {**asdict(facts), **cost, **missing}


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
