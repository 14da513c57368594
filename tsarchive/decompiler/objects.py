"""Expressions that make modules, objects and other values of attributes again.

Values that all instances of a module class share stand in its ``__init__``; others are arguments of
it, under the names of the attributes. Tensors go to a safetensors file, or to a second one where
that cannot hold them.
"""

from __future__ import annotations

import ast
import copy
import io
import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.formats.safetensors import Tensor, write_safetensors
from tsarchive.formats.torchscript.tensors import storage_bytes
from tsarchive.ir.classes import ClassType, InterfaceType
from tsarchive.ir.types import (
    ANY,
    INT,
    DictType,
    EnumType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
)
from tsarchive.operators.libraries import what_registers
from tsarchive.run.conversion import type_of_class
from tsarchive.run.foreign import ForeignObject
from tsarchive.run.modules import ArchiveObject
from tsarchive.run.packed import refuse_packed
from tsarchive.run.slots import SHARED_SLOTS, SlotKind, get_slot

from . import syntax
from .layout import Definition
from .naming import container_base, members_of, numbered
from .program import Program, any_of, module_type, shown_type
from .support.weights import DTYPES
from .ties import Ties, aliases, tied


@dataclass(eq=False, slots=True)
class ObjectValues:
    """Makes expressions; ``file`` takes the tensors that they name.

    ``shared`` holds the ids of the objects that several attributes hold.
    """

    program: Program
    file: TensorFile
    shared: Container[int] = frozenset()
    _places: dict[int, str] = field(default_factory=dict)

    def placeholder(self, tensor: torch.Tensor, path: str, *, is_parameter: bool) -> ast.expr:
        """Return a tensor of the same form, which ``load`` replaces."""
        made = self._zeros(tensor) or self.tensor(tensor, path)
        if not is_parameter:
            return made
        keywords = "" if tensor.requires_grad else ", requires_grad=False"
        return syntax.form(f"nn.Parameter(_0{keywords})", made)

    def _zeros(self, tensor: torch.Tensor) -> ast.expr | None:
        """Return ``torch.zeros(shape, ...)``; None for a tensor that this cannot make."""
        if tensor.layout != torch.strided or tensor.is_quantized:
            return None
        keywords = ", device='meta'" if tensor.is_meta else ""
        if tensor.dtype != torch.float32:
            keywords += f", dtype={tensor.dtype}"
        shape = syntax.literal(tuple(tensor.shape))
        return syntax.form(f"torch.zeros(_0{keywords})", shape)

    def tensor(self, tensor: torch.Tensor, path: str) -> ast.expr:
        """Return a tensor of the files; one without data is made anew."""
        zeros = self._zeros(tensor) if tensor.is_meta else None
        if zeros is not None:
            return zeros
        name = self.file.add(path, tensor)
        return syntax.form("tensor(_0)", syntax.literal(name))

    def value(self, value: Any, type_: Type, path: str) -> ast.expr:
        """Return the expression for the value of an attribute of the declared ``type_``."""
        if id(value) not in self.shared:
            return self._value(value, type_, path)
        place = self._places.setdefault(id(value), path)
        made = syntax.lambda_(self._value(value, type_, place))
        return syntax.form("shared(_0, _1)", syntax.literal(place), made)

    def _value(self, value: Any, type_: Type, path: str) -> ast.expr:
        match value:
            case torch.Tensor():
                return self.tensor(value, path)
            case torch.device():
                return syntax.form("torch.device(_0)", syntax.literal(str(value)))
            case torch.ScriptObject():
                return self._native(value, path)
            case ForeignObject():
                return self._foreign(value, path)
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
            member = self.program.enum_member(found, value.name)
            return syntax.attribute(self.program.reference(found), member)
        try:
            return syntax.literal(value)
        except TypeError:
            raise UnsupportedError(f"{path} holds a {type(value).__name__}") from None

    def generator(self, device: str, seed: int) -> ast.expr:
        arguments = syntax.literal(device), syntax.literal(seed)
        return syntax.form("torch.Generator(_0).manual_seed(_1)", *arguments)

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
            return syntax.call(self.program.reference(found), items)
        return ast.Tuple(items, ast.Load())

    def _native(self, value: Any, path: str) -> ast.expr:
        """Return the call that makes an object of a C++ class from its pickled state."""
        if "__getstate__" not in value._method_names():
            raise UnsupportedError(f"{path} holds an object that has no pickled state")
        state = value._get_method("__getstate__")()
        name = str(value._type().annotation_str)
        return syntax.form("native(_0, _1)", syntax.literal(name), self.value(state, ANY, path))

    def _foreign(self, value: ForeignObject, path: str) -> ast.expr:
        """Return the same for a class that is not registered here."""
        name = value.class_.qualified_name
        advice = self.program.libraries.setdefault(name, what_registers(name))
        state = self.value(value.state, value.state_type, path)
        named = syntax.literal(name), state, syntax.literal(advice)
        return syntax.form("foreign(_0, _1, _2)", *named)

    def _object(self, value: ArchiveObject, path: str) -> ast.expr:
        class_ = type_of_class(type(value))
        assert isinstance(class_, ClassType)
        members = members_of(class_)
        keys: list[ast.expr | None] = []
        items: list[ast.expr] = []
        for name, attribute in class_.attributes.items():
            keys.append(syntax.literal(members.slots[name]))
            items.append(self.value(get_slot(value, attribute), attribute.type, f"{path}.{name}"))
        shown = self.program.reference(class_)
        return syntax.form("new(_0, _1)", shown, ast.Dict(keys, items))


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
    if isinstance(value, list | dict | ArchiveObject | torch.ScriptObject | ForeignObject):
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
        self._of: dict[Definition, list[torch.nn.Module]] = {}
        self._arguments: dict[Definition, list[str]] = {}
        self._slots: dict[tuple[torch.nn.Module, str], ast.expr] = {}
        self._paths = {module: path for path, module in root.named_modules()}
        for module in program.modules_of_libraries.written:
            if program.modules_of_libraries.class_(module.tsarchive_class) is None:
                self._of.setdefault(program.definition(module.tsarchive_class), []).append(module)
        file.modules |= aliases(root)
        self._ties = Ties(root, {*chain.from_iterable(self._of.values())})
        for path, module in root.named_modules():
            if module.training:
                file.training.append(path)
            self._add_tensors(path, module)
        self.root = self.made(root)

    def _add_tensors(self, path: str, module: torch.nn.Module) -> None:
        parameters = module.named_parameters(path, recurse=False, remove_duplicate=False)
        buffers = module.named_buffers(path, recurse=False, remove_duplicate=False)
        for name, tensor in chain(parameters, buffers):
            if not tensor.is_meta:
                self._file.add(name, tensor)
                self._file.state.append(name)

    def made(self, module: torch.nn.Module) -> ast.expr:
        """Return the call that makes a module like this one."""
        of_library = self._program.modules_of_libraries.made(module)
        if of_library is not None:
            return of_library
        type_ = module_type(module)
        class_ = self._program.reference(type_)
        if container_base(type_) is None:
            definition = self._program.definition(type_)
            differing = self._differing(definition)
            passed = {_argument(module, name): self._passed(module, name) for name in differing}
            return syntax.call(class_, (), passed)
        # Their own ``__init__`` does it all: ``Sequential(a, b)``, ``ModuleList([a, b])``.
        names = _own_slots(type_)
        children = [self._slot(module, name) for name in names]
        if container_base(type_) == "ModuleDict":
            keys: list[ast.expr | None] = [syntax.literal(name) for name in names]
            return syntax.call(class_, [ast.Dict(keys, children)])
        if container_base(type_) == "ModuleList":
            return syntax.call(class_, [ast.List(children, ast.Load())])
        return syntax.call(class_, children)

    def _differing(self, definition: Definition) -> list[str]:
        """Return the slots that are arguments of a class; write its ``__init__``.

        They are those in which its instances differ, but for shapes that others tell.
        """
        if definition not in self._arguments:
            first, *rest = self._of[definition]
            type_ = module_type(first)
            slots = [*sorted(members_of(type_).constants()), *_own_slots(type_)]
            found = self._arguments[definition] = []
            for name in slots:
                shown = ast.dump(self._slot(first, name))
                if any(ast.dump(self._slot(other, name)) != shown for other in rest):
                    found.append(name)
            found[:] = [name for name in found if self._sizes(definition, name) is None]
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
            try:
                return syntax.literal(members_of(class_).constants()[name])
            except TypeError:
                return syntax.literal(None)
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

    def _passed(self, module: torch.nn.Module, name: str) -> ast.expr:
        """Return the argument for a slot: the shape alone where that is all that differs."""
        shown = self._slot(module, name)
        zeros = _find_zeros(shown)
        definition = self._program.definition(module_type(module))
        if zeros is None or not self._differ_in_shape(definition, name):
            return shown
        return zeros.args[0]

    def _differ_in_shape(self, definition: Definition, name: str) -> bool:
        shown = [self._slot(module, name) for module in self._of[definition]]
        is_empty = all(_find_zeros(one) is not None for one in shown)
        return is_empty and len({ast.dump(_with_shape(one)) for one in shown}) == 1

    def _sizes(self, definition: Definition, name: str) -> list[ast.expr] | None:
        """Return a shape as numbers and arguments; None where it is always the same or not told."""
        if not self._differ_in_shape(definition, name):
            return None
        modules = self._of[definition]
        shapes = [_shape(self._slot(module, name)) for module in modules]
        if len(set(shapes)) == 1 or len(set(map(len, shapes))) != 1:
            return None
        ints = self._ints(definition)
        found: list[ast.expr] = []
        for column in zip(*shapes, strict=True):
            if len(set(column)) == 1:
                found.append(syntax.literal(column[0]))
            elif column in ints:
                found.append(syntax.name(_argument(modules[0], ints[column])))
            else:
                return None
        return found

    def _ints(self, definition: Definition) -> Mapping[tuple[int, ...], str]:
        """Return the slots that hold ints, by their values in all instances of a class."""
        modules = self._of[definition]
        type_ = module_type(modules[0])
        constants = members_of(type_).constants()
        names = [name for name, value in constants.items() if type(value) is int]
        names += [name for name in _own_slots(type_) if type_.attributes[name].type == INT]
        shown = {name: [self._slot(module, name) for module in modules] for name in names}
        return {tuple(map(ast.literal_eval, values)): name for name, values in shown.items()}

    def _argument_type(self, definition: Definition, name: str) -> ast.expr:
        """Annotate an argument with what is passed for it."""
        first, *_ = modules = self._of[definition]
        class_ = module_type(first)
        shown = [self._passed(module, name) for module in modules]
        if self._differ_in_shape(definition, name):
            return syntax.form("tuple[int, ...]")
        if name not in class_.attributes:
            return any_of([_type_of(one) for one in shown])
        kind = members_of(class_).kind(name)
        if kind in (SlotKind.MODULE, SlotKind.PARAMETER):
            is_opened = any((module_type(m), name) in self._program.opened for m in modules)
            return _class_of(shown, syntax.form("Any" if is_opened else "nn.Module"))
        return shown_type(self._program, class_.attributes[name].type)

    def _write(
        self,
        definition: Definition,
        module: torch.nn.Module,
        slots: list[str],
        passed: list[str],
    ) -> None:
        class_ = module_type(module)
        common: list[ast.stmt] = []
        own = [self._slot(module, name) for name in slots if name in class_.attributes]
        has_zeros = any(_find_zeros(one) is not None for one in own)
        body: list[ast.stmt] = [syntax.docstring(_ZEROS)] if has_zeros else []
        body.append(syntax.statement("super().__init__()"))
        for name in slots:
            shown = self._initial(definition, name, passed)
            if name in class_.attributes:
                common += self._declared(class_, name, shown)
                body.append(self._assigned(definition, name, _spread(shown)))
            elif name in passed:
                place = syntax.attribute(syntax.name("self"), name)
                body.append(syntax.store(place, shown))
            else:
                common.append(syntax.assign([name], shown))
        libraries = self._program.modules_of_libraries
        body += [tied(module, tie, libraries) for tie in self._ties.common(self._of[definition])]
        body += _hooks(class_)
        arguments = [
            ast.arg(_argument(module, name), self._argument_type(definition, name))
            for name in passed
        ]
        made = syntax.function(
            "__init__", [ast.arg("self"), *arguments], [], body, syntax.literal(None)
        )
        _insert(definition, common, [made] if len(body) > 1 else [])

    def _initial(self, definition: Definition, name: str, passed: Container[str]) -> ast.expr:
        """Return what ``__init__`` puts into a slot."""
        module = self._of[definition][0]
        sizes = self._sizes(definition, name)
        if sizes is not None:
            return _with_shape(self._slot(module, name), *sizes)
        if name not in passed:
            return self._slot(module, name)
        argument = syntax.name(_argument(module, name))
        is_shape = self._differ_in_shape(definition, name)
        return _with_shape(self._slot(module, name), argument) if is_shape else argument

    def _declared(self, class_: ClassType, name: str, shown: ast.expr) -> Iterable[ast.stmt]:
        """Yield the annotation of a slot that ``__init__`` does not tell the type of.

        A tensor is registered under a name in a string, and torch.jit takes from the class what
        values leave open.
        """
        if _is_registered(class_, name, shown) or _is_open(class_.attributes[name].type):
            type_ = shown_type(self._program, class_.attributes[name].type)
            shown_name = members_of(class_).slots[name]
            yield ast.AnnAssign(ast.Name(shown_name, ast.Store()), type_, None, 1)

    def _assigned(self, definition: Definition, name: str, shown: ast.expr) -> ast.stmt:
        """Return the statement that fills a slot of ``self``."""
        classes = [module_type(module) for module in self._of[definition]]
        class_ = classes[0]
        members = members_of(class_)
        if _is_registered(class_, name, shown):
            return _registered(members.kind(name), name, shown)
        if not members.is_direct(name) and members.is_found(name):
            return _registered(members.kind(name), name, shown)
        stored = syntax.store(members.place(syntax.name("self"), name), shown)
        (place,) = stored.targets
        own = class_.attributes[name].type
        types = (each.attributes[name].type for each in classes)
        if isinstance(place, ast.Attribute) and any(map(self._program.has_opened_items, types)):
            # Type checkers do not know the classes of what a container holds.
            return ast.AnnAssign(place, syntax.form("Any"), shown, 0)
        if not isinstance(place, ast.Attribute) or not _is_vague(shown) or _is_open(own):
            return stored
        return ast.AnnAssign(place, shown_type(self._program, own), shown, 0)


