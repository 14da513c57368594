"""Old operators against the functions that torch puts in their place."""

import itertools

import pytest
import torch

from tests.natives.oracle import Failed, same
from tsarchive.run.natives import UPGRADERS

SOURCES = torch._C._get_upgraders_entry_map()
INTS = torch.tensor([-7, 7, 8])
FLOATS = torch.tensor([-7.0, 7.0, 8.5])
BOOLS = torch.tensor([True, False, True])
TENSORS = (INTS, FLOATS, BOOLS, torch.tensor(2), torch.tensor([1 + 2j, 3, 4]))
DIVISORS = (torch.tensor([2, -2, 3]), torch.tensor([2.0, -2.0, 3.0]), torch.tensor(3))
FACTORY = {"dtype": None, "layout": None, "device": None, "pin_memory": None}


def tensors_with(divisors):
    return [(pair, {}) for pair in itertools.product(TENSORS, divisors)]


def with_options(calls, *options):
    return [(arguments, {**given, **more}) for arguments, given in calls for more in options]


MODES = ({"rounding_mode": "trunc"}, {"rounding_mode": "floor"}, {"rounding_mode": None})
OUTS = ({"out": torch.empty(3)}, {"out": torch.empty(3, dtype=torch.int64)})
NUMBERS = (2, -2.0, 3, 1j)
FILLS = [
    (([2], value), {**FACTORY, "dtype": dtype}) for value in (1, 1.5) for dtype in (None, 4, 6)
]
SPACES = [((0, 1.0, steps), FACTORY) for steps in (None, 3)]
LOGSPACES = [((0, 2, steps, base), FACTORY) for steps in (None, 3) for base in (10.0, 2.0)]

CALLS = {
    "div_Tensor_0_3": tensors_with(DIVISORS),
    "div_Scalar_0_3": tensors_with(NUMBERS),
    "div_out_0_3": with_options(tensors_with(DIVISORS), *OUTS),
    "div__Tensor_0_3": tensors_with(DIVISORS),
    "div__Scalar_0_3": tensors_with(NUMBERS),
    "div_Tensor_mode_0_3": with_options(tensors_with(DIVISORS), *MODES),
    "div_Scalar_mode_0_3": with_options(tensors_with(NUMBERS[:3]), *MODES),
    "div_out_mode_0_3": with_options(with_options(tensors_with(DIVISORS), *MODES), *OUTS),
    "div__Tensor_mode_0_3": with_options(tensors_with(DIVISORS), *MODES),
    "div__Scalar_mode_0_3": with_options(tensors_with(NUMBERS[:3]), *MODES),
    "full_0_4": FILLS,
    "full_names_0_4": with_options(FILLS, {"names": None}),
    "full_out_0_4": [(([3], value), out) for value in (1, 1.5) for out in OUTS],
    "linspace_0_7": SPACES,
    "linspace_out_0_7": [(call, out) for call, _ in SPACES for out in OUTS[:1]],
    "logspace_0_8": LOGSPACES,
    "logspace_out_0_8": [(call, out) for call, _ in LOGSPACES for out in OUTS[:1]],
    "gelu_0_9": [((FLOATS,), {})],
    "gelu_out_0_9": [((FLOATS,), {"out": torch.empty(3)})],
}


def outcome(function, arguments, options):
    """The result and the first argument afterwards, on copies of all tensors."""
    arguments = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    options = {n: o.clone() if isinstance(o, torch.Tensor) else o for n, o in options.items()}
    try:
        return [function(*arguments, **options), arguments[0]]
    except RuntimeError as error:
        return Failed(str(error).splitlines()[-1].removeprefix("RuntimeError: "))


def test_every_upgrader_of_torch_is_here():
    assert set(UPGRADERS) == set(SOURCES) == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_equals_torch(name):
    # The source reaches gelu under torch, where Python has no such name.
    source = SOURCES[name].replace("torch.gelu", "torch.ops.aten.gelu")
    theirs = getattr(torch.jit.CompilationUnit(source), name)
    for arguments, options in CALLS[name]:
        ours = outcome(UPGRADERS[name], arguments, options)
        expected = outcome(theirs, arguments, options)
        assert same(ours, expected), (arguments, options, ours, expected)
