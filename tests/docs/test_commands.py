"""Commands that pages name are commands, with options that they have."""

from __future__ import annotations

import re
from typing import Final

import click
import pytest

from tests.docs.test_pages import ROOT
from tsarchive.cli import COMMANDS, main

PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMED: Final = re.compile(
    r"(?:^\s*(?:\$ )?|`|&& |\n)tsarchive (?P<name>[a-z]+)(?P<rest>[^`\n]*)", re.M
)
OPTION: Final = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
ROOT_CONTEXT: Final = click.Context(main, info_name="tsarchive")


def options(name: str) -> set[str]:
    command = main.get_command(ROOT_CONTEXT, name)
    assert command is not None
    params = command.get_params(click.Context(command, ROOT_CONTEXT, name))
    return {spelled for param in params for spelled in (*param.opts, *param.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_are_there(page):
    unknown = []
    for match in NAMED.finditer(page.read_text(encoding="utf-8")):
        name, rest = match["name"], match["rest"].partition("#")[0]
        if name not in COMMANDS:
            continue  # prose
        unknown += [
            f"{name} {option}" for option in OPTION.findall(rest) if option not in options(name)
        ]
    assert unknown == []
