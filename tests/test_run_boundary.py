"""Calls from Python: what a value becomes for each declared type, and how arguments are bound."""

from __future__ import annotations

import collections
import enum
import inspect
import itertools
from typing import (  # the types of the scripted functions
    Any,
    NamedTuple,
)

import numpy as np
import pytest
import torch
from comparing import equal
from running import ours, outcome, scripted

from tsarchive.errors import CallError
from tsarchive.printer.schema import NO_DEFAULT, Argument, FunctionSchema
from tsarchive.printer.types import INT
from tsarchive.run.boundary import Signature
from tsarchive.run.classes import Classes


class Point(NamedTuple):
    x: torch.Tensor
    y: int


class Color(enum.Enum):
    RED = 1
    GREEN = 2


def of_point(x: Point) -> Point:
    return x


def of_color(x: Color) -> Color:
    return x


def of_any(x: Any) -> Any:
    return x


def of_any_list(x: list[Any]) -> list[Any]:
    return x


def of_union(x: int | str) -> int | str:
    return x


def of_list_union(x: list[int] | int | tuple[int, int]) -> list[int] | int | tuple[int, int]:
    return x


def of_any_dict(x: dict[str, Any]) -> dict[str, Any]:
    return x


def of_optional_items(x: list[int | None]) -> list[int | None]:
    return x


def of_generator(x: torch.Generator) -> torch.Generator:
    return x


PYTHON_FUNCTIONS = {
    function.__name__: function
    for function in (
        of_point, of_color, of_any, of_any_list, of_union, of_list_union, of_any_dict,
        of_optional_items, of_generator,
    )
}  # fmt: skip
TYPES = (
    "Tensor", "int", "float", "complex", "bool", "str", "Device", "Optional[int]",
    "Optional[bool]", "Optional[Tensor]", "List[int]", "List[float]", "List[bool]", "List[str]",
    "List[Tensor]", "List[List[int]]", "Optional[List[int]]", "Dict[str, int]",
    "Dict[int, float]", "Tuple[int, str]", "Tuple[Tensor, int]", "Tuple[int, int]",
)  # fmt: skip
VALUES = {
    "None": None, "True": True, "3": 3, "2.5": 2.5, "1j": 1j, "text": "s", "bytes": b"s",
    "tensor": torch.tensor(3), "one element": torch.tensor([2.5]), "two": torch.tensor([1, 2]),
    "numpy int": np.int64(4), "numpy float": np.float32(1.5), "numpy double": np.float64(1.5),
    "numpy bool": np.bool_(True), "[1]": [1], "(1,)": (1,), "[1.0]": [1.0], "[]": [],
    "[tensor]": [torch.tensor(1)], "{}": {}, "{'a': 1}": {"a": 1}, "(1, 'a')": (1, "a"),
    "(1, 2)": (1, 2), "[1, 2]": [1, 2], "dtype": torch.float16, "device": torch.device("cpu"),
    "cpu": "cpu", "layout": torch.strided, "memory format": torch.channels_last, "huge": 2**70,
    "most": 2**63 - 1, "range": range(2), "set": {1}, "object": object(), "array": np.ones(2),
    "[[1], [2]]": [[1], [2]], "[1, 2.5]": [1, 2.5], "[True]": [True], "[None]": [None],
    "(tensor, 2)": (torch.tensor(1), 2), "named": Point(torch.tensor(1), 2), "red": Color.RED,
    "ordered": collections.OrderedDict(a=1), "pairs": [("a", 1)], "module": torch.nn.ReLU(),
}  # fmt: skip
# An enum of Python has no class in an archive that never heard of it.
ONLY_TORCH = {("of_any", "red")}


@pytest.mark.parametrize("annotation", [*TYPES, *PYTHON_FUNCTIONS])
def test_conversions(annotation):
    python = PYTHON_FUNCTIONS.get(annotation)
    if python is not None:
        theirs = torch.jit.script(python)
    else:
        theirs = scripted(f"def f(x: {annotation}) -> {annotation}:\n    return x\n")
    mine = ours(theirs)
    for shown, value in VALUES.items():
        if (annotation, shown) in ONLY_TORCH:
            continue
        expected, found = outcome(theirs, value), outcome(mine, value)
        assert found[0] == expected[0], (shown, expected[1], found[1])
        if expected[0] == "result":
            assert equal(expected[1], found[1]) or expected[1] == found[1], shown
        else:
            assert isinstance(found[1], CallError), shown


BOUND = """
def f(a: int, b: float=2.0, c: List[int]=[1]) -> Tuple[int, float, List[int]]:
    c.append(a)
    return a, b, c
"""
CALLS = {
    "positional": ((1, 2, [3]), {}),
    "defaults": ((1,), {}),
    "keywords": ((), {"c": [5], "a": 4}),
    "mixed": ((1,), {"c": (7,)}),
    "missing": ((), {"b": 1.0}),
    "surplus": ((1, 2, [3], 4), {}),
    "unknown": ((1,), {"d": 1}),
    "twice": ((1,), {"a": 2}),
}


@pytest.mark.parametrize("call", CALLS)
def test_binding(call):
    arguments, keywords = CALLS[call]
    theirs, mine = scripted(BOUND), ours(scripted(BOUND))
    for _ in range(2):  # a default that the first call changes is seen by the second
        expected = outcome(lambda: theirs(*arguments, **keywords))
        found = outcome(lambda: mine(*arguments, **keywords))
        assert found[0] == expected[0]
        if found[0] == "result":
            assert found[1] == expected[1]
        else:
            assert isinstance(found[1], CallError)


def test_errors_name_the_argument_and_both_types():
    with pytest.raises(CallError, match=r"f\(\) .*'List\[int\]'.*argument 'c', not 'str'"):
        ours(scripted(BOUND))(1, 2.0, "text")


def test_containers_are_copied_in_and_out():
    mine = ours(scripted(BOUND))
    given = [1]
    result = mine(2, 1.0, given)[2]
    assert given == [1]
    result.append(9)
    assert mine(2)[2] == [1, 2]
    assert mine(2, 1.0, given)[2] == [1, 2]


def test_the_signature_is_shown():
    assert str(inspect.signature(ours(scripted(BOUND)))) == "(a, b=2.0, c=[1])"


def test_a_named_tuple_comes_back_as_one():
    result = ours(torch.jit.script(of_point))((torch.ones(1), 3))
    assert type(result).__name__ == "Point"
    assert (result._fields, result.y) == (("x", "y"), 3)


ODD_ARGUMENTS = [
    (["class", "class_", "é", "ü", "x"], [], "(class_, class__, __, ___, x)"),
    (["a", "b", "c"], [1, NO_DEFAULT, 3], "(a, b, c=3)"),
]


@pytest.mark.parametrize(("names", "defaults", "shown"), ODD_ARGUMENTS)
def test_signatures_that_python_could_not_write(names, defaults, shown):
    arguments = itertools.zip_longest(names, defaults, fillvalue=NO_DEFAULT)
    schema = FunctionSchema(
        "f", "", tuple(Argument(name, INT, default) for name, default in arguments), ()
    )
    signature = Signature("f", schema, Classes(), is_method=False)
    assert str(signature.shown()) == shown
    given = dict(zip(names, range(len(names)), strict=True))
    assert signature.bind((), given) == list(given.values())
