"""The code in the README and the tutorials runs, in the order in which a reader meets it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import torch_process

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("tutorial-*.md"))]
BLOCK: Final = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM: Final = f"{shlex.quote(sys.executable)} -m tsarchive"
HEAD: Final = """
import subprocess, sys

def run(command):
    done = subprocess.run(command, shell=True, text=True, capture_output=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)

"""


def as_program(page: str) -> str:
    """Return the blocks of a page as one program, commands of the shell included."""
    return HEAD + "\n".join(_parts(page))


def _parts(page: str) -> Iterator[str]:
    for language, text in BLOCK.findall(page):
        if language == "python":
            yield text
            continue
        for line in text.splitlines():
            assert line.startswith("$ "), line
            yield f"run({line.removeprefix('$ ').replace('tsarchive', PROGRAM, 1)!r})"


@pytest.mark.whole
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path):
    program = tmp_path / "page.py"
    program.write_text(as_program(page.read_text(encoding="utf-8")), encoding="utf-8")
    done = torch_process(program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130
