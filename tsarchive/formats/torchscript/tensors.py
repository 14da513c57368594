"""Reading and writing of tensors: a pickled description and a storage record."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from tsarchive.errors import ArchiveError, CallError, PickleError, SaveError, UnsupportedError
from tsarchive.pickler import Global, MarkedTuple, PersistentId, Reduce, Value
from tsarchive.pickler.values import STORAGE_TYPES

from .stored_tensors import (
    DenseTensor,
    PerChannel,
    PerTensor,
    QuantizedTensor,
    SparseTensor,
    StoredStorage,
    StoredTensors,
    StridedView,
    Wrapped,
    check_record_size,
    is_device,
    plain_tensor,
)

if TYPE_CHECKING:
    from tsarchive.run.packed import SubByteRows

_UTILS = "torch._utils"
_HOOKS = Global("collections", "OrderedDict")
_REBUILD = Global(_UTILS, "_rebuild_tensor_v2")
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
        """Return the pickle value of ``tensor``; the same tensor gives the same value."""
        known = self._by_tensor.get(id(tensor))
        if known is None:
            known = self._by_tensor[id(tensor)] = self.describe(tensor)
        return known

    def describe(self, tensor: torch.Tensor) -> Reduce:
        """Return a new pickle value for ``tensor``; views of one storage still share it."""
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
        lazy = {"conj": tensor.is_conj(), "neg": tensor.is_neg()}
        flags: dict[Value, Value] = {name: True for name, is_set in lazy.items() if is_set}
        if flags:
            tag = Global("torch.jit._pickle", "restore_type_tag")
            arguments.append(Reduce(tag, (flags, "Dict[str, bool]")))
        return Reduce(_REBUILD, MarkedTuple(arguments))

    def _view(self, tensor: torch.Tensor) -> list[Value]:
        storage = tensor.untyped_storage()
        held = self._storage(tensor, storage)
        _check_bounds(tensor, storage)
        return [
            held,
            int(tensor.storage_offset()),
            MarkedTuple(tensor.size()),
            MarkedTuple(tensor.stride()),
        ]

    def _storage(self, tensor: torch.Tensor, storage: torch.UntypedStorage) -> PersistentId:
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
                    _torch_global(name),
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
            kind, indices, values = _SPARSE_COO, [tensor._indices()], tensor._values()
        else:
            kind, indices = _SPARSE_CSR, [tensor.crow_indices(), tensor.col_indices()]
            values = tensor.values()
        arguments: list[Value] = [
            kind,
            MarkedTuple(tensor.size()),
            tensor.requires_grad,
            *(self.describe(part) for part in (*as_read(tensor, indices), values)),
            Reduce(_HOOKS, ()),
        ]
        return Reduce(Global(_UTILS, "_rebuild_sparse_tensor"), MarkedTuple(arguments))


@lru_cache
def _torch_global(name: str) -> Global:
    return Global("torch", name)


def _check_bounds(tensor: torch.Tensor, storage: torch.UntypedStorage) -> None:
    """Refuse tensors that were resized beyond their storage, and sub-byte elements."""
    count = tensor.numel()
    if count == 0 or tensor.device.type == "meta":
        return
    if tensor.is_contiguous():
        reach = count - 1
    else:
        reach = sum((n - 1) * step for n, step in zip(tensor.size(), tensor.stride(), strict=True))
    held = storage.nbytes() // tensor.element_size()
    if tensor.storage_offset() + reach >= held:
        raise SaveError(
            f"a tensor of size {list(tensor.size())} and {tensor.dtype} needs a larger storage "
            f"than it has, of {held} elements",
        )


def storage_bytes(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of the whole storage of ``tensor``, without a copy for CPU tensors."""
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
    """Builds tensors from descriptions in pickles, over storages that ``record`` gives.

    ``record(key)`` returns a writable buffer of the storage's record. ``device`` replaces the saved
    device of every tensor that is not on the meta device. ``name`` is the record of the pickle. The
    rules are those of :mod:`.stored_tensors`. ``size(key)`` gives the size of a record in bytes
    before it is read, or None.
    """

    def __init__(
        self,
        record: Callable[[str], Any],
        device: torch.device | None,
        name: str,
        size: Callable[[str], int | None] = lambda key: None,
    ) -> None:
        self._record = record
        self._size = size
        self._device = device
        self._name = name
        self._stored = StoredTensors(name)
        self._storages: dict[str, torch.UntypedStorage] = {}
        # By address: a storage of indices, which is kept alive by being held here, and its copy.
        self._copies: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def build(self, value: Reduce, part: Callable[[Any], Any]) -> torch.Tensor | SubByteRows:
        """Return the tensor that ``value`` describes; ``part`` builds the tensors inside it.

        Raises PickleError if it is not a tensor, UnsupportedError where its device is missing.
        """
        described = self._stored.tensor(plain_tensor(value, self._name))
        try:
            match described:
                case DenseTensor():
                    return self._dense(described)
                case QuantizedTensor():
                    with without_warnings():
                        found: torch.Tensor | SubByteRows = self._quantized(described, part)
                        return found
                case SparseTensor():
                    with without_warnings():
                        return self._sparse(described, part)
                case Wrapped(tensor, requires_grad):
                    made: torch.Tensor = part(tensor)
                    return made.requires_grad_(requires_grad)
        except (TypeError, ValueError, RuntimeError, IndexError, OverflowError) as error:
            if isinstance(error, ArchiveError):
                raise
            name = value.function.name
            raise self._error(f"{name} has arguments that make no tensor: {error}") from error

    def _error(self, message: str) -> PickleError:
        return PickleError(message, record=self._name)

    def _storage(self, stored: StoredStorage) -> torch.UntypedStorage:
        """Return the storage, which is read once for each key."""
        if stored.key not in self._storages:
            self._first_tensor(stored, self._dtype(stored))
        return self._storages[stored.key]

    def _first_tensor(self, stored: StoredStorage, dtype: torch.dtype) -> torch.Tensor:
        """Read a storage; return the tensor through which it was created."""
        tensor = self._read(stored, dtype)
        self._storages[stored.key] = tensor.untyped_storage()
        return tensor

    def _dtype(self, stored: StoredStorage) -> torch.dtype:
        dtype = DTYPES.get(stored.kind)
        if dtype is None:
            raise UnsupportedError(f"this torch has no dtype {stored.dtype}", record=self._name)
        return dtype

    def _read(self, stored: StoredStorage, dtype: torch.dtype) -> torch.Tensor:
        # Tensors that were saved without data stay on the meta device; the record is empty.
        given = None if stored.is_meta else self._device
        target = parse_device(stored.device) if given is None else given
        if target is None:
            raise self._error(f"unknown device {stored.device!r}")
        if target.type == "meta":
            return torch.empty(stored.elements, dtype=dtype, device="meta")
        if stored.elements:
            tensor = tensor_over(self._content(stored), stored.elements, dtype)
        else:
            tensor = torch.empty(0, dtype=dtype, device="cpu")
        return tensor if target.type == "cpu" else move_tensor(tensor, target, self._name)

    def _content(self, stored: StoredStorage) -> Any:
        """Return the record of a storage, which is not inflated if its size is wrong."""
        size = self._size(stored.key)
        if size is not None:
            check_record_size(stored, size, self._name)
        data = self._record(stored.key)
        if len(data) != size:
            check_record_size(stored, len(data), self._name)
        return data

    def _dense(self, described: DenseTensor) -> torch.Tensor:
        view = described.view
        dtype = self._dtype(view.storage)
        with without_warnings() if dtype in _WARNED_OF else _NOTHING:
            tensor = self._view(view, dtype)
        if described.flags:
            torch._utils.set_tensor_metadata(  # type: ignore[no-untyped-call]
                tensor, described.flags
            )
        return tensor.requires_grad_() if described.requires_grad else tensor

    def _view(self, view: StridedView, dtype: torch.dtype) -> torch.Tensor:
        storage = self._storages.get(view.storage.key)
        if storage is None:
            tensor = self._first_tensor(view.storage, dtype)
            storage = self._storages[view.storage.key]
        else:
            tensor = torch.empty(0, dtype=dtype, device=storage.device)
        return tensor.set_(storage, view.offset, view.size, view.stride)

    def _quantized(self, described: QuantizedTensor, part: Callable[[Any], Any]) -> Any:
        view, quantizer = described.view, described.quantizer
        storage, dtype = self._storage(view.storage), self._dtype(view.storage)
        match quantizer:
            case PerTensor(scale, zero_point):
                tensor = torch._empty_affine_quantized(
                    [0], scale=scale, zero_point=zero_point, dtype=dtype, device=storage.device
                )
            case PerChannel(scales, zero_points, axis):
                tensor = torch._empty_per_channel_affine_quantized(
                    [0] * len(view.size),
                    scales=_by_channel(scales, torch.float64, part),
                    zero_points=_by_channel(zero_points, torch.int64, part),
                    axis=axis,
                    dtype=dtype,
                    device=storage.device,
                )
        tensor.set_(storage, view.offset, view.size, view.stride)
        return _for_code(tensor)

    def _sparse(self, described: SparseTensor, part: Callable[[Any], Any]) -> torch.Tensor:
        make = _SPARSE[described.layout]
        *indices, values = [part(inner) for inner in described.parts]
        own = map(self._private_copy, indices)
        made = make(*own, values, size=described.size, check_invariants=True)
        tensor = made.detach()  # a leaf, whatever the values are, as torch makes it
        _read[tensor] = tuple(indices)
        return tensor.requires_grad_(described.requires_grad)

    def _private_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy indices, so that checked ones do not share memory with tensors that code writes to.

        They stay views of storages of the same sizes. A storage is copied once, however many
        tensors view it.
        """
        storage = tensor.untyped_storage()
        if storage._cdata not in self._copies:
            copy = storage.clone()  # type: ignore[no-untyped-call]
            self._copies[storage._cdata] = storage, copy
        _, copy = self._copies[storage._cdata]
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(copy, tensor.storage_offset(), tensor.size(), tensor.stride())


# torch warns of these once in each process; users cannot change what a file holds.
_WARNED_OF = frozenset({torch.complex32})
_NOTHING = nullcontext()
_SPARSE: dict[str, Callable[..., torch.Tensor]] = {
    "COO": torch.sparse_coo_tensor,
    "CSR": torch.sparse_csr_tensor,
}
_filters = threading.RLock()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress torch's warnings about dtypes and layouts, which strict filters turn into errors."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _by_channel(
    numbers: Reduce | Sequence[float], dtype: torch.dtype, part: Callable[[Any], Any]
) -> Any:
    """Return scales or zero points; version 1 wrote them as a list."""
    if isinstance(numbers, Reduce):
        return part(numbers)
    return torch.tensor(numbers, dtype=dtype)


def tensor_over(data: Any, elements: int, dtype: torch.dtype) -> torch.Tensor:
    """Return the first ``elements`` (at least one) of a buffer, as a view where it is aligned."""
    tensor = torch.frombuffer(data, dtype=dtype, count=elements)
    if tensor.data_ptr() % dtype.itemsize:
        own = tensor.untyped_storage().clone()  # type: ignore[no-untyped-call]
        tensor = torch.empty(0, dtype=dtype, device="cpu").set_(own, 0, (elements,), (1,))
    return tensor


def move_tensor(tensor: torch.Tensor, device: torch.device, record: str) -> torch.Tensor:
    """Move a tensor that spans its whole storage to a device. Raises UnsupportedError."""
    if not _has_module(device.type):
        raise _lacking(device, why_unusable(device), record)
    try:
        storage = tensor.untyped_storage().to(device=device)
        return torch.empty(0, dtype=tensor.dtype, device=device).set_(
            storage, 0, tensor.size(), tensor.stride()
        )
    except (RuntimeError, AssertionError, AttributeError, TypeError) as error:
        raise _lacking(device, why_unusable(device) or str(error), record) from error


def _lacking(device: torch.device, reason: str | None, record: str) -> UnsupportedError:
    return UnsupportedError(
        f"this process cannot put a tensor on {device}: {reason}",
        record=record,
        hint="Load with map_location='cpu'",
    )


def _has_module(kind: str) -> bool:
    """Return whether torch has a module for a device type: otherwise it would try to import one."""
    return kind in ("cpu", "meta") or hasattr(torch, kind)


def why_unusable(device: str | torch.device) -> str | None:
    """Return torch's error for a device that it lacks; None for one that it has."""
    kind = str(device).partition(":")[0]
    if not _has_module(kind):
        return f"this torch has no devices of type {kind}"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, AttributeError) as error:
        return str(error).partition("\n")[0]
    return None


