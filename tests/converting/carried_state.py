"""What the tests of state in programs share."""

from __future__ import annotations

from typing import Any

import torch

import tsarchive
from tests.support.both_engines import both_of
from tests.support.comparing import equal


def holds_one_total(scripted: Any, *, specialize: bool) -> None:
    """Assert that a program carries the buffer ``total`` on from call to call as torch.jit does."""
    theirs, mine = both_of(scripted)
    program = tsarchive.to_exported_program(mine, (torch.ones(2),), specialize=specialize)
    call = program.module()
    for x in (torch.ones(2), torch.tensor([3.0, -1.0])):
        assert equal(call(x), theirs(x))
    assert equal(call.total, theirs.total)
    assert set(program.state_dict) == set(theirs.state_dict())
