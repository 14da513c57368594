"""What calls give, taken apart and compared: tensors within tolerances, all else exactly."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from tsarchive.describing.text import shape
from tsarchive.ir.names import unmangled
from tsarchive.run.modules import ArchiveModule, ArchiveObject

from .report import ValueDifference

_MOST_TEXT: Final = 60
# Integers of the size of floating-point numbers, whose order is that of the numbers.
_WORDS: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Tolerance(NamedTuple):
    """How far apart floating-point numbers may be: ``absolute``, plus ``relative`` times the number
    before. Everything else is compared exactly."""

    relative: float
    absolute: float

    def excess(self, before: Tensor, after: Tensor) -> Tensor:
        """Return by how much elements differ beyond this, in the widest dtype; 0 where they do not.

        NaN is like NaN.
        """
        wide = torch.complex128 if before.is_complex() else torch.float64
        one, other = before.to(wide), after.to(wide)
        is_same = (one == other) | (one.isnan() & other.isnan())
        beyond = (other - one).abs() - (self.absolute + self.relative * one.abs())
        # Where one side is infinite or NaN there is no distance.
        beyond = torch.where(beyond.isfinite(), beyond, math.inf)
        return torch.where(is_same, 0.0, beyond.clamp(min=0))


class Container(NamedTuple):
    """A list, tuple, dict or object, whose parts are leaves of their own."""

    kind: str
    size: int

    def __str__(self) -> str:
        return f"{self.kind} of {self.size}"


Leaves: TypeAlias = "Mapping[str, Any]"
"""Tensors, scalars and containers by their paths in a value, ``[0]['scores']``."""


class _Nothing:
    """Stands where one side has a part that the other lacks."""

    def __str__(self) -> str:
        return "nothing"


_NOTHING: Final = _Nothing()


def leaves_of(value: Any) -> Leaves:
    """Take a value apart. Tensors are copied, as what runs later may change them."""
    return dict(_leaves(value, "", []))


def _leaves(value: Any, path: str, around: list[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Tensor):
        yield path, value.detach().clone()
        return
    parts = None if id(value) in around else _parts(value)
    if parts is None:
        yield path, value
        return
    kind, items = parts
    yield path, Container(kind, len(items))
    for key, item in items.items():
        yield from _leaves(item, f"{path}{key}", [*around, id(value)])


def _parts(value: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind of a container and its parts; None for another value."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = zip(value._fields, value, strict=True)
        return type(value).__name__, {f".{name}": item for name, item in named}
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return kind, {f"[{place}]": item for place, item in enumerate(value)}
    if isinstance(value, dict):
        return "dict", {f"[{_key(key)}]": item for key, item in value.items()}
    if isinstance(value, ArchiveObject) and not isinstance(value, ArchiveModule):
        name = unmangled(type(value).tsarchive_class.qualified_name)
        return name, {f".{key}": getattr(value, key) for key in type(value).slot_keys}
    return None


def _key(key: Any) -> str:
    return repr(key.tolist() if isinstance(key, Tensor) else key)


class Contrast(NamedTuple):
    """Where two values differ first, in words, and how far apart the tensors there are."""

    before: str
    after: str
    values: ValueDifference | None


def contrast(before: Leaves, after: Leaves, tolerance: Tolerance) -> Contrast | None:
    """Return where two values differ beyond the tolerance; None where they do not."""
    for path, one in before.items():
        if path not in after:
            return Contrast(_told(path, one), _told(path, _NOTHING), None)
        found = _contrast(path, one, after[path], tolerance)
        if found is not None:
            return found
    for path, other in after.items():
        if path not in before:
            return Contrast(_told(path, _NOTHING), _told(path, other), None)
    return None


def _contrast(path: str, before: Any, after: Any, tolerance: Tolerance) -> Contrast | None:
    if isinstance(before, Tensor) and isinstance(after, Tensor):
        return _contrast_of_tensors(path, before, after, tolerance)
    if _is_like(before, after, tolerance):
        return None
    return Contrast(_told(path, before), _told(path, after), None)


def _is_like(before: Any, after: Any, tolerance: Tolerance) -> bool:
    if type(before) is not type(after) and not _are_objects(before, after):
        return False
    if isinstance(before, (float, complex)):
        is_nan = cmath.isnan(before) and cmath.isnan(after)
        allowed = tolerance.absolute + tolerance.relative * abs(before)
        return before == after or is_nan or abs(after - before) <= allowed
    return _are_objects(before, after) or bool(before == after)


def _are_objects(before: Any, after: Any) -> bool:
    """Return whether both are modules or handles, which are told apart by what they do."""
    plain = (Tensor, Container, bool, int, float, complex, str, type(None), torch.device)
    return not isinstance(before, plain) and not isinstance(after, plain)


def _contrast_of_tensors(
    path: str, before: Tensor, after: Tensor, tolerance: Tolerance
) -> Contrast | None:
    one, other = description(before), description(after)
    if one != other:
        return Contrast(_at(path, one), _at(path, other), None)
    if before.device.type == "meta":
        return None
    before, after = _plain(before), _plain(after)
    worst = _worst(before, after, tolerance)
    if worst is None:
        return None
    place = list(worst)
    shown = (f"{kind}, {_number(tensor[worst])} at {place}"
             for kind, tensor in ((one, before), (other, after)))  # fmt: skip
    told, told_after = (_at(path, text) for text in shown)
    return Contrast(told, told_after, difference(before, after))


def _worst(before: Tensor, after: Tensor, tolerance: Tolerance) -> tuple[int, ...] | None:
    """Return the indices of the element that is farthest beyond the tolerance; None without one."""
    if before.is_floating_point() or before.is_complex():
        beyond = tolerance.excess(before, after)
    else:
        beyond = (after.to(torch.float64) - before.to(torch.float64)).abs()
        beyond = torch.where(before != after, beyond.clamp(min=1), 0.0)
    if not beyond.numel() or not bool(beyond.any()):
        return None
    index = int(beyond.reshape(-1).argmax())
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(index), beyond.shape))


def difference(before: Tensor, after: Tensor) -> ValueDifference:
    """Return how far two dense tensors of one dtype and shape are apart."""
    wide = torch.complex128 if before.is_complex() else torch.float64
    one, other = before.to(wide), after.to(wide)
    bits = (_bits(before) != _bits(after)).reshape(*before.shape, -1).any(-1)
    is_like = (one == other) | (one.isnan() & other.isnan())
    apart = torch.where(is_like, 0.0, (other - one).abs())
    apart = torch.where(apart.isnan(), math.inf, apart)
    relative = torch.where(apart == 0, 0.0, apart / one.abs())
    relative = torch.where(relative.isnan(), math.inf, relative)
    return ValueDifference(
        int(bits.sum()), before.numel(), _largest(apart), _largest(relative),
        _ulps(before, after), float(apart.norm()), float(one.abs().norm()),
    )  # fmt: skip


def _largest(numbers: Tensor) -> float:
    return float(numbers.max()) if numbers.numel() else 0.0


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1, 1).view(torch.uint8).reshape(tensor.numel(), -1)


def _ulps(before: Tensor, after: Tensor) -> int | None:
    """Return the largest number of representable numbers between elements; None for integers."""
    if not before.is_floating_point() or not before.numel():
        return None
    one, other = _ordered(before), _ordered(after)
    # Of float64 the difference may be beyond an int64: it is taken of the two that are found.
    farthest = int((other.to(torch.float64) - one.to(torch.float64)).abs().argmax())
    return abs(int(other[farthest]) - int(one[farthest]))


def _ordered(tensor: Tensor) -> Tensor:
    """Return floating-point numbers as integers in the same order, neighbours one apart."""
    word = _WORDS[tensor.element_size()]
    numbers = tensor.contiguous().reshape(-1).view(word).to(torch.int64)
    return torch.where(numbers >= 0, numbers, torch.iinfo(word).min - numbers)


def _plain(tensor: Tensor) -> Tensor:
    """Return the elements as a dense tensor of plain numbers."""
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.cpu().resolve_conj().resolve_neg()


def description(tensor: Tensor) -> str:
    """Return what a tensor is, its elements aside: ``float32 2x3``."""
    text = f"{str(tensor.dtype).removeprefix('torch.')} {shape(tensor.shape)}"
    is_strided = tensor.layout is torch.strided
    return text if is_strided else f"{text}, {str(tensor.layout).removeprefix('torch.')}"


def _number(element: Tensor) -> str:
    value = element.item()
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def summary(leaves: Leaves) -> str:
    """Return in a few words what a value is."""
    return _told("", leaves[""])


def _told(path: str, leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return _at(path, description(leaf))
    is_plain = isinstance(leaf, (bool, int, float, complex, str, type(None)))
    text = f"{type(leaf).__name__} {leaf!r}" if is_plain and leaf is not None else str(leaf)
    return _at(path, text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…")


def _at(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text
