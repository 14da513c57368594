"""Restores sharing in adopted values: containers and objects that torch holds once are one."""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence
from dataclasses import dataclass
from typing import Any

from .probe import Item, Place, Probe
from .types import ClassType, DictType, ListType, OptionalType, TupleType, Type
from .values import ObjectValue

Holder = MutableMapping[Any, Any] | MutableSequence[Any]


@dataclass(frozen=True, slots=True)
class _Held:
    """``holder[key]`` is a value with an identity in torch, to be found at ``place``."""

    holder: Any
    key: Any
    place: Place


class Sharing:
    """Collects the places of containers and script objects while a module is adopted."""

    def __init__(self) -> None:
        self._groups: dict[str, list[_Held]] = {}

    def note(self, holder: Holder, key: Any, type_: Type, place: Place) -> None:
        """``holder[key]`` was read from ``place``; items inside are noted with it.

        Only values that look the same can be the same, so those are compared.
        """
        value = holder[key]
        match type_, value:
            case ListType(element), list() if value:
                self._group("list", value).append(_Held(holder, key, place))
                for index in range(len(value)):
                    self.note(value, index, element, place.then(Item(index)))
            case DictType(_, element), dict() if value:
                self._group("dict", value).append(_Held(holder, key, place))
                for name in value:
                    if isinstance(name, str | int | float | bool):
                        self.note(value, name, element, place.then(Item(name)))
            case TupleType(), tuple() if value:
                self._group("tuple", value).append(_Held(holder, key, place))
            case ClassType(is_native=False), ObjectValue():
                self._group(value.type.qualified_name, None).append(_Held(holder, key, place))
            case OptionalType(ListType() | DictType() | TupleType()), list() | dict() | tuple():
                self._group(type(value).__name__, value).append(_Held(holder, key, place))

    def _group(self, kind: str, value: Any) -> list[_Held]:
        return self._groups.setdefault(f"{kind} {_outline(value)}", [])

    def restore(self, probe: Probe) -> None:
        """Put one value wherever torch holds one object."""
        groups = [group for group in self._groups.values() if len(group) > 1]
        if not groups:
            return
        found = probe.same([[held.place for held in group] for group in groups])
        for group, firsts in zip(groups, found, strict=True):
            for held, first in zip(group, firsts, strict=True):
                held.holder[held.key] = group[first].holder[group[first].key]


def _outline(value: Any) -> str:
    """Equal for values that may be the same object: scalars in full, the rest by its kind."""
    match value:
        case list() | tuple():
            return f"{len(value)}[{','.join(map(_outline, value))}]"
        case dict():
            return f"{len(value)}{{{','.join(map(_outline, value.values()))}}}"
        case None | bool() | int() | float() | complex() | str():
            return repr(value)
    return type(value).__name__
