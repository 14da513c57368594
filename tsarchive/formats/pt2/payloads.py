"""Weights and constants of a model in every layout: location and description, checked but not read.

Numbers are checked as unbounded integers against the size of their record, before torch sees any.
Files of ``torch.save`` are read without unpickling; machine code of AOTInductor is described and
never loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from math import prod
from typing import Any, TypeAlias, TypeGuard

from tsarchive.container import Container
from tsarchive.describing.exported import Compiled
from tsarchive.errors import ArchiveError, FormatError, MissingRecordError, PickleError
from tsarchive.formats.torchscript.stored_tensors import (
    MAX_BYTES,
    MAX_RANK,
    TENSOR_MODULE,
    DenseTensor,
    StoredStorage,
    StoredTensor,
    StoredTensors,
    Wrapped,
    check_record_size,
    is_device,
)
from tsarchive.pickler import Global, MarkedTuple, Object, Reduce, Value, loads
from tsarchive.strict_json import parse_object

from . import schema
from .records import AOTINDUCTOR, OBJECTS, OPAQUE_OBJECT, WEIGHTS, Layout, Records, config_name

_PICKLE = "data.pkl"
_ORDERED_DICT = Global("collections", "OrderedDict")
_HINT = "It is a file of torch.save, which 'tsarchive audit' looks into"


class Saved:
    """A ``torch.save`` file in one record. Errors name the record and the record inside it."""

    def __init__(self, container: Container, record: str) -> None:
        """Open the record. Raises what ``Container.inside`` raises."""
        self.record = record
        self._pickle = f"{record}/{_PICKLE}"
        self._tensors = StoredTensors(self._pickle)
        try:
            self.container = container.inside(record)
        except ArchiveError as error:
            raise _placed(error, record) from None

    @cached_property
    def root(self) -> Value:
        """The value that was saved, as the restricted reader gives it. Raises PickleError."""
        try:
            data = self.container.read(_PICKLE)
        except ArchiveError as error:
            raise _placed(error, self.record) from None
        try:
            found = loads(data, record=self._pickle)
        except PickleError as error:
            error.hint = error.hint or _HINT
            raise
        # States of before torch 2.3 are no plain dicts.
        is_ordered = isinstance(found, Reduce) and found.function == _ORDERED_DICT
        return found.items or {} if isinstance(found, Reduce) and is_ordered else found

    def tensor(self, value: Reduce) -> StoredTensor:
        """Return a tensor in ``root`` whose bounds fit its storage. Raises TensorError."""
        return self._tensors.tensor(value)

    def check_storage(self, storage: StoredStorage) -> str:
        """Return the inner record that holds a storage.

        Raises MissingRecordError when there is none, TensorError when its size differs.
        """
        name = f"data/{storage.key}"
        size = self.container.size(name)
        if size is not None:
            check_record_size(storage, size, self._pickle)
        elif storage.elements and not storage.is_meta:
            raise MissingRecordError(
                "a tensor refers to a storage that is not there", record=f"{self.record}/{name}"
            )
        return name


def _placed(error: ArchiveError, record: str) -> ArchiveError:
    """Prefix record names of an error from the inner container with ``record``."""
    error.record = record if error.record is None else f"{record}/{error.record}"
    return error


_DENSE = "_rebuild_tensor_v2"
_PARAMETER = "_rebuild_parameter"
_WITH_STATE = "_rebuild_parameter_with_state"


@dataclass(frozen=True, slots=True)
class Storage:
    """The bytes that tensors are views of.

    ``name`` is that of the record, prefixed by the name of the record that contains it where that
    is a file of ``torch.save``; ``nbytes`` is its size. Tensors that share a storage have equal
    ones.
    """

    name: str
    nbytes: int
    _container: Container = field(repr=False, compare=False)
    _record: str = field(repr=False, compare=False)

    @property
    def place(self) -> tuple[Container, str]:
        """The container of the record, and its name there."""
        return self._container, self._record

    def data(self) -> memoryview:
        """Return the bytes, as ``Container.view`` does."""
        return self._container.view(self._record)

    def begins_with(self, start: bytes) -> bool:
        """Return whether the bytes are read and begin so. Raises what ``data`` raises."""
        return not self._container.is_sparing and self.data()[: len(start)] == start


@dataclass(frozen=True, slots=True)
class StoredView:
    """A dense tensor; ``strides`` and ``offset`` count elements.

    Unless ``has_data``, only its description is stored, as for fake tensors: torch loads zeros.
    Otherwise every element lies in the storage.
    """

    storage: Storage
    dtype: schema.ScalarType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_parameter: bool
    requires_grad: bool
    device: str
    layout: schema.Layout
    has_data: bool

    @property
    def nbytes(self) -> int:
        """The size in bytes of the tensor's elements, not of the storage."""
        return prod(self.shape) * schema.DTYPES[self.dtype].itemsize


