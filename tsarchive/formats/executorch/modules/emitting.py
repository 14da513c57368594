"""Emission of kernel calls as nodes of a graph: arguments from slots, results into them.

An operator writes to its planned result memory, through a tensor that keeps its sizes or one that
takes those of the result. Inputs that it might overwrite are copied first; results that might alias
each other are computed apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.executorch.values import (
    NO_TENSOR,
    BoolList,
    DoubleList,
    IntList,
    OptionalTensorList,
    Shape,
    Tensor,
    TensorList,
)
from tsarchive.formats.pt2.building import Body
from tsarchive.formats.pt2.operators import PUBLIC_FORMS
from tsarchive.ir.graph import Value
from tsarchive.ir.schema import Argument, FunctionSchema, parse_schema
from tsarchive.ir.subtyping import is_subtype
from tsarchive.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    TENSOR,
    ListType,
    OptionalType,
    Type,
    annotation,
)

from .kernels import Call, argument_fits, result_type
from .slots import Slots


class Frame(Protocol):
    """The context of instructions: the builder of nodes, and the current values."""

    body: Body
    slots: Slots

    def read(self, index: int) -> Value:
        """Return the current content of a single value."""

    def write(self, index: int, value: Value) -> None:
        """Rebind a value."""


def _schema(text: str) -> FunctionSchema:
    return parse_schema(text)


_FIXED: Final = _schema("executorch::fixed(Tensor(a) slot) -> Tensor(a)")
_BOUNDED: Final = _schema("executorch::bounded(Tensor(a) slot) -> Tensor(a)")
_APART: Final = _schema("executorch::apart(Tensor slot) -> Tensor")
_ADOPT: Final = _schema("executorch::adopt(Tensor(a!) slot, Tensor written, bool is_fixed) -> ()")
_STORE: Final = _schema("executorch::store(Tensor(a!) slot, Tensor value) -> ()")
_STORE_ALL: Final = _schema("executorch::store_all(Tensor(a!)[] slots, Tensor[] values) -> ()")
_ITEM: Final = _schema("executorch::item(Tensor self, str kind) -> Scalar")
_VIEW: Final = _schema(
    "executorch_prim::et_view(Tensor(b) self, int[] size, bool is_fixed, Tensor(a!) out) "
    "-> Tensor(a!)"
)
_CLONE: Final = _schema("aten::clone(Tensor self, *, int? memory_format=None) -> Tensor")
_ELEMENTS: Final[Mapping[type, Type]] = {
    IntList: INT, DoubleList: FLOAT, BoolList: BOOL, TensorList: TENSOR,
    OptionalTensorList: OptionalType(TENSOR),
}  # fmt: skip


def append(body: Body, schema: FunctionSchema, *inputs: Value, type_: Type | None = None) -> Value:
    """Append an operator; return its result, None where it has none."""
    outputs = [result.type for result in schema.returns]
    if type_ is not None:
        outputs = [type_]
    node = body.append(schema.name, inputs, *outputs, schema=schema)
    node.has_effects = any(argument.is_write for argument in schema.arguments)
    return node.outputs[0] if outputs else body.none()


def emit(frame: Frame, call: Call) -> None:
    """Append a kernel call. Raises FormatError for arguments of the wrong type."""
    if call.result is not None:
        _number(frame, call, call.result)
    elif call.public_form is not None:
        _Emission(frame, call).public_form(call.public_form)
    elif call.functional is not None:
        _Emission(frame, call).call_functional(call.functional)
    else:
        _Emission(frame, call).call_out()


def _number(frame: Frame, call: Call, result: int) -> None:
    values = [
        argument_of(frame, index, argument)
        for index, argument in zip(call.args, call.schema.arguments, strict=True)
    ]
    type_ = result_type(call, [value.type for value in values], frame.slots.type_of(result))
    if call.name == "aten::_local_scalar_dense":
        kind = frame.body.string(annotation(type_))
        frame.write(result, append(frame.body, _ITEM, values[0], kind, type_=type_))
        return
    frame.write(result, append(frame.body, call.schema, *values, type_=type_))


class _Emission:
    """One call that writes to tensors. ``after`` are the nodes that follow it."""

    def __init__(self, frame: Frame, call: Call) -> None:
        self._frame = frame
        self._body = frame.body
        self._call = call
        self._after: list[Callable[[], Any]] = []
        slots = frame.slots
        self._written = [item for index in call.written() for item in slots.items(index)]
        self._is_apart = any(
            one == other or slots.overlap(one, other)
            for position, one in enumerate(self._written)
            for other in self._written[:position]
        )

    def call_out(self) -> None:
        """Call the operator itself, with its results in their planned memory."""
        schema = self._call.schema
        pairs = zip(self._call.args, schema.arguments, strict=True)
        values = [self._given(index, argument) for index, argument in pairs]
        if schema.full_name == "executorch_prim::et_view.default":
            schema = _VIEW
            fixed = self._body.constant(self._is_fixed(self._call.args[-1]), BOOL)
            values.insert(-1, fixed)
        outputs = [result.type for result in schema.returns]
        node = self._body.append(schema.name, values, *outputs, schema=schema)
        node.has_effects = True
        for follow in self._after:
            follow()

    def public_form(self, step: str) -> None:
        """Call the public operator of an internal one, and copy its results into their memory."""
        pairs = zip(self._call.args, self._call.schema.arguments, strict=True)
        given = {a.name: self._given(i, a) for i, a in pairs if not a.is_out}
        results = PUBLIC_FORMS[step](self._body, given)
        for index, result in zip(self._call.outs(), results, strict=False):
            if result.type == TENSOR:
                append(self._body, _STORE, self._place(index), result)
            elif self._frame.slots.is_read(index):
                raise UnsupportedError(f"{self._call.name} does not compute value {index} here")
        for follow in self._after:
            follow()

    def call_functional(self, schema: FunctionSchema) -> None:
        """Call the functional overload, and copy its results into their memory."""
        pairs = list(zip(self._call.args, self._call.schema.arguments, strict=True))
        values = [argument_of(self._frame, i, a) for i, a in pairs if not a.is_out]
        made = append(self._body, schema, *values)
        (index,) = [i for i, a in pairs if a.is_out]
        places = [self._place(item) for item in self._frame.slots.items(index)]
        append(self._body, _STORE_ALL, self._body.list_of(TENSOR, places), made)

    def _given(self, index: int, argument: Argument) -> Value:
        if not argument.is_write:
            return argument_of(self._frame, index, argument, self._copied)
        if isinstance(self._frame.slots.value(index), TensorList):
            items = [self._target(item, argument) for item in self._frame.slots.items(index)]
            return self._body.list_of(TENSOR, items)
        return self._target(index, argument)

    def _copied(self, index: int, value: Value) -> Value:
        """Copy an argument if the operator might overwrite it."""
        slots = self._frame.slots
        if not any(index == out or slots.overlap(index, out) for out in self._written):
            return value
        if self._call.schema.full_name == "executorch_prim::et_view.default":
            return value
        return append(self._body, _CLONE, value, self._body.none())

    def _slot(self, index: int) -> Value:
        if not isinstance(self._frame.slots.value(index), Tensor):
            raise FormatError(f"{self._call.name} writes to value {index}, which is no tensor")
        return self._frame.read(index)

    def _place(self, index: int) -> Value:
        """Return the tensor to copy a result to, which resizes only if its slot may."""
        slot = self._slot(index)
        return append(self._body, _FIXED, slot) if self._is_fixed(index) else slot

    def _is_fixed(self, index: int) -> bool:
        value = self._frame.slots.value(index)
        return isinstance(value, Tensor) and value.dynamism == Shape.STATIC

    def _target(self, index: int, argument: Argument) -> Value:
        """Return the tensor that the operator writes to."""
        slot, body = self._slot(index), self._body
        is_own = self._call.is_own
        if self._is_apart and not is_own:
            schema = _APART if argument.is_out else _CLONE
            more = () if argument.is_out else (body.none(),)
            apart = append(body, schema, slot, *more)
            self._after.append(lambda: append(body, _STORE, self._place(index), apart))
            return apart
        if self._call.schema.full_name == "executorch_prim::et_view.default":
            return slot
        if is_own or not argument.is_out:
            is_slot = is_own and not self._is_fixed(index)
            return slot if is_slot else append(body, _FIXED, slot)
        made = append(body, _BOUNDED, slot)
        is_fixed = body.constant(self._is_fixed(index), BOOL)
        self._after.append(lambda: append(body, _ADOPT, slot, made, is_fixed))
        return made


Copy = Callable[[int, Value], Value]


def _as_it_is(_index: int, value: Value) -> Value:
    return value


def argument_of(frame: Frame, index: int, argument: Argument, copied: Copy = _as_it_is) -> Value:
    """Return the value of an argument; ``copied`` may substitute a tensor.

    Raises FormatError for one of another type.
    """
    value = frame.slots.value(index)
    wanted = argument.type
    if isinstance(value, IntList | DoubleList | BoolList | TensorList | OptionalTensorList):
        found = _list(frame, value, wanted, copied)
    else:
        found = frame.read(index)
        if found.type == TENSOR:
            found = copied(index, found)
    if not (is_subtype(found.type, wanted) or argument_fits(found.type, argument)):
        shown, given = annotation(wanted), annotation(found.type)
        message = f"the argument {argument.name} is {shown}, and value {index} is {given}"
        raise FormatError(message)
    return found


def _list(
    frame: Frame,
    value: IntList | DoubleList | BoolList | TensorList | OptionalTensorList,
    wanted: Type,
    copied: Copy,
) -> Value:
    body = frame.body
    element = _ELEMENTS[type(value)]
    if isinstance(value, DoubleList | BoolList):
        return body.list_of(element, [body.constant(item, element) for item in value.items])
    inner = wanted.element if isinstance(wanted, OptionalType) else wanted
    if isinstance(inner, ListType) and inner.element in (OptionalType(TENSOR), NUMBER):
        element = inner.element
    items = [_item(frame, item, copied) for item in value.items]
    return body.list_of(element, items)


def _item(frame: Frame, index: int, copied: Copy) -> Value:
    if index == NO_TENSOR:
        return frame.body.none()
    found = frame.read(index)
    return copied(index, found) if found.type == TENSOR else found
