"""What files say reaches stdout and stderr with escapes, in pipes as on terminals."""

from __future__ import annotations

import io
import re
import shutil
import sys
import warnings

import pytest
import torch

from tests.support.archives import ROOT, torch_saved
from tests.support.command_line import SEQUENTIAL, document, piped, run, write_archive
from tests.support.processes import torch_process
from tests.support.verifying import changed, records
from tsarchive.cli.output import guarded, own_stream
from tsarchive.describing.text import visible

# Of a terminal's language, of eight bits, of right-to-left text, of no width, and a tag.
RUDE = "\x1b]0;x\x07\x9b7m\u202e\u200b\U000e0041\x7f\r"
RUDE_NAME = f"net{RUDE}\udcff.pt"
CODE = "code/__torch__/torch/nn/modules/linear.py"
STYLES = re.compile(r"\x1b\[[\d;]*m")
STREAMS = {"pipe": {}, "terminal": {"FORCE_COLOR": "1", "TERM": "xterm"}}


def raw_characters(text):
    unstyled = STYLES.sub("", text)
    return sorted({char for char in unstyled if not char.isprintable() and char not in "\n\t"})


class Talker(torch.nn.Module):
    """Prints when it is loaded and when it is called, and raises."""

    @torch.jit.export
    def __getstate__(self) -> bool:
        return self.training

    @torch.jit.export
    def __setstate__(self, state: bool) -> None:
        self.training = state
        print("loaded\x1b[2J", "\u202e")

    def forward(self, x: torch.Tensor, fails: bool) -> torch.Tensor:
        print("called\x1b[2J", "\u202e")
        if fails:
            raise ValueError("raised\x1b[2J\u202e")
        return x


class Warner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warnings.warn("warned\x1b[2J\u202e")  # noqa: B028  # TorchScript takes no more
        return x


