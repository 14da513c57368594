"""Descriptions of storages and tensors in pickles, parsed and checked without torch.

Loading builds tensors from these descriptions; verifying lists breaches of rules. Numbers are
checked as unbounded integers, before torch sees any of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, NoReturn, TypeAlias

from tsarchive.errors import PickleError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.pickler import Global, PersistentId, Reduce, Value
from tsarchive.pickler.values import STORAGE_TYPES

from .pickled import reachable

TENSOR_MODULE = "torch._utils"
# torch's kernels support at most 64 dimensions.
MAX_RANK = 64
# torch counts bytes and elements in signed 64-bit integers.
MAX_BYTES = (1 << 63) - 1
MAX_KEY = 4096

_DENSE = Global(TENSOR_MODULE, "_rebuild_tensor_v2")
_PARAMETER = "_rebuild_parameter"
_FROM_TYPE = Global("torch._tensor", "_rebuild_from_type_v2")
_HOOKS = Global("collections", "OrderedDict")
_TAG = Global("torch.jit._pickle", "restore_type_tag")
_LISTS = frozenset({"build_intlist", "build_doublelist"})
_PER_CHANNEL = frozenset({"per_channel_affine", "per_channel_affine_float_qparams"})
_LAYOUTS = {1: ("COO", 2), 2: ("CSR", 3)}
# Several of their elements share a byte.
_PACKED_KINDS = frozenset({"QUInt4x2Storage", "QUInt2x4Storage"})
# Recorded inputs of a trace are written without their data.
_WITHOUT_DATA = "traced_inputs.pkl"


class StoredTensors:
    """Reads the tensors of one pickle, and remembers its storages: each key has one meaning."""

    def __init__(self, record: str) -> None:
        self.record = record
        self._storages: dict[str, StoredStorage] = {}

    def tensor(self, value: Reduce) -> StoredTensor:
        """Parse the description of a tensor; tensors inside it are not parsed.

        Raises TensorError if it is not a tensor or would reach beyond its storage.
        """
        read = _READERS.get(value.function.name)
        if value.function.module != TENSOR_MODULE or read is None:
            name = value.function.qualified_name
            self._fail("tensor-function", f"unknown tensor function {name[:100]}")
        if not isinstance(value.argument, tuple):
            self._malformed(f"{value.function.name} is not given a tuple of arguments")
        return read(self, value.argument)

    def storage(self, value: PersistentId) -> StoredStorage:
        """Return the storage that a persistent id names. Raises TensorError."""
        parts = value.value
        match parts[:5] if parts[5:] == (None,) else parts:
            case ("storage", Global("torch", kind), str(key), str(device), int(count)) if (
                type(count) is int
            ):
                found = StoredStorage(key, kind, device, count)
            case _:
                self._fail("tensor-storage-reference", "a storage reference is malformed")
        known = self._storages.get(key)
        if known is None:
            self._check_storage(found)
            known = self._storages[key] = found
        elif known != found:
            message = f"two references to storage {key} differ in type, device or size"
            self._fail("tensor-storage-conflict", message, Nature.HOSTILE)
        return known

    def _check_storage(self, found: StoredStorage) -> None:
        if not _is_key(found.key):
            message = f"{found.key[:100]!r} is not the name of a record"
            self._fail("tensor-storage-key", message, Nature.HOSTILE)
        if found.kind not in STORAGE_TYPES:
            self._fail("tensor-storage-type", f"unknown storage type torch.{found.kind[:100]}")
        if not is_device(found.device):
            self._fail("tensor-storage-device", f"unknown device {found.device[:100]!r}")
        if not 0 <= found.nbytes <= MAX_BYTES:
            message = f"storage {found.key} is of {found.elements} elements"
            self._fail("tensor-storage-count", message, Nature.HOSTILE)

    # Tensor functions

    def _dense(self, arguments: tuple[Value, ...]) -> DenseTensor:
        match arguments:
            case (PersistentId() as storage, offset, size, stride, bool(grad), hooks, *flags) if (
                len(flags) <= 1 and _is_hooks(hooks)
            ):
                view = self._view(storage, offset, size, stride)
                if _is_quantized(view.storage.dtype):
                    self._malformed(f"a tensor of {view.storage.dtype} has no quantizer")
                self._check_grad(grad, view.storage.dtype)
                return DenseTensor(view, grad, self._flags(flags[0], view) if flags else {})
        self._malformed("_rebuild_tensor_v2 is not given a view of a storage")

    def _quantized(self, arguments: tuple[Value, ...]) -> QuantizedTensor:
        match arguments:
            case (
                PersistentId() as storage,
                offset,
                size,
                stride,
                tuple(quantizer),
                False,
                hooks,
            ) if _is_hooks(hooks):
                view = self._view(storage, offset, size, stride)
                if not _is_quantized(view.storage.dtype):
                    self._malformed(f"a tensor of {view.storage.dtype} has a quantizer")
                return QuantizedTensor(view, self._quantizer(quantizer, view))
        self._malformed("_rebuild_qtensor is not given a view of a storage and a quantizer")

    def _sparse(self, arguments: tuple[Value, ...]) -> SparseTensor:
        match arguments:
            case (int(kind), tuple(size), bool(grad), *parts, hooks) if (
                type(kind) is int and kind in _LAYOUTS and _is_hooks(hooks)
            ):
                layout, count = _LAYOUTS[kind]
                if len(parts) == count and all(isinstance(part, Reduce) for part in parts):
                    self._check_numbers("size", size)
                    device = None
                    for part in parts:
                        view = self._part(part, device)
                        device = view.storage.device
                    self._check_grad(grad, view.storage.dtype)
                    return SparseTensor(layout, size, tuple(parts), grad)  # type: ignore[arg-type]
        self._malformed("a sparse tensor is malformed or of unknown layout")

    def _parameter(self, arguments: tuple[Value, ...]) -> Wrapped:
        match arguments:
            case (Reduce(Global(module, name)) as tensor, bool(grad), hooks) if (
                module == TENSOR_MODULE and name != _PARAMETER and _is_hooks(hooks)
            ):
                return Wrapped(tensor, grad)
        self._malformed("_rebuild_parameter is not given a tensor")

    # Arguments of tensor functions

    def _view(self, storage: PersistentId, offset: Any, size: Any, stride: Any) -> StridedView:
        found = self.storage(storage)
        if not (isinstance(size, tuple) and isinstance(stride, tuple)):
            self._malformed("the size or stride of a tensor is not a tuple")
        if len(size) != len(stride):
            self._malformed(f"a tensor has {len(size)} dimensions and {len(stride)} strides")
        self._check_numbers("size", size)
        self._check_numbers("stride", stride)
        self._check_numbers("offset", (offset,))
        view = StridedView(found, offset, size, stride)
        elements = view.elements
        if elements and view.last >= found.elements:
            message = (
                f"a tensor of size {size} and stride {stride} reaches element {view.last} "
                f"of {found.elements}"
            )
            # torch counts elements where it writes these and bytes where it reads them.
            by_torch = found.kind in _PACKED_KINDS
            self._fail("tensor-bounds", message, Nature.BROKEN if by_torch else Nature.HOSTILE)
        # torch multiplies sizes one by one, and may overflow before it meets a zero.
        reach = max(elements or prod(n or 1 for n in size), offset)
        if reach * STORAGE_TYPES[found.kind].itemsize > MAX_BYTES:
            message = f"a tensor of size {size} at offset {offset} is beyond what memory can hold"
            self._fail("tensor-too-large", message, Nature.HOSTILE)
        return view

    def _check_numbers(self, what: str, numbers: tuple[Any, ...]) -> None:
        if len(numbers) > MAX_RANK:
            message = f"a tensor has {len(numbers)} dimensions, more than {MAX_RANK}"
            self._fail("tensor-rank", message, Nature.HOSTILE)
        for n in numbers:
            if type(n) is not int or not 0 <= n <= MAX_BYTES:
                self._malformed(f"the {what} of a tensor has an entry that is no size")

    def _check_grad(self, requires_grad: bool, dtype: str) -> None:
        if requires_grad and not dtype.startswith(("float", "bfloat", "complex")):
            self._malformed(f"a tensor of {dtype} requires a gradient")

    def _flags(self, value: Value, view: StridedView) -> dict[str, bool]:
        match value:
            case Reduce(function=function, argument=(content, "Dict[str, bool]")) if (
                function == _TAG
            ):
                value = content
        if not isinstance(value, dict):
            self._malformed("the flags of a tensor are not a dict")
        for name, flag in value.items():
            if name not in ("conj", "neg") or type(flag) is not bool:
                self._malformed("a tensor has flags that are not conj and neg")
        if value.get("conj") and not view.storage.dtype.startswith("complex"):
            self._malformed(f"a tensor of {view.storage.dtype} is conjugated")
        return {str(name): True for name, flag in value.items() if flag}

    def _quantizer(self, quantizer: tuple[Value, ...], view: StridedView) -> PerTensor | PerChannel:
        match quantizer:
            case (Global("torch", "per_tensor_affine"), float(scale), int(zero_point)) if (
                type(zero_point) is int
            ):
                return PerTensor(scale, zero_point)
            case (Global("torch", name), scales, zero_points, int(axis)) if (
                name in _PER_CHANNEL and type(axis) is int
            ):
                if not 0 <= axis < len(view.size):
                    message = f"a quantizer has axis {axis} of a tensor of size {view.size}"
                    self._fail("tensor-quantizer", message, Nature.HOSTILE)
                channels = view.size[axis]
                return PerChannel(
                    self._by_channel(scales, channels, view),
                    self._by_channel(zero_points, channels, view),
                    axis,
                )
        self._fail("tensor-quantizer", "a quantizer is malformed")

    def _by_channel(self, numbers: Value, channels: int, view: StridedView) -> Any:
        """Check per-channel scales or zero points: torch does not check their number."""
        items = _list_of_numbers(numbers)
        held = None if items is None else (len(items),)
        size = held or self._part(numbers, view.storage.device).size
        if size != (channels,):
            message = f"a quantizer of {channels} channels has numbers of size {size}"
            self._fail("tensor-quantizer", message, Nature.HOSTILE)
        return numbers if items is None else items

    def _part(self, value: Value, device: str | None) -> StridedView:
        """Parse a dense tensor inside another: torch reads all of it, so it must be complete."""
        if not isinstance(value, Reduce) or value.function != _DENSE:
            self._malformed("a part of a tensor is not a dense tensor")
        if not isinstance(value.argument, tuple):
            self._malformed("a part of a tensor is not given a tuple of arguments")
        view = self._dense(value.argument).view
        if view.storage.is_meta or device not in (None, view.storage.device):
            self._malformed("the parts of a tensor are on several devices, or without data")
        if view.elements > view.storage.elements:
            self._fail("tensor-part", "a part of a tensor is larger than its storage")
        return view

    def _malformed(self, message: str) -> NoReturn:
        self._fail("tensor-arguments", message)

    def _fail(self, rule: str, message: str, nature: Nature = Nature.BROKEN) -> NoReturn:
        raise TensorError(rule, nature, message, self.record)


_READERS: dict[str, Callable[[StoredTensors, tuple[Value, ...]], StoredTensor]] = {
    _DENSE.name: StoredTensors._dense,
    "_rebuild_qtensor": StoredTensors._quantized,
    "_rebuild_sparse_tensor": StoredTensors._sparse,
    _PARAMETER: StoredTensors._parameter,
}


def tensor_findings(
    value: Value,
    *,
    record: str,
    storage_size: Callable[[str], int | None],
    offset_of: Callable[[str], int | None] = lambda key: None,
    in_doubt: Callable[[str], bool] = lambda key: False,
) -> Iterator[Finding]:
    """Return the findings about the tensors and storages below ``value``.

    ``record`` is the pickle that it was read from; ``storage_size`` maps the key of a storage to
    the size of its record in bytes, None where there is none; ``offset_of`` gives the offset of
    that key in the pickle, ``in_doubt`` whether that record may be damaged. Each shared value is
    checked once.
    """
    stored = StoredTensors(record)
    for found in reachable(value):
        key = _key_of(found)
        for finding in _findings_of(found, stored, storage_size):
            if key is None:
                yield finding
                continue
            if finding.rule == STORAGE_SIZE and in_doubt(key):
                finding = replace(finding, nature=Nature.INCONSISTENT)
            yield replace(finding, offset=offset_of(key))


def _findings_of(
    found: Value, stored: StoredTensors, storage_size: Callable[[str], int | None]
) -> Iterator[Finding]:
    record = stored.record
    try:
        if isinstance(found, PersistentId):
            yield from _storage_findings(stored.storage(found), record, storage_size)
        elif isinstance(found, Reduce) and is_tensor(found):
            yield from _unusual(stored.tensor(plain_tensor(found, record)), record)
    except TensorError as error:
        yield Finding(error.rule, Severity.ERROR, error.nature, error.message, record)


def _key_of(value: Value) -> str | None:
    """Return the key of a storage, or of a tensor's storage."""
    match value:
        case PersistentId(value=(_, _, str(key), *_)):
            return key
        case Reduce(argument=(PersistentId() as storage, *_)):
            return _key_of(storage)
    return None


