"""Inspection of an archive from before torch 1.3, without torch: model.json, classes and values.

``model.json`` has the table of tensors and the modules with their parts, but no classes, so each
module gets its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tsarchive.container import Container
from tsarchive.errors import (
    INCOMPLETE,
    FormatError,
    MissingRecordError,
    PickleError,
    SourceError,
    UnsupportedError,
)
from tsarchive.formats.torchscript.code_records import CodeRecords
from tsarchive.formats.torchscript.debug_records import DebugRecords
from tsarchive.formats.torchscript.inspection import (
    PickledView,
    Root,
    constants_in,
    needs_of_all,
    signatures_of_code,
)
from tsarchive.formats.torchscript.pickled import Conversion, reachable
from tsarchive.formats.torchscript.stored_tensors import PerTensor, is_tensor
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.context import Dialect
from tsarchive.frontend.splitting import Piece, split_class, split_record
from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.names import untaken_name
from tsarchive.ir.types import BOOL, TENSOR, Type
from tsarchive.operators.removed import renamed
from tsarchive.operators.upgraders import (
    DTYPES,
    ELEMENT_DTYPES,
    ELEMENT_DTYPES_OF_1_1,
    FLAGS,
    FUNCTIONS,
    FUNCTIONS_OF_1_0,
    FUNCTIONS_OF_1_1,
    MASKS,
    RECORD,
    RENAMED,
    TEXT,
)
from tsarchive.pickler import Global, Object, PersistentId, Reduce, Value, loads
from tsarchive.pickler.values import STORAGE_TYPES
from tsarchive.strict_json import parse_object

if TYPE_CHECKING:
    from tsarchive.describing.contents import Needs


MODEL = "model.json"
# 6 was never released: its modules are in a data.pkl beside the table of tensors.
NEWEST_READ = 5
# Torch 1.0 wrote version 1, 1.1 version 3 and 1.2 version 5.
FIRST_OF_1_1 = 2
FIRST_OF_1_2 = 4
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


# The importers of these releases ignored ``op_version_set``; operators have their meaning before
# the first change that archives count.
OPERATOR_VERSION = 1
LIBRARIES = "libs"
OLD_NAMES: Final = {**RENAMED, **renamed()}
DIALECT = Dialect(
    folder=LIBRARIES,
    free_version=OPERATOR_VERSION - 1,
    functions=FUNCTIONS,
    renamed=OLD_NAMES,
    dtypes=DTYPES,
    element_dtypes=ELEMENT_DTYPES,
    masks=MASKS,
    flags=FLAGS,
)
CODE_FOLDERS = ("code/", f"{LIBRARIES}/")


DIALECT_OF_1_0 = DIALECT._replace(functions=FUNCTIONS_OF_1_0)
DIALECT_OF_1_1 = DIALECT._replace(functions=FUNCTIONS_OF_1_1, element_dtypes=ELEMENT_DTYPES_OF_1_1)


def dialect_of(model: Model) -> Dialect:
    """Return the dialect of the release that wrote a model: 1.0, 1.1 or 1.2."""
    if model.version < FIRST_OF_1_1:
        return DIALECT_OF_1_0
    return DIALECT_OF_1_1 if model.version < FIRST_OF_1_2 else DIALECT


# Present in torch.nn.Module, but in models of these releases only once it was changed.
_TRAINING = Attribute("training", BOOL)
_NOT_OF_A_NAME = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the model with its class and its submodules."""

    definition: ModuleDef
    class_: ClassType
    submodules: tuple[Module, ...]


def module_of(main: ModuleDef, code: CodeImporter, records: CodeRecords) -> Module:
    """Return the main module with its classes, which are registered with ``code``.

    Raises MissingRecordError for a module whose code is missing, SourceError for code other than
    methods, FormatError for a module that has two parts of one name.
    """
    return _Classes(code, records).module(main, "__torch__")