class Kind(Enum):
    """The kind of a pickled payload."""

    TENSOR = "tensor"
    CUSTOM_OBJECT = "custom object"
    OPAQUE_OBJECT = "opaque object"


@dataclass(frozen=True, slots=True)
class PickledPayload:
    """A payload that only a pickle describes: a tensor of a subclass, or an object.

    It is not unpickled. ``class_name`` is the class that the pickle names, None where the
    restricted reader cannot tell. ``meta`` is the configuration's description of a tensor.
    """

    record: str
    kind: Kind
    class_name: str | None
    is_parameter: bool
    meta: schema.TensorMeta | None


Payload: TypeAlias = StoredView | PickledPayload


def stored_payloads(records: Records, folder: str, model: str) -> dict[str, Payload]:
    """Return the weights or the constants of a model.

    Weights are parameters and persistent buffers; constants are tensor constants, other buffers,
    and objects. Raises MissingRecordError where a record is missing, FormatError where one is
    smaller than its description or breaks another rule, PickleError for a pickle that the
    restricted reader refuses.
    """
    whole = records.whole_record(folder, model)
    if whole is None and records.layout is Layout.FLAT:
        return {}
    if whole is not None:
        return dict(_saved_payloads(Saved(records.container, whole)))
    record = config_name(folder, model)
    reader = Configured(records.container, folder, record)
    described = records.payload_config(record).config
    return {name: reader.payload(name, meta) for name, meta in described.items()}


# Payloads that a configuration describes


class Configured:
    """Checks descriptions in the configuration ``record`` of records in ``folder``, one by one."""

    def __init__(self, container: Container, folder: str, record: str) -> None:
        self.container = container
        self.folder = folder
        self.record = record
        self.dtypes: dict[str, schema.ScalarType] = {}

    def payload(self, name: str, meta: schema.PayloadMeta) -> Payload:
        """Return a checked payload. Raises what ``stored_payloads`` raises."""
        path = f"{self.folder}{meta.path_name}"
        size = self.container.size(path)
        if size is None:
            raise MissingRecordError(
                f"the record of {name!r} is not there",
                record=path,
                hint=f"{self.record} names it: download or copy the archive again",
            )
        if meta.path_name.startswith(OBJECTS):
            return self._object(path, meta)
        if meta.use_pickle:
            saved, root = _open_readable(self.container, path)
            view = None if saved is None else _view_of(saved, root)
            class_name = None if saved is None else _class_name(root)
            return view or PickledPayload(
                path, Kind.TENSOR, class_name, meta.is_param, meta.tensor_meta
            )
        if meta.tensor_meta is None:
            raise FormatError(f"{name!r} has no tensor_meta", record=self.record)
        return self._raw(name, path, size, meta.is_param, meta.tensor_meta)

    def _raw(
        self, name: str, path: str, size: int, is_parameter: bool, meta: schema.TensorMeta
    ) -> StoredView:
        try:
            _check_meta(meta)
            shape, strides = _numbers("size", meta.sizes), _numbers("stride", meta.strides)
            (offset,) = _numbers("offset", [meta.storage_offset])
            # Empty records may serve tensors of many types.
            if size and self.dtypes.setdefault(path, meta.dtype) != meta.dtype:
                raise FormatError(f"{path} holds elements of another type as well")
            check_bounds(shape, strides, offset, size, schema.DTYPES[meta.dtype].itemsize)
        except FormatError as error:
            raise FormatError(f"{name!r}: {error.message}", record=self.record) from None
        return StoredView(
            storage=Storage(path, size, self.container, path),
            dtype=meta.dtype,
            shape=shape,
            strides=strides,
            offset=offset,
            is_parameter=is_parameter,
            requires_grad=meta.requires_grad,
            device=schema.device_name(meta.device),
            layout=meta.layout,
            has_data=bool(size or not prod(shape)),
        )

    def _object(self, path: str, meta: schema.PayloadMeta) -> PickledPayload:
        class_name = None
        if meta.path_name.startswith(OPAQUE_OBJECT):
            kind = Kind.OPAQUE_OBJECT
            # The restricted reader may refuse its form.
            with suppress(PickleError):
                class_name = _class_name(loads(self.container.read(path), record=path))
        else:
            kind = Kind.CUSTOM_OBJECT
            saved, root = _open_readable(self.container, path)
            class_name = None if saved is None else _class_name(root)
        return PickledPayload(path, kind, class_name, meta.is_param, None)


