"""Whatever a file holds stands in a page as text."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsarchive
from tests.support.archives import ROOT
from tests.support.executorch_files import mutated
from tests.support.report_pages import HOSTILE, data_of, hostile_program, read
from tsarchive.reporting.code import highlight_line
from tsarchive.reporting.document import document as made
from tsarchive.reporting.html import MAX_TEXT, Html, Section, joined, tag, text

ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "a", "header", "h1", "h2", "h3", "p", "b",
    "nav", "ul", "li", "main", "section", "dl", "dt", "dd", "span", "svg", "rect", "line", "path",
    "text", "g", "button", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "div",
    "label", "input", "output", "pre", "code", "figure", "figcaption", "script",
}  # fmt: skip


def is_plain(shown: str) -> bool:
    """Whether a browser shows all of it, from left to right."""
    return all(char.isprintable() or char in "\n" for char in shown)


@given(st.text() | st.sampled_from(HOSTILE))
def test_text_is_text(value):
    element = read(tag("p", value, title=value)).one("p")
    assert not element.children
    assert element.text == element["title"] == text_of(value)
    assert is_plain(element.text)


def text_of(value):
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value[:MAX_TEXT])
    return shown if len(value) <= MAX_TEXT else f"{shown}… {len(value) - MAX_TEXT:,} more letters"


@given(st.text(st.characters(exclude_characters="\n")) | st.sampled_from(HOSTILE))
def test_colours_change_no_letter(line):
    element = read(tag("code", highlight_line(line, 10_000))).one("code")
    assert element.text == "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    assert {child.name for child in element.children} <= {"span"}


def test_pieces_are_escaped_unless_they_are_html():
    assert joined(("<b>", Html("<i>"), None)) == "&lt;b&gt;<i>"
    assert tag("p", "a", class_="x", data_of='"', hidden=True, id=None) == (
        '<p class="x" data-of="&quot;" hidden>a</p>'
    )


def test_long_texts_end():
    assert text("a" * 1000) == "a" * MAX_TEXT + f"… {1000 - MAX_TEXT:,} more letters"


def test_data_cannot_end_its_element():
    found = {name: {"problem": name} for name in HOSTILE}
    section = Section("tensors", HOSTILE[0], Html(""), 1, 1, found)
    html = made(HOSTILE[1], tag("h1", HOSTILE[1]), [section])
    document = read(html)
    assert data_of(document)["tensors"] == json.loads(json.dumps(found))
    assert len(document.all("script")) == 2


def test_names_of_programs_are_text():
    html = tsarchive.report(io.BytesIO(hostile_program()), histograms="*").html
    document = read(html)
    assert {element.name for element in document.walk()} - {""} <= ELEMENTS
    assert len(document.all("script")) == 2
    assert is_plain(html)
    first, second, third, fourth, _, _ = HOSTILE
    assert first in document.by_id("modules").text
    assert second in document.by_id("tensors").text
    assert third.encode("ascii", "backslashreplace").decode() in document.by_id("code").text
    assert fourth in document.by_id("code").text
    assert first in document.by_id("memory").text


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures" / "hostile").glob("*.pt")), ids=str)
def test_hostile_fixtures_give_sound_pages(path):
    made = tsarchive.report(path, histograms="*")
    document = read(made.html)
    assert {element.name for element in document.walk()} - {""} <= ELEMENTS
    assert len(document.all("script")) == 2
    assert is_plain(document.one("main").text)


def test_damaged_programs_give_sound_pages():
    for data in mutated(seed=5, count=150):
        document = read(tsarchive.report(io.BytesIO(data), histograms="*").html)
        assert {element.name for element in document.walk()} - {""} <= ELEMENTS
