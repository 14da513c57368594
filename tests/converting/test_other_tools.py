"""Formats that other tools write: the commands that errors name."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES
from tsarchive.formats.destinations import OTHER_TOOLS

SOURCE = ARCHIVES / "sequential.pt"


def refusal(path):
    with pytest.raises(tsarchive.UnsupportedError) as info:
        tsarchive.convert(SOURCE, path)
    return info.value


@pytest.mark.whole
@pytest.mark.parametrize("suffix", OTHER_TOOLS)
def test_the_command_is_named(suffix, tmp_path):
    error = refusal(tmp_path / f"my net{suffix.upper()}")
    tool = OTHER_TOOLS[suffix]
    assert tool.tool in error.message
    first, _, command = error.hint.partition(", then run: ")
    assert first == f"Convert to {tmp_path}/my net{tool.source}"
    words = shlex.split(command)
    if tool.is_python:
        assert words[:2] == ["python", "-c"]
        compile(words[2], "command", "exec")
    assert any(f"{tmp_path}/my net{tool.source}" in word for word in words)


@pytest.mark.long("test_the_command_is_named")
def test_a_command_does_what_it_says(tmp_path):
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    error = refusal(tmp_path / "net.ort")
    tsarchive.convert(SOURCE, tmp_path / "net.onnx", args=(torch.ones(2, 3),))
    words = shlex.split(error.hint.partition(", then run: ")[2])
    assert words[0] == "python"
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "net.ort").exists()
