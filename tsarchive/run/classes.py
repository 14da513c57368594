"""The Python classes and functions of one archive, each built when it is first asked for."""

from __future__ import annotations

import collections
import enum
import re
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch

from tsarchive.errors import SaveError, UnknownClassError, UnsupportedError
from tsarchive.ir.classes import ClassConstant, ClassType, Function, is_forward
from tsarchive.ir.names import unmangled
from tsarchive.ir.types import EnumType, TupleType, Type, annotation
from tsarchive.policy import FOR_STRANGERS, Guard

from .calls_from_python import (
    PublicMethod,
    PublicOverloads,
    public_function,
    restore_grad_mode,
    seen_by_callers,
)
from .compiler import Compiler, Stored
from .copying import ClassReference, Origin, reduce_member, reduce_named_tuple
from .enforcement import Enforcement
from .linkage import Analyses, Linkage
from .modules import CONTAINERS, ArchiveModule, ArchiveObject, HookedArchiveModule
from .objects import ClassTable, Objects, name_of
from .slots import SlotKind, hides_member, is_dunder, is_special, slot_key, slot_kind, slot_place

# Methods with these names work through Python's syntax, as they do in torch.
_SYNTAX_METHODS = frozenset(
    f"__{name}__"
    for name in (
        "add", "and", "bool", "contains", "enter", "eq", "exit", "float", "floordiv", "ge",
        "getitem", "gt", "init", "int", "le", "len", "lt", "mod", "mul", "ne", "neg", "or", "pow",
        "setitem", "str", "sub", "truediv", "xor", "call",
    )
)  # fmt: skip

_GETTER = "__(.+)_getter"


def build_class(type_: Type, compiler: Compiler) -> Any:
    """The Python class of ``type_``, whose methods ``compiler`` compiles."""
    match type_:
        case ClassType(is_native=False, is_module=True):
            return _module_class(type_, compiler)
        case ClassType(is_native=False):
            members = _members(type_, compiler, ArchiveObject)
            members["slot_keys"] = tuple(slot_key(type_, name) for name in type_.attributes)
            return type(members["__qualname__"], (ArchiveObject,), members)
        case EnumType():
            return _enum_class(type_)
        case TupleType(qualified_name=str()):
            return _named_tuple_class(type_)
    raise UnsupportedError(f"{annotation(type_)} has no Python class")


def _module_class(type_: ClassType, compiler: Compiler) -> type[ArchiveModule]:
    members = _members(type_, compiler, ArchiveModule)
    bases = [CONTAINERS.get(unmangled(type_.qualified_name), ArchiveModule)]
    if type_.forward_pre_hooks or type_.forward_hooks:
        bases.insert(0, HookedArchiveModule)
        for name in ("pre_hooks", "hooks"):
            members[f"archive_{name}"] = tuple(
                public_function(hook, compiler, is_method=True)
                for hook in getattr(type_, f"forward_{name}")
            )
    return type(members["__qualname__"], tuple(bases), members)


def _members(type_: ClassType, compiler: Compiler, base: type) -> dict[str, Any]:
    """The methods that Python callers see: those that hide no member of the base class."""
    members: dict[str, Any] = {"tsarchive_class": type_, "tsarchive_settable": _settable(type_)}
    for name, function in type_.methods.items():
        if _is_public(name, base):
            members[name] = PublicMethod(function, compiler)
    overloads = [method for name, method in type_.methods.items() if is_forward(type_, name)]
    if overloads and "forward" not in type_.methods:
        members["forward"] = PublicOverloads(overloads, compiler)
    members |= _properties(members, base)
    members |= {
        name: Constant(constant, compiler.linkage.objects)
        for name, constant in type_.constants.items()
        if name not in members and _is_free(name, base)
    }
    if "__eq__" in members:
        members["__hash__"] = object.__hash__  # as torch, whose objects hash by identity
    for attribute in type_.attributes.values():
        if is_special(attribute.name) and slot_kind(type_, attribute) is SlotKind.MODULE:
            members[attribute.name] = None  # in front of the submodule, which can be called
    module, _, members["__qualname__"] = type_.qualified_name.rpartition(".")
    return {"original_name": members["__qualname__"], **members, "__module__": module}


class Constant:
    """A constant of an archive class, as an attribute of its objects and of the class."""

    def __init__(self, constant: ClassConstant, objects: Objects) -> None:
        self._constant = constant
        self._objects = objects

    def __get__(self, _instance: Any, _owner: type) -> Any:
        return self._value

    @cached_property
    def _value(self) -> Any:
        return self._objects.typed(self._constant.value, self._constant.type)


