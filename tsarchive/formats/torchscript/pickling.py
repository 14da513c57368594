"""Pickle values of a model's objects and values, by their static types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tsarchive.errors import SaveError
from tsarchive.ir.classes import ClassType, FunctionType, InterfaceType
from tsarchive.ir.constants import (
    Device,
    EnumMember,
    Held,
    ObjectValue,
    TableConstant,
    TypedValue,
)
from tsarchive.ir.names import TypeNames
from tsarchive.ir.subtyping import conforms
from tsarchive.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    DictType,
    EnumType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
)
from tsarchive.ir.values import type_of_constant
from tsarchive.pickler import Global, MarkedTuple, Memo, Memoised, Object, Reduce, Value
from tsarchive.printer.literals import ConstantTable

from .pickled import LIST_BUILDERS
from .tensors import TensorWriter

_JIT = "torch.jit._pickle"
_TAG = Global(_JIT, "restore_type_tag")
_LIST_BUILDERS: dict[Type, Global] = {
    element: Global(_JIT, name) for name, element in LIST_BUILDERS.items()
}
_COMPLEX = Global("builtins", "complex")


def class_global(qualified_name: str) -> Global:
    """Return a class as a pickle names it: everything before the last dot is the module."""
    module, _, name = qualified_name.rpartition(".")
    return Global(module, name)


class Pickling:
    """Builds the value of one pickle record.

    ``classes`` collects the class of every object, in the order in which objects are encountered.
    Identity is kept: one list, tensor or object gives one pickle value.
    """

    def __init__(self, names: TypeNames) -> None:
        self.names = names
        self.tensors = TensorWriter()
        self.classes: dict[ClassType, None] = {}
        self._known: dict[int, tuple[Any, Value]] = {}
        self._devices: dict[str, Reduce] = {}

    def value(self, value: Any, type_: Type) -> Value:
        match value:
            case TableConstant(torch.Tensor() as tensor):
                return self.tensor(tensor)
            case bool() | int() | float() | str() | None:
                return value
            case complex():
                return Reduce(_COMPLEX, (value.real, value.imag))
            case Device(text):
                return self._device(text)
            case EnumMember():
                cls = class_global(self.names.tag(value.type))
                return Reduce(cls, self.value(value.value, value.type.value_type))
            case ObjectValue():
                return self._once(value, self._object, type_)
            case list() | dict() | tuple():
                return self._once(value, self._container, type_)
        raise SaveError(f"a value of type {type(value).__name__} cannot be pickled")

    def tensor(self, tensor: torch.Tensor) -> Reduce:
        return self.tensors.reduce(tensor)

    def held(self, value: Any, type_: Type) -> Value:
        """Return a value that is memoised even when the pickle refers to it once."""
        found = self.value(value, type_)
        if isinstance(found, Reduce | Object):
            found.memo = Memo.ALWAYS
        elif isinstance(found, tuple | list | dict):
            return Memoised(found)
        return found

    def _once(self, value: Any, build: Any, type_: Type) -> Value:
        if value == () and isinstance(value, tuple):
            return ()
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (value, build(value, type_))
        return known[1]

    def _device(self, text: str) -> Reduce:
        if text not in self._devices:
            self._devices[text] = Reduce(Global("torch", "device"), (text,), Memo.ALWAYS)
        return self._devices[text]

    def _object(self, value: ObjectValue, _: Type) -> Object:
        self.classes.setdefault(value.type)
        memo = Memo.ALWAYS if value.type.is_module else Memo.SHARED
        found = Object(class_global(self.names.name(value.type)), None, memo)
        if value.state is not None:
            found.state = self._state(value.state)
            return found
        attributes: Mapping[str, Any] = value.type.attributes
        slots = value.slots.items()
        found.state = {name: self.value(slot, attributes[name].type) for name, slot in slots}
        return found

    def _state(self, state: TypedValue) -> Value:
        """Return the result of ``__getstate__``; torch holds it and some elements meanwhile."""
        if not isinstance(state.value, tuple) or not isinstance(state.type, TupleType):
            return self.held(state.value, state.type)
        pairs = zip(state.value, state.type.elements, strict=True)
        return Memoised(
            tuple(self._element(*pair, index, state.held) for index, pair in enumerate(pairs))
        )

    def _element(self, value: Any, type_: Type, index: int, held: Held) -> Value:
        if index in held.elements:
            return self.held(value, type_)
        if index in held.items and isinstance(type_, ListType):
            items: Value = [self.held(item, type_.element) for item in value]
            return Reduce(_TAG, (items, self._tag(type_)))
        return self.value(value, type_)

    def _container(self, value: Any, declared: Type) -> Value:
        type_ = container_type(value, declared)
        match type_:
            case TupleType(elements):
                return tuple(self.value(v, t) for v, t in zip(value, elements, strict=True))
            case ListType(element):
                return self._list(value, element)
            case DictType(key, item):
                pairs: Value = {self.value(k, key): self.value(v, item) for k, v in value.items()}
                return Reduce(_TAG, (pairs, self._tag(type_)))
        raise SaveError(f"a {type(value).__name__} stands where {annotation(declared)} is declared")

    def _tag(self, type_: Type) -> str:
        return annotation(type_, self.names.tag)

    def _list(self, value: list[Any], element: Type) -> Reduce:
        builder = _LIST_BUILDERS.get(element)
        if builder is None:
            items: Value = [self.value(item, element) for item in value]
            return Reduce(_TAG, (items, self._tag(ListType(element))))
        if element == TENSOR:
            # torch walks a copy of the list, which holds every tensor a second time.
            return Reduce(builder, MarkedTuple(([self.held(t, TENSOR) for t in value],)))
        return Reduce(builder, MarkedTuple((list(value),)))


def container_type(value: Any, declared: Type) -> Type:
    """Return the type of a container from its slot or, under Any and Union, its content."""
    if isinstance(declared, OptionalType):
        declared = declared.element
    if isinstance(declared, UnionType):
        fitting = [member for member in declared.members if fits(value, member)]
        declared = fitting[0] if fitting else ANY
    if isinstance(declared, ListType | DictType | TupleType):
        return declared
    return run_time_type(value)


def run_time_type(value: Any) -> Type:
    """Return the type of a value by itself; elements of one container are unified."""
    match value:
        case TableConstant():
            return TENSOR
        case tuple():
            return TupleType(tuple(run_time_type(item) for item in value))
        case list():
            return ListType(_common([run_time_type(item) for item in value]))
        case dict():
            keys = _common([run_time_type(key) for key in value])
            return DictType(keys, _common([run_time_type(item) for item in value.values()]))
    return type_of_constant(value)


def _common(types: list[Type]) -> Type:
    distinct = list(dict.fromkeys(types))
    return distinct[0] if len(distinct) == 1 else ANY


def fits(value: Any, type_: Type) -> bool:
    """Return whether ``value`` can be of ``type_``; an empty container fits every element type."""
    return conforms(value, type_, _is_of)


def _is_of(value: Any, type_: Type) -> bool:
    match type_:
        case ClassType() | EnumType():
            return isinstance(value, ObjectValue | EnumMember) and value.type is type_
        case InterfaceType():
            return isinstance(value, ObjectValue)
        case HandleType() | FunctionType():
            return True
    if type_ == ANY or type_ not in _KNOWN_SIMPLE:
        return True
    found = run_time_type(value)
    return found == type_ or (type_ == NUMBER and found in (INT, FLOAT, COMPLEX))


_KNOWN_SIMPLE = (BOOL, COMPLEX, DEVICE, FLOAT, INT, NONE, NUMBER, STRING, TENSOR)


class Constants(ConstantTable):
    """Collects constants in printing order; equal tensors share one entry."""

    def __init__(self) -> None:
        self.entries: list[TypedValue] = []
        self._tensors: dict[object, list[int]] = {}

    def index(self, value: Any, type_: Type) -> int:
        if not (isinstance(value, TableConstant) and isinstance(value.value, torch.Tensor)):
            return self._append(value, type_)
        tensor = value.value
        if tensor.requires_grad:
            # The code asks for gradients of what it reads from the table.
            tensor, value = tensor.detach(), TableConstant(tensor.detach())
        known = self._position(tensor)
        if known is not None:
            return known
        self._tensors.setdefault(_kind(tensor), []).append(len(self.entries))
        return self._append(value, type_)

    def _position(self, tensor: torch.Tensor) -> int | None:
        alike = self._tensors.get(_kind(tensor), ())
        return next((at for at in alike if torch.equal(self.entries[at].value.value, tensor)), None)

    def expected(self, values: Sequence[Any]) -> list[int] | None:
        found: list[int] = []
        new: list[torch.Tensor] = []
        for value in values:
            tensor = value.value if isinstance(value, TableConstant) else None
            if not isinstance(tensor, torch.Tensor) or tensor.requires_grad:
                return None
            known = self._position(tensor)
            if known is None:
                if any(_kind(one) == _kind(tensor) for one in new):
                    return None  # which may be one entry
                known = len(self.entries) + len(new)
                new.append(tensor)
            found.append(known)
        return found

    def _append(self, value: Any, type_: Type) -> int:
        self.entries.append(TypedValue(value, type_))
        return len(self.entries) - 1


def _kind(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what equal tensors have in common beside their elements."""
    return (tensor.dtype, tensor.device.type, tensor.layout, tuple(tensor.shape))
