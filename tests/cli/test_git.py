"""``tsarchive diff --install-git``: what git shows of models, in real repositories."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.support.archives import ROOT, loaded, saved, torch_loaded, torch_saved
from tests.support.command_line import document, run
from tsarchive.cli.git_settings import LINES
from tsarchive.diffing.text import lines_of

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor + 0.5


def model(factor: float) -> bytes:
    torch.manual_seed(0)
    return saved(torch.jit.script(Scaled(factor)), extra_files={"labels.txt": b"cat\ndog\n"})


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user without settings, whose own stay as they are."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def repository(home, tmp_path, monkeypatch):
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    git("init", "-q")
    return folder


def git(*arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "core.autocrlf=false")
    done = subprocess.run(["git", *identity, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def changed_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line[:1] in "+-" and line[:3] not in "+++---"]


def test_git_shows_what_changed(repository):
    assert run("diff", "--install-git").exit_code == 0
    path = repository / "net.pt"
    path.write_bytes(model(2.0))
    git("add", "net.pt")
    git("commit", "-qm", "Add a model")
    path.write_bytes(model(2.5))
    shown = git("diff")
    assert changed_lines(shown) == ["-  factor = 2.0", "+  factor = 2.5"]
    assert "Binary files" not in shown
    path.write_bytes(saved(loaded(model(2.0)), extra_files={"labels.txt": b"cat\ndog\n"}))
    assert changed_lines(git("diff")) == []


def test_the_settings_stand_in_the_repository_alone(repository, home):
    found = document("diff", "--install-git")
    for name, value in found["settings"].items():
        assert git("config", "--local", name) == f"{value}\n"
    assert (repository / ".git/info/attributes").read_text().split("\n") == [*LINES, ""]
    assert found["added"] == [*LINES]
    assert not (repository / ".gitattributes").exists()
    assert not (home / ".gitconfig").exists()


def test_settings_of_the_user(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = document("diff", "--install-git", "--global")
    assert found["attributes"] == str(home / ".config/git/attributes")
    named = home / "attributes"
    named.write_bytes(b"*.png binary")
    git("config", "--global", "core.attributesFile", str(named))
    assert document("diff", "--install-git", "--global")["attributes"] == str(named)
    assert named.read_text().split("\n") == ["*.png binary", *LINES, ""]


def test_git_finds_the_command_whatever_the_path(repository):
    for name, value in document("diff", "--install-git")["settings"].items():
        if not name.endswith("xfuncname"):
            assert Path(shlex.split(value)[0]).is_absolute()


def test_settings_are_written_once(repository):
    run("diff", "--install-git")
    before = [(repository / name).read_bytes() for name in (".git/config", ".git/info/attributes")]
    assert document("diff", "--install-git")["added"] == []
    after = [(repository / name).read_bytes() for name in (".git/config", ".git/info/attributes")]
    assert after == before


def test_what_git_refuses_is_an_error(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("diff", "--install-git")
    assert result.exit_code == 2
    assert "git takes no settings" in result.stderr
    assert "Run this inside of a repository, or with --global" in result.stderr
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no git" in run("diff", "--install-git").stderr


@pytest.mark.parametrize(
    "args", [("--install-git", "a.pt"), ("--global",), ("--textconv", "a.pt", "b.pt", "c.pt")]
)
def test_options_that_do_not_go_together(args):
    assert run("diff", *args).exit_code == 2


def text(data: bytes, tmp_path) -> list[str]:
    path = tmp_path / "model"
    path.write_bytes(data)
    return [*lines_of(str(path))]


def test_a_model_has_one_text_however_it_is_kept(tmp_path):
    torch.manual_seed(0)
    module = torch.jit.script(Scaled(2.0))
    data = torch_saved(module)
    forms = [saved(module), saved(module, canonical=True), saved(module, debug=False),
             saved(loaded(data)), torch_saved(torch_loaded(data))]  # fmt: skip
    assert [text(form, tmp_path) for form in forms] == [text(data, tmp_path)] * len(forms)


def test_the_text_has_all_parts(tmp_path):
    lines = text(model(2.0), tmp_path)
    assert "module (root): __torch__.tests.cli.test_git.Scaled" in lines
    assert "  factor = 2.0" in lines
    assert "    _1 = torch.add(torch.mul(_0, factor), 0.5)" in lines
    assert any(line.startswith("tensor linear.weight: float32 [2, 2] ") for line in lines)
    assert lines[-2:] == ["  cat", "  dog"]


@pytest.mark.parametrize(
    "name", ["pt2/linear-2.8.pt2", "executorch/linear.pte", "hostile/file-state-dict.pt"]
)
def test_files_of_other_formats_have_a_text(name):
    lines = [*lines_of(str(ROOT / "fixtures" / name))]
    assert any(line.startswith("tensor ") for line in lines)
    assert not any("\n" in line for line in lines)


def test_code_without_operations_has_a_text(tmp_path):
    """Functions that give what they are given have no line that a node stands on."""
    texts = [text(saved(torch.jit.script(class_())), tmp_path) for class_ in (First, Second)]
    assert [lines[-2:] for lines in texts] == [["    return 1", ""], ["    return 2", ""]]


class First(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class Second(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return y


def test_exported_programs_show_their_graph():
    lines = [*lines_of(str(ROOT / "fixtures/pt2/linear-2.8.pt2"))]
    assert any("torch.ops.aten.linear.default" in line for line in lines)


@pytest.mark.parametrize("data", [b"", b"no model\n", model(2.0)[:500]], ids=["", "text", "half"])
def test_files_that_are_no_models_have_a_digest(data, tmp_path):
    """git would show nothing where the text of one side cannot be made."""
    digest, reason = text(data, tmp_path)
    assert digest.startswith("sha256 ")
    assert reason.startswith("no model that can be compared: ")
    result = run("diff", "--textconv", tmp_path / "model")
    assert (result.exit_code, result.stdout) == (0, f"{digest}\n{reason}\n")
