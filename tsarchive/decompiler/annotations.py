"""Types of an archive as Python annotations, and as conditions with ``isinstance``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.subtyping import flat_members
from tsarchive.ir.types import (
    ANY_LIST,
    ANY_TUPLE,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    DictType,
    EnumType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
)

from . import references, syntax
from .program import Program

_CLASSES: dict[Type, str] = {
    BOOL: "bool", COMPLEX: "complex", FLOAT: "float", INT: "int", STRING: "str",
    TENSOR: "torch.Tensor", DEVICE: "torch.device", GENERATOR: "torch.Generator",
}  # fmt: skip
_PLAIN_ANNOTATIONS = {**_CLASSES, NONE: "None", NUMBER: "complex"}
_TESTABLE = {**_CLASSES, ANY_LIST: "list", ANY_TUPLE: "tuple"}


def shown_type(program: Program, type_: Type) -> ast.expr:
    """Annotate a type. What Python cannot say, such as an interface, is ``Any``."""
    if type_ in _PLAIN_ANNOTATIONS:
        return references.form(_PLAIN_ANNOTATIONS[type_])
    match type_:
        case ListType(element):
            return _subscripted(program, references.builtin("list"), element)
        case DictType(key, value):
            return _subscripted(program, references.builtin("dict"), key, value)
        case OptionalType(element):
            return _subscripted(program, references.form("Optional"), element)
        case UnionType(members):
            return _subscripted(program, references.form("Union"), *members)
        case TupleType(elements, None) if elements:
            return _subscripted(program, references.builtin("tuple"), *elements)
        case TupleType(qualified_name=str()) | EnumType() | ClassType(is_native=False):
            return program.reference(type_)
    return references.form("Any")


def _subscripted(program: Program, base: ast.expr, *types: Type) -> ast.expr:
    return syntax.subscript(base, *(shown_type(program, type_) for type_ in types))


def type_test(program: Program, subject: ast.expr, types: Sequence[Type], static: Type) -> ast.expr:
    """Test whether ``subject``, whose static type is ``static``, is of one of ``types``."""
    flat: dict[Type, None] = {}
    for type_ in types:
        flat.update(dict.fromkeys(flat_members(type_) or (type_,)))
    if len(flat) > 1 and not syntax.is_atom(subject):
        raise UnsupportedError("isinstance of a computed value and several types")
    tests = [_test(program, subject, type_, static) for type_ in flat]
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)


def _test(program: Program, subject: ast.expr, type_: Type, static: Type) -> ast.expr:
    if type_ == NONE:
        return references.form("_0 is None", subject)
    if type_ == INT:  # a bool is an int in Python only
        return references.form("type(_0) is int", subject)
    return references.form("isinstance(_0, _1)", subject, _class(program, type_, static))


_CONTAINERS: dict[type[Type], str] = {ListType: "list", DictType: "dict", TupleType: "tuple"}


def _class(program: Program, type_: Type, static: Type) -> ast.expr:
    if type_ in _TESTABLE:
        return references.form(_TESTABLE[type_])
    match type_:
        case ClassType(is_native=False) | EnumType() | TupleType(qualified_name=str()):
            return program.reference(type_)
        case ListType() | DictType() | TupleType() if _only_one(type_, static):
            return references.builtin(_CONTAINERS[type(type_)])
    raise UnsupportedError(
        f"isinstance(..., {annotation(type_)}) needs element types, which Python's containers lack"
    )


def _only_one(type_: Type, static: Type) -> bool:
    """Return whether the static type leaves one container of this kind, which is asked for."""
    if not isinstance(static, UnionType | OptionalType | type(type_)):
        return False
    members = flat_members(static) or (static,)
    return [member for member in members if isinstance(member, type(type_))] == [type_]
