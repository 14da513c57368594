"""Every construct of the fixtures on values at the edges of their types, by both engines."""

from __future__ import annotations

import json

import pytest

from fixtures.modules import all_cases
from tests.support.processes import output_of
from tests.support.suite import thinned

SLICES = 8


@pytest.mark.sample(1, gaps="its numbers are parts of one piece of work")
@pytest.mark.parametrize("number", range(SLICES))
def test_fixtures_on_edge_values(number, tmp_path):
    # set_num_threads would make a pool of threads, which forks break.
    slices = thinned(SLICES)
    command = ("-m", "tests.run.edge_calls", number, slices)
    printed = output_of(*command, cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    found = dict(map(json.loads, printed.splitlines()))
    assert list(found) == [case.name for case in all_cases()[number::slices]]
    assert {name: texts for name, texts in found.items() if texts} == {}
