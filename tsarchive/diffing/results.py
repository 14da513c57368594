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

from .numbers import numbers_of
from .report import ValueDifference
from .values import Distance

_MOST_TEXT: Final = 60


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


def difference(before: Tensor, after: Tensor) -> ValueDifference | None:
    """Return how far two dense tensors of one dtype and shape are apart; None for no numbers."""
    numbers = numbers_of(str(before.dtype).removeprefix("torch."))
    if numbers is None:
        return None
    distance = Distance(numbers)
    distance.add(_bytes(before), _bytes(after))
    return distance.found


def _bytes(tensor: Tensor) -> memoryview:
    words: Any = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return memoryview(words)


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
