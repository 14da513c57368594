"""Type annotations: text to type and back, the forms that torch takes, and what is no type."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsarchive.errors import SourceError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.type_parser import DICT_KEYS, ParameterType, parameter_type, parse_type
from tsarchive.ir.types import (
    ANY,
    ANY_LIST,
    ANY_TUPLE,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    SIMPLE_TYPES,
    STRING,
    TENSOR,
    DictType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    UnionType,
    annotation,
)

NET = ClassType("__torch__.Net", is_module=True)
STREAM = ClassType("__torch__.torch.classes.cuda.Stream", is_native=True)
CLASSES = {class_.qualified_name: class_ for class_ in (NET, STREAM)}


def parse(text):
    return parse_type(text, CLASSES.get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tensor", TENSOR),
        ("torch.Tensor", TENSOR),
        ("LongTensor", TENSOR),
        ("torch.FloatTensor", TENSOR),
        ("None", NONE),
        ("NoneType", NONE),
        ("number", NUMBER),
        ("Any", ANY),
        ("list", ANY_LIST),
        ("tuple", ANY_TUPLE),
        ("Device", DEVICE),
        ("List[int]", ListType(INT)),
        ("list[int]", ListType(INT)),
        ("Optional[Tensor]", OptionalType(TENSOR)),
        ("Optional[Optional[int]]", OptionalType(INT)),
        ("Dict[str, List[float]]", DictType(STRING, ListType(FLOAT))),
        ("Tuple[()]", TupleType(())),
        ("Tuple[int]", TupleType((INT,))),
        ("Tuple[int, Tuple[str, bool]]", TupleType((INT, TupleType((STRING, BOOL))))),
        ("Future[int]", HandleType("Future", INT)),
        ("torch.jit.Future[int]", HandleType("Future", INT)),
        ("Await[Tensor]", HandleType("Await", TENSOR)),
        ("RRef[Tensor]", HandleType("RRef", TENSOR)),
        ("int | None", OptionalType(INT)),
        ("int | str", UnionType((INT, STRING))),
        ("Union[str, int]", UnionType((INT, STRING))),
        ("Union[int, NoneType]", OptionalType(INT)),
        ("Union[int, int]", INT),
        ("Union[List[int], Union[str, NoneType]]", UnionType((ListType(INT), NONE, STRING))),
        ("Union[str, number]", UnionType((FLOAT, COMPLEX, INT, STRING))),
        ("Union[number]", UnionType((FLOAT, COMPLEX, INT))),
        ("Union[NoneType, int, float, complex]", OptionalType(NUMBER)),
        ("__torch__.Net", NET),
        ("List[__torch__.Net]", ListType(NET)),
        ("'__torch__.Net'", NET),
        ("'torch.classes.cuda.Stream'", STREAM),
        ("'torch.cuda.Stream'", STREAM),
    ],
)
def test_text_to_type(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Net",
        "__torch__.Other",
        "'Other'",
        "List",
        "List[int, int]",
        "Optional[()]",
        "Dict[int]",
        "Dict[List[int], int]",
        "Union[()]",
        "Sequence[int]",
        "int[3]",
        "f(x)",
        "1",
        "x +",
        "Tensor\0",
        "lambda: int",
        "[int]",
        "List[int][int]",
        "(" * 300 + "int" + ")" * 300,
        "List[" * 3000 + "int" + "]" * 3000,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_type(text):
    with pytest.raises(SourceError):
        parse(text)


def parameter(text):
    return parameter_type(ast.parse(text, mode="eval").body, CLASSES.get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", ParameterType(INT)),
        ("BroadcastingList2[int]", ParameterType(ListType(INT), 2)),
        ("BroadcastingList10[float]", ParameterType(ListType(FLOAT), 10)),
        ("Optional[BroadcastingList3[int]]", ParameterType(OptionalType(ListType(INT)), 3)),
        ("_size_2_t", ParameterType(ListType(INT), 2)),
        ("Optional[_size_1_t]", ParameterType(OptionalType(ListType(INT)), 1)),
    ],
)
def test_parameters_may_be_broadcasting_lists(text, expected):
    assert parameter(text) == expected


@pytest.mark.parametrize(
    "text", ["BroadcastingList2[str]", "BroadcastingList[int]", "BroadcastingList999999999[int]"]
)
def test_what_is_no_broadcasting_list(text):
    with pytest.raises(SourceError):
        parameter(text)


NOT_WRITTEN = {"AnyClassType", "AnyEnumType", "PyObject", "Quantizer"}
leaves = st.sampled_from(
    [NET, *(type_ for name, type_ in SIMPLE_TYPES.items() if name not in NOT_WRITTEN)]
)
types = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(ListType),
        inner.filter(lambda type_: type_ != NONE).map(
            lambda type_: type_ if isinstance(type_, OptionalType) else OptionalType(type_)
        ),
        st.tuples(st.sampled_from(sorted(DICT_KEYS, key=annotation)), inner).map(
            lambda pair: DictType(*pair)
        ),
        st.lists(inner, max_size=3).map(lambda parts: TupleType(tuple(parts))),
        inner.map(lambda type_: HandleType("Future", type_)),
    ),
    max_leaves=8,
)


@given(types)
def test_printed_types_read_back(type_):
    assert parse(annotation(type_)) == type_
