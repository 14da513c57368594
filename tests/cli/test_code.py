"""``tsarchive code``."""

from __future__ import annotations

import zipfile

import pytest

from tests.support.archives import ARCHIVES
from tests.support.command_line import (
    SEQUENTIAL,
    document,
    error,
    piped,
    process,
    run,
    write_archive,
)
from tsarchive.describing.definitions import definitions

LINEAR = "__torch__.torch.nn.modules.linear.Linear"
RECORD = "code/__torch__/torch/nn/modules/linear.py"
TEXT = """\
class Net(Module):
  __parameters__ = []
  training : bool
  def forward(self: __torch__.a.Net,
    x: Tensor) -> Tensor:
    return __torch__.a.twice(x, )
  def other(self: __torch__.a.Net) -> str:
    return "  def fake(self)"

def twice(x: Tensor) -> Tensor:
  _0 = torch.add(x, x)
  return _0

class Pair(NamedTuple):
  a : Tensor
"""


def source(path, record):
    with zipfile.ZipFile(path) as archive:
        root = archive.namelist()[0].partition("/")[0]
        return archive.read(f"{root}/{record}").decode()


def test_definitions_of_a_record():
    found = list(definitions("code/__torch__/a.py", TEXT))
    assert [(d.kind, d.qualified_name, d.line) for d in found] == [
        ("class", "__torch__.a.Net", 1),
        ("method", "__torch__.a.Net.forward", 4),
        ("method", "__torch__.a.Net.other", 7),
        ("function", "__torch__.a.twice", 10),
        ("class", "__torch__.a.Pair", 14),
    ]
    lines = TEXT.splitlines()
    assert [d.text.splitlines() for d in found] == [
        lines[0:8], lines[3:6], lines[6:8], lines[9:12], lines[13:15]
    ]  # fmt: skip


def test_all_records_come_in_the_order_of_the_file():
    with zipfile.ZipFile(SEQUENTIAL) as archive:
        names = [n.partition("/")[2] for n in archive.namelist() if n.endswith(".py")]
    found = document("code", SEQUENTIAL)["code"]
    assert [piece["name"] for piece in found] == names
    for piece in found:
        assert piece.keys() == {"kind", "name", "record", "line", "text"}
        assert piece["text"] == source(SEQUENTIAL, piece["record"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (RECORD, "record"),
        ("torch/nn/modules/linear.py", "record"),
        (LINEAR, "class"),
        ("modules.linear.Linear", "class"),
        (f"{LINEAR}.forward", "method"),
        ("linear.Linear.forward", "method"),
    ],
)
def test_a_part_by_its_name_or_the_end_of_it(name, kind):
    (piece,) = document("code", SEQUENTIAL, name)["code"]
    assert (piece["kind"], piece["record"]) == (kind, RECORD)
    assert piece["text"].rstrip("\n") in source(SEQUENTIAL, RECORD)
    shown = run("code", SEQUENTIAL, name).stdout
    assert shown.rstrip("\n") == piece["text"].rstrip("\n")


def test_a_function():
    path = ARCHIVES / "nested_calls.pt"
    functions = [p for p in document("code", path, "--list")["code"] if p["kind"] == "function"]
    assert functions
    (piece,) = document("code", path, functions[0]["name"])["code"]
    assert piece["text"].startswith("def ")


def test_a_name_that_is_not_unique():
    found = error("code", SEQUENTIAL, "forward")
    assert "names end with 'forward'" in found["message"]
    assert f"{LINEAR}.forward" in found["message"]


def test_a_name_that_is_not_there():
    assert f"Similar: {LINEAR}.forward" in error("code", SEQUENTIAL, "Linear.forwar")["message"]
    assert "--list" in error("code", SEQUENTIAL, "zebra")["message"]


def test_the_list_has_every_name_and_no_text():
    found = document("code", SEQUENTIAL, "--list")["code"]
    assert all(piece.keys() == {"kind", "name", "record", "line"} for piece in found)
    shown = run("code", SEQUENTIAL, "--list").stdout
    for piece in found:
        assert piece["name"] in shown


def holding(text, path):
    records = {"data.pkl": b"", "code/__torch__.py": text, "constants.pkl": b"", "version": b"3"}
    return write_archive(path, records)


@pytest.fixture
def rude(tmp_path):
    """An archive whose code has an escape that a terminal acts on, a tab and an invalid byte."""
    return holding(b'x = "\x1b]0;title\x07"\t# \xff\n', tmp_path / "rude.pt")


def test_the_pipe_gets_the_source_as_it_is_in_the_archive(tmp_path):
    text = 'class Net(Module):\n  x : str = "日本"\n'.encode()
    assert piped("code", holding(text, tmp_path / "a.pt")) == text


def test_the_pipe_gets_escapes_in_place_of_control_characters(rude):
    assert piped("code", rude) == b'x = "\\x1b]0;title\\x07"\t# \\udcff\n'


@pytest.mark.parametrize(
    "env", [{}, {"FORCE_COLOR": "1", "TERM": "xterm"}], ids=["pipe", "terminal"]
)
def test_raw_source_is_the_bytes_of_the_record(env, rude):
    assert piped("code", rude, "--raw", env=env) == b'x = "\x1b]0;title\x07"\t# \xff\n'


@pytest.mark.parametrize("option", ["--json", "--list"])
def test_raw_is_a_form_of_source_alone(option):
    result = run("code", SEQUENTIAL, "--raw", option)
    assert result.exit_code == 2
    assert "--raw" in result.stdout + result.stderr


def test_the_terminal_gets_escapes(rude, tmp_path):
    shown = process(
        "-m", "tsarchive", "code", rude, cwd=tmp_path, env={"FORCE_COLOR": "1", "TERM": "xterm"}
    ).stdout
    assert "\x1b]0" not in shown
    assert "\\x1b" in shown
