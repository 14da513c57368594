"""Completion is installed where shells look for it, and commands are found by near names."""

from __future__ import annotations

import pytest

from tests.support.command_line import process

LINES = {
    "bash": (".bashrc", 'eval "$(_TSARCHIVE_COMPLETE=bash_source tsarchive)"'),
    "zsh": (".zshrc", 'eval "$(_TSARCHIVE_COMPLETE=zsh_source tsarchive)"'),
    "fish": (
        ".config/fish/completions/tsarchive.fish",
        "_TSARCHIVE_COMPLETE=fish_source tsarchive | source",
    ),
}


def command(tmp_path, *args, shell="/bin/bash"):
    env = {"HOME": str(tmp_path), "SHELL": shell}
    return process("-m", "tsarchive", *args, cwd=tmp_path, env=env)


@pytest.mark.parametrize("shell", LINES)
def test_the_line_is_written_once(shell, tmp_path):
    name, line = LINES[shell]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("export A=1")
    for _ in range(2):
        done = command(tmp_path, "--install-completion", shell=f"/usr/bin/{shell}")
        assert done.returncode == 0, done.stderr
        assert str(path) in done.stdout
    assert path.read_text() == f"export A=1\n{line}\n"


@pytest.mark.parametrize("shell", ["", "/bin/csh"])
def test_other_shells_are_refused(shell, tmp_path):
    done = command(tmp_path, "--install-completion", shell=shell)
    assert done.returncode == 2
    assert "bash, zsh, fish" in done.stderr


def test_commands_are_suggested(tmp_path):
    done = command(tmp_path, "fingreprint", "a.pt")
    assert done.returncode == 2
    assert "Did you mean 'fingerprint'?" in done.stderr
