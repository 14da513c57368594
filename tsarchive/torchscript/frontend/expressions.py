"""Expressions: names, attributes, literals, subscripts, operators and calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NoReturn

from tsarchive.errors import SourceError, UnknownOperatorError
from tsarchive.printer.graph import Value
from tsarchive.printer.schema import NO_DEFAULT
from tsarchive.printer.subtyping import is_subtype, unify, unify_all
from tsarchive.printer.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    STRING,
    TENSOR,
    ClassType,
    DictType,
    EnumType,
    InterfaceType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
)
from tsarchive.printer.values import Device, EnumMember

from .arithmetic import BINARY, COMPARISONS, UNARY, number
from .builtins import BUILTINS, Builtins
from .calls import Arguments, positional
from .casts import is_device
from .environment import shorten, shown
from .references import (
    Builtin,
    Closure,
    Constructor,
    FunctionReference,
    MethodReference,
    Namespace,
    OperatorNamespace,
    OperatorReference,
    Reference,
    Results,
    Special,
    ToList,
    Typed,
    TypeReference,
    typed,
)
from .syntax import string_value
from .typing_rules import list_hint, dict_hint

_ROOTS: dict[str, Reference] = {
    **{special.value: special for special in Special},
    **{name: Builtin(name) for name in BUILTINS},
    "torch": OperatorNamespace("aten"),
    "__torch__": Namespace("__torch__"),
}
_INT64 = range(-(2**63), 2**63)
