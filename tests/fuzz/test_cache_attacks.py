"""Each attack on the cache of compiled code, and that it would be noticed; CI runs hundreds."""

from __future__ import annotations

import sys

import pytest

from tests.support.archives import ROOT
from tests.support.processes import torch_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="owners and forks are Linux's")

_OWN_FOREIGN = """
import contextlib, pathlib, sys
sys.path.insert(0, sys.argv[1])
import cache
subjects, inputs = cache.subjects_of()
scene = cache.Scene(pathlib.Path(sys.argv[2]), subjects, inputs)
scene.fill()
for path in scene.folder.path.glob("*.code"):
    path.write_bytes(scene.foreign(path))
with contextlib.suppress(KeyError):  # it defines no function
    cache.answer(subjects[0], inputs[0])
print(scene.trace.exists())
"""


def fuzz(*arguments) -> str:
    done = torch_process("-W", "ignore", *arguments, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_attack_changes_an_answer():
    shown = fuzz(ROOT / "fuzz" / "cache.py", "--attacks", 13)
    assert shown == "13 attacks, 0 violations\n"


def test_foreign_code_would_leave_a_trace(tmp_path):
    """Of entries that this user has written: those are trusted, so the attacks are real ones."""
    assert fuzz("-c", _OWN_FOREIGN, ROOT / "fuzz", tmp_path) == "True\n"
