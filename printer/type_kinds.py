"""Types made of other types: torch's word for each kind, and what makes ours of its parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .types import NONE, NUMBER, DictType, HandleType, ListType, OptionalType, Type, UnionType

BUILDERS: dict[str, Callable[..., Type]] = {
    "OptionalType": OptionalType,
    "ListType": ListType,
    "DictType": DictType,
    "UnionType": lambda *members: UnionType(members),
    "FutureType": partial(HandleType, "Future"),
    "AwaitType": partial(HandleType, "Await"),
    "RRefType": partial(HandleType, "RRef"),
    "NumberType": lambda *_: NUMBER,
    "NoneType": lambda *_: NONE,
}
