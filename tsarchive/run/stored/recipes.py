"""How each global of generated code is found again in another process.

A recipe is a kind and what the object of that kind is told by: names, positions, types, numbers.
What the recipes here do not tell has none, and a function that refers to it is not stored. No
recipe holds a tensor, and none leads out of torch's operators, this library and the archive.
"""

from __future__ import annotations

import builtins
import importlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, SimpleNamespace
from typing import Any, Final, NamedTuple, Protocol

import torch

from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import EnumType, Type
from tsarchive.operators.overloads import parsed
from tsarchive.run import natives
from tsarchive.run.checks import NUMBER_KINDS, number_check
from tsarchive.run.conversion import predicate, type_of_class, typed_dict, typed_list
from tsarchive.run.direct import checked_binding
from tsarchive.run.enforcement import Dispatch
from tsarchive.run.linkage import Bound, DynamicCall, LazyFunction, Linkage, NativeCall
from tsarchive.run.modules import call_module
from tsarchive.run.natives.table import NATIVES
from tsarchive.run.objects import as_number
from tsarchive.run.operators import (
    find_native,
    implementation,
    native_class,
    operator_schemas,
    registered,
    without_modes,
)

from .types import TypeReader, TypeWriter, Unstorable

Recipe = tuple[Any, ...]


class ArchiveNames(Protocol):
    """What the recipes name of an archive."""

    def function(self, qualified_name: str) -> Function | None:
        """Return a function or method of the archive."""

    def constant(self, index: int) -> Any:
        """Return the run-time value of an entry of the table of constants."""

    def position(self, constant: Any) -> int | None:
        """Return the entry of the table of constants that an object is, if it is one."""


