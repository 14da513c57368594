"""Subtypes, common types and Unions, against torch's own type objects."""

from __future__ import annotations

import itertools

import pytest
import torch

from tsarchive.ir.classes import ClassType, InterfaceType
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.subtyping import is_subtype, unify, unify_all, union_of
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
    STRING,
    TENSOR,
    DictType,
    EnumType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    UnionType,
    annotation,
)

SIMPLE = {
    ANY: torch._C.AnyType.get(), BOOL: torch._C.BoolType.get(), COMPLEX: torch._C.ComplexType.get(),
    DEVICE: torch._C.DeviceObjType.get(), FLOAT: torch._C.FloatType.get(),
    INT: torch._C.IntType.get(), NONE: torch._C.NoneType.get(), NUMBER: torch._C.NumberType.get(),
    STRING: torch._C.StringType.get(), TENSOR: torch._C.TensorType.get(),
}  # fmt: skip
SOME = (ANY, BOOL, COMPLEX, FLOAT, INT, NONE, NUMBER, STRING, TENSOR)
POOL = (
    *SOME,
    DEVICE,
    *(OptionalType(type_) for type_ in (INT, NUMBER, TENSOR, ListType(INT))),
    *(ListType(type_) for type_ in (INT, FLOAT, NUMBER, ANY, OptionalType(INT), TENSOR)),
    DictType(STRING, INT), DictType(STRING, ANY), DictType(INT, INT),
    TupleType(()), TupleType((INT,)), TupleType((NUMBER,)), TupleType((INT, NONE)),
    TupleType((OptionalType(INT), OptionalType(INT))), TupleType((INT, TENSOR)),
    UnionType((INT, STRING)), UnionType((TENSOR, INT, STRING)), UnionType((INT, NONE, STRING)),
    UnionType((FLOAT, COMPLEX, INT)), UnionType((FLOAT, COMPLEX, INT, STRING)),
    HandleType("Future", INT), HandleType("Future", NUMBER), HandleType("RRef", INT),
    HandleType("Await", INT), HandleType("RRef", NUMBER),
)  # fmt: skip
HANDLES = {
    "Future": torch._C.FutureType,
    "Await": torch._C.AwaitType,
    "RRef": torch._C.RRefType,
}


def torch_type(type_):
    match type_:
        case OptionalType(element):
            return torch._C.OptionalType(torch_type(element))
        case ListType(element):
            return torch._C.ListType(torch_type(element))
        case DictType(key, value):
            return torch._C.DictType(torch_type(key), torch_type(value))
        case TupleType(elements):
            return torch._C.TupleType([torch_type(element) for element in elements])
        case UnionType(members):
            return torch._C.UnionType([torch_type(member) for member in members])
        case HandleType(kind, element):
            return HANDLES[kind](torch_type(element))
    return SIMPLE[type_]


PAIRS = list(itertools.product(POOL, POOL))


def test_subtypes_are_torch_s():
    theirs = {type_: torch_type(type_) for type_ in POOL}
    for narrow, wide in PAIRS:
        expected = theirs[narrow].isSubtypeOf(theirs[wide])
        assert is_subtype(narrow, wide) == expected, (annotation(narrow), annotation(wide))


def torch_unified(types):
    try:
        return torch._C.unify_type_list([torch_type(type_) for type_ in types])
    except RuntimeError:  # there is no common type
        return None


def members(found) -> list[str]:
    """A torch type as the texts of its members: its own text of `Union[str, number]` is wrong."""
    parts = found.containedTypes() if found.kind() == "UnionType" else [found]
    return [part.annotation_str for part in parts]


def test_common_types_are_torch_s():
    for pair in PAIRS:
        found = unify(*pair)
        expected = torch_unified(pair)
        assert (found is None) == (expected is None), [annotation(type_) for type_ in pair]
        if found is not None:
            assert members(torch_type(found)) == members(expected)


@pytest.mark.parametrize(
    "types",
    [pair for pair in itertools.combinations(POOL, 2) if ANY not in pair]
    + [(INT, FLOAT, COMPLEX, NONE), (STRING, NUMBER, ListType(INT)), (BOOL, TENSOR, DEVICE, NONE)],
    ids=lambda types: " ".join(map(annotation, types)),
)
def test_unions_have_torch_s_order(types):
    found = union_of(types)
    try:
        expected = torch._C.UnionType([torch_type(type_) for type_ in types])
    except RuntimeError:  # torch refuses a Union of a single type
        assert not isinstance(found, UnionType)
    else:
        assert members(torch_type(found)) == members(expected)
        parts = found.members if isinstance(found, UnionType) else (found,)
        assert [annotation(part) for part in parts] == members(expected)


def test_the_common_type_of_many():
    assert unify_all([INT, NONE, INT]) == OptionalType(INT)
    assert unify_all([INT, STRING, TENSOR]) is None
    assert unify_all([INT, STRING], or_union=True) == UnionType((INT, STRING))
    pairs = [TupleType((INT, INT)), TupleType((INT, STRING))]
    assert unify_all(pairs) is None
    assert unify_all(pairs, or_union=True) == TupleType((INT, UnionType((INT, STRING))))


def test_named_tuples_fit_by_their_fields():
    plain = TupleType((INT, INT))
    point = TupleType((INT, INT), "__torch__.Point", ("x", "y"))
    size = TupleType((INT, INT), "__torch__.Size", ("h", "w"))
    assert is_subtype(point, plain)
    assert not is_subtype(plain, point)
    assert not is_subtype(size, point)


def method(owner, argument, result):
    arguments = (Argument("self", owner), Argument("x", argument))
    return FunctionSchema("run", "", arguments, (Argument("", result),))


class _Method:
    def __init__(self, schema):
        self.schema = schema


@pytest.mark.parametrize(
    ("argument", "result", "fits"),
    [
        (INT, INT, True),
        (NUMBER, INT, True),
        (OptionalType(INT), INT, True),
        (STRING, INT, False),
        (INT, STRING, False),
        (INT, OptionalType(INT), False),
    ],
)
def test_a_class_fits_an_interface_by_its_methods(argument, result, fits):
    interface = InterfaceType("__torch__.I", is_module=True)
    interface.methods["run"] = method(interface, INT, INT)
    class_ = ClassType("__torch__.C", is_module=True)
    class_.methods["run"] = _Method(method(class_, argument, result))
    assert is_subtype(class_, interface) == fits
    script_class = ClassType("__torch__.C", methods=class_.methods)
    assert not is_subtype(script_class, interface)
    assert not is_subtype(TENSOR, interface)
    assert is_subtype(interface, interface)


def test_kinds_of_types():
    color = EnumType("__torch__.Color", INT, {"RED": 1})
    assert is_subtype(ListType(color), ANY_LIST)
    assert is_subtype(TupleType((color,)), ANY_TUPLE)
    assert not is_subtype(color, ANY_LIST)
    assert is_subtype(color, OptionalType(color))
