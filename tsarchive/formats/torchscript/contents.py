"""The contents of a TorchScript archive: code, structure, tensors, without torch.

Objects are told by the order in which they are met, classes by canonical names, and tensors by the
names of :attr:`tsarchive.Archive.tensors`; constants are counted in the order in which code
mentions them. Old archives have no type tags, so that only a tag of another type than is declared
counts here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from tsarchive.analyses.encoding import Plain, ProgramEncoding
from tsarchive.analyses.program import Program
from tsarchive.container import Container
from tsarchive.describing.contents import uniquely_named
from tsarchive.errors import FormatError, PickleError, UnsupportedError
from tsarchive.formats.contents import (
    Contents,
    Elements,
    Outline,
    TensorContent,
    Whole,
    is_big_endian,
    told_checksum,
)
from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType, Function, method_schema
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import ANY, DictType, ListType, OptionalType, TupleType, Type
from tsarchive.pickler import Global, Memoised, Object, Reduce, Value, loads
from tsarchive.pickler.values import STORAGE_TYPES

from .inspection import MAX_LETTERS, MAX_NAMES, storage_record
from .pickled import LIST_BUILDERS, MAX_DEPTH, is_list_builder
from .program import program_of
from .stored_tensors import (
    DenseTensor,
    PerChannel,
    PerTensor,
    QuantizedTensor,
    SparseTensor,
    StoredTensor,
    StoredTensors,
    StridedView,
    Wrapped,
    is_packed,
    is_tensor,
    plain_tensor,
)

if TYPE_CHECKING:
    from .debug_records import DebugRecords

_DATA: Final = "data.pkl"
_CONSTANTS: Final = "constants.pkl"
_EXTRA: Final = "extra/"
_TYPE_TAG: Final = Global("torch.jit._pickle", "restore_type_tag")
_COMPLEX: Final = frozenset(Global(name, "complex") for name in ("builtins", "__builtin__"))
_DEVICE: Final = Global("torch", "device")
# Shared values are told wherever they stand, and few bytes may lead to many of them: so many values
# and letters may stand for each byte of a pickle, which is taken for one that is not tiny.
_SHARED_VALUES: Final = 16
_SHARED_LETTERS: Final = 256
_TINY: Final = 1 << 12
# In checkpoints alone.
_ORDERED_DICT: Final = Global("collections", "OrderedDict")


class TorchScriptContents(Contents):
    """The contents of an archive with a data.pkl."""

    language = "TorchScript"

    values_record = _DATA
    constants_record = _CONSTANTS

    def __init__(self, container: Container) -> None:
        self._container = container
        self._encoding = ProgramEncoding(self._constant)
        self._read_program: Callable[..., Program] = program_of
        self._data = self.values_in(self.values_record)
        self._table = self.values_in(self.constants_record)
        self._constants: dict[int, str] = {}
        # A record that is compressed is inflated once for all tensors in it.
        self._storage = cache(container.view)

    def simplify(
        self,
        simplify: Callable[[Function], object],
        foreign: Mapping[str, Sequence[FunctionSchema]],
    ) -> None:
        """Let the code be that of functions as ``simplify`` leaves them, in which the classes of
        constants are known, and the schemas of ``foreign`` operators; it is not read yet."""
        self._encoding.simplify = simplify
        self._read_program = partial(program_of, knows_objects=True, foreign=foreign)

    def values_in(self, record: str) -> Values:
        """Return what reads the values of a record."""
        return Values(self, record)

    @cached_property
    def importer(self) -> CodeImporter:
        """The code, lowered in an open world."""
        names = (name for name in self._container.records if name.startswith("code/"))
        code = {name: self._container.read(name) for name in names if name.endswith(".py")}
        return self._read_program(code, self._container).code

    def root(self) -> Value:
        """Return the root object as a pickle describes it."""
        return loads(self._container.read(_DATA), record=_DATA)

    @cached_property
    def structure(self) -> Plain:
        return self._data.value(self.root(), "")

    @cached_property
    def code(self) -> Plain:
        _ = self.structure  # which classes there are
        found = [[name, definition] for name, definition in self._encoding.definitions()]
        world = self.importer.open
        if world is not None and world.refused:
            raise world.refused[0]
        return found

    @property
    def tensors(self) -> Mapping[str, TensorContent]:
        _ = self.code  # which constants there are
        return dict(uniquely_named([*self._data.tensors, *self._table.tensors]))

    @cached_property
    def extra_files(self) -> Mapping[str, bytes]:
        names = [name for name in self._container.records if name.startswith(_EXTRA)]
        return {name.removeprefix(_EXTRA): self._container.read(name) for name in names}

    @cached_property
    def outline(self) -> Outline:
        from .outline import Outlining  # what digests the contents has no use for it

        code = self.code
        assert isinstance(code, list)
        types = self._encoding.named()
        return Outlining(types, self.debug).outline(self.structure, code)

    @property
    def debug(self) -> DebugRecords:
        """The debug records by the names of their code records."""
        from .debug_records import DebugRecords

        return DebugRecords(self._container)

    def _constant(self, value: Any) -> Plain:
        """Return what a constant is, at its first mention, or which of those before it."""
        name = self._constants.get(id(value))
        if name is not None:
            return name
        name = self._constants[id(value)] = f"CONSTANTS.c{len(self._constants)}"
        return [name, self._table.value(value, name)]

    def constant_tensor(self, content: Any) -> TensorContent | None:
        """Return the tensor that a constant of code is; None for what is none."""
        value = content.value if isinstance(content, TableConstant) else None
        if not (isinstance(value, Reduce) and is_tensor(value)):
            return None
        values = self.values_in(self.constants_record)
        values.value(value, "")
        return next((tensor for _, tensor in values.tensors), None)

    def class_named(self, qualified_name: str) -> tuple[ClassType, str]:
        """Return a class, and its canonical name."""
        found = self.importer.find_class(qualified_name)
        if not isinstance(found, ClassType):
            raise FormatError(f"{qualified_name} is not a class", record=self.values_record)
        return found, self._encoding.name(found)

    def type_of(self, tag: str) -> Type:
        """Return the type that a tag tells."""
        return self.importer.parse_type(tag)

    def text_of(self, type_: Type) -> str:
        """Return the canonical text of a type, whose definition becomes part of the code."""
        return self._encoding.type(type_)

    def size(self, record: str) -> int:
        """Return the size of a record, 0 where there is none."""
        return self._container.size(record) or 0

    def elements(self, record: str, view: StridedView) -> Elements:
        storage = view.storage
        itemsize = STORAGE_TYPES[storage.kind].itemsize
        is_complex = storage.dtype.startswith("complex")
        name = storage_record(record, storage.key, self._container.records)
        return Elements(
            None if storage.is_meta else lambda: self._storage(name),
            view.offset * itemsize,
            view.size,
            [step * itemsize for step in view.stride],
            itemsize,
            itemsize // 2 if is_complex else itemsize,
            self._is_big_endian,
            lambda: told_checksum(self._container.records, name),
        )

    @cached_property
    def _is_big_endian(self) -> bool:
        return is_big_endian(self._container.records, self._container.read)


@dataclass(frozen=True, slots=True)
class _Met:
    """An object by its number, the name that it was met under, and which tensors are inside it:
    those from ``start`` to ``end``, none as long as it is not complete.
    """

    number: int
    name: str
    start: int
    end: int = 0


class Values:
    """Plain data of the values of one pickle, and the tensors among them by name."""

    def __init__(self, contents: TorchScriptContents, record: str) -> None:
        self.tensors: list[tuple[str, TensorContent]] = []
        """The tensors that were met, by name; several may have one name."""
        self._contents = contents
        self.record = record
        self._stored = self.stored(record)
        self._objects: dict[int, _Met] = {}
        self._depth = self._letters = 0
        own = contents.size(record)
        self._most_values = own + min(MAX_NAMES, _SHARED_VALUES * (own + _TINY))
        self._most_letters = own + min(MAX_LETTERS, _SHARED_LETTERS * (own + _TINY))
        self._values = 0

    def stored(self, record: str) -> StoredTensors:
        """Return what reads descriptions of tensors."""
        return StoredTensors(record)

    def value(self, value: Any, name: str, type_: Type | None = None) -> Plain:
        """Return the plain data of a value; ``type_`` is the type that is declared, if any is."""
        self.count(_letters(value))
        if value is None or isinstance(value, bool | int | float | complex | str):
            return value
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PickleError("values are nested too deeply", record=self.record, limit=MAX_DEPTH)
        found = self.part(value, name, type_.element if isinstance(type_, OptionalType) else type_)
        self._depth -= 1
        return found

    def part(self, value: Any, name: str, type_: Type | None) -> Plain:
        """Return the plain data of a value that may have others in it."""
        match value:
            case Object():
                return self._object(value, name)
            case Reduce():
                return self.reduce(value, name, type_)
            case Memoised():
                return self.value(value.value, name, type_)
            case tuple():
                return {"tuple": self.items(name, value, _types_of_items(value, type_))}
            case list():
                type_ = type_.element if isinstance(type_, ListType) else type_
                return {"list": self.items(name, value, [type_] * len(value))}
            case dict():
                return {"dict": [*self._pairs(name, value, type_)]}
        message = f"a {type(value).__name__} is no value of a module"
        raise PickleError(message, record=self.record)

    def items(
        self, name: str, items: Iterable[Any], types: Iterable[Type | None]
    ) -> Sequence[Plain]:
        """Return the plain data of items, called by their numbers."""
        return [
            self.value(item, joined(name, index), type_)
            for index, (item, type_) in enumerate(zip(items, types, strict=True))
        ]

    def _pairs(self, name: str, value: dict[Any, Any], type_: Type | None) -> Iterator[Plain]:
        of_key, of_item = (
            (type_.key, type_.value) if isinstance(type_, DictType) else (type_, type_)
        )
        for index, (key, item) in enumerate(value.items()):
            shown = key if isinstance(key, bool | int | float | str) else f"<{index}>"
            yield [
                self.value(key, joined(name, f"<key {index}>"), of_key),
                self.value(item, joined(name, shown), of_item),
            ]

    def _object(self, value: Object, name: str) -> Plain:
        met = self._objects.get(id(value))
        if met is not None:
            for inner, content in self.tensors[met.start : met.end]:
                self._add(name + inner.removeprefix(met.name), content)
            return {"object": met.number}
        met = self._objects[id(value)] = _Met(len(self._objects), name, len(self.tensors))
        class_, own = self._contents.class_named(value.cls.qualified_name)
        if isinstance(value.state, dict) and not class_.has_state_methods:
            plain = {"class": own, "attributes": self._slots(value.state, class_, name)}
        else:
            plain = {"class": own, "state": self._state(value.state, class_, name)}
        self._objects[id(value)] = replace(met, end=len(self.tensors))
        return plain

    def _slots(self, state: dict[Any, Any], class_: ClassType, name: str) -> Plain:
        slots: list[Plain] = []
        for key, item in state.items():
            if not isinstance(key, str):
                message = "the state of an object has a name that is no text"
                raise PickleError(message, record=self.record)
            slot = class_.attributes.get(key)
            type_ = None if slot is None else slot.type
            slots.append([key, self.value(item, joined(name, key), type_)])
        return slots

    def _state(self, state: Any, class_: ClassType, name: str) -> Plain:
        schema = method_schema(class_, "__getstate__")
        type_ = None if schema is None else schema.return_type
        return self.value(state, joined(name, "__getstate__"), type_)

    def reduce(self, value: Reduce, name: str, type_: Type | None) -> Plain:
        """Return the plain data of what a function makes."""
        if is_tensor(value):
            plain = plain_tensor(value, self.record)
            if is_packed(plain):
                message = "torch does not read tensors whose elements share bytes, as of quint4x2"
                raise UnsupportedError(message, record=self.record)
            return self._tensor(self._stored.tensor(plain), name)
        function = value.function
        match value.argument:
            case (content, str(tag)) if function == _TYPE_TAG:
                return self._typed(content, name, self._contents.type_of(tag), type_)
            case (list() as content,) if is_list_builder(function):
                own = ListType(LIST_BUILDERS[function.name])
                return self._typed(content, name, own, type_)
            case (float(real), float(imag)) if function in _COMPLEX:
                return complex(real, imag)
            case (str(device),) if function == _DEVICE:
                return {"device": device}
            case () if function == _ORDERED_DICT:
                return {"dict": [*self._pairs(name, value.items or {}, None)]}
        enum = self._contents.type_of(function.qualified_name)
        text = self._text(enum)
        return {"enum": text, "value": self.value(value.argument, name)}

    def _typed(self, content: Value, name: str, own: Type, declared: Type | None) -> Plain:
        """Return a value that tells its type, which counts where another is declared."""
        if declared in (None, own):
            return self.value(content, name, own)
        text = self._text(own)
        return {"type": text, "value": self.value(content, name, own)}

    def _text(self, type_: Type) -> str:
        text = self._contents.text_of(type_)
        self.count(len(text))
        return text

    def _tensor(self, tensor: StoredTensor, name: str, *, grad: bool | None = None) -> Plain:
        meaning: list[Plain]
        match tensor:
            case Wrapped(inner, own_grad):
                return self._tensor(self._stored.tensor(inner), name, grad=own_grad)
            case DenseTensor(view, own_grad, flags):
                meaning = ["dense", view.storage.dtype, [*view.size], sorted(flags)]
                return self._strided(view, name, meaning, own_grad if grad is None else grad)
            case QuantizedTensor(view, PerTensor(scale, zero_point)):
                meaning = ["quantized", view.storage.dtype, [*view.size]]
                return self._strided(view, name, meaning, bool(grad), (scale, zero_point))
            case QuantizedTensor(view, PerChannel(scales, zero_points, axis)):
                start = len(self.tensors)
                self._numbers(scales, joined(name, "scales"), "float64")
                self._numbers(zero_points, joined(name, "zero_points"), "int64")
                self.mark(start, Whole(name, "strided", view.size))
                meaning = ["channels", view.storage.dtype, [*view.size], axis]
                return self._strided(view, name, meaning, bool(grad))
            case SparseTensor(layout, size, parts, own_grad):
                start = len(self.tensors)
                dense = self.items(name, parts, [None] * len(parts))
                self.mark(start, Whole(name, layout, size), own_grad)
                return {"sparse": layout, "shape": [*size], "parts": dense, "grad": own_grad}
        raise AssertionError(tensor)

    def _strided(
        self,
        view: StridedView,
        name: str,
        meaning: Sequence[Plain],
        grad: bool,
        values: Sequence[Plain] = (),
    ) -> Plain:
        """Note a tensor; ``values`` belong to what its elements mean, and are no structure."""
        elements = self._contents.elements(self.record, view)
        device = view.storage.device
        self._add(name, TensorContent([*meaning, *values], elements, device, grad))
        return {"tensor": meaning, "device": device, "grad": grad}

    def mark(self, start: int, whole: Whole, grad: bool | None = None) -> None:
        """Note of which tensor those are the parts that were met from ``start`` on."""
        self.tensors[start:] = [
            (name, content._replace(part_of=whole, requires_grad=grad))
            for name, content in self.tensors[start:]
        ]

    def _numbers(self, numbers: Reduce | list[Any], name: str, dtype: str) -> None:
        """Note the scales or zero points of channels, which archives of version 1 hold as lists."""
        if isinstance(numbers, Reduce):
            self.value(numbers, name)
            return
        code = "d" if dtype == "float64" else "q"
        data = memoryview(struct.pack(f"<{len(numbers)}{code}", *numbers))
        shape = [len(numbers)]
        elements = Elements(lambda: data, 0, shape, [8], 8, 8)
        self._add(name, TensorContent(["dense", dtype, shape, []], elements))

    def _add(self, name: str, content: TensorContent) -> None:
        self.count(len(name))
        self.tensors.append((name, content))

    def count(self, letters: int) -> None:
        """Count a value of so many letters. Raises PickleError where there are too many."""
        self._values += 1
        self._letters += letters
        if self._values > self._most_values:
            raise self._too_many("values", self._most_values)
        if self._letters > self._most_letters:
            raise self._too_many("letters", self._most_letters)

    def _too_many(self, what: str, limit: int) -> PickleError:
        message = f"too many {what}, shared ones counted wherever they stand"
        return PickleError(message, record=self.record, limit=limit)


def _letters(value: Any) -> int:
    """Return how long a value is, beside the values in it."""
    if isinstance(value, str):
        return len(value)
    return value.bit_length() // 8 if isinstance(value, int) else 0


def _types_of_items(value: tuple[Any, ...], type_: Type | None) -> Sequence[Type | None]:
    """Return the declared type of each item, none where a state is that of an older library.

    What is declared to be anything, or one of several types, says nothing of the items.
    """
    if isinstance(type_, TupleType) and len(type_.elements) == len(value):
        return type_.elements
    return [None if type_ is None or isinstance(type_, TupleType) else ANY] * len(value)


def joined(name: str, part: object) -> str:
    """Return the name of a part of a value."""
    return f"{name}.{part}" if name else str(part)
