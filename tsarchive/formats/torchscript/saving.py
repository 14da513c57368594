"""The records that a module is saved as: scripted, traced, or loaded with its code as read."""

from __future__ import annotations

import enum
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import torch

from tsarchive.adopt.sharing import always_held_parts, held_parts
from tsarchive.adopt.torch_jit import (
    adopt_module,
    adopt_placeholder,
    adopt_traced,
    is_script_function,
    is_script_module,
)
from tsarchive.container import Container, NewRecord, unordered_map_order
from tsarchive.errors import SaveError, SourceError
from tsarchive.formats.base import as_read
from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.constants import Device, EnumMember, ObjectValue, TableConstant, TypedValue
from tsarchive.ir.graph import Block
from tsarchive.ir.names import TypeNames
from tsarchive.ir.source_ranges import TaggedRange, TaggedText
from tsarchive.ir.types import ANY, NONE, STRING, DictType, EnumType, ListType, Type, annotation
from tsarchive.pickler import Memo, Reduce, dumps
from tsarchive.printer.canonical import CanonicalDefinitions, CanonicalNames
from tsarchive.printer.definitions import Program
from tsarchive.printer.reading_back import fixpoint_ranges
from tsarchive.printer.statements import version_record
from tsarchive.run.foreign import ForeignObject
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.operators import native_class
from tsarchive.run.slots import get_slot

from .code_records import encoded, format_version
from .debug_records import DEBUG_SUFFIX, DebugWriter
from .pickling import Constants, Pickling, fits, run_time_type
from .tensors import storage_bytes


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


_EXTRA = "extra/"


def legacy_records(module: ArchiveModule, files: Mapping[str, bytes]) -> list[NewRecord]:
    """Return the records of a module from before torch 1.3, with its code printed anew.

    Raises SaveError for a module whose methods do not give all of its state.
    """
    _refuse_partial_states(module)
    extras = _kept_extras(module.tsarchive_classes.container, files)
    return canonical_loaded_records(module, extras)


def names_below(container: Container, prefix: str) -> list[str]:
    return [name for name in container.records if name.startswith(prefix)]


def _kept_extras(container: Container, files: Mapping[str, bytes]) -> tuple[NewRecord, ...]:
    kept = [n for n in names_below(container, _EXTRA) if n.removeprefix(_EXTRA) not in files]
    return (*extra_files(files), *as_read(container, kept))


def canonical_loaded_records(
    module: ArchiveModule, files: tuple[NewRecord, ...], *, debug: bool = False
) -> list[NewRecord]:
    """Return the canonical form of a loaded module, with code printed from its graphs.

    With ``debug`` it includes debug records, from the locations of the graphs' nodes.
    """
    objects = _Objects(module.tsarchive_classes.container)
    root, constants = objects.object(module), _LoadedConstants(objects)
    return canonical_records(
        canonical_text(root, constants, keeps_places=debug), files, debug=debug
    )


def records_of_program(
    container: Container,
    build: Callable[[Callable[[Any], Any]], ObjectValue],
    files: Mapping[str, bytes],
) -> list[NewRecord]:
    """Return the canonical form of a program that was made of a loaded one.

    ``build`` gives its root object; it is given what describes the values of the loaded module.
    """
    objects = _Objects(container)
    text = canonical_text(build(objects.value), _LoadedConstants(objects))
    return canonical_records(text, _kept_extras(container, files))


def state_of(class_: ClassType, value: Any) -> TypedValue:
    """Return the state of an object of a class in TorchScript, which ``__getstate__`` gives."""
    state_type = class_.methods["__getstate__"].schema.return_type
    return TypedValue(value, state_type, always_held_parts(class_))


def _refuse_partial_states(module: ArchiveModule) -> None:
    """Refuse modules from before torch 1.3 with a partial ``__getstate__``.

    Their parameters and submodules were saved beside its result.
    """
    for part in module.modules():
        class_: ClassType | None = getattr(part, "tsarchive_class", None)
        if class_ is None or not class_.has_state_methods:
            continue
        given = set(_assigned(class_.methods["__setstate__"].graph))
        for attribute in class_.attributes.values():
            if attribute.name not in given and not fits(None, attribute.type):
                raise SaveError(
                    f"__setstate__ of {class_.qualified_name} does not set {attribute.name!r}, "
                    "so it has no place in an archive of today"
                )


def _assigned(block: Block) -> Iterator[str]:
    """Yield the attributes that a graph assigns."""
    for node in block.nodes:
        if node.kind == "prim::SetAttr":
            yield node.attributes["name"]
        for inner in node.blocks:
            yield from _assigned(inner)


class _LoadedConstants(Constants):
    """The constant table of code whose graphs hold run-time forms of constants."""

    def __init__(self, objects: _Objects) -> None:
        super().__init__()
        self._objects = objects

    def index(self, value: Any, type_: Type) -> int:
        if isinstance(value, TableConstant):
            value = value.value
        return super().index(self._objects.value(value), type_)


