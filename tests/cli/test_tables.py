"""Tables and styles of the command line, in files, in pipes and on terminals."""

from __future__ import annotations

import io
import sys

import pytest

from tsarchive.cli.lines import cells, drawn, folded, hanging
from tsarchive.cli.output import Column, Table, flowing, say, show, styled

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


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("error: it is cut short", 14, ["error: it is", "  cut short"]),
        ("  hint:  copy it again", 20, ["  hint:  copy it", "         again"]),
        ("  hint:  copy it again", 14, ["  hint:  copy", "    it again"]),
        ("operators:  add 1, mul 2", 20, ["operators:  add 1,", "            mul 2"]),
        ("    in a block of code", 14, ["    in a block", "      of code"]),
        ("see layers.0.weight now", 12, ["see", "  layers.0.weight", "  now"]),
        ("  from:  /home/of/somebody.py:3 x", 20,
         ["  from:  /home/of/somebody.py:3", "         x"]),
        ("                    deep down", 12, ["                    deep", " " * 22 + "down"]),
        ("short", 12, ["short"]),
        ("", 12, [""]),
    ],
)  # fmt: skip
def test_lines_hang_below_what_they_are_about(text, limit, expected):
    assert hanging(text, limit) == expected


@pytest.mark.parametrize(
    ("word", "limit", "pieces"),
    [
        ("code/__torch__/models.py", 16, ["code/__torch__/", "models.py"]),
        ("a/bcdefghijkl", 8, ["a/bcdefg", "hijkl"]),
        ("torch.nn.Linear", 9, ["torch.nn.", "Linear"]),
    ],
)
def test_words_are_cut_behind_punctuation(word, limit, pieces):
    assert folded(word, limit) == pieces


def test_parts_flow_with_their_styles(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    parts = [("name", "bold"), ("a.Class", ""), ("forward, backward", "dim")]
    assert flowing(parts, 14) == [
        "\x1b[1mname\x1b[0m  a.Class", "\x1b[2mforward,\x1b[0m", "\x1b[2mbackward\x1b[0m",
    ]  # fmt: skip


NAMED = (Column("kind"), Column("name", is_whole=True), Column("bytes", is_right=True))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (40, ["kind    name              bytes", "─" * 31, "float   layers.0.weight   1,024"]),
        (24, ["name", "  kind   bytes", "─" * 14, "layers.0.weight", "  float  1,024"]),
    ],
)
def test_names_have_lines_of_their_own_where_columns_have_no_room(columns, expected, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert table(("float", "layers.0.weight", "1,024"), columns=NAMED) == expected


def test_words_and_figures_stay_whole_while_texts_can_give_way(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    columns = (Column("role"), Column("bytes", is_right=True), Column("why"))
    shown = table(("a plain attribute", "12,345,678", "it is " * 9), columns=columns)
    assert max(map(cells, shown)) <= 40
    assert all(any(word in line for line in shown) for word in ("attribute", "12,345,678"))


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
        ({"FORCE_COLOR": "1"}, "\x1b[38;5;160m\x1b[1mx\x1b[0m"),
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