def given_device(map_location: str | torch.device | None) -> torch.device | None:
    """Return the device that a caller names. Raises CallError for an invalid one."""
    if map_location is None or isinstance(map_location, torch.device):
        return map_location
    try:
        return torch.device(map_location)
    except (RuntimeError, TypeError) as error:
        raise CallError(
            f"map_location {map_location!r} is not a device",
            hint="Pass a device such as 'cpu' or 'cuda:0'",
        ) from error


@lru_cache(maxsize=64)
def parse_device(text: str) -> torch.device | None:
    """Parse ``cpu``, ``cuda:0`` and the like; None if torch has no such device."""
    if not is_device(text):
        return None
    try:
        with without_warnings():
            return torch.device(text)
    except RuntimeError:
        return None


# The original indices by sparse tensor, used only by saving.
_read: Any = WeakIdKeyDictionary()


def as_read(sparse: torch.Tensor, indices: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Return the originals of ``indices``, to be written once; unless they now differ."""
    found = _read.get(sparse, ())
    same = len(found) == len(indices) and all(map(torch.equal, found, indices))
    return found if same else indices


def _for_code(tensor: torch.Tensor) -> torch.Tensor | SubByteRows:
    """Return a quantized tensor as code may hold it."""
    from tsarchive.run.packed import SUB_BYTE, SubByteRows  # what saves needs nothing that runs

    return SubByteRows(tensor) if tensor.dtype in SUB_BYTE else tensor
