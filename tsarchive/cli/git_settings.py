"""Settings with which git shows what changed in models: ``diff.tsarchive`` and ``difftool``.

They stand where git looks for those of one repository or, with ``is_global``, of one user: the
configuration, and the file of attributes beside it, which git does not track. Files that others
have of the repository are left alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

from tsarchive.describing.text import visible

from .options import together
from .output import print_json, say

DRIVER: Final = "tsarchive"
ENDINGS: Final = ("pt", "pth", "ptl", "pt2", "pte", "bpte", "ptd")
LINES: Final = tuple(f"*.{ending} diff={DRIVER}" for ending in ENDINGS)
"""What stands in a file of attributes."""


class Installed(NamedTuple):
    """What was set, and the file of attributes that has the lines of :data:`LINES` now."""

    settings: dict[str, str]
    attributes: str
    added: tuple[str, ...]


# The options of a command that writes them, and that git calls.
git_options = together(
    click.option("--install-git", is_flag=True, help="Let git show what changed in models."),
    click.option(
        "--global", "is_global", is_flag=True, help="With --install-git: in all repositories."
    ),
    click.option("--textconv", metavar="FILE", hidden=True),
)


def as_text(file: str) -> Iterator[str]:
    """Yield the lines of a file that git compares."""
    from tsarchive.diffing.text import lines_of

    return map(visible, lines_of(file))


def install(*, is_global: bool, as_json: bool) -> None:
    """Write the settings, and say so. Raises click.ClickException where git cannot take them."""
    found = _installed(is_global=is_global)
    if as_json:
        print_json(found._asdict(), "git-settings")
        return
    for name, value in found.settings.items():
        say(f"{name} = {value}")
    say(f"{found.attributes}: {', '.join(ENDINGS)} {'added' if found.added else 'were there'}")
    if not is_global:
        say(
            f"For all who use the repository, add lines such as '{LINES[0]}' to .gitattributes",
            "dim",
        )


def _installed(*, is_global: bool) -> Installed:
    if not is_global:
        _require_repository()
    settings = _settings(_command())
    scope = "--global" if is_global else "--local"
    for name, value in settings.items():
        _git("config", scope, name, value)
    path = _global_attributes() if is_global else _own_attributes()
    return Installed(settings, str(path), _add_lines(path))


def _require_repository() -> None:
    try:
        _git("rev-parse", "--git-dir")
    except click.ClickException as error:
        hint = "Run this inside of a repository, or with --global"
        raise click.ClickException(f"{error.message}. {hint}") from error


def _settings(command: str) -> dict[str, str]:
    return {
        f"diff.{DRIVER}.textconv": f"{command} diff --textconv",
        # A hunk is headed by the module, class or function that it is in.
        f"diff.{DRIVER}.xfuncname": "^[a-z].*$",
        f"difftool.{DRIVER}.cmd": f'{command} diff "$LOCAL" "$REMOTE"',
    }


def _command() -> str:
    """Return how a shell calls this program, wherever it looks for commands."""
    beside = str(Path(sys.executable).parent)
    if script := shutil.which("tsarchive", path=beside) or shutil.which("tsarchive"):
        return shlex.quote(Path(script).absolute().as_posix())
    return f"{shlex.quote(Path(sys.executable).as_posix())} -m tsarchive"


def _own_attributes() -> Path:
    return Path(_git("rev-parse", "--git-path", "info/attributes"))


def _global_attributes() -> Path:
    """Return the file that ``core.attributesFile`` names, or where git looks without that."""
    named = _git("config", "--global", "--type=path", "--default", "", "core.attributesFile")
    if named:
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "git" / "attributes"


def _add_lines(path: Path) -> tuple[str, ...]:
    """Add the lines that a file lacks, and return them."""
    before = path.read_bytes() if path.exists() else b""
    known = before.decode("utf-8", "surrogateescape").splitlines()
    added = tuple(line for line in LINES if line not in known)
    if added:
        path.parent.mkdir(parents=True, exist_ok=True)
        start = "" if not before or before.endswith(b"\n") else "\n"
        with path.open("ab") as stream:
            stream.write(f"{start}{chr(10).join(added)}\n".encode())
    return added


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise click.ClickException("there is no git to be found") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().partition("\n")[0] or f"exit code {error.returncode}"
        raise click.ClickException(f"git takes no settings: {reason}") from error
    return done.stdout.strip()
