"""The bodies of classes, enums, named tuples and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.schema import Argument
from tsarchive.ir.types import EnumType, ListType, OptionalType, TupleType, Type, annotation

from . import syntax
from .control_flow import finish_function
from .layout import Definition
from .naming import (
    OF_CONTAINERS,
    SHARED_SLOTS,
    Members,
    container_base,
    identifier,
    is_accessor,
    is_plain,
    members_of,
)
from .program import Program, shown_type
from .translation import Translation


def body_of(program: Program, key: Type | Function, definition: Definition) -> list[ast.stmt]:
    """Return the statements that define a class, an enum, a named tuple or a function."""
    match key:
        case Function():
            return [_function(program, key, definition.name, definition)]
        case ClassType(is_native=False):
            return _class_body(program, key, definition)
        case EnumType():
            return _enum_body(program, key, definition)
        case TupleType(qualified_name=str()):
            return _named_tuple_body(program, key, definition)
    raise UnsupportedError(f"{annotation(key)} has no Python class")


def _class_body(program: Program, class_: ClassType, definition: Definition) -> list[ast.stmt]:
    """Return a class without its ``__init__``, which depends on what its objects hold."""
    members = members_of(class_)
    body: list[ast.stmt] = []
    is_container = container_base(class_) is not None
    for attribute in class_.attributes.values():
        if attribute.name in SHARED_SLOTS or is_container:
            continue
        shown = shown_type(program, attribute.type)
        name = members.slots[attribute.name]
        annotation = ast.AnnAssign(ast.Name(name, ast.Store()), shown, None, 1)
        if class_.is_module:
            definition.types.append(ast.dump(annotation))
        else:
            body.append(annotation)
    for function in _methods(class_, members):
        if is_container and function.name in OF_CONTAINERS:
            continue
        name = members.methods[function.name]
        made = _function(program, function, name, definition)
        if function.name in members.getters:
            made.decorator_list = [syntax.builtin("property")]
        elif function.name in members.setters:
            made.decorator_list = [syntax.attribute(syntax.name(name), "setter")]
        body.append(made)
    if "__eq__" in class_.methods:
        body.append(syntax.assign(["__hash__"], syntax.form("object.__hash__")))
    base = f"nn.{container_base(class_) or 'Module'}"
    bases = [syntax.form(base)] if class_.is_module else []
    class_definition = syntax.class_(definition.name, bases, body)
    return [class_definition, *_accessors(definition, class_)]


def _accessors(definition: Definition, class_: ClassType) -> Iterator[ast.stmt]:
    """Yield getters and setters by their names in the archive, which Python mangles in classes."""
    members = members_of(class_)
    for name in filter(is_accessor, class_.methods):
        found = syntax.attribute(syntax.name(definition.name), members.methods[name])
        if name in members.getters:
            found = syntax.attribute(found, "fget")
        elif name in members.setters:
            found = syntax.attribute(found, "fset")
        given = syntax.name(definition.name), syntax.literal(name), found
        yield syntax.statement("setattr(_0, _1, _2)", *given)


def _methods(class_: ClassType, members: Members) -> Iterator[Function]:
    """Yield methods and hooks, each once; the setter of a property stands behind its getter."""
    methods = {method.name: method for method in (*class_.methods.values(), *class_.hooks())}
    setters = {shown: methods[name] for name, shown in members.setters.items()}
    for name, function in methods.items():
        if name not in members.setters:
            yield function
            setter = setters.get(members.getters.get(name, ""))
            yield from () if setter is None else (setter,)


def _function(
    program: Program, function: Function, name: str, definition: Definition
) -> ast.FunctionDef:
    program.comments.start()
    graph = function.graph
    translation = Translation(function, graph, program)
    arguments: list[ast.arg] = []
    defaults: list[ast.expr] = []
    for index, argument in enumerate(function.schema.arguments):
        value = graph.params[index]
        shown = translation.variables.parameter(value, argument.name)
        translation.hold(shown, value)
        is_self = isinstance(argument.type, ClassType) and index == 0
        type_ = None if is_self else shown_type(program, argument.type)
        arguments.append(ast.arg(shown, type_))
        if argument.has_default:
            defaults.append(_default(translation, argument))
        elif defaults:
            raise translation.unsupported("has a default before its last ones")
    finish_function(translation, graph)
    definition.variables |= translation.variables.used
    returns = shown_type(program, function.schema.return_type)
    return syntax.function(name, arguments, defaults, translation.statements, returns)


def _default(translation: Translation, argument: Argument) -> ast.expr:
    value = argument.default
    if isinstance(argument.type, ListType) and isinstance(value, int | float):
        value = [value] * (argument.repeat or 1)
    type_ = argument.type
    return translation.value(value, type_.element if isinstance(type_, OptionalType) else type_)


def _enum_body(program: Program, enum: EnumType, definition: Definition) -> list[ast.stmt]:
    names: dict[str, str] = {}
    body: list[ast.stmt] = []
    for name, value in enum.members.items():
        shown = name if is_plain(name) and not name.startswith("_") else identifier(name)
        while shown in names.values() or shown in ("mro", "name", "value"):
            shown += "_"
        names[name] = shown
        body.append(syntax.assign([shown], syntax.literal(value)))
    program.enum_members[enum] = names
    return [syntax.class_(definition.name, [syntax.form("enum.Enum")], body)]


def _named_tuple_body(program: Program, type_: TupleType, definition: Definition) -> list[ast.stmt]:
    body: list[ast.stmt] = []
    taken: set[str] = set()
    for position, (field, element) in enumerate(zip(type_.fields, type_.elements, strict=True)):
        name = field if is_plain(field) and not field.startswith("_") else f"item_{position}"
        while name in taken:
            name += "_"
        taken.add(name)
        shown = shown_type(program, element)
        body.append(ast.AnnAssign(ast.Name(name, ast.Store()), shown, None, 1))
    return [syntax.class_(definition.name, [syntax.form("NamedTuple")], body)]
