"""Arguments that are numbers of dtypes, layouts and memory formats.

Operators take any number for them, and look up in tables what lies far outside of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import torch

from tsarchive.errors import ScriptError
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import INT, OptionalType

from .natives.dtypes import DTYPES, LAYOUTS, NUMBERS

MEMORY_FORMATS: Final[Mapping[int, str]] = MappingProxyType(
    {0: "contiguous_format", 1: "preserve_format", 2: "channels_last", 3: "channels_last_3d"}
)
# Tensors in the form of oneDNN: its kernels read memory from an address on.
_ONEDNN: Final = LAYOUTS[torch._mkldnn]  # type: ignore[attr-defined]
# Several elements a byte: views of such tensors begin beyond their memory.
_SUB_BYTE: Final = frozenset({NUMBERS[torch.quint4x2], NUMBERS[torch.quint2x4]})
_NUMBERS: Final = MappingProxyType(
    {
        "ScalarType": frozenset(DTYPES) - _SUB_BYTE,
        "Layout": frozenset(LAYOUTS.values()) - {_ONEDNN},
        "MemoryFormat": frozenset(MEMORY_FORMATS),
    }
)
_OF_TORCH: Final = ("aten::", "prim::", "prims::", "static_runtime::")
_INTS: Final = (INT, OptionalType(INT))
_enumerations: Final[dict[str, tuple[FunctionSchema, Mapping[int, str]]]] = {}


@cache
def enum_names(full_name: str) -> Mapping[int, str]:
    """Arguments that are dtypes, layouts and memory formats, which the types of an archive hide.

    By position; the names are ScalarType, Layout and MemoryFormat.
    """
    name = full_name.partition(".")[0]
    for schema in torch._C._jit_get_schemas_for_operator(name):
        overload = schema.overload_name
        if (f"{schema.name}.{overload}" if overload else schema.name) == full_name:
            kinds = [str(a.real_type) for a in schema.arguments]
            shown = [kind.removeprefix("Optional[").removesuffix("]") for kind in kinds]
            return {i: kind for i, kind in enumerate(shown) if kind in _NUMBERS}
    return {}


def enumerations(schema: FunctionSchema) -> Mapping[int, str]:
    """Like ``enum_names``, also for operators that are no more, and those that tell less."""
    full_name = schema.full_name
    known = _enumerations.get(full_name)
    if known is None or known[0] is not schema:
        known = _enumerations[full_name] = schema, _found(schema)
    return known[1]


def _found(schema: FunctionSchema) -> Mapping[int, str]:
    if not schema.name.startswith(_OF_TORCH):
        return enum_names(schema.full_name)
    by_name = {i: kind for i, a in enumerate(schema.arguments) if (kind := _kind_by_name(a))}
    return {**by_name, **enum_names(schema.full_name)}


def _kind_by_name(argument: Argument) -> str | None:
    if argument.type not in _INTS:
        return None
    if argument.name.endswith("dtype"):
        return "ScalarType"
    return {"layout": "Layout", "memory_format": "MemoryFormat"}.get(argument.name)


def is_number_of(kind: str, value: object) -> bool:
    """Whether an operator may be given the value: a number of this process's torch, or None."""
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
