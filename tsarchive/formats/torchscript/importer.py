"""Loading of an archive as a module; classes are resolved during unpickling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import torch

from tsarchive.container import Container
from tsarchive.errors import (
    INCOMPLETE,
    ArchiveError,
    MissingRecordError,
    PickleError,
    ScriptError,
    UnknownClassError,
    UnsupportedError,
)
from tsarchive.garbage import collecting
from tsarchive.ir.classes import Attribute, ClassType, InterfaceType
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.subtyping import conforms
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    EnumType,
    ListType,
    NamedType,
    SimpleType,
    TupleType,
    Type,
    annotation,
)
from tsarchive.pickler import Global, Object, PersistentId, Reduce, loads
from tsarchive.policy import FOR_STRANGERS, Guard
from tsarchive.run.classes import Classes
from tsarchive.run.conversion import type_of
from tsarchive.run.foreign import ForeignObject, any_native_class, is_foreign, readable_schemas
from tsarchive.run.modules import ArchiveModule, ArchiveObject
from tsarchive.run.objects import new_object, unset_object
from tsarchive.run.operators import find_native
from tsarchive.run.slots import (
    FINDERS,
    ClassSlots,
    get_slot,
    link_lists,
    put_into_slot,
    slot_kind,
)

from .code_records import NEWEST_VERSION, OLDEST_VERSION, CodeRecords, format_version
from .pickled import LIST_BUILDERS, Conversion, storages_of, storages_outside
from .stored_code import ReadSchemas, StoredCode, folder_for
from .stored_tensors import is_dense, is_device, is_tensor
from .tensors import TensorReader, parse_device

if TYPE_CHECKING:
    from tsarchive.formats.awaited import AwaitedStorages
    from tsarchive.formats.base import Importer as AnyImporter
    from tsarchive.frontend import CodeImporter
    from tsarchive.run.compiler import Stored

    from .devices import MovedArchive

# Types of dict keys, also within a tuple: comparing them never runs code of the archive.
_KEYS = frozenset({type(None), bool, int, float, complex, str})
_KEY_OBJECTS = (torch.Tensor, torch.device, Enum)


class Code(Protocol):
    """What an archive's code defines."""

    def find(self, qualified_name: str) -> NamedType | None:
        """Return the class, enum, interface, named tuple or function of a qualified name."""


class BaseImporter:
    """The base of importers: an archive, moved to a device if one is given."""

    code: Code

    def __init__(
        self,
        container: Container,
        device: torch.device | None,
        guard: Guard,
        tensors_on: torch.device | None,
        named_devices: Collection[str] = (),
    ) -> None:
        """``tensors_on`` is where tensors go if not to the ``device`` that the code is for.

        ``named_devices`` are those that the archive names other than in code and pickles.
        """
        self.moved: MovedArchive | None = None
        if device is not None:
            from .devices import moved_archive

            self.moved = moved_archive(container, str(device), named_devices)
            container = self.moved.container
        self.container = container
        self.device = tensors_on or device
        self.classes = Classes(container, guard, self._stored_functions(guard))

    def _stored_functions(self, guard: Guard) -> Stored | None:
        """Return the functions of this archive that were compiled before."""
        return None


