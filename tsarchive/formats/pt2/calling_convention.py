"""Calls of a program from Python: arguments by position and name, and the result.

As in torch, structures must be those that the program was exported with; keys of dicts may come in
any order, and positional arguments may be named. Named tuples, deques, ordered and default dicts,
and objects of classes that are registered with torch's pytrees in this process are converted to the
lists, dicts and tuples of code and back. Nothing is imported because a file names it.
"""

from __future__ import annotations

import builtins
import inspect
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tsarchive.errors import CallError, UnsupportedError
from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, STRING, TENSOR, Type, annotation
from tsarchive.run.calls_from_python import PublicMethod, as_it_is, public_by
from tsarchive.run.calls_from_python import Signature as CallSignature
from tsarchive.run.compiler import Compiler
from tsarchive.run.objects import ClassTable
from tsarchive.strict_json import parse_text

from .program import Forward
from .pytrees import FACTORIES, MAPPINGS, Kind, Tree
from .signature import TypedTree

Convert = Callable[[Any], Any]

_CLASSES: Mapping[Kind, tuple[type, ...]] = {
    # torch treats the second ones like their base classes.
    Kind.TUPLE: (tuple, torch.Size),
    Kind.LIST: (list, torch.fx.immutable_collections.immutable_list),
    Kind.DICT: (dict, torch.fx.immutable_collections.immutable_dict),
    Kind.ORDERED_DICT: (OrderedDict,),
    Kind.DEFAULT_DICT: (defaultdict,),
    Kind.DEQUE: (deque,),
}
_FACTORIES: Mapping[str | None, Any] = {
    None: None,
    **{name: getattr(builtins, name) for name in FACTORIES},
}
_SCALARS: Mapping[Type, tuple[type, ...]] = {
    TENSOR: (torch.Tensor,),
    INT: (int, torch.SymInt),
    FLOAT: (float, int, torch.SymFloat, torch.SymInt),
    BOOL: (bool, torch.SymBool),
    STRING: (str,),
    NONE: (type(None),),
}


def argument_converter(typed: TypedTree, place: str, table: ClassTable) -> Convert:
    """Return a converter from an argument to a value of code; ``place`` names it in errors.

    The converter raises CallError for values of another structure or type.
    """
    tree = typed.tree
    if tree.kind is Kind.LEAF:
        return _leaf(typed.type, place)
    inner = [argument_converter(child, step, table) for step, child in typed.places(place)]
    make_items = _MAKE_ITEMS.get(tree.kind, _sequence_of)
    items = make_items(tree, place)  # in the order of the tree
    if tree.kind in MAPPINGS:
        keys = tree.keys
        return lambda value: dict(zip(keys, _convert(inner, items(value)), strict=True))
    if tree.kind in (Kind.LIST, Kind.DEQUE):
        return lambda value: _convert(inner, items(value))
    if tree.kind is Kind.NAMED_TUPLE:
        make = table.python_class(typed.type)
        return lambda value: make(*_convert(inner, items(value)))
    return lambda value: tuple(_convert(inner, items(value)))


def _convert(converters: list[Convert], items: Any) -> list[Any]:
    return [convert(item) for convert, item in zip(converters, items, strict=True)]


def _leaf(type_: Type, place: str) -> Convert:
    allowed = _SCALARS.get(type_, (torch.ScriptObject,))
    refused: tuple[type, ...] = (bool,) if type_ in (INT, FLOAT) else ()
    is_float = type_ == FLOAT
    wanted = annotation(type_)

    def convert(value: Any) -> Any:
        if not isinstance(value, allowed) or isinstance(value, refused):
            raise CallError(f"forward() expects {wanted} for {place}, not {_kind(value)}")
        return float(value) if is_float and type(value) is int else value

    return convert


def _kind(value: Any) -> str:
    return str(type(value).__name__)


def _sequence_of(tree: Tree, place: str) -> Convert:
    classes, count, what = _CLASSES[tree.kind], len(tree.children), tree.kind.value
    is_deque, most = tree.kind is Kind.DEQUE, tree.context

    def items(value: Any) -> Any:
        if type(value) not in classes:
            raise CallError(f"forward() expects {what} for {place}, not {_kind(value)}")
        if len(value) != count:
            raise CallError(f"forward() expects {count} items in {place}, not {len(value)}")
        if is_deque and value.maxlen != most:
            raise CallError(f"forward() expects a deque of maxlen {most} for {place}")
        return value

    return items


def _values_of(tree: Tree, place: str) -> Convert:
    classes, keys, what = _CLASSES[tree.kind], tree.keys, tree.kind.value
    is_default, factory = tree.kind is Kind.DEFAULT_DICT, _FACTORIES[tree.context]
    # torch ignores the order of keys only for plain dicts.
    has_order = tree.kind is not Kind.DICT

    def items(value: Any) -> Any:
        if type(value) not in classes:
            raise CallError(f"forward() expects {what} for {place}, not {_kind(value)}")
        if len(value) != len(keys) or not all(key in value for key in keys):
            raise CallError(
                f"forward() expects the keys {list(keys)} in {place}, not {list(value)}"
            )
        if has_order and tuple(value) != keys:
            raise CallError(
                f"forward() expects the keys {list(keys)} in {place} in this order, "
                f"not {list(value)}"
            )
        if is_default and value.default_factory is not factory:
            raise CallError(f"forward() expects a defaultdict of {factory} for {place}")
        return [value[key] for key in keys]

    return items


