"""Python classes for the classes of an archive, and what all its code shares."""

from __future__ import annotations

import collections
import enum
import re
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from tsarchive.errors import SaveError, UnknownClassError, UnsupportedError
from tsarchive.ir.classes import ClassConstant, ClassType, Function
from tsarchive.ir.graph import Node
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import EnumType, TupleType, Type, annotation
from tsarchive.policy import FOR_STRANGERS, Guard
from tsarchive.policy.limits import NO_LIMITS

from .boundary import (
    PublicMethod,
    PublicOverloads,
    public_method,
    restore_grad_mode,
    seen_by_callers,
)
from .compiler import Call, LazyFunction
from .containers import container_class
from .conversion import Converter, Converters
from .copying import ClassReference, Origin, reduce_member, reduce_named_tuple
from .direct import DirectCall, direct_call, no_call
from .expressions import Bound
from .modules import ArchiveModule, ArchiveObject, HookedArchiveModule, forward_overloads
from .objects import Objects, new_object, unset_object
from .operators import Implementation, implementation, native_class, native_object, traceable
from .passes.liveness import Effects, Wanted
from .passes.object_identity import Comparisons
from .passes.peephole import Identities
from .refusals import refused
from .slots import (
    SlotKind,
    get_slot,
    hides_member,
    is_dunder,
    is_special,
    link_lists,
    set_slot,
    slot_key,
    slot_kind,
)
from .structural_sharing import Bodies
from .typecheck import register_class, type_of_class

if TYPE_CHECKING:
    from .metering import Metering

__all__ = [
    "ArchiveModule",
    "ArchiveObject",
    "Classes",
    "get_slot",
    "link_lists",
    "new_object",
    "set_slot",
    "unset_object",
]

# Methods with these names work through Python's syntax, as they do in torch.
_SYNTAX_METHODS = frozenset(
    f"__{name}__"
    for name in (
        "add", "and", "bool", "contains", "enter", "eq", "exit", "float", "floordiv", "ge",
        "getitem", "gt", "init", "int", "le", "len", "lt", "mod", "mul", "ne", "neg", "or", "pow",
        "setitem", "str", "sub", "truediv", "xor", "call",
    )
)  # fmt: skip

_GETTER = re.compile("__(.+)_getter")


