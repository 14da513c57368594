"""What mkdocs does beside building pages.

The reference of the command line is made from click, and a site that takes scripts, styles, fonts
or pictures from elsewhere is refused.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

from tsarchive.cli import COMMANDS, main

PLACE = "<!-- commands -->"
WIDTH = 100
LOADED = {
    "audio": "src", "embed": "src", "iframe": "src", "img": "src", "input": "src", "link": "href",
    "object": "data", "script": "src", "source": "srcset", "video": "src",
}  # fmt: skip
REMOTE = re.compile(r"\s*(https?:)?//")
REMOTE_STYLE = re.compile(r"""(url\(|@import)\s*["']?\s*(https?:)?//[^)\s]*""")


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


def on_post_build(*, config: MkDocsConfig) -> None:
    """Refuse a site that loads anything from elsewhere."""
    found = sorted(set(remote_parts(Path(config.site_dir))))
    if found:
        raise PluginError("the site is not self-contained:\n" + "\n".join(found))


def remote_parts(site: Path) -> Iterator[str]:
    """Yield what pages and styles of a site load from elsewhere; links lead where they like."""
    for path in site.rglob("*.html"):
        parser = Loaded()
        parser.feed(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(site)}: {url}" for url in parser.remote)
    for path in (*site.rglob("*.css"), *site.rglob("*.svg")):
        for match in REMOTE_STYLE.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: {match[0]}"


class Loaded(HTMLParser):
    """Collects the addresses elsewhere that a browser reads while it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.remote: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        url = told.get(LOADED.get(tag, "")) or ""
        if REMOTE.match(url) and told.get("rel") != "canonical":
            self.remote.append(url)
        self.remote += [match[0] for match in REMOTE_STYLE.finditer(told.get("style") or "")]
