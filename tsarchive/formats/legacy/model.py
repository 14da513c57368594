"""The contents of ``model.json``: the table of tensors, and the modules with their parts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.torchscript.stored_tensors import PerTensor
from tsarchive.pickler.values import STORAGE_TYPES
from tsarchive.strict_json import parse_object

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
    quantizer: PerTensor | None

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
    fields = Fields(parse_object(data, MODEL), "")
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
    storage = fields.storage("dataType")
    quantizer = None
    if fields.flag("isQuantized"):
        quantizer = PerTensor(fields.number("scale"), fields.integer("zeroPoint"))
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
    if not found.device:
        raise fields.error("device", "is missing")
    if len(found.shape) != len(found.strides):
        raise fields.error("strides", f"has {len(found.strides)} entries for {found.shape}")
    if min((*found.shape, *found.strides, found.offset)) < 0:
        raise fields.error("dims", "or strides or offset is negative")
    return found


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


Read = TypeVar("Read")

_INTEGER = re.compile(r"-?\d{1,19}")
_SNAKE = re.compile(r"[A-Z]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 60


class Fields:
    """The fields of one message; ``path`` is its path in the record."""

    def __init__(self, values: dict[str, Any], path: str) -> None:
        self._values = values
        self.path = path

    def error(self, name: str, message: str) -> FormatError:
        return FormatError(f"{self.path}{name} {message}", record=MODEL)

    def has(self, name: str) -> bool:
        return self._get(name) is not None

    def integer(self, name: str) -> int:
        value = self._get(name)
        return 0 if value is None else self._integer(name, value)

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(self._integer(name, value) for value in self._list(name))

    def number(self, name: str) -> float:
        value = self._get(name)
        if value is None:
            return 0.0
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if math.isnan(found):
            raise self.error(name, f"is {_shown(value)}, not a number")
        return found

    def text(self, name: str) -> str:
        found = self._typed(name, str, "", "a string")
        if _SURROGATE.search(found):
            raise self.error(name, "has half a surrogate pair")
        return found

    def flag(self, name: str) -> bool:
        return self._typed(name, bool, False, "true or false")

    def message(self, name: str) -> Fields:
        """Return a nested message; an empty one when it is absent."""
        values = self._typed(name, dict, {}, "an object")
        return Fields(values, f"{self.path}{name}.")

    def messages(self, name: str) -> list[Fields]:
        found = []
        for index, values in enumerate(self._list(name)):
            if not isinstance(values, dict):
                raise self.error(f"{name}[{index}]", f"is {_shown(values)}, not an object")
            found.append(Fields(values, f"{self.path}{name}[{index}]."))
        return found

    def storage(self, name: str) -> str:
        """Return the storage type for a type of elements, given by its name or number."""
        value = self._get(name)
        found = _STORAGES.get(value) if isinstance(value, str | int) else None
        if found is None:
            raise self.error(name, f"is {_shown(value)}, which is no element type of tensors")
        return found

    def _get(self, name: str) -> Any:
        value = self._values.get(name)
        if value is None:
            declared = _SNAKE.sub(lambda match: f"_{match[0].lower()}", name)
            value = self._values.get(declared)
        return value

    def _typed(self, name: str, type_: type[Read], default: Read, what: str) -> Read:
        value = self._get(name)
        if value is None:
            return default
        if not isinstance(value, type_):
            raise self.error(name, f"is {_shown(value)}, not {what}")
        return value

    def _list(self, name: str) -> list[Any]:
        return self._typed(name, list, [], "a list")

    def _integer(self, name: str, value: Any) -> int:
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise self.error(name, f"is {_shown(value)}, not an integer of 64 bits")
        return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
