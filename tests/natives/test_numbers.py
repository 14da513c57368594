"""Natives of numbers against torch's operators, on edge values."""

import itertools
import math
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.natives.oracle import (
    FLOATS,
    INT_MAX,
    INT_MIN,
    INTS,
    Failed,
    argument_types,
    by_native,
    by_operator,
    copied,
    natives_of_torch,
    same,
)
from tests.support.suite import examples
from tsarchive.errors import ScriptError
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
    "prim::rangelist": [(n,) for n in (0, 1, 5, -1)],
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


# Operators that change the list given, or have a result of another kind: other tests compare them.
ELSEWHERE = re.compile(r"aten::(sort\.|remove\.|set_grad_enabled|Size)|prim::NumToTensor")
NUMERIC = sorted(
    key
    for key in natives_of_torch()
    if not ELSEWHERE.match(key) and {*argument_types(key)} <= {*VALUES} and argument_types(key)
)


@pytest.mark.parametrize("key", NUMERIC)
def test_equals_torch_on_edge_values(key):
    for call in calls(key):
        ours, theirs = by_native(key, *map(copied, call)), by_operator(key, *call)
        assert same(ours, theirs), (key, call, ours, theirs)


ANY_INT = st.integers(INT_MIN, INT_MAX)
OF_TWO_INTS = sorted(
    key for key in NUMERIC if argument_types(key) == ["int", "int"] and key not in OWN_VALUES
)


@settings(max_examples=examples(300))
@given(st.sampled_from(OF_TWO_INTS), ANY_INT, ANY_INT)
def test_equals_torch_on_any_ints(key, a, b):
    assume(not kills_the_process(key, (a, b)))
    ours, theirs = by_native(key, a, b), by_operator(key, a, b)
    assert same(ours, theirs), (ours, theirs)


OF_FLOATS = sorted(
    key for key in NUMERIC if set(argument_types(key)) == {"float"} and key not in OWN_VALUES
)


@settings(max_examples=examples(500))
@given(st.sampled_from(OF_FLOATS), st.data())
def test_equals_torch_on_any_floats(key, data):
    arguments = [data.draw(st.floats(width=64)) for _ in argument_types(key)]
    ours, theirs = by_native(key, *arguments), by_operator(key, *arguments)
    assert same(ours, theirs), (arguments, ours, theirs)


@given(ANY_INT)
def test_ints_become_floats_as_in_torch(value):
    assert same(by_native("aten::Float.int", value), by_operator("aten::Float.int", value))


@pytest.mark.parametrize(
    ("key", "arguments", "message"),
    [
        ("aten::remainder.int", (1, 0), "integer modulo by zero"),
        ("aten::remainder", (1, 0), "integer modulo by zero"),
        ("aten::__round_to_zero_floordiv.int", (1, 0), "division by 0"),
        ("aten::floordiv.int", (INT_MIN, -1), "does not fit in 64 bits"),
        ("aten::divmod.int", (INT_MIN, -1), "does not fit in 64 bits"),
    ],
)
def test_divisions_that_end_torchs_process_raise(key, arguments, message):
    with pytest.raises(ScriptError, match=message):
        NATIVES[key](*arguments)


@pytest.mark.parametrize("a", [1j, 2 + 1j])
def test_scalars_may_be_complex(a):
    for key in COMPLEX_SCALARS:
        for b in (1j, 2, 0.5):
            assert same(by_native(key, a, b), by_operator(key, a, b))


def test_equality_of_complex_scalars():
    """torch leaves its stack empty here."""
    assert NATIVES["aten::eq"](1, 1 + 0j)
    assert NATIVES["aten::ne"](1j, 1)


def test_very_long_strings_of_digits():
    assert by_native("aten::Int.str", "0" * 5000 + "7") == 7
    assert by_native("aten::Int.str", "9" * 5000) == Failed("stoll")
