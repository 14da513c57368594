"""Measured figures stand in one place each, with their date and the command that prints them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.archives import ROOT

# The changelog tells what was measured when, and stays as it is.
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
DATED: Final = re.compile(
    r"[Mm]easured\s+on\s+20\d\d-\d\d-\d\d,\s+(torch\s+[\d.]+\d,\s+)?Python\s+3\.\d+"
)
COMMAND: Final = re.compile(r"`python\s+(benchmarks/[\w/]+\.py)")
TIME: Final = re.compile(r"\b\d[\d.,]* (ms|µs)\b")


class Section(NamedTuple):
    page: Path
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}: {self.text.partition(chr(10))[0]}"

    @property
    def rows(self) -> list[str]:
        """The rows of tables that have figures, as they are told from rows of words."""
        lines = re.findall(r"^\|.*\|$", self.text, re.MULTILINE)
        return [line for line in lines if len(re.findall(r"\| *[\d.,]+[^|]*(?=\|)", line)) > 1]


def sections() -> Iterator[Section]:
    for page in PAGES:
        for text in HEADING.split(BLOCK.sub("", page.read_text(encoding="utf-8"))):
            yield Section(page, text)


def test_what_is_measured_names_a_command_that_is_there():
    dated = [section for section in sections() if DATED.search(section.text)]
    assert dated
    found = {str(section): COMMAND.findall(section.text) for section in dated}
    assert [place for place, commands in found.items() if not commands] == []
    named = {command for commands in found.values() for command in commands}
    assert [command for command in sorted(named) if not (ROOT / command).is_file()] == []


def test_times_are_dated():
    timed = [section for section in sections() if TIME.search(section.text)]
    assert timed
    assert [str(section) for section in timed if not DATED.search(section.text)] == []


def test_dates_are_those_of_measurements():
    """Rows of a table that a command writes have dates of their own."""
    text = {str(section): DATED.sub("", section.text) for section in sections()}
    undated = [
        place
        for place, rest in text.items()
        if re.search(r"^[^|]*\b20\d\d-\d\d-\d\d\b", rest, re.M)
    ]
    assert undated == []


def test_no_figures_stand_in_two_places():
    rows = Counter(row for section in sections() for row in section.rows)
    assert rows
    assert [row for row, count in rows.items() if count > 1] == []
