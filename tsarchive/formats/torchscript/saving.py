"""The records that a module is saved as: scripted, traced, or loaded with its code as read."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch

from tsarchive.adopt.sharing import always_held_parts
from tsarchive.adopt.torch_jit import (
    Adopter,
    adopt_module,
    adopt_placeholder,
    adopt_traced,
    adopting,
    is_script_function,
    is_script_module,
)
from tsarchive.container import NewRecord, unordered_map_order
from tsarchive.errors import ArchiveWarning, SaveError, SourceError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.constants import EnumMember, ObjectValue, TypedValue
from tsarchive.ir.names import TypeNames
from tsarchive.ir.source_ranges import TaggedRange, TaggedText
from tsarchive.ir.types import ANY, STRING, DictType, EnumType, ListType, Type
from tsarchive.operators.registry import require_torch
from tsarchive.pickler import Memo, Reduce, dumps
from tsarchive.printer.definitions import Program
from tsarchive.printer.reading_back import fixpoint_ranges
from tsarchive.printer.statements import version_record

from .code_records import encoded
from .debug_records import DEBUG_SUFFIX, DebugWriter
from .pickling import Constants, Pickling, run_time_type
from .tensors import storage_bytes

require_torch(torch.__version__)


@dataclass(frozen=True, slots=True)
class Code:
    """The code of an archive: its records in order, including constants, and its version."""

    records: tuple[NewRecord, ...]
    version: int


def archive_records(
    root: ObjectValue,
    files: Iterable[NewRecord],
    *,
    code: Code | None = None,
    traced_inputs: Iterable[NewRecord] = (),
    debug: bool,
) -> list[NewRecord]:
    """Return every record except the serialization id, which the container adds.

    ``files`` are the extra files, ``traced_inputs`` the example inputs of tracing. ``code`` is
    given when a loaded module is saved, and is then written as it was read. Raises SaveError where
    the module has no form that reads back as itself.
    """
    names = TypeNames()
    pickling = Pickling(names)
    data = dumps(pickling.held(root, root.type))
    if code is None:
        code = print_code(pickling, names, debug=debug)
    return _in_order(pickling, data, code, files, traced_inputs)


def canonical_records(
    text: CanonicalText, files: Iterable[NewRecord], *, debug: bool = False
) -> list[NewRecord]:
    """Return the records of the canonical form, which depends on the model alone.

    Nothing is compressed, since builds of zlib differ. ``debug`` adds debug records, which depend
    on where the model was written.
    """
    sources = _source_records(text.bodies, text.places if debug else {}, deflate=False)
    code = Code((*sources, *_constant_records(text.constants, text.names)), text.version)
    return _in_order(text.pickling, dumps(text.data), code, files)


def _source_records(
    bodies: Mapping[str, TaggedText], ranges: Mapping[str, Sequence[TaggedRange]], *, deflate: bool
) -> Iterator[NewRecord]:
    """Yield code records, each followed by the debug record for its ranges, if it has any."""
    writer = DebugWriter()
    for name, body in bodies.items():
        yield NewRecord(name, encoded(str(body)), deflate=deflate)
        if name in ranges:
            record = writer.record(ranges[name])
            yield NewRecord(f"{name}{DEBUG_SUFFIX}", record, deflate=deflate)


def _in_order(
    pickling: Pickling,
    data: bytes,
    code: Code,
    files: Iterable[NewRecord],
    traced_inputs: Iterable[NewRecord] = (),
) -> list[NewRecord]:
    return [
        *files,
        *_storage_records("data", pickling),
        NewRecord("data.pkl", data),
        *code.records,
        *traced_inputs,
        NewRecord(version_record(code.version), b"%d\n" % code.version),
        NewRecord("byteorder", sys.byteorder.encode()),
    ]


def extra_files(files: Mapping[str, bytes]) -> tuple[NewRecord, ...]:
    """Return extra files as records, in the order in which torch writes a dict of them."""
    order = unordered_map_order(list(files), len(files))
    return tuple(NewRecord(f"extra/{name}", files[name]) for name in order)


def sorted_extra_files(files: Mapping[str, bytes]) -> tuple[NewRecord, ...]:
    """Return extra files as the canonical form has them, which does not depend on their order."""
    return extra_files(dict(sorted(files.items())))


def _storage_records(folder: str, pickling: Pickling) -> Iterator[NewRecord]:
    for number, tensor in enumerate(pickling.tensors.storages):
        yield NewRecord(f"{folder}/{number}", storage_bytes(tensor))


def print_code(pickling: Pickling, names: TypeNames, *, debug: bool) -> Code:
    """Print the classes that ``pickling`` encountered, and the constants that their code mentions.

    Consumes their graphs.
    """
    constants = Constants()
    program = Program(names, constants)
    program.print_classes(pickling.classes)
    files = program.files()
    sources = _source_records(files, fixpoint_ranges(files) if debug else {}, deflate=True)
    records = (*sources, *_constant_records(constants, names))
    program.close()
    return Code(records, program.version)


def _constant_records(constants: Constants, names: TypeNames) -> Iterable[NewRecord]:
    pickling = Pickling(names)
    table = tuple(pickling.held(entry.value, entry.type) for entry in constants.entries)
    data = dumps(table)
    return [*_storage_records("constants", pickling), NewRecord("constants.pkl", data)]


def traced_input_records(inputs: Mapping[str, list[Any]]) -> tuple[NewRecord, ...]:
    """Return the example inputs recorded by tracing, by method; their storages are left empty."""
    if not inputs:
        return ()
    pickling = _TracedInputs(TypeNames())
    data = dumps(pickling.held(dict(inputs), _TRACED_TYPE))
    empty = (
        NewRecord(f"traced_inputs/{number}", b"")
        for number in range(len(pickling.tensors.storages))
    )
    return (*empty, NewRecord("traced_inputs.pkl", data))


_TRACED_TYPE = DictType(STRING, ListType(ANY))


class _TracedInputs(Pickling):
    def tensor(self, tensor: torch.Tensor) -> Reduce:
        described = self.tensors.reduce(tensor)
        described.memo = Memo.ALWAYS
        return described


# Each reading folds what the one before exposed; more than one is rare.
_MOST_READINGS = 16


def canonical_text(
    root: ObjectValue, constants: Constants, *, keeps_places: bool = False
) -> CanonicalText:
    """Return the text that is a fixpoint, and the objects with the classes that it defines.

    ``constants`` is the table to fill while ``root`` is printed; ``keeps_places`` keeps locations
    in user source. Raises SaveError for a module that cannot be printed, SourceError for text that
    cannot be read back.
    """
    text = CanonicalText(root, constants)
    for _ in range(_MOST_READINGS):
        places = text.places if keeps_places else {}
        again = CanonicalText(_Rereading(text, places).value(root), Constants())
        if again.files == text.files:
            return again
        root, text = again.root, again
    raise SaveError(
        f"{root.type.qualified_name} has no canonical form: its code changes with each reading",
        hint="Save it without canonical=True",
    )


class CanonicalText:
    """A module and its code under canonical names.

    ``pickling`` and ``data`` are the module as a pickle value, which named its classes.
    """

    def __init__(self, root: ObjectValue, constants: Constants) -> None:
        from tsarchive.printer.canonical import CanonicalDefinitions, CanonicalNames

        self.root = root
        self.names = CanonicalNames()
        self.constants = constants
        self.pickling = Pickling(self.names)
        self.data = self.pickling.held(root, root.type)
        program = Program(self.names, constants, CanonicalDefinitions)
        program.print_classes(self.pickling.classes)
        self.bodies = program.files()
        self.files = {name: str(body) for name, body in self.bodies.items()}
        self.version = program.version

    @cached_property
    def places(self) -> dict[str, list[TaggedRange]]:
        """Return the ranges of user source for each record, as debug records hold them."""
        return fixpoint_ranges(self.bodies)


class _Rereading:
    """Describes objects and values anew, preserving identity."""

    def __init__(self, text: CanonicalText, places: Mapping[str, list[TaggedRange]]) -> None:
        self._names = text.names
        self._constants = text.constants
        self._known: dict[int, Any] = {}
        from .importer import runnable_code  # most saves read nothing back

        self._code = runnable_code(text.files, self._constant, text.version, debug=places)

    def value(self, value: Any) -> Any:
        build = _BUILDERS.get(type(value))
        if build is None:
            return value
        if id(value) not in self._known:
            self._known[id(value)] = build(self, value)
        return self._known[id(value)]

    def _constant(self, index: int) -> tuple[Any, Type]:
        value = self.value(self._constants.entries[index].value)
        return value, run_time_type(value)

    def _list(self, value: list[Any]) -> list[Any]:
        return [self.value(item) for item in value]

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([self.value(item) for item in value])

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(item) for key, item in value.items()}

    def _enum_member(self, value: EnumMember) -> EnumMember:
        enum = self._code.find_class(self._names.name(value.type))
        assert isinstance(enum, EnumType)
        return EnumMember(enum, value.name, value.value)

    def _object(self, value: ObjectValue) -> ObjectValue:
        class_ = self._code.find_class(self._names.name(value.type))
        assert isinstance(class_, ClassType)
        found = self._known[id(value)] = ObjectValue(class_)
        if value.state is not None:
            found.state = self._state(class_, value.state)
        found.slots = {name: self.value(slot) for name, slot in value.slots.items()}
        return found

    def _state(self, class_: ClassType, given: TypedValue) -> TypedValue:
        state = self.value(given.value)
        getstate = class_.methods.get("__getstate__")
        if getstate is None:  # a class that is not registered
            return TypedValue(state, given.type)
        return TypedValue(state, getstate.schema.return_type, always_held_parts(class_))


_BUILDERS: dict[type, Any] = {
    list: _Rereading._list,
    tuple: _Rereading._tuple,
    dict: _Rereading._dict,
    EnumMember: _Rereading._enum_member,
    ObjectValue: _Rereading._object,
}


_OPTIMIZED: Final = (
    "the module comes from torch.jit.optimize_for_inference: its code names operators of oneDNN, "
    "such as aten::to_mkldnn, which the default policy of tsarchive.load refuses to run. Save it "
    "before it is optimized, or allow them in the policy that you load the file with"
)


def module_records(module: Any, files: Mapping[str, bytes], *, debug: bool) -> list[NewRecord]:
    """Return the records of a live module with extra files by name.

    Raises SaveError for a module without code.
    """
    traced = traced_input_records(adopt_traced(module)) if is_script_module(module) else ()
    with _adopted(module) as root:
        return archive_records(root, extra_files(files), traced_inputs=traced, debug=debug)


def canonical_module_records(module: Any, files: Mapping[str, bytes]) -> list[NewRecord]:
    """Return the records of a live module in the canonical form."""
    try:
        with _adopted(module) as root:
            return canonical_records(canonical_text(root, Constants()), sorted_extra_files(files))
    except SourceError as error:
        raise SaveError(
            f"code of the module does not read back, so it has no canonical form: {error}",
            hint="Save without canonical=True",
        ) from error


@contextmanager
def _adopted(module: Any) -> Iterator[ObjectValue]:
    """Yield what a live module or function is saved from, which lasts as long as the block."""
    with adopting() as adopter:
        yield _root(module, adopter)


def _root(module: Any, adopter: Adopter) -> ObjectValue:
    if is_script_module(module):
        return adopt_module(module, adopter)
    if is_script_function(module):
        return adopt_placeholder(module, adopter)
    raise SaveError(
        f"a {type(module).__name__} has no TorchScript code",
        hint="Script or trace the module with torch.jit first, or load an archive",
    )


def warn_if_optimized(records: Iterable[NewRecord]) -> None:
    """Warn who calls ``tsarchive.save`` of code that makes oneDNN tensors of constants, which
    scripted code has no way to."""
    code = (bytes(record.data) for record in records if record.name.startswith("code/"))
    optimized = b"torch.to_mkldnn(CONSTANTS."
    if any(optimized in text for text in code):
        warnings.warn(_OPTIMIZED, ArchiveWarning, stacklevel=5)