class _Classes:
    def __init__(self, code: CodeImporter, records: CodeRecords) -> None:
        self._code = code
        self._records = records
        self._taken = {
            name
            for record in records
            if record.startswith(LIBRARIES)
            for name in code.definitions(record)
        }

    def module(self, definition: ModuleDef, qualifier: str) -> Module:
        name = self._new_name(qualifier, definition.name)
        class_ = ClassType(name, is_module=True)
        inner = tuple([self.module(submodule, name) for submodule in definition.submodules])
        for module in inner:
            self._add(class_, Attribute(module.definition.name, module.class_))
        for parameter in definition.parameters:
            is_buffer = parameter.is_buffer
            self._add(class_, Attribute(parameter.name, TENSOR, not is_buffer, is_buffer))
        for attribute in definition.attributes:
            self._add_attribute(class_, attribute)
        if definition.code is not None:
            self._add_methods(class_, definition.code)
        if not class_.has_state_methods:  # otherwise __setstate__ sets everything
            class_.attributes.setdefault(_TRAINING.name, _TRAINING)
        self._code.add(class_)
        return Module(definition, class_, inner)

    def _new_name(self, qualifier: str, own: str) -> str:
        """Return a unique class name derived from the path of its module."""
        atom = _NOT_OF_A_NAME.sub("_", own)
        if not atom or atom[0].isdigit():
            atom = f"_{atom}"
        return untaken_name(f"{qualifier}.{atom}", self._taken)

    def _add(self, class_: ClassType, attribute: Attribute) -> None:
        if attribute.name in class_.attributes:
            raise FormatError(
                f"{class_.qualified_name} has two parts called {attribute.name!r}", record=MODEL
            )
        class_.attributes[attribute.name] = attribute

    def _add_attribute(self, class_: ClassType, definition: AttributeDef) -> None:
        known = class_.attributes.get(definition.name)
        if known is not None and known.is_buffer:
            return  # a buffer that is listed again among the attributes
        try:
            type_ = self._code.parse_type(definition.type)
        except SourceError as error:
            error.record = error.record or MODEL
            raise
        # Every tensor other than a parameter was a buffer.
        attribute = Attribute(definition.name, type_, is_buffer=type_ == TENSOR)
        self._add(class_, attribute)

    def _add_methods(self, class_: ClassType, record: str) -> None:
        if record not in self._records:
            raise MissingRecordError(
                f"the archive has no such record, which holds the methods of "
                f"{class_.qualified_name}",
                record=record,
                hint=INCOMPLETE,
            )
        for name, piece in _methods(self._records[record], record).items():
            class_.methods[name] = self._code.method(class_, piece, OPERATOR_VERSION)


def _methods(text: str, record: str) -> dict[str, Piece]:
    """Return the methods in the record of a module.

    They are top-level functions; in files from between two releases, they are in a class.
    """
    pieces = split_record(text, record)
    classes = [piece for piece in pieces.values() if piece.is_class]
    if not classes:
        return pieces
    if len(pieces) > 1:
        raise classes[0].fail("the code of a module holds methods, or one class")
    return split_class(classes[0]).methods


class RunnableRecords(CodeRecords):
    """Code records, including the functions that implement old operators."""

    def __getitem__(self, name: str) -> str:
        return TEXT if name == RECORD else super().__getitem__(name)


class LegacyView(PickledView):
    """An archive from before torch 1.3."""

    _record = MODEL

    @cached_property
    def model(self) -> Model:
        return read_model(self._container.read(MODEL))

    @property
    def format_version(self) -> int:
        """The version of ``model.json``; the version record is 1 in all these archives."""
        return self.model.version

    @cached_property
    def code(self) -> CodeRecords:
        return CodeRecords(self._container, CODE_FOLDERS)

    @cached_property
    def debug(self) -> DebugRecords:
        return DebugRecords(self._container, dict(debug_records(self.model.main)))

    @property
    def classes(self) -> CodeImporter:
        return self._main[1]

    @cached_property
    def _main(self) -> tuple[Module, CodeImporter]:
        """Return the main module, and the importer that knows its class."""
        dialect = dialect_of(self.model)
        classes = signatures_of_code(self.code, _no_constant, OPERATOR_VERSION, dialect=dialect)
        return module_of(self.model.main, classes, self.code), classes

    @cached_property
    def root(self) -> Object:
        """The main module as a pickle would describe it."""
        return described(self._main[0], self._values)

    @cached_property
    def _values(self) -> Values:
        return Values(self._container, self.model)

    def needs(self) -> Needs:
        """Return the needs of all of the code."""
        return needs_of_all(self.code, DIALECT.renamed)

    def _roots(self) -> Iterator[Root]:
        """Yield the root, and the rest of the tensor table, which holds the code's constants."""
        yield Root(MODEL, "", self.root)
        held = {id(value) for value in reachable(self.root)}
        for root in constants_in(self._values.table(), MODEL):
            if id(root.value) not in held:
                yield root


def described(module: Module, values: Values) -> Object:
    definition = module.definition
    state: dict[Value, Value] = {}
    for submodule in module.submodules:
        state[submodule.definition.name] = described(submodule, values)
    for parameter in definition.parameters:
        state[parameter.name] = values.tensor(parameter.tensor)
    for attribute in definition.attributes:
        if attribute.value is not None:
            state[attribute.name] = values.attribute(attribute.value)
    if definition.state is None and _TRAINING.name in module.class_.attributes:
        state.setdefault(_TRAINING.name, True)
    qualifier, _, name = module.class_.qualified_name.rpartition(".")
    return Object(Global(qualifier, name), _state(definition, state, values))


def _state(definition: ModuleDef, attributes: dict[Value, Value], values: Values) -> Value:
    """Return the state of a module: its attributes, or what ``__setstate__`` takes."""
    if definition.state is None:
        return attributes
    given = values.attribute(definition.state)
    return {**attributes, "__getstate__": given} if attributes else given


def _no_constant(index: int) -> tuple[Any, Type]:
    raise UnsupportedError("constants are not read while looking", record=MODEL)


