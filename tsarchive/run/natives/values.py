"""Operators on values of any type, and those that print, warn, raise, or tell where code runs.

hash() gives the 64-bit numbers of torch built with GNU's standard library. Operators on files run
only where a policy allows them by name.
"""

from __future__ import annotations

import enum
import struct
import sys
import warnings
from typing import Any, TypeVar

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import wrap
from tsarchive.run.natives.formatting import format_value
from tsarchive.run.natives.strings import encode
from tsarchive.run.natives.table import check_kind, fault, native, wrong_kind

T = TypeVar("T")

# Compared by value where torch compares by identity: they have none there.
_PLAIN = (bool, int, float, torch.device)


@native("aten::__is__")
def is_same(a: Any, b: Any) -> bool:
    """Identity; numbers and devices of one type are the same when they are equal."""
    return type(a) is type(b) and a == b if isinstance(a, _PLAIN) else a is b


native("aten::__isnot__")(lambda a, b: not is_same(a, b))


@native("aten::_unwrap_optional")
def unwrap_optional(optional: T | None) -> T:
    if optional is None:
        raise ScriptError("Unwrapping null optional")
    return optional


@native("prim::unchecked_unwrap_optional", "prim::unchecked_cast", "aten::Size")
def identity(value: T) -> T:
    return value


@native("prim::Uninitialized")
def uninitialized() -> None:
    """A value that no path of a valid program reads."""


native("prim::IfThenElse")(lambda condition, x, y: x if condition else y)


@native("prim::TupleIndex")
def tuple_item(values: tuple[Any, ...], i: int) -> Any:
    try:
        return values[i]
    except IndexError:
        raise fault(IndexError, "Tuple list index out of range") from None


def tuple_slice(values: tuple[Any, ...], begin: int, end: int) -> tuple[Any, ...]:
    if not isinstance(values, tuple):
        raise wrong_kind(values, tuple)
    return values[begin:end]


native("prim::id")(lambda x: 0 if x is None else id(x))


@native("prim::EnumName")
def enum_name(member: enum.Enum) -> str:
    check_kind(member, enum.Enum)
    return str(member.name)


@native("prim::EnumValue.int", "prim::EnumValue.float", "prim::EnumValue.str")
def enum_value(member: enum.Enum) -> Any:
    check_kind(member, enum.Enum)
    return member.value


@native("prim::ModuleContainerIndex.list", "prim::ModuleContainerIndex.dict")
def submodule(container: torch.nn.Module, name: int | str) -> Any:
    """The submodule of a ModuleList or ModuleDict whose key is known at run time only."""
    check_kind(container, torch.nn.Module)
    found = container._modules.get(str(name))
    if found is None:
        raise fault(KeyError, f"the module has no submodule {str(name)!r}")
    return found


_MASK = (1 << 64) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907
_GOLDEN_RATIO = 0x9E3779B9
_DEVICE_TYPES = (
    "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla", "vulkan",
    "metal", "xpu", "mps", "meta", "hpu", "ve", "lazy", "ipu", "mtia",
)  # fmt: skip
"""In the order of their numbers."""


native("aten::hash.generic")(lambda value: wrap(_hash(value)))


def _hash(value: Any) -> int:
    """The hash of a number, string, tuple, device, tensor (by identity) or None.

    Raises ScriptError for lists, dicts and what else torch does not hash.
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return int(value) & _MASK
    if isinstance(value, float):
        return murmur64a(struct.pack("<d", value)) if value != 0 else 0
    if isinstance(value, str):
        return murmur64a(encode(value))
    if isinstance(value, tuple):
        seed = 0
        for item in value:
            mixed = _hash(item) + _GOLDEN_RATIO + (seed << 6) + (seed >> 2)
            seed ^= mixed & _MASK
        return seed
    if isinstance(value, torch.device):
        # Above 16 bits of index, of which no index fills eight.
        index = 0xFF if value.index is None else value.index
        return _DEVICE_TYPES.index(value.type) << 16 | index
    if isinstance(value, torch.Tensor):
        return id(value)
    raise fault(TypeError, f"unhashable type: '{type(value).__name__}'")


def murmur64a(data: bytes) -> int:
    """Austin Appleby's MurmurHash64A with the standard library's seed."""
    value = (_SEED ^ (len(data) * _MULTIPLIER)) & _MASK
    whole = len(data) - len(data) % 8
    for (block,) in struct.iter_unpack("<Q", data[:whole]):
        value = (value ^ (_shift_mix(block * _MULTIPLIER) * _MULTIPLIER)) * _MULTIPLIER & _MASK
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    return _shift_mix(_shift_mix(value) * _MULTIPLIER)


def _shift_mix(value: int) -> int:
    value &= _MASK
    return value ^ (value >> 47)


_ASSERTION = "AssertionError: "

native("aten::is_scripting")(lambda: True)
native("aten::_get_tracing_state", "aten::has_torch_function")(lambda *_: False)
native("aten::is_grad_enabled")(torch.is_grad_enabled)
native("aten::set_grad_enabled")(torch._C._set_grad_enabled)
native("aten::save")(torch.save)


@native("prim::Print")
def print_values(*values: Any) -> None:
    """Write the values to standard output, joined by spaces, with a line end.

    Bytes that are not UTF-8 become U+FFFD.
    """
    text = " ".join(map(format_value, values))
    sys.stdout.write(encode(text).decode("utf-8", "replace") + "\n")


@native("aten::warn")
def warn(message: str, stacklevel: int) -> None:
    """Issue a UserWarning at the calling line of the generated code.

    Python's default filter shows it once per line, as torch does. torch does not use
    ``stacklevel``, nor does this.
    """
    del stacklevel
    check_kind(message, str)
    warnings.warn(message, UserWarning, stacklevel=2)


@native("prim::RaiseException")
def raise_exception(message: str, class_name: str | None) -> None:
    """Raise ScriptError; ``class_name`` is the qualified name of the class that was raised.

    An ``assert`` has no class; its name stands before the message.
    """
    check_kind(message, str)
    if class_name is None and message.startswith(_ASSERTION):
        raise fault(AssertionError, message.removeprefix(_ASSERTION))
    raise ScriptError(message, exception=class_name or "RuntimeError")


@native("prim::IgnoredPythonOp")
def call_ignored_function(*_: Any) -> None:
    """Stand in for a Python function that was left out when the archive was saved."""
    raise ScriptError(
        "This Python function is annotated to be ignored and cannot be and has not been included "
        "in the exported binary, meaning that it cannot be executed now. Make sure that ignored "
        "operations are never executed after import"
    )
