"""A change of a class is marked at all modules that have it."""

from __future__ import annotations

from tsarchive.diffing import Change
from tsarchive.reporting.trees import _kinds_by_module


def test_modules_that_share_a_class_are_all_marked():
    change = Change("operator", "0.forward", "aten::a", "aten::b", "code", also=("1.forward",))
    assert _kinds_by_module({"", "0", "1", "2"}, [change]).keys() == {"0", "1"}
