"""Expressions that make the values of attributes again: plain ones, containers, objects."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import ANY, DictType, EnumType, ListType, OptionalType, TupleType, Type
from tsarchive.run.modules import ArchiveObject
from tsarchive.run.slots import get_slot
from tsarchive.run.typecheck import type_of_class

from . import syntax
from .members import members_of
from .reachability import modules_with_paths

if TYPE_CHECKING:
    from .program import Program
    from .weights import TensorFile


WEIGHTS = "_weights"
OBJECTS = "_objects"


class ObjectValues:
    """Makes expressions; ``file`` takes the tensors that they name.

    ``shared`` holds the ids of the objects that several attributes hold.
    """

    def __init__(
        self, program: Program, file: TensorFile, shared: Container[int] = frozenset()
    ) -> None:
        self._program = program
        self._file = file
        self._shared = shared
        self._places: dict[int, str] = {}

    def placeholder(self, tensor: torch.Tensor, path: str, *, is_parameter: bool) -> ast.expr:
        """A tensor of the same form, which ``load`` replaces."""
        made = self._empty(tensor) or self.tensor(tensor, path)
        if not is_parameter:
            return made
        nn = self._program.references.module("torch.nn", "nn")
        keywords = {} if tensor.requires_grad else {"requires_grad": syntax.literal(False)}
        return syntax.call(syntax.attribute(nn, "Parameter"), [made], keywords)

    def _empty(self, tensor: torch.Tensor) -> ast.expr | None:
        if tensor.layout != torch.strided or tensor.is_quantized:
            return None
        module = self._program.references.module("torch")
        keywords: dict[str, ast.expr] = {}
        if tensor.is_meta:
            keywords["device"] = syntax.string("meta")
        if tensor.dtype != torch.float32:
            dtype = str(tensor.dtype).removeprefix("torch.")
            keywords["dtype"] = syntax.attribute(module, dtype)
        shape = syntax.literal(tuple(tensor.shape))
        return syntax.call(syntax.attribute(module, "empty"), [shape], keywords)

    def tensor(self, tensor: torch.Tensor, path: str) -> ast.expr:
        """A tensor of the files; one without data is made anew."""
        empty = self._empty(tensor) if tensor.is_meta else None
        if empty is not None:
            return empty
        name = self._file.add(path, tensor)
        return syntax.call(
            self._program.references.imported(WEIGHTS, "tensor"), [syntax.string(name)]
        )

    def value(self, value: Any, type_: Type, path: str) -> ast.expr:
        """The expression for the value of an attribute of the declared ``type_``."""
        if id(value) not in self._shared:
            return self._value(value, type_, path)
        place = self._places.setdefault(id(value), path)
        made = ast.Lambda(_NO_ARGUMENTS, self._value(value, type_, place))
        shared = self._program.references.imported(WEIGHTS, "shared")
        return syntax.call(shared, [syntax.string(place), made])

    def _value(self, value: Any, type_: Type, path: str) -> ast.expr:
        references = self._program.references
        match value:
            case torch.Tensor():
                return self.tensor(value, path)
            case torch.device():
                device = syntax.attribute(references.module("torch"), "device")
                return syntax.call(device, [syntax.string(str(value))])
            case torch.ScriptObject():
                return self._native(value, path)
            case ArchiveObject():
                return self._object(value, path)
            case list():
                return self._list(value, type_, path)
            case dict():
                return self._dict(value, type_, path)
            case tuple():
                return self._tuple(value, type_, path)
            case torch.Generator():
                return self.generator(str(value.device), value.initial_seed())
        found = type_of_class(type(value))
        if isinstance(found, EnumType):
            member = self._program.enum_member(found, value.name)
            return syntax.attribute(self._program.class_(found), member)
        try:
            return syntax.literal(value)
        except TypeError:
            raise UnsupportedError(f"{path} holds a {type(value).__name__}") from None

    def generator(self, device: str, seed: int) -> ast.expr:
        generator = syntax.attribute(self._program.references.module("torch"), "Generator")
        made = syntax.call(generator, [syntax.string(device)])
        return syntax.call(syntax.attribute(made, "manual_seed"), [syntax.literal(seed)])

    def _list(self, value: list[Any], type_: Type, path: str) -> ast.expr:
        element = type_.element if isinstance(type_, ListType) else type_
        items = [self.value(item, element, f"{path}.{i}") for i, item in enumerate(value)]
        return ast.List(items, ast.Load())

    def _dict(self, value: dict[Any, Any], type_: Type, path: str) -> ast.expr:
        element = type_.value if isinstance(type_, DictType) else type_
        keys: list[ast.expr | None] = [self.value(key, type_, f"{path}.key") for key in value]
        items = [self.value(item, element, f"{path}.{key}") for key, item in value.items()]
        return ast.Dict(keys, items)

    def _tuple(self, value: tuple[Any, ...], type_: Type, path: str) -> ast.expr:
        type_ = type_.element if isinstance(type_, OptionalType) else type_
        found = type_ if isinstance(type_, TupleType) else type_of_class(type(value))
        types = found.elements if isinstance(found, TupleType) else (ANY,) * len(value)
        items = [
            self.value(item, element, f"{path}.{index}")
            for index, (item, element) in enumerate(zip(value, types, strict=True))
        ]
        if isinstance(found, TupleType) and found.qualified_name:
            return syntax.call(self._program.class_(found), items)
        return ast.Tuple(items, ast.Load())

    def _native(self, value: Any, path: str) -> ast.expr:
        """An object of a class from C++, by its pickled state."""
        if "__getstate__" not in value._method_names():
            raise UnsupportedError(f"{path} holds an object that has no pickled state")
        state = value._get_method("__getstate__")()
        name = str(value._type().annotation_str)
        native = self._program.references.imported(OBJECTS, "native")
        return syntax.call(native, [syntax.string(name), self.value(state, ANY, path)])

    def _object(self, value: ArchiveObject, path: str) -> ast.expr:
        class_ = type_of_class(type(value))
        assert isinstance(class_, ClassType)
        members = members_of(class_)
        keys: list[ast.expr | None] = []
        items: list[ast.expr] = []
        for name, attribute in class_.attributes.items():
            keys.append(syntax.string(members.slot(name)))
            items.append(self.value(get_slot(value, attribute), attribute.type, f"{path}.{name}"))
        new = self._program.references.imported(OBJECTS, "new")
        shown = self._program.class_(class_)
        return syntax.call(new, [shown, ast.Dict(keys, items)])


_NO_ARGUMENTS = ast.arguments([], [], None, [], [], None, [])


def shared_objects(root: torch.nn.Module) -> frozenset[int]:
    """The ids of lists, dicts and objects that more than one attribute holds."""
    counts: Counter[int] = Counter()
    for _, module in modules_with_paths(root):
        for name, value in module.__dict__.items():
            if name not in _TABLES:
                _count(value, counts)
    return frozenset(number for number, count in counts.items() if count > 1)


_TABLES = frozenset(torch.nn.Module().__dict__)


def _count(value: Any, counts: Counter[int]) -> None:
    if isinstance(value, list | dict | ArchiveObject | torch.ScriptObject):
        counts[id(value)] += 1
        if counts[id(value)] > 1:
            return
    for part in _parts(value):
        _count(part, counts)


def _parts(value: Any) -> Iterable[Any]:
    match value:
        case list() | tuple():
            return value
        case dict():
            return value.values()
        case ArchiveObject():
            return value.__dict__.values()
    return ()
