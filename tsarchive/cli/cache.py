"""``tsarchive cache``: what is kept of compiled code, and where."""

from __future__ import annotations

import os
from typing import Any

import click

from tsarchive.caching import (
    MOST_BYTES,
    VARIABLE,
    CacheFolder,
    Entry,
    State,
    cache_folder,
    is_turned_off,
)
from tsarchive.describing.text import size

from .command import Command, json_option
from .options import Size
from .output import print_json, say

_USABLE = (State.READY, State.ABSENT)


@click.command(cls=Command)
@click.argument("action", type=click.Choice(["show", "trim", "empty"]), default="show")
@click.option(
    "--most",
    type=Size(),
    help=f"With trim: how much may stay, such as 50MB; {MOST_BYTES >> 20} MiB by default.",
)
@json_option
def command(action: str, *, most: int | None, as_json: bool) -> int:
    """Show, trim or empty the cache of compiled code.

    The code of an archive is compiled to Python, and kept, so that the next process need not
    compile it again. Weights and permissions are not kept. The folder is the one that
    TSARCHIVE_CACHE names, or else one in the user's cache folder, as with TSARCHIVE_CACHE=1
    (or on, yes, true); TSARCHIVE_CACHE=0 (or off, no, false, or nothing) turns the cache off.
    'trim' removes the entries that were not used for longest, 'empty' all of them. Exit code 1:
    the folder cannot be used.

    \b
    Examples:
      tsarchive cache
      tsarchive cache trim --most 50MB
      tsarchive cache empty
    """
    if most is not None and action != "trim":
        raise click.UsageError("--most goes with trim")
    folder = cache_folder()
    gone = [] if folder is None else _removed(folder, action, most)
    if as_json:
        print_json(_document(folder, gone))
    elif folder is None:
        say(f"no cache: {_why_none()}")
    else:
        _show(folder, gone, action)
    return int(folder is not None and folder.state() not in _USABLE)


def _why_none() -> str:
    if not is_turned_off():
        return "there is no folder for this user"
    return f"{VARIABLE} is '{os.environ[VARIABLE]}'"


def _removed(folder: CacheFolder, action: str, most: int | None) -> list[Entry]:
    if action == "trim":
        return folder.trim(MOST_BYTES if most is None else most)
    return folder.empty() if action == "empty" else []


def _document(folder: CacheFolder | None, gone: list[Entry]) -> dict[str, Any]:
    entries = [] if folder is None else folder.entries()
    return {
        "folder": None if folder is None else str(folder.path),
        "state": "off" if folder is None else folder.state().name.lower(),
        "entries": [{"key": e.path.stem, "nbytes": e.size, "used": e.used} for e in entries],
        "nbytes": sum(entry.size for entry in entries),
        "most_nbytes": MOST_BYTES,
        "removed": len(gone),
    }


def _show(folder: CacheFolder, gone: list[Entry], action: str) -> None:
    state = folder.state()
    say(f"folder:  {folder.path}", keep="")
    say(f"state:   {state.value}" + ("" if state in _USABLE else ": it is not used"))
    entries = folder.entries()
    say(f"entries: {len(entries)}, {size(sum(entry.size for entry in entries))}")
    if action != "show":
        say(f"removed: {len(gone)}")
