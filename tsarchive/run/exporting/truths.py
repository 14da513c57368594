"""Bools that only tensors tell, as values of code that is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from tsarchive.errors import UnsupportedError
from tsarchive.run.natives.symbolic_shapes import held_number
from tsarchive.run.operators import find_native
from tsarchive.run.tracebacks import calling_place

if TYPE_CHECKING:
    from tsarchive.ir.schema import FunctionSchema
    from tsarchive.run.operators import Implementation as Run


class Truth:
    """A bool that the program knows when it runs: the only element of a tensor of bools."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __bool__(self) -> bool:
        place = calling_place()
        raise UnsupportedError(
            "the value of a tensor decides" + (f" at {place}" if place else ""),
            hint="With the argument specialize, the program is that of the example, and asserts "
            "what the values of tensors decide",
        )

    def symbol(self) -> Any:
        """The bool as a symbol of the tracer."""
        return self.tensor.item()


def truth_of(schema: FunctionSchema, given: Any, named: Any) -> Any:
    """The bool that an operator takes out of tensors; None where it takes none, or knows it."""
    make = _TAKING.get(schema.full_name)
    return None if make is None else make(*given, **named)


def _of_element(tensor: Tensor) -> Truth | None:
    is_known = held_number(tensor) is not None or getattr(tensor, "constant", None) is not None
    if is_known or any(size != 1 for size in tensor.size()):
        return None
    return Truth(tensor.ne(0).reshape(()))


def _of_equal(one: Tensor, two: Tensor) -> Truth | bool:
    return tuple(one.size()) == tuple(two.size()) and Truth((one == two).all())


def _of_close(one: Tensor, two: Tensor, *rest: Any, **named: Any) -> Truth:
    return Truth(torch.isclose(one, two, *rest, **named).all())


_TAKING: Final[Mapping[str, Callable[..., Any]]] = {
    "aten::Bool.Tensor": _of_element,
    "aten::is_nonzero": _of_element,
    "aten::equal": _of_equal,
    "aten::allclose": _of_close,
}
_COMBINING: Final[Mapping[str, Callable[..., Tensor]]] = {
    "aten::__not__": torch.logical_not,
    "aten::__and__": torch.logical_and,
    "aten::__or__": torch.logical_or,
    "aten::__xor__": torch.logical_xor,
    "aten::eq": torch.eq,
    "aten::ne": torch.ne,
}


def on_truths(schema: FunctionSchema, run: Run, given: Any, named: Any) -> Any:
    """An operator with such bools among its arguments."""
    combine = _COMBINING.get(schema.name)
    if combine is not None and all(kind_of(value) is bool for value in given):
        return Truth(combine(*(as_tensor(value, bool) for value in given)))
    if schema.name in ("aten::Int", "aten::Float"):
        kind = torch.int64 if schema.name == "aten::Int" else torch.float64
        return given[0].tensor.to(kind).item()
    if schema.name == "prim::NumToTensor":
        return given[0].tensor.clone()
    if find_native(schema) is not None and any(isinstance(v, (list, dict)) for v in given):
        return run(*given, **named)
    symbols = {name: _symbol(value) for name, value in named.items()}
    return run(*map(_symbol, given), **symbols)


def _symbol(value: Any) -> Any:
    return value.symbol() if isinstance(value, Truth) else value


_KINDS: Final = {
    Tensor: Tensor, Truth: bool, bool: bool, torch.SymBool: bool, int: int, torch.SymInt: int,
    float: float, torch.SymFloat: float,
}  # fmt: skip
_DTYPES: Final = {bool: torch.bool, int: torch.int64, float: torch.float64}


def kind_of(value: Any) -> Any:
    """Tensor, bool, int or float, as a value is one or a symbol of one; None for other values."""
    return Tensor if isinstance(value, Tensor) else _KINDS.get(type(value))


def as_tensor(value: Any, kind: Any) -> Tensor:
    """A value of a kind as a tensor, for numbers one without dimensions that holds it."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Truth):
        return value.tensor
    return torch.scalar_tensor(value, dtype=_DTYPES[kind])


def from_tensor(tensor: Tensor, kind: Any) -> Any:
    """The value of a kind that a tensor holds, which a tracer does not know."""
    if kind is Tensor:
        return tensor
    return Truth(tensor) if kind is bool else tensor.item()


def zeros_like(value: Any, kind: Any) -> Tensor:
    """A tensor of zeros like that of a value, of which only the sizes are asked for."""
    if kind is Tensor:
        return torch.zeros(value.size(), dtype=value.dtype, device=value.device)
    return torch.zeros((), dtype=_DTYPES[kind])