@pytest.fixture(params=STREAMS)
def stream(request, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in STREAMS[request.param].items():
        monkeypatch.setenv(name, value)
    return request.param


def archive(path, **changes):
    path.write_bytes(changed(**changes))
    return path


@pytest.fixture
def rude(tmp_path):
    """An archive that can be loaded, with a rude comment in its code and a rude name."""
    code = records()[CODE] + f"    # {RUDE.strip()}\n".encode()
    return archive(tmp_path / RUDE_NAME, **{CODE: code})


@pytest.fixture
def rude_names(tmp_path):
    """An archive with names of attributes that no writer gives."""
    data = records()["data.pkl"].replace(b"weight", b"w\x1b[7m\x7f")
    return archive(tmp_path / "names.pt", **{"data.pkl": data})


@pytest.fixture
def talker(tmp_path):
    path = tmp_path / RUDE_NAME
    path.write_bytes(torch_saved(torch.jit.script(Talker())))
    return path


def checked(*args):
    result = run(*args)
    assert raw_characters(result.stdout) == []
    assert raw_characters(result.stderr) == []
    return result


@pytest.mark.parametrize(
    "args",
    [
        ("info",), ("tree",), ("tree", "--signatures"), ("code",), ("code", "--list"),
        ("tensors",),
        ("verify",), ("audit",), ("audit", "--sarif"), ("jitter",), ("run", "--random", "2x3"),
        ("report", "-o", RUDE_NAME + ".html"), ("decompile", "-o", "package" + RUDE),
        ("convert", RUDE_NAME + "2.pt2", "--random", "2x3"),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_every_command(args, as_json, rude, stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *rest = args
    checked(command, rude, *rest, *(["--json"] if as_json and "--sarif" not in rest else []))


@pytest.mark.parametrize("command", ["info", "tree", "tensors", "verify", "audit", "run", "jitter"])
def test_names_in_the_file(command, rude_names, stream):
    checked(command, rude_names)


def test_names_of_files_that_are_edited(stream, tmp_path):
    source = tmp_path / f"net{RUDE}.pte"
    shutil.copy(next((ROOT / "fixtures" / "executorch").rglob("*.pte")), source)
    result = checked("edit", source, "-o", tmp_path / f"copy{RUDE}.pte")
    assert (result.exit_code, "byte for byte" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    "args",
    [
        ("info", RUDE_NAME), ("info", "a.pt", RUDE_NAME), ("info", "a.pt", f"--{RUDE}"),
        (RUDE,), (f"--{RUDE}",), ("jitter", "--all", RUDE_NAME), ("demo", RUDE_NAME),
        ("code", SEQUENTIAL, RUDE), ("run", SEQUENTIAL, RUDE_NAME),
        ("run", SEQUENTIAL, f"{RUDE}.npy"),
        ("run", SEQUENTIAL, "--method", RUDE), ("run", SEQUENTIAL, "--map-location", RUDE),
        ("run", SEQUENTIAL, "--out", f"{RUDE}.npz"), ("run", SEQUENTIAL, "--import", RUDE),
        ("run", SEQUENTIAL, "--allow", RUDE), ("tensors", SEQUENTIAL, "--match", RUDE),
        ("convert", SEQUENTIAL, RUDE),
    ],
    ids=ascii,
)  # fmt: skip
def test_errors(args, stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert checked(*args).exit_code == (0 if "tensors" in args else 2)


@pytest.mark.parametrize("fails", [False, True])
def test_what_models_say(fails, talker, stream):
    result = checked("run", talker, "--random", "2", "--arg", fails)
    assert result.exit_code == (2 if fails else 0)
    for said in ("loaded", "called", "raised")[: 3 if fails else 2]:
        assert f"{said}\\x1b[2J" in result.stderr
        assert said not in result.stdout


@pytest.mark.long("test_what_models_say")
def test_what_models_warn_of(tmp_path):
    path = tmp_path / "warner.pt"
    torch.jit.save(torch.jit.script(Warner()), str(path))
    shown = torch_process("-m", "tsarchive", "run", path, "--random", "2", cwd=tmp_path)
    assert "warned\\x1b[2J\\u202e" in shown.stderr
    assert raw_characters(shown.stdout + shown.stderr) == []


@pytest.mark.long("test_what_models_say")
def test_tracebacks_quote_models(talker, tmp_path):
    args = ("--traceback", "run", talker, "--random", "2", "--arg", True)
    shown = torch_process("-m", "tsarchive", *args, cwd=tmp_path)
    assert "ValueError: raised\\x1b[2J" in shown.stderr
    assert raw_characters(shown.stdout + shown.stderr) == []


@pytest.mark.parametrize("command", ["jitter", "decompile"])
def test_models_that_print_while_they_are_loaded_leave_json_whole(command, talker, tmp_path):
    rest = ("-o", tmp_path / "package") if command == "decompile" else ()
    assert document(command, talker, *rest)


def test_lines_cannot_be_forged_by_names_of_files(tmp_path):
    path = tmp_path / "a.pt\nb.pt: sound: whole"
    path.write_bytes(b"<html></html>")
    for command in ("verify", "audit"):
        assert not [
            line for line in run(command, path).stdout.splitlines() if line.startswith("b.pt")
        ]
    assert not run("tree", path).stderr.splitlines()[0].endswith("a.pt")


def test_code_is_as_it_is_where_nothing_is_to_escape(tmp_path):
    text = '\tx = "日本 é"  # 100 %\n\n\ty = 2'
    records = {"data.pkl": b"", "code/a.py": text.encode(), "constants.pkl": b"", "version": b"3"}
    path = write_archive(tmp_path / "plain.pt", records)
    for encoding in ("utf-8", "latin-1", "ascii"):
        assert piped("code", path, env={"PYTHONIOENCODING": encoding}) == f"{text}\n".encode()


def test_streams_that_encode_less_get_escapes(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(written, "cp1252", newline="\n"))
    with guarded():
        with guarded():
            sys.stderr.write("日 é\x1b\t\n")
        own_stream(stderr=True).write("\x1b")
    sys.stderr.flush()
    assert written.getvalue() == b"\\u65e5 \xe9\\x1b\t\n\x1b"


def test_streams_are_given_back():
    before = sys.stdout, sys.stderr
    run("info", SEQUENTIAL)
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize(
    ("text", "keep", "expected"),
    [("a\tb\n", "\n\t", "a\tb\n"), ("a\tb\n", "", "a\\tb\\n"), ("a\tb\x1b", "\t", "a\tb\\x1b")],
)
def test_characters_that_are_kept(text, keep, expected):
    assert visible(text, keep=keep) == expected
