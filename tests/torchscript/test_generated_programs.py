"""Random programs: what we save of them, record by record, and what they compute when loaded.

Code is that of torch's first save, pickles and tensors those of its second, debug records those
of its third, as each of these no longer changes from there on.
"""

from __future__ import annotations

import io

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings

import tsarchive
from tests.support.archives import records_of, saved, torch_loaded, torch_saved
from tests.support.random_programs import scripted
from tests.support.running import check_same_as_either
from tests.support.suite import examples
from tsarchive import Policy
from tsarchive.testing import Program, programs, traceable_programs

SETTINGS = settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
# Programs print, raise and warn as they please.
pytestmark = pytest.mark.filterwarnings("ignore")


def traced(program: Program) -> torch.nn.Module:
    """Tracing runs the program, which may raise: those programs are left out."""
    try:
        return torch.jit.trace(program.module(), program.inputs[0], check_trace=False)
    except (RuntimeError, ValueError, LookupError, TypeError, AssertionError, NotImplementedError):
        assume(False)


def saves_of_torch(module) -> list[dict[str, bytes]]:
    first = torch_saved(module)
    second = torch_saved(torch_loaded(first))
    return [records_of(data) for data in (first, second, torch_saved(torch_loaded(second)))]


def code_of(records: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in records.items() if name.endswith(".py")}


def settled_in(name: str) -> int:
    if name.endswith(".debug_pkl"):
        return 2
    is_data = name.endswith(".pkl") or name.startswith(("data/", "constants/"))
    return 1 if is_data and not name.startswith("traced_inputs") else 0


def check_records(module) -> None:
    data = saved(module)
    try:
        theirs = saves_of_torch(module)
    except RuntimeError:
        torch_loaded(data)  # torch does not read its own text; it must read ours
        return
    ours = records_of(data)
    assert list(ours) == list(theirs[0])
    assert code_of(ours) == code_of(theirs[0])
    # Where torch reads its code as other code, its later saves say nothing about the first.
    is_stable = code_of(theirs[0]) == code_of(theirs[1]) == code_of(theirs[2])
    for name, content in ours.items():
        save = settled_in(name)
        if name != ".data/serialization_id" and (is_stable or not save):
            assert content == theirs[save][name], name


def check_outputs(module, program: Program) -> None:
    data = saved(module)
    plain, ours = torch_loaded(data), tsarchive.load(io.BytesIO(data), policy=Policy.trusted())
    for inputs in program.inputs:
        check_same_as_either(module, plain, ours, *inputs)


@given(program=programs())
@SETTINGS
def test_records_of_scripted_programs(program):
    check_records(scripted(program))


@given(program=traceable_programs())
@SETTINGS
def test_records_of_traced_programs(program):
    check_records(traced(program))


@given(program=programs())
@SETTINGS
def test_outputs_of_scripted_programs(program):
    check_outputs(scripted(program), program)


@given(program=traceable_programs())
@SETTINGS
def test_outputs_of_traced_programs(program):
    check_outputs(traced(program), program)


FORWARDS = {
    "a fork of what a loop carries": """
def forward(self, x: Tensor) -> Tensor:
    y = x
    for t in x:
        for n in range(2):
            y = torch.jit.wait(torch.jit.fork(torch.relu, y)) + t
    return y
""",
    "branches that only a union unites": """
def forward(self, x: Tensor) -> Tuple[Union[int, str], Union[int, str]]:
    if bool(x.sum() > 0):
        a: Union[int, str] = 1
        b: Union[int, str] = "b"
    else:
        a = "a"
        b = 2
    return a, b
""",
    "a union that a loop refines": """
def forward(self, x: Tensor) -> int:
    value: Union[int, str] = "a"
    for t in x:
        if isinstance(value, int):
            x = x + 1
    return x.numel()
""",
}
HEADER = """
from typing import Tuple, Union

import torch
from torch import Tensor, nn

class Model(nn.Module):
"""


@pytest.mark.parametrize("name", FORWARDS)
def test_programs_that_differed(name):
    body = "".join(f"    {line}\n" for line in FORWARDS[name].splitlines())
    program = Program(HEADER + body, ((torch.ones(2),), (-torch.ones(3),)))
    module = scripted(program)
    check_records(module)
    check_outputs(module, program)
