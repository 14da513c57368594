"""Sharing in adopted values: each container or object of torch becomes one value.

torch's bindings copy lists, dicts and script objects on the way to Python, which loses identity.
``probing`` compares them inside torch.

The pickler memoises values that are referenced elsewhere, so ``__getstate__`` is analyzed for which
parts of its result outlive the result.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from tsarchive.ir.classes import ClassType
from tsarchive.ir.constants import Held, ObjectValue
from tsarchive.ir.graph import Node, Value
from tsarchive.ir.types import TENSOR, DictType, ListType, OptionalType, TupleType, Type

from .probing import Item, Place, Probe, Values

Holder = MutableMapping[Any, Any] | MutableSequence[Any]


@dataclass(slots=True, eq=False)
class _Occurrence:
    """A value ``holder[key]`` with an identity in torch, at ``place``.

    ``parts`` are the items of a tuple, and ``elements`` those of them that have an identity;
    ``first`` is the first place that holds the same object, if it is another.
    """

    holder: Any
    key: Any
    place: Place
    parts: list[Any] | None = None
    elements: list[_Occurrence] = field(default_factory=list)
    first: _Occurrence | None = None

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
        self._groups: dict[str, list[_Occurrence]] = {}
        self._states: list[tuple[ObjectValue, list[Any], Callable[[list[Any]], Any]]] = []

    def note(self, holder: Holder, key: Any, type_: Type, place: Place) -> _Occurrence | None:
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
                return self._note_tuple(_Occurrence(holder, key, place, list(value)), types)
            case _, ObjectValue(ClassType(is_native=False, is_module=False)):
                return self._add(value.type.qualified_name, None, _Occurrence(holder, key, place))
            case _:
                return None
        return self._add(type(value).__name__, value, _Occurrence(holder, key, place))

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

    def _note_tuple(self, held: _Occurrence, types: Sequence[Type]) -> _Occurrence:
        assert held.parts is not None
        for index, type_ in enumerate(types):
            element = self.note(held.parts, index, type_, held.place.then(Item(index)))
            if element is not None:
                held.elements.append(element)
        return self._add("tuple", held.parts, held)

    def _add(self, kind: str, value: Any, held: _Occurrence) -> _Occurrence:
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
            owner.state = owner.state._replace(value=joined(parts))


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


_BIAS = 1


class _Fate(enum.IntEnum):
    """The owner that keeps a part of a state alive once the state is gone."""

    HELD = 0
    PACKED = 1  # the weight of packed parameters: some engines hold it, others create it
    FRESH = 2


def held_parts(class_: ClassType, state: Any, again: Callable[[], Any]) -> Held:
    """Return the parts of ``state`` that are also referenced elsewhere.

    These are slots of the object, constants of the graph, and the bias inside packed parameters;
    computed values are held by the result alone. ``again`` calls ``__getstate__`` once more, to see
    whether the weight inside packed parameters is a new one.
    """
    fates = _fates(class_)
    held = _held(class_, fates)
    weights = _positions(fates, _Fate.PACKED)
    if not weights:
        return held
    other = again()
    same = (index for index in weights if other[index] is state[index])
    return Held((*held.elements, *same), held.items)


def always_held_parts(class_: ClassType) -> Held:
    """Return those that are held regardless of the engine for quantized operators."""
    return _held(class_, _fates(class_))


def _held(class_: ClassType, fates: Sequence[_Fate]) -> Held:
    lists: tuple[int, ...] = ()
    if class_.is_native:
        optional = ListType(OptionalType(TENSOR))
        lists = tuple(i for i, type_ in enumerate(_state_types(class_)) if type_ == optional)
    return Held(_positions(fates, _Fate.HELD), lists)


def _positions(fates: Sequence[_Fate], fate: _Fate) -> tuple[int, ...]:
    return tuple(index for index, found in enumerate(fates) if found is fate)


def _state_types(class_: ClassType) -> tuple[Type, ...]:
    type_ = class_.methods["__getstate__"].schema.return_type
    return type_.elements if isinstance(type_, TupleType) else ()


def _fates(class_: ClassType) -> list[_Fate]:
    if class_.is_native:
        # Packed parameters unpack to their weight, and to their own bias, an optional.
        fates = {TENSOR: _Fate.PACKED, OptionalType(TENSOR): _Fate.HELD}
        return [fates.get(type_, _Fate.FRESH) for type_ in _state_types(class_)]
    returned = class_.methods["__getstate__"].graph.returns[0].node
    if returned.kind != "prim::TupleConstruct":
        return []
    return [_fate(value) for value in returned.inputs]


def _fate(value: Value) -> _Fate:
    node = value.node
    if node.kind == "prim::TupleUnpack":
        return _fate_in(node.input, node.outputs.index(value))
    if node.kind == "prim::If":
        return max(map(_fate, _choices(value)), default=_Fate.HELD)
    if _is_unpack(node):
        return _unpacked(node.outputs.index(value))
    is_held = node.kind in ("prim::GetAttr", "prim::Constant")
    return _Fate.HELD if is_held else _Fate.FRESH


def _fate_in(tuple_: Value, index: int) -> _Fate:
    """Return the fate of an element of a tuple, regardless of the tuple's own."""
    node = tuple_.node
    match node.kind:
        case "prim::TupleConstruct":
            return _fate(node.inputs[index])
        case "prim::If":
            return max((_fate_in(choice, index) for choice in _choices(tuple_)), default=_Fate.HELD)
        case "prim::CallMethod":
            owner = node.input.type
            if isinstance(owner, ClassType) and not owner.is_native and node.name in owner.methods:
                return _fate_in(owner.methods[node.name].graph.returns[0], index)
    return _unpacked(index) if _is_unpack(node) else _Fate.FRESH


def _choices(value: Value) -> Iterable[Value]:
    """Return the values of the branches for one output of an if statement."""
    position = value.node.outputs.index(value)
    given = [block.returns[position] for block in value.node.blocks]
    return [choice for choice in given if choice.node.kind != "prim::Uninitialized"]


def _is_unpack(node: Node) -> bool:
    """Return whether the node is ``conv2d_unpack(packed)`` or ``packed.unpack()``."""
    if node.kind == "prim::CallMethod":
        return node.name == "unpack"
    return node.kind.startswith("quantized::") and "_unpack" in node.kind


def _unpacked(index: int) -> _Fate:
    return _Fate.HELD if index == _BIAS else _Fate.PACKED
