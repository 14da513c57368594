"""Calls from Python: what a value becomes for each declared type, and how arguments are bound."""

from __future__ import annotations

import collections
import enum
import inspect
import io
import itertools
import operator
import sys
from typing import (  # the types of the scripted functions
    Any,
    NamedTuple,
)

import numpy as np
import pytest
import torch

import tsarchive
from tests.support.archives import TORCH
from tests.support.comparing import equal
from tests.support.running import hand_written, ours, outcome, scripted
from tsarchive.errors import CallError, ScriptError
from tsarchive.ir.schema import NO_DEFAULT, Argument, FunctionSchema
from tsarchive.ir.types import INT
from tsarchive.run.calls_from_python import Signature
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
    "Optional[bool]", "Optional[Tensor]", "number", "List[number]",
    "List[int]", "List[float]", "List[bool]", "List[str]",
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
# Sets are lists of booleans and of floats since then.
ONLY_NEWER = {("List[bool]", "set"), ("List[float]", "set")} if TORCH < (2, 10) else set()


@pytest.mark.parametrize("annotation", [*TYPES, *PYTHON_FUNCTIONS])
def test_conversions(annotation):
    python = PYTHON_FUNCTIONS.get(annotation)
    if python is not None:
        theirs = torch.jit.script(python)
    else:
        theirs = scripted(f"def f(x: {annotation}) -> {annotation}:\n    return x\n")
    mine = ours(theirs)
    for shown, value in VALUES.items():
        if (annotation, shown) in ONLY_TORCH | ONLY_NEWER:
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
    shown = "(a: int, b: float = 2.0, c: List[int] = [1]) -> Tuple[int, float, List[int]]"
    assert str(inspect.signature(ours(scripted(BOUND)))) == shown


def test_a_named_tuple_comes_back_as_one():
    result = ours(torch.jit.script(of_point))((torch.ones(1), 3))
    assert type(result).__name__ == "Point"
    assert (result._fields, result.y) == (("x", "y"), 3)


ODD_ARGUMENTS = [
    (
        ["class", "class_", "é", "ü", "x"],
        [],
        "(class_: int, class__: int, __: int, ___: int, x: int)",
    ),
    (["a", "b", "c"], [1, NO_DEFAULT, 3], "(a: int, b: int, c: int = 3)"),
]


@pytest.mark.parametrize(("names", "defaults", "shown"), ODD_ARGUMENTS)
def test_signatures_that_python_could_not_write(names, defaults, shown):
    arguments = itertools.zip_longest(names, defaults, fillvalue=NO_DEFAULT)
    schema = FunctionSchema(
        "f", "", tuple(Argument(name, INT, default) for name, default in arguments), ()
    )
    signature = Signature("f", schema, Classes().compiler, is_method=False)
    assert str(signature.shown()) == f"{shown} -> NoneType"
    given = dict(zip(names, range(len(names)), strict=True))
    assert signature.bind((), given) == list(given.values())


RECURSIVE = """
  def forward(self, x: Tensor) -> int:
    return (self).f(100000)
  def f(self, n: int) -> int:
    if torch.gt(n, 0):
      r = torch.add((self).f(torch.sub(n, 1)), 1)
    else:
      r = 0
    return r
"""


def test_calls_that_are_nested_too_deeply_are_an_error_of_the_archive():
    module = tsarchive.load(io.BytesIO(hand_written(RECURSIVE.lstrip("\n"))))
    assert module.f(20) == 20
    for call in (module.f, lambda count: module(torch.ones(count))):
        with pytest.raises(ScriptError, match="nested too deeply") as caught:
            call(50_000)
        assert isinstance(caught.value, RecursionError)
        assert caught.value.limit == sys.getrecursionlimit()


BYTES = """
def f(text: str, start: int, end: int) -> Tuple[str, List[str], Dict[str, int]]:
    part = text[start:end]
    return part, [part], {part: 1}
"""


@pytest.mark.parametrize(("start", "end"), [(0, 1), (0, 2), (0, 3), (1, 3), (3, 9)])
def test_strings_cut_inside_a_character_stay_inside(start, end):
    theirs = scripted(BYTES)
    expected = outcome(theirs, "a\u00e9\u20ac", start, end)
    found = outcome(ours(theirs), "a\u00e9\u20ac", start, end)
    assert found[0] == expected[0]
    if found[0] == "result":
        assert found[1] == expected[1]
    else:
        assert isinstance(found[1], ScriptError)


@torch.jit.script
def forked(x: torch.Tensor, size: int) -> list[torch.jit.Future[torch.Tensor]]:
    return [torch.jit.fork(torch.reshape, x, [size])]


@torch.jit.script
def waited(future: torch.jit.Future[torch.Tensor]) -> torch.Tensor:
    return torch.jit.wait(future)


WAITS = {
    "torch": torch.jit.wait,
    "method": operator.methodcaller("wait"),
    "script": waited,
    "archive": ours(waited),
}


# A scripted function of torch does not see the exception that Python code put into a future.
@pytest.mark.parametrize(
    ("wait", "size"), [*((wait, 2) for wait in WAITS), ("torch", 3), ("method", 3), ("archive", 3)]
)
def test_futures_cross_the_border(wait, size):
    (theirs,), (mine,) = forked(torch.ones(2), size), ours(forked)(torch.ones(2), size)
    expected, found = (outcome(lambda f=f: WAITS[wait](f)) for f in (theirs, mine))
    assert found[0] == expected[0] == ("result" if size == 2 else "error")
    assert found[0] == "error" or equal(expected[1], found[1])
    assert mine.done()


def test_what_is_no_future_is_refused():
    with pytest.raises(CallError):
        ours(waited)(torch.ones(2))
