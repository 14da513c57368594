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

from . import syntax
from .program import Program

_BUILTIN: dict[Type, str] = {
    BOOL: "bool", COMPLEX: "complex", FLOAT: "float", INT: "int", STRING: "str",
}  # fmt: skip
_TORCH_TYPES: dict[Type, str] = {TENSOR: "Tensor", DEVICE: "device", GENERATOR: "Generator"}
"""The types whose values are of classes of torch, by the names of those."""


def shown_type(program: Program, type_: Type) -> ast.expr:
    """The annotation for a type. What Python cannot say, such as an interface, is ``Any``."""
    references = program.references
    if type_ in _BUILTIN:
        return references.builtin(_BUILTIN[type_])
    if type_ in _TORCH_TYPES:
        return syntax.attribute(references.module("torch"), _TORCH_TYPES[type_])
    if type_ == NONE:
        return syntax.literal(None)
    if type_ == NUMBER:
        return references.builtin("complex")
    match type_:
        case ListType(element):
            return syntax.subscript(references.builtin("list"), shown_type(program, element))
        case DictType(key, value):
            return _subscripted(program, references.builtin("dict"), key, value)
        case OptionalType(element):
            optional = references.imported("typing", "Optional")
            return syntax.subscript(optional, shown_type(program, element))
        case UnionType(members):
            return _subscripted(program, references.imported("typing", "Union"), *members)
        case TupleType(elements, None) if elements:
            return _subscripted(program, references.builtin("tuple"), *elements)
        case TupleType(qualified_name=str()) | EnumType() | ClassType(is_native=False):
            return program.reference(type_)
    return references.imported("typing", "Any")


def _subscripted(program: Program, base: ast.expr, *types: Type) -> ast.expr:
    shown = [shown_type(program, type_) for type_ in types]
    return syntax.subscript(base, shown[0] if len(shown) == 1 else ast.Tuple(shown, ast.Load()))


_TESTABLE = {**_BUILTIN, ANY_LIST: "list", ANY_TUPLE: "tuple"}


def type_test(program: Program, subject: ast.expr, types: Sequence[Type], static: Type) -> ast.expr:
    """Whether the value of ``subject``, whose static type is ``static``, is of one of ``types``."""
    flat: dict[Type, None] = {}
    for type_ in types:
        flat.update(dict.fromkeys(flat_members(type_) or (type_,)))
    if len(flat) > 1 and not syntax.is_atom(subject):
        raise UnsupportedError("isinstance of a computed value and several types")
    tests = [_test(program, subject, type_, static) for type_ in flat]
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)


def _test(program: Program, subject: ast.expr, type_: Type, static: Type) -> ast.expr:
    references = program.references
    if type_ == NONE:
        return ast.Compare(subject, [ast.Is()], [syntax.literal(None)])
    if type_ == INT:  # a bool is an int in Python only
        kind = syntax.call(references.builtin("type"), [subject])
        return ast.Compare(kind, [ast.Is()], [references.builtin("int")])
    return syntax.call(references.builtin("isinstance"), [subject, _class(program, type_, static)])


def _class(program: Program, type_: Type, static: Type) -> ast.expr:
    references = program.references
    if type_ in _TESTABLE:
        return references.builtin(_TESTABLE[type_])
    if type_ in _TORCH_TYPES:
        return syntax.attribute(references.module("torch"), _TORCH_TYPES[type_])
    match type_:
        case ClassType(is_native=False) | EnumType() | TupleType(qualified_name=str()):
            return program.reference(type_)
        case ListType() if _only_one(type_, static):
            return references.builtin("list")
        case DictType() if _only_one(type_, static):
            return references.builtin("dict")
        case TupleType() if _only_one(type_, static):
            return references.builtin("tuple")
    raise UnsupportedError(
        f"isinstance(..., {annotation(type_)}) needs element types, which Python's containers lack"
    )


def _only_one(type_: Type, static: Type) -> bool:
    """Whether the static type leaves one container of this kind, and that one is asked for."""
    if not isinstance(static, UnionType | OptionalType | type(type_)):
        return False
    members = flat_members(static) or (static,)
    return [member for member in members if isinstance(member, type(type_))] == [type_]
