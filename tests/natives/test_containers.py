"""Natives of lists and dicts against torch, with what happens to the list or dict itself."""

import itertools
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.natives.oracle import (
    by_script,
    check_script,
    schemas,
)
from tests.support.suite import examples
from tsarchive.run.natives import NATIVES
from tsarchive.run.natives.containers import KEY_TYPES, introsort

INT_MAX, INT_MIN = 2**63 - 1, -(2**63)
LISTS = ([7], [3, -1, 3], ["b", "é", "a"], [0.5, math.nan], [True, False], [(1, "x"), (2, "y")])
INDICES = (0, -1, 2, -3, 3, 9, INT_MIN)
ITEMS = {
    "int": ([3, -1, 3], (3, 5)),
    "float": ([0.5, math.nan, -0.0], (0.5, math.nan, 0.0, 2.25, 1e-7)),
    "bool": ([True], (True, False)),
    "str": (["b", "é", "a"], ("é", "z", "")),
    "Tensor": ([torch.tensor(1), torch.tensor(2.0)], (torch.tensor(2), torch.tensor(7))),
}


def each(values, *pools):
    return [*itertools.product(values, *pools)]


LIST_CALLS = {
    "aten::len.t": each(LISTS),
    "aten::any.str": [(["", ""],), (["", "a"],)],
    "aten::list.t": each(LISTS),
    "aten::copy.t": each(LISTS),
    "aten::reverse.t": each(LISTS),
    "aten::clear.t": each(LISTS),
    "aten::append.t": [([1], 2), (["a"], "é")],
    "aten::add.t": [([1], [2, 3]), (["a"], ["é"])],
    "aten::add_.t": [([1], [2, 3]), (["a"], ["é"])],
    "aten::extend.t": [([1], [2, 3]), (["a"], ["é"])],
    "aten::insert.t": [([1, 2, 3], i, 9) for i in INDICES[:-1]],
    "aten::__getitem__.t": each(([1, 2, 3], ["a", "é"]), INDICES),
    "aten::select.t": each(([1, 2, 3], ["a", "é"]), INDICES),
    "aten::pop.t": each(([1, 2, 3], ["a", "é"]), INDICES),
    "aten::Delete.t": each(([1, 2, 3], ["a", "é"]), INDICES),
    "aten::_set_item.t": [([1, 2, 3], i, 9) for i in INDICES],
    "aten::slice.t": each(
        ([1, 2, 3, 4],),
        (None, 0, 2, -2, 9, INT_MAX),
        (None, 0, 3, -1, -9, INT_MAX),
        (1, 2, -1, -3, 0, INT_MIN),
    ),
    "aten::mul.left_t": each(([1, 2],), (0, 1, 3, -1)),
    "aten::mul_.t": each(([1, 2],), (0, 1, 3, -1)),
    "aten::mul.right_": [(n, [1, 2]) for n in (0, 1, 3, -1)],
    **{f"aten::count.{t}": each((values,), found) for t, (values, found) in ITEMS.items()},
    **{f"aten::remove.{t}": each((values,), found) for t, (values, found) in ITEMS.items()},
    **{f"aten::index.list_{t}": each((values,), found) for t, (values, found) in ITEMS.items()},
    **{
        f"aten::__contains__.{t}_list": each((ITEMS[t][0],), ITEMS[t][1])
        for t in ("int", "float", "str")
    },
    **{
        f"aten::{name}.{t}_list": each((ITEMS[t][0], ITEMS[t][0][:1]), (ITEMS[t][0],))
        for name in ("eq", "ne")
        for t in ITEMS
    },
}
EMPTY_LIST_CALLS = {
    "aten::pop.t": ([], 0),
    "aten::Delete.t": ([], 0),
    "aten::__getitem__.t": ([], -1),
    "aten::mul.left_t": ([], -1),
    "aten::len.t": ([],),
    "aten::insert.t": ([], 3, 1),
}