class Importer(BaseImporter):
    """Loads the root object of one archive; its container stays open while tensors live."""

    def __init__(
        self,
        container: Container,
        device: torch.device | None,
        guard: Guard = FOR_STRANGERS,
        tensors_on: torch.device | None = None,
        *,
        infers_foreign: bool = False,
        lazy: bool = False,
    ) -> None:
        """With ``lazy``, tensors of modules are fetched when these first hand them out."""
        self._lazy = lazy
        self._constants: tuple[Any, ...] | None = None
        self._infers_foreign = infers_foreign
        super().__init__(container, device, guard, tensors_on)
        if tensors_on is not None:
            # Constants that are moved to a device without data would have none.
            self.container = container

    def _stored_functions(self, guard: Guard) -> Stored | None:
        _supported_version(self.container)
        kept = None if self._infers_foreign else folder_for(self.container, guard)
        if kept is None:
            self.code = self._code(readable_schemas)
            return None
        stored = self.code = StoredCode(
            *kept, self._code, self.constant_value, lambda: self._constants or ()
        )
        return stored.functions

    def _code(self, operators: ReadSchemas) -> CodeImporter:
        from .debug_records import DebugRecords  # code that is stored needs none

        return runnable_code(
            CodeRecords(self.container),
            constant=self.constant,
            version=_supported_version(self.container),
            operators=operators,
            debug=DebugRecords(self.container),
            infers_foreign=self._infers_foreign,
        )

    def load(self) -> ArchiveModule:
        """Return the root module.

        Raises ArchiveError where a record breaks a rule of the format.
        """
        awaited = self._awaited() if self._lazy and self.container.is_elsewhere else None
        root = self._read("data.pkl", "data", awaited)
        if isinstance(root, ForeignObject):
            raise unregistered_class(root.class_.qualified_name, "data.pkl")
        if not isinstance(root, torch.nn.Module):
            raise PickleError("the root of the archive is not a module", record="data.pkl")
        if awaited is not None:
            awaited.name_after(root)
        return root  # type: ignore[return-value]  # modules are of no other class here

    def constant(self, index: int) -> tuple[Any, Type]:
        """Return ``CONSTANTS.cN`` as graphs hold it, with its type."""
        from tsarchive.ir.constants import TableConstant

        value = self.constant_value(index)
        if isinstance(value, torch.Tensor):
            return TableConstant(value), TENSOR
        found = self.classes.table.type_of(value)
        if found is not None:
            return TableConstant(value), found
        from .pickling import run_time_type

        return value, run_time_type(value)

    def constant_value(self, index: int) -> Any:
        """Return ``CONSTANTS.cN`` as code has it when it runs."""
        if self._constants is None:
            table = self._read("constants.pkl", "constants")
            self._constants = table if isinstance(table, tuple) else (table,)
        if not 0 <= index < len(self._constants):
            raise MissingRecordError(
                f"the code names constant {index} of {len(self._constants)}",
                record="constants.pkl",
                limit=len(self._constants),
            )
        return self._constants[index]

    def _awaited(self) -> AwaitedStorages:
        from tsarchive.formats.awaited import AwaitedStorages  # most files are not elsewhere

        return AwaitedStorages()

    def _read(self, record: str, folder: str, awaited: AwaitedStorages | None = None) -> Any:
        value = loads(self.container.read(record), record=record)
        if self.moved is not None:
            self.moved.move_strings(value)
        read, size = self._reader(value, folder, awaited), self.container.size
        tensors = TensorReader(read, self.device, record, lambda key: size(f"{folder}/{key}"))
        return Unpickling(self, tensors, record, self.moved, awaited).value(value)

    def _reader(
        self, root: Any, folder: str, awaited: AwaitedStorages | None
    ) -> Callable[[str], memoryview]:
        """Return what gives the record of a storage; what is not awaited is fetched at once."""
        view = self.container.view
        if not self.container.is_elsewhere:
            return lambda key: view(f"{folder}/{key}")
        later: dict[str, memoryview] = {}
        goes_to = {
            key: self._device_type(saved)
            for key, saved in storages_of(root).items()
            if self.container.size(f"{folder}/{key}") is not None
        }
        if awaited is not None:
            now = storages_outside(root, self._is_in_table)
            for key in goes_to.keys() - now.keys():
                place = awaited.memory(self.container, f"{folder}/{key}")
                if place is not None and goes_to[key] == "cpu":
                    later[key] = place
        needed = (key for key, kind in goes_to.items() if kind != "meta" and key not in later)
        self.container.prefetch(f"{folder}/{key}" for key in needed)
        return lambda key: later[key] if key in later else view(f"{folder}/{key}")

    def _is_in_table(self, owner: Object, name: Any, value: Any) -> bool:
        """Return whether an attribute is a plain tensor in a table of its module."""
        class_ = self.code.find(owner.cls.qualified_name)
        if not isinstance(class_, ClassType) or class_.has_state_methods:
            return False
        attribute = class_.attributes.get(name)
        is_plain = isinstance(value, Reduce) and is_dense(value)
        return is_plain and attribute is not None and slot_kind(class_, attribute) in FINDERS

    def _device_type(self, saved_on: str) -> str:
        """Return the kind of device that a tensor goes to, empty where there is none such."""
        saved = parse_device(saved_on)
        is_meta = saved is not None and saved.type == "meta"
        device = saved if self.device is None or is_meta else self.device
        return "" if device is None else device.type


