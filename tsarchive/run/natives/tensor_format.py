"""A tensor as torch's C++ stream prints it, values first, then type and sizes.

::

     1  2
     3  4
    [ CPUFloatType{2,2} ]

All values of a matrix share a width and a notation; a vector is one column. From three
dimensions on every matrix has a heading such as ``(1,.,.) =``, the leftmost index moving fastest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from tsarchive.run.natives.bounds import check_bytes
from tsarchive.run.natives.dtypes import scalar_type_name
from tsarchive.run.natives.number_format import with_nan_sign

_LINE_WIDTH = 80


class _Notation(NamedTuple):
    """How the values of one matrix or vector are printed, after division by ``scale``."""

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
    return f"{prefix}{_values(_as_doubles(tensor))}[ {_signature(tensor)}{_quantization(tensor)} ]"


def _as_doubles(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.is_mkldnn:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())[..., 0]
    return plain.to("cpu").to(torch.float64)


def _signature(tensor: torch.Tensor) -> str:
    return f"{_type_name(tensor)}{{{','.join(map(str, tensor.shape))}}}"


def _type_name(tensor: torch.Tensor) -> str:
    """Backend and element type: ``CPUFloatType``, ``QuantizedCPUQInt8Type``."""
    backend = tensor.device.type.upper()
    return f"{_storage_kind(tensor)}{backend}{scalar_type_name(tensor.dtype)}Type"


def _storage_kind(tensor: torch.Tensor) -> str:
    if tensor.is_sparse:
        return "Sparse"
    if tensor.is_quantized:
        return "Quantized"
    return "Mkldnn" if tensor.is_mkldnn else ""


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
    return "\n".join(_matrices(doubles))


def _shortest(value: float) -> str:
    """The fewest digits that give the same number back, a whole number without point."""
    return with_nan_sign(value, repr(value).removesuffix(".0"))


def _vector(values: list[float]) -> str:
    notation = _choose_notation(values)
    lines = [f"{_shortest(notation.scale)} *"] if notation.scale != 1 else []
    return "".join(f"{line}\n" for line in [*lines, *map(notation.text, values)])


def _matrices(doubles: torch.Tensor) -> Iterator[str]:
    leading = doubles.shape[:-2]
    for reversed_index in itertools.product(*map(range, reversed(leading))):
        index = reversed_index[::-1]
        heading = ",".join(str(i + 1) for i in index)
        yield f"({heading},.,.) = \n{_matrix(doubles[index].tolist(), indent=' ')}"


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
