"""Types of an archive as annotations of Python."""

from __future__ import annotations

import ast

from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import (
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
)

from . import syntax
from .program import Program

_BUILTIN: dict[Type, str] = {
    BOOL: "bool", COMPLEX: "complex", FLOAT: "float", INT: "int", STRING: "str",
}  # fmt: skip
TORCH_TYPES: dict[Type, str] = {TENSOR: "Tensor", DEVICE: "device", GENERATOR: "Generator"}
"""The types whose values are of classes of torch, by the names of those."""


def shown_type(program: Program, type_: Type) -> ast.expr:
    """The annotation for a type. What Python cannot say, such as an interface, is ``Any``."""
    references = program.references
    if type_ in _BUILTIN:
        return references.builtin(_BUILTIN[type_])
    if type_ in TORCH_TYPES:
        return syntax.attribute(references.module("torch"), TORCH_TYPES[type_])
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
        case TupleType(qualified_name=str()) | EnumType():
            return program.class_(type_)
        case ClassType(is_native=False):
            return program.class_(type_)
    return references.imported("typing", "Any")


def _subscripted(program: Program, base: ast.expr, *types: Type) -> ast.expr:
    shown = [shown_type(program, type_) for type_ in types]
    return syntax.subscript(base, shown[0] if len(shown) == 1 else ast.Tuple(shown, ast.Load()))
