"""Types by torch's word for their kind: what makes ours of its parts, and those without parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import types
from .types import DictType, HandleType, ListType, OptionalType, Type, UnionType

BUILDERS: dict[str, Callable[..., Type]] = {
    "OptionalType": OptionalType,
    "ListType": ListType,
    "DictType": DictType,
    "UnionType": lambda *members: UnionType(members),
    "FutureType": partial(HandleType, "Future"),
    "AwaitType": partial(HandleType, "Await"),
    "RRefType": partial(HandleType, "RRef"),
}

# Types without parts, which torch has one of each.
SINGLE: dict[str, Type] = {
    "BoolType": types.BOOL,
    "FloatType": types.FLOAT,
    "IntType": types.INT,
    "NoneType": types.NONE,
    "NumberType": types.NUMBER,
    "StringType": types.STRING,
    "TensorType": types.TENSOR,
}
