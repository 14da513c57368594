"""Natives of numbers against torch's operators, on edge values."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_natives_oracle import (
    FLOATS,
    INT_MAX,
    INT_MIN,
    INTS,
    Failed,
    argument_types,
    by_native,
    by_operator,
    copied,
    same,
    schemas,
)

from tsarchive.run.natives import NATIVES

VALUES = {
    "int": INTS,
    "float": FLOATS,
    "bool": (False, True),
    "number": (*INTS[:6], INT_MAX, *FLOATS[:6], 2.0**63, math.inf),
    "complex": (0j, 1 + 2j, complex(-0.0, math.nan), complex(math.inf, 0)),
    "List[int]": ([], [0], [3, -1, 2], [2**31, 5], [1, 1]),
    "List[float]": ([], [0.0], [0.1, -2.5, 7.0], [math.nan, 1.0], [1.0, math.nan]),
    "List[bool]": ([], [True], [False, True]),
    "List[complex]": ([], [1j, 2 + 0j]),
}
OWN_VALUES = {
    "aten::factorial.int": [(n,) for n in (*range(-1, 30), 63, 64, 100, 1000, 2**32 + 3)],
    "prim::rangelist": [(n,) for n in (0, 1, 5)],
    "aten::chr": [(n,) for n in (0, 65, 127, -1, 0x10FFFF, 2**40)],
    "aten::promote_types": [*itertools.product((0, 4, 5, 6, 7, 9, 11, 15), repeat=2)],
    "aten::can_cast": [*itertools.product((0, 4, 5, 6, 7, 9, 11, 15), repeat=2)],
    "aten::broadcast_shapes": [([2, 1], [3]), ([], [4]), ([5, 1, 2], [3, 1])],
}
DIVISIONS = ("floordiv", "remainder", "divmod", "__round_to_zero_floordiv", "gcd")
# torch answers a complex Scalar with a failed assertion or an empty stack, or not at all.
COMPLEX_SCALARS = ("aten::add", "aten::sub", "aten::mul")


def kills_the_process(key, arguments):
    """Integer divisions that torch leaves to a processor that traps."""
    if not key.split("::")[1].startswith(DIVISIONS) or not all(type(a) is int for a in arguments):
        return False
    a, b = arguments
    unchecked = not key.startswith(("aten::floordiv", "aten::divmod", "aten::gcd"))
    return (b == 0 and unchecked) or (b == -1 and a == INT_MIN) or (a == -1 and b == INT_MIN)


def calls(key):
    if key in OWN_VALUES:
        return OWN_VALUES[key]
    pools = [VALUES[kind] for kind in argument_types(key)]
    return [call for call in itertools.product(*pools) if not kills_the_process(key, call)]


NUMERIC = sorted(
    key
    for key in NATIVES
    if key.startswith(("aten::", "prim::"))
    and "_tensor" not in key
    and schemas()[key].arguments
    and {str(a.type) for a in schemas()[key].arguments} <= set(VALUES)
    and not key.startswith(("aten::sort.", "aten::remove.int", "aten::set_grad", "aten::Size"))
    and key not in ("aten::remove.float", "aten::remove.bool", "prim::NumToTensor.Scalar")
    and key != "prim::NumToTensor.bool"
)


@pytest.mark.parametrize("key", NUMERIC)
def test_equals_torch_on_edge_values(key):
    for call in calls(key):
        ours, theirs = by_native(key, *map(copied, call)), by_operator(key, *call)
        assert same(ours, theirs), (key, call, ours, theirs)
