"""``tsarchive tree``: the modules of an archive as a tree."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

import tsarchive
from tsarchive.describing.contents import level_below, module_totals, tree_document
from tsarchive.describing.text import plural, size, visible

from .command import Command, chosen_model, json_option, model_option
from .lines import drawn
from .many import Found, files_argument, jsonl_option, look_at
from .options import remote_limit_options
from .output import flowing, show, styled, width

if TYPE_CHECKING:
    from tsarchive import ModuleInfo
    from tsarchive.steps import Step

# However deep a module is.
_LEAST_ROOM = 20


@click.command(cls=Command)
@files_argument
@click.option(
    "--depth", type=click.IntRange(min=0), metavar="N", help="Show N levels below the root."
)
@click.option("--signatures", "typed", is_flag=True, help="Show what methods take and give.")
@model_option
@remote_limit_options
@json_option
@jsonl_option
def command(
    files: tuple[str, ...],
    *,
    depth: int | None,
    typed: bool,
    model: str | None,
    as_json: bool,
    as_lines: bool,
) -> int:
    """Show the modules of a file as a tree.

    Each with its class, its size and its methods. Sizes count the module and everything below
    it; a module that is used in two places appears, and counts, twice. Modules of a PT2 archive are
    those that its weights and nodes name. Of a program of ExecuTorch, its methods are shown, and
    which operators and delegates each calls. Does not import torch.

    \b
    Examples:
      tsarchive tree model.pt
      tsarchive tree model.pt --depth 1
      tsarchive tree model.pt --signatures
    """

    def look(file: str, _step: Step) -> Found:
        with tsarchive.open(file) as opened:
            archive = chosen_model(opened, model)
            root = archive.view.signed_tree() if typed else archive.tree()
        return Found(
            lambda: {"file": file, "root": tree_document(root, depth)},
            lambda: show(_lines(root, depth)),
        )

    return look_at(files, look, as_json=as_json, as_lines=as_lines, layout="titled")


def _lines(root: ModuleInfo, depth: int | None) -> Iterator[str]:
    """Yield the lines of each module, behind the guides that lead to it."""
    pending = [(root, "", "", depth)]
    while pending:
        module, guide, below, left = pending.pop()
        shown = () if left == 0 else module.children
        first, *more = flowing(_label(module), _room(below))
        yield styled(drawn(guide), "dim") + first
        under = styled(drawn(below + ("│   " if shown else "    ")), "dim")
        yield from (under + line for line in more)
        ends = ("└── ", "    "), *[("├── ", "│   ")] * (len(shown) - 1)
        for child, (corner, bar) in zip(reversed(shown), ends, strict=False):
            pending.append((child, below + corner, below + bar, level_below(left)))


def _room(guide: str) -> int:
    """Return the cells that labels have behind a guide, on a terminal."""
    columns = width()
    return sys.maxsize if columns is None else max(columns - len(guide) - 4, _LEAST_ROOM)


def _label(module: ModuleInfo) -> Iterator[tuple[str, str]]:
    """Yield what is said of a module, each with its style."""
    parameters, nbytes = module_totals(module)
    yield visible(module.name or "(root)"), "bold"
    if module.qualified_class:
        yield visible(module.qualified_class), "cyan"
    if nbytes:
        yield f"{plural(parameters, 'parameter')}, {size(nbytes)}", ""
    if module.methods:
        yield visible(", ".join(module.methods)), "dim"
