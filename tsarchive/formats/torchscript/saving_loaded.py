"""The records of modules that were loaded: their objects, and their code as it was read."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from tsarchive.adopt.sharing import always_held_parts, held_parts
from tsarchive.container import Container, NewRecord
from tsarchive.errors import SaveError
from tsarchive.formats.base import as_read
from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.constants import Device, EnumMember, ObjectValue, TableConstant, TypedValue
from tsarchive.ir.graph import Block
from tsarchive.ir.types import NONE, EnumType, Type, annotation
from tsarchive.run.foreign import ForeignObject
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.operators import native_class
from tsarchive.run.slots import get_slot

from .code_records import format_version
from .kept_code import kept_code
from .pickling import Constants, fits
from .saving import (
    Code,
    archive_records,
    canonical_records,
    canonical_text,
    extra_files,
    sorted_extra_files,
)

_EXTRA = "extra/"


def loaded_records(
    module: ArchiveModule, files: Mapping[str, bytes], *, debug: bool
) -> list[NewRecord]:
    """Return the records of a module with its code as it was read; its extra files are kept."""
    container = module.tsarchive_classes.container
    code = as_read(container, kept_code(container, debug=debug))
    return archive_records(
        _Objects(container).object(module),
        _kept_extras(container, files),
        code=Code(tuple(code), format_version(container)),
        traced_inputs=as_read(container, names_below(container, "traced_inputs")),
        debug=debug,
    )


def canonical_form(module: ArchiveModule, files: Mapping[str, bytes]) -> list[NewRecord]:
    """Return the records of a module in the canonical form, with these extra files alone."""
    return canonical_loaded_records(module, sorted_extra_files(files))


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