def result_type(key, call):
    """The type of the result where it is a string or a list of strings."""
    texts = [isinstance(value, list) and value and isinstance(value[0], str) for value in call]
    result = str(schemas()[key].returns[0].type) if schemas()[key].returns else ""
    if not any(texts) or result not in ("t", "List[t]"):
        return ""
    return {"t": "str", "List[t]": "List[str]"}[result]


@pytest.mark.parametrize("key", LIST_CALLS)
def test_list_operators(key):
    for call in LIST_CALLS[key]:
        check_script(key, *call, result=result_type(key, call))


@pytest.mark.parametrize("key", EMPTY_LIST_CALLS)
def test_empty_lists(key):
    check_script(key, *EMPTY_LIST_CALLS[key], types=("List[int]",))


KEYS = {
    "str": ("a", "é", "zz"),
    "int": (1, -5, 9),
    "bool": (True, True, False),
    "float": (0.5, -0.0, 2.25),
    "complex": (1j, 2 + 0j, 1 + 1j),
    "Tensor": tuple(torch.tensor(i) for i in range(3)),
}


def dict_calls(name, key_type):
    """Calls of one dict operator: with a key that is there, with one that is not."""
    first, second, absent = KEYS[key_type]
    table = {first: 10, second: 20}
    key, extra = name.format(key_type), []
    if "default" in name:
        extra = [77]
    arguments = schemas()[key].arguments
    if len(arguments) == 1:
        return [(list(table.items()),)] if key == f"aten::dict.{key_type}" else [(table,)]
    if "update" in name:
        return [(table, {second: 21, absent: 30})]
    if "_set_item" in name:
        extra = [77]
    return [(table, key, *extra) for key in (first, second, absent)]


DICT_OPERATORS = sorted(
    {key for key in NATIVES if "Dict(" in str(schemas().get(key)) and not key.endswith("::dict")}
)


def test_dict_without_arguments():
    assert NATIVES["aten::dict"]() == {}
    assert NATIVES["aten::len.any"]([1, "a"]) == 2


@pytest.mark.parametrize("key", DICT_OPERATORS)
def test_dict_operators(key):
    key_type = next(t for t in KEY_TYPES if key.endswith((f".{t}", f"_{t}")))
    for call in dict_calls(key[: -len(key_type)] + "{}", key_type):
        check_script(key, *call)


NAN = math.nan
WITH_NAN = {NAN: 10, 0.5: 20}
CALLS_WITH_NAN = {
    "aten::__contains__.float": (WITH_NAN, NAN),
    "aten::__getitem__.Dict_float": (WITH_NAN, NAN),
    "aten::_set_item.float": (WITH_NAN, NAN, 30),
    "aten::get.float": (WITH_NAN, NAN),
    "aten::get.default_float": (WITH_NAN, NAN, 7),
    "aten::setdefault.float": (WITH_NAN, NAN, 7),
    "aten::pop.Dict_float": (WITH_NAN, NAN),
    "aten::pop.Dict_default_float": (WITH_NAN, NAN, 7),
    "aten::Delete.Dict_float": (WITH_NAN, NAN),
    "aten::update.float": (WITH_NAN, {NAN: 30, 0.5: 40}),
    "aten::dict.float": ([(NAN, 1), (NAN, 2), (0.5, 3)],),
    "aten::dict.Dict_float": (WITH_NAN,),
    "aten::popitem.float": (WITH_NAN,),
    "aten::_set_item.complex": ({complex(NAN): 10}, complex(NAN), 30),
    "aten::get.complex": ({complex(NAN): 10}, complex(NAN)),
}


@pytest.mark.parametrize("key", CALLS_WITH_NAN)
def test_a_key_that_is_nan_is_never_found(key):
    check_script(key, *CALLS_WITH_NAN[key])