def _supported_version(container: Container) -> int:
    version = format_version(container)
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise UnsupportedError(
            f"the archive has format version {version}; "
            f"{OLDEST_VERSION} to {NEWEST_VERSION} are known",
            record="version",
            hint="It was written by another torch than this tsarchive knows, or is damaged",
        )
    return version


class Unpickling(Conversion):
    """Converts the inert values of one pickle to objects."""

    def __init__(
        self,
        importer: AnyImporter,
        tensors: TensorReader,
        record: str,
        moved: MovedArchive | None = None,
        awaited: AwaitedStorages | None = None,
    ) -> None:
        super().__init__(record)
        self._awaited = awaited
        self.importer = importer
        self.tensors = tensors
        self.moved = moved
        self._slots: dict[ClassType, ClassSlots] = {}

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        built = dict(zip(map(self._key, value), map(self.value, value.values()), strict=True))
        if len(built) != len(value):
            raise self.error("a dict has a key twice")
        return built

    def _key(self, key: Any) -> Any:
        built = self.value(key)
        parts = built if isinstance(built, tuple) else (built,)
        if any(type(part) not in _KEYS and not isinstance(part, _KEY_OBJECTS) for part in parts):
            raise self.error(f"a {type(built).__name__} is a key of a dict")
        return built

    def _reduce(self, value: Reduce) -> Any:
        function = value.function
        if is_tensor(value):
            return self.tensors.build(value, self.value)
        if function.module == "torch.jit._pickle":
            build_container, content = self._container(function.name, value.argument)
            return build_container(content)
        known = _CALLS.get(function.qualified_name)
        if known is None:
            return self._enum_member(function, self.value(value.argument))
        if value.items is not None or value.state is not None:
            raise self.error(f"{function.qualified_name} is filled after it was made")
        build, arity = known
        if not isinstance(value.argument, tuple) or len(value.argument) != arity:
            raise self.error(f"{function.qualified_name} is not given {arity} arguments")
        return build(self, value)

    def _container(self, name: str, argument: Any) -> tuple[Callable[[Any], Any], Any]:
        """Return the builder of a container and its argument, uncalled to limit recursion."""
        match name, argument:
            case _, (list() as items,) if name in LIST_BUILDERS:
                return self.list_of, items
            case "restore_type_tag", (list() as content, str()):
                return self.list_of, content
            case "restore_type_tag", (dict() as content, str()):
                return self._dict, content
        raise self.error(
            f"torch.jit._pickle.{name[:100]} is unknown, or its arguments are malformed"
        )

    def _complex(self, value: Reduce) -> complex:
        match value.argument:
            case (float(real), float(imag)):
                return complex(real, imag)
        raise self.error("a complex number is malformed")

    def _device(self, value: Reduce) -> torch.device:
        match value.argument:
            case (str(text),) if is_device(text):
                pass
            case _:
                raise self.error("a device is malformed")
        if self.moved is not None:
            text = self.moved.devices.moved(text)
        found = parse_device(text)
        if found is None:
            raise self.error(f"{text!r} is not a device")
        return found

    def _no_hooks(self, _value: Reduce) -> None:
        return None

    def _name(self, value: Global) -> Any:
        raise self.error(f"{value.qualified_name[:100]} stands where a value is expected")

    def _storage(self, _value: PersistentId) -> Any:
        raise self.error("a storage stands where a value is expected")

    def _enum_member(self, cls: Global, content: Any) -> Any:
        type_ = self.importer.code.find(cls.qualified_name)
        if not isinstance(type_, EnumType):
            raise self.unknown(cls)
        member = self.importer.classes.table.enum_member(type_, content)
        if member is None:
            raise self.error(f"{_shown(content)} is no value of the enum {cls.qualified_name}")
        return member

    def unknown(self, cls: Global) -> UnknownClassError:
        name = cls.qualified_name
        if name.startswith(NATIVE_PREFIX):
            return unregistered_class(name, self.record)
        message = f"the archive holds an object of {name}, but does not define it"
        return UnknownClassError(message, record=self.record, hint=INCOMPLETE)

    def _object(self, value: Object) -> Any:
        class_ = self.importer.code.find(value.cls.qualified_name)
        if not isinstance(class_, ClassType):
            raise self.unknown(value.cls)
        if is_foreign(class_):
            state = self.value(value.state)
            return ForeignObject(class_, state, self._state_type(value.state, state))
        if class_.is_native:
            return self._native(class_, self.value(value.state))
        make = unset_object if class_.has_state_methods else new_object
        built = make(self.importer.classes.table.python_class(class_))
        self._built[id(value)] = built
        if class_.has_state_methods:
            self._set_state(built, class_, self.value(value.state))
            return built
        if not isinstance(value.state, dict):
            raise self.error(f"the state of {value.cls.qualified_name} is not a dict")
        slots = self._slots_of(class_)
        for attribute, kind, key in slots.places:
            name = attribute.name
            if name not in value.state:
                raise self.error(f"{value.cls.qualified_name} has no value for {name!r}")
            content = self.value(value.state[name])
            check_slot(class_, attribute, content, self.record)
            put_into_slot(built, kind, key, content)
        if slots.has_lists:
            link_lists(built)
        if self._awaited is not None and class_.is_module:
            self._awaited.defer(built)
        return built

    def _slots_of(self, class_: ClassType) -> ClassSlots:
        found = self._slots.get(class_)
        if found is None:
            found = self._slots[class_] = ClassSlots(class_)
        return found

    def _set_state(self, built: Any, class_: ClassType, state: Any) -> None:
        try:
            set_state(self.importer.classes, built, class_, (state,), self.record)
        except ScriptError as error:
            if class_.is_revived:
                raise self._not_taken(class_, error) from error
            raise

    def _not_taken(self, class_: ClassType, error: Exception) -> PickleError:
        message = f"the state of {class_.qualified_name} is not one that it takes: {error}"
        return self.error(message)

    def _state_type(self, stored: Any, state: Any) -> Type:
        """Return the type of a state whose class is not known: containers tell theirs."""
        match stored:
            case Reduce(function=Global(module="torch.jit._pickle", name=name)):
                if name in LIST_BUILDERS:
                    return ListType(LIST_BUILDERS[name])
                from tsarchive.ir.type_parser import parse_type

                arguments: Any = stored.argument
                return parse_type(arguments[1], self.importer.code.find)
            case tuple():
                return TupleType(tuple(map(self._state_type, stored, state)))
        return type_of(state)

    def _native(self, class_: ClassType, state: Any) -> Any:
        try:
            return self.importer.classes.enforcement.native_object(class_, state)
        except (ScriptError, RuntimeError, TypeError, ValueError, LookupError) as error:
            is_ours = isinstance(error, ArchiveError)
            if is_ours and not isinstance(error, ScriptError):
                raise
            raise self._not_taken(class_, error) from error