def is_tensor(value: Reduce) -> bool:
    """Return whether ``value`` is meant to be a tensor, sound or not."""
    return value.function.module == TENSOR_MODULE or value.function == _FROM_TYPE


def is_dense(value: Reduce) -> bool:
    """Return whether ``value`` is meant to be nothing but a view of a storage."""
    return value.function == _DENSE


def is_packed(value: Reduce) -> bool:
    """Return whether elements of a tensor share a byte, which torch writes and does not read."""
    match value.argument:
        case (PersistentId(value=("storage", Global("torch", kind), *_)), *_):
            return kind in _PACKED_KINDS
    return False


def plain_tensor(value: Reduce, record: str) -> Reduce:
    """Unwrap a tensor of a subclass to the plain one inside, which torch.jit loads as well."""
    if value.function.module == TENSOR_MODULE or value.function != _FROM_TYPE:
        return value
    match value.argument:
        case (Global(module) as function, Global(), tuple(arguments), _state) if (
            module == TENSOR_MODULE
        ):
            return Reduce(function, arguments)
    message = "a tensor subclass is malformed"
    raise TensorError("tensor-arguments", Nature.BROKEN, message, record)


def _storage_findings(
    storage: StoredStorage, record: str, storage_size: Callable[[str], int | None]
) -> Iterator[Finding]:
    size = storage_size(storage.key)
    if size is None:
        if storage.elements and not storage.is_meta:
            message = f"the archive has no record for storage {storage.key}"
            yield Finding("tensor-storage-missing", Severity.ERROR, Nature.BROKEN, message, record)
    elif size or record.rpartition("/")[2] != _WITHOUT_DATA:
        check_record_size(storage, size, record)