class _Objects:
    """Describes the objects of a loaded module for writing, preserving identity."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self._known: dict[int, tuple[Any, Any]] = {}

    def object(self, value: Any) -> ObjectValue:
        classes = value.tsarchive_classes
        if classes.container is not self.container:
            raise SaveError(
                f"{type(value).__name__} was loaded from another archive than the root module",
                hint="Save the modules one by one",
            )
        class_ = value.tsarchive_class
        found = ObjectValue(class_)
        self._known[id(value)] = (value, found)
        if class_.has_state_methods:
            getstate = partial(classes.call, class_.methods["__getstate__"], value)
            found.state = self._state(class_, getstate)
        else:
            self._refuse_additions(value, class_)
            for attribute in class_.attributes.values():
                found.slots[attribute.name] = self._slot(value, attribute)
        return found

    def _refuse_additions(self, owner: Any, class_: ClassType) -> None:
        """Refuse state added to a module after loading: without a slot it would be lost."""
        if not class_.is_module:
            return
        for table in (owner._parameters, owner._buffers, owner._modules):
            added = [name for name in table if name not in class_.attributes]
            if added:
                raise SaveError(
                    f"{class_.qualified_name} has no attribute {added[0]!r} in the archive",
                    hint="Remove what was added to the module after loading",
                )

    def _slot(self, owner: Any, attribute: Attribute) -> Any:
        name = attribute.name
        try:
            value = get_slot(owner, attribute)
        except (KeyError, AssertionError):
            raise SaveError(
                f"the attribute {name!r} of {type(owner).__name__} is gone",
                hint="A loaded module is saved with all attributes that it was loaded with",
            ) from None
        if name == "_is_full_backward_hook" and attribute.type == NONE:
            value = None  # set by torch.nn.Module where Python code registered a hook
        found = self.value(value)
        if not fits(found, attribute.type):
            raise SaveError(
                f"the attribute {name!r} of {type(owner).__name__} holds a "
                f"{type(value).__name__}, not a value of type {annotation(attribute.type)}",
                hint="Set attributes of a loaded module to values of their declared types",
            )
        return found

    def value(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, complex, str):
            return value
        known = self._known.get(id(value))
        if known is None:
            known = (value, self._described(value))
            self._known[id(value)] = known
        return known[1]

    def _described(self, value: Any) -> Any:
        match value:
            case torch.Tensor():
                return TableConstant(value)
            case torch.device():
                return Device(str(value))
            case enum.Enum():
                enum_type = getattr(type(value), "tsarchive_enum", None)
                if not isinstance(enum_type, EnumType):
                    raise SaveError(f"{value!r} is of an enum that is not in the archive")
                return EnumMember(enum_type, value.name, value.value)
            case list():
                return [self.value(item) for item in value]
            case tuple():
                return tuple([self.value(item) for item in value])
            case dict():
                return {self.value(key): self.value(item) for key, item in value.items()}
            case torch.ScriptObject():
                return self._native(value)
            case ForeignObject():
                state = TypedValue(self.value(value.state), value.state_type)
                return ObjectValue(value.class_, state=state)
        if hasattr(value, "tsarchive_class"):
            return self.object(value)
        raise SaveError(
            f"a value of type {type(value).__name__} has no place in an archive",
            hint="Set attributes of a loaded module to values of their declared types",
        )

    def _native(self, value: torch.ScriptObject) -> ObjectValue:
        class_ = native_class(value._type().qualified_name())
        if class_ is None or "__getstate__" not in class_.methods:
            raise SaveError("a torchbind object without __getstate__ cannot be saved")
        return ObjectValue(class_, state=self._state(class_, value._get_method("__getstate__")))

    def _state(self, class_: ClassType, getstate: Callable[[], Any]) -> TypedValue:
        state = getstate()
        state_type = class_.methods["__getstate__"].schema.return_type
        return TypedValue(self.value(state), state_type, held_parts(class_, state, getstate))


_OPTIMIZED: Final = (
    "the module comes from torch.jit.optimize_for_inference: its code names operators of oneDNN, "
    "such as aten::to_mkldnn, which the default policy of tsarchive.load refuses to run. Save it "
    "before it is optimized, or allow them in the policy that you load the file with"
)


def module_records(module: Any, files: Mapping[str, bytes], *, debug: bool) -> list[NewRecord]:
    """Return the records of a module with extra files by name; a loaded one keeps those it has.

    Raises SaveError for a module without code.
    """
    if isinstance(module, ArchiveModule):
        from .kept_code import kept_code  # live modules have no such code

        container = module.tsarchive_classes.container
        code = as_read(container, kept_code(container, debug=debug))
        return archive_records(
            _Objects(container).object(module),
            _kept_extras(container, files),
            code=Code(tuple(code), format_version(container)),
            traced_inputs=as_read(container, names_below(container, "traced_inputs")),
            debug=debug,
        )
    traced = traced_input_records(adopt_traced(module)) if is_script_module(module) else ()
    return archive_records(_adopted(module), extra_files(files), traced_inputs=traced, debug=debug)


def canonical_module_records(module: Any, files: Mapping[str, bytes]) -> list[NewRecord]:
    """Return the records of a module in the canonical form."""
    extras = extra_files(dict(sorted(files.items())))
    if isinstance(module, ArchiveModule):
        return canonical_loaded_records(module, extras)
    root = _adopted(module)
    try:
        return canonical_records(canonical_text(root, Constants()), extras)
    except SourceError as error:
        raise SaveError(
            f"code of the module does not read back, so it has no canonical form: {error}",
            hint="Save without canonical=True",
        ) from error


def _adopted(module: Any) -> ObjectValue:
    if is_script_module(module):
        return adopt_module(module)
    if is_script_function(module):
        return adopt_placeholder(module)
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
        warnings.warn(_OPTIMIZED, stacklevel=5)