class Handed:
    """Remembers which operator the objects stand for that a dispatch hands out."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Recipe]] = {}

    def watched(self, dispatch: Dispatch) -> Dispatch:
        """Return a dispatch that does the same and is remembered."""

        def implementation(schema: FunctionSchema) -> Any:
            return self._noted(dispatch.implementation(schema), _operator_of(schema))

        def metered(schema: FunctionSchema, run: Any) -> Any:
            inner = self.recipe(run) or _of_table(run)
            found = dispatch.metered(schema, run)
            if found is run or inner is None:
                return found
            return self._noted(found, ("metered", *_operator_of(schema)[1:], inner))

        def direct_call(*arguments: Any) -> Any:
            assert dispatch.direct_call is not None
            found = dispatch.direct_call(*arguments)
            if found is not None and type(found[0]) is FunctionType:
                self._noted(found[0], ("checked", *_operator_of(arguments[0].schema)[1:]))
            return found

        direct = None if dispatch.direct_call is None else direct_call
        return dispatch._replace(implementation=implementation, metered=metered, direct_call=direct)

    def _noted(self, value: Any, recipe: Recipe) -> Any:
        self._known[id(value)] = value, recipe
        return value

    def recipe(self, value: Any) -> Recipe | None:
        known = self._known.get(id(value))
        return None if known is None else known[1]


def _operator_of(schema: FunctionSchema) -> Recipe:
    return "operator", schema.name, schema.overload


class Context(NamedTuple):
    """What recipes refer to. ``dispatch`` is the one that code of this archive calls by."""

    linkage: Linkage
    dispatch: Dispatch
    names: ArchiveNames
    handed: Handed
    writer: TypeWriter
    reader: TypeReader


def recipe_of(value: Any, context: Context) -> Recipe:
    """Return the recipe of a global. Raises Unstorable where there is none."""
    for kind, (describe, _) in _KINDS.items():
        told = describe(value, context)
        if told is not None:
            return (kind, *told)
    raise Unstorable(f"there is no recipe for {value!r}")


def made_by(recipe: Recipe, context: Context) -> Any:
    """Return the object that a recipe tells. Raises Unstorable for what is none."""
    kind, *told = recipe
    if kind not in _KINDS:
        raise Unstorable(f"unknown recipe {kind!r}")
    return _KINDS[kind][1](context, *told)


def bound_stored(bound: Bound, names: ArchiveNames) -> tuple[tuple[int, int], ...]:
    """Return constants that a call binds by their positions in the table."""
    found = tuple((place, names.position(tensor)) for place, tensor in bound)
    if any(position is None for _, position in found):
        raise Unstorable("a constant is not in the table")
    return found  # type: ignore[return-value]


# Each kind: what tells an object of it, or None, and the object that this tells.


def _callee(value: Any, context: Context) -> Recipe | None:
    if type(value) is not LazyFunction:
        return None
    function, bound, wanted = value.call
    if context.names.function(function.qualified_name) is not function:
        raise Unstorable(f"{function.qualified_name} is not a function of the archive")
    items = None if wanted is None else tuple(sorted(wanted))
    return function.qualified_name, bound_stored(bound, context.names), items


def _called(context: Context, name: str, bound: Any, wanted: Any) -> Any:
    function = context.names.function(name)
    if function is None:
        raise Unstorable(f"there is no function {name}")
    passed = tuple((place, context.names.constant(index)) for place, index in bound)
    items = None if wanted is None else frozenset(wanted)
    return context.linkage.function(function, passed, items)


def _class(value: Any, context: Context) -> Recipe | None:
    type_ = type_of_class(value) if isinstance(value, type) else None
    return None if type_ is None else (context.writer.type(type_),)


def _class_of(context: Context, stored: Any) -> Any:
    return context.linkage.table.python_class(context.reader.type(stored))


def _constant(value: Any, context: Context) -> Recipe | None:
    position = context.names.position(value)
    return None if position is None else (position,)


def _member(value: Any, context: Context) -> Recipe | None:
    type_ = type_of_class(type(value)) if isinstance(value, Enum) else None
    if not isinstance(type_, EnumType) or type(value)[value.name] is not value:
        return None
    return context.writer.type(type_), value.name


def _table_entry(value: Any, _: Context) -> Recipe | None:
    found = _of_table(value)
    return found and (*found, str(getattr(value, "__module__", "")))


_TABLES: Final = {"natives": "NATIVES", "builtins": "BUILTINS", "upgraders": "UPGRADERS"}
_NATIVES: Final = f"{natives.__name__}."


def _table(name: str) -> Mapping[str, Any]:
    """Return a table of functions; each is imported when code needs it."""
    found: Mapping[str, Any] = getattr(natives, _TABLES[name])
    return found


def _from_table(_: Context, name: str, key: str, home: str = "") -> Any:
    """Return a function of a table, which ``home`` alone may enter: few need all of the natives."""
    if home.startswith(_NATIVES):
        with suppress(ImportError):
            importlib.import_module(home)
    return NATIVES[key] if name == "natives" and key in NATIVES else _table(name)[key]


@cache
def _entries() -> Mapping[int, Recipe]:
    return {
        id(function): (table, key) for table in _TABLES for key, function in _table(table).items()
    }


def _of_table(value: Any) -> Recipe | None:
    found = _entries().get(id(value))
    return found if found and _table(found[0]).get(found[1]) is value else None


def _operator(value: Any, context: Context) -> Recipe | None:
    """An operator behind its checks, or one that the C++ function of torch runs."""
    recipe = context.handed.recipe(value)
    if recipe is None or recipe[0] != "operator":
        return None
    if type(value) is BuiltinFunctionType:
        return (*recipe[1:], "plain")
    is_registered = (
        context.dispatch.implementation is implementation
        and find_native(_schema(*recipe[1:])) is None
    )
    return (*recipe[1:], "registered" if is_registered else "any")


def _operator_run(context: Context, name: str, overload: str, kind: str) -> Any:
    """Return what runs an operator. Tables are not asked where it is known to be in none."""
    if kind == "plain":
        return torch._C._get_operation_overload(name, overload)[0]
    is_registered = kind == "registered" and context.dispatch.implementation is implementation
    run = registered if is_registered else context.dispatch.implementation
    return run(_schema(name, overload))


def _schema(name: str, overload: str) -> FunctionSchema:
    try:
        return parsed(str(torch._C._get_schema(name, overload)), native_class)
    except RuntimeError:  # TorchScript has it, and the dispatcher does not
        return _unregistered(name, overload)


def _unregistered(name: str, overload: str) -> FunctionSchema:
    for schema in operator_schemas(name):
        if schema.overload == overload:
            return schema
    raise Unstorable(f"there is no {name}.{overload}")


def _handed(kind: str) -> Callable[[Any, Context], Recipe | None]:
    def describe(value: Any, context: Context) -> Recipe | None:
        recipe = context.handed.recipe(value)
        return recipe[1:] if recipe is not None and recipe[0] == kind else None

    return describe


def _metered(context: Context, name: str, overload: str, inner: Recipe) -> Any:
    table, key = inner
    return context.dispatch.metered(_schema(name, overload), _table(table)[key])


def _checked(_: Context, name: str, overload: str) -> Any:
    return checked_binding(_schema(name, overload))


_PLACES: Final[Mapping[str, Any]] = {
    "function": torch._C._VariableFunctions, "nn": torch._C._nn, "method": torch._C.TensorBase,
    "builtins": builtins, "list": list, "str": str, "int": int, "dict": dict, "float": float,
    "complex": complex, "math": math, "operator": operator,
    "tensor": SimpleNamespace(
        Tensor=torch.Tensor, Parameter=torch.nn.Parameter, device=torch.device
    ),
}  # fmt: skip


def _binding(value: Any, _: Context) -> Recipe | None:
    """A function of C that torch or Python binds, or a type that Python has built in."""
    kinds = (BuiltinFunctionType, MethodDescriptorType, type)
    name = getattr(value, "__name__", "") if isinstance(value, kinds) else ""
    for place, owner in _PLACES.items() if name.isidentifier() else ():
        if _is_bound(owner, name) and getattr(owner, name) is value:
            return place, name
    return None


# These run code, or open files, that an archive could name.
_UNBOUND: Final = frozenset({"eval", "exec", "compile", "open", "__import__", "getattr", "setattr"})


def _is_bound(owner: Any, name: str) -> bool:
    return hasattr(owner, name) and not (owner is builtins and name in _UNBOUND)


def _bound(_: Context, place: str, name: str) -> Any:
    owner = _PLACES[place]
    if not _is_bound(owner, name):
        raise Unstorable(f"there is no {name} in {place}")
    return getattr(owner, name)


_RUNNER: Final = "tsarchive.run."


def _own(value: Any, _: Context) -> Recipe | None:
    """A function or class that a module of this runner has under its own name."""
    if not isinstance(value, FunctionType | type):
        return None
    module, name = str(value.__module__), value.__name__
    try:
        is_there = module.startswith(_RUNNER) and _member_of(module, name) is value
    except Unstorable:
        return None
    return (module, name) if is_there else None


@cache
def _member_of(module: str, name: str) -> Any:
    found = None
    if module.startswith(_RUNNER):
        found = vars(importlib.import_module(module)).get(name)
    if getattr(found, "__module__", None) != module or getattr(found, "__name__", None) != name:
        raise Unstorable(f"there is no {name} in {module}")
    return found


_CONTAINERS: Final[Mapping[str, Callable[..., Any]]] = {"list": typed_list, "dict": typed_dict}


def _new(value: Any, context: Context) -> Recipe | None:
    """What makes lists or dicts of one type."""
    if type(value) is not partial or value.keywords or len(value.args) != 1:
        return None
    kind = next((kind for kind, make in _CONTAINERS.items() if make is value.func), None)
    is_typed = kind is not None and isinstance(value.args[0], Type)
    return (kind, context.writer.type(value.args[0])) if is_typed else None


def _overload(value: Any, _: Context) -> Recipe | None:
    """The call of a module through the hooks of one of its overloads of ``forward``."""
    if type(value) is not partial or value.func is not call_module or value.args:
        return None
    return (value.keywords["method"],) if value.keywords.keys() == {"method"} else None


def _predicate(value: Any, context: Context) -> Recipe | None:
    types = getattr(value, "tsarchive_types", None) if type(value) is FunctionType else None
    return None if types is None else tuple(map(context.writer.type, types))


def _number_check(value: Any, _: Context) -> Recipe | None:
    return next(((kind,) for kind in NUMBER_KINDS if number_check(kind) is value), None)


def _interface_call(value: Any, context: Context) -> Recipe | None:
    is_own = type(value) is DynamicCall and value.linkage is context.linkage
    return (value.name,) if is_own else None


def _native_call(value: Any, context: Context) -> Recipe | None:
    if type(value) is not NativeCall:
        return None
    return context.writer.type(value.type), value.name


def _native_called(context: Context, stored: Any, name: str) -> Any:
    type_ = context.reader.type(stored)
    if not isinstance(type_, ClassType):
        raise Unstorable("only classes have methods")
    return NativeCall(type_, name)


def _of_dispatch(name: str) -> Callable[[Any, Context], Recipe | None]:
    def describe(value: Any, context: Context) -> Recipe | None:
        return () if value is not None and getattr(context.dispatch, name) is value else None

    return describe


def _from_dispatch(name: str) -> Callable[[Context], Any]:
    def find(context: Context) -> Any:
        found = getattr(context.dispatch, name)
        if found is None:
            raise Unstorable(f"there is no {name} here")
        return found

    return find


def _own_text(value: Any, context: Context) -> Recipe | None:
    is_own = type(value) is str and context.linkage.analyses.comparisons.has_text(value)
    return (value,) if is_own else None


def _device(value: Any, _: Context) -> Recipe | None:
    return (str(value),) if type(value) is torch.device else None


def _number_of_constant(value: Any, context: Context) -> Recipe | None:
    """A number that generated code takes out of a constant, which may be a weight."""
    tensor = context.linkage.objects.acting_as(value)
    if tensor is None:
        return None
    position = context.names.position(tensor)
    if position is None:
        raise Unstorable("a number is of a tensor that is not in the table of constants")
    return (position,)


def _number_in(context: Context, index: int) -> Any:
    with without_modes():
        return as_number(context.names.constant(index))


_SCALARS: Final = (bool, int, float, complex, str, type(None))


def _scalar(value: Any, _: Context) -> Recipe | None:
    return (value,) if type(value) in _SCALARS else None


def _tuple(value: Any, context: Context) -> Recipe | None:
    if type(value) is not tuple:
        return None
    return tuple(recipe_of(item, context) for item in value)


_Describe = Callable[[Any, Context], Recipe | None]
_KINDS: Final[Mapping[str, tuple[_Describe, Callable[..., Any]]]] = {
    "callee": (_callee, _called),
    "class": (_class, _class_of),
    "binding": (_binding, _bound),
    "entry": (_table_entry, _from_table),
    "operator": (_operator, _operator_run),
    "metered": (_handed("metered"), _metered),
    "checked": (_handed("checked"), _checked),
    "own": (_own, lambda _, module, name: _member_of(module, name)),
    "new": (_new, lambda c, kind, stored: partial(_CONTAINERS[kind], c.reader.type(stored))),
    "overload": (_overload, lambda _, method: partial(call_module, method=method)),
    "predicate": (_predicate, lambda c, *types: predicate(map(c.reader.type, types))),
    "number": (_number_check, lambda _, kind: number_check(kind)),
    "interface": (_interface_call, lambda context, name: DynamicCall(name, context.linkage)),
    "bound class": (_native_call, _native_called),
    "spend": (_of_dispatch("spend"), _from_dispatch("spend")),
    "bounded": (_of_dispatch("bounded"), _from_dispatch("bounded")),
    "constant": (_constant, lambda context, index: context.names.constant(index)),
    "member": (_member, lambda c, stored, name: _class_of(c, stored)[name]),
    "text": (_own_text, lambda context, text: context.linkage.analyses.comparisons.text(text)),
    "device": (_device, lambda _, text: torch.device(text)),
    "number of constant": (_number_of_constant, _number_in),
    "scalar": (_scalar, lambda _, value: value),
    "tuple": (_tuple, lambda context, *items: tuple(made_by(item, context) for item in items)),
}


def namespace_of(recipes: Sequence[tuple[str, Recipe]], context: Context) -> dict[str, Any]:
    """Return the globals that the recipes tell, by name."""
    return {name: made_by(recipe, context) for name, recipe in recipes}
