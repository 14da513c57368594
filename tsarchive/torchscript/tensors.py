"""Tensors as pickles describe them, both ways: a storage record, and a view of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from tsarchive.errors import ArchiveError, CallError, PickleError, SaveError, UnsupportedError
from tsarchive.pickler import Global, MarkedTuple, PersistentId, Reduce, Value
from tsarchive.torchscript.storages import STORAGE_TYPES

_UTILS = "torch._utils"
_HOOKS = Global("collections", "OrderedDict")
_SPARSE_COO, _SPARSE_CSR = 1, 2

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, storage.dtype)
    for name, storage in STORAGE_TYPES.items()
    if hasattr(torch, storage.dtype)
}
_STORAGE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class TensorWriter:
    """Describes tensors for one pickle and collects the storages they refer to."""

    def __init__(self) -> None:
        self.storages: list[torch.Tensor] = []
        self._by_storage: dict[tuple[int, torch.dtype], PersistentId] = {}
        self._by_tensor: dict[int, Reduce] = {}

    def reduce(self, tensor: torch.Tensor) -> Reduce:
        """The pickle value of ``tensor``; the same tensor gives the same value."""
        known = self._by_tensor.get(id(tensor))
        if known is None:
            known = self._by_tensor[id(tensor)] = self.describe(tensor)
        return known

    def describe(self, tensor: torch.Tensor) -> Reduce:
        """A new pickle value for ``tensor``; views of one storage still share it."""
        if tensor.is_nested or tensor._is_zerotensor():
            raise SaveError("a tensor without a storage of its own cannot be written")
        if tensor.is_quantized:
            return self._quantized(tensor)
        if tensor.layout == torch.strided:
            return self._dense(tensor)
        if tensor.layout in (torch.sparse_coo, torch.sparse_csr):
            return self._sparse(tensor)
        raise SaveError(f"a tensor of layout {tensor.layout} cannot be written")

    def _dense(self, tensor: torch.Tensor) -> Reduce:
        arguments = [*self._view(tensor), tensor.requires_grad, Reduce(_HOOKS, ())]
        flags: dict[Value, Value] = {}
        if tensor.is_conj():
            flags["conj"] = True
        if tensor.is_neg():
            flags["neg"] = True
        if flags:
            tag = Global("torch.jit._pickle", "restore_type_tag")
            arguments.append(Reduce(tag, (flags, "Dict[str, bool]")))
        return Reduce(Global(_UTILS, "_rebuild_tensor_v2"), MarkedTuple(arguments))

    def _view(self, tensor: torch.Tensor) -> list[Value]:
        storage = self._storage(tensor)
        _check_bounds(tensor)
        return [
            storage,
            int(tensor.storage_offset()),
            MarkedTuple(tensor.size()),
            MarkedTuple(tensor.stride()),
        ]

    def _storage(self, tensor: torch.Tensor) -> PersistentId:
        storage = tensor.untyped_storage()
        # A storage has one element type in a pickle; views of another type need a copy.
        key = (storage._cdata, tensor.dtype)
        known = self._by_storage.get(key)
        if known is None:
            name = _STORAGE_NAMES.get(tensor.dtype)
            if name is None:
                raise SaveError(f"a tensor of {tensor.dtype} cannot be written")
            known = PersistentId(
                (
                    "storage",
                    Global("torch", name),
                    str(len(self.storages)),
                    str(tensor.device),
                    storage.nbytes() // tensor.element_size(),
                )
            )
            self._by_storage[key] = known
            self.storages.append(tensor)
        return known

    def _quantized(self, tensor: torch.Tensor) -> Reduce:
        arguments = [
            *self._view(tensor),
            self._quantizer(tensor),
            tensor.requires_grad,
            Reduce(_HOOKS, ()),
        ]
        return Reduce(Global(_UTILS, "_rebuild_qtensor"), MarkedTuple(arguments))

    def _quantizer(self, tensor: torch.Tensor) -> MarkedTuple:
        scheme = tensor.qscheme()
        name = Global("torch", str(scheme).removeprefix("torch."))
        if scheme == torch.per_tensor_affine:
            return MarkedTuple((name, tensor.q_scale(), tensor.q_zero_point()))
        if scheme in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
            scales = self.describe(tensor.q_per_channel_scales())
            zero_points = self.describe(tensor.q_per_channel_zero_points())
            axis = tensor.q_per_channel_axis()
            return MarkedTuple((name, scales, zero_points, axis))
        raise SaveError(f"a tensor quantized by {scheme} cannot be written")

    def _sparse(self, tensor: torch.Tensor) -> Reduce:
        if tensor.layout == torch.sparse_coo:
            kind, parts = _SPARSE_COO, [tensor._indices(), tensor._values()]
        else:
            kind = _SPARSE_CSR
            parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        arguments: list[Value] = [
            kind,
            MarkedTuple(tensor.size()),
            tensor.requires_grad,
            *(self.describe(part) for part in parts),
            Reduce(_HOOKS, ()),
        ]
        return Reduce(Global(_UTILS, "_rebuild_sparse_tensor"), MarkedTuple(arguments))


def _check_bounds(tensor: torch.Tensor) -> None:
    """Refuse what was resized away or holds less than a byte for each element."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return
    reach = sum((n - 1) * step for n, step in zip(tensor.size(), tensor.stride(), strict=True))
    held = tensor.untyped_storage().nbytes() // tensor.element_size()
    if tensor.storage_offset() + reach >= held:
        raise SaveError(
            f"a tensor of size {list(tensor.size())} and {tensor.dtype} needs a larger storage "
            f"than it has, of {held} elements",
        )


