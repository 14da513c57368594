"""The rule of the short suite: nothing of the long one is without an item that stands for it."""

from __future__ import annotations

import pytest

from tests.support import suite


@pytest.fixture
def all_items(request) -> list[pytest.Item]:
    return request.config.stash[suite.ALL_ITEMS]


def test_each_item_has_a_sibling_in_the_short_suite(all_items):
    short = {suite.function_of(item) for item in suite.kept(all_items)}
    alone = {suite.function_of(item) for item in all_items if suite.stand_in(item) not in short}
    assert alone == set()


def test_functions_that_stand_for_slow_ones_are_others(all_items):
    slow = [item for item in all_items if item.get_closest_marker("long")]
    assert not [item for item in slow if suite.stand_in(item) == suite.function_of(item)]


@pytest.mark.parametrize("row", range(200))
@pytest.mark.parametrize("column", ["a", "b", "c"])
def test_a_table(row, column):
    """The subject of the next test."""
    assert row in range(200)
    assert column in "abc"


def test_samples_are_the_root_of_a_table_with_every_value_of_a_short_parameter(all_items):
    table = [item for item in all_items if suite.function_of(item).endswith("::test_a_table")]
    kept = suite.kept(table)
    assert len(table) == 600
    assert 25 <= len(kept) <= 28
    assert {item.callspec.params["column"] for item in kept} == {"a", "b", "c"}
    assert suite.kept(reversed(table)) == kept


def test_values_are_spread_evenly(monkeypatch):
    monkeypatch.setattr(suite, "_is_long", False)
    assert suite.sampled(range(100), 5) == [0, 20, 40, 60, 80]
    assert suite.sampled(range(3), 5) == [0, 1, 2]
    assert suite.examples(100) == 5
    monkeypatch.setattr(suite, "_is_long", True)
    assert suite.sampled(range(100), 5) == list(range(100))
    assert suite.examples(100) == 100