def _registered(kind: SlotKind, name: str, shown: ast.expr) -> ast.stmt:
    """Return the call that puts a slot of ``self`` into the table that holds it."""
    arguments = syntax.name("self"), syntax.literal(name), shown
    return syntax.statement(f"_0.register_{kind.value[1:-1]}(_1, _2)", *arguments)


_ZEROS = "Make tensors of zeros, which ``load`` or a state dict replaces."


def _is_open(type_: Type) -> bool:
    """Return whether values of a type may not tell it: an empty list has no type of items, None
    none at all, objects are of classes that torch.jit may not know yet, and it takes named tuples
    for tuples."""
    if isinstance(type_, ClassType):
        return not type_.is_module and not type_.is_native
    if isinstance(type_, InterfaceType):
        return True
    if isinstance(type_, TupleType):
        return type_.qualified_name is not None or any(map(_is_open, type_.parts()))
    return isinstance(type_, ListType | DictType | OptionalType | UnionType) or type_ == ANY


def _is_registered(class_: ClassType, name: str, shown: ast.expr) -> bool:
    """Return whether a slot is filled by ``register_buffer`` or ``register_parameter``."""
    members = members_of(class_)
    if not members.is_direct(name):
        return False
    kind = members.kind(name)
    is_argument = _is_none(shown) or isinstance(shown, ast.Name)
    return kind is SlotKind.BUFFER or (kind is SlotKind.PARAMETER and is_argument)


