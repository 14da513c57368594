"""Higher-order operators that call another operator, or a method of an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.graph import Value
from tsarchive.ir.schema import Argument
from tsarchive.ir.types import NONE, TENSOR, ListType, OptionalType, TupleType

from . import schema
from .arguments import argument_value, operands
from .building import Body
from .higher_order import HigherOrderCall
from .operators import call_with, given_arguments, operator_of

# torch's names for the arguments that describe a view of a base.
_VIEW_PARTS: Final = (
    "base_index", "alias", "slice_dim", "slice_start", "slice_end", "size", "stride",
    "storage_offset",
)  # fmt: skip


class _Base(NamedTuple):
    """A tensor of which arguments are views, and its copy that is written to."""

    copied: Value
    original: Value

    def strided(self, body: Body, size: Value, stride: Value, offset: Value) -> Value:
        """Return a view of the copy with the layout that the original view has."""
        strides = [body.value("aten::stride", tensor) for tensor in self]
        body.raise_unless(
            body.value("aten::eq", *strides), "a tensor with gaps between its elements is written"
        )
        start = body.value("aten::storage_offset", self.original)
        return body.value(
            "aten::as_strided", self.copied, size, stride, body.value("aten::sub", offset, start)
        )


def _with_effects(call: HigherOrderCall) -> list[Value]:
    """Call an operator with an effect token; nodes here keep their order anyway."""
    token = call.operands(0)
    kind, overload = operator_of(call.literal(1, "as_operator"))
    named = call.body.operators.overload(kind, overload)
    given = given_arguments(call.body, named, call.node.inputs[2:], call.values)
    results = call_with(call.body, named, *given)
    return [*token, *(results or [call.body.none()])]


def _auto_functionalized(call: HigherOrderCall) -> list[Value]:
    """Call a mutating operator on copies of its arguments, which become further results."""
    given = call.keywords()
    copies: dict[str, Value] = {}

    def made(argument: Argument) -> Value:
        value = argument_value(call.body, _taken(given, argument.name), call.values, argument.type)
        copies[argument.name] = copied = _copied(call.body, value)
        return copied

    results = _on_copies(call, given, made)
    return [*results, *copies.values()]


def _copied(body: Body, value: Value) -> Value:
    if isinstance(value.type, ListType):
        raise UnsupportedError("it writes to a list of tensors")
    return value if value.type == NONE else body.value("aten::clone", value)


def _on_bases(call: HigherOrderCall) -> list[Value]:
    """Call a mutating operator on views: their bases are copied, and become further results."""
    given = call.keywords()
    originals = operands(call.body, _taken(given, "_all_bases"), call.values)
    bases = [_Base(_copied(call.body, base), base) for base in originals]

    def made(argument: Argument) -> Value:
        prefix = f"_{argument.name}"
        if _element_type(argument) is None:
            return _view(call, given, prefix, bases)
        length = _number(_taken(given, f"{prefix}_length"))
        if length is None:
            return call.body.none()
        views = [_view(call, given, f"{prefix}_{index}", bases) for index in range(length)]
        return call.body.list_of(_element_type(argument) or TENSOR, views)

    return [*_on_copies(call, given, made), *(base.copied for base in bases)]


def _element_type(argument: Argument) -> Any:
    """Return the element type of a list argument; None for others."""
    type_ = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
    return type_.element if isinstance(type_, ListType) else None


def _on_copies(
    call: HigherOrderCall, given: dict[str, schema.Argument], make: Callable[[Argument], Value]
) -> list[Value]:
    """Return the results of the operator, its mutated arguments being made by ``make``."""
    kind, overload = operator_of(call.literal(0, "as_operator"))
    named = call.body.operators.overload(kind, overload)
    made = {argument.name: make(argument) for argument in named.arguments if argument.is_write}
    rest = [schema.NamedArgument(name, value) for name, value in given.items() if name not in made]
    arguments = given_arguments(call.body, named, rest, call.values, made)
    results = call_with(call.body, named, *arguments)
    return results or [call.body.none()]


def _view(
    call: HigherOrderCall, given: dict[str, schema.Argument], prefix: str, bases: list[_Base]
) -> Value:
    """Return an argument as its view of one of the bases."""
    parts = {
        part: given.pop(f"{prefix}_{part}") for part in _VIEW_PARTS if f"{prefix}_{part}" in given
    }
    index = _number(_taken(parts, "base_index"))
    if index is None:
        return call.body.none()
    if index not in range(len(bases)):
        raise FormatError(f"it has {len(bases)} bases, and none of number {index}")
    base = bases[index]

    def part(name: str) -> Value:
        return argument_value(call.body, _taken(parts, name), call.values, None)

    if "storage_offset" in parts:
        return base.strided(call.body, *map(part, ("size", "stride", "storage_offset")))
    if "slice_dim" in parts:
        bounds = map(part, ("slice_dim", "slice_start", "slice_end"))
        return call.body.value("aten::slice", base.copied, *bounds)
    return base.copied


def _taken(given: dict[str, schema.Argument], name: str) -> schema.Argument:
    found = given.pop(name, None)
    if found is None:
        raise FormatError(f"its argument {name!r} is missing")
    return found


def _number(argument: schema.Argument) -> int | None:
    if argument.tag not in ("as_int", "as_none"):
        raise FormatError(f"an argument is {argument.tag}, not as_int")
    return None if argument.tag == "as_none" else int(argument.value)


def _call_torchbind(call: HigherOrderCall) -> list[Value]:
    """Call a method of an object of a class bound from C++."""
    (receiver,) = call.operands(0)
    given = [argument_value(call.body, one.arg, call.values, None) for one in call.node.inputs[2:]]
    result = call.body.call_method(receiver, call.literal(1, "as_string"), given)
    if isinstance(result.type, TupleType):
        return call.body.append("prim::TupleUnpack", [result], *result.type.elements).outputs
    return [result]


OPERATOR_CALLS: Final[Mapping[str, Callable[[HigherOrderCall], list[Value]]]] = MappingProxyType(
    {
        "auto_functionalized": _auto_functionalized,
        "auto_functionalized_v2": _on_bases,
        "call_torchbind": _call_torchbind,
        "with_effects": _with_effects,
    }
)
