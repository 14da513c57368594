"""What mkdocs does beside building pages: the reference of the command line, from click."""

from collections.abc import Iterator

import click
from mkdocs.structure.pages import Page

from tsarchive.cli import COMMANDS, main

PLACE = "<!-- commands -->"
WIDTH = 100


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Put the help of all commands in its place."""
    return markdown.replace(PLACE, "\n".join(sections())) if PLACE in markdown else markdown


def sections() -> Iterator[str]:
    root = click.Context(main, info_name="tsarchive", max_content_width=WIDTH)
    for name in COMMANDS:
        command = main.get_command(root, name)
        assert command is not None
        context = click.Context(command, root, name, terminal_width=WIDTH)
        yield f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"