def storage_bytes(tensor: torch.Tensor) -> memoryview:
    """The bytes of the whole storage behind ``tensor``, without a copy for CPU tensors."""
    if tensor.device.type == "meta":
        return memoryview(b"")
    storage = tensor.untyped_storage()
    if storage.device.type != "cpu":
        storage = storage.cpu()  # type: ignore[no-untyped-call]
    size = storage.nbytes()
    if size == 0:
        return memoryview(b"")
    block = (ctypes.c_char * size).from_address(storage.data_ptr())
    block._keep_alive = storage  # type: ignore[attr-defined]
    return memoryview(block).cast("B")


class TensorReader:
    """Builds tensors from what a pickle says, over storages that ``record`` gives.

    ``record(key)`` returns a writable buffer of the storage's record. ``device`` replaces the
    saved device of every tensor that is not on the meta device.
    """

    def __init__(
        self, record: Callable[[str], Any], device: torch.device | None, name: str
    ) -> None:
        self._record = record
        self._device = device
        self._name = name
        self._storages: dict[str, tuple[torch.UntypedStorage, torch.dtype]] = {}

    def build(self, function: str, arguments: tuple[Any, ...]) -> torch.Tensor:
        """Apply one of the rebuild functions of ``torch._utils``."""
        builder = _BUILDERS.get(function)
        if builder is None:
            raise self._error(f"unknown tensor function {function}")
        try:
            return builder(self, *arguments)
        except (TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, ArchiveError):
                raise
            raise self._error(f"{function} has arguments that make no tensor: {error}") from error

    def _error(self, message: str) -> PickleError:
        return PickleError(message, record=self._name)

    def storage(self, persistent_id: PersistentId) -> tuple[torch.UntypedStorage, torch.dtype]:
        """The storage that a persistent id names, read once for each key."""
        match persistent_id.value:
            case ("storage", Global("torch", kind), str(key), str(device), int(count), *_):
                pass
            case _:
                raise self._error("a storage reference is malformed")
        known = self._storages.get(key)
        if known is None:
            dtype = DTYPES.get(kind)
            if dtype is None:
                raise self._error(f"unknown storage type torch.{kind}")
            known = self._storages[key] = self._read(key, dtype, device, count)
        return known

    def _read(
        self, key: str, dtype: torch.dtype, device: str, count: int
    ) -> tuple[torch.UntypedStorage, torch.dtype]:
        # What was saved without data stays so; the record is empty.
        is_empty = device.partition(":")[0] == "meta"
        target = parse_device(device) if is_empty or self._device is None else self._device
        if target is None:
            raise self._error(f"unknown device {device!r}")
        if target.type == "meta":
            empty = torch.empty(count, dtype=dtype, device="meta")
            return empty.untyped_storage(), dtype
        data = self._record(key) if count else b""
        needed = count * dtype.itemsize
        if len(data) < needed:
            raise PickleError(
                f"storage {key} holds {len(data)} bytes where its reference claims {needed}",
                record=self._name,
                limit=len(data),
            )
        storage = storage_over(data, needed, dtype)
        return _moved(storage, target, self._name), dtype

    def dense(
        self,
        storage_id: PersistentId,
        offset: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        requires_grad: bool,
        _hooks: object,
        flags: dict[str, bool] | None = None,
    ) -> torch.Tensor:
        storage, dtype = self.storage(storage_id)
        self._check_view(storage.nbytes() // dtype.itemsize, offset, size, stride)
        tensor = torch.empty(0, dtype=dtype, device=storage.device)
        tensor.set_(storage, offset, size, stride)
        if flags:
            torch._utils.set_tensor_metadata(tensor, dict(flags))  # type: ignore[no-untyped-call]
        tensor.requires_grad_(requires_grad)
        return tensor

    def _check_view(
        self, count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
    ) -> None:
        """Bounds in unbounded integers, before torch sees any of the numbers."""
        numbers = (offset, *size, *stride)
        if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
            raise self._error(f"a tensor of size {size} and stride {stride} is malformed")
        if 0 in size:
            return
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if last >= count:
            raise PickleError(
                f"a tensor of size {size} and stride {stride} reaches element {last} of {count}",
                record=self._name,
                limit=count,
            )

    def quantized(
        self,
        storage_id: PersistentId,
        offset: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        quantizer: tuple[Any, ...],
        requires_grad: bool,
        _hooks: object,
    ) -> torch.Tensor:
        storage, dtype = self.storage(storage_id)
        self._check_view(storage.nbytes() // dtype.itemsize, offset, size, stride)
        match quantizer:
            case (Global("torch", "per_tensor_affine"), float(scale), int(zero_point)):
                tensor = torch._empty_affine_quantized(
                    [0], scale=scale, zero_point=zero_point, dtype=dtype, device=storage.device
                )
            case (
                Global("torch", "per_channel_affine" | "per_channel_affine_float_qparams"),
                torch.Tensor() | list() as scales,
                torch.Tensor() | list() as zero_points,
                int(axis),
            ):
                tensor = torch._empty_per_channel_affine_quantized(
                    [0] * len(size) or [0],
                    scales=self._by_channel(scales, torch.float64),
                    zero_points=self._by_channel(zero_points, torch.int64),
                    axis=axis,
                    dtype=dtype,
                    device=storage.device,
                )
            case _:
                raise self._error("a quantizer is malformed")
        tensor.set_(storage, offset, size, stride)
        return tensor.requires_grad_(requires_grad)

    def _by_channel(self, numbers: Any, dtype: torch.dtype) -> torch.Tensor:
        """Scales or zero points; version 1 wrote them as a list."""
        if isinstance(numbers, torch.Tensor):
            return numbers
        try:
            return torch.tensor(numbers, dtype=dtype)
        except (TypeError, ValueError, RuntimeError):
            raise self._error("a quantizer is malformed") from None

    def sparse(self, kind: int, size: tuple[int, ...], grad: bool, *parts: Any) -> torch.Tensor:
        *tensors, _hooks = parts
        if kind == _SPARSE_COO and len(tensors) == 2:
            tensor = torch.sparse_coo_tensor(
                tensors[0], tensors[1], size=size, check_invariants=True
            )
        elif kind == _SPARSE_CSR and len(tensors) == 3:
            tensor = torch.sparse_csr_tensor(
                tensors[0], tensors[1], tensors[2], size=size, check_invariants=True
            )
        else:
            raise self._error(f"a sparse tensor of unknown layout {kind}")
        return tensor.requires_grad_(grad)

    def parameter(self, tensor: torch.Tensor, requires_grad: bool, _hooks: object) -> torch.Tensor:
        return tensor.requires_grad_(requires_grad)


_BUILDERS: dict[str, Callable[..., torch.Tensor]] = {
    "_rebuild_tensor_v2": TensorReader.dense,
    "_rebuild_qtensor": TensorReader.quantized,
    "_rebuild_sparse_tensor": TensorReader.sparse,
    "_rebuild_parameter": TensorReader.parameter,
}


def storage_over(data: Any, size: int, dtype: torch.dtype) -> torch.UntypedStorage:
    """A storage over the first ``size`` bytes of a buffer: a view when it is aligned."""
    if size == 0:
        return torch.UntypedStorage(0)  # type: ignore[no-untyped-call]
    storage = torch.frombuffer(data, dtype=torch.uint8, count=size).untyped_storage()
    aligned = storage.data_ptr() % max(dtype.itemsize, 1) == 0
    return storage if aligned else storage.clone()  # type: ignore[no-untyped-call]


def _moved(
    storage: torch.UntypedStorage, device: torch.device, record: str
) -> torch.UntypedStorage:
    if device.type == "cpu":
        return storage
    try:
        moved: torch.UntypedStorage = storage.to(device=device)
    except (RuntimeError, AssertionError, AttributeError, TypeError) as error:
        raise UnsupportedError(
            f"this process cannot put a tensor on {device}: {why_unusable(device) or error}",
            record=record,
            hint="Load with map_location='cpu'",
        ) from error
    return moved


def why_unusable(device: str | torch.device) -> str | None:
    """What torch says of a device that it lacks; None for one that it has."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, AttributeError) as error:
        return str(error).partition("\n")[0]
    return None


def given_device(map_location: str | torch.device | None) -> torch.device | None:
    """The device that a caller names. Raises CallError for what is none."""
    if map_location is None or isinstance(map_location, torch.device):
        return map_location
    try:
        return torch.device(map_location)
    except (RuntimeError, TypeError) as error:
        raise CallError(
            f"map_location {map_location!r} is not a device",
            hint="Pass a device such as 'cpu' or 'cuda:0'",
        ) from error


def parse_device(text: str) -> torch.device | None:
    """``cpu``, ``cuda:0`` and the like; None for text that names no device type of torch."""
    try:
        return torch.device(text)
    except RuntimeError:
        return None
