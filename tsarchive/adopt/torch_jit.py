"""The bridge to torch: adopts live TorchScript modules, types and graphs.

The only file of the project that touches torch.jit and the bindings behind it. Everything it
returns is made of this package's own types and graphs; tensors stay torch tensors.

torch prints a class with its own printer when asked for ``.code``; its header is read for what no
other binding gives: attribute names in slot order, their flags, and the order of constants.
"""

from __future__ import annotations

import ast
import enum
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch

from tsarchive.errors import SaveError
from tsarchive.ir import types
from tsarchive.ir.classes import (
    Attribute,
    ClassConstant,
    ClassType,
    Function,
    FunctionType,
    InterfaceType,
)
from tsarchive.ir.constants import (
    Device,
    EnumMember,
    GeneratorSeed,
    Held,
    ObjectValue,
    TableConstant,
    TypedValue,
)
from tsarchive.ir.graph import Block, Node, Placed, Value
from tsarchive.ir.names import MANGLE_PREFIX, NATIVE_PREFIX, base_name
from tsarchive.ir.schema import NO_DEFAULT, Argument, FunctionSchema, parse_schema_with
from tsarchive.ir.types import (
    ANY,
    BOOL,
    SIMPLE_TYPES,
    TENSOR,
    DictType,
    EnumType,
    HandleType,
    ListType,
    NamedType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    UnionType,
    VarType,
    simple_type,
)
from tsarchive.ir.values import type_of_constant

from .likeness import shape_of
from .node_ranges import PlaceReader
from .probing import FIRST_SAME, As, Attr, Item, Place, Probe, State, Values, extend
from .sharing import Sharing, always_held_parts, held_parts

if TYPE_CHECKING:  # few modules need these
    from .code_texts import CodeTexts
    from .hidden_functions import HiddenFunction


