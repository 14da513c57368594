"""Tables and styles of the command line, in files, in pipes and on terminals."""

from __future__ import annotations

import io
import sys

import pytest

from tsarchive.cli.output import Column, Table, cells, drawn, folded, say, show, styled

LABELLED = (Column("name", style="bold"), Column("bytes", is_right=True), Column("what"))


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def table(*rows, columns=LABELLED):
    made = Table(columns)
    for row in rows:
        made.add_row(*row)
    return list(made.lines())


def test_columns_are_as_wide_as_their_longest_text():
    assert table(("weight", "1,024", "parameter"), ("b", "4", "x")) == [
        "name     bytes   what",
        "─" * 26,
        "weight   1,024   parameter",
        "b            4   x",
    ]


def test_without_headings_there_are_rows_only():
    grid = Table([Column(), Column()], gap=2)
    assert list(grid.lines()) == []
    grid.add_row("a", "one\ntwo")
    grid.add_row("bc", "")
    assert list(grid.lines()) == ["a   one", "    two", "bc"]


def test_a_table_without_rows_has_its_headings():
    assert table() == ["name   bytes   what", "─" * 19]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("abc", 3), ("日本", 4), ("e\u0301", 1), ("é", 1), ("\u0915\u0947", 1), ("a\u20dd", 1)],
)
def test_cells(text, expected):
    assert cells(text) == expected


def test_wide_characters_take_two_columns():
    rows = table(("日本", "1", "x"), ("abcd", "1", "y"))[2:]
    assert rows == ["日本       1   x", "abcd       1   y"]


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("one two", 7, ["one two"]),
        ("one two", 6, ["one", "two"]),
        ("a abcdefghij b", 4, ["a", "abcd", "efgh", "ij b"]),
        ("日本語", 4, ["日本", "語"]),
        ("日本", 1, ["日", "本"]),
        ("", 4, [""]),
    ],
)
def test_folding(text, limit, pieces):
    assert folded(text, limit) == pieces


@pytest.mark.parametrize("columns", [30, 40, 60, 200])
def test_the_widest_column_gives_way_on_a_terminal(columns, monkeypatch):
    row = ("layers.0.weight" * 3, "1,024", "what it is, in some words")
    unbounded = table(row)
    monkeypatch.setenv("COLUMNS", str(columns))
    bounded = table(row)
    assert max(map(cells, bounded)) <= columns
    assert (bounded == unbounded) is (columns == 200)
    letters = "".join(sorted("".join(unbounded[2:]).replace(" ", "")))
    assert "".join(sorted("".join(bounded[2:]).replace(" ", ""))) == letters


def test_no_column_vanishes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    assert max(map(cells, table(("n" * 50, "1", "w" * 50)))) == 8 + 3 + 5 + 3 + 8


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, "x"),
        ({"FORCE_COLOR": ""}, "x"),
        ({"FORCE_COLOR": "1"}, "\x1b[31m\x1b[1mx\x1b[0m"),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "\x1b[1mx\x1b[0m"),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, "x"),
    ],
)
def test_styles(env, expected, monkeypatch):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert styled("x", "bold red") == expected
    assert (styled("", "bold"), styled("x", "")) == ("", "x")


def test_a_colour_alone_leaves_nothing_where_no_colours_are_wanted(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled("x", "cyan") == "x"


def test_styles_take_no_room(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert table(("a", "1", "x"))[2] == "\x1b[1ma\x1b[0m          1   x"


@pytest.mark.parametrize(
    ("encoding", "expected"), [("utf-8", "├── │ └── ─"), ("cp1252", "+-- | `-- -")]
)
def test_lines_of_boxes_fit_the_encoding(encoding, expected, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    assert drawn("├── │ └── ─") == expected


def test_characters_that_the_encoding_lacks_are_escaped(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "cp1252", newline="\n"))
    show(["日 é"])
    say("本")
    sys.stdout.flush()
    assert written.getvalue() == b"\\u65e5 \xe9\n\\u672c\n"


def test_whole_columns_are_not_folded(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    name = "features.denseblock1.denselayer1.norm1.weight"
    columns = (Column("name", is_whole=True), Column("what"))
    lines = table((name, "parameter of it"), columns=columns)
    assert [line for line in lines if name in line]
    assert all("featur" not in line or name in line for line in lines)