def _is_none(shown: ast.expr) -> bool:
    return isinstance(shown, ast.Constant) and shown.value is None


def _is_vague(shown: ast.expr) -> bool:
    """Return whether a value does not tell the type of what it is put into."""
    return _is_none(shown) or isinstance(shown, ast.List | ast.Dict)


def _shape(shown: ast.expr) -> tuple[int, ...]:
    """Return the shape in the placeholder of a tensor."""
    zeros = _find_zeros(shown)
    assert zeros is not None
    sizes: tuple[int, ...] = ast.literal_eval(zeros.args[0])
    return sizes


def _class_of(made: Sequence[ast.expr], otherwise: ast.expr) -> ast.expr:
    """Return the one class of these modules or parameters, each None or a call that makes it."""
    nothing = [one for one in made if _is_none(one)]
    classes = {ast.dump(one.func): one.func for one in made if isinstance(one, ast.Call)}
    found = list(classes.values()) if len(classes) == 1 else [otherwise]
    return any_of([*found, *nothing])


def _type_of(shown: ast.expr) -> ast.expr:
    """Return the annotation of a literal."""
    match shown:
        case ast.Constant(None):
            return shown
        case ast.List(items):
            return syntax.subscript(syntax.form("list"), any_of([_type_of(i) for i in items]))
        case ast.Tuple([_, *_] as items):
            return syntax.subscript(syntax.form("tuple"), *map(_type_of, items))
        case ast.Constant() | ast.UnaryOp() | ast.Tuple():
            return syntax.form(type(ast.literal_eval(shown)).__name__)
    return syntax.form("Any")