class Adopter:
    """Adopts the types, functions and values that one save reaches, each once."""

    def __init__(self) -> None:
        self._named: dict[str, list[tuple[Any, Type]]] = {}
        self._modules: dict[Any, ObjectValue] = {}
        self._natives: dict[int, tuple[Any, ObjectValue]] = {}
        upgraders = torch._C._get_upgraders_entry_map().values()
        self.places = PlaceReader(torch._jit_internal.loader.content, upgraders, _text_behind)
        self._sharing = Sharing()
        self._torch_types: dict[ClassType, Any] = {}
        self._numbers: dict[ClassType, int] = {}  # among the classes of its name
        self._roots: list[Any] = []

    def forget(self) -> None:
        """Let go of everything; no function that was adopted is used any more."""
        functions: dict[Function, None] = {}
        for adopted in (type_ for named in self._named.values() for _, type_ in named):
            if isinstance(adopted, ClassType):
                functions |= dict.fromkeys((*adopted.methods.values(), *adopted.hooks()))
            elif isinstance(adopted, FunctionType):
                functions[adopted.function] = None
        for function in functions:
            function.forget()
        self.places.forget()
        self.__dict__.clear()

    # --- types ---

    def type(self, type_: Any) -> Type:
        kind = type_.kind()
        single = SINGLE.get(kind)
        if single is not None:
            return single
        build = BUILDERS.get(kind)
        if build is not None:
            return build(*map(self.type, type_.containedTypes()))
        if kind in ("ClassType", "InterfaceType", "EnumType", "TupleType"):
            return self._named_type(type_, kind)
        text = type_.annotation_str
        if kind == "VarType":
            return VarType(text)
        return simple_type(text)

    def _named_type(self, type_: Any, kind: str) -> Type:
        name = type_.annotation_str
        if kind == "TupleType" and name.startswith("Tuple["):
            return TupleType(tuple(map(self.type, type_.elements())))
        known = self._named.setdefault(name, [])
        for theirs, adopted in known:
            if theirs == type_ or (theirs is None and kind == "InterfaceType"):
                return adopted
        return _NAMED_BUILDERS[kind](self, type_, name, known)

    def _class(self, type_: Any, name: str, known: list[tuple[Any, Type]]) -> ClassType:
        class_ = ClassType(name, is_native=name.startswith(NATIVE_PREFIX))
        self._numbers[class_] = len(known)
        known.append((type_, class_))
        self._torch_types[class_] = type_
        if class_.is_native:
            self._native_class(type_, class_)
        else:
            self._fill_class(type_, class_, torch._C._create_module_with_type(type_))
        return class_

    def _native_class(self, type_: Any, class_: ClassType) -> None:
        if _is_of_this_process(type_, class_.qualified_name):
            raise SaveError(
                f"torch takes {class_.qualified_name} for a class bound from C++",
                hint="Move the class out of a Python module that is named torch.classes",
            )
        for name in type_.method_names():
            method = torch._C._create_object_with_type(type_)._get_method(name)
            class_.methods[name] = Function(
                f"{class_.qualified_name}.{name}", self.schema(method.schema), Block
            )
        if not class_.methods:
            class_.attributes["capsule"] = Attribute("capsule", SIMPLE_TYPES["Capsule"])

    def _fill_class(self, type_: Any, class_: ClassType, empty: Any) -> None:
        header = _read_header(code := _code_of(empty, class_.qualified_name))
        class_.is_module = header.is_module
        slot_types = type_.containedTypes()
        names = header.attributes
        if len(slot_types) != len(names):
            concrete: Any = torch._C.ConcreteModuleType.from_jit_type(type_)
            slots = [*concrete.get_attributes(), *dict(concrete.get_modules())]
            names = _in_header_order(slots, code)
        for name, slot_type in zip(names, slot_types, strict=True):
            flags = (name in header.parameters, name in header.buffers)
            class_.attributes[name] = Attribute(name, self.type(slot_type), *flags)
        if header.has_constants:
            values = torch._C.ConcreteModuleType.from_jit_type(type_).get_constants()
            for name in _in_header_order(values, code):
                value = self.value(values[name], ANY)
                held = TENSOR if isinstance(value, TableConstant) else type_of_constant(value)
                class_.constants[name] = ClassConstant(name, held, value)
        holder = torch._C._create_object_with_type(type_)
        own_name = _told_apart(class_.qualified_name, self._numbers[class_])
        for name in type_.method_names():
            script, place_name = holder._get_method(name), f"{own_name}.{name}"
            found = self.function(script, f"{class_.qualified_name}.{name}", place_name)
            found.liken = partial(_GraphLikeness, self, script, place_name)
            class_.methods[name] = found
        if class_.is_module:
            class_.forward_hooks += self._hooks(class_, empty._get_forward_hooks())
            class_.forward_pre_hooks += self._hooks(class_, empty._get_forward_pre_hooks())

    def _hooks(self, class_: ClassType, hooks: list[Any]) -> list[Function]:
        return [
            self._function_once(
                torch._C._jit_try_infer_type(hook).type(),
                partial(self.function, hook, f"{class_.qualified_name}.{hook.name}"),
            )
            for hook in hooks
        ]

    def _interface(self, type_: Any, name: str, known: list[tuple[Any, Type]]) -> InterfaceType:
        try:
            is_module = torch._C.ConcreteModuleType.from_jit_type(type_) is not None
        except RuntimeError:
            is_module = False
        interface = InterfaceType(name, is_module)
        known.append((type_, interface))
        for method in type_.getMethodNames():
            interface.methods[method] = self.schema(type_.getMethod(method))
        return interface

    def _enum(self, type_: Any, name: str, known: list[tuple[Any, Type]]) -> EnumType:
        ours = EnumType(name, self.type(type_.containedTypes()[0]))
        known.append((type_, ours))
        python = _python_enum(name, type_)
        if python is not None:
            ours.members.update({member.name: member.value for member in python})
        elif (found := self._code_texts.definition(name, "Enum")) is not None:
            from .code_texts import members_of

            ours.members.update(members_of(found[1]))
        else:
            raise SaveError(
                f"the members of the enum {name} cannot be read",
                hint="torch.jit.load hides the types of a file: load it with tsarchive",
            )
        return ours

    @cached_property
    def _code_texts(self) -> CodeTexts:
        """The code of files that was loaded from, as text; few modules need it."""
        from .code_texts import CodeTexts

        return CodeTexts(torch._C, self._roots, _text_behind, self._called_graph)

    def _called_graph(self, constant: Any) -> Any:
        script = _function_of_this_process(constant.type())
        return script.graph if script is not None else _hidden_function(constant).graph()

    def _named_tuple(self, type_: Any, name: str, known: list[tuple[Any, Type]]) -> TupleType:
        elements = tuple(map(self.type, type_.elements()))
        ours = TupleType(elements, name, _field_names(type_.str()))
        known.append((type_, ours))
        return ours

    # --- functions and graphs ---

    def schema(self, schema: Any) -> FunctionSchema:
        return FunctionSchema(
            schema.name,
            schema.overload_name,
            tuple(self._argument(argument) for argument in schema.arguments),
            tuple(self._argument(result) for result in schema.returns),
        )

    def _argument(self, argument: Any) -> Argument:
        type_ = self.type(argument.type)
        default = NO_DEFAULT
        if argument.has_default_value():
            default = self.value(argument.default_value, type_)
        return Argument(argument.name, type_, default, argument.kwarg_only, argument.N)

    def function(self, script: Any, qualified_name: str, place_name: str = "") -> Function:
        """Adopt a ScriptFunction or ScriptMethod; its graph on first use.

        ``place_name`` tells it apart from others of its name, for the places of nodes.
        """
        return Function(
            qualified_name,
            self.schema(script.schema),
            lambda: self._graph(script.graph, place_name or qualified_name),
        )

    def function_type(self, constant: Any) -> Type:
        """Return the type of a function constant, which stands for that function."""
        return self.called_function(constant).type

    def called_function(self, constant: Any) -> Function:
        return self._function_once(constant.type(), partial(self._free_function, constant))

    def _function_once(self, type_: Any, make: Callable[[], Function]) -> Function:
        """Return the function that a type stands for, made when it is met first."""
        known = self._named.setdefault(type_.annotation_str, [])
        for theirs, adopted in known:
            if theirs == type_ and isinstance(adopted, FunctionType):
                return adopted.function
        made = make()
        known.append((type_, made.type))
        return made

    def _free_function(self, constant: Any) -> Function:
        name = constant.type().annotation_str
        script = _function_of_this_process(constant.type())
        if script is not None:
            found = self.function(script, name)
            found.liken = partial(_GraphLikeness, self, script, name)
            return found
        hidden = _hidden_function(constant)
        schema = self._hidden_schema(hidden, name)
        return Function(name, schema, lambda: self._hidden_graph(hidden, name, schema))

    def _hidden_schema(self, hidden: HiddenFunction, name: str) -> FunctionSchema:
        found = hidden.parameters()
        defaults = iter(hidden.defaults(found, self.constant))
        arguments = tuple(
            Argument(
                parameter.name,
                self._shown_type(parameter.type, passed),
                next(defaults) if parameter.has_default else NO_DEFAULT,
            )
            for parameter, passed in zip(found, hidden.passed, strict=True)
        )
        returned = Argument("", self.type(hidden.returned))
        return FunctionSchema(name.rpartition(".")[2], "", arguments, (returned,))

    def _shown_type(self, text: str, passed: Any) -> Type:
        """Return the type of a parameter that torch shows like this; what is passed is below it."""
        adopted = self.type(passed)
        if passed.str() == text:
            return adopted
        names = _SHOWN_NAME.sub(r"\1", text)
        resolve = partial(self._type_named, first=list(_named_parts(adopted)))
        return parse_schema_with(f"f({names} _) -> ()", resolve).arguments[0].type

    def _type_named(self, name: str, first: Sequence[NamedType] = ()) -> Type:
        """Return a type met before, one of the ``first`` types if it is among them.

        torch shows interfaces without their modules.
        """
        known = [adopted for named in self._named.values() for _, adopted in named]
        for type_ in (*first, *reversed(known)):
            if isinstance(type_, NamedType) and name in _names_of(type_):
                return type_
        found = self._code_texts.definition(name, "(?:Module)?Interface")
        if found is None:
            raise SaveError(
                f"the type {name} cannot be reached from Python",
                hint="torch.jit.load hides the types of a file: load it with tsarchive",
            )
        return self._interface_of_text(*found)

    def _interface_of_text(self, name: str, definition: ast.ClassDef) -> InterfaceType:
        """Adopt an interface that only parameters have, for which torch gives no type."""
        interface = InterfaceType(name, ast.unparse(definition.bases[0]) == "ModuleInterface")
        self._named.setdefault(name, []).append((None, interface))
        from .code_texts import methods_of

        interface.methods.update(methods_of(definition, interface, self._type_named))
        return interface

    def _hidden_graph(self, hidden: HiddenFunction, name: str, schema: FunctionSchema) -> Block:
        graph = self._graph(hidden.graph(), name)
        for value, argument in zip(graph.params, schema.arguments, strict=True):
            value.type, value.name = argument.type, argument.name
        return graph

    def _graph(self, graph: Any, function: str) -> Block:
        return _GraphCopy(self, self.places, function).graph(graph)

    def constant(self, node: Any) -> Any:
        """Return the value of a prim::Constant node that is not a function."""
        if "value" not in node.attributeNames():
            return None
        if node.kindOf("value") == "t":
            # Below, a 0-dim tensor in arithmetic would become a Python number.
            return TableConstant(node.t("value"))
        type_ = self.type(node.output().type())
        if self._is_shown(type_):
            try:
                return self.value(node.output().toIValue(), type_)
            except RuntimeError:
                pass  # the class of an enum, or of an object in a container, is not imported
        return self._hidden(type_, self._probe.kept(node))

    # --- values ---

    def value(self, value: Any, type_: Type, place: Place | None = None) -> Any:
        """Convert a Python value from torch's bindings to the forms of ``values.py``."""
        if value is None or type(value) in _PLAIN_VALUES:
            return value
        if isinstance(type_, OptionalType):
            type_ = type_.element
        if isinstance(value, torch.Tensor):
            return TableConstant(value)
        if isinstance(value, torch.ScriptObject):
            is_module = isinstance(value, torch._C.ScriptModule)
            return self._module(value) if is_module else self._native(value)
        if isinstance(value, torch.device):
            return Device(str(value))
        if isinstance(value, torch.Generator):
            return GeneratorSeed(str(value.device), value.initial_seed())
        if isinstance(value, enum.Enum):
            return self._enum_member(value, type_)
        if isinstance(value, list | tuple | dict):
            return self._container(value, type_, place)
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            raise SaveError(f"{value!r} has no number in TorchScript")
        if isinstance(type_, ClassType) and value is not None:
            return self._script_object(value, type_, place)
        script = _script_class(value)
        return value if script is None else self._object_below(script, value, place)

    def _object_below(self, script: Any, value: Any, place: Place | None) -> ObjectValue:
        """Adopt a script object of whose class the static type says nothing.

        Python takes it for one of the compiled class ``script``, going by the name alone.
        """
        if place is not None:
            if not self._probe.is_a(place, script):
                script = self._probe.class_at(place)
            place = place.then(As(script))
        class_ = self.type(script)
        assert isinstance(class_, ClassType)
        if place is not None:
            return self._object_at(place, class_)
        return self._script_object(value, class_, None)

    def _container(self, value: Any, type_: Type, place: Place | None) -> Any:
        if isinstance(value, dict):
            key, item = (type_.key, type_.value) if isinstance(type_, DictType) else (ANY, ANY)
            values = self._items(value.values(), repeat(item), extend(place, Values()))
            return dict(zip((self.value(k, key) for k in value), values, strict=True))
        if isinstance(value, list):
            element = type_.element if isinstance(type_, ListType) else ANY
            return self._items(value, repeat(element), place)
        elements = type_.elements if isinstance(type_, TupleType) else (ANY,) * len(value)
        return tuple(self._items(value, elements, place))

    def _items(self, items: Iterable[Any], types: Iterable[Type], place: Place | None) -> list[Any]:
        pairs = enumerate(zip(items, types, strict=False))
        return [
            self.value(item, type_, extend(place, Item(index))) for index, (item, type_) in pairs
        ]

    def _enum_member(self, value: enum.Enum, type_: Type) -> EnumMember:
        if not isinstance(type_, EnumType):
            type_ = self.type(torch._C._jit_try_infer_type(value).type())
            assert isinstance(type_, EnumType)
        return EnumMember(type_, value.name, value.value)

    def _script_object(self, value: Any, type_: ClassType, place: Place | None) -> ObjectValue:
        """Adopt a script object from Python's copy of it, which has no callable methods."""
        if type_.has_state_methods:
            if place is None:
                raise SaveError(f"a constant of {type_.qualified_name} does not tell its state")
            return self._object_at(place, type_)
        found = ObjectValue(type_)
        for name, slot in type_.attributes.items():
            inner = extend(place, Attr(name))
            found.slots[name] = self.value(getattr(value, name), slot.type, inner)
            if inner is not None:
                self._sharing.note(found.slots, name, slot.type, inner)
        return found

    def _native(self, value: Any) -> ObjectValue:
        type_ = self.type(value._type())
        assert isinstance(type_, ClassType)
        if "__getstate__" not in type_.methods:
            raise SaveError(f"{type_.qualified_name} has no __getstate__, so it cannot be saved")
        # Its hash is its address; == may not be defined for it.
        if hash(value) not in self._natives:
            _, found = self._natives[hash(value)] = (value, ObjectValue(type_))
            self._state(found, value)
        return self._natives[hash(value)][1]

    def _state(self, found: ObjectValue, holder: Any) -> None:
        getstate = holder._get_method("__getstate__")
        state, step = getstate(), State(getstate.schema.returns[0].type)
        place = None if found.type.is_native else Place(holder, (step,))
        self._set_state(found, state, held_parts(found.type, state, getstate), place)

    def _set_state(self, found: ObjectValue, state: Any, held: Held, place: Place | None) -> None:
        type_ = found.type.methods["__getstate__"].schema.return_type
        found.state = TypedValue(self.value(state, type_, place), type_, held)
        if place is not None:
            self._sharing.note_state(found, place)

    def root(self, module: Any) -> ObjectValue:
        """Adopt a ``torch._C.ScriptModule`` with everything below it."""
        self._roots.append(module._type())
        found = self._module(module)
        self._sharing.restore(self._probe)
        return found

    def _module(self, module: Any) -> ObjectValue:
        known = self._modules.get(module)
        if known is not None:
            return known
        type_ = self.type(module._type())
        assert isinstance(type_, ClassType)
        found = self._modules[module] = ObjectValue(type_)
        if type_.has_state_methods:
            self._state(found, module)
            return found
        for name, slot in type_.attributes.items():
            if _has_no_parts(slot.type):
                found.slots[name] = self._whole(module, slot)
            else:
                place = Place(module, (Attr(name),))
                found.slots[name] = self._slot(module, slot, place)
                self._sharing.note(found.slots, name, slot.type, place)
        return found

    def _whole(self, module: Any, slot: Attribute) -> Any:
        """Return the value of a slot whose type has no parts."""
        try:
            value = module.getattr(slot.name)
        except RuntimeError:
            return self._hidden(slot.type, Place(module, (Attr(slot.name),)))
        return self.value(value, slot.type)

    def _slot(self, module: Any, slot: Attribute, place: Place) -> Any:
        if isinstance(slot.type, ClassType) and not slot.type.is_native:
            return self._object_at(place, slot.type)
        if not self._is_shown(slot.type):
            return self._hidden(slot.type, place)
        try:
            value = module.getattr(slot.name)
        except RuntimeError:
            return self._hidden(slot.type, place)
        return self.value(value, slot.type, place)

    def _read(self, type_: Type, place: Place) -> Any:
        if isinstance(type_, ClassType) and not type_.is_native:
            return self._object_at(place, type_)
        if not self._is_shown(type_):
            return self._hidden(type_, place)
        try:
            value = self._probe.read(place)
        except SaveError:
            return self._hidden(type_, place)
        return self.value(value, type_, place)

    def _is_shown(self, type_: Type) -> bool:
        """Return whether Python is given the values of a type.

        It is given copies of script objects, whose class must have been compiled in this process.
        """
        match type_:
            case ClassType(is_module=False, is_native=False):
                return _is_of_this_process(self._torch_types[type_], type_.qualified_name)
            case OptionalType() | ListType() | DictType() | TupleType() | UnionType():
                return all(map(self._is_shown, type_.parts()))
        return True

    def _hidden_member(self, type_: EnumType, place: Place) -> EnumMember:
        name = self._probe.member_name(place)
        return EnumMember(type_, name, type_.members[name])

    def _hidden(self, type_: Type, place: Place) -> Any:
        """Adopt a value that Python is not shown, part by part."""
        match type_:
            case OptionalType(element):
                return None if self._probe.is_none(place) else self._hidden(element, place)
            case ListType(element):
                count = self._probe.length(place)
                return [self._read(element, place.then(Item(index))) for index in range(count)]
            case TupleType(elements):
                items = enumerate(elements)
                return tuple(self._read(element, place.then(Item(n))) for n, element in items)
            case DictType(_, item):
                values = place.then(Values())
                keys = enumerate(self._probe.keys(place))
                return {key: self._read(item, values.then(Item(n))) for n, key in keys}
            case EnumType():
                return self._hidden_member(type_, place)
            case ClassType(is_module=False, is_native=False):
                return self._object_at(place, type_)
        theirs = self._probe.class_at(place)
        class_ = self.type(theirs)
        assert isinstance(class_, ClassType)
        return self._object_at(place.then(As(theirs)), class_)

    def _object_at(self, place: Place, class_: ClassType) -> ObjectValue:
        """Adopt a script object, slot by slot: Python would only see a copy of it."""
        found = ObjectValue(class_)
        if class_.has_state_methods:
            holder = torch._C._create_object_with_type(self._torch_types[class_])
            getstate = holder._get_method("__getstate__")
            inner = place.then(State(getstate.schema.returns[0].type))
            self._set_state(found, self._probe.read(inner), always_held_parts(class_), inner)
            return found
        for name, slot in class_.attributes.items():
            inner = place.then(Attr(name))
            found.slots[name] = self._read(slot.type, inner)
            self._sharing.note(found.slots, name, slot.type, inner)
        return found

    @cached_property
    def _probe(self) -> Probe:
        return Probe(torch._C, self._slot_names, _first_same, _some_interface)

    def _slot_names(self, type_: Any) -> list[str]:
        class_ = self.type(type_)
        return list(class_.attributes) if isinstance(class_, ClassType) else []


