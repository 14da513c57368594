"""``tsarchive code``: the source that an archive holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from difflib import get_close_matches
from textwrap import dedent
from typing import TYPE_CHECKING

import click

import tsarchive
from tsarchive.archive import Archive
from tsarchive.describing.definitions import METHOD, Definition, all_definitions, matching
from tsarchive.describing.text import LAYOUT, listed, visible
from tsarchive.errors import UnsupportedError
from tsarchive.formats.registry import format_named

from .command import Command, chosen_model, file_argument, json_option, model_option
from .options import remote_limit_options
from .output import (
    console,
    has_styles,
    print_json,
    print_source,
    rich_style,
    say,
    show,
    table,
)

if TYPE_CHECKING:
    from rich.syntax import SyntaxTheme

_CANDIDATES_SHOWN = 10


@click.command(cls=Command)
@file_argument
@click.argument("name", required=False)
@click.option("--list", "only_list", is_flag=True, help="List the names in place of the source.")
@click.option("--map-location", metavar="DEVICE", help="As it is run when loaded to DEVICE.")
@click.option("--sources", is_flag=True, help="With lines of user source, for PT2 and .pte.")
@click.option("--raw", is_flag=True, help="The bytes of the file: no escapes, no colours.")
@model_option
@remote_limit_options
@json_option
def command(
    file: str,
    name: str | None,
    *,
    only_list: bool,
    map_location: str | None,
    sources: bool,
    raw: bool,
    model: str | None,
    as_json: bool,
) -> None:
    """Show the source in a file, or a part of it.

    NAME is that of a record, class, function or method, or the end of it when only one name
    ends so; without NAME everything is shown. Control characters, invisible ones and bytes that
    are not UTF-8 are shown as escapes, in pipes as on terminals; source without them comes out of
    a pipe as it is in the archive. --raw gives the bytes of every source, for a file that is to
    have them. With --map-location the devices that code names are changed, as loading with that
    map_location does. Does not import torch.

    A PT2 archive holds its programs as JSON; they are shown as a listing that reads like Python,
    with types and shapes. With --sources, the lines of user source that a part comes from stand
    before it. A program of ExecuTorch is shown as a listing of each method: its values with their
    types and places, and its instructions.

    \b
    Examples:
      tsarchive code model.pt
      tsarchive code model.pt --list
      tsarchive code model.pt __torch__.models.Net.forward
      tsarchive code model.pt Net.forward
      tsarchive code model.pt code/__torch__.py --raw > net.py
      tsarchive code traced_on_gpu.pt --map-location cpu
      tsarchive code model.pt2 --sources
      tsarchive code model.pte forward
    """
    if raw and (only_list or as_json):
        raise click.UsageError("--raw is about source as text: give no --list and no --json.")
    with tsarchive.open(file) as opened:
        archive = chosen_model(opened, model)
        if map_location is not None:
            archive = archive.moved(map_location)
        candidates = _candidates(archive, sources=sources)
        whole = METHOD if archive.view.methods_record else "record"
    if name is not None:
        chosen = [_one(name, candidates)]
    else:
        chosen = [found for found in candidates if only_list or found.kind == whole]
    if as_json:
        print_json({"file": file, "code": [_document(found, only_list) for found in chosen]})
    elif only_list:
        _show_names(chosen)
    elif raw:
        print_source(_joined(chosen).encode("utf-8", "surrogateescape"))
    elif has_styles():
        _highlight(chosen)
    else:
        print_source(visible(_joined(chosen), keep=LAYOUT).encode())


def _candidates(archive: Archive, *, sources: bool) -> list[Definition]:
    view = archive.view
    view.require_code()
    if sources and not view.has_listings:
        reason = "only listings of programs have lines of user source between their own"
        raise format_named(archive.kind).not_taken("sources", reason, UnsupportedError)
    code = view.sourced_code if sources else archive.code
    if view.methods_record:
        record = view.methods_record
        return [Definition(METHOD, name, record, 1, text) for name, text in code.items()]
    return list(all_definitions(code))


def _one(name: str, candidates: list[Definition]) -> Definition:
    found = matching(name, candidates)
    if len(found) == 1:
        return found[0]
    names = [candidate.qualified_name for candidate in found or candidates]
    if found:
        shown = listed(names, _CANDIDATES_SHOWN)
        problem = f"{len(found)} names end with {name!r}: {shown}. Give more of the name."
    else:
        near = _similar(name, names)
        advice = f"Similar: {', '.join(near)}." if near else "'--list' lists the names."
        problem = f"the archive defines no {name!r}. {advice}"
    raise click.BadParameter(visible(problem), param_hint="NAME")


def _similar(name: str, names: list[str]) -> list[str]:
    """Return names with a similar end: of as many components as ``name`` has."""
    parts = name.count(".") + 1
    ends: dict[str, str] = {}
    for known in names:
        ends.setdefault(".".join(known.split(".")[-parts:]), known)
    return [ends[end] for end in get_close_matches(name, ends, n=3, cutoff=0.7)]


def _document(found: Definition, only_list: bool) -> dict[str, object]:
    """Return one piece of source as JSON. The text is left out of lists."""
    document = asdict(found)
    document["name"] = document.pop("qualified_name")
    if only_list:
        del document["text"]
    return document


def _show_names(chosen: Iterable[Definition]) -> None:
    names = table("kind", "name", "record", "line", right=("line",), whole=("name",))
    for found in chosen:
        if found.kind != "record":
            names.add_row(found.kind, found.qualified_name, found.record, str(found.line))
    show(names.lines())


def _joined(chosen: list[Definition]) -> str:
    """Return the text of each, and an empty line between them."""
    ends = ("" if found.text.endswith("\n") else "\n" for found in chosen)
    return "\n".join(found.text + end for found, end in zip(chosen, ends, strict=True))


def _highlight(chosen: Iterable[Definition]) -> None:
    from rich.syntax import Syntax

    out = console()
    painter = Syntax("", "python", theme=_theme(), background_color="default")
    for found in chosen:
        say(f"# {found.record}, line {found.line}", "dim", is_data=True)
        text = visible(dedent(found.text).rstrip("\n"), keep=LAYOUT)
        # The terminal breaks lines, so that they are whole where they are copied.
        out.print(painter.highlight(text), soft_wrap=True, end="")


def _theme() -> SyntaxTheme:
    from pygments.token import (  # type: ignore[import-untyped]
        Comment,
        Keyword,
        Literal,
        Name,
        Operator,
    )
    from rich.style import Style
    from rich.syntax import ANSISyntaxTheme

    styles = {
        Comment: "dim", Keyword: "cyan", Operator.Word: "cyan", Literal.String: "green",
        Literal.Number: "yellow", Name.Function: "bold", Name.Class: "bold",
    }  # fmt: skip
    return ANSISyntaxTheme({each: Style.parse(rich_style(s)) for each, s in styles.items()})