def _check_meta(meta: schema.TensorMeta) -> None:
    if meta.dtype not in schema.DTYPES:
        raise FormatError("the type of its elements is unknown")
    if meta.layout != schema.Layout.STRIDED:
        raise FormatError(f"it is of layout {meta.layout.name.lower()}, which no record holds")
    if not is_device(schema.device_name(meta.device)):
        raise FormatError(f"unknown device {schema.device_name(meta.device)[:100]!r}")
    is_continuous = schema.DTYPES[meta.dtype].dtype.startswith(("float", "bfloat", "complex"))
    if meta.requires_grad and not is_continuous:
        raise FormatError(f"a tensor of {schema.DTYPES[meta.dtype].dtype} requires a gradient")


def _numbers(what: str, symbols: Sequence[schema.SymInt]) -> tuple[int, ...]:
    if len(symbols) > MAX_RANK:
        raise FormatError(f"it has {len(symbols)} dimensions, more than {MAX_RANK}")
    for symbol in symbols:
        if symbol.tag != "as_int" or not 0 <= symbol.value <= MAX_BYTES:
            raise FormatError(f"its {what} has an entry that is no size")
    return tuple(symbol.value for symbol in symbols)


def check_bounds(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, nbytes: int, itemsize: int
) -> None:
    """Raise FormatError unless every element is in a record of ``nbytes``.

    A record without bytes serves tensors of any size, which have no data.
    """
    if len(shape) != len(strides):
        raise FormatError(f"it has the sizes {list(shape)} and the strides {list(strides)}")
    elements = prod(shape)
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    # torch multiplies sizes one by one, and may overflow before it meets a zero.
    reach = max(prod(n or 1 for n in shape), offset, last)
    if reach * itemsize > MAX_BYTES:
        raise FormatError("it is beyond what memory can hold")
    if elements and nbytes and (last + 1) * itemsize > nbytes:
        raise FormatError(
            f"a tensor of size {shape} and stride {strides} reaches element {last} "
            f"of {nbytes // itemsize}"
        )


# Payloads in files of torch.save


def _saved_payloads(saved: Saved) -> Iterator[tuple[str, Payload]]:
    """Yield the values of a dict that ``torch.save`` wrote."""
    if not isinstance(saved.root, dict):
        raise FormatError("the record does not hold a dict", record=saved.record)
    for name, value in saved.root.items():
        if not isinstance(name, str):
            raise FormatError("a name is not a string", record=saved.record)
        yield name, saved_payload(saved, value)


def saved_payload(saved: Saved, value: Value) -> Payload:
    """Describe a value of such a dict. Raises TensorError and MissingRecordError."""
    view = _view_of(saved, value)
    if view is not None:
        return view
    module = value.function.module if isinstance(value, Reduce) else None
    is_tensor = module in (TENSOR_MODULE, "torch._tensor")
    kind = Kind.TENSOR if is_tensor else Kind.CUSTOM_OBJECT
    return PickledPayload(saved.record, kind, _class_name(value), False, None)


def _open_readable(container: Container, path: str) -> tuple[Saved | None, Value]:
    """Return a file of ``torch.save`` and its value.

    None for both where the restricted reader refuses it, as for objects that need their class.
    """
    try:
        saved = Saved(container, path)
        return saved, saved.root
    except ArchiveError:
        return None, None


def _view_of(saved: Saved, value: Value) -> StoredView | None:
    """Return a dense tensor; None for other values. Raises TensorError for an invalid one."""
    value = _without_notes(value)
    if not _is_call(value, _PARAMETER, _DENSE):
        return None
    found = saved.tensor(value)
    if not isinstance(found, Wrapped):
        return _dense(saved, found, is_parameter=False, requires_grad=None)
    if not _is_call(found.tensor, _DENSE):
        return None
    dense = saved.tensor(found.tensor)
    return _dense(saved, dense, is_parameter=True, requires_grad=found.requires_grad)


def _without_notes(value: Value) -> Value:
    """Strip the attributes that Dynamo of torch 2.7 and before leaves on parameters."""
    if not _is_call(value, _WITH_STATE):
        return value
    match value.argument:
        case (tensor, needs_grad, hooks, dict(notes)) if all(
            isinstance(name, str) and name.startswith("_dynamo_") for name in notes
        ):
            plain = MarkedTuple((tensor, needs_grad, hooks))
            return Reduce(Global(TENSOR_MODULE, _PARAMETER), plain)
    return value


def _is_call(value: Value, *functions: str) -> TypeGuard[Reduce]:
    if not isinstance(value, Reduce) or value.function.module != TENSOR_MODULE:
        return False
    return value.function.name in functions


