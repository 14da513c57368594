"""Tensors of nested lists, and nested lists of tensors."""

from __future__ import annotations

from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.bounds import check_items
from tsarchive.run.natives.dtypes import scalar_type_name, to_dtype
from tsarchive.run.natives.faults import wrong_kind
from tsarchive.run.natives.table import native

_ELEMENT_TYPES = {"int": torch.int64, "bool": torch.bool}
_FLOAT = "float"
_HOST = torch.device("cpu")  # whatever the default device of Python is


def tensor_of_list(
    data: list[Any], dtype: int | None, device: torch.device | None, element: str = _FLOAT
) -> torch.Tensor:
    """The tensor of a list, nested to any depth, of ints, floats or bools.

    ``element`` is the name of the static type of its elements, which decides as it does in torch:
    an int and a float in a list of unions make no tensor. Floats are stored in the default dtype
    first and then converted to ``dtype``.
    Raises ScriptError for other elements and where lists of one depth differ in length.
    """
    sizes, initial = _measure(data), _initial_dtype(element)
    if 0 in sizes:
        tensor = torch.empty(sizes, dtype=initial, device=_HOST)
    else:
        _check_lengths(data, sizes, 0)
        tensor = torch.tensor(data, dtype=initial, device=_HOST)
    return tensor.to(device=device, dtype=to_dtype(dtype))


def _initial_dtype(element: str) -> torch.dtype:
    if element == _FLOAT:
        return torch.get_default_dtype()
    if element not in _ELEMENT_TYPES:
        raise ScriptError(f"Input must be of ints, floats, or bools, got {element}")
    return _ELEMENT_TYPES[element]


def _measure(data: list[Any]) -> list[int]:
    """The lengths of the first list of every depth."""
    sizes = [len(data)]
    while data and isinstance(data[0], list):
        data = data[0]
        sizes.append(len(data))
    return sizes


def _check_lengths(data: list[Any], sizes: list[int], depth: int) -> None:
    if len(data) != sizes[depth]:
        raise ScriptError(
            f"Expected sequence of length {sizes[depth]} at dim {depth} (got {len(data)})"
        )
    if depth + 1 < len(sizes):
        for item in data:
            _check_lengths(item, sizes, depth + 1)


@native("aten::as_tensor.list")
def as_tensor_of_list(
    data: list[Any],
    *,
    dtype: int | None,
    device: torch.device | None,
    element: str = _FLOAT,
) -> torch.Tensor:
    return tensor_of_list(data, dtype, device, element)


@native("aten::tensor")
def new_tensor_of_list(
    data: list[Any],
    *,
    dtype: int | None,
    device: torch.device | None,
    requires_grad: bool,
    element: str = _FLOAT,
) -> torch.Tensor:
    return tensor_of_list(data, dtype, device, element).requires_grad_(requires_grad)


@native("prim::tolist")
def to_list(tensor: torch.Tensor, depth: int, element: int) -> Any:
    """The elements as lists nested ``depth`` deep, a bare number for 0.

    ``element`` numbers the declared type: 0 int, 1 float, 2 bool, 3 complex. Only float and
    complex take tensors of another precision.
    """
    if not isinstance(tensor, torch.Tensor):
        raise wrong_kind(tensor, torch.Tensor)
    expected = (torch.int64, torch.float32, torch.bool, torch.complex64)[element]
    dtype = tensor.dtype
    same_kind = (expected.is_floating_point and dtype.is_floating_point) or (
        expected.is_complex and dtype.is_complex
    )
    if dtype is not expected and not same_kind:
        raise ScriptError(
            "Output annotation element type and runtime tensor element type must match for "
            f"tolist(): {scalar_type_name(expected)} vs {scalar_type_name(dtype)}"
        )
    if tensor.dim() != depth:
        raise ScriptError(
            "Output annotation list dimension and runtime tensor dimension must match for tolist()"
        )
    check_items(tensor.numel())
    return tensor.tolist()
