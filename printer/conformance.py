"""Whether a value is of a type, whatever stands for objects and tensors in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .types import DictType, ListType, OptionalType, TupleType, Type, UnionType

__all__ = ["conforms"]


def conforms(value: Any, type_: Type, is_of: Callable[[Any, Type], bool]) -> bool:
    """Whether ``value`` can be of ``type_``; ``is_of`` decides for types that hold no others.

    An empty container fits every element type.
    """
    match type_:
        case OptionalType(element):
            return value is None or conforms(value, element, is_of)
        case UnionType(members):
            return any(conforms(value, member, is_of) for member in members)
        case ListType(element):
            return isinstance(value, list) and all(conforms(v, element, is_of) for v in value)
        case DictType(key, item):
            return isinstance(value, dict) and all(
                conforms(k, key, is_of) and conforms(v, item, is_of) for k, v in value.items()
            )
        case TupleType(elements):
            return (
                isinstance(value, tuple)
                and len(value) == len(elements)
                and all(conforms(v, t, is_of) for v, t in zip(value, elements, strict=True))
            )
    return is_of(value, type_)