def _own_slots(class_: ClassType) -> list[str]:
    return [name for name in class_.attributes if name not in SHARED_SLOTS]


def _argument(module: torch.nn.Module, name: str) -> str:
    class_ = module_type(module)
    shown = members_of(class_).slots.get(name, name)
    return f"{shown}_" if shown == "self" else shown


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
            yield syntax.statement(f"_0.register_{kind}(_1)", self_, function)


def _insert(definition: Definition, first: list[ast.stmt], made: list[ast.stmt]) -> None:
    """Put constants before the annotations of a class, and ``__init__`` behind them."""
    class_ = definition.body[0]
    assert isinstance(class_, ast.ClassDef)
    is_documented = ast.get_docstring(class_, clean=False) is not None
    documentation, body = class_.body[:is_documented], class_.body[is_documented:]
    body = [statement for statement in body if not isinstance(statement, ast.Pass)]
    position = 0
    while position < len(body) and isinstance(body[position], ast.AnnAssign):
        position += 1
    filled = [*documentation, *first, *body[:position], *made, *body[position:]]
    class_.body = filled or [ast.Pass()]


def _find_zeros(shown: ast.expr) -> ast.Call | None:
    """Return the ``torch.zeros(shape, ...)`` in the placeholder of a tensor."""
    match shown:
        case ast.Call(ast.Attribute(_, "zeros"), [_, *_]):
            return shown
        case ast.Call(ast.Attribute(_, "Parameter"), [inner, *_]):
            return _find_zeros(inner)
    return None


