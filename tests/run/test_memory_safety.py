"""Archive code under the default policy stays within its tensors, and does not end the process."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.run.safety_cases import CASES, FINE
from tests.support.processes import torch_output_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return dict(map(json.loads, torch_output_of("-m", "tests.run.safety_cases").splitlines()))


@pytest.mark.whole
@pytest.mark.parametrize("name", CASES)
def test_a_call_that_reached_outside_is_an_error_or_harmless(name, outcomes):
    wanted = CASES[name].error
    pattern = FINE if wanted == FINE else rf"\w+Error: .*({wanted})"
    assert re.match(pattern, outcomes[name], re.DOTALL)