def _unusual(tensor: StoredTensor, record: str) -> Iterator[Finding]:
    if not isinstance(tensor, DenseTensor | QuantizedTensor):
        return
    view = tensor.view
    if view.elements and view.may_overlap:
        message = f"elements of a tensor of size {view.size} and stride {view.stride} overlap"
        yield Finding("tensor-overlap", Severity.INFO, Nature.UNUSUAL, message, record)
    if not view.elements and view.offset > view.storage.elements:
        message = f"an empty tensor begins at element {view.offset} of {view.storage.elements}"
        yield Finding("tensor-offset", Severity.INFO, Nature.UNUSUAL, message, record)


def _is_key(key: str) -> bool:
    """Return whether a key is a path below its folder that cannot leave it."""
    return (
        len(key) <= MAX_KEY
        and key.isprintable()
        and "\\" not in key
        and all(part not in ("", ".", "..") for part in key.split("/"))
    )


def _is_quantized(dtype: str) -> bool:
    return dtype.startswith(("qint", "quint"))


def _is_hooks(value: Value) -> bool:
    """Return whether a value is the empty dict of backward hooks; archives have none."""
    if value is None:
        return True
    return isinstance(value, Reduce) and value.argument == () and value.function == _HOOKS


def _list_of_numbers(value: Value) -> list[Any] | None:
    """Return a list of numbers as version 1 wrote it; None for anything else."""
    match value:
        case Reduce(function=Global("torch.jit._pickle", name), argument=(items,)) if (
            name in _LISTS
        ):
            value = items
    is_list = isinstance(value, list) and all(type(item) in (int, float) for item in value)
    return value if is_list else None  # type: ignore[return-value]


