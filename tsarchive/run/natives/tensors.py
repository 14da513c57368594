"""Operators on tensors that give no tensors, or take lists, numbers or any values.

Behind them stand the functions that TorchScript defines in its own language beside the operators.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import (
    LAYOUTS,
    NUMBERS,
    checked_int,
    dtype_of,
    scalar_type_name,
    to_dtype,
)
from tsarchive.run.natives.strings import encode
from tsarchive.run.natives.table import Native, check_items, check_kind, fault, native, wrong_kind
from tsarchive.run.natives.values import identity

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
    # The lengths of the first list of every depth.
    sizes, first = [len(data)], data
    while first and isinstance(first[0], list):
        first = first[0]
        sizes.append(len(first))
    initial = torch.get_default_dtype() if element == _FLOAT else _ELEMENT_TYPES.get(element)
    if initial is None:
        raise ScriptError(f"Input must be of ints, floats, or bools, got {element}")
    if 0 in sizes:
        tensor = torch.empty(sizes, dtype=initial, device=_HOST)
    else:
        _check_lengths(data, sizes, 0)
        tensor = torch.tensor(data, dtype=initial, device=_HOST)
    return tensor.to(device=device, dtype=to_dtype(dtype))


def _check_lengths(data: list[Any], sizes: list[int], depth: int) -> None:
    if len(data) != sizes[depth]:
        place = f"at dim {depth} (got {len(data)})"
        raise ScriptError(f"Expected sequence of length {sizes[depth]} {place}")
    if depth + 1 < len(sizes):
        for item in data:
            _check_lengths(item, sizes, depth + 1)


native("aten::as_tensor.list")(tensor_of_list)


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
    check_kind(tensor, torch.Tensor)
    expected = (torch.int64, torch.float32, torch.bool, torch.complex64)[element]
    dtype = tensor.dtype
    is_float = expected.is_floating_point and dtype.is_floating_point
    if dtype is not expected and not (is_float or (expected.is_complex and dtype.is_complex)):
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


def _checked_implicit(tensor: torch.Tensor) -> torch.Tensor:
    check_kind(tensor, torch.Tensor)
    if tensor.requires_grad:
        raise ScriptError("Cannot input a tensor that requires grad as a scalar argument")
    if tensor.dim() != 0:
        raise ScriptError("Cannot input a tensor of dimension other than 0 as a scalar argument")
    return tensor


@native("aten::IntImplicit")
def implicit_int(tensor: torch.Tensor) -> int:
    dtype = _checked_implicit(tensor).dtype
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.bool:
        kind = scalar_type_name(dtype)
        raise ScriptError(f"Cannot input a tensor of type {kind} as an integral argument")
    return int_of_tensor(tensor)


native("aten::FloatImplicit")(lambda tensor: float_of_tensor(_checked_implicit(tensor)))
native("aten::ComplexImplicit")(lambda tensor: complex(_checked_implicit(tensor).item()))
native("aten::ScalarImplicit")(lambda tensor: _checked_implicit(tensor).item())


_NUMBER_TYPES = {
    bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128,
}  # fmt: skip


@native("prim::NumToTensor.Scalar", "prim::NumToTensor.bool")
def tensor_of_number(value: complex) -> torch.Tensor:
    """A tensor without dimensions that holds ``value`` exactly: floats become float64."""
    return torch.scalar_tensor(value, dtype=_NUMBER_TYPES[type(value)], device="cpu")


# prim:: operators that are attributes in Python under the same name. Copies of this file in
# decompiled packages import nothing of the library, so the names stand here once more.
_ATTRIBUTES = (
    "data", "device", "grad", "is_cpu", "is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn",
    "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan",
    "is_xla", "is_xpu", "itemsize", "name", "nbytes", "requires_grad",
)  # fmt: skip
# aten:: operators that are methods in Python under the same name, arguments and result alike.
_METHODS = (
    "dim", "element_size", "is_complex", "is_contiguous", "is_floating_point", "item", "numel",
    "storage_offset",
)  # fmt: skip


def attribute(name: str, class_: type = torch.Tensor) -> Callable[[Any], Any]:
    """The function that gives an attribute of values of a class, and of no other values."""

    read = operator.attrgetter(name)

    def get(value: Any) -> Any:
        if not isinstance(value, class_):
            raise wrong_kind(value, class_)
        return read(value)

    return get


for _name in _ATTRIBUTES:
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


native("prim::dtype")(lambda tensor: NUMBERS[tensor.dtype])
native("prim::layout")(lambda tensor: LAYOUTS[tensor.layout])
native("aten::promote_types")(lambda a, b: NUMBERS[torch.promote_types(dtype_of(a), dtype_of(b))])
native("aten::can_cast")(lambda a, b: torch.can_cast(dtype_of(a), dtype_of(b)))
native("aten::result_type.Scalar_Scalar")(lambda a, b: NUMBERS[torch.result_type(a, b)])
native("aten::device", "aten::device.with_index")(torch.device)
native("prim::type")(attribute("type", torch.device))
native("prim::index")(attribute("index", torch.device))


@native("aten::broadcast_shapes")
def broadcast_shapes(a: list[int], b: list[int]) -> list[int]:
    """The common shape; lengths may be of any kind, negative ones included."""
    found: list[int] = []
    for x, y in itertools.zip_longest(reversed(a), reversed(b), fillvalue=1):
        if x != y and 1 not in (x, y):
            raise ScriptError(f"The size of tensor a ({x}) must match the size of tensor b ({y})")
        found.append(y if x == 1 else x)
    return found[::-1]


@native("aten::dequantize.any")
def dequantize(values: Any) -> Any:
    """The list or tuple with its tensors dequantized; other items of a tuple stay."""
    if isinstance(values, tuple):
        return tuple(
            torch.dequantize(item) if isinstance(item, torch.Tensor) else item for item in values
        )
    return [torch.dequantize(item) for item in values]


@native("aten::einsum.sublist")
def einsum(*arguments: Any) -> torch.Tensor:
    """einsum with subscripts as lists of numbers, one behind each operand.

    An odd number of arguments ends with the subscripts of the result.
    """
    operands, subscripts = list(arguments[:-1:2]), [_letters(s) for s in arguments[1::2]]
    result = f"->{_letters(arguments[-1])}" if len(arguments) % 2 else ""
    tensor: torch.Tensor = torch.ops.aten.einsum.default(",".join(subscripts) + result, operands)
    return tensor


def _letters(subscripts: list[int]) -> str:
    """The letters that stand for subscripts 0 to 51: A to Z, then a to z."""
    if not all(0 <= number < 52 for number in subscripts):
        raise ScriptError(
            f"einsum(): expected subscripts to be within the range [0, 52), but got {subscripts}"
        )
    return "".join(chr(65 + n) if n < 26 else chr(71 + n) for n in subscripts)


native("prim::VarConcat")(lambda *arguments: torch.cat(arguments[:-1], arguments[-1]))
native("prim::VarStack")(lambda *arguments: torch.stack(arguments[:-1], arguments[-1]))


OfNumberAndTensor = Callable[[complex, torch.Tensor], torch.Tensor]


def _swapped(function: Callable[[Any, Any], Any]) -> OfNumberAndTensor:
    return lambda a, b: function(b, a)


# Operators of a number and a tensor, by what they do to the tensor and the number.
_NUMBER_WITH_TENSOR: dict[str, OfNumberAndTensor] = {
    "mul": _swapped(torch.mul),
    "add": _swapped(torch.add),
    "ne": _swapped(torch.ne),
    "eq": _swapped(torch.eq),
    "sub": lambda a, b: torch.add(torch.neg(b), a),
    "div": lambda a, b: torch.mul(torch.reciprocal(b), a),
    "lt": _swapped(torch.gt),
    "le": _swapped(torch.ge),
    "gt": _swapped(torch.lt),
    "ge": _swapped(torch.le),
}


def _first_list(out_size: list[int], defaults: list[int]) -> list[int]:
    if len(defaults) <= len(out_size):
        raise fault(AssertionError, "")
    return out_size


def _assert_condition(condition: bool | torch.Tensor, message: str) -> None:
    if not bool(condition):
        raise fault(AssertionError, message)


BUILTINS: Mapping[str, Native] = {
    **{
        f"aten::{name}.builtin_{kind}_Tensor": function
        for kind in ("float", "int", "complex")
        for name, function in _NUMBER_WITH_TENSOR.items()
        if kind != "complex" or name not in ("lt", "le", "gt", "ge")
    },
    # A number where a list of fixed length is expected is repeated before the call.
    **{
        f"aten::{name}.builtin_{kind}": identity
        for kind in ("float", "int")
        for name in ("_single", "_pair", "_triple", "_quadruple")
    },
    **{f"prim::{name}.builtin": attribute(name) for name in ("T", "H", "mT", "mH")},
    "aten::floordiv.builtin_Scalar": torch.floor_divide,
    "aten::floordiv.builtin_Tensor": torch.floor_divide,
    "aten::_assert_int_or_pair.builtin": lambda *_: None,  # checks nothing
    "aten::list_with_default.builtin": _first_list,
    "aten::_assert.builtin_bool": _assert_condition,
    "aten::_assert.builtin_Tensor": _assert_condition,
    "aten::device.builtin": torch.device,
    "aten::type.builtin": lambda *arguments: torch.ops.aten.to.dtype(*arguments),
    "aten::__contains__.builtin_str": lambda string, key: encode(key) in encode(string),
    "prim::ndim.builtin": torch.Tensor.dim,
    "prim::shape.builtin": size,
}
"""The function for each schema of ``tsarchive/operators/overloads.py``, by its full name."""