def _fields_of(tree: Tree, place: str) -> Convert:
    """Return a check for a named tuple of the registered class, or with the same fields."""
    registered, fields, count = _registered(tree.name), tree.fields, len(tree.children)
    what = f"the fields {', '.join(fields)}" if fields else f"{count} fields"

    def items(value: Any) -> Any:
        own = getattr(value, "_fields", None)
        is_one = isinstance(value, tuple) and len(value) == count and own is not None
        # Older programs do not store the fields.
        if is_one and (type(value) is registered or not fields or own == fields):
            return value
        raise CallError(
            f"forward() expects a named tuple {tree.name} with {what} for {place}, "
            f"not {_kind(value)}"
        )

    return items


# Classes registered with torch's pytrees in this process


def _registered(name: str | None) -> type | None:
    found = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name or "")
    return found if isinstance(found, type) else None


def _required(tree: Tree) -> type:
    found = _registered(tree.name)
    if found is None:
        raise UnsupportedError(
            f"the program takes or gives objects of {tree.name}, which is not registered",
            hint="Import what registers it with torch.utils._pytree under that name first",
        )
    return found


def _flattened(tree: Tree, place: str, value: Any) -> Any:
    class_ = _required(tree)
    if type(value) is not class_:
        raise CallError(f"forward() expects {tree.name} for {place}, not {_kind(value)}")
    children, context = pytree.SUPPORTED_NODES[class_].flatten_fn(value)
    if context != _context(tree, class_) or len(children) != len(tree.children):
        raise CallError(
            f"forward() expects {tree.name} for {place} of the form that it had when the program "
            "was exported"
        )
    return children


def _context(tree: Tree, class_: type) -> Any:
    """Let the class decode its serialized context, which is JSON by default."""
    read = pytree.SUPPORTED_SERIALIZED_TYPES[class_].from_dumpable_context
    if read is not None:
        return read(tree.context)
    return parse_text(str(tree.context), "", f"the context of {tree.name}")


_MAKE_ITEMS: Mapping[Kind, Callable[[Tree, str], Convert]] = {
    **dict.fromkeys(MAPPINGS, _values_of),
    Kind.NAMED_TUPLE: _fields_of,
    Kind.REGISTERED: lambda tree, place: partial(_flattened, tree, place),
}


# Results


def result_converter(typed: TypedTree) -> Convert | None:
    """Return a converter from a result of code to that of the user's module; None if equal."""
    tree = typed.tree
    if tree.kind is Kind.LEAF:
        return None
    inner = [result_converter(child) or as_it_is for child in typed.children]
    if tree.kind is Kind.NAMED_TUPLE:
        return lambda value: (_registered(tree.name) or type(value))(*_convert(inner, value))
    make = _maker(tree)
    if tree.kind in MAPPINGS:
        keys = tree.keys
        return lambda value: make(zip(keys, _convert(inner, value.values()), strict=True))
    return lambda value: make(_convert(inner, value))


def _maker(tree: Tree) -> Convert:
    """Return what makes the container of a result from its items."""
    match tree.kind:
        case Kind.LIST:
            return as_it_is
        case Kind.DEQUE:
            return partial(deque, maxlen=tree.context)
        case Kind.DEFAULT_DICT:
            return partial(defaultdict, _FACTORIES[tree.context])
        case Kind.REGISTERED:
            return partial(_unflattened, tree)
    return _CLASSES[tree.kind][0]


def _unflattened(tree: Tree, items: list[Any]) -> Any:
    class_ = _required(tree)
    return pytree.SUPPORTED_NODES[class_].unflatten_fn(items, _context(tree, class_))


class ForwardMethod(PublicMethod):
    """``forward`` of the root of a program, for callers in Python."""

    def __init__(self, forward: Forward, compiler: Compiler) -> None:
        super().__init__(forward.module.type.methods["forward"], compiler)
        self._forward = forward

    def _made(self) -> Any:
        convention = _Convention(self._forward, self._compiler)
        finish = result_converter(self._forward.result) or as_it_is
        return public_by(self._function, self._compiler, convention, finish)


class _Convention(CallSignature):
    """Binds positional arguments, which may be named, and keyword-only ones."""

    def __init__(self, forward: Forward, compiler: Compiler) -> None:
        schema = forward.module.type.methods["forward"].schema
        super().__init__("forward", schema, compiler, is_method=True)
        parameters = forward.signature.parameters
        self._names = [parameter.name for parameter in parameters]
        self._are_keywords = [parameter.is_keyword for parameter in parameters]
        self._positional = self._are_keywords.count(False)
        self._given = [
            argument_converter(typed, parameter.name, compiler.linkage.table)
            for typed, parameter in zip(forward.parameters, parameters, strict=True)
        ]

    def bind(self, given: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """Return the arguments in the order that the code of the program takes.

        Raises CallError for missing, surplus and unknown arguments, and for those of another
        structure or type than the program was exported with.
        """
        if len(given) > self._positional:
            raise CallError(
                f"forward() takes {self._positional} positional arguments, {len(given)} were given"
            )
        for name in keywords:
            if name not in self._names:
                raise CallError(f"forward() has no argument {name!r}")
            if name in self._names[: len(given)]:
                raise CallError(f"forward() was given the argument {name!r} twice")
        for name in self._names[len(given) :]:
            if name not in keywords:
                raise CallError(f"forward() misses the argument {name!r}")
        found = [*given, *(keywords[name] for name in self._names[len(given) :])]
        return [convert(value) for convert, value in zip(self._given, found, strict=True)]

    def shown(self) -> inspect.Signature:
        shown = super().shown()
        own, *others = shown.parameters.values()
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) if is_keyword else parameter
            for parameter, is_keyword in zip(others, self._are_keywords, strict=True)
        ]
        return shown.replace(parameters=[own, *parameters])
