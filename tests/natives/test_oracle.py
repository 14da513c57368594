"""The oracle of natives itself: it calls what was asked for, and compares exactly."""

from __future__ import annotations

import math

import pytest

from tests.natives.oracle import Failed, by_script, same


def test_the_script_calls_the_overload_that_was_asked_for():
    assert by_script("aten::pop.t", [1, 2, 3], 0) == (1, [2, 3])
    with pytest.raises(AssertionError, match="torch chose"):
        by_script("aten::add.float", 1, 2)


def test_strings_that_are_not_utf8_cross_the_border():
    result = by_script("aten::add.str", "\udcc3", "\udca9", result="str")
    assert result == (list("é".encode()),)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (0.0, -0.0, False),
        (math.nan, math.nan, True),
        (1, 1.0, False),
        (1, True, False),
        ([1.0, "a"], [1.0, "a"], True),
        ({1: 2, 3: 4}, {3: 4, 1: 2}, False),
        (Failed("a"), Failed("an a"), True),
        (Failed("b"), Failed("an a"), False),
        (1, Failed("an a"), False),
    ],
)
def test_comparison_is_exact(ours, theirs, expected):
    assert same(ours, theirs) is expected
