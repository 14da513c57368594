"""The lines with which shells complete commands and options, where shells look for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

_EVALUATED: Final = 'eval "$(_TSARCHIVE_COMPLETE={}_source tsarchive)"'
_PLACES: Final = {
    "bash": (".bashrc", _EVALUATED.format("bash")),
    "zsh": (".zshrc", _EVALUATED.format("zsh")),
    "fish": (
        ".config/fish/completions/tsarchive.fish",
        "_TSARCHIVE_COMPLETE=fish_source tsarchive | source",
    ),
}
"""For each shell, its file below the home folder, and the line."""


def install() -> str:
    """Add the line for the user's shell, which ``SHELL`` names, and say where it stands.

    A file that has the line stays as it is. Raises UsageError for other shells, OSError where the
    file cannot be written.
    """
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in _PLACES:
        known = ", ".join(_PLACES)
        raise click.UsageError(f"SHELL names none of {known}, but {shell or 'nothing'}.")
    name, line = _PLACES[shell]
    path = Path.home() / name
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if line in text.splitlines():
        return f"{path} has it already"
    path.parent.mkdir(parents=True, exist_ok=True)
    end = "" if not text or text.endswith("\n") else "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{end}{line}\n")
    return f"{path} has it now: start a new shell"