class Classes:
    """The classes and functions of one archive, made when they are first needed.

    ``container`` is the archive they came from, of any form. ``guard`` says which
    operators its code may reach, and how far it may go.
    """

    def __init__(self, container: Any = None, guard: Guard = FOR_STRANGERS) -> None:
        self.container = container
        self.guard = guard
        self.lock = threading.RLock()
        self.effects = Effects()
        self.identities = Identities()
        self.comparisons = Comparisons(self.lock)
        self._python_classes: dict[Type, Any] = {}
        self._functions: dict[Hashable, LazyFunction] = {}
        self.bodies = Bodies(self)
        self._constants: dict[Node, Any] = {}
        self._converters = Converters(self.python_class)
        self._objects = Objects(self)
        self.implementation = implementation
        self.inlines = True
        self._allowed: set[str] = set()
        self.direct_call: Callable[[Node, Sequence[str]], DirectCall | None] = direct_call
        self.metered: Callable[[FunctionSchema, Callable[..., Any]], Callable[..., Any]] = (
            _unmetered
        )
        self.spend: Callable[..., None] | None = None
        self.metering: Metering | None = None
        if guard.limits != NO_LIMITS:
            from .metering import metering_of

            self.metering = metering_of(guard.limits)
            self.spend = self.metering.budgets.spend
            self.implementation = self.metering.implementation
            self.direct_call = no_call
            self.metered = self.metering.metered
        self.origin: Origin | None = None
        self._main = self
        self._for_tracing: Classes | None = None

    def check_allowed(
        self, name: str, function: Function | None = None, node: Node | None = None
    ) -> None:
        """Raise PolicyError where the policy refuses an operator or a class bound from C++.

        ``node`` is what names it, in ``function``; both are None for an object of the archive.
        """
        if name in self._allowed:
            return
        row = self.guard.policy.refusal(name)
        if row is not None:
            raise refused(self.guard.policy, name, row, function, node)
        self._allowed.add(name)

    def native_object(self, type_: ClassType, state: Any) -> Any:
        """An object of a class bound from C++, made from its pickled state.

        Raises PolicyError where the policy refuses the class, UnsupportedError for a class that
        cannot be pickled.
        """
        self.check_allowed(type_.qualified_name)
        return native_object(type_, state)

    @property
    def for_tracing(self) -> Classes:
        """The same classes, with functions of their own that torch.compile and export trace."""
        with self.lock:
            if self._for_tracing is None:
                made = self._for_tracing = object.__new__(Classes)
                made.__dict__.update(self.__dict__)
                made._for_tracing = made
                made._functions = {}
                made.bodies = Bodies(made)
                made.implementation, made.direct_call = traceable, no_call
                made.inlines = False
                made.metered, made.metering = _unmetered, None
                made.spend = None if self.metering is None else self.metering.spend_traced
            return self._for_tracing

    def function(
        self, function: Function, bound: Bound = (), wanted: Wanted = None
    ) -> LazyFunction:
        """The Python function that runs ``function``: arguments by position, no conversions.

        ``bound`` names parameters that are constant tensors at the calls in question, ``wanted``
        what those calls use of the result.
        """
        key = function, tuple((position, id(tensor)) for position, tensor in bound), wanted
        with self.lock:
            found = self._functions.get(key)
            if found is None:
                found = LazyFunction(Call(function, bound, wanted), self)
                self._functions[key] = found
            return found

    def call(self, function: Function, *arguments: Any) -> Any:
        """Run a function of the archive as its own code would."""
        run: Callable[..., Any] = self.function(function)
        if self.metering is not None:
            run = self.metering.budgets.bounded(run)
        with_grad = torch.is_grad_enabled()
        try:
            return run(*arguments)
        except Exception as error:
            raise seen_by_callers(error)  # noqa: B904  # it has no other cause
        finally:
            restore_grad_mode(with_grad)

    def python_class(self, type_: Type) -> Any:
        """The Python class for a class, enum or named tuple of the archive."""
        with self.lock:
            found = self._python_classes.get(type_)
            if found is None:
                found = self._python_classes[type_] = self._main._build(type_)
                found.tsarchive_reference = ClassReference(found, self._main, _name_of(type_))
                register_class(found, type_)
            return found

    def class_named(self, qualified_name: str) -> Any:
        """The Python class of that name. Raises UnknownClassError when there is none."""
        with self.lock:
            for type_, found in self._python_classes.items():
                if _name_of(type_) == qualified_name:
                    return found
            wanted = self.origin.find(qualified_name) if self.origin else None
            if wanted is None:
                raise UnknownClassError(f"the archive has no class {qualified_name}")
            return self.python_class(wanted)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise SaveError(
                "the classes of a module that was not loaded from an archive cannot be pickled"
            )
        return self.origin.reduce()

    def module_classes(self) -> list[tuple[type, ClassType]]:
        """The module and script classes made so far."""
        with self.lock:
            made = list(self._python_classes.items())
        return [(class_, type_) for type_, class_ in made if isinstance(type_, ClassType)]

    def _build(self, type_: Type) -> Any:
        match type_:
            case ClassType(is_native=False, is_module=True):
                return _module_class(type_, self)
            case ClassType(is_native=False):
                return _object_class(type_, self)
            case EnumType():
                return _enum_class(type_)
            case TupleType(qualified_name=str()):
                return _named_tuple_class(type_)
        raise UnsupportedError(f"{annotation(type_)} has no Python class")

    def enum_member(self, type_: EnumType, value: Any) -> enum.Enum | None:
        """The member whose value is ``value``; None without one."""
        for member in self.python_class(type_):
            if type(member.value) is type(value) and member.value == value:
                found: enum.Enum = member
                return found
        return None

    def type_of(self, value: Any) -> Type | None:
        """The archive's type of an object, enum member or named tuple; None for other values."""
        if isinstance(value, torch.ScriptObject):
            return native_class(value._type().annotation_str)
        return type_of_class(type(value))

    def constant(self, node: Node) -> Any:
        """The run-time value of a constant node, one for all calls."""
        with self.lock:
            if node not in self._constants:
                value = node.attributes["value"]
                self._constants[node] = self._objects.typed(value, node.output.type)
            return self._constants[node]

    def class_constant(self, constant: ClassConstant) -> Any:
        """The run-time value of a constant of a class."""
        return self._objects.typed(constant.value, constant.type)

    def materialize(self, value: Any) -> Any:
        """The run-time value of a value that a graph holds."""
        return self._objects.value(value)

    def converter(self, type_: Type) -> Converter:
        return self._converters.converter(type_)