TENSORS_TO_SORT = [torch.tensor(2.5), torch.tensor(-1), torch.tensor(2)]
SORTED_LISTS = {
    "int": [[3, -1, 3, INT_MIN, INT_MAX]],
    "bool": [[True, False, True]],
    "str": [["b", "é", "a", "", "zz", "\U0001f600", "\uffee"]],
    "float": [
        [3.5, -1.0, math.inf, 0.25],
        [1.0, math.nan, 0.0],
        [1.0, math.nan, 0.0, 2.0, math.nan, -1.0],
        [0.0, -0.0, 1.0, -0.0, 0.0],
    ],
    "Tensor": [TENSORS_TO_SORT],
    "any": [[(2, "b"), (1, "z"), (2, "a")], [(1.0, (True, 3)), (1.0, (False, 4))]],
}


@pytest.mark.parametrize("kind", SORTED_LISTS)
def test_sorting(kind):
    for values in SORTED_LISTS[kind]:
        check_script(f"aten::sort.{kind}", values, False)
        check_script(f"aten::sort.{kind}", values, True)
        check_script(f"aten::sorted.{kind}", values)


def test_sorting_strings_goes_by_bytes():
    values = ["\udcff", "\U0001f600", "\uffee", "a"]
    check_script("aten::sort.str", values, False, result="")


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 6), max_size=60), st.booleans())
def test_equal_tensors_end_where_torch_puts_them(numbers, reverse):
    # torch's order in reverse contradicts itself for ties, and runs out of bounds on long lists.
    assume(not reverse or len(numbers) <= 16 or len(set(numbers)) == len(numbers))
    tensors = [torch.tensor(number) for number in numbers]
    ours = list(tensors)
    NATIVES["aten::sort.Tensor"](ours, reverse)
    _, theirs = by_script("aten::sort.Tensor", tensors, reverse, types=("List[Tensor]",))
    assert list(map(id, ours)) == list(map(id, theirs))


@settings(max_examples=examples(50))
@given(st.lists(st.integers(0, 7), max_size=16), st.booleans())
def test_tensors_may_stand_in_a_list_twice(places, reverse):
    pool = [torch.tensor(place // 2) for place in range(8)]
    ours = [pool[place] for place in places]
    _, theirs = by_script("aten::sort.Tensor", ours, reverse, types=("List[Tensor]",))
    NATIVES["aten::sort.Tensor"](ours, reverse)
    assert list(map(id, ours)) == list(map(id, theirs))


@torch.jit.script
class Tagged:
    def __init__(self, number: int):
        self.number = number

    def __lt__(self, other: "Tagged") -> bool:
        return self.number // 10 < other.number // 10


@torch.jit.script
def sort_tagged(numbers: list[int], reverse: bool) -> list[int]:
    items = [Tagged(number) for number in numbers]
    items.sort(reverse=reverse)
    return [item.number for item in items]


class Item:
    """The Python side of ``Tagged``: an object of the archive that defines ``__lt__``."""

    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        return self.number // 10 < other.number // 10


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 99), max_size=200), st.booleans())
def test_equal_objects_end_where_torch_puts_them(numbers, reverse):
    items = [Item(number) for number in numbers]
    NATIVES["aten::sort.any"](items, reverse)
    assert [item.number for item in items] == sort_tagged(numbers, reverse)


@given(st.lists(st.integers(0, 30), max_size=100))
def test_a_contradictory_order_gives_a_permutation(numbers):
    shuffled = list(numbers)
    introsort(shuffled, lambda a, b: True)
    assert sorted(shuffled) == sorted(numbers)


def test_the_worst_input_is_not_quadratic():
    """McIlroy's adversary, which makes every median the smallest but one."""
    count = 1024
    undecided, values, comparisons, candidate, decided = count, [count] * count, 0, 0, 0

    def less(x, y):
        nonlocal comparisons, candidate, decided
        comparisons += 1
        if values[x] == values[y] == undecided:
            values[x if x == candidate else y] = decided
            decided += 1
        if values[x] == undecided:
            candidate = x
        elif values[y] == undecided:
            candidate = y
        return values[x] < values[y]

    items = list(range(count))
    introsort(items, less)
    assert [values[item] for item in items] == sorted(values)
    assert comparisons < 100 * count