def _with_shape(shown: ast.expr, *shape: ast.expr) -> ast.expr:
    """Return a placeholder with other arguments of ``torch.zeros``."""
    made = copy.deepcopy(shown)
    zeros = _find_zeros(made)
    assert zeros is not None
    zeros.args = list(shape)
    return made


def _spread(shown: ast.expr) -> ast.expr:
    """Return ``torch.zeros(4, 3)`` for ``torch.zeros((4, 3))``."""
    match _find_zeros(shown):
        case ast.Call(_, [ast.Tuple([_, *_] as sizes)]):
            return _with_shape(shown, *sizes)
    return shown


_DTYPES: Mapping[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(slots=True)
class TensorFile:
    """Collects tensors by name.

    state: the names that are in the state dict; modules: paths that hold the module of another
    path; training: the paths of modules in training mode.
    """

    state: list[str] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    training: list[str] = field(default_factory=list)
    _tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    def add(self, name: str, tensor: torch.Tensor) -> str:
        """Add a tensor; return its name, which is another one where ``name`` is taken."""
        if tensor.is_meta or tensor.is_nested:
            raise UnsupportedError(f"the tensor {name!r} has no data of its own")
        refuse_packed(name, tensor, UnsupportedError, "Decompile")
        found = next(n for n in numbered(name, "~") if self._tensors.get(n, tensor) is tensor)
        self._tensors[found] = tensor
        return found

    def written(self) -> dict[str, bytes]:
        """Return the files by name."""
        plain, others, facts = self._sorted()
        facts |= {
            "grad": [name for name, tensor in self._tensors.items() if tensor.requires_grad],
            "modules": self.modules,
            "others": bool(others),
            "state": self.state,
            "training": self.training,
        }
        files = {"weights.safetensors": safetensors(plain, {"package": json.dumps(facts)})}
        if others:
            buffer = io.BytesIO()
            torch.save(others, buffer)
            files["weights.pt"] = buffer.getvalue()
        return files

    def _sorted(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, Any]]:
        """Return the tensors for the first file and the second one, and what shares memory."""
        first_names: dict[int, str] = {}
        same: dict[str, str] = {}
        groups: dict[int, list[str]] = {}
        others: dict[str, torch.Tensor] = {}
        for name, tensor in self._tensors.items():
            first = first_names.setdefault(id(tensor), name)
            if first != name:
                same[name] = first
            elif not _is_plain(tensor):
                others[name] = tensor.detach()
            else:
                groups.setdefault(tensor.untyped_storage()._cdata, []).append(name)
        plain: dict[str, torch.Tensor] = {}
        views: dict[str, Any] = {}
        for names in groups.values():
            self._group(names, plain, views)
        return plain, others, {"same": same, "views": views}

    def _group(
        self, names: list[str], plain: dict[str, torch.Tensor], views: dict[str, Any]
    ) -> None:
        """Add the tensors of one storage: as they are, or as views of all of it."""
        tensors = [self._tensors[name].detach() for name in names]
        if len(names) == 1 and tensors[0].is_contiguous():
            plain[names[0]] = tensors[0]
            return
        dtypes = {tensor.dtype for tensor in tensors}
        dtype = tensors[0].dtype if len(dtypes) == 1 else torch.uint8
        base = f"{names[0]}~storage"
        flat = torch.frombuffer(bytearray(storage_bytes(tensors[0])), dtype=dtype)
        plain[base] = flat
        for name, tensor in zip(names, tensors, strict=True):
            shown = str(tensor.dtype).removeprefix("torch.")
            place = [tensor.storage_offset(), list(tensor.shape), list(tensor.stride())]
            views[name] = [base, shown, *place]


def _is_plain(tensor: torch.Tensor) -> bool:
    is_flagged = tensor.is_conj() or tensor.is_neg()
    return tensor.layout == torch.strided and tensor.dtype in _DTYPES and not is_flagged


def safetensors(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return a safetensors file: length of the header, header, data, wide elements first."""
    ordered = sorted(tensors.items(), key=lambda pair: -pair[1].element_size())
    written = io.BytesIO()
    write_safetensors(written, [_stored(*named) for named in ordered], metadata)
    return written.getvalue()


def _stored(name: str, tensor: torch.Tensor) -> Tensor:
    content = bytes(storage_bytes(tensor.detach().contiguous().clone()))
    return Tensor(name, _DTYPES[tensor.dtype], tensor.shape, len(content), lambda: [content])
