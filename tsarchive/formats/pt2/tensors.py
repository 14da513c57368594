"""Tensors and example inputs of a model, as views of the mapped file, private to this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from math import prod
from typing import Any

import torch

from tsarchive.errors import FormatError, LimitError, PickleError, UnsupportedError
from tsarchive.formats.torchscript.pickled import MAX_DEPTH
from tsarchive.formats.torchscript.tensors import (
    move_tensor,
    parse_device,
    tensor_over,
    without_warnings,
)
from tsarchive.pickler import Reduce, Value

from .payloads import Saved, StoredView, saved_payload
from .records import Records
from .schema import DTYPES, ScalarType

# Tensors without data are zeros. Their bytes are not in the file, so a small file could otherwise
# ask for any amount of memory.
MAX_ZEROS = 1 << 33
_WARNED_OF = frozenset({ScalarType.COMPLEXHALF})
_NOTHING = nullcontext()


class Tensors:
    """Builds the tensors of one model; those of one storage share it.

    ``views`` are all that may be built. ``device`` replaces the stored device of every tensor that
    is not on the meta device. Raises LimitError when those without data are too large.
    """

    def __init__(self, views: Iterable[StoredView], device: torch.device | None) -> None:
        self._device = device
        self._storages: dict[tuple[str, str], torch.UntypedStorage] = {}
        self._zeros: dict[str, int] = {}
        for view in views:
            if not view.has_data and self._target(view).type != "meta":
                needed = max(self._zeros.get(view.storage.name, 0), _reach(view))
                self._zeros[view.storage.name] = needed
        if sum(self._zeros.values()) > MAX_ZEROS:
            raise LimitError(
                "tensors without data, which are zeros, would take too much memory",
                limit=MAX_ZEROS,
                hint="Load with map_location='meta'",
            )

    def build(self, view: StoredView) -> torch.Tensor:
        """Return the tensor. Raises UnsupportedError where this process lacks its device."""
        with without_warnings() if view.dtype in _WARNED_OF else _NOTHING:
            dtype = self._dtype(view)
            target = self._target(view)
            key = view.storage.name, str(target)
            storage = self._storages.get(key)
            if storage is None:
                storage = self._storages[key] = self._storage(view, dtype, target)
            made = torch.empty(0, dtype=dtype, device=storage.device)
            return made.set_(storage, view.offset, view.shape, view.strides)

    def _target(self, view: StoredView) -> torch.device:
        stored = parse_device(view.device)
        if stored is None:
            raise FormatError(f"unknown device {view.device!r}", record=view.storage.name)
        return stored if self._device is None or stored.type == "meta" else self._device

    def _dtype(self, view: StoredView) -> torch.dtype:
        name = DTYPES[view.dtype].dtype
        found = getattr(torch, name, None)
        if not isinstance(found, torch.dtype):
            raise UnsupportedError(f"this torch has no dtype {name}", record=view.storage.name)
        return found

    def _storage(
        self, view: StoredView, dtype: torch.dtype, target: torch.device
    ) -> torch.UntypedStorage:
        if target.type == "meta":
            nbytes = max(view.storage.nbytes, _reach(view))
            return torch.empty(nbytes, dtype=torch.uint8, device="meta").untyped_storage()
        made = self._on_cpu(view, dtype)
        if target.type != "cpu":
            made = move_tensor(made, target, view.storage.name)
        return made.untyped_storage()

    def _on_cpu(self, view: StoredView, dtype: torch.dtype) -> torch.Tensor:
        if not view.has_data:
            return torch.zeros(self._zeros[view.storage.name], dtype=torch.uint8)
        elements = view.storage.nbytes // dtype.itemsize
        if not elements:
            return torch.empty(0, dtype=dtype)
        return tensor_over(view.storage.data(), elements, dtype)


def _reach(view: StoredView) -> int:
    """Return the size in bytes that a storage must have to hold all elements."""
    if not prod(view.shape):
        return 0
    last = sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
    return (view.offset + last + 1) * DTYPES[view.dtype].itemsize


Call = tuple[tuple[Any, ...], dict[str, Any]]


def sample_values(records: Records, model: str) -> Call | None:
    """Return positional and keyword arguments; None without example inputs, or with objects.

    Raises PickleError for pickles that the restricted reader does not take, TensorError for
    tensors that break a rule, FormatError and MissingRecordError for a damaged record.
    """
    record = records.inputs_record(model)
    if not records.container.size(record):
        return None
    saved = Saved(records.container, record)
    calls: list[Reduce] = []
    _replaced(saved.root, calls.append)
    views = {id(value): saved_payload(saved, value) for value in calls}
    if not all(isinstance(view, StoredView) for view in views.values()):
        return None
    dense = {key: view for key, view in views.items() if isinstance(view, StoredView)}
    tensors = Tensors(dense.values(), None)
    made = {key: tensors.build(view) for key, view in dense.items()}
    match _replaced(saved.root, lambda value: made[id(value)]):
        case (tuple() | list() as args, dict() as kwargs):
            return tuple(args), kwargs
    return None


def _replaced(value: Value, replace: Callable[[Reduce], Any], depth: int = 0) -> Any:
    """Return a nested value with its tensors replaced."""
    if depth > MAX_DEPTH:
        raise PickleError("values are nested too deeply", limit=MAX_DEPTH)
    match value:
        case Reduce():
            return replace(value)
        case tuple():
            return tuple(_replaced(item, replace, depth + 1) for item in value)
        case list():
            return [_replaced(item, replace, depth + 1) for item in value]
        case dict():
            return {key: _replaced(item, replace, depth + 1) for key, item in value.items()}
    return value
