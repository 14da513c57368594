"""Tensors of lists and numbers: the static types of the elements decide, as they do in torch."""

from __future__ import annotations

import io
from unittest.mock import Mock

import pytest
import torch

import tsarchive
from tests.support.archives import torch_loaded, torch_saved
from tests.support.registry_calls import archive_of
from tests.support.running import check_same
from tsarchive.errors import ArchiveError, ScriptError
from tsarchive.policy import Policy

pytestmark = [
    pytest.mark.filterwarnings("ignore:Creating a tensor from an empty"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
]
HEADER = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
# Values of lists of each type of elements.
ELEMENTS = {
    "int": (3, -4),
    "float": (2.5, 3.0),
    "bool": (True, False),
    "complex": (1j, 2.0),
    "number": (3, 2.5),
    "str": ("a", "b"),
    "Tensor": (torch.tensor(1), torch.tensor(2)),
    "Any": (3, 2.5),
    "NoneType": (None, None),
    "Tuple[int, int]": ((1, 2), (3, 4)),
    "Dict[str, int]": ({"a": 1}, {"b": 2}),
    "Optional[int]": (3, 4),
    "Optional[float]": (2.5, 3.0),
    "Optional[bool]": (True, False),
    "Optional[Tensor]": (torch.tensor(1), None),
    "Union[float, int]": (3, 2.5),
    "Union[int, float]": (3, 4),
    "Union[bool, int]": (True, 3),
    "Union[bool, float, int]": (True, 3, 2.5),
    "Union[complex, int]": (3, 1j),
    "Union[complex, float, int]": (3, 2.5, 1j),
    "Union[int, str]": (3, 4),
}
CALLS = (
    *(f"torch.tensor(x, dtype={dtype})" for dtype in ("None", 4, 5, 6, 11)),
    *("torch.as_tensor(x)", "torch.as_tensor(x, dtype=6)", "torch.tensor(x, requires_grad=True)"),
)
NUMBERS = {
    "int": (3,),
    "float": (2.5, 1e39),
    "bool": (True,),
    "complex": (1j,),
    "number": (3, 2.5, 1j, True),
    "Any": (3,),
    "Optional[int]": (3, None),
    "Union[float, int]": (3, 2.5),
    "Union[complex, int]": (3, 1j),
    "Union[complex, float, int]": (3, 2.5, 1j),
    "Tensor": (torch.ones(2), torch.tensor(3)),
}
LITERALS = (
    *("[x, 1]", "[1, x]", "[x, 2.5]", "[2.5, x]", "[1j, x]", "[True, x]", "[x, x]", "[[x], [x]]"),
    *("(x, x)", "(x, 1.5)", "annotate(List[number], [x])", "annotate(List[Any], [x])"),
    *("[x > 3, x, 2.5]", "[[x, 1], [2.5, x]]", "[[x], []]"),
)
CONVERSIONS = ("bool(x)", "complex(x, 1)", "float(x)", "torch.dropout(torch.ones([2]), x, False)")


def found(load, data):
    """The method ``f`` of an archive; one that fails when it is called, where it is not found."""
    try:
        return load(data).f
    except (RuntimeError, ArchiveError) as error:
        return Mock(side_effect=error)


def ours(data):
    return tsarchive.load(io.BytesIO(data), policy=Policy.trusted())


def check(type_, values, expression):
    """Both ways agree on ``expression`` of ``x``."""
    data = archive_of(
        HEADER + f"  def f(self: __torch__.M, x: {type_}):\n    return {expression}\n"
    )
    expected, here = found(torch_loaded, data), found(ours, data)
    for value in values:
        check_same(expected, here, value)


def nested(items):
    """Lists of lists: even ones, empty ones, and those of which one is shorter."""
    return ([items, items], [items, []], [[], items], [items[:1], items], [[], []], [])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_lists(element, call):
    items = list(ELEMENTS[element])
    check(f"List[{element}]", (items, items[:1], []), call)
    check(f"List[List[{element}]]", nested(items), call)


@pytest.mark.parametrize("element", ELEMENTS)
def test_lists_three_deep(element):
    items = list(ELEMENTS[element])
    values = [[pair] for pair in nested(items)]
    check(f"List[List[List[{element}]]]", values, "torch.tensor(x)")


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("type_", NUMBERS)
@pytest.mark.parametrize("function", ["tensor", "as_tensor"])
def test_literals(function, type_, literal):
    check(type_, NUMBERS[type_], f"torch.{function}({literal})")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("type_", NUMBERS)
def test_numbers(type_, call):
    check(type_, NUMBERS[type_], call)


@pytest.mark.parametrize("type_", ["number", "Union[complex, float, int]"])
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_a_union_of_all_numbers_is_a_number(type_, conversion):
    check(type_, NUMBERS[type_], conversion)


class Scripted(torch.nn.Module):
    def forward(self, n: int, f: float) -> torch.Tensor:
        return torch.tensor([n, f], dtype=torch.float32)


def test_a_scripted_module():
    data = torch_saved(torch.jit.script(Scripted()))
    check_same(torch_loaded(data), ours(data), 3, 2.5)
    with pytest.raises(RuntimeError, match="Input must be of ints, floats, or bools"):
        ours(data)(3, 2.5)


@pytest.mark.parametrize(
    "call", ["torch.tensor([[x], [2.5]])", "torch.as_tensor([[[2.5]], [[x]]])"]
)
def test_lists_of_two_types_are_refused(call):
    """torch writes the bits of the ints into a tensor of floats, half as large."""
    data = archive_of(HEADER + f"  def f(self: __torch__.M, x: int):\n    return {call}\n")
    with pytest.raises(ScriptError, match=r"got Union\[List"):
        ours(data).f(3)
