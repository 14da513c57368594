"""str() of values, format() and the % operator, as torch's C++ streams print."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.bounds import check_bytes
from tsarchive.run.natives.bytestrings import decode, encode, normalized
from tsarchive.run.natives.faults import type_fault, wrong_kind
from tsarchive.run.natives.futures import Awaitable, Future
from tsarchive.run.natives.narrowing import float32, float32_of_int
from tsarchive.run.natives.number_format import format_complex, format_float, with_nan_sign
from tsarchive.run.natives.table import native
from tsarchive.run.natives.tensor_format import format_tensor


def format_value(value: Any) -> str:
    """``value`` as ``str()`` and ``print()`` of TorchScript show it, strings without quotes."""
    exact = _EXACT.get(type(value))
    if exact is not None:
        return exact(value)
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value)
    return f"<{type(value).__module__}.{type(value).__qualname__} object at {id(value):#x}>"


def _joined(items: Iterable[Any]) -> str:
    return _together(map(format_value, items), ", ")


def _together(parts: Iterable[str], separator: str = "") -> str:
    """The parts as one text. A list that holds another often makes far more than it is."""
    kept: list[str] = []
    size = 0
    for part in parts:
        size += len(part) + len(separator)
        check_bytes(size)
        kept.append(part)
    return separator.join(kept)


def _format_tuple(value: tuple[Any, ...]) -> str:
    return f"({_joined(value)}{',' if len(value) == 1 else ''})"


def _format_dict(value: dict[Any, Any]) -> str:
    pairs = (f"{format_value(key)}: {format_value(item)}" for key, item in value.items())
    return f"{{{_together(pairs, ', ')}}}"


# In this order: an enum may also be an int, a bool always is one.
_FORMS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (enum.Enum, lambda value: f"Enum<{type(value).__name__}.{value.name}>"),
    (str, str),
    (int, str),
    (float, format_float),
    (torch.Tensor, format_tensor),
    (list, lambda value: f"[{_joined(value)}]"),
    (tuple, _format_tuple),
    (type(None), str),
    (dict, _format_dict),
    (complex, format_complex),
    (torch.device, str),
    (torch.Generator, lambda value: "Generator"),
    (Future, lambda value: "Future"),
    (Awaitable, lambda value: "Await"),
)

_EXACT: dict[type, Callable[[Any], str]] = {
    kind: form for kind, form in _FORMS if kind in (str, int, float, list, tuple, type(None), dict)
}


@native("aten::str")
def to_string(value: Any) -> str:
    return normalized(format_value(value))


@native("aten::format")
def format_braces(template: str, *arguments: Any) -> str:
    """Replace every ``{}`` in turn; other braces are plain text, spare arguments are ignored."""
    if not isinstance(template, str):
        raise wrong_kind(template, str)
    head, *rest = template.split("{}")
    if len(rest) > len(arguments):
        raise ScriptError(f"Too few arguments for format string: {template}")
    for position, text in enumerate(rest):
        head += format_value(arguments[position]) + text
        check_bytes(len(head))
    return normalized(head)


@native("aten::percentFormat")
def format_percent(template: str, values: Any) -> str:
    """The % operator: conversions d i e E f F c s, without flags, width or precision.

    ``values`` is one value, or a tuple of as many as there are conversions.
    """
    if not isinstance(template, str):
        raise wrong_kind(template, str)
    pending = list(values) if isinstance(values, tuple) else [values]
    pending.reverse()
    head, *rest = encode(template).split(b"%")
    text = bytearray(head)
    position = 0
    while position < len(rest):
        piece = rest[position]
        if piece:
            if not pending:
                raise ScriptError("Too few arguments for format string")
            text += encode(_converted(decode(piece[:1]), pending.pop())) + piece[1:]
            check_bytes(len(text))
            position += 1
        elif position + 1 < len(rest):
            text += b"%" + rest[position + 1]
            position += 2
        else:
            raise ScriptError("Incomplete format specifier")
    if pending:
        raise ScriptError("Too many arguments for format string")
    return decode(bytes(text))


def _converted(key: str, value: Any) -> str:
    if key == "s":
        return format_value(value)
    if key == "c":
        return _character(value)
    if key in "di":
        number = _number(key, value)
        return str(number if isinstance(number, int) else _int32_of_float(number))
    if key in "eEfF":
        number = _number(key, value)
        single = float32_of_int(number) if isinstance(number, int) else float32(number)
        # C's fixed notation knows no upper case.
        return with_nan_sign(single, f"{single:.6{key.replace('F', 'f')}}")
    raise ScriptError(f"The specifier %{key} is not supported in TorchScript format strings")


def _int32_of_float(value: float) -> int:
    return int(value) if -(2.0**31) - 1 < value < 2.0**31 else -(2**31)


def _number(key: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise type_fault(f"%{key} requires a number for formatting, but got {_kind(value)}")


def _character(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return decode(bytes((value & 0xFF,)))
    if isinstance(value, str) and len(encode(value)) == 1:
        return value
    raise type_fault(f"%c requires an int or char for formatting, but got {_kind(value)}")


_KINDS: tuple[tuple[type, str], ...] = (
    (str, "String"),
    (bool, "Bool"),
    (int, "Int"),
    (float, "Double"),
    (complex, "ComplexDouble"),
    (torch.Tensor, "Tensor"),
    (list, "GenericList"),
    (tuple, "Tuple"),
    (dict, "GenericDict"),
    (torch.device, "Device"),
    (torch.Generator, "Generator"),
    (type(None), "None"),
)


def _kind(value: Any) -> str:
    """torch's name for the kind of a value."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "Object")
