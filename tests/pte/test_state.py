"""What modules of programs hold: values are taken from everywhere, other tensors are told of."""

import pytest
import torch
from torch import nn

import tsarchive
from fixtures.executorch_programs import counting
from tests.support.executorch_files import FIXTURES, loaded

ONES = torch.ones(2)


@pytest.mark.parametrize("assign", [False, True])
def test_state_is_loaded_under_the_names_that_the_module_gives(assign):
    """Constants without a name have one with a dot, which torch would take for a submodule."""
    module = tsarchive.load(FIXTURES / "linear.pte")
    assert any("." in name for name in module.state_dict())
    zeros = {name: torch.zeros_like(value) for name, value in module.state_dict().items()}
    assert module.load_state_dict(zeros, assign=assign) == ([], [])
    outer = nn.Sequential(module)
    ones = {name: torch.ones_like(value) for name, value in outer.state_dict().items()}
    assert outer.load_state_dict(ones, assign=assign) == ([], [])
    assert all(bool(value.eq(1).all()) for value in module.state_dict().values())


def test_other_names_stay_unexpected():
    module = tsarchive.load(FIXTURES / "linear.pte")
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"a.b"'):
        module.load_state_dict({**module.state_dict(), "a.b": ONES})
    name = next(iter(module.state_dict()))
    with pytest.raises(RuntimeError, match=rf'Missing key.*"{name}"'):
        module.load_state_dict({})


def test_state_that_is_assigned_is_that_of_the_methods():
    module = loaded(*counting())
    module(ONES)
    module.load_state_dict({"count": torch.full((2,), 5.0)}, assign=True)
    assert module(ONES).tolist() == module.state_dict()["count"].tolist() == [6, 6]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: setattr(m, "count", torch.zeros(2)), "another tensor than the one in"),
        (lambda m: m._buffers.update(count=torch.zeros(2)), "another tensor than the one in"),
        (lambda m: setattr(m, "count", torch.zeros(3)), r"is float32\[3\] on cpu; .* float32\[2\]"),
        (lambda m: m.half(), r"'count' is float16\[2\] on cpu; the program was made for float32"),
        (lambda m: m.to("meta"), r"'count' is float32\[2\] on meta"),
        (lambda m: delattr(m, "count"), "'count' is NoneType"),
    ],
)
def test_tensors_that_the_methods_would_not_see_are_refused(change, match):
    module = loaded(*counting())
    module(ONES)
    kept = module._buffers["count"]
    change(module)
    for method in (module, module.look):
        with pytest.raises(tsarchive.CallError, match=match):
            method(*[ONES] * (method is module))
    module._buffers["count"] = kept
    assert module(ONES).tolist() == [2, 2]


def test_constants_of_another_type_are_refused():
    module = tsarchive.load(FIXTURES / "linear.pte").half()
    with pytest.raises(
        tsarchive.CallError, match=r"is float16.*; the program was made for float32"
    ):
        module(torch.ones(1, 4))


def test_buffers_of_the_caller_are_left_alone():
    module = loaded(*counting())
    module.register_buffer("mine", torch.zeros(1))
    assert module.float()(ONES).tolist() == [1, 1]
