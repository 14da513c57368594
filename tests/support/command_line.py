"""What the tests of the command line share."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from click.testing import CliRunner, Result

from tests.support.archives import ARCHIVES
from tsarchive.cli import main
from tsarchive.container import NewRecord, write_container

ERROR_KEYS = {
    "type", "message", "record", "line", "offset", "limit", "code", "origin", "operator",
    "function", "hint", "file",
}  # fmt: skip
SEQUENTIAL = str(ARCHIVES / "sequential.pt")


def run(*args) -> Result:
    """Run the command in this process; an exception that leaves it fails the test."""
    # Test runners may set COLUMNS, which would wrap lines as on a terminal.
    result = CliRunner(env={"COLUMNS": None}).invoke(main, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def document(*args, code=0):
    """The JSON document that a command prints, which is all that it prints to stdout."""
    result = run(*args, "--json")
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    open("/tmp/d/keys.jsonl","a").write(json.dumps([found.pop("schema"), found.pop("version"), list(found)])+"\n")
    return found


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
