"""Expressions that make modules, objects and other values of attributes again.

Values that all instances of a module class share stand in its ``__init__``; others are arguments of
it, under the names of the attributes.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Container, Iterable
from itertools import chain
from typing import Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import ANY, DictType, EnumType, ListType, OptionalType, TupleType, Type
from tsarchive.run.conversion import type_of_class
from tsarchive.run.modules import ArchiveObject
from tsarchive.run.slots import SlotKind, get_slot

from . import references, syntax
from .layout import Definition
from .naming import SHARED_SLOTS, container_base, members_of
from .program import Program, module_type
from .weights import TensorFile


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
        """Return a tensor of the same form, which ``load`` replaces."""
        made = self._empty(tensor) or self.tensor(tensor, path)
        if not is_parameter:
            return made
        keywords = "" if tensor.requires_grad else ", requires_grad=False"
        return references.form(f"nn.Parameter(_0{keywords})", made)

    def _empty(self, tensor: torch.Tensor) -> ast.expr | None:
        if tensor.layout != torch.strided or tensor.is_quantized:
            return None
        keywords = ", device='meta'" if tensor.is_meta else ""
        if tensor.dtype != torch.float32:
            keywords += f", dtype={tensor.dtype}"
        shape = syntax.literal(tuple(tensor.shape))
        return references.form(f"torch.empty(_0{keywords})", shape)

    def tensor(self, tensor: torch.Tensor, path: str) -> ast.expr:
        """Return a tensor of the files; one without data is made anew."""
        empty = self._empty(tensor) if tensor.is_meta else None
        if empty is not None:
            return empty
        name = self._file.add(path, tensor)
        return references.form("tensor(_0)", syntax.string(name))

    def value(self, value: Any, type_: Type, path: str) -> ast.expr:
        """Return the expression for the value of an attribute of the declared ``type_``."""
        if id(value) not in self._shared:
            return self._value(value, type_, path)
        place = self._places.setdefault(id(value), path)
        made = syntax.lambda_(self._value(value, type_, place))
        return references.form("shared(_0, _1)", syntax.string(place), made)

    def _value(self, value: Any, type_: Type, path: str) -> ast.expr:
        match value:
            case torch.Tensor():
                return self.tensor(value, path)
            case torch.device():
                return references.form("torch.device(_0)", syntax.string(str(value)))
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
            return syntax.attribute(self._program.reference(found), member)
        try:
            return syntax.literal(value)
        except TypeError:
            raise UnsupportedError(f"{path} holds a {type(value).__name__}") from None

    def generator(self, device: str, seed: int) -> ast.expr:
        arguments = syntax.string(device), syntax.literal(seed)
        return references.form("torch.Generator(_0).manual_seed(_1)", *arguments)

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
            return syntax.call(self._program.reference(found), items)
        return ast.Tuple(items, ast.Load())

    def _native(self, value: Any, path: str) -> ast.expr:
        """Return the call that makes an object of a C++ class from its pickled state."""
        if "__getstate__" not in value._method_names():
            raise UnsupportedError(f"{path} holds an object that has no pickled state")
        state = value._get_method("__getstate__")()
        name = str(value._type().annotation_str)
        return references.form("native(_0, _1)", syntax.string(name), self.value(state, ANY, path))

    def _object(self, value: ArchiveObject, path: str) -> ast.expr:
        class_ = type_of_class(type(value))
        assert isinstance(class_, ClassType)
        members = members_of(class_)
        keys: list[ast.expr | None] = []
        items: list[ast.expr] = []
        for name, attribute in class_.attributes.items():
            keys.append(syntax.string(members.slots[name]))
            items.append(self.value(get_slot(value, attribute), attribute.type, f"{path}.{name}"))
        shown = self._program.reference(class_)
        return references.form("new(_0, _1)", shown, ast.Dict(keys, items))


def shared_objects(root: torch.nn.Module) -> frozenset[int]:
    """Return the ids of lists, dicts and objects that more than one attribute holds."""
    counts: Counter[int] = Counter()
    for _, module in root.named_modules():
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


class Instances:
    """The modules of an archive, each with the expression that makes it again."""

    def __init__(self, program: Program, root: torch.nn.Module, file: TensorFile) -> None:
        self._program = program
        self._file = file
        self._values = ObjectValues(program, file, shared_objects(root))
        self._paths: dict[torch.nn.Module, str] = {}
        self._of: dict[Definition, list[torch.nn.Module]] = {}
        self._arguments: dict[Definition, list[str]] = {}
        self._slots: dict[tuple[torch.nn.Module, str], ast.expr] = {}
        for path, module in root.named_modules():
            self._paths[module] = path
            self._of.setdefault(program.definition(module_type(module)), []).append(module)
        self._note_aliases(root)
        for path, module in root.named_modules():
            if module.training:
                file.training.append(path)
            self._add_tensors(path, module)
        self.root = self.made(root)

    def _note_aliases(self, root: torch.nn.Module) -> None:
        for path, module in root.named_modules(remove_duplicate=False):
            owner = path.rpartition(".")[0]
            is_alias = self._paths[module] != path
            if is_alias and self._paths.get(root.get_submodule(owner)) == owner:
                self._file.modules[path] = self._paths[module]

    def _add_tensors(self, path: str, module: torch.nn.Module) -> None:
        parameters = module.named_parameters(path, recurse=False, remove_duplicate=False)
        buffers = module.named_buffers(path, recurse=False, remove_duplicate=False)
        for name, tensor in chain(parameters, buffers):
            if not tensor.is_meta:
                self._file.add(name, tensor)
                self._file.state.append(name)

    def made(self, module: torch.nn.Module) -> ast.expr:
        """Return the call that makes a module like this one."""
        type_ = module_type(module)
        definition = self._program.definition(type_)
        class_ = references.to_definition(definition)
        if container_base(type_) is None:
            differing = self._differing(definition)
            passed = {_argument(module, name): self._passed(module, name) for name in differing}
            return syntax.call(class_, (), passed)
        # Their own ``__init__`` does it all: ``Sequential(a, b)``, ``ModuleList([a, b])``.
        children = [self._slot(module, name) for name in _own_slots(type_)]
        if container_base(type_) == "ModuleList":
            return syntax.call(class_, [ast.List(children, ast.Load())])
        return syntax.call(class_, children)

    def _differing(self, definition: Definition) -> list[str]:
        """Return the slots in which the instances of a class differ; write its ``__init__``."""
        if definition not in self._arguments:
            first, *rest = self._of[definition]
            type_ = module_type(first)
            slots = [*sorted(members_of(type_).constants()), *_own_slots(type_)]
            found = self._arguments[definition] = []
            for name in slots:
                shown = ast.dump(self._slot(first, name))
                if any(ast.dump(self._slot(other, name)) != shown for other in rest):
                    found.append(name)
            self._write(definition, first, slots, found)
        return self._arguments[definition]

    def _slot(self, module: torch.nn.Module, name: str) -> ast.expr:
        key = module, name
        if key not in self._slots:
            self._slots[key] = self._described(module, name)
        return self._slots[key]

    def _described(self, module: torch.nn.Module, name: str) -> ast.expr:
        class_ = module_type(module)
        if name not in class_.attributes:
            return self._constant(class_, name)
        attribute = class_.attributes[name]
        try:
            value = get_slot(module, attribute)
        except KeyError:
            return syntax.literal(None)
        kind = members_of(class_).kind(name)
        if isinstance(value, torch.nn.Module):
            return self.made(value)
        path = f"{self._paths[module]}.{name}" if self._paths[module] else name
        if kind in (SlotKind.PARAMETER, SlotKind.BUFFER) and value is not None:
            return self._values.placeholder(value, path, is_parameter=kind is SlotKind.PARAMETER)
        return self._values.value(value, attribute.type, path)

    def _constant(self, class_: ClassType, name: str) -> ast.expr:
        try:
            return syntax.literal(members_of(class_).constants()[name])
        except TypeError:
            return syntax.literal(None)

    def _passed(self, module: torch.nn.Module, name: str) -> ast.expr:
        """Return the argument for a slot: the shape alone where that is all that differs."""
        shown = self._slot(module, name)
        empty = _find_empty(shown)
        definition = self._program.definition(module_type(module))
        if empty is None or not self._differ_in_shape(definition, name):
            return shown
        return empty.args[0]

    def _differ_in_shape(self, definition: Definition, name: str) -> bool:
        forms = {_without_shape(self._slot(module, name)) for module in self._of[definition]}
        return len(forms) == 1 and None not in forms

    def _write(
        self,
        definition: Definition,
        module: torch.nn.Module,
        slots: list[str],
        differing: list[str],
    ) -> None:
        class_ = module_type(module)
        common: list[ast.stmt] = []
        body: list[ast.stmt] = [references.statement("super().__init__()")]
        names: list[str] = []
        for name in slots:
            shown = self._slot(module, name)
            if name in differing:
                names.append(_argument(module, name))
                argument = syntax.name(names[-1])
                is_shape = self._differ_in_shape(definition, name)
                shown = _with_shape(shown, argument) if is_shape else argument
            if name in class_.attributes:
                body.append(_assigned(class_, name, _spread(shown)))
            elif name in differing:
                place = syntax.attribute(syntax.name("self"), name)
                body.append(syntax.store(place, shown))
            else:
                common.append(syntax.assign([name], shown))
        body += _hooks(class_)
        arguments = [ast.arg("self"), *map(ast.arg, names)]
        made = syntax.function("__init__", arguments, [], body, syntax.literal(None))
        definition.variables |= {"self", *names}
        _insert(definition, common, [made] if len(body) > 1 else [])


def _own_slots(class_: ClassType) -> list[str]:
    return [name for name in class_.attributes if name not in SHARED_SLOTS]


def _argument(module: torch.nn.Module, name: str) -> str:
    class_ = module_type(module)
    shown = members_of(class_).slots.get(name, name)
    return f"{shown}_" if shown == "self" else shown


def _assigned(class_: ClassType, name: str, shown: ast.expr) -> ast.stmt:
    """Return the statement that fills a slot of ``self``."""
    members = members_of(class_)
    kind = members.kind(name)
    is_none = isinstance(shown, ast.Constant) and shown.value is None
    arguments = syntax.name("self"), syntax.string(name), shown
    if members.is_direct(name) and kind is SlotKind.BUFFER:
        return references.statement("_0.register_buffer(_1, _2)", *arguments)
    is_argument = is_none or isinstance(shown, ast.Name)
    if members.is_direct(name) and kind is SlotKind.PARAMETER and is_argument:
        return references.statement("_0.register_parameter(_1, _2)", *arguments)
    return syntax.store(members.reach(syntax.name("self"), name), shown)


def _hooks(class_: ClassType) -> Iterable[ast.stmt]:
    """Yield calls that register hooks, which take the module first, as methods do."""
    members = members_of(class_)
    self_ = syntax.name("self")
    own = syntax.attribute(self_, "__class__")
    for kind, hooks in (
        ("forward_pre_hook", class_.forward_pre_hooks), ("forward_hook", class_.forward_hooks),
    ):  # fmt: skip
        for hook in hooks:
            function = syntax.attribute(own, members.methods[hook.name])
            yield references.statement(f"_0.register_{kind}(_1)", self_, function)


def _insert(definition: Definition, first: list[ast.stmt], made: list[ast.stmt]) -> None:
    """Put constants before the annotations of a class, and ``__init__`` behind them."""
    class_ = definition.body[0]
    if not isinstance(class_, ast.ClassDef):
        raise UnsupportedError(f"{definition.qualified_name} is no class")
    body = [statement for statement in class_.body if not isinstance(statement, ast.Pass)]
    position = 0
    while position < len(body) and isinstance(body[position], ast.AnnAssign):
        position += 1
    class_.body = [*first, *body[:position], *made, *body[position:]] or [ast.Pass()]


def _find_empty(shown: ast.expr) -> ast.Call | None:
    """Return the ``torch.empty(shape, ...)`` in the placeholder of a tensor."""
    match shown:
        case ast.Call(ast.Attribute(_, "empty"), [_, *_]):
            return shown
        case ast.Call(ast.Attribute(_, "Parameter"), [inner, *_]):
            return _find_empty(inner)
    return None


def _with_shape(shown: ast.expr, *shape: ast.expr) -> ast.expr:
    """Return a placeholder with other arguments of ``torch.empty``."""
    made = copy.deepcopy(shown)
    empty = _find_empty(made)
    assert empty is not None
    empty.args = list(shape)
    return made


def _spread(shown: ast.expr) -> ast.expr:
    """Return ``torch.empty(4, 3)`` for ``torch.empty((4, 3))``."""
    match _find_empty(shown):
        case ast.Call(_, [ast.Tuple([_, *_] as sizes)]):
            return _with_shape(shown, *sizes)
    return shown


def _without_shape(shown: ast.expr) -> str | None:
    """Return a key that placeholders of different shapes share; None for other expressions."""
    return None if _find_empty(shown) is None else ast.dump(_with_shape(shown))
