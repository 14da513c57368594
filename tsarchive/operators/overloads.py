"""Overloads by name, and methods of classes that torch binds, parsed from the registry's texts.

Behind the operators of a name stand the functions that TorchScript defines under it in its own
language. Their overload names are this table's own; torch gives the functions none. Torch is not
needed to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final, NoReturn

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.classes import Attribute, ClassType, Function
from tsarchive.ir.schema import FunctionSchema, parse_schema_with
from tsarchive.ir.types import CAPSULE, Type, VarType

from .registry import class_names, entries_of, listed_versions, method_texts, schema_texts

_CLASS: Final = "__torch__."
_OLDER: Final = "upgrader::"


def overloads_of(name: str, version: str | None = None) -> tuple[FunctionSchema, ...]:
    """Return the overloads of an operator ("aten::add") in the order in which torch tries them.

    ``version`` of torch, such as "2.13"; without one it is the newest that has the operator.
    Empty where there is none. What stands for an old operator has the schema that this had.
    """
    if name.startswith(_OLDER):
        from .upgraders import OLDER_SCHEMAS  # which no load takes

        text = OLDER_SCHEMAS.get(name)
        return () if text is None else (_parsed(text),)
    return (*map(_parsed, schema_texts(name, version)), *builtins_of(name))


def old_overloads_of(name: str) -> tuple[FunctionSchema, ...]:
    """Return the overloads that the newest torch does not have any more, the newest first."""
    newest = listed_versions()[-1]
    old = [entry for entry in entries_of(name) if newest not in entry.versions]
    old.sort(key=lambda entry: listed_versions().index(entry.versions[-1]), reverse=True)
    return tuple([_parsed(entry.text) for entry in old])


def last_version_of(schema: FunctionSchema) -> str:
    """Return the newest version of torch that has a listed overload as it is."""
    entries = (entry for entry in entries_of(schema.name) if _parsed(entry.text) == schema)
    return max((entry.versions[-1] for entry in entries), key=listed_versions().index)


def builtins_of(name: str) -> Iterator[FunctionSchema]:
    """Yield the functions of that name that TorchScript defines in its own language."""
    return map(_parsed, _builtins().get(name, ()))


def methods_of(class_name: str, version: str | None = None) -> dict[str, FunctionSchema]:
    """Return the methods of a class of torch, ``__torch__.torch.classes.rnn.CellParamsBase``."""
    texts = (text.removeprefix(f"{class_name}.") for text in method_texts(class_name, version))
    return {schema.name: schema for schema in map(_parsed, texts)}


@cache
def class_of(name: str) -> ClassType | None:
    """Return a class that torch binds; None for a name that is none of its classes.

    Its methods have schemas and no graphs.
    """
    if name not in class_names():
        return None
    return with_methods(native_class(name), methods_of(name).values())


def with_methods(class_: ClassType, schemas: Iterable[FunctionSchema]) -> ClassType:
    """Return a class bound from C++ with methods of these schemas, which have no graphs."""
    for schema in schemas:
        name = f"{class_.qualified_name}.{schema.name}"
        class_.methods[schema.name] = Function(name, schema, _no_graph)
    if not class_.methods:
        class_.attributes["capsule"] = Attribute("capsule", CAPSULE)
    return class_


def _no_graph() -> NoReturn:
    raise UnsupportedError("a method that is defined in C++ has no graph")


def builtin_texts() -> Iterator[str]:
    """Yield the schemas of the functions that TorchScript defines in its own language."""
    for kind in ("float", "int", "complex"):
        ordered = () if kind == "complex" else ("lt", "le", "gt", "ge")
        for name in ("mul", "add", "ne", "eq", "sub", "div", *ordered):
            yield f"aten::{name}.builtin_{kind}_Tensor({kind} a, Tensor b) -> Tensor"
    for kind in ("float", "int"):
        for length, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), start=1):
            yield f"aten::{name}.builtin_{kind}({kind}[{length}] x) -> {kind}[]"
    yield from _BUILTINS
    for name in ("T", "H", "mT", "mH"):
        yield f"prim::{name}.builtin(Tensor a) -> Tensor"


_BUILTINS: Final = (
    "aten::floordiv.builtin_Scalar(Tensor self, Scalar other) -> Tensor",
    "aten::floordiv.builtin_Tensor(Tensor self, Tensor other) -> Tensor",
    "aten::_assert_int_or_pair.builtin(int[] vals, str name, str message) -> ()",
    "aten::list_with_default.builtin(int[] out_size, int[] defaults) -> int[]",
    "aten::_assert.builtin_bool(bool condition, str message) -> ()",
    "aten::_assert.builtin_Tensor(Tensor condition, str message) -> ()",
    "aten::device.builtin(str type) -> Device",
    "aten::type.builtin(Tensor self, int dtype, bool non_blocking=False, bool copy=False)"
    " -> Tensor",
    "aten::__contains__.builtin_str(str self, str key) -> bool",
    "prim::ndim.builtin(Tensor a) -> int",
    "prim::shape.builtin(Tensor a) -> int[]",
)


@cache
def _builtins() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in builtin_texts():
        found.setdefault(text.partition(".")[0], []).append(text)
    return found


@cache
def _parsed(text: str) -> FunctionSchema:
    return parsed(text, lambda name: native_class(name) if name.startswith(_CLASS) else None)


def parsed(text: str, class_named: Callable[[str], ClassType | None]) -> FunctionSchema:
    """Parse a schema, whose classes ``class_named`` gives."""

    def type_named(name: str) -> Type:
        """Return a class that a library binds, or a type variable, which starts in lower case."""
        found = class_named(name)
        if found is None and not name[0].islower():
            raise FormatError(f"schema names the unknown type {name!r}")
        return found or VarType(name)

    return parse_schema_with(text, type_named)


@cache
def native_class(name: str) -> ClassType:
    """Return the one class of a name: classes compare by identity."""
    return ClassType(name, is_native=True)