@cache
def _first_same() -> Any:
    return torch.jit.CompilationUnit(FIRST_SAME).first_same


def _text_behind(node: Any) -> str:
    from .code_texts import text_behind

    return text_behind(torch._C, torch.classes.profiling._ScriptProfile(), node)


class _Anything:
    """An interface, by which torch can be asked for the class of an object."""

    def anything(self) -> None:
        pass


@cache
def _some_interface() -> Any:
    torch.jit.interface(_Anything)
    name = torch._jit_internal._qualified_name(_Anything)
    return torch.jit._state._python_cu.get_interface(name)


def _script_class(value: Any) -> Any:
    """Return the compiled class of which Python takes an object to be; None if there is none."""
    state: Any = torch.jit._state
    return state._get_script_class(type(value))


_NAMED_BUILDERS: dict[str, Callable[..., Type]] = {
    "ClassType": Adopter._class,
    "InterfaceType": Adopter._interface,
    "EnumType": Adopter._enum,
    "TupleType": Adopter._named_tuple,
}


@contextmanager
def _as_written() -> Iterator[None]:
    """Make torch inline the graphs of functions as they are written, not as it optimises them.

    It keeps what it inlines for each way in which autocasting can be on; in the way that is chosen
    here, for two kinds of device at once, nothing has run before, and nothing is likely to.
    """
    devices = ("cpu", "cuda")
    before = [torch.is_autocast_enabled(device) for device in devices]
    optimises = torch._C._get_graph_executor_optimize()
    try:
        for device in devices:
            torch.set_autocast_enabled(device, True)
        torch._C._set_graph_executor_optimize(False)
        yield
    finally:
        torch._C._set_graph_executor_optimize(optimises)
        for device, enabled in zip(devices, before, strict=True):
            torch.set_autocast_enabled(device, enabled)