# The rule for a storage whose record has another size.
STORAGE_SIZE = "tensor-storage-size"
# Device indices are signed bytes in torch: 256 would be read as 0.
MAX_DEVICE_INDEX = 127

_LONGEST_DEVICE = 36
_DEVICE = r"([a-z][a-z0-9_]{0,31})(?::(0|[1-9][0-9]{0,2}))?"


class TensorError(PickleError):
    """A PickleError with the rule that was broken, and what the breach says of the file."""

    def __init__(self, rule: str, nature: Nature, message: str, record: str) -> None:
        super().__init__(message, record=record)
        self.rule = rule
        self.nature = nature


class StoredStorage(NamedTuple):
    """A storage that a pickle refers to: ``elements`` of type ``kind`` in record ``key``."""

    key: str
    kind: str
    device: str
    elements: int

    @property
    def dtype(self) -> str:
        return STORAGE_TYPES[self.kind].dtype

    @property
    def nbytes(self) -> int:
        return self.elements * STORAGE_TYPES[self.kind].itemsize

    @property
    def is_meta(self) -> bool:
        """True if it has a size but no data."""
        return self.device.startswith("meta") and self.device[4:5] in ("", ":")


class StridedView(NamedTuple):
    """The elements of a storage that a tensor shows; ``offset`` and ``stride`` count elements."""

    storage: StoredStorage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of elements of the tensor."""
        return prod(self.size)

    @property
    def last(self) -> int:
        """The index of the last element in the storage, for nonempty views."""
        last = self.offset
        for length, step in zip(self.size, self.stride, strict=True):
            last += (length - 1) * step
        return last

    @property
    def may_overlap(self) -> bool:
        """True if two elements may share a place of the storage, as in an expanded tensor."""
        reach = 0
        for step, length in sorted(zip(self.stride, self.size, strict=True)):
            if length > 1:
                if step <= reach:
                    return True
                reach += (length - 1) * step
        return False


class PerTensor(NamedTuple):
    """One scale and zero point for all elements."""

    scale: float
    zero_point: int


class PerChannel(NamedTuple):
    """A scale and zero point for each index of ``axis``: tensors, or lists in version 1."""

    scales: Reduce | list[float]
    zero_points: Reduce | list[int]
    axis: int


class DenseTensor(NamedTuple):
    """A dense tensor. ``flags`` holds ``conj`` and ``neg`` where they are set."""

    view: StridedView
    requires_grad: bool
    flags: dict[str, bool]


class QuantizedTensor(NamedTuple):
    view: StridedView
    quantizer: PerTensor | PerChannel


class SparseTensor(NamedTuple):
    """A sparse tensor.

    ``parts`` are dense: indices and values of COO; rows, columns and values of CSR.
    """

    layout: str
    size: tuple[int, ...]
    parts: tuple[Reduce, ...]
    requires_grad: bool


class Wrapped(NamedTuple):
    """A tensor wrapped in another, such as a parameter. ``requires_grad`` replaces its own."""

    tensor: Reduce
    requires_grad: bool


StoredTensor: TypeAlias = DenseTensor | QuantizedTensor | SparseTensor | Wrapped


def is_device(text: str) -> bool:
    """Return whether ``text`` has the form of a device; torch decides which types exist."""
    return text == "cpu" or (len(text) <= _LONGEST_DEVICE and _is_device(text))


@lru_cache(maxsize=64)
def _is_device(text: str) -> bool:
    found = re.fullmatch(_DEVICE, text)
    return found is not None and int(found[2] or 0) <= MAX_DEVICE_INDEX


def check_record_size(storage: StoredStorage, size: int, record: str) -> None:
    """Raise TensorError unless a record of ``size`` bytes holds exactly the storage.

    A record that torch writes may end in less than an element: a storage of another type has that
    many bytes more.
    """
    if storage.is_meta:
        return
    itemsize = STORAGE_TYPES[storage.kind].itemsize
    if not 0 <= size - storage.elements * itemsize < itemsize:
        message = (
            f"storage {storage.key} holds {size} bytes where its reference claims {storage.nbytes}"
        )
        raise TensorError(STORAGE_SIZE, Nature.HOSTILE, message, record)
