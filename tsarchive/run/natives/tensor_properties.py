"""Properties of tensors, element types and devices."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.dtypes import LAYOUTS, NUMBERS, dtype_of
from tsarchive.run.natives.faults import wrong_kind
from tsarchive.run.natives.table import native

# prim:: operators of one tensor that are attributes in Python under the same name.
ATTRIBUTES = (
    "data",
    "device",
    "grad",
    "is_cpu",
    "is_cuda",
    "is_ipu",
    "is_maia",
    "is_meta",
    "is_mkldnn",
    "is_mps",
    "is_mtia",
    "is_nested",
    "is_quantized",
    "is_sparse",
    "is_sparse_csr",
    "is_vulkan",
    "is_xla",
    "is_xpu",
    "itemsize",
    "name",
    "nbytes",
    "requires_grad",
)
# aten:: operators that are methods in Python under the same name, arguments and result alike.
_METHODS = (
    "dim",
    "element_size",
    "is_complex",
    "is_contiguous",
    "is_floating_point",
    "item",
    "numel",
    "storage_offset",
)


def attribute(name: str, class_: type = torch.Tensor) -> Callable[[Any], Any]:
    """The function that gives an attribute of values of a class, and of no other values."""

    read = operator.attrgetter(name)

    def get(value: Any) -> Any:
        if not isinstance(value, class_):
            raise wrong_kind(value, class_)
        return read(value)

    return get


for _name in ATTRIBUTES:
    native(f"prim::{_name}")(attribute(_name))
for _name in _METHODS:
    native(f"aten::{_name}")(getattr(torch.Tensor, _name))

native("aten::size.int")(torch.Tensor.size)
native("aten::stride.int")(torch.Tensor.stride)


@native("aten::size")
def size(tensor: torch.Tensor) -> list[int]:
    if not isinstance(tensor, torch.Tensor):
        raise wrong_kind(tensor, torch.Tensor)
    return list(tensor.shape)


@native("aten::stride")
def stride(tensor: torch.Tensor) -> list[int]:
    if not isinstance(tensor, torch.Tensor):
        raise wrong_kind(tensor, torch.Tensor)
    return list(tensor.stride())


@native("aten::len.Tensor")
def length(tensor: torch.Tensor) -> int:
    if not isinstance(tensor, torch.Tensor):
        raise wrong_kind(tensor, torch.Tensor)
    if tensor.dim() == 0:
        raise ScriptError("len() of a 0-d tensor")
    return tensor.shape[0]


@native("prim::dtype")
def dtype_number(tensor: torch.Tensor) -> int:
    return NUMBERS[tensor.dtype]


@native("prim::layout")
def layout_number(tensor: torch.Tensor) -> int:
    return LAYOUTS[tensor.layout]


@native("aten::promote_types")
def promote_types(a: int, b: int) -> int:
    return NUMBERS[torch.promote_types(dtype_of(a), dtype_of(b))]


@native("aten::can_cast")
def can_cast(source: int, target: int) -> bool:
    return torch.can_cast(dtype_of(source), dtype_of(target))


@native("aten::result_type.Scalar_Scalar")
def result_type(a: complex, b: complex) -> int:
    return NUMBERS[torch.result_type(a, b)]


@native("aten::broadcast_shapes")
def broadcast_shapes(a: list[int], b: list[int]) -> list[int]:
    """The common shape; lengths may be of any kind, negative ones included."""
    pairs = itertools.zip_longest(reversed(a), reversed(b), fillvalue=1)
    return [_broadcast_length(x, y) for x, y in pairs][::-1]


def _broadcast_length(a: int, b: int) -> int:
    if a != b and 1 not in (a, b):
        raise ScriptError(f"The size of tensor a ({a}) must match the size of tensor b ({b})")
    return b if a == 1 else a


@native("aten::device")
def device(text: str) -> torch.device:
    return torch.device(text)


@native("aten::device.with_index")
def device_with_index(kind: str, index: int) -> torch.device:
    return torch.device(kind, index)


native("prim::type")(attribute("type", torch.device))
native("prim::index")(attribute("index", torch.device))