# Values that are ours as they are, and types of values that hold none that could be shared.
_PLAIN_VALUES = frozenset({bool, int, float, complex, str})
_UNSHARED = frozenset({types.BOOL, types.FLOAT, types.INT, types.NONE, types.TENSOR})


def _has_no_parts(type_: Type) -> bool:
    if isinstance(type_, ClassType):
        return type_.is_module
    return isinstance(type_, SimpleType) and type_ in _UNSHARED


def _named_parts(type_: Type) -> Iterator[NamedType]:
    """Yield the types with names that a type is made of, but not those of attributes."""
    if isinstance(type_, NamedType):
        yield type_
    if not isinstance(type_, ClassType):
        for part in type_.parts():
            yield from _named_parts(part)


def _names_of(type_: NamedType) -> tuple[str, ...]:
    """Return the names that torch may show for a type; an interface's has no module."""
    name = type_.qualified_name or ""
    return (name, name.rpartition(".")[2]) if isinstance(type_, InterfaceType) else (name,)


def _is_of_this_process(type_: Any, name: str) -> bool:
    """Return whether a class was compiled here; torch.jit.load keeps classes of files separate."""
    known: Any = torch.jit._state._python_cu.get_class(name)
    return known is not None and bool(known == type_)


def _function_of_this_process(type_: Any) -> Any:
    """Return the ScriptFunction that a function type stands for; None for one of a file.

    A function of this process may have the name of a file's function, but differ from it.
    """
    script: Any = torch.jit._state._python_cu.find_function(type_.annotation_str)
    is_it = script is not None and torch._C._jit_try_infer_type(script).type() == type_
    return script if is_it else None


