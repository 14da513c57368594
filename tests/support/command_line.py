"""What the tests of the command line share."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from click.testing import CliRunner, Result

from tests.support.archives import ARCHIVES
from tsarchive.cli import main
from tsarchive.cli.output import JSON_VERSION
from tsarchive.container import NewRecord, write_container

ERROR_KEYS = {
    "type", "message", "record", "line", "offset", "limit", "code", "origin", "operator",
    "function", "hint", "file",
}  # fmt: skip
ROOT = Path(__file__).parents[2]
SEQUENTIAL = str(ARCHIVES / "sequential.pt")


def run(*args) -> Result:
    """Run the command in this process; an exception that leaves it fails the test."""
    # Test runners may set COLUMNS, which would wrap lines as on a terminal.
    result = CliRunner(env={"COLUMNS": None}).invoke(main, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def document(*args, code=0):
    """The JSON document that a command prints, which is all that it prints to stdout.

    Its label is left out; it and the keys must be those that the documentation has.
    """
    result = run(*args, "--json")
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    assert [*found][:2] == ["schema", "version"]
    assert found.pop("version") == JSON_VERSION
    assert found.keys() - {"schema"} <= documented_keys()[found["schema"]]
    del found["schema"]
    return found


@cache
def documented_keys() -> dict[str, set[str]]:
    """The keys of each schema, as docs/json.md has them."""
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(tsarchive\.[\w-]+)` \|[^|]*\|([^|]*)\|", page, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", keys)) for name, keys in rows}


def error(*args):
    """The error that a command ends with, which it reports in the same words as text."""
    found = document(*args, code=2)["error"]
    assert found.keys() == ERROR_KEYS
    shown = run(*args)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert found["message"].partition("\n")[0] in shown.stderr.replace("\\n", "\n")
    return found


def process(*args, cwd, env=None) -> subprocess.CompletedProcess[str]:
    """Run ``python`` with arguments, outside of the checkout."""
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
    )


def piped(*args, env=None) -> bytes:
    """The bytes that a command gives a pipe."""
    return subprocess.run(
        [sys.executable, "-m", "tsarchive", *map(str, args)],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


def write_archive(path, records) -> str:
    """A made-up archive, in the order given."""
    write_container(path, [NewRecord(name, data) for name, data in records.items()])
    return str(path)
