"""Fixtures of the tests of modules of libraries."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    """Let weights and inputs be the same in each test, whatever ran before."""
    torch.manual_seed(0)