def _hidden_function(constant: Any) -> HiddenFunction:
    calls = [use.user for use in constant.uses() if use.user.kind() == "prim::CallFunction"]
    _, *passed = [value.type() for value in _inputs(calls[0])]
    returned = calls[0].output().type()
    from .hidden_functions import HiddenFunction

    return HiddenFunction(torch._C, constant.type(), passed, returned, _as_written)


def _python_enum(qualified_name: str, type_: Any) -> type[enum.Enum] | None:
    """Return the Python class of an enum of this process; no binding lists the members."""
    found: Any = torch.jit._state._name_to_pyclass.get(qualified_name)
    value_type = type_.containedTypes()[0]
    if found is None or torch._C.EnumType(qualified_name, value_type, list(found)) != type_:
        return None
    members: type[enum.Enum] = found
    return members


@contextmanager
def adopting() -> Iterator[Adopter]:
    """Yield an adopter whose functions can be used inside the block only.

    Functions, their classes and the adopter refer to each other: to collect such cycles takes as
    long as some steps of a save do.
    """
    adopter = Adopter()
    try:
        yield adopter
    finally:
        adopter.forget()


def adopt_module(module: Any, adopter: Adopter) -> ObjectValue:
    """Adopt a scripted or traced module: its object graph, with classes and code attached."""
    return adopter.root(module._c)


