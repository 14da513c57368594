"""``tsarchive tree``: the modules of an archive as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tsarchive.cli.command import Command, file_argument, json_option
from tsarchive.cli.models import chosen, model_option
from tsarchive.cli.output import print_json, show
from tsarchive.cli.signatures import signatures
from tsarchive.cli.terminal import drawn, styled
from tsarchive.cli.text import plural, size, visible
from tsarchive.kinds import EXECUTORCH, PT2
from tsarchive.printer.types import ClassType

if TYPE_CHECKING:
    from tsarchive import ModuleInfo
    from tsarchive.archive import Archive
    from tsarchive.pt2.looking import Pt2Door
    from tsarchive.torchscript.frontend import CodeImporter


@click.command(cls=Command)
@file_argument
@click.option(
    "--depth", type=click.IntRange(min=0), metavar="N", help="Show N levels below the root."
)
@click.option("--signatures", "typed", is_flag=True, help="Show what methods take and give.")
@model_option
@json_option
def command(file: str, *, depth: int | None, typed: bool, model: str | None, as_json: bool) -> None:
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
    import tsarchive

    with tsarchive.open(file) as opened:
        archive = chosen(opened, model)
        root = archive.tree()
        if typed:
            root = _typed(root, archive)
    if as_json:
        print_json({"file": file, "root": document(root, depth)})
    else:
        show(_lines(root, depth))


def _typed(root: ModuleInfo, archive: Archive) -> ModuleInfo:
    if archive.kind in EXECUTORCH:
        return root  # methods of programs have their types
    if archive.kind == PT2:
        return _with_exported_signatures(root, archive.exported)
    return _with_signatures(root, archive.classes)


def _with_exported_signatures(root: ModuleInfo, door: Pt2Door) -> ModuleInfo:
    """The tree of a PT2 archive, where the root of each model has a method."""
    if len(door.models) == 1:
        return replace(root, methods=(door.signature(door.models[0]),))
    typed = (replace(child, methods=(door.signature(child.name),)) for child in root.children)
    return replace(root, children=tuple(typed))


def _with_signatures(module: ModuleInfo, classes: CodeImporter) -> ModuleInfo:
    """The tree with the signature of each method in place of its name."""
    class_ = classes.find_class(module.qualified_class)
    assert isinstance(class_, ClassType)
    children = tuple(_with_signatures(child, classes) for child in module.children)
    return replace(module, methods=tuple(signatures(class_)), children=children)


def totals(module: ModuleInfo) -> tuple[int, int]:
    """Parameter elements and bytes of a module with everything below it."""
    parameters, nbytes = module.parameters, module.nbytes
    for child in module.children:
        more_parameters, more_bytes = totals(child)
        parameters, nbytes = parameters + more_parameters, nbytes + more_bytes
    return parameters, nbytes


def document(module: ModuleInfo, depth: int | None) -> dict[str, Any]:
    """The JSON form. ``parameters`` and ``bytes`` are the module's own, ``total_*`` are not.

    ``children`` is null where the depth ends the listing.
    """
    total_parameters, total_bytes = totals(module)
    return {
        "name": module.name,
        "class": module.qualified_class,
        "methods": list(module.methods),
        "parameters": module.parameters,
        "bytes": module.nbytes,
        "total_parameters": total_parameters,
        "total_bytes": total_bytes,
        "children": None
        if depth == 0
        else [document(child, _below(depth)) for child in module.children],
    }


def _below(depth: int | None) -> int | None:
    return None if depth is None else depth - 1


def _lines(root: ModuleInfo, depth: int | None) -> Iterator[str]:
    """A line for each module, behind the guides that lead to it."""
    pending = [(root, "", "", depth)]
    while pending:
        module, guide, below, left = pending.pop()
        yield styled(drawn(guide), "dim") + _label(module)
        shown = () if left == 0 else module.children
        ends = ("└── ", "    "), *[("├── ", "│   ")] * (len(shown) - 1)
        for child, (corner, bar) in zip(reversed(shown), ends, strict=False):
            pending.append((child, below + corner, below + bar, _below(left)))


def _label(module: ModuleInfo) -> str:
    parameters, nbytes = totals(module)
    parts = [
        styled(visible(module.name or "(root)"), "bold"),
        styled(visible(module.qualified_class), "cyan"),
    ]
    if nbytes:
        parts.append(f"{plural(parameters, 'parameter')}, {size(nbytes)}")
    if module.methods:
        parts.append(styled(visible(", ".join(module.methods)), "dim"))
    return "  ".join(filter(None, parts))
