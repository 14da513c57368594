"""Tensors that lie in the memory plan of a program, and the names by which operators write to them.

The storage of a planned tensor begins and ends where its place in the plan does, and cannot grow.
An operator writes through another tensor over the same memory: one without elements, which takes
the sizes of the result, or one of the same sizes for an operator that changes what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import ScriptError

_MARK: Final = "tsarchive_planned"
_FIXED: Final = "fixed"
_BOUNDED: Final = "bounded"


def fixed_out(slot: Tensor) -> Tensor:
    """A tensor over the same memory; the slot keeps its sizes if an operator resizes it."""
    return _marked(slot.detach(), _FIXED)


def bounded_out(slot: Tensor) -> Tensor:
    """A tensor without elements over the same memory, which can grow within it."""
    return _marked(slot.as_strided((0,), (1,)), _BOUNDED)


def _marked(made: Tensor, kind: str) -> Tensor:
    setattr(made, _MARK, kind)
    return made


def is_planned_out(value: Any) -> bool:
    """Whether an operator may write to a value, or to each in a list, and resize it."""
    if isinstance(value, list):
        return all(map(is_planned_out, value))
    return hasattr(value, _MARK)


def resize(slot: Tensor, size: Sequence[int], strides: Sequence[int] | None = None) -> None:
    """Give a slot other sizes; strides are those of a contiguous tensor unless given.

    Raises ScriptError where its sizes are fixed, or it has not the memory for so many elements.
    """
    wanted = tuple(strides_of(size, range(len(size))) if strides is None else strides)
    if tuple(slot.size()) == tuple(size) and (strides is None or slot.stride() == wanted):
        return
    if getattr(slot, _MARK, None) == _FIXED or len(size) != slot.dim():
        raise _misfit(size, f"sizes are {list(slot.size())}, and may not change")
    room = _room(slot)
    if min(size, default=0) < 0 or prod(size) > room:
        raise _misfit(size, f"bound is {room:,} elements")
    with torch.no_grad():
        slot.set_(slot.untyped_storage(), slot.storage_offset(), tuple(size), wanted)


def _room(slot: Tensor) -> int:
    """How many elements a slot has memory for."""
    elements: int = slot.untyped_storage().nbytes() // slot.element_size()
    return elements - int(slot.storage_offset())


def outgrown(error: RuntimeError, outs: Sequence[Tensor]) -> ScriptError | None:
    """The error for an operator that lacked the memory for a result; None for other errors."""
    if "storage that is not resizable" not in str(error):
        return None
    rooms = ", ".join(f"{_room(out):,}" for out in outs)
    return ScriptError(f"a result does not fit: the bound is {rooms} elements")


def _misfit(size: Sequence[int], why: str) -> ScriptError:
    return ScriptError(f"a result of size {list(size)} does not fit: the {why}")


def store(slot: Tensor, value: Tensor, order: Sequence[int] | None = None) -> Tensor:
    """Copy a result into a slot, which takes its sizes; elements become those of its type."""
    resize(slot, value.size(), None if order is None else strides_of(value.size(), order))
    return slot.copy_(value)


def strides_of(size: Sequence[int], order: Sequence[int]) -> list[int]:
    """Strides of a tensor without gaps whose dimensions are in this order, the outermost first.

    Raises ScriptError for an order that is none of these dimensions.
    """
    if sorted(order) != list(range(len(size))):
        raise ScriptError(f"{list(order)} is no order of {len(size)} dimensions")
    strides: list[int] = [0] * len(size)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(size[dim], 1)
    return strides


def adopt(slot: Tensor, written: Any, is_fixed: bool) -> None:
    """Give a slot the sizes of the tensor that an operator wrote into its memory.

    Raises ScriptError where it may not: sizes that are fixed, or another number of dimensions.
    """
    is_same = written.size() == slot.size()
    if is_fixed and not is_same:
        raise _misfit(written.size(), f"sizes are {list(slot.size())}, and may not change")
    if is_same and written.stride() == slot.stride() and written.data_ptr() == slot.data_ptr():
        return
    if is_fixed or written.data_ptr() != slot.data_ptr():
        store(slot, written.clone())
    elif written.dim() != slot.dim():
        raise _misfit(written.size(), f"tensor has {slot.dim()} dimensions")
    else:
        slot.set_(written)
