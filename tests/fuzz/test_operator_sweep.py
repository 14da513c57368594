"""The sweep over allowed operators: it finds what it is made to find, and nothing in a slice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.archives import ROOT

SWEEP = ROOT / "fuzz" / "operators.py"
GUARD_PAGES = ROOT / "fuzz" / "guard_pages.c"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None,
    reason="guard pages are made with a C compiler, on Linux",
)


@pytest.fixture(scope="module")
def guard_pages(tmp_path_factory):
    library = tmp_path_factory.mktemp("guard") / "guard_pages.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", library, GUARD_PAGES, "-ldl"]
    subprocess.run(command, check=True)
    return library


def between_guard_pages(library, code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_PRELOAD": str(library), **settings}
    command = [sys.executable, "-W", "ignore", "-c", f"import torch, ctypes\n{code}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


WRITE = "x = torch.zeros(4)\nctypes.c_char.from_address(x.data_ptr() + {}).value = b'x'\ndel x"


@pytest.mark.sample(1, gaps="each item is a process that imports torch")
@pytest.mark.parametrize(
    ("code", "settings", "status"),
    [
        ("torch.zeros(4)", {}, 0),
        (WRITE.format(15), {}, 0),
        (WRITE.format(16), {}, -11),
        (WRITE.format(-1), {}, -6),
        (WRITE.format(-1), {"GUARD_FRONT": "1"}, -11),
        (WRITE.format(16), {"GUARD_FRONT": "1"}, -6),
        ("i = torch.tensor([0, 9])\ntorch.sparse_csr_tensor(torch.tensor([0, 1, 2]), i, "
         "torch.ones(2), (2, 2)) @ torch.ones(2, 16)", {}, -11),
    ],
)  # fmt: skip
def test_guard_pages_stop_what_reaches_beyond_a_tensor(guard_pages, code, settings, status):
    ran = between_guard_pages(guard_pages, code, **settings)
    assert ran.returncode == status, ran.stderr
    assert ("written" in ran.stderr) == (status == -6)


def sweep(*options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SWEEP, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.long("test_guard_pages_stop_what_reaches_beyond_a_tensor")
def test_a_slice_has_no_findings(tmp_path):
    path = tmp_path / "findings.json"
    ran = sweep("--only", "sparse_.*tensor|index_(select|add)", "--passes", 4, "--json", path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads(path.read_text())
    assert told["findings"] == []
    assert told["calls"] > 1000


@pytest.mark.long("test_guard_pages_stop_what_reaches_beyond_a_tensor")
def test_a_stretch_is_made_again_by_its_number():
    ran = sweep("--only", "aten::clone", "--reproduce", 3)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("aten::clone") > 5
    assert ran.stdout.endswith("no finding\n")