def adopt_function(function: Any) -> Function:
    """Adopt a scripted or traced function."""
    return Adopter().function(function, function.qualified_name)


def adopt_placeholder(function: Any, adopter: Adopter) -> ObjectValue:
    """Adopt a function as the ``forward`` of a module without state, the form in which it is saved.

    The schema is rebuilt from the graph, so defaults are lost, as they are in torch.
    """
    graph = adopter._graph(function.graph, function.name)
    class_ = ClassType("__torch__.PlaceholderModule", is_module=True)
    adopter._named.setdefault(class_.qualified_name, []).append((None, class_))
    class_.attributes["training"] = Attribute("training", BOOL)
    graph.params.insert(0, Value(graph.param_node, class_, "self"))
    arguments = tuple(
        Argument(value.name or f"argument_{position}", value.type)
        for position, value in enumerate(graph.params)
    )
    results = (Argument("", graph.returns[0].type),)
    schema = FunctionSchema("forward", "", arguments, results)
    forward = Function(f"{class_.qualified_name}.forward", schema, lambda: graph)
    class_.methods["forward"] = forward
    return ObjectValue(class_, {"training": True})


# Beyond those that torch counts up to.
_OWN_NUMBERS = 10**9


def is_script_module(value: Any) -> bool:
    return isinstance(value, torch.jit.ScriptModule)


def is_script_function(value: Any) -> bool:
    return isinstance(value, torch.jit.ScriptFunction)


def scripted(
    module: torch.nn.Module,
    definitions: Mapping[Any, str],
    interfaces: Mapping[type, type],
    number: int,
) -> Any:
    """Return a module as torch.jit.script compiles it, whatever was compiled before or failed to.

    ``definitions`` are classes and functions of Python with the names that they get. ``interfaces``
    are protocols among them, by classes in whose form torch.jit reads them: methods are ``pass``,
    and modules have the base nn.Module. Names that torch has met stay with what it compiled: with
    another ``number`` they are mangled otherwise.

    Raises what torch raises for code that does not compile.
    """
    recursive: Any = torch.jit._recursive
    state: Any = torch.jit._state
    recursive.concrete_type_store = recursive.ConcreteTypeStore()
    for definition, name in definitions.items():
        folder, _, own = name.rpartition(".")
        definition._jit_override_qualname = f"{folder}.{MANGLE_PREFIX}{_OWN_NUMBERS + number}.{own}"
        for known in (state._script_classes, state._jit_caching_layer):
            known.pop(definition, None)
    for protocol, form in interfaces.items():
        _compile_interface(protocol, form)
    return torch.jit.script(module)


def _compile_interface(protocol: Any, form: Any) -> None:
    """Let torch.jit take a protocol for an interface."""
    jit: Any = torch.jit
    internal: Any = torch._jit_internal
    protocol.__torch_script_interface__ = torch._C._jit_script_interface_compile(
        protocol._jit_override_qualname,
        jit.frontend.get_jit_class_def(form, form.__name__),
        internal.createResolutionCallbackFromEnv(vars(sys.modules[form.__module__])),
        issubclass(form, torch.nn.Module),
    )


def let_be_constants(scripted: Any, beginning: str) -> None:
    """Put values in the place of attributes of scripted modules whose names begin so."""
    for module in scripted.modules():
        for method in map(module._c._get_method, module._c._method_names()):
            for read in method.graph.findAllNodes("prim::GetAttr", True):
                if read.s("name").startswith(beginning):
                    constant = method.graph.create("prim::Constant")
                    value = getattr(module, read.s("name"))
                    is_tensor = isinstance(value, torch.Tensor)
                    (constant.t_ if is_tensor else constant.ival_)("value", value)
                    constant.output().setType(read.output().type())
                    constant.insertBefore(read)
                    read.output().replaceAllUsesWith(constant.output())
                    read.destroy()


def special_forms() -> Mapping[str, Any]:
    """Return what torch.jit has in the place of classes for calls that run later, by name."""
    jit: Any = torch.jit
    return {"Future": jit._fork, "Awaitable": jit._awaitable}


def compiled_methods(module: torch.nn.Module, scripted: Any) -> set[tuple[type, str]]:
    """Return the methods of the classes of modules that were compiled when one was scripted."""
    classes = {path: type(each) for path, each in module.named_modules()}
    return {
        (classes[path], name)
        for path, each in scripted.named_modules()
        if path in classes
        for name in each._c._method_names()
    }


def compile_always(method: Any) -> None:
    """Let a method be compiled with its module, although nothing calls it."""
    torch.jit.export(method)


def has_operator(name: str) -> bool:
    """Return whether a library has registered an operator."""
    return bool(torch._C._jit_get_schemas_for_operator(name))


def stands_for(function: Any, operator: str) -> None:
    """Let calls of a function be compiled as calls of an operator, if torch has one of the name.

    Which of its overloads is meant the arguments tell.
    """
    if has_operator(operator):
        torch.jit._builtins._register_builtin(function, operator)


def compile_when_called(method: Any) -> None:
    """Let a method be compiled where another calls it, as if it had never been exported."""
    method._torchscript_modifier = torch._jit_internal.FunctionModifiers.DEFAULT


