"""The number that a tensor of one element holds, and the tensor of a number."""

from __future__ import annotations

from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import checked_int
from tsarchive.run.natives.dtypes import scalar_type_name
from tsarchive.run.natives.faults import wrong_kind
from tsarchive.run.natives.table import native

__all__: list[str] = []

native("aten::Bool.Tensor")(bool)


def _only_item(tensor: torch.Tensor) -> Any:
    if not isinstance(tensor, torch.Tensor):
        raise wrong_kind(tensor, torch.Tensor)
    return tensor.item()


@native("aten::Int.Tensor")
def int_of_tensor(tensor: torch.Tensor) -> int:
    """The only element, towards zero; it must fit."""
    value = _only_item(tensor)
    if isinstance(value, (float, complex)):
        return checked_int(value, 64, "int64_t")
    return int(value) if isinstance(value, bool) else value


@native("aten::Float.Tensor")
def float_of_tensor(tensor: torch.Tensor) -> float:
    value: complex = _only_item(tensor)
    if value.imag != 0:
        raise ScriptError("value cannot be converted to type double without overflow")
    return float(value.real)


def _check_implicit(tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise wrong_kind(tensor, torch.Tensor)
    if tensor.requires_grad:
        raise ScriptError("Cannot input a tensor that requires grad as a scalar argument")
    if tensor.dim() != 0:
        raise ScriptError("Cannot input a tensor of dimension other than 0 as a scalar argument")


@native("aten::IntImplicit")
def implicit_int(tensor: torch.Tensor) -> int:
    _check_implicit(tensor)
    dtype = tensor.dtype
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.bool:
        kind = scalar_type_name(dtype)
        raise ScriptError(f"Cannot input a tensor of type {kind} as an integral argument")
    return int_of_tensor(tensor)


@native("aten::FloatImplicit")
def implicit_float(tensor: torch.Tensor) -> float:
    _check_implicit(tensor)
    return float_of_tensor(tensor)


@native("aten::ComplexImplicit")
def implicit_complex(tensor: torch.Tensor) -> complex:
    _check_implicit(tensor)
    return complex(_only_item(tensor))


@native("aten::ScalarImplicit")
def implicit_scalar(tensor: torch.Tensor) -> complex:
    _check_implicit(tensor)
    value: complex = _only_item(tensor)
    return value


_NUMBER_TYPES = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}


@native("prim::NumToTensor.Scalar", "prim::NumToTensor.bool")
def tensor_of_number(value: complex) -> torch.Tensor:
    """A tensor without dimensions that holds ``value`` exactly: floats become float64."""
    return torch.scalar_tensor(value, dtype=_NUMBER_TYPES[type(value)], device="cpu")