def check_slot(class_: ClassType, attribute: Attribute, value: Any, record: str) -> None:
    """Raise PickleError for a value that is not of the type that its slot declares."""
    if not may_hold(attribute.type, value):
        raise PickleError(
            f"{attribute.name!r} of {class_.qualified_name} is declared "
            f"{annotation(attribute.type)}, but is a {type(value).__name__}",
            record=record,
        )


def set_state(
    classes: Classes, built: Any, class_: ClassType, arguments: tuple[Any, ...], record: str
) -> None:
    """Run ``__setstate__`` of an object of the archive.

    Raises PickleError where the state is not of the type that it takes or a slot is left without
    a value, ScriptError for what the code raises.
    """
    setter = class_.methods["__setstate__"]
    declared = [argument.type for argument in setter.schema.arguments[1:]]
    if len(declared) != len(arguments) or not all(map(may_hold, declared, arguments)):
        raise PickleError(
            f"the state of {class_.qualified_name} is not what its __setstate__ takes",
            record=record,
        )
    try:
        with collecting():
            classes.call(setter, built, *arguments)
    except ArchiveError:
        raise
    except Exception as error:
        kind = f"{type(error).__module__}.{type(error).__name__}"
        message = f"__setstate__ of {class_.qualified_name} raised {kind}: {error}"
        raise ScriptError(message, exception=kind) from error
    check_set(built, class_, record)


