"""isinstance at run time: values know the types they were created with."""

# The forms of annotations and lists are those of scripted code.
# ruff: noqa: UP045, RUF005
from __future__ import annotations

from typing import Any, NamedTuple, Optional

import pytest
import torch

from tests.support.running import check_same, our_module, ours, scripted
from tsarchive.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    STRING,
    TENSOR,
    DictType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    UnionType,
)
from tsarchive.run.conversion import TypedDict, TypedList, is_instance, predicate, type_of
from tsarchive.run.natives import Future


class Pair(NamedTuple):
    a: int
    b: int


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.start = start


@torch.jit.interface
class Doubles(torch.nn.Module):
    def forward(self, x: int) -> int:
        pass


class Kinds(torch.nn.Module):
    """Makes one value of many, and asks for its type in every way."""

    def make(self, kind: int) -> Any:
        made: Any = None
        if kind == 1:
            made = torch.jit.annotate(list[int], [])
        elif kind == 2:
            made = torch.jit.annotate(list[int | None], [1])
        elif kind == 3:
            made = Pair(1, 2)
        elif kind == 4:
            made = Counter(3)
        elif kind == 5:
            made = [1]
        elif kind == 6:
            made = (1, 2)
        elif kind == 7:
            made = {"a": 1}
        elif kind == 8:
            made = torch.jit.annotate(dict[str, int], {})
        elif kind == 9:
            made = [[1]]
        elif kind == 10:
            made = True
        elif kind == 11:
            made = 1
        elif kind == 12:
            made = torch.jit.annotate(list[Any], [1])
        elif kind == 13:
            made = torch.ones(1)
        elif kind == 14:
            made = 1.5
        elif kind == 15:
            made = torch.jit.annotate(list[list[int]], [torch.jit.annotate(list[int], [])])
        elif kind == 16:
            made = "text"
        elif kind == 17:
            made = torch.jit.annotate(dict[str, int | None], {"a": 1})
        elif kind == 18:
            made = self.filled()
        return made

    def filled(self) -> list[str]:
        empty: list[str] = []
        return empty

    def forward(self, kind: int) -> list[bool]:
        x = self.make(kind)
        return [
            isinstance(x, int), isinstance(x, float), isinstance(x, bool), isinstance(x, str),
            isinstance(x, list[int]), isinstance(x, list[int | None]),
            isinstance(x, list[torch.Tensor]), isinstance(x, list[Any]), isinstance(x, list),
            isinstance(x, list[list[int]]), isinstance(x, tuple[int, int]),
            isinstance(x, tuple[int, Any]), isinstance(x, tuple), isinstance(x, dict[str, int]),
            isinstance(x, Optional[int]), isinstance(x, torch.Tensor), isinstance(x, Pair),
            isinstance(x, Counter), isinstance(x, None), isinstance(x, (int, float)),
            isinstance(x, list[str]), isinstance(x, dict[str, int | None]),
        ]  # fmt: skip


class Narrowed(torch.nn.Module):
    def kind(self, x: int | list[int] | list[str] | torch.Tensor | None) -> str:
        if x is None:
            return "none"
        if isinstance(x, int):
            return "int"
        if isinstance(x, list[int]):
            return f"ints {len(x)}"
        if isinstance(x, list[str]):
            return f"strings {len(x)}"
        return "tensor"

    def forward(self, y: torch.Tensor) -> list[str]:
        numbers: list[int] = []
        strings: list[str] = []
        kinds = [self.kind(numbers), self.kind(strings), self.kind(None), self.kind(y)]
        numbers.append(1)
        return kinds + [self.kind(numbers), self.kind(2)]


def test_every_kind_of_value():
    theirs = torch.jit.script(Kinds())
    mine = our_module(theirs)
    for kind in range(19):
        check_same(theirs, mine, kind)


def test_members_of_a_union():
    theirs = torch.jit.script(Narrowed())
    check_same(theirs, our_module(theirs), torch.ones(1))


@pytest.mark.parametrize("element", ["float", "int", "bool", "str", "complex", "Tensor"])
@pytest.mark.parametrize("make", ["tensor", "as_tensor"])
@pytest.mark.filterwarnings("ignore:Creating a tensor from an empty")
def test_tensors_of_empty_lists(make, element):
    theirs = scripted(f"def f(items: List[{element}]):\n  return torch.{make}(items)\n")
    check_same(theirs, ours(theirs), [])


@pytest.mark.parametrize("value", [[1.5, 2.0], []])
def test_tensors_of_lists_are_not_on_the_default_device_of_python(value):
    theirs = scripted("def f(items: List[float]):\n  return torch.tensor(items)\n")
    with torch.device("meta"):
        check_same(theirs, ours(theirs), value)
        assert ours(theirs)(value).device == theirs(value).device


RELATIONS = [
    (True, BOOL, True), (True, INT, False), (1, INT, True), (1, FLOAT, False), (None, NONE, True),
    (None, OptionalType(INT), True), (1, OptionalType(INT), True), ("a", OptionalType(INT), False),
    ([], ListType(INT), True), ([], TENSOR, False), ([], UnionType((INT, ListType(INT))), True),
    ([], ANY, True), ({}, DictType(STRING, INT), True), ({}, ListType(INT), False),
    ([1], ListType(INT), True), ([1], ListType(OptionalType(INT)), False),
    (TypedList(ListType(OptionalType(INT)), [1]), ListType(INT), False),
    (TypedDict(DictType(STRING, INT)), DictType(STRING, FLOAT), False),
    ((1, 2.5), TupleType((INT, FLOAT)), True), ((1,), TupleType((INT, FLOAT)), False),
    (({}, 1), TupleType((DictType(STRING, INT), INT)), True),
    (({}, 1), UnionType((INT, TupleType((DictType(STRING, INT), INT)))), True),
    (({}, 1), TupleType((ListType(INT), INT)), False), (({}, 1), TupleType((ANY,)), False),
    ((TypedList(ListType(INT)), 1), TupleType((ListType(FLOAT), INT)), False),
    (torch.nn.Parameter(torch.ones(1)), TENSOR, True), (object(), TENSOR, False),
    (Future(int), HandleType("Future", INT), True), (Future(int), HandleType("Await", INT), False),
]  # fmt: skip


@pytest.mark.parametrize(("value", "type_", "expected"), RELATIONS)
def test_relations(value, type_, expected):
    assert is_instance(value, type_) is expected
    assert predicate([type_])(value) is expected
    assert predicate([type_, STRING])(value) is (expected or value == "a")


def test_typed_containers_behave_like_their_bases():
    typed = TypedList(ListType(INT), [1])
    typed.append(2)
    assert (typed, typed[:1], type(typed + [3])) == ([1, 2], [1], list)
    assert type_of(typed) == ListType(INT)
    assert type_of(TypedDict(DictType(STRING, INT), {"a": 1})) == DictType(STRING, INT)
