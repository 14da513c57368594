"""Every construct of the fixtures on values at the edges of their types, by both engines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.modules import all_cases

SLICES = 8


@pytest.mark.parametrize("number", range(SLICES))
def test_fixtures_on_edge_values(number, tmp_path):
    script = Path(__file__).with_name("edge_calls.py")
    done = subprocess.run(
        [sys.executable, script, str(number), str(SLICES)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # set_num_threads makes a pool that forks break
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert list(found) == [case.name for case in all_cases()[number::SLICES]]
    assert {name: texts for name, texts in found.items() if texts} == {}
