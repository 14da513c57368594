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


def test_values_of_short_parameters_are_left_out_for_a_reason_alone(all_items):
    functions = suite.by_function(
        item for item in all_items if item.get_closest_marker("long") is None
    )
    left_out = {name for name, items in functions.items() if suite.left_out(items)}
    # Where few items of a function are collected, the short suite runs them all.
    may = {name for name, items in functions.items() if suite.gaps(items[0])}
    assert left_out == {name for name in may if suite.kept(functions[name]) != set(functions[name])}


# One row of 200 has the first list, which no sample would draw: but it is one of two values.
RARE, COMMON = [1], [2]


@pytest.mark.parametrize(("row", "held"), [(n, RARE if n == 57 else COMMON) for n in range(200)])
@pytest.mark.parametrize("column", ["a", "b", "c"])
def test_a_table(row, held, column):
    """The subject of the next tests."""
    assert row in range(200)
    assert held == [1 + (row != 57)]
    assert column in "abc"


@pytest.mark.sample(2)
@pytest.mark.parametrize("column", [True, 1, 1.0, None])
@pytest.mark.parametrize("row", range(50))
def test_a_slow_table(row, column):
    """Four values, of which three are equal."""
    assert row in range(50)
    assert column in {1, None}


@pytest.mark.sample(2, gaps="it is the subject of the next test")
@pytest.mark.parametrize("row", range(4))
def test_a_table_with_gaps(row):
    assert row in range(4)


def named(items, name) -> list[pytest.Item]:
    return [item for item in items if suite.function_of(item).endswith(f"::{name}")]


def test_samples_are_the_root_of_a_table_with_every_value_of_a_short_parameter(all_items):
    table = named(all_items, "test_a_table")
    kept = suite.kept(table)
    assert len(table) == 600
    assert 25 <= len(kept) <= 28
    assert {item.callspec.params["column"] for item in kept} == {"a", "b", "c"}
    assert RARE in [item.callspec.params["held"] for item in kept]
    assert suite.kept(reversed(table)) == kept


def test_marked_samples_are_small_and_have_every_value_as_well(all_items):
    kept = suite.kept(named(all_items, "test_a_slow_table"))
    assert 4 <= len(kept) <= 5
    assert {repr(item.callspec.params["column"]) for item in kept} == {"True", "1", "1.0", "None"}
    table = named(all_items, "test_a_table_with_gaps")
    assert len(suite.kept(table)) == 2
    assert len(suite.left_out(table)) == 2


def test_values_are_spread_evenly(monkeypatch):
    monkeypatch.setattr(suite, "_is_long", False)
    assert suite.sampled(range(100), 5) == [0, 20, 40, 60, 80]
    assert suite.sampled(range(3), 5) == [0, 1, 2]
    assert suite.examples(100) == 5
    monkeypatch.setattr(suite, "_is_long", True)
    assert suite.sampled(range(100), 5) == list(range(100))
    assert suite.examples(100) == 100
