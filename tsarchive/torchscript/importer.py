"""From the records of an archive to a module that runs: classes are resolved while unpickling."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch

from tsarchive.container import Container
from tsarchive.errors import MissingRecordError, PickleError, UnknownClassError, UnsupportedError
from tsarchive.kinds import kind_of, require_torchscript
from tsarchive.pickler import Global, Object, Reduce, loads
from tsarchive.policy import Guard
from tsarchive.printer.types import TENSOR, ClassType, EnumType, Type
from tsarchive.printer.values import TableConstant
from tsarchive.run.classes import Classes, get_slot, link_lists, new_object, set_slot
from tsarchive.run.operators import native_object
from tsarchive.torchscript.code_records import CodeRecords, format_version
from tsarchive.torchscript.debug import DebugRecords
from tsarchive.torchscript.devices import MovedArchive, moved_archive
from tsarchive.torchscript.frontend import CodeImporter
from tsarchive.torchscript.frontend.importer import NATIVE_PREFIX
from tsarchive.torchscript.frontend.libraries import what_registers
from tsarchive.torchscript.pickling import fits, run_time_type
from tsarchive.torchscript.runnable import runnable_code
from tsarchive.torchscript.tensors import TensorReader

if TYPE_CHECKING:
    from tsarchive.run.classes import ArchiveModule

# Deeper nesting than any model has; a file made to exhaust the stack has more.
MAX_DEPTH = 200
_DEFAULT = Guard()
OLDEST_READ, NEWEST_READ = 1, 10
_LIST_BUILDERS = frozenset(
    {"build_intlist", "build_tensorlist", "build_doublelist", "build_boollist"}
)


class Importer:
    """Loads the root object of one archive; its container stays open while tensors live."""

    def __init__(
        self, container: Container, device: torch.device | None, guard: Guard = _DEFAULT
    ) -> None:
        require_torchscript(kind_of(container.records), container.records)
        self.moved = None if device is None else moved_archive(container, str(device))
        if self.moved is not None:
            container = self.moved.container
        self.container = container
        self.device = device
        self._constants: tuple[Any, ...] | None = None
        self.code = runnable_code(
            CodeRecords(container),
            constant=self.constant,
            version=_supported_version(container),
            debug=DebugRecords(container),
        )
        self.classes = Classes(container, guard)

    def load(self) -> ArchiveModule:
        """The root module. Raises ArchiveError where a record breaks a rule of the format."""
        root = self._read("data.pkl", "data")
        if not isinstance(root, torch.nn.Module):
            raise PickleError("the root of the archive is not a module", record="data.pkl")
        return root  # type: ignore[return-value]  # modules are of no other class here

    def constant(self, index: int) -> tuple[Any, Type]:
        """``CONSTANTS.cN`` as a graph holds it, with its type."""
        if self._constants is None:
            table = self._read("constants.pkl", "constants")
            self._constants = table if isinstance(table, tuple) else (table,)
        if not 0 <= index < len(self._constants):
            raise MissingRecordError(
                f"the code names constant {index} of {len(self._constants)}",
                record="constants.pkl",
                limit=len(self._constants),
            )
        value = self._constants[index]
        if isinstance(value, torch.Tensor):
            return TableConstant(value), TENSOR
        found = self.classes.type_of(value)
        return (TableConstant(value), found) if found else (value, run_time_type(value))

    def _read(self, record: str, folder: str) -> Any:
        value = loads(self.container.read(record), record=record)
        if self.moved is not None:
            self.moved.move_strings(value)
        view = self.container.view
        tensors = TensorReader(lambda key: view(f"{folder}/{key}"), self.device, record)
        return Unpickling(self, tensors, record).value(value)


def _supported_version(container: Container) -> int:
    version = format_version(container)
    if not OLDEST_READ <= version <= NEWEST_READ:
        raise UnsupportedError(
            f"the archive has format version {version}; {OLDEST_READ} to {NEWEST_READ} are known",
            record="version",
            hint="It was written by another torch than this tsarchive knows, or is damaged",
        )
    return version


class ClassSource(Protocol):
    """Where the classes of pickled objects come from."""

    code: CodeImporter
    classes: Classes
    moved: MovedArchive | None


class Unpickling:
    """Turns the inert values of one pickle into objects. Each value is built once."""

    def __init__(self, importer: ClassSource, tensors: TensorReader, record: str) -> None:
        self.importer = importer
        self.tensors = tensors
        self.record = record
        self._built: dict[int, Any] = {}
        self._depth = 0

    def value(self, value: Any) -> Any:
        build = _BUILDERS.get(type(value))
        if build is None:
            return value
        if id(value) not in self._built:
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise self.error("values are nested too deeply", limit=MAX_DEPTH)
            self._built[id(value)] = build(self, value)
            self._depth -= 1
        return self._built[id(value)]

    def error(self, message: str, limit: int | None = None) -> PickleError:
        return PickleError(message, record=self.record, limit=limit)

    def _list(self, value: list[Any]) -> list[Any]:
        return [self.value(item) for item in value]

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([self.value(item) for item in value])

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(item) for key, item in value.items()}

    def _reduce(self, value: Reduce) -> Any:
        function = value.function
        if function.module == "torch._utils":
            return self._tensor(function.name, value.argument)
        if function.module == "torch.jit._pickle":
            return self._container(function.name, value.argument)
        build = _CALLS.get(function.qualified_name)
        if build is not None:
            return build(self, *self._arguments(value))
        return self._enum_member(function, self.value(value.argument))

    def _arguments(self, value: Reduce) -> tuple[Any, ...]:
        if not isinstance(value.argument, tuple):
            raise self.error(f"{value.function.qualified_name} is not given a tuple")
        return value.argument

    def _tensor(self, name: str, argument: Any) -> torch.Tensor:
        if not isinstance(argument, tuple):
            raise self.error(f"{name} is not given a tuple")
        return self.tensors.build(name, tuple([self.value(item) for item in argument]))

    def _container(self, name: str, argument: Any) -> Any:
        match name, argument:
            case _, (list() as items,) if name in _LIST_BUILDERS:
                return self._list(items)
            case "restore_type_tag", (list() | dict() as content, str()):
                return self.value(content)
        raise self.error(f"torch.jit._pickle.{name} is unknown, or its arguments are malformed")

    def _complex(self, real: Any, imag: Any) -> complex:
        if not (isinstance(real, float) and isinstance(imag, float)):
            raise self.error("a complex number is malformed")
        return complex(real, imag)

    def _device(self, text: Any) -> torch.device:
        if self.importer.moved is not None and isinstance(text, str):
            text = self.importer.moved.device(text)
        try:
            return torch.device(text)
        except (RuntimeError, TypeError):
            raise self.error(f"{text!r} is not a device") from None

    def _no_hooks(self) -> None:
        return None

    def _from_type(self, function: Any, _type: Any, arguments: Any, _state: Any) -> Any:
        """A tensor subclass is loaded as the plain tensor it wraps, as torch.jit does."""
        if not isinstance(function, Global) or function.module != "torch._utils":
            raise self.error("a tensor subclass is malformed")
        return self._tensor(function.name, arguments)

    def _enum_member(self, cls: Global, content: Any) -> Any:
        type_ = self.importer.code.find(cls.qualified_name)
        if not isinstance(type_, EnumType):
            raise self.unknown(cls)
        member = self.importer.classes.enum_member(type_, content)
        if member is None:
            raise self.error(f"{content!r} is no value of the enum {cls.qualified_name}")
        return member

    def unknown(self, cls: Global) -> UnknownClassError:
        name = cls.qualified_name
        if name.startswith(NATIVE_PREFIX):
            message, hint = f"the class {name} is not registered", what_registers(name)
        else:
            message = f"the archive holds an object of {name}, but does not define it"
            hint = "The archive is incomplete: download or copy it again"
        return UnknownClassError(message, record=self.record, hint=hint)

    def _object(self, value: Object) -> Any:
        class_ = self.importer.code.find(value.cls.qualified_name)
        if not isinstance(class_, ClassType):
            raise self.unknown(value.cls)
        if class_.is_native:
            return native_object(class_, self.value(value.state))
        built = new_object(self.importer.classes.python_class(class_))
        self._built[id(value)] = built
        if class_.has_state_methods:
            self.importer.classes.call(
                class_.methods["__setstate__"], built, self.value(value.state)
            )
            check_set(built, class_, self.record)
            return built
        if not isinstance(value.state, dict):
            raise self.error(f"the state of {value.cls.qualified_name} is not a dict")
        for name, attribute in class_.attributes.items():
            if name not in value.state:
                raise self.error(f"{value.cls.qualified_name} has no value for {name!r}")
            set_slot(built, attribute, self.value(value.state[name]))
        if class_.is_module:
            link_lists(built)
        return built


def check_set(built: Any, class_: ClassType, record: str) -> None:
    """Raise PickleError where ``__setstate__`` has left a slot without a value."""
    for attribute in class_.attributes.values():
        try:
            is_set = get_slot(built, attribute) is not None
        except KeyError:
            is_set = False
        if not (is_set or fits(None, attribute.type)):
            raise PickleError(
                f"__setstate__ of {class_.qualified_name} leaves {attribute.name!r} unset",
                record=record,
            )


_BUILDERS: dict[type, Callable[[Unpickling, Any], Any]] = {
    list: Unpickling._list,
    tuple: Unpickling._tuple,
    dict: Unpickling._dict,
    Reduce: Unpickling._reduce,
    Object: Unpickling._object,
}

_CALLS: dict[str, Callable[..., Any]] = {
    "builtins.complex": Unpickling._complex,
    "torch.device": Unpickling._device,
    "collections.OrderedDict": Unpickling._no_hooks,
    "torch._tensor._rebuild_from_type_v2": Unpickling._from_type,
}
