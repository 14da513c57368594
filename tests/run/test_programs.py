"""Random programs, adopted from torch and run without an archive in between."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.random_programs import scripted
from tests.support.running import check_same_as_either, our_module
from tests.support.suite import examples
from tsarchive.testing import programs


@pytest.mark.filterwarnings("ignore")  # programs warn as they please
@given(program=programs())
@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
def test_programs(program):
    theirs, plain = scripted(program), scripted(program)
    ours = our_module(scripted(program))
    for inputs in program.inputs:
        check_same_as_either(theirs, plain, ours, *inputs)