def _unmetered(_schema: FunctionSchema, function: Implementation) -> Implementation:
    """``function`` as it is: nothing is limited."""
    return function


def _name_of(type_: Type) -> str:
    assert isinstance(type_, ClassType | EnumType | TupleType)
    return type_.qualified_name or ""


def _module_class(type_: ClassType, classes: Classes) -> type[ArchiveModule]:
    members = _members(type_, classes, ArchiveModule)
    bases = [container_class(type_.qualified_name)]
    if type_.forward_pre_hooks or type_.forward_hooks:
        bases.insert(0, HookedArchiveModule)
        members["archive_pre_hooks"] = _hooks(type_.forward_pre_hooks, classes)
        members["archive_hooks"] = _hooks(type_.forward_hooks, classes)
    return type(members["__qualname__"], tuple(bases), members)


def _object_class(type_: ClassType, classes: Classes) -> type[ArchiveObject]:
    members = _members(type_, classes, ArchiveObject)
    members["slot_keys"] = tuple(slot_key(type_, name) for name in type_.attributes)
    return type(members["__qualname__"], (ArchiveObject,), members)


def _members(type_: ClassType, classes: Classes, base: type) -> dict[str, Any]:
    """The methods that Python callers see: those that hide no member of the base class."""
    members: dict[str, Any] = {
        "tsarchive_class": type_,
        "tsarchive_classes": classes,
        "tsarchive_settable": _settable(type_),
    }
    for name, function in type_.methods.items():
        if _is_public(name, base):
            members[name] = PublicMethod(function, classes)
    overloads = forward_overloads(type_)
    if overloads:
        members["forward"] = PublicOverloads(overloads, classes)
    members |= _properties(members, base)
    members |= {
        name: Constant(constant, classes)
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

    def __init__(self, constant: ClassConstant, classes: Classes) -> None:
        self._constant = constant
        self._classes = classes

    def __get__(self, _instance: Any, _owner: type) -> Any:
        return self._value

    @cached_property
    def _value(self) -> Any:
        return self._classes.class_constant(self._constant)


def _properties(members: Mapping[str, Any], base: type) -> dict[str, property]:
    """Properties of the original class, which is known by its accessors alone."""
    found = {}
    for name, getter in members.items():
        match = _GETTER.fullmatch(name) if name.endswith("_getter") else None
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
        if slot_kind(type_, attribute) is SlotKind.PLAIN
        and slot_key(type_, name) == name
        and name != "_is_full_backward_hook"  # torch.nn.Module sets it, whatever its type
    )


def _is_public(name: str, base: type) -> bool:
    if is_dunder(name):
        is_own = base is not ArchiveObject and hasattr(torch.nn.Module, name)
        return name in _SYNTAX_METHODS and not is_own
    return name == "forward" or _is_free(name, base)


def _is_free(name: str, base: type) -> bool:
    """Whether a member of an archive's class may have a name where Python code sees it."""
    return not (hasattr(base, name) or hides_member(name, is_module=base is ArchiveModule))


def _hooks(hooks: list[Function], classes: Classes) -> tuple[Any, ...]:
    return tuple(public_method(hook, classes.function(hook), classes) for hook in hooks)


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
