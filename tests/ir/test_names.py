"""Names of values and of types."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tsarchive.ir.classes import ClassType
from tsarchive.ir.names import (
    KEYWORDS,
    NamePool,
    TypeNames,
    base_name,
    is_identifier,
    to_identifier,
)
from tsarchive.ir.types import INT, EnumType, TupleType


@pytest.mark.parametrize(
    ("name", "base"),
    [("x", "x"), ("x.1", "x"), ("x.12", "x"), ("x.1.2", "x.1"), ("12", None), ("x.y", "x.y"),
     ("x.", "x."), (".1", "")],
)  # fmt: skip
def test_base_name(name, base):
    assert base_name(name) == base


@pytest.mark.parametrize(
    ("name", "identifier"), [("a.b", "a_b"), ("0", "_0"), ("", "_"), ("é", "__"), ("x1", "x1")]
)
def test_to_identifier(name, identifier):
    assert to_identifier(name) == identifier


@given(st.text())
def test_to_identifier_always_gives_one(name):
    found = to_identifier(name)
    assert is_identifier(found) or found in KEYWORDS


def test_unnamed_values_count_up():
    pool = NamePool()
    assert [pool.unique("_") for _ in range(3)] == ["_0", "_1", "_2"]


def test_the_counter_belongs_to_the_name_that_collides():
    pool = NamePool()
    assert [pool.unique(name) for name in ("x", "x", "x0", "x")] == ["x", "x0", "x00", "x1"]


def test_counters_outlive_the_function_and_names_do_not():
    pool = NamePool()
    pool.unique("x")
    pool.unique("x")
    pool.start_function()
    assert [pool.unique("x"), pool.unique("x")] == ["x", "x1"]


def test_reserved_names_are_not_given():
    assert NamePool().unique("lambda") == "lambda0"


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_keywords_are_no_identifiers(keyword):
    assert not is_identifier(keyword)
    assert NamePool().unique(keyword) == f"{keyword}0"


@given(st.lists(st.sampled_from(["_", "x", "x0", "x1", "def", "_0"])))
def test_names_are_unique(candidates):
    pool = NamePool()
    names = [pool.unique(candidate) for candidate in candidates]
    assert len(set(names)) == len(names)


def test_a_second_class_of_the_same_name_is_mangled():
    names = TypeNames()
    classes = [ClassType("__torch__.m.Net") for _ in range(3)]
    assert [names.name(class_) for class_ in classes] == [
        "__torch__.m.Net",
        "__torch__.m.___torch_mangle_0.Net",
        "__torch__.m.___torch_mangle_1.Net",
    ]
    assert names.name(classes[1]) == "__torch__.m.___torch_mangle_0.Net"


def test_mangled_names_count_on():
    """The number in a name is where counting goes on, unless it is further already."""
    names = TypeNames()
    for name in ("__torch__.___torch_mangle_7.A", "__torch__.___torch_mangle_2.B"):
        assert names.name(ClassType(name)) == name
    assert names.name(ClassType("__torch__.___torch_mangle_7.A")) == "__torch__.___torch_mangle_8.A"
    assert names.name(ClassType("__torch__.___torch_mangle_2.B")) == "__torch__.___torch_mangle_9.B"


def test_equal_named_tuples_are_one_type():
    names = TypeNames()
    pairs = [TupleType((INT,), "__torch__.Pair", ("x",)) for _ in range(2)]
    assert names.name(pairs[0]) == names.name(pairs[1]) == "__torch__.Pair"


def test_enums_are_told_apart_by_identity():
    names = TypeNames()
    assert names.name(EnumType("__torch__.E", INT)) == "__torch__.E"
    assert names.name(EnumType("__torch__.E", INT)) == "__torch__.___torch_mangle_0.E"
