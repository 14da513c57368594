"""What is common to the documents of all commands; ``document`` checks the keys of each."""

from __future__ import annotations

import json
import re

import click
import pytest

from tests.support.command_line import ROOT, SEQUENTIAL, document, documented_keys, run
from tsarchive.cli import COMMANDS, main

PAGE = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_documented_schema(name):
    command = main.get_command(click.Context(main), name)
    assert "as_json" in {option.name for option in command.params}
    assert re.search(rf"^\| `tsarchive\.[\w-]+` \| `tsarchive {name}` \|", PAGE, re.MULTILINE)


def test_no_schema_is_described_twice():
    assert len(documented_keys()) == len(re.findall(r"^\| `tsarchive\.", PAGE, re.MULTILINE))


def test_stubs():
    found = document("stub", SEQUENTIAL)
    assert found.keys() == documented_keys()["tsarchive.stub"]
    assert (found["file"], found["out"]) == (SEQUENTIAL, None)


@pytest.mark.parametrize("option", ["--out", "--output", "-o"])
def test_the_old_name_of_an_option_goes_on_working(option, tmp_path):
    out = tmp_path / "net.pyi"
    done = run("stub", SEQUENTIAL, option, out, "--json")
    assert json.loads(done.stdout)["out"] == str(out)
    assert ("--output is now --out" in done.stderr) == (option == "--output")
    assert out.exists()
