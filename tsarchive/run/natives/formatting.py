"""str() of values, format() and the % operator, as torch's C++ streams print.

A tensor shows its values first, then type and sizes::

     1  2
     3  4
    [ CPUFloatType{2,2} ]

All values of a matrix share a width and a notation; a vector is one column. From three
dimensions on every matrix has a heading such as ``(1,.,.) =``, the leftmost index moving fastest.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import (
    float32,
    float32_of_int,
    format_complex,
    format_float,
    scalar_type_name,
    with_nan_sign,
)
from tsarchive.run.natives.futures import Awaitable, Future
from tsarchive.run.natives.strings import decode, encode, normalized
from tsarchive.run.natives.table import check_bytes, check_kind, fault, native

_LINE_WIDTH = 80


class _Notation(NamedTuple):
    """The format of the values of one matrix or vector, after division by ``scale``."""

    width: int
    spec: str
    scale: float = 1.0

    def text(self, value: float) -> str:
        scaled = value / self.scale
        return with_nan_sign(scaled, f"{scaled:{self.spec}}").rjust(self.width)


def format_tensor(tensor: torch.Tensor) -> str:
    """The text of ``tensor``. Complex values show their real part only, as in torch."""
    check_bytes(tensor.numel())
    if tensor.is_sparse:
        return _sparse(tensor)
    prefix = "MKLDNN Tensor: " if tensor.is_mkldnn else ""
    sizes = ",".join(map(str, tensor.shape))
    signature = f"{_type_name(tensor)}{{{sizes}}}{_quantization(tensor)}"
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.is_mkldnn:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())[..., 0]
    return f"{prefix}{_values(plain.to('cpu').to(torch.float64))}[ {signature} ]"


def _type_name(tensor: torch.Tensor) -> str:
    """Backend and element type: ``CPUFloatType``, ``QuantizedCPUQInt8Type``."""
    kinds = {"Sparse": "is_sparse", "Quantized": "is_quantized", "Mkldnn": "is_mkldnn"}
    kind = next((kind for kind, test in kinds.items() if getattr(tensor, test)), "")
    return f"{kind}{tensor.device.type.upper()}{scalar_type_name(tensor.dtype)}Type"


def _sparse(tensor: torch.Tensor) -> str:
    plain = tensor.detach()
    return (
        f"[ {_type_name(tensor)}{{}}\n"
        f"indices:\n{format_tensor(plain._indices())}\n"
        f"values:\n{format_tensor(plain._values())}\n"
        f"size:\n{list(tensor.shape)}\n]"
    )


def _quantization(tensor: torch.Tensor) -> str:
    if not tensor.is_quantized:
        return ""
    scheme = str(tensor.qscheme()).removeprefix("torch.")
    text = f", qscheme: {scheme}"
    if scheme == "per_tensor_affine":
        return f"{text}, scale: {_shortest(tensor.q_scale())}, zero_point: {tensor.q_zero_point()}"
    scales = format_tensor(tensor.q_per_channel_scales())
    zero_points = format_tensor(tensor.q_per_channel_zero_points())
    axis = tensor.q_per_channel_axis()
    return f"{text}, scales: {scales}, zero_points: {zero_points}, axis: {axis}"


def _values(doubles: torch.Tensor) -> str:
    if doubles.dim() == 0:
        return f"{_shortest(doubles.item())}\n"
    if doubles.numel() == 0:
        return ""
    if doubles.dim() == 1:
        return _vector(doubles.tolist())
    if doubles.dim() == 2:
        return _matrix(doubles.tolist(), indent="")
    blocks: list[str] = []
    for reversed_index in itertools.product(*map(range, reversed(doubles.shape[:-2]))):
        index = reversed_index[::-1]
        heading = ",".join(str(i + 1) for i in index)
        blocks.append(f"({heading},.,.) = \n{_matrix(doubles[index].tolist(), indent=' ')}")
    return "\n".join(blocks)


def _shortest(value: float) -> str:
    """The fewest digits that give the same number back, a whole number without point."""
    return with_nan_sign(value, repr(value).removesuffix(".0"))


def _vector(values: list[float]) -> str:
    notation = _choose_notation(values)
    lines = [f"{_shortest(notation.scale)} *"] if notation.scale != 1 else []
    return "".join(f"{line}\n" for line in [*lines, *map(notation.text, values)])


def _matrix(rows: list[list[float]], indent: str) -> str:
    """The rows, in blocks of columns where they are wider than a line.

    The indent stands before every row but the first of a block, which it precedes only behind a
    heading or a scale.
    """
    notation = _choose_notation([value for row in rows for value in row])
    columns = len(rows[0])
    per_line = (_LINE_WIDTH - len(indent)) // (notation.width + 1)
    separator = f"{indent} " if notation.scale != 1 else indent
    blocks = []
    for first in range(0, columns, per_line):
        last = min(first + per_line, columns)
        heading = f"Columns {first + 1} to {last}{indent}" if per_line < columns else ""
        if notation.scale != 1:
            heading += f"{_shortest(notation.scale)} *\n{indent}"
        lines = [" ".join(map(notation.text, row[first:last])) + "\n" for row in rows]
        blocks.append(heading + separator.join(lines))
    return "\n".join(blocks)


def _choose_notation(values: list[float]) -> _Notation:
    """Plain, scientific or fixed with four digits, by the number of digits before the point."""
    finite = [abs(value) for value in values if math.isfinite(value)]
    smallest, largest = _digits(min(finite, default=None)), _digits(max(finite, default=None))
    if all(value == math.ceil(value) for value in finite):
        return _Notation(11, ".4e") if largest > 9 else _Notation(largest + 1, "g")
    if largest - smallest > 4:
        return _Notation(12 if abs(largest) > 99 or abs(smallest) > 99 else 11, ".4e")
    if largest > 5 or largest < 0:
        return _Notation(7, ".4f", math.pow(10, largest - 1))
    return _Notation(largest + 6 if largest else 7, ".4f")


def _digits(value: float | None) -> int:
    """The decimal digits before the point, not positive below 0.1; 1 where there is no value."""
    return math.floor(math.log10(value)) + 1 if value else 1


def format_value(value: Any) -> str:
    """``value`` as ``str()`` and ``print()`` of TorchScript show it, strings without quotes."""
    exact = _EXACT.get(type(value))
    if exact is not None:
        return exact(value)
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value)
    return f"<{type(value).__module__}.{type(value).__qualname__} object at {id(value):#x}>"


def _joined(items: Iterable[Any], show: Callable[[Any], str] = format_value) -> str:
    """Return the items as one text. A list that holds another often makes far more than it is."""
    kept: list[str] = []
    size = 0
    for item in items:
        kept.append(show(item))
        size += len(kept[-1]) + len(", ")
        check_bytes(size)
    return ", ".join(kept)


def _format_pair(pair: tuple[Any, Any]) -> str:
    return ": ".join(map(format_value, pair))


# In this order: an enum may also be an int, a bool always is one.
_FORMS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (enum.Enum, lambda value: f"Enum<{type(value).__name__}.{value.name}>"),
    (str, str),
    (int, str),
    (float, format_float),
    (torch.Tensor, format_tensor),
    (list, lambda value: f"[{_joined(value)}]"),
    (tuple, lambda value: f"({_joined(value)}{',' if len(value) == 1 else ''})"),
    (type(None), str),
    (dict, lambda value: f"{{{_joined(value.items(), _format_pair)}}}"),
    (complex, format_complex),
    (torch.device, str),
    (torch.Generator, lambda value: "Generator"),
    (Future, lambda value: "Future"),
    (Awaitable, lambda value: "Await"),
)

_EXACT: dict[type, Callable[[Any], str]] = {
    kind: form for kind, form in _FORMS if kind in (str, int, float, list, tuple, type(None), dict)
}


native("aten::str")(lambda value: normalized(format_value(value)))


@native("aten::format")
def format_braces(template: str, *arguments: Any) -> str:
    """Replace every ``{}`` in turn; other braces are plain text, spare arguments are ignored."""
    check_kind(template, str)
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
    check_kind(template, str)
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
        if isinstance(number, float):
            number = int(number) if -(2.0**31) - 1 < number < 2.0**31 else -(2**31)
        return str(number)
    if key in "eEfF":
        number = _number(key, value)
        single = float32_of_int(number) if isinstance(number, int) else float32(number)
        # C's fixed notation knows no upper case.
        return with_nan_sign(single, f"{single:.6{key.replace('F', 'f')}}")
    raise ScriptError(f"The specifier %{key} is not supported in TorchScript format strings")


def _number(key: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise fault(TypeError, f"%{key} requires a number for formatting, but got {_kind(value)}")


def _character(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return decode(bytes((value & 0xFF,)))
    if isinstance(value, str) and len(encode(value)) == 1:
        return value
    raise fault(TypeError, f"%c requires an int or char for formatting, but got {_kind(value)}")


_KINDS: tuple[tuple[type, str], ...] = (
    (str, "String"), (bool, "Bool"), (int, "Int"), (float, "Double"), (complex, "ComplexDouble"),
    (torch.Tensor, "Tensor"), (list, "GenericList"), (tuple, "Tuple"), (dict, "GenericDict"),
    (torch.device, "Device"), (torch.Generator, "Generator"), (type(None), "None"),
)  # fmt: skip


def _kind(value: Any) -> str:
    """torch's name for the kind of a value."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "Object")
