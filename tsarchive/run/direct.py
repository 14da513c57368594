"""Calls of torch's Python bindings in the place of overloads of ``torch.ops``, which cost more.

A binding is called where it is sure to run the very overload that the code means. Its arguments
stand in the order of the schema, and it looks for a signature by the values that it is given: so
each value has a type that the signature takes, and no other signature comes before it that could
take them all. ``tests/test_direct_operators.py`` asks the bindings for their signatures and holds
this against them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import torch

from tsarchive.printer.expressions import necessary_arguments
from tsarchive.printer.graph import Node, Value
from tsarchive.printer.schema import Argument, FunctionSchema
from tsarchive.printer.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    ListType,
    OptionalType,
    Type,
)

from .derivative_checks import SAVED_WHERE
from .enumerations import enumerations
from .guards import USUAL, guarded
from .operators import find_native, operator_schemas
from .window_checks import IsHarmless, harmless_windows

__all__ = ["DirectCall", "binding_of", "direct_call", "is_certain", "no_call"]

# Versions of torch whose bindings were compared with their operators.
_COMPARED: Final = ("2.13.",)
_BINDINGS: Final[tuple[Any, ...]] = (
    torch._C._VariableFunctions,
    torch._C._nn,
    torch._C.TensorBase,  # methods, which take a tensor first
)

# Operators whose bindings have other arguments, or do other things, or fail with other words.
_DIFFERENT: Final = frozenset({"bernoulli", "is_contiguous", "requires_grad_", "set_", "to"})
# Numbers act as tensors here: the bindings have no signature for them.
_WITHOUT_NUMBERS: Final = frozenset(
    f"aten::{name}{end}.Scalar" for name in ("add", "sub", "mul", "div") for end in ("", "_")
)
# Operators that need a guard, but not where constant arguments are like this.
_HARMLESS_WHERE: Final[Mapping[str, Mapping[str, IsHarmless]]] = {
    **{name: dict.fromkeys(flags, operator.not_) for name, flags in SAVED_WHERE.items()},
    "aten::select.int": {"dim": lambda dim: dim >= 0},
    **{f"aten::{name}": {"size": lambda size: size >= -1} for name in ("expand", "broadcast_to")},
    "aten::layer_norm": {"normalized_shape": lambda size: size > 0},
}
_ALONE: Final = frozenset({TENSOR, INT, FLOAT, BOOL, COMPLEX, NUMBER})
_INTS: Final = ListType(INT)
_TENSORS: Final = ListType(TENSOR)
# The parser of bindings takes the word for a default, such as Mean, for 0.
_DEFAULTS_IN_WORDS: Final = frozenset({"reduction"})
# What each type of a signature takes besides itself.
_TAKEN: Final[Mapping[Type, frozenset[Type]]] = {
    TENSOR: frozenset({TENSOR}),
    INT: frozenset({INT}),
    FLOAT: frozenset({FLOAT}),
    BOOL: frozenset({BOOL}),
    NUMBER: frozenset({INT, FLOAT, BOOL, NUMBER}),
    STRING: frozenset({STRING}),
    _INTS: frozenset({_INTS}),
    _TENSORS: frozenset({_TENSORS}),
}
# No ints: they may be numbers of dtypes, which bindings give as such.
_RETURNED: Final = frozenset({TENSOR, FLOAT, BOOL})

# Methods that take the items of their only list one by one, which costs less.
_SPREAD: Final = frozenset({"aten::expand", "aten::permute", "aten::repeat", "aten::view"})

_METHOD_AND_LIST: Final = 2

Binding = Callable[..., Any]


class DirectCall(NamedTuple):
    """What is called in the place of an overload, and the texts of the arguments."""

    binding: Binding
    texts: list[str]


_bindings: Final[dict[str, Binding | None]] = {}
_with_usual: Final[dict[str, Binding]] = {}
# Of an overload and the types it is given, among so many overloads of its name.
_certain: Final[dict[tuple[str, tuple[Type, ...], int], bool]] = {}


def direct_call(node: Node, texts: Sequence[str]) -> DirectCall | None:
    """A call that is sure to run what ``node`` means; None where that is not certain.

    ``texts`` are those of all inputs. Arguments that have their default values are left out,
    unless those of the binding are others.
    """
    schema = node.schema
    binding = None if schema is None else binding_of(schema)
    if schema is None or binding is None or not _takes_result(schema, node):
        return None
    if not _are_harmless(schema, node, _harmless_where(schema)):
        if schema.name not in USUAL:
            return None
        binding = _where_usual(schema, binding)
    given = node.inputs[: _necessary(schema, node.inputs)]
    count = len(given)
    types = [value.type for value in given]
    if not is_certain(schema, types):
        return None
    if schema.name in _SPREAD and count == _METHOD_AND_LIST and _has_items(texts[1]):
        method = getattr(torch._C.TensorBase, schema.name.removeprefix("aten::"))
        return DirectCall(method, [texts[0], texts[1][1:-1]])
    short = {i: text for i, value in enumerate(given) if (text := _short(schema, i, value))}
    if short and is_certain(schema, [INT if i in short else t for i, t in enumerate(types)]):
        return DirectCall(binding, [short.get(i, text) for i, text in enumerate(texts[:count])])
    return DirectCall(binding, list(texts[:count]))


def _necessary(schema: FunctionSchema, inputs: Sequence[Value]) -> int:
    """How many arguments the binding is given."""
    needed, _ = necessary_arguments(schema, inputs)
    left_out = schema.arguments[needed:]
    in_words = [i for i, a in enumerate(left_out, needed + 1) if a.name in _DEFAULTS_IN_WORDS]
    return in_words[-1] if in_words else needed


def no_call(_node: Node, _texts: Sequence[str]) -> None:
    """In the place of ``direct_call`` where all operators are called by their overload."""


def _harmless_where(schema: FunctionSchema) -> Mapping[str, IsHarmless]:
    return _HARMLESS_WHERE.get(schema.full_name) or harmless_windows(schema)


def _are_harmless(schema: FunctionSchema, node: Node, where: Mapping[str, IsHarmless]) -> bool:
    return all(_is_harmless(schema, node, *one) for one in where.items())


def _where_usual(schema: FunctionSchema, binding: Binding) -> Binding:
    """``binding`` for calls that need no check, and behind the check for the others."""
    known = _with_usual.get(schema.full_name)
    if known is None:
        is_usual, checked = USUAL[schema.name], guarded(schema, binding)

        def known(*args: Any) -> Any:
            return binding(*args) if is_usual(*args) else checked(*args)

        _with_usual[schema.full_name] = known
    return known


def _is_harmless(
    schema: FunctionSchema, node: Node, argument: str, is_harmless: IsHarmless
) -> bool:
    """Whether an argument, and each item of it, is a constant that needs no guard."""
    offset = [known.name for known in schema.arguments].index(argument)
    given = node.inputs[offset].node
    items = [item.node for item in given.inputs] if given.kind == "prim::ListConstruct" else [given]
    if not all(item.is_constant for item in items):
        return False
    values = [item.attributes["value"] for item in items]
    return all(map(is_harmless, chain.from_iterable(map(_listed, values))))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _takes_result(schema: FunctionSchema, node: Node) -> bool:
    """Bindings give tuples for lists, which nobody sees where the items are taken at once."""
    if schema.returns[0].type != _TENSORS:
        return True
    return all(user.kind == "prim::ListUnpack" for user, _ in node.output.uses)


def _short(schema: FunctionSchema, offset: int, value: Value) -> str | None:
    """One number for a list of as many equal ones as the schema says: 1 for [1, 1]."""
    items = [item.node for item in value.node.inputs]
    repeat = schema.arguments[offset].repeat
    is_list = value.node.kind == "prim::ListConstruct" and value.type == _INTS
    if not (is_list and len(items) == repeat and len(value.uses) == 1):
        return None
    numbers = {item.attributes["value"] if item.is_constant else None for item in items}
    return ascii(numbers.pop()) if len(numbers) == 1 and None not in numbers else None


def is_certain(schema: FunctionSchema, given: Sequence[Type]) -> bool:
    """Whether a binding that is given such values runs ``schema``."""
    key = schema.full_name, tuple(given), len(operator_schemas(schema.name))
    found = _certain.get(key)
    if found is None:
        found = _certain[key] = _takes(schema, given) and _is_alone(schema, given)
    return found


def _takes(schema: FunctionSchema, given: Sequence[Type]) -> bool:
    """Whether the signature of ``schema`` takes such values."""
    kinds = enumerations(schema)
    for offset, type_ in enumerate(given):
        is_number_of_kind = offset in kinds and type_ != NONE  # no int to a binding
        if is_number_of_kind or not _is_taken(schema.arguments[offset], type_):
            return False
    return True


def _is_alone(schema: FunctionSchema, given: Sequence[Type]) -> bool:
    """Whether no other overload takes such values."""
    others = (other for other in operator_schemas(schema.name) if other != schema)
    return not any(_may_take(other, schema, given) for other in others)


def bindings_of(name: str) -> Iterator[Binding]:
    """The bindings of an operator of torch, by its name without the namespace."""
    for namespace in _BINDINGS:
        found = getattr(namespace, name, None)
        if callable(found):
            yield found


def binding_of(schema: FunctionSchema) -> Binding | None:
    """The binding that has a signature like ``schema``, as this process knows the operator."""
    known = operator_schemas(schema.name)
    if not (any(schema is one for one in known) or schema in known):
        return None
    key = schema.full_name
    if key not in _bindings:
        _bindings[key] = _find_binding(schema)
    return _bindings[key]


def _find_binding(schema: FunctionSchema) -> Binding | None:
    namespace, _, name = schema.name.partition("::")
    if (
        namespace != "aten"
        or name.startswith("__")
        or name in _DIFFERENT
        or not torch.__version__.startswith(_COMPARED)
    ):
        return None
    found = next(bindings_of(name), None)
    if found is None or find_native(schema) is not None:
        return None
    is_free = schema.name in USUAL or bool(_harmless_where(schema))
    if guarded(schema, found) is not found and not is_free:
        return None
    return found if _has_signature(schema) and _can_be_called(schema) else None


def _has_signature(schema: FunctionSchema) -> bool:
    """Whether the bindings of the name have a signature for this overload."""
    is_out = any(argument.is_out for argument in schema.arguments)
    is_dispatched = torch._C._dispatch_has_kernel(schema.full_name)
    return is_dispatched and not is_out and schema.full_name not in _WITHOUT_NUMBERS


def _can_be_called(schema: FunctionSchema) -> bool:
    """Bindings give tuples for lists, and make things on the default device of Python."""
    takes_device = any(argument.name == "device" for argument in schema.arguments)
    results = [result.type for result in schema.returns]
    return not takes_device and (
        results == [_TENSORS] or (bool(results) and _RETURNED.issuperset(results))
    )


def _is_taken(argument: Argument, type_: Type) -> bool:
    """Whether a signature takes what is of a type when the code runs."""
    wanted, is_optional = _unwrapped(argument.type)
    given, may_be_none = _unwrapped(type_)
    if given == NONE:
        return is_optional
    fits = given in _TAKEN.get(wanted, ()) or (given == INT and argument.repeat is not None)
    return fits and (is_optional or not may_be_none)


def _may_take(other: FunctionSchema, schema: FunctionSchema, given: Sequence[Type]) -> bool:
    """Whether a binding may run ``other`` where ``schema`` is meant."""
    if not _has_signature(other):
        return False
    left = {argument.name: argument for argument in other.arguments}
    is_behind = False
    for offset, type_ in enumerate(given):
        wanted = schema.arguments[offset]
        found = left.pop(wanted.name, None) if wanted.kwarg_only else _at(other, offset)
        if found is None or not _may_be(found, type_):
            return False
        left.pop(found.name, None)
        # Signatures for tensors stand before those for numbers.
        is_behind = is_behind or (wanted.type, found.type) == (TENSOR, NUMBER)
    is_behind = is_behind and schema.arguments[0].type == TENSOR
    return not is_behind and all(argument.has_default for argument in left.values())


def _at(schema: FunctionSchema, offset: int) -> Argument | None:
    arguments = schema.arguments
    is_there = offset < len(arguments) and not arguments[offset].kwarg_only
    return arguments[offset] if is_there else None


def _may_be(argument: Argument, type_: Type) -> bool:
    """Like ``_is_taken``, where a doubt means yes: a tensor may stand for a number."""
    wanted, _ = _unwrapped(argument.type)
    given, may_be_none = _unwrapped(type_)
    if may_be_none:
        return True
    if isinstance(given, ListType):
        return isinstance(wanted, ListType)
    if given in _ALONE:
        return wanted in _ALONE or argument.repeat is not None
    return True


def _has_items(text: str) -> bool:
    """Whether a list stands in the call itself, and is not empty."""
    return text.startswith("[") and text != "[]"


def _unwrapped(type_: Type) -> tuple[Type, bool]:
    """A type without None, and whether None belongs to it."""
    if isinstance(type_, OptionalType):
        return type_.element, True
    return type_, type_ == NONE