def adopt_traced(module: Any) -> dict[str, list[Any]]:
    """Return the example inputs of tracing by method name; empty for other modules."""
    adopter = Adopter()
    stored = module._c._retrieve_traced_inputs()
    return {name: adopter.value(list(inputs), ANY) for name, inputs in stored.items()}


BUILDERS: dict[str, Callable[..., Type]] = {
    "OptionalType": OptionalType,
    "ListType": ListType,
    "DictType": DictType,
    "UnionType": lambda *members: UnionType(members),
    "FutureType": partial(HandleType, "Future"),
    "AwaitType": partial(HandleType, "Await"),
    "RRefType": partial(HandleType, "RRef"),
}

# Types without parameters, each a singleton in torch.
SINGLE: dict[str, Type] = {
    "BoolType": types.BOOL,
    "FloatType": types.FLOAT,
    "IntType": types.INT,
    "NoneType": types.NONE,
    "NumberType": types.NUMBER,
    "StringType": types.STRING,
    "TensorType": types.TENSOR,
}


_SHOWN_NAME = re.compile(r"(?:InterfaceType|Enum)<(.*?)>")
_ATTRIBUTE = re.compile(r'  (?:(\w+) : (?!Final\[)|__annotations__\["(.*)"\] = )')
_FLAGS = re.compile(r"\n  __parameters__ = \[(.*?)\]\n  __buffers__ = \[(.*?)\](?:\n|$)", re.DOTALL)
_QUOTED = re.compile(r'"(.*?)", ', re.DOTALL)
_QUOTED_SLOT = '  __annotations__["'
# A slot may be named ``def``.
_METHODS = re.compile(r"\n  def (?!: )")


@dataclass(frozen=True, slots=True)
class _ClassHeader:
    """Attribute names in slot order, their flags, and whether constants follow.

    No attributes are given when one of them has a line break in its name.
    """

    is_module: bool
    attributes: tuple[str, ...]
    has_constants: bool
    parameters: frozenset[str]
    buffers: frozenset[str]


def _code_of(printed: Any, name: str) -> str:
    """Return torch's printed form of the class ``name``.

    Raises SaveError where it cannot print it.
    """
    try:
        code: str = printed.code
    except RuntimeError as error:
        raise SaveError(
            f"torch cannot print the class {name}: {error}",
            hint="An argument of type Tensor whose default is None wants Optional[Tensor]",
        ) from error
    return code


def _read_header(code: str) -> _ClassHeader:
    """Parse the header of the class that ``code`` begins with; methods are ignored."""
    methods = _METHODS.search(code)
    return _header_of(code if methods is None else code[: methods.start()])


@lru_cache(maxsize=1 << 10)
def _header_of(header: str) -> _ClassHeader:
    first, *lines = header.split("\n")
    attributes = [match for line in lines if (match := _ATTRIBUTE.match(line))]
    if sum(line.startswith(_QUOTED_SLOT) for line in lines) > sum(m[1] is None for m in attributes):
        attributes = []  # a name contains a line break
    flags = _FLAGS.search(header)
    parameters, buffers = flags.groups() if flags else ("", "")
    return _ClassHeader(
        first.endswith("(Module):"),
        tuple(match[1] or match[2] for match in attributes),
        " : Final[" in header,
        frozenset(_QUOTED.findall(parameters)),
        frozenset(_QUOTED.findall(buffers)),
    )


def _in_header_order(names: Iterable[str], code: str) -> tuple[str, ...]:
    """Return known names of attributes or constants in the order of their lines.

    Such names may contain anything, even line breaks.
    """

    places: dict[str, int] = {}
    # A long name may contain text that looks like the line of a short one.
    for name in sorted(names, key=len, reverse=True):
        for line in (f'\n  __annotations__["{name}"] = ', f"\n  {name} : "):
            if (found := code.find(line)) >= 0:
                places[name] = found
                code = code.replace(line, "\n" * len(line), 1)
                break
    return tuple(sorted(places, key=places.__getitem__))


def _field_names(shown: str) -> tuple[str, ...]:
    """Return the fields of ``NamedTuple(a : Tensor, b : NamedTuple(...))``, not nested ones."""
    depth, level_one = 0, []
    for char in shown:
        depth -= char in ")]"
        level_one.append(char if depth == 1 else "")
        depth += char in "(["
    return tuple(re.findall(r"(\w+) : ", "".join(level_one)))


def _told_apart(class_name: str, number: int) -> str:
    """Return the name that torch would give the class if all files were read into one unit."""
    if not number:
        return class_name
    module, _, last = class_name.rpartition(".")
    return f"{module}.{MANGLE_PREFIX}{number}.{last}"


class _GraphLikeness:
    """The likeness of a method, as torch prints its graph; nodes are asked for no more than needed.

    ``function`` tells the method apart, for the places of nodes.
    """

    def __init__(self, adopter: Adopter, script: Any, function: str) -> None:
        self._adopter = adopter
        self._graph = script.graph
        self._function = function
        self.shape = shape_of(self._graph.str(False))
        self._nodes: list[Any] = []

    def _all_nodes(self, kinds: Sequence[str]) -> list[Any]:
        if not self._nodes:
            has_blocks = not _WITH_BLOCKS.isdisjoint(kinds)
            nodes = _nodes_in(self._graph, iter(kinds)) if has_blocks else self._graph.nodes()
            self._nodes = list(nodes)
        return self._nodes

    def functions(self, constants: Sequence[int], kinds: Sequence[str]) -> list[Function]:
        nodes = self._all_nodes(kinds)
        return [self._adopter.called_function(nodes[number].output()) for number in constants]

    def constants(self, numbers: Sequence[int], kinds: Sequence[str]) -> list[Any]:
        nodes = self._all_nodes(kinds)
        return [self._adopter.constant(nodes[number]) for number in numbers]

    def places(self, kinds: Sequence[str]) -> Sequence[Placed]:
        nodes = self._all_nodes(kinds)
        return self._adopter.places.places(nodes, kinds, self._function, self.shape)


