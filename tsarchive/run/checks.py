"""Helpers that checks of arguments share, and the numbers of dtypes, layouts and memory formats.

Operators take any number for these, and look up in tables what lies far outside of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

from tsarchive.errors import ScriptError
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import INT, OptionalType

from .natives.conversions import DTYPES, LAYOUTS, NUMBERS

_FORMATS: Final = {4: torch.channels_last, 5: torch.channels_last_3d}

Given = Mapping[str, Any]
"""The arguments of a call by the names of the schema, defaults filled in."""

Check = Callable[..., Any]
"""Takes what is ``Given`` as keywords, and raises ScriptError where an operator must not run."""

C = TypeVar("C", bound=Check)
CHECKS: Final[dict[str, Check]] = {}
"""Checks by the names of operators, or of single overloads."""


def check_before(*names: str) -> Callable[[C], C]:
    """Let the decorated check run before operators; those without a namespace are of aten."""

    def enter(check: C) -> C:
        full_names = (name if "::" in name else f"aten::{name}" for name in names)
        CHECKS.update(dict.fromkeys(full_names, check))
        return check

    return enter


def require(condition: bool, message: str) -> None:
    """ScriptError with the message unless the condition holds."""
    if not condition:
        raise ScriptError(message)


def is_within(values: Tensor, below: int | None = None) -> bool:
    """Return whether no value is negative, and all are below ``below`` where that is given."""
    if not values.numel():
        return True
    return int(values.min()) >= 0 and (below is None or int(values.max()) < below)


def plain(value: Any) -> Any:
    """Tensors, alone or in lists, in memory without gaps and of one place for each element."""
    if isinstance(value, Tensor) and value.layout is torch.strided:
        like = _FORMATS.get(value.dim())
        if value.is_contiguous() or (like and value.is_contiguous(memory_format=like)):
            return value
        return value.contiguous()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def room_of(tensor: Tensor) -> int:
    """Return the number of elements that the whole storage of a tensor has room for."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


MEMORY_FORMATS: Final[Mapping[int, str]] = dict(
    enumerate(("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"))
)
# Tensors in the form of oneDNN: its kernels read memory from an address on.
_ONEDNN: Final = LAYOUTS[torch._mkldnn]  # type: ignore[attr-defined]
# Several elements a byte: views of such tensors begin beyond their memory.
_SUB_BYTE: Final = frozenset({NUMBERS[torch.quint4x2], NUMBERS[torch.quint2x4]})
_NUMBERS: Final[Mapping[str, frozenset[int]]] = {
    "ScalarType": frozenset(DTYPES) - _SUB_BYTE,
    "Layout": frozenset(LAYOUTS.values()) - {_ONEDNN},
    "MemoryFormat": frozenset(MEMORY_FORMATS),
}
_INTS: Final = (INT, OptionalType(INT))
_enumerations: Final[dict[str, tuple[FunctionSchema, Mapping[int, str]]]] = {}

_OF_TORCH: Final = (
    "aten::", "prim::", "prims::", "mkldnn::", "quantized::", "static_runtime::",
)  # fmt: skip
"""Namespaces that torch fills: argument names mean what torch means, and nothing goes away."""

_registered: Final[dict[str, tuple[tuple[Any, ...], Any]]] = {}


def registered_schemas(name: str) -> tuple[Any, ...]:
    """Return the overloads of an operator as torch itself describes them, in its order.

    The tuple is the same one as long as nothing about them changes. Torch makes the overloads anew
    each time that it is asked, so those of its own namespaces are kept once there are any: one that
    somebody adds there later is found by the next process. Others are found as they are now.
    """
    known = _registered.get(name)
    is_of_torch = name.startswith(_OF_TORCH)
    if known is not None and is_of_torch:
        return known[0]
    is_name = name.isascii() and "::" in name
    found = tuple(torch._C._jit_get_schemas_for_operator(name)) if is_name else ()
    shown = None if is_of_torch else tuple(map(described, found))
    if known is not None and known[1] == shown:
        return known[0]
    if found or known is not None:  # archives give the names
        _registered[name] = found, shown
    return found


def described(schema: Any) -> tuple[Any, ...]:
    """Return all of a registered overload that decides over the code that calls it."""
    types = [str(argument.real_type) for argument in schema.arguments]
    return str(schema), may_write_unsaid(_full_name(schema)), *types


def may_write_unsaid(full_name: str) -> bool:
    """Return whether an operator is registered without promises about its arguments."""
    from tsarchive.operators.effects import OF_TORCH  # what is stored does without it

    report = "" if full_name.startswith(OF_TORCH) else torch._C._dispatch_dump(full_name)
    return "alias analysis kind: CONSERVATIVE" in report


def _full_name(schema: Any) -> str:
    overload: str = schema.overload_name
    return f"{schema.name}.{overload}" if overload else str(schema.name)


def enum_names(full_name: str) -> Mapping[int, str]:
    """Arguments that are dtypes, layouts and memory formats, which the types of an archive hide.

    By position; the names are ScalarType, Layout and MemoryFormat.
    """
    for schema in registered_schemas(full_name.partition(".")[0]):
        if _full_name(schema) == full_name:
            kinds = [str(a.real_type) for a in schema.arguments]
            shown = [kind.removeprefix("Optional[").removesuffix("]") for kind in kinds]
            return {i: kind for i, kind in enumerate(shown) if kind in _NUMBERS}
    return {}


def enumerations(schema: FunctionSchema) -> Mapping[int, str]:
    """Like ``enum_names``, also for operators that are no more, and those that tell less."""
    full_name = schema.full_name
    known = _enumerations.get(full_name)
    if known is None or known[0] is not schema:
        named = schema.arguments if schema.name.startswith(_OF_TORCH) else ()
        by_name = {i: kind for i, a in enumerate(named) if (kind := _kind_by_name(a))}
        known = _enumerations[full_name] = schema, {**by_name, **enum_names(full_name)}
    return known[1]


def _kind_by_name(argument: Argument) -> str | None:
    if argument.type not in _INTS:
        return None
    if argument.name.endswith("dtype"):
        return "ScalarType"
    return {"layout": "Layout", "memory_format": "MemoryFormat"}.get(argument.name)


NUMBER_KINDS: Final = tuple(_NUMBERS)
"""What numbers may stand for."""


def is_number_of(kind: str, value: object) -> bool:
    """Return whether an operator may be given the value: a number that torch knows, or None."""
    return value is None or (type(value) is int and value in _NUMBERS[kind])


@cache
def number_check(kind: str) -> Callable[[int | None], int | None]:
    """A function that returns what it is given; ScriptError when that is no number of the kind."""
    numbers = _NUMBERS[kind]

    def checked(value: int | None) -> int | None:
        if value is not None and value not in numbers:
            raise ScriptError(f"{value} is not the number of a {kind}")
        return value

    return checked
