"""The grammar of type annotations: text, or an expression of Python's ``ast``, to a type.

The inverse of :func:`tsarchive.ir.types.annotation`; it also takes the older and the
hand-written spellings that torch takes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from tsarchive.errors import SourceError

from .subtyping import flat_members, union_of
from .text_limits import check_text, parse_expression, with_empty_tuples
from .types import (
    FLOAT,
    INT,
    NONE,
    SIMPLE_TYPES,
    TENSOR,
    DictType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    Type,
)

Resolve = Callable[[str], Type | None]
"""Gives the type of a qualified name, None when there is none."""

_TENSOR_NAMES = tuple(
    f"{kind}Tensor"
    for kind in ("", "Long", "Float", "Double", "Int", "Short", "Half", "Char", "Byte", "Bool")
)
# `Final[...]` lines and old files write these names; the types behind them have no others.
_NOT_ANNOTATIONS = {"AnyClassType", "AnyEnumType", "PyObject", "Quantizer"}
_BASE_NAMES: dict[str, Type] = {
    **{name: type_ for name, type_ in SIMPLE_TYPES.items() if name not in _NOT_ANNOTATIONS},
    **dict.fromkeys(_TENSOR_NAMES, TENSOR),
    **{f"torch.{name}": TENSOR for name in _TENSOR_NAMES},
    "None": NONE,
}
_KEYS = ("Any", "bool", "complex", "Device", "float", "int", "str", "Tensor")
DICT_KEYS = frozenset(SIMPLE_TYPES[name] for name in _KEYS)
_HANDLES = {
    "Future": "Future", "torch.jit.Future": "Future", "Await": "Await",
    "torch.jit._Await": "Await", "RRef": "RRef",
}  # fmt: skip
_STREAM_CLASSES = {
    "torch.cuda.Stream": "__torch__.torch.classes.cuda.Stream",
    "torch.cuda.Event": "__torch__.torch.classes.cuda.Event",
}
# Each member is compared with all others.
MAX_UNION: Final = 64
_LONGEST_SHOWN: Final = 200
_QUALIFIED = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_SIZE = re.compile(r"_size_(\d)_t")
_BROADCASTING = re.compile(r"BroadcastingList(\d{1,2})")


class ParameterType(NamedTuple):
    """The type of a parameter; ``repeat`` is N of ``BroadcastingListN``."""

    type: Type
    repeat: int | None = None


def parse_type(text: str, resolve: Resolve) -> Type:
    """Return the type that ``text`` writes. Raises SourceError for anything that is not a type."""
    if _QUALIFIED.fullmatch(text):
        return _named(text, resolve)
    check_text(text)
    if "\\" in text:
        raise SourceError(f"{_shortened(text)} is not a type annotation")
    try:
        expression = parse_expression(with_empty_tuples(text)).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise SourceError(f"{_shortened(text)} is not a type annotation") from error
    return type_of_expression(expression, resolve)


def type_of_expression(expression: ast.expr, resolve: Resolve) -> Type:
    """Like :func:`parse_type`, for an annotation that is parsed already."""
    match expression:
        case ast.Subscript(value, index):
            return _constructed(_dotted(value), index, resolve)
        case ast.BinOp(left, ast.BitOr(), right):
            sides = (type_of_expression(side, resolve) for side in (left, right))
            return _union(tuple(sides))
        case ast.Constant(str() as text):
            return _quoted(text, resolve)
        case ast.Constant(None):
            return NONE
    return _named(_dotted(expression), resolve)


def parameter_type(expression: ast.expr, resolve: Resolve) -> ParameterType:
    """Return the type of a parameter, which may also be a broadcasting list."""
    broadcast = broadcasting_list(expression)
    return broadcast or ParameterType(type_of_expression(expression, resolve))


def broadcasting_list(expression: ast.expr) -> ParameterType | None:
    """``BroadcastingListN[int]``, ``_size_N_t`` or an Optional of those; None for others."""
    match expression:
        case ast.Name(name) if size := _SIZE.fullmatch(name):
            return ParameterType(ListType(INT), int(size[1]))
        case ast.Subscript(ast.Name("Optional"), inner):
            found = broadcasting_list(inner)
            return found and ParameterType(OptionalType(found.type), found.repeat)
        case ast.Subscript(ast.Name(name), inner) if size := _BROADCASTING.fullmatch(name):
            element = {"int": INT, "float": FLOAT}.get(ast.unparse(inner))
            if element is None:
                raise _refused(expression, "only lists of int and float broadcast")
            return ParameterType(ListType(element), int(size[1]))
    return None


def _constructed(name: str, index: ast.expr, resolve: Resolve) -> Type:
    arguments = index.elts if isinstance(index, ast.Tuple) else [index]
    parts = tuple(type_of_expression(argument, resolve) for argument in arguments)
    if name in ("Tuple", "tuple"):
        return TupleType(parts)
    if name == "Union" and parts:
        return _union(parts)
    if name in ("Dict", "dict") and len(parts) == 2:
        if parts[0] not in DICT_KEYS:
            raise _refused(index, "a dict cannot have keys of this type")
        return DictType(*parts)
    single = _SINGLE.get(name)
    if single is not None and len(parts) == 1:
        return single(parts[0])
    if single is not None or name in ("Dict", "dict", "Union"):
        raise _refused(index, f"wrong number of types for {name}")
    raise SourceError(f"unknown type constructor {name!r}")


def _union(members: tuple[Type, ...]) -> Type:
    if sum(len(flat_members(member)) for member in members) > MAX_UNION:
        raise SourceError(f"a Union of more than {MAX_UNION} types is not read")
    return union_of(members)


_SINGLE: dict[str, Callable[[Type], Type]] = {
    "List": ListType,
    "list": ListType,
    "Optional": lambda type_: type_ if isinstance(type_, OptionalType) else OptionalType(type_),
    **{name: partial(HandleType, kind) for name, kind in _HANDLES.items()},
}


def _named(name: str, resolve: Resolve) -> Type:
    found = _BASE_NAMES.get(name) or resolve(name)
    if found is None:
        raise SourceError(f"unknown type {_shortened(name)}")
    return found


def _quoted(text: str, resolve: Resolve) -> Type:
    name = _STREAM_CLASSES.get(text, text)
    found = resolve(f"__torch__.{name}" if name.startswith("torch.classes.") else name)
    if found is None:
        raise SourceError(f"unknown type {text!r}")
    return found


def _dotted(expression: ast.expr) -> str:
    atoms: list[str] = []
    while isinstance(expression, ast.Attribute):
        atoms.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        raise _refused(expression, "a type is a name, or a name with types in brackets")
    atoms.append(expression.id)
    return ".".join(reversed(atoms))


def _refused(expression: ast.expr, reason: str) -> SourceError:
    return SourceError(f"{_shortened(ast.unparse(expression))} is not a type: {reason}")


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")