def _shown(value: Any) -> str:
    """Return a value for an error; containers may contain exponentially many references."""
    scalar = isinstance(value, bool | int | float | str | None)
    return repr(value)[:100] if scalar else f"a {type(value).__name__}"


def check_set(built: Any, class_: ClassType, record: str) -> None:
    """Raise PickleError where ``__setstate__`` has left a slot without a value."""
    for attribute in class_.attributes.values():
        try:
            is_set = get_slot(built, attribute) is not None
        except KeyError:
            is_set = False
        if not (is_set or may_hold(attribute.type, None)):
            raise PickleError(
                f"__setstate__ of {class_.qualified_name} leaves {attribute.name!r} unset",
                record=record,
            )


Unpickling.builders = {
    list: Unpickling.list_of,
    tuple: Unpickling.tuple_of,
    dict: Unpickling._dict,
    Reduce: Unpickling._reduce,
    Object: Unpickling._object,
    Global: Unpickling._name,
    PersistentId: Unpickling._storage,
}

# Builders for names other than tensors, containers and enums, and their numbers of arguments.
_CALLS: dict[str, tuple[Callable[[Unpickling, Reduce], Any], int]] = {
    "builtins.complex": (Unpickling._complex, 2),
    "torch.device": (Unpickling._device, 1),
    "collections.OrderedDict": (Unpickling._no_hooks, 0),
}


def unregistered_class(name: str, record: str) -> UnknownClassError:
    """Return the error for an object of a class that no library has registered here."""
    from tsarchive.operators.libraries import what_registers

    message = f"the class {name} is not registered"
    return UnknownClassError(message, record=record, hint=what_registers(name))


def runnable_code(
    files: Mapping[str, Callable[[], str] | str],
    constant: Callable[[int], tuple[Any, Type]],
    version: int,
    *,
    operators: Callable[[str], Sequence[FunctionSchema]] = readable_schemas,
    **options: Any,
) -> CodeImporter:
    """Make a CodeImporter with what this process has registered; ``options`` are passed on."""
    from tsarchive.frontend import CodeImporter  # code that is stored needs none

    return CodeImporter(
        files,
        operators=operators,
        constant=constant,
        version=version,
        native_class=any_native_class,
        evaluate=find_native,
        **options,
    )


_EXACT: dict[Type, tuple[type, ...]] = {
    BOOL: (bool,),
    INT: (int,),
    FLOAT: (float,),
    COMPLEX: (complex,),
    NUMBER: (int, float, complex),
    STRING: (str,),
    NONE: (type(None),),
    DEVICE: (torch.device,),
}


def may_hold(type_: Type, value: Any) -> bool:
    """Return whether ``value`` is of ``type_``.

    Types that pickles cannot express accept anything.
    """
    # Most slots hold tensors and modules.
    is_leaf = isinstance(type_, SimpleType | ClassType)
    return _is_of(value, type_) if is_leaf else conforms(value, type_, _is_of)


def _is_of(value: Any, type_: Type) -> bool:
    match type_:
        case ClassType(is_native=True):
            is_foreign_object = isinstance(value, ForeignObject) and value.class_ is type_
            return is_foreign_object or isinstance(value, torch.ScriptObject)
        case ClassType():
            class_ = getattr(type(value), "tsarchive_class", None)
            return isinstance(class_, ClassType) and class_.qualified_name == type_.qualified_name
        case InterfaceType():
            return isinstance(value, ArchiveModule | ArchiveObject)
        case EnumType():
            return isinstance(value, Enum)
    if type_ == TENSOR:
        return isinstance(value, torch.Tensor)
    exact = _EXACT.get(type_)
    return exact is None or type(value) in exact