ATTRIBUTES = "attributes.pkl"
_TENSORS = "tensors/"
_TENSOR_FROM_ID = Global("torch.jit._pickle", "build_tensor_from_id")
# The first files with attributes name two Python types that never existed.
_OLD_TENSOR = Global("__main__", "TensorID")
_OLD_INT_LIST = Global("__main__", "IntList")


class Values:
    """The table of tensors and the table of attribute values of one archive.

    Each value is described once, so that what the archive shares is one object.
    """

    def __init__(self, container: Container, model: Model) -> None:
        self._container = container
        self.model = model
        self._tensors: dict[int, Reduce] = {}
        self._storages: dict[str, PersistentId] = {}
        self._attributes: list[Value] | None = None

    def tensor(self, number: int) -> Reduce:
        """Return the tensor of this number. Raises FormatError when there is none."""
        found = self._tensors.get(number)
        if found is None:
            tensors = self.model.tensors
            if not 0 <= number < len(tensors):
                raise FormatError(f"there is no tensor {number}", record=MODEL, limit=len(tensors))
            found = self._tensors[number] = self._described(tensors[number])
        return found

    def table(self) -> tuple[Reduce, ...]:
        """Return all tensors by their numbers."""
        return tuple(map(self.tensor, range(len(self.model.tensors))))

    def attribute(self, place: int) -> Value:
        """Return the value at an index of attributes.pkl. Raises FormatError when there is none."""
        if self._attributes is None:
            self._attributes = self._read()
        if not 0 <= place < len(self._attributes):
            raise FormatError(
                f"there is no value {place} of an attribute",
                record=ATTRIBUTES,
                limit=len(self._attributes),
            )
        return self._attributes[place]

    def _read(self) -> list[Value]:
        if self.model.version < FIRST_WITH_ATTRIBUTES:
            return []
        table = loads(self._container.read(ATTRIBUTES), record=ATTRIBUTES)
        if not isinstance(table, list | tuple):
            raise PickleError("the values of attributes are not a table", record=ATTRIBUTES)
        translation = _Translation(self)
        return [translation.value(value) for value in table]

    def _described(self, tensor: TensorDef) -> Reduce:
        view = (self._storage(tensor), tensor.offset, tensor.shape, tensor.strides)
        if tensor.quantizer is None:
            function = Global("torch._utils", "_rebuild_tensor_v2")
            return Reduce(function, (*view, tensor.requires_grad, None))
        quantizer = (Global("torch", "per_tensor_affine"), *tensor.quantizer)
        function = Global("torch._utils", "_rebuild_qtensor")
        return Reduce(function, (*view, quantizer, tensor.requires_grad, None))

    def _storage(self, tensor: TensorDef) -> PersistentId:
        if not tensor.record.startswith(_TENSORS):
            # A tensor can be written to, so it must not share bytes with code or tables.
            raise FormatError(f"a tensor lies in {tensor.record[:100]!r}", record=MODEL)
        record = self._container.records.get(tensor.record)
        if record is None:
            raise MissingRecordError(
                "the archive has no such record, which a tensor lies in",
                record=tensor.record,
                hint=INCOMPLETE,
            )
        count = record.size // tensor.itemsize
        kind = Global("torch", tensor.storage)
        made = PersistentId(("storage", kind, tensor.record, tensor.device, count))
        known = self._storages.setdefault(tensor.record, made)
        if known.value != made.value:
            raise FormatError(
                "two tensors that share the record differ in element type or device",
                record=tensor.record,
            )
        return known


class _Translation(Conversion):
    """Replaces tensor numbers by tensors."""

    def __init__(self, values: Values) -> None:
        super().__init__(ATTRIBUTES)
        self._values = values

    def _reduce(self, value: Reduce) -> Value:
        match value:
            case Reduce(function=function, argument=(number,)) if function == _TENSOR_FROM_ID:
                return self._tensor(number)
        if is_tensor(value):
            raise self.error("a tensor stands where the number of one is expected")
        argument = self.value(value.argument)
        return Reduce(value.function, argument, items=value.items, state=value.state)

    def _object(self, value: Object) -> Value:
        if value.cls == _OLD_TENSOR:
            return self._tensor(value.state)
        if value.cls == _OLD_INT_LIST and isinstance(value.state, list):
            return value.state
        return Object(value.cls, self.value(value.state))

    def _dict(self, value: dict[Value, Value]) -> Value:
        return {self._key(key): self.value(item) for key, item in value.items()}

    def _tensor(self, number: Any) -> Value:
        if type(number) is not int:
            raise self.error("the number of a tensor is not an integer")
        return self._values.tensor(number)

    def _key(self, key: Value) -> Value:
        found: Value = self.value(key)
        if isinstance(found, list):
            raise self.error("a list is a key of a dict")
        return found


_Translation.builders = {
    list: _Translation.list_of,
    tuple: _Translation.tuple_of,
    dict: _Translation._dict,
    Reduce: _Translation._reduce,
    Object: _Translation._object,
}
