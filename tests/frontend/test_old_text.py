"""Forms of text that only old torch versions wrote, against torch."""

from __future__ import annotations

import ast
import io

import pytest
import torch

import tsarchive
from tests.support.archives import torch_loaded
from tests.support.comparing import equal
from tests.support.running import hand_written, method
from tsarchive.errors import ArchiveError, SourceError
from tsarchive.frontend.syntax import parse_statements

# Where hand-written code defines its classes.
OWN = "__torch__.tests.support.running"
POINT = f"{OWN}.P"
X = torch.tensor([1.0, 2.0])
LIST = "forward(self, x: Tensor) -> List[Tensor]"
NEW = f"_0 = {POINT}.__new__({POINT})\n_1 = (_0).__init__(3, )\n"
TOTAL = NEW + "return torch.add(x, _0.total)"


def init(body, rest=""):
    """A script class that declares nothing, and ``rest`` behind its ``__init__``."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    header = f"class P:\n  def __init__(self: {POINT},\n    n: int) -> None:\n"
    return f"{header}{lines}    return None\n{rest}"


GET = f"  def get(self: {POINT}) -> int:\n    return self.total\n"
SET_UP = f"  def set_up(self: {POINT},\n    n: int) -> None:\n    self.total = n\n"

# Statements of a method, its header if it is another, and what stands behind the class.
CASES = {
    "attributes that __init__ declares": method(TOTAL) + init("self.total = n"),
    "an attribute of a declared kind and a new one": method(TOTAL)
    + init("self.total = n\nself.more = [n, self.total]"),
    "a method behind it": method(NEW + "return torch.add(x, (_0).get())")
    + init("self.total = n", GET),
    "a method before it": method(NEW + "return torch.add(x, (_0).get())")
    + init("self.total = n", GET).replace("class P:\n", "class P:\n" + GET, 1).removesuffix(GET),
    "an attribute that a condition declares": method(TOTAL)
    + init("if torch.gt(n, 1):\n  self.total = 1\nelse:\n  self.total = 2"),
    "an attribute that another method declares": method(TOTAL)
    + init("_2 = (self).set_up(n, )", SET_UP + "    return None\n"),
    "a list literal that a variable holds": method(
        "r = []\nfor i in range(3):\n  _1 = torch.append(r, x)\nreturn r", LIST
    ),
    "a list literal that is passed on": method(f"r = []\n_1 = {OWN}.put(r, x, )\nreturn r", LIST)
    + "def put(r: List[Tensor],\n    x: Tensor) -> int:\n"
    + "  _2 = torch.append(r, x)\n  return torch.len(r)\n",
    "a list literal of another type where it is written": method("return torch.zeros([])"),
    "a list literal of another type that a variable holds": method("r = []\nreturn torch.zeros(r)"),
    "a list without default behind a default": method(f"return {OWN}.f(x, None, [1, 2], )")
    + "def f(x: Tensor,\n    s: Optional[int]=None,\n    p: List[int],\n    q: int=2) -> Tensor:\n"
    + "  return torch.add(torch.add(x, torch.len(p)), q)\n",
    "shape, ndim, NumToTensor": method(
        "_0 = torch.len(ops.prim.shape(x))\nreturn torch.add(ops.prim.NumToTensor(_0), x)"
    ),
    "unchecked_unwrap_optional": method(
        "y = annotate(Optional[Tensor], x)\nreturn ops.prim.unchecked_unwrap_optional(y)"
    ),
    "list_with_default": method(
        "_0 = torch.list_with_default([3, 4], [5, 6, 7])\nreturn torch.zeros(_0)"
    ),
    "list_with_default of too few": method(
        "_0 = torch.list_with_default([3, 4], [5, 6])\nreturn torch.zeros(_0)"
    ),
}


def outcome(load, data, *arguments):
    try:
        return load(data)(*arguments)
    except (RuntimeError, torch.jit.Error, ArchiveError):
        return None


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_equals_torch(text):
    data = hand_written(text)
    ours = outcome(lambda data: tsarchive.load(io.BytesIO(data)), data, X)
    assert equal(ours, outcome(torch_loaded, data, X))


@pytest.mark.parametrize("name", ["a list without default behind a default"])
def test_the_canonical_form_reads_back(name):
    file = io.BytesIO()
    module = tsarchive.load(io.BytesIO(hand_written(CASES[name])))
    tsarchive.save(module, file, canonical=True)
    assert equal(torch_loaded(file.getvalue())(X), module(X))


def signature(text):
    """The parameters of a function: name, type and default as text."""
    (function,) = parse_statements(f"def f({text}) -> int:\n  return g(a, b=1)\n", "r", 1)
    given = function.args
    defaults = [None if default is None else ast.unparse(default) for default in given.defaults]
    pairs = zip(given.args, defaults, strict=True)
    return [(parameter.arg, ast.unparse(parameter.annotation), text) for parameter, text in pairs]


def test_defaults_anywhere():
    assert signature("a: int, b: str=',=)', c: List[int], d: Tuple[int, str]=(-1, 'x'), e: T,") == [
        ("a", "int", None),
        ("b", "str", "',=)'"),
        ("c", "List[int]", None),
        ("d", "Tuple[int, str]", "(-1, 'x')"),
        ("e", "T", None),
    ]
    assert signature("lambda: int=1, b: A | B=None, c: int") == [
        ("lambda", "int", "1"),
        ("b", "A | B", "None"),
        ("c", "int", None),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "def f(a: int=1, b: int:\n  return a\n",
        "def f(a: int=1 b: int):\n  return a\n",
        "def f(a: int=1, b: int):\n  x = = 2\n",
        "def f(a: int=1 < 2, b: int):\n  return a\n",
    ],
)
def test_other_mistakes_stay_mistakes(text):
    with pytest.raises(SourceError, match="does not parse"):
        parse_statements(text, "r", 1)
