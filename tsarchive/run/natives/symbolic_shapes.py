"""Operators on numbers whose value is a symbol while torch.export or torch.compile traces.

Symbols are not compared with the range of 64 bits, and not turned into numbers: either would
become a condition on the shapes that the exported program takes. torch.compile shows symbols and
numbers alike, so there nothing wraps.

Code of torch.jit.trace computes with sizes as tensors without dimensions, and takes the numbers
out again. A tracer does not know the values of its tensors, so here the number goes along with the
tensor as an attribute, and is taken where code asks for it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MethodDescriptorType
from typing import Any, Final

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.run.natives.conversions import to_dtype
from tsarchive.run.natives.numbers import MIXED
from tsarchive.run.natives.table import NATIVES, Native, overload, wrong_kind
from tsarchive.run.natives.tensors import attribute

_HELD: Final = "_tsarchive_number"
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool, torch.Tensor)
_INTEGERS = (int, torch.SymInt)
_FLOATS = (float, torch.SymFloat)
# Not annotated in torch.
_sym_float: Any = torch.sym_float
_sym_int: Any = torch.sym_int


def holding(tensor: torch.Tensor, number: Any) -> torch.Tensor:
    """``tensor``, known to hold ``number`` until it is written to."""
    setattr(tensor, _HELD, (number, _version(tensor)))
    return tensor


def held_number(tensor: torch.Tensor) -> Any:
    """The number that a tensor is known to hold; None where nothing is known."""
    number, version = getattr(tensor, _HELD, (None, None))
    return number if number is not None and version == _version(tensor) else None


def _version(tensor: torch.Tensor) -> int:
    """Return the number of writes to the tensor, which torch.compile could not compare."""
    return 0 if torch.compiler.is_dynamo_compiling() else tensor._version


def _divide(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return a / b
    return a // b if rounding_mode == "floor" else _truncating_divide(a, b)


def _truncating_divide(a: int, b: int) -> int:
    return a // b if (a < 0) == (b < 0) else -(abs(a) // abs(b))


def _to_dtype(a: Any, dtype: int, *_: Any, **__: Any) -> Any:
    kind = to_dtype(dtype)
    return (_sym_float if kind is not None and kind.is_floating_point else _sym_int)(a)


def _following(key: str, operation: Callable[..., Any]) -> Native:
    """The operator ``key``, which does to known numbers what it does to tensors."""
    run = overload(key)

    def call(*arguments: Any, **keywords: Any) -> Any:
        result = run(*arguments, **keywords)
        numbers = [
            held_number(argument) if isinstance(argument, torch.Tensor) else argument
            for argument in arguments
        ]
        if isinstance(result, torch.Tensor) and None not in numbers[:2]:
            holding(result, operation(*numbers, **keywords))
        return result

    return call


def _forgetting(key: str) -> Native:
    """The operator ``key``, which writes to its first argument."""
    run = overload(key)

    def call(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        result = run(tensor, *arguments, **keywords)
        if held_number(tensor) is not None:
            holding(tensor, None)
        return result

    return call


# By the name of the operator, or its full name for those with one overload here.
_ON_SIZES: Final[dict[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "aten::add": (lambda a, b, alpha=1: a + b * alpha, (".Tensor", ".Scalar")),
    "aten::sub": (lambda a, b, alpha=1: a - b * alpha, (".Tensor", ".Scalar")),
    "aten::mul": (operator.mul, (".Tensor", ".Scalar")),
    "aten::div": (_divide, (".Tensor", ".Scalar", ".Tensor_mode", ".Scalar_mode")),
    "aten::floor_divide": (operator.floordiv, ("", ".Scalar")),
    "aten::remainder": (operator.mod, (".Tensor", ".Scalar")),
    "aten::neg": (operator.neg, ("",)),
    "aten::floor": (lambda a: _sym_float(math.floor(a)), ("",)),
    "aten::detach": (lambda a: a, ("",)),
    "aten::clone": (lambda a, **_: a, ("",)),
    "aten::to": (_to_dtype, (".dtype",)),
}
_WRITING: Final = tuple(
    f"aten::{name}_.{kind}"
    for name in ("add", "sub", "mul", "div", "floor_divide", "remainder", "fill")
    for kind in ("Tensor", "Scalar")
)
SIZE_ARITHMETIC: Final[Mapping[str, Native]] = {
    **{
        name + kind: _following(name + kind, operation)
        for name, (operation, kinds) in _ON_SIZES.items()
        for kind in kinds
    },
    **{key: _forgetting(key) for key in (*_WRITING, "aten::copy_", "aten::zero_")},
}
"""Operators of torch that follow numbers, by key, for code that is traced."""


def _where_symbolic(operation: Native, native: Native) -> Native:
    """``operation`` for symbols and tensors of them, ``native`` for numbers."""

    def call(*arguments: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return operation(*arguments)
        has_symbols = any(isinstance(argument, _SYMBOLS) for argument in arguments)
        return (operation if has_symbols else native)(*arguments)

    return call


def _as_floats(operation: Callable[[Any, Any], Any]) -> Native:
    """``operation`` on floats, as C converts an int that stands beside a float."""
    return lambda a, b: operation(_sym_float(a), _sym_float(b))


def _on_scalars(operation: Callable[[Any, Any], Any]) -> Native:
    on_floats = _as_floats(operation)

    def call(a: Any, b: Any) -> Any:
        are_integers = isinstance(a, _INTEGERS) and isinstance(b, _INTEGERS)
        return operation(a, b) if are_integers else on_floats(a, b)

    return call


def _extreme(of_numbers: Callable[..., Any], of_symbols: Callable[..., Any]) -> Native:
    """Tracers refuse functions of torch that give a number."""

    def call(a: Any, b: Any) -> Any:
        are_integers = type(a) is int and type(b) is int
        return of_numbers(a, b) if are_integers else of_symbols(a, b)

    return call


def _range_length(low: int, high: int, step: int) -> int:
    distance = high - low if step > 0 else low - high
    return 1 + (distance - 1) // abs(step) if distance > 0 else 0


def _total(values: list[int]) -> int:
    total = 0
    for value in values:
        total += value
    return total


def _square_root(a: Any) -> Any:
    return math.sqrt(a) if isinstance(a, (int, float)) else _sym_float(a) ** 0.5


def _tensor_of_number(value: Any) -> torch.Tensor:
    dtype = torch.int64 if isinstance(value, _INTEGERS) else torch.float64
    made = torch.scalar_tensor(value, dtype=torch.bool if isinstance(value, bool) else dtype)
    return holding(made, value)


def _number_in(tensor: torch.Tensor) -> Any:
    number = held_number(tensor)
    return tensor.item() if number is None else number


def _integer_in(tensor: torch.Tensor) -> Any:
    """The only element as a number or a symbol, towards zero."""
    value = _number_in(tensor)
    return _sym_int(value) if isinstance(value, _FLOATS) else value


def _float_in(tensor: torch.Tensor) -> Any:
    return _sym_float(_number_in(tensor))


def _new_tensor(
    value: Any,
    *,
    dtype: int | None = None,
    device: torch.device | None = None,
    requires_grad: bool = False,
) -> torch.Tensor:
    kind = torch.get_default_dtype() if isinstance(value, _FLOATS) else torch.int64
    made = torch.scalar_tensor(value, dtype=to_dtype(dtype) or kind, device=device)
    return made.requires_grad_(requires_grad)


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::div": operator.truediv,
    "aten::remainder": operator.mod,
    **{f"aten::{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "prim::min": _extreme(min, torch.sym_min),
    "prim::max": _extreme(max, torch.sym_max),
}
_OTHERS: Final[dict[str, Native]] = {
    "aten::neg.int": operator.neg,
    "prim::abs.int": abs,
    "aten::floordiv.int": operator.floordiv,
    "aten::floordiv.float": lambda a, b: _sym_float(math.floor(a / b)),
    "aten::__round_to_zero_floordiv.int": _truncating_divide,
    "aten::divmod.int": lambda a, b: (a // b, a % b),
    "aten::pow.float": operator.pow,
    **{f"aten::pow.{kind}": _as_floats(operator.pow) for kind in ("int", *MIXED)},
    **{f"aten::sqrt.{kind}": _square_root for kind in ("int", "float")},
    "aten::floor.int": lambda a: a,
    "aten::ceil.int": lambda a: a,
    "aten::floor.float": math.floor,
    "aten::ceil.float": math.ceil,
    **dict.fromkeys(
        ("aten::round.int", "aten::round.float"), lambda a: _sym_float(round(_sym_float(a)))
    ),
    "aten::Float.int": torch.sym_float,
    "aten::Float.Scalar": torch.sym_float,
    "aten::Int.float": torch.sym_int,
    "aten::Int.Scalar": torch.sym_int,
    "aten::__range_length": _range_length,
    "aten::__derive_index": lambda index, start, step: start + index * step,
    "aten::Int.Tensor": _integer_in,
    "aten::Float.Tensor": _float_in,
    "aten::IntImplicit": _integer_in,
    "aten::FloatImplicit": _float_in,
    "aten::ScalarImplicit": _number_in,
}


# Dimensions of formats with channels last, the innermost first, by the numbers of these.
_CHANNELS_LAST: Final = {2: (1, 3, 2, 0), 3: (1, 4, 3, 2, 0)}


def _is_like_format(tensor: torch.Tensor, format_: int) -> bool:
    """Compare strides as c10/core/MemoryFormat.h does: what is ambiguous has channels first."""
    order = _CHANNELS_LAST.get(format_, ())
    if tensor.dim() != len(order) or not order or tensor.stride(1) == 0:
        return False
    reach = 0
    for dimension in order:
        size, stride = tensor.size(dimension), tensor.stride(dimension)
        if size == 0 or stride < reach or (dimension == 0 and reach == tensor.stride(1)):
            return False
        reach = stride * size if size > 1 else stride
    return True


# Operators that give no tensor, under the names by which torch.compile knows them.
_QUESTIONS: Final[dict[str, Native]] = {
    "aten::is_autocast_enabled": torch.is_autocast_enabled,
    "aten::is_autocast_cpu_enabled": lambda: torch.is_autocast_enabled("cpu"),
    "aten::is_leaf": attribute("is_leaf"),
    "aten::is_conj": torch.Tensor.is_conj,
    "aten::is_neg": torch.Tensor.is_neg,
    "aten::is_signed": torch.Tensor.is_signed,
    "aten::is_inference": torch.Tensor.is_inference,
    "aten::is_same_size": torch.Tensor.is_same_size,
    "aten::is_strides_like_format": _is_like_format,
}


def _add_relu(self: torch.Tensor, other: Any, alpha: complex = 1) -> torch.Tensor:
    return torch.relu(torch.add(self, other, alpha=alpha))


def _add_relu_(self: torch.Tensor, other: Any, alpha: complex = 1) -> torch.Tensor:
    return torch.relu_(self.add_(other, alpha=alpha))


def _random_from(
    self: torch.Tensor, from_: int, to: int | None, *, generator: Any = None
) -> torch.Tensor:
    """Random integers: torch draws them from 0 on and adds; programs have no operator ``from``."""
    return _random_from_(torch.empty_like(self), from_, to, generator=generator)


def _random_from_(
    self: torch.Tensor, from_: int, to: int | None, *, generator: Any = None
) -> torch.Tensor:
    if to is None:
        raise UnsupportedError(
            "random integers without an upper bound have no form in a program of torch.export",
            hint="Give random_ the bound in the model that the archive was made from",
        )
    return self.random_(to - from_, generator=generator).add_(from_)


# Programs of torch.export may hold these, and no backend takes them apart.
_FUSED: Final[dict[str, Native]] = {
    f"aten::{native.__name__}.{kind}": native
    for native in (_add_relu, _add_relu_)
    for kind in ("Tensor", "Scalar")
}


def _rows() -> dict[str, Native]:
    rows = dict(_OTHERS)
    for name, operation in _ARITHMETIC.items():
        rows |= {f"{name}.int": operation, f"{name}.float": operation}
        rows |= {f"{name}.{kinds}": _as_floats(operation) for kinds in MIXED}
        rows[name] = _on_scalars(operation)
    made = {
        key: _where_symbolic(operation, NATIVES[key])
        for key, operation in rows.items()
        if key in NATIVES
    }
    # The natives of these are callables that torch.compile does not look into.
    made |= {
        key: _method(native)
        for key, native in NATIVES.items()
        if isinstance(native, MethodDescriptorType)
    }
    made["prim::NumToTensor.Scalar"] = _tensor_of_number
    made |= {f"aten::tensor.{kind}": _new_tensor for kind in ("int", "float")}
    drawn = {"aten::random.from": _random_from, "aten::random_.from": _random_from_}
    return {**SIZE_ARITHMETIC, **made, **_QUESTIONS, **_FUSED, **drawn, "aten::sum.int": _total}


def _method(native: MethodDescriptorType) -> Native:
    name, owner = native.__name__, native.__objclass__
    class_ = torch.Tensor if issubclass(torch.Tensor, owner) else owner

    def call(value: Any, *arguments: Any) -> Any:
        if not isinstance(value, class_):
            raise wrong_kind(value, class_)
        return getattr(value, name)(*arguments)

    return call


SYMBOLIC: Final[Mapping[str, Native]] = _rows()
"""Replacements for the natives of the same keys while code is traced."""
