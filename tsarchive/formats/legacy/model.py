"""The contents of ``model.json``: the table of tensors, and the modules with their parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.pickler.storage_types import STORAGE_TYPES

from .fields import Fields

MODEL = "model.json"
# 6 was never released: its modules are in a data.pkl beside the table of tensors.
NEWEST_READ = 5
# From this version on, values of attributes are in attributes.pkl.
FIRST_WITH_ATTRIBUTES = 2
# Deeper than any model; only a file made to exhaust the stack has more.
MAX_DEPTH = 100
MAX_MODULES = 100_000

# Caffe2's names and numbers of element types, with the corresponding storages of torch.
_DATA_TYPES = {
    ("FLOAT", 1): "FloatStorage",
    ("INT32", 2): "IntStorage",
    ("BYTE", 3): "ByteStorage",
    ("BOOL", 5): "BoolStorage",
    ("UINT8", 6): "ByteStorage",
    ("INT8", 7): "CharStorage",
    ("INT16", 9): "ShortStorage",
    ("INT64", 10): "LongStorage",
    ("FLOAT16", 12): "HalfStorage",
    ("DOUBLE", 13): "DoubleStorage",
}
_STORAGES: dict[Any, str] = {key: kind for keys, kind in _DATA_TYPES.items() for key in keys}
_QUANTIZED = {
    "ByteStorage": "QUInt8Storage", "CharStorage": "QInt8Storage", "IntStorage": "QInt32Storage",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantizer:
    """One scale and zero point for all elements."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class TensorDef:
    """An entry of the table of tensors: a view of the storage in ``record``.

    ``storage`` is the name of its type in torch; ``offset`` and ``strides`` count elements.
    """

    record: str
    storage: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    requires_grad: bool
    device: str
    quantizer: Quantizer | None

    @property
    def itemsize(self) -> int:
        return STORAGE_TYPES[self.storage].itemsize


@dataclass(frozen=True, slots=True)
class ParameterDef:
    """A parameter or buffer; ``tensor`` is its index in the table of tensors."""

    name: str
    tensor: int
    is_buffer: bool


@dataclass(frozen=True, slots=True)
class AttributeDef:
    """An attribute; ``value`` indexes attributes.pkl, None where ``__setstate__`` sets it."""

    name: str
    type: str
    value: int | None


@dataclass(frozen=True, slots=True)
class ModuleDef:
    """A module.

    ``code`` is the record of its methods, ``debug`` that of their sources, ``state`` the index of
    the argument of ``__setstate__`` in attributes.pkl; each is None when there is none.
    """

    name: str
    submodules: tuple[ModuleDef, ...]
    parameters: tuple[ParameterDef, ...]
    attributes: tuple[AttributeDef, ...]
    code: str | None
    debug: str | None
    state: int | None


@dataclass(frozen=True, slots=True)
class Model:
    version: int
    main: ModuleDef
    tensors: tuple[TensorDef, ...]


def read_model(data: bytes) -> Model:
    """Parse ``model.json``.

    Raises FormatError, naming the field, where it breaks a rule, and UnsupportedError for a version
    that no release of torch wrote.
    """
    fields = Fields.parse(data, MODEL)
    version = fields.integer("protoVersion")
    if not 0 <= version <= NEWEST_READ:
        raise UnsupportedError(
            f"the model has protoVersion {version}; up to {NEWEST_READ} are known",
            record=MODEL,
            limit=NEWEST_READ,
        )
    if not fields.has("mainModule"):
        raise fields.error("mainModule", "is missing")
    tensors = tuple([_tensor(entry) for entry in fields.messages("tensors")])
    main = _Modules(len(tensors)).module(fields.message("mainModule"), 1)
    return Model(version, main, tensors)


def _tensor(fields: Fields) -> TensorDef:
    storage = fields.choice("dataType", _STORAGES.get, "element type of tensors")
    quantizer = None
    if fields.flag("isQuantized"):
        quantizer = Quantizer(fields.number("scale"), fields.integer("zeroPoint"))
        if storage not in _QUANTIZED:
            raise fields.error("dataType", "is one that cannot be quantized")
        storage = _QUANTIZED[storage]
    found = TensorDef(
        _record(fields, "data"),
        storage,
        fields.integers("dims"),
        fields.integers("strides"),
        fields.integer("offset"),
        fields.flag("requiresGrad"),
        fields.text("device"),
        quantizer,
    )
    _check(fields, found)
    return found


def _check(fields: Fields, tensor: TensorDef) -> None:
    if not tensor.device:
        raise fields.error("device", "is missing")
    if len(tensor.shape) != len(tensor.strides):
        raise fields.error("strides", f"has {len(tensor.strides)} entries for {tensor.shape}")
    if min((*tensor.shape, *tensor.strides, tensor.offset)) < 0:
        raise fields.error("dims", "or strides or offset is negative")


def debug_records(module: ModuleDef) -> Iterator[tuple[str, str]]:
    """Yield the code record of each module with its debug record."""
    if module.code is not None and module.debug is not None:
        yield module.code, module.debug
    for submodule in module.submodules:
        yield from debug_records(submodule)


class _Modules:
    """Reads modules, bounding their number."""

    def __init__(self, tensors: int) -> None:
        self._tensors = tensors
        self._count = 0

    def module(self, fields: Fields, depth: int) -> ModuleDef:
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_MODULES:
            limit = MAX_DEPTH if depth > MAX_DEPTH else MAX_MODULES
            raise FormatError("too many modules, or nested too deeply", record=MODEL, limit=limit)
        return ModuleDef(
            fields.text("name"),
            tuple([self.module(sub, depth + 1) for sub in fields.messages("submodules")]),
            tuple([self._parameter(entry) for entry in fields.messages("parameters")]),
            tuple([_attribute(entry) for entry in fields.messages("attributes")]),
            _key(fields, "torchscriptArena"),
            _key(fields, "torchscriptDebugArena"),
            fields.integer("getStateAttributeId") if fields.has("getStateAttributeId") else None,
        )

    def _parameter(self, fields: Fields) -> ParameterDef:
        number = fields.integer("tensorId")
        if not 0 <= number < self._tensors:
            raise fields.error("tensorId", f"is {number}, but there are {self._tensors} tensors")
        return ParameterDef(fields.text("name"), number, fields.flag("isBuffer"))


def _attribute(fields: Fields) -> AttributeDef:
    place = fields.integer("id")
    return AttributeDef(fields.text("name"), fields.text("type"), None if place < 0 else place)


def _key(fields: Fields, name: str) -> str | None:
    return _record(fields, name) if fields.has(name) else None


def _record(fields: Fields, name: str) -> str:
    record = fields.message(name).text("key")
    if not record:
        raise fields.error(f"{name}.key", "is missing")
    return record
