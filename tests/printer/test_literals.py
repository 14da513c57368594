"""Constants as text, against torch's own printing of the same constants."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from tsarchive.errors import SaveError
from tsarchive.ir.constants import Device, GeneratorSeed, TableConstant
from tsarchive.ir.types import (  # fmt: skip
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    STRING,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    own_name,
)
from tsarchive.printer.literals import Literals, complex_text, float_text, string_text


def printed_by_torch(value: object) -> str:
    """The text that torch prints for a constant of a graph; long ones get a line of their own."""
    graph = torch._C.Graph()
    graph.registerOutput(graph.insertConstant(value))
    function = torch._C._create_function_from_graph("probe", graph)
    lines = function.code.strip().split("\n")[1:]
    return lines[0].partition(" = ")[2] if len(lines) > 1 else lines[0].strip()[7:]


@given(st.floats())
def test_floats(value):
    theirs = printed_by_torch(value)
    reads_back_as_int = theirs.lstrip("-").isdigit()
    assert float_text(value) == theirs + "." * reads_back_as_int


@given(st.integers(10**10, 10**17 - 1).map(float), st.sampled_from([1, -1]))
def test_whole_floats_read_back_as_floats(value, sign):
    text = float_text(sign * value)
    assert not text.lstrip("-").isdigit()
    assert float(text) == sign * value


@given(st.complex_numbers())
def test_complex_numbers(value):
    assert complex_text(value) == printed_by_torch(value)


@given(st.text(st.characters(min_codepoint=1, max_codepoint=127)))
def test_strings(value):
    assert string_text(value) == printed_by_torch(value).replace("\\\\", "\0").replace(
        "\\r", "\\015"
    ).replace("\0", "\\\\")


@given(st.text(max_size=8))
def test_strings_outside_ascii_are_bytes_in_octal(value):
    text = string_text(value)
    assert text.isascii()
    read = torch.jit.CompilationUnit(f"def f() -> str:\n    return {text}\n").f()
    assert read == value


class Table:
    def __init__(self):
        self.entries = []

    def index(self, value, type_):
        self.entries.append(value)
        return len(self.entries) - 1


ROWS = [
    (None, NONE, "None"),
    (True, BOOL, "True"),
    (-(2**63), INT, "-9223372036854775808"),
    ((1,), TupleType((INT,)), "(1,)"),
    ((), TupleType(()), "()"),
    ((1, "a"), TupleType((INT, STRING)), '(1, "a")'),
    ((1, 2), TupleType((INT, INT), "__torch__.P", ("x", "y")), "__torch__.P(1, 2)"),
    ([1, 2], ListType(INT), "[1, 2]"),
    ([], ListType(INT), "annotate(List[int], [])"),
    ([1, None], ListType(OptionalType(INT)), "annotate(List[Optional[int]], [1, None])"),
    ({"a": 1.0}, DictType(STRING, FLOAT), '{"a": 1.}'),
    ({}, DictType(STRING, ANY), "annotate(Dict[str, Any],{})"),
    (Device("cuda:0"), ANY, 'torch.device("cuda:0")'),
    (GeneratorSeed("cpu", 7), ANY, 'torch.Generator(device="cpu", seed=7)'),
    (TableConstant(object()), ANY, "CONSTANTS.c0"),
    ("é", STRING, "CONSTANTS.c0"),
    (("é", 1), TupleType((STRING, INT)), "CONSTANTS.c0"),
    ({"é": 1}, DictType(STRING, INT), "CONSTANTS.c0"),
]


@pytest.mark.parametrize(("value", "type_", "text"), ROWS, ids=[row[2] for row in ROWS])
def test_values(value, type_, text):
    assert Literals(Table(), own_name).text(value, type_) == text


def test_a_value_that_is_not_of_its_type():
    with pytest.raises(SaveError, match="does not have the type"):
        Literals(Table(), own_name).text([1], TupleType((INT,)))


def test_a_value_without_a_text():
    with pytest.raises(SaveError, match="type set"):
        Literals(Table(), own_name).text({1}, ANY)


def test_negative_zero_keeps_its_sign():
    assert math.copysign(1, float(float_text(-0.0) + "0")) == -1
