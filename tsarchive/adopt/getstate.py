"""Analysis of ``__getstate__``: which parts of its result outlive the result.

The pickler memoises values that are referenced elsewhere.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import Node, Value
from tsarchive.ir.types import TENSOR, ListType, OptionalType, TupleType, Type
from tsarchive.ir.values import Held

_BIAS = 1


class _Fate(enum.IntEnum):
    """What keeps a part of a state alive once the state is gone."""

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


def _native_fate(type_: Type) -> _Fate:
    """Packed parameters unpack to their weight, and to their own bias, an optional."""
    if type_ == TENSOR:
        return _Fate.PACKED
    return _Fate.HELD if type_ == OptionalType(TENSOR) else _Fate.FRESH


def _fates(class_: ClassType) -> list[_Fate]:
    if class_.is_native:
        return list(map(_native_fate, _state_types(class_)))
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
