"""Restoration of sharing in adopted values: each container or object of torch becomes one value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import DictType, ListType, OptionalType, TupleType, Type
from tsarchive.ir.values import ObjectValue

from .probe import Item, Place, Probe, Values

Holder = MutableMapping[Any, Any] | MutableSequence[Any]


@dataclass(slots=True, eq=False)
class _Held:
    """A value ``holder[key]`` with an identity in torch, at ``place``.

    ``parts`` are the items of a tuple, and ``elements`` those of them that have an identity;
    ``first`` is the first place that holds the same object, if it is another.
    """

    holder: Any
    key: Any
    place: Place
    parts: list[Any] | None = None
    elements: list[_Held] = field(default_factory=list)
    first: _Held | None = None

    def representative(self) -> Any:
        """Return the one value that represents the object at all of its places."""
        if self.first is not None:
            return self.first.representative()
        if self.elements and self.parts is not None:
            for element in self.elements:
                self.parts[element.key] = element.representative()
            self.elements = []
            self.holder[self.key] = tuple(self.parts)
        return self.holder[self.key]


class Sharing:
    """Collects the places of containers and script objects while a module is adopted."""

    def __init__(self) -> None:
        self._groups: dict[str, list[_Held]] = {}
        self._states: list[tuple[ObjectValue, list[Any], Callable[[list[Any]], Any]]] = []

    def note(self, holder: Holder, key: Any, type_: Type, place: Place) -> _Held | None:
        """Note that ``holder[key]`` was read from ``place``, and its items likewise.

        Only values that look alike can be the same object, so those are compared.
        """
        value = holder[key]
        if isinstance(type_, OptionalType):
            type_ = type_.element
        match type_, value:
            case ListType(element), list():
                for index in range(len(value)):
                    self.note(value, index, element, place.then(Item(index)))
            case DictType(_, element), dict():
                values = place.then(Values())
                for index, name in enumerate(value):
                    self.note(value, name, element, values.then(Item(index)))
            case TupleType(types), tuple() if value:
                return self._note_tuple(_Held(holder, key, place, list(value)), types)
            case ClassType(is_native=False), ObjectValue():
                return self._add(value.type.qualified_name, None, _Held(holder, key, place))
            case _:
                return None
        return self._add(type(value).__name__, value, _Held(holder, key, place))

    def note_state(self, owner: ObjectValue, place: Place) -> None:
        """Note the result of ``__getstate__`` of ``owner``; a tuple is split into its items."""
        assert owner.state is not None
        value, type_ = owner.state.value, owner.state.type
        if isinstance(type_, TupleType) and isinstance(value, tuple):
            parts = list(value)
            for index, element in enumerate(type_.elements):
                self.note(parts, index, element, place.then(Item(index)))
            self._states.append((owner, parts, tuple))
        else:
            whole = [value]
            self.note(whole, 0, type_, place)
            self._states.append((owner, whole, itemgetter(0)))

    def _note_tuple(self, held: _Held, types: Sequence[Type]) -> _Held:
        assert held.parts is not None
        for index, type_ in enumerate(types):
            element = self.note(held.parts, index, type_, held.place.then(Item(index)))
            if element is not None:
                held.elements.append(element)
        return self._add("tuple", held.parts, held)

    def _add(self, kind: str, value: Any, held: _Held) -> _Held:
        self._groups.setdefault(f"{kind} {_sharing_key(value)}", []).append(held)
        return held

    def restore(self, probe: Probe) -> None:
        """Replace copies so that each object of torch is represented by one value."""
        groups = [group for group in self._groups.values() if len(group) > 1]
        if not groups:
            return
        found = probe.same([[held.place for held in group] for group in groups])
        for group, firsts in zip(groups, found, strict=True):
            for held, first in zip(group, firsts, strict=True):
                held.first = group[first] if group[first] is not held else None
        for held in itertools.chain.from_iterable(self._groups.values()):
            held.holder[held.key] = held.representative()
        for owner, parts, joined in self._states:
            assert owner.state is not None
            owner.state = replace(owner.state, value=joined(parts))


def _sharing_key(value: Any) -> str:
    """Return a key that is equal for values that may be the same object."""
    match value:
        case list() | tuple():
            return f"{len(value)}[{','.join(map(_sharing_key, value))}]"
        case dict():
            return f"{len(value)}{{{','.join(map(_sharing_key, value.values()))}}}"
        case None | bool() | int() | float() | complex() | str():
            return repr(value)
    return type(value).__name__