def _dense(
    saved: Saved, found: StoredTensor, *, is_parameter: bool, requires_grad: bool | None
) -> StoredView | None:
    """Describe a tensor; ``requires_grad`` is the parameter's, None for the tensor's own."""
    if not isinstance(found, DenseTensor) or found.flags:
        return None
    view, grad = found.view, found.requires_grad if requires_grad is None else requires_grad
    dtype = schema.SCALAR_TYPES.get(view.storage.dtype)
    if dtype is None:
        return None
    inside = saved.check_storage(view.storage)
    name, nbytes = f"{saved.record}/{inside}", saved.container.size(inside) or 0
    return StoredView(
        storage=Storage(name, nbytes, saved.container, inside),
        dtype=dtype,
        shape=view.size,
        strides=view.stride,
        offset=view.offset,
        is_parameter=is_parameter,
        requires_grad=grad,
        device=view.storage.device,
        layout=schema.Layout.STRIDED,
        has_data=not view.storage.is_meta,
    )


# What pickles name


def _class_name(value: Value) -> str | None:
    """Return the class of a pickled value, if the pickle names it."""
    match value:
        case Object(cls):
            return cls.qualified_name
        case Reduce(function, (_, cls, *_)) if function.name == "_rebuild_from_type_v2":
            return getattr(cls, "qualified_name", None)
        case Reduce(function):
            return function.qualified_name
    return type(value).__name__


_METADATA = "_metadata.json"
_WEIGHTS = "weights_config.json"


def compiled(records: Records, model: str) -> Compiled:
    """Return a model compiled by AOTInductor. Raises FormatError for malformed JSON."""
    folder = f"{AOTINDUCTOR}{model}/"
    names = list(records.under(folder))
    metadata: dict[str, str] = {}
    weights = 0
    for name in names:
        if name.endswith(_METADATA):
            values = parse_object(records.container.read(name), name)
            metadata |= {key: _text(value) for key, value in values.items()}
        elif name == f"{folder}{_WEIGHTS}":
            weights = len(parse_object(records.container.read(name), name))
    files = {name.removeprefix(folder): records.container.records[name].size for name in names}
    return Compiled(model, files, metadata, weights)


def stored_weights(records: Records, model: str) -> dict[str, Payload]:
    """Return the weights stored beside the code by name; none where the code contains them.

    Raises MissingRecordError where a record is missing, FormatError for JSON of another form and
    for a weight that reaches beyond its record, PickleError for a malformed file of torch.save.
    """
    record = f"{AOTINDUCTOR}{model}/{_WEIGHTS}"
    if not records.has(record):
        return {}
    described = parse_object(records.container.read(record), record)
    return {name: _weight(records, record, name, values) for name, values in described.items()}


def _weight(records: Records, record: str, name: str, described: Any) -> Payload:
    match described:
        case [str(file), [*shape], [*strides], offset] if _are_sizes(*shape, *strides, offset):
            saved = Saved(records.container, f"{WEIGHTS}{file}")
            whole = saved_payload(saved, saved.root)
        case _:
            message = f"the weight {name[:100]!r} is not a file, shape, strides and an offset"
            raise FormatError(message, record=record)
    if not isinstance(whole, StoredView):
        return whole
    itemsize = schema.DTYPES[whole.dtype].itemsize
    try:
        check_bounds(tuple(shape), tuple(strides), offset, whole.storage.nbytes, itemsize)
    except FormatError as error:
        raise FormatError(f"{name[:100]!r}: {error.message}", record=record) from None
    return replace(whole, shape=tuple(shape), strides=tuple(strides), offset=offset)


def _are_sizes(*numbers: Any) -> bool:
    return len(numbers) <= 2 * MAX_RANK + 1 and all(
        type(number) is int and 0 <= number <= MAX_BYTES for number in numbers
    )


def weight_records(records: Records, record: str) -> frozenset[str]:
    """Return the torch.save records that a JSON record beside compiled code names as weights.

    Raises FormatError if it is not JSON, or describes weights in another way.
    """
    values = parse_object(records.container.read(record), record)
    if not record.endswith(f"/{_WEIGHTS}"):
        return frozenset()
    found = set()
    for name, described in values.items():
        match described:
            case [str(file), *_]:
                found.add(f"{WEIGHTS}{file}")
            case _:
                raise FormatError(f"the weight {name[:100]!r} has no file", record=record)
    return frozenset(found)


def _text(value: Any) -> str:
    """Return a string or number as text; of any other value, its type."""
    return str(value) if isinstance(value, str | int | float) else type(value).__name__