class _GraphCopy:
    """Copies one graph; values are identified by their numbers, unique in a graph."""

    def __init__(self, adopter: Adopter, places: PlaceReader, function: str) -> None:
        self.adopter = adopter
        self.places = places
        self.function = function
        self.values: dict[int, Value] = {}

    def graph(self, theirs: Any) -> Block:
        return self._filled(Block(), theirs, theirs.param_node(), theirs.return_node())

    def _filled(self, ours: Block, theirs: Any, params: Any, returns: Any) -> Block:
        for value in _outputs(params):
            self._bind(value, ours.param_node)
        for node in theirs.nodes():
            self._node(node, ours)
        for value in _inputs(returns):
            ours.add_return(self.values[value.unique()])
        return ours

    def _bind(self, value: Any, node: Node) -> None:
        theirs = value.type()
        kind = theirs.kind()
        type_ = SINGLE.get(kind)
        if type_ is None:
            is_function = kind == "FunctionType"
            type_ = self.adopter.function_type(value) if is_function else self.adopter.type(theirs)
        self.values[value.unique()] = node.add_output(type_, base_name(value.debugName()))

    def _node(self, theirs: Any, block: Block) -> None:
        kind = theirs.kind()
        schema = "(no schema)" if kind in _WITHOUT_SCHEMA else theirs.schema()
        ours = block.append(
            kind,
            [self.values[value.unique()] for value in _inputs(theirs)],
            schema=None if schema == "(no schema)" else _operator_schema(schema),
            place=self.places.place(theirs, kind, self.function),
        )
        for value in _outputs(theirs):
            self._bind(value, ours)
        if kind in _WITH_BLOCKS:
            for inner in theirs.blocks():
                self._filled(ours.add_block(), inner, inner.paramNode(), inner.returnNode())
        read = _NODE_ATTRIBUTES.get(kind)
        if read is not None:
            ours.attributes.update(read(self, theirs, ours))
        elif (names := theirs.attributeNames()) and (lost := set(names) - _NOT_WRITTEN):
            ours.lost = sorted(lost)

    def _constant(self, theirs: Any, ours: Node) -> dict[str, Any]:
        if isinstance(ours.output.type, FunctionType):
            return {"value": ours.output.type.function}
        return {"value": self.adopter.constant(theirs)}

    def _name(self, theirs: Any, _: Node) -> dict[str, Any]:
        return {"name": theirs.s("name")}

    def _subgraph(self, theirs: Any, _: Node) -> dict[str, Any]:
        copy = _GraphCopy(self.adopter, self.places, self.function)
        return {"subgraph": copy.graph(theirs.g("Subgraph"))}


_NODE_ATTRIBUTES: dict[str, Callable[[_GraphCopy, Any, Node], dict[str, Any]]] = {
    "prim::Constant": _GraphCopy._constant,
    "prim::ConstantMKLDNNTensor": lambda _copy, theirs, _ours: {
        "value": TableConstant(theirs.t("value").to_dense())
    },
    "prim::GetAttr": _GraphCopy._name,
    "prim::SetAttr": _GraphCopy._name,
    "prim::CallMethod": _GraphCopy._name,
    "prim::fork": _GraphCopy._subgraph,
    "prim::awaitable": _GraphCopy._subgraph,
    "prim::isinstance": lambda copy, theirs, _ours: {
        "types": [copy.adopter.type(type_) for type_ in theirs.tys("types")]
    },
    "prim::TupleSlice": lambda _copy, theirs, _ours: {
        "beg": theirs.i("beg"),
        "end": theirs.i("end"),
    },
}

_WITH_BLOCKS = frozenset({"prim::If", "prim::Loop"})
# Those of nearly all nodes that are no operators.
_WITHOUT_SCHEMA = frozenset(
    {
        "prim::CallMethod", "prim::Constant", "prim::GetAttr", "prim::If", "prim::ListConstruct",
        "prim::Loop", "prim::TupleConstruct",
    }
)  # fmt: skip


# By index: the iterators over the same values cost ten times as much.
def _inputs(node: Any) -> Iterator[Any]:
    return map(node.inputsAt, range(node.inputsSize()))


def _outputs(node: Any) -> Iterator[Any]:
    return map(node.outputsAt, range(node.outputsSize()))


def _nodes_in(block: Any, kinds: Iterator[str]) -> Iterator[Any]:
    """Yield the nodes of a graph, each before those inside it; their kinds are known."""
    for node in block.nodes():
        yield node
        if next(kinds) in _WITH_BLOCKS:
            for inner in node.blocks():
                yield from _nodes_in(inner, kinds)


# The number by which torch identifies repeated warnings; it is reassigned on loading.
_NOT_WRITTEN = frozenset({"warn_id"})


@cache
def _operator_schema(text: str) -> FunctionSchema:
    """Parse a schema. Operators may name torchbind classes; printing only needs their names."""
    return parse_schema_with(text, lambda name: ClassType(name, is_native=True))
