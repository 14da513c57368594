"""What a person sees: on terminals of three widths, light and dark, and with NO_COLOR."""

from __future__ import annotations

import os
import re
import shlex
import struct
import sys
from threading import Thread

import pytest

from tests.support.archives import ARCHIVES, FIXTURES
from tests.support.command_line import run
from tests.support.verifying import changed
from tsarchive.cli import COMMANDS, main
from tsarchive.cli.lines import cells
from tsarchive.cli.output import COLOURS

fcntl = pytest.importorskip("fcntl", reason="terminals are those of POSIX")
termios = pytest.importorskip("termios")

WIDTHS = (60, 80, 140)
STYLES = re.compile(r"\x1b\[([\d;]*)m")
SHOWN = {
    "module_list_loop.pt": [
        ("info",), ("tree",), ("tree", "--signatures"), ("tensors",), ("code", "--list"),
        ("verify",), ("audit",), ("compat",),
    ],
    "half.pt": [("info",), ("verify",), ("audit",)],
    "odd_names.pt": [("tree",), ("tensors",), ("info",)],
    "none.pt": [("info",), ("diff", "--stat")],
    "program.pte": [("info",), ("tree",), ("verify",), ("audit",)],
    "program.pt2": [("info",), ("tree",), ("tensors",), ("code", "--list")],
}  # fmt: skip
CALLS = {
    "help": [("--help",), *((name, "--help") for name in COMMANDS)],
    "mistakes": [("frob",), ("--frob",), ("tree", "a.pt", "--depth", "x"), *zip(COMMANDS)],
    "two files": [
        ("diff", "module_list_loop.pt", "odd_names.pt"), ("jitter", "half.pt", "odd_names.pt"),
        ("fingerprint", "odd_names.pt", "none.pt"), ("diff", "half.pt", "odd_names.pt"),
    ],
    **{file: [(*call, file) for call in calls] for file, calls in SHOWN.items()},
}  # fmt: skip
# These need no argument.
ALONE = {("demo",), ("cache",)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of several kinds, one that is broken, and none of the name ``none.pt``."""
    made = tmp_path_factory.mktemp("files")
    files = {
        "program.pte": FIXTURES / "executorch/values.pte",
        "program.pt2": next(iter(sorted((FIXTURES / "pt2").glob("*.pt2")))),
    }
    archives = {name: ARCHIVES / name for name in ("module_list_loop.pt", "odd_names.pt")}
    for name, source in {**files, **archives}.items():
        (made / name).write_bytes(source.read_bytes())
    (made / "half.pt").write_bytes(changed()[:3000])
    return made


def on_terminal(*args, columns, monkeypatch) -> str:
    """What a command shows on a terminal of so many columns."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    pieces: list[bytes] = []
    reading = Thread(target=lambda: pieces.extend(_read_all(master)))
    reading.start()
    with open(slave, "w", encoding="utf-8") as stream, monkeypatch.context() as patched:
        for name in ("COLUMNS", "FORCE_COLOR"):
            patched.delenv(name, raising=False)
        patched.setenv("TERM", "xterm-256color")
        for name in ("stdout", "stderr", "__stdout__"):
            patched.setattr(sys, name, stream)
        with pytest.raises(SystemExit):
            main(list(args))
    reading.join()
    os.close(master)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def _read_all(master):
    while True:
        try:
            yield os.read(master, 1 << 16)
        except OSError:  # the other end is closed
            return


def too_wide(shown, columns):
    """Lines that are wider than the terminal, but for names that no line has room for."""
    lines = STYLES.sub("", shown).splitlines()
    wide = [line for line in lines if cells(line) > columns]
    return [line for line in wide if max(map(cells, line.split())) < columns - 14]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("calls", CALLS)
def test_lines_fit_the_terminal(calls, columns, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    for args in CALLS[calls]:
        if args in ALONE:
            continue
        shown = on_terminal(*args, columns=columns, monkeypatch=monkeypatch)
        assert shown, args
        assert too_wide(shown, columns) == [], args
        assert {style for style in STYLES.findall(shown)} <= {"0", "1", "2"}, args


def test_colours_are_those_of_the_table(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("NO_COLOR", raising=False)
    calls = [("code",), ("tree",), ("verify",), ("audit",), ("info",)]
    found = "".join(
        on_terminal(*call, "odd_names.pt", columns=80, monkeypatch=monkeypatch) for call in calls
    )
    codes = re.findall(r"38;5;(\d+)", found)
    assert set(map(int, codes)) <= set(COLOURS.values())
    assert codes
    others = re.sub(r"38;5;\d+;?", "", found)
    assert not re.findall(r"\x1b\[[\d;]*\b(?:3|9)[0-7]\b", others)


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_can_be_read_on_black_and_on_white(colour):
    """By the contrast of WCAG: 3 is its least for large text and signs."""
    light = luminance(COLOURS[colour])
    assert min((light + 0.05) / 0.05, 1.05 / (light + 0.05)) > 3.8


def luminance(number):
    """Of a colour of the cube in the table of 256."""
    parts = [(number - 16) // weight % 6 for weight in (36, 6, 1)]
    shares = [(part * 40 + 55) / 255 if part else 0 for part in parts]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return sum(map(float.__mul__, (0.2126, 0.7152, 0.0722), map(float, linear)))


@pytest.mark.parametrize("columns", [40, *WIDTHS])
def test_examples_are_commands_as_they_stand(columns, monkeypatch):
    for name in COMMANDS:
        monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((columns, 24)))
        folded = examples(run(name, "--help").stdout)
        monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((500, 24)))
        assert folded == examples(run(name, "--help").stdout)


def examples(shown):
    """The words of each command below "Examples:"."""
    below = shown.partition("Examples:\n")[2].partition("\n\n")[0]
    return [shlex.split(line) for line in below.replace("\\\n", "").splitlines()]


@pytest.mark.parametrize("args", [*CALLS["mistakes"], ("info", "none.pt")], ids=" ".join)
def test_mistakes_end_with_what_to_do(args, tmp_path, monkeypatch):
    if args in ALONE:
        return
    monkeypatch.chdir(tmp_path)
    shown = run(*args)
    assert shown.exit_code == 2
    assert shown.stderr.splitlines()[0].startswith("error: ")
    assert shown.stderr.splitlines()[-1].startswith("  hint:  ")


def test_damage_without_an_advice_leads_to_verify():
    path = FIXTURES / "hostile/pickle-no-mark.pt"
    shown = run("tree", path)
    assert shown.stderr.splitlines()[-1].startswith("  hint:  'tsarchive verify FILE'")
    assert run("verify", path).exit_code == 1