def _properties(members: Mapping[str, Any], base: type) -> dict[str, property]:
    """Properties of the original class, which is known by its accessors alone."""
    found = {}
    for name, getter in members.items():
        match = re.fullmatch(_GETTER, name) if name.endswith("_getter") else None
        if match and match[1] not in members and _is_free(match[1], base):
            setter = members.get(f"__{match[1]}_setter")
            found[match[1]] = property(_called(getter), setter and _called(setter))
    return found


def _called(method: PublicMethod) -> Callable[..., Any]:
    return lambda instance, *value: method.__get__(instance, type(instance))(*value)


def _settable(type_: ClassType) -> frozenset[str]:
    """The names under which Python code sees plain slots."""
    return frozenset(
        name
        for name, attribute in type_.attributes.items()
        if slot_place(type_, attribute) == (SlotKind.PLAIN, name)
        and name != "_is_full_backward_hook"  # torch.nn.Module sets it, whatever its type
    )


def _is_public(name: str, base: type) -> bool:
    if is_dunder(name):
        is_own = base is not ArchiveObject and hasattr(torch.nn.Module, name)
        return name in _SYNTAX_METHODS and not is_own
    return name == "forward" or _is_free(name, base)


def _is_free(name: str, base: type) -> bool:
    """Return whether a member of an archive's class may have a name where Python code sees it."""
    return not (hasattr(base, name) or hides_member(name, is_module=base is ArchiveModule))


def _enum_class(type_: EnumType) -> Any:
    module, _, name = type_.qualified_name.rpartition(".")
    create: Any = enum.Enum
    try:
        made = create(name, type_.members, module=module)
    except (ValueError, TypeError) as error:
        raise UnsupportedError(f"{type_.qualified_name} cannot be an enum: {error}") from error
    made.tsarchive_enum = type_
    made.__reduce_ex__ = reduce_member
    return made


def _named_tuple_class(type_: TupleType) -> Any:
    """Fields whose names Python does not allow are reached by position only."""
    assert type_.qualified_name is not None
    module, _, name = type_.qualified_name.rpartition(".")
    create: Any = collections.namedtuple
    try:
        made = create(name, type_.fields, rename=True, module=module)
    except (ValueError, SyntaxError) as error:
        message = f"{type_.qualified_name} cannot be a named tuple: {error}"
        raise UnsupportedError(message) from error
    made.__reduce_ex__ = reduce_named_tuple
    return made


class Classes:
    """The classes and functions of one archive, made when they are first needed.

    ``container`` is the archive they came from, of any form; ``origin`` can make them again in
    another process. ``guard`` says which operators its code may reach, and how far it may go.
    ``table`` holds the Python classes, ``compiler`` the functions, ``enforcement`` applies the
    guard. ``stored`` has functions that were compiled before.
    """

    def __init__(
        self, container: Any = None, guard: Guard = FOR_STRANGERS, stored: Stored | None = None
    ) -> None:
        self.container = container
        self.origin: Origin | None = None
        lock = threading.RLock()
        self.enforcement: Enforcement = Enforcement(guard)
        self.table: ClassTable = ClassTable(self._build, lock)
        self.objects: Objects = Objects(self.table, self.enforcement.native_object, self.call, lock)
        linkage = Linkage(
            self.table, self.objects, self.enforcement, Analyses(lock), self.enforcement.dispatch
        )
        self.compiler: Compiler = Compiler(linkage, lock, stored)

    def call(self, function: Function, *arguments: Any) -> Any:
        """Run a function of the archive as its own code would."""
        run: Callable[..., Any] = self.compiler.function(function)
        if self.enforcement.metering is not None:
            run = self.enforcement.metering.bounded(run)
        with_grad = torch.is_grad_enabled()
        try:
            return run(*arguments)
        except Exception as error:
            raise seen_by_callers(error)  # noqa: B904  # it has no other cause
        finally:
            restore_grad_mode(with_grad)

    def _build(self, type_: Type) -> Any:
        made = build_class(type_, self.compiler)
        if isinstance(type_, ClassType):
            made.tsarchive_classes = self
        made.tsarchive_reference = ClassReference(made, self, name_of(type_))
        made.tsarchive_type = type_
        return made

    def class_named(self, qualified_name: str) -> Any:
        """The Python class of that name. Raises UnknownClassError if there is none."""
        found = self.table.known_class(qualified_name)
        if found is not None:
            return found
        wanted = self.origin.find(qualified_name) if self.origin else None
        if wanted is None:
            raise UnknownClassError(f"the archive has no class {qualified_name}")
        return self.table.python_class(wanted)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise SaveError(
                "the classes of a module that was not loaded from an archive cannot be pickled"
            )
        return self.origin.reduce()
