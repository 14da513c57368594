"""The definitions of a package: each class and function once, made when first asked for.

Types that they name are shown as annotations, and as conditions with ``isinstance``.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain, count
from typing import Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Value, closure, walk
from tsarchive.ir.names import unmangled
from tsarchive.ir.subtyping import flat_members
from tsarchive.ir.types import (
    ANY,
    BOOL,
    DEVICE,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    TENSOR,
    DictType,
    EnumType,
    HandleType,
    ListType,
    NamedType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
    simple_type,
)
from tsarchive.library import recovered_function
from tsarchive.run.conversion import type_of_class
from tsarchive.run.passes.liveness import Effects
from tsarchive.run.passes.peephole import Identities

from . import syntax
from .iteration import ContainerWrites
from .layout import Comments, Definition, Module
from .libraries import LibraryModules, of_library
from .naming import ROOT, container_base, definition_name, module_path
from .overflow_analysis import functions_that_wrap

CONSTANTS = "_constants"
"""The module of a package that holds the constants of code."""

Body = Callable[["Program", Type | Function, Definition], list[ast.stmt]]


class Program:
    """The classes and functions of an archive as definitions of Python.

    Two that differ in nothing but the number in their qualified names, and in the names of local
    variables, are one definition.
    Those that a library has are imported from there, for ``modules``.
    ``body`` writes the statements of a definition; it may ask for others, and for itself.
    """

    def __init__(self, modules: LibraryModules, comments: Comments, body: Body) -> None:
        self._body = body
        self.modules_of_libraries = modules
        roots: list[Type | Function] = [module.tsarchive_class for module in modules.written]
        reached = closure(roots, _leads_to)
        functions = [item for item in reached if isinstance(item, Function)]
        functions.sort(key=lambda function: function.qualified_name)
        self.comments = comments
        self.effects = Effects()
        self.identities = Identities()
        self.container_writes = ContainerWrites()
        # The attributes that code sets, by their classes.
        nodes = [*chain.from_iterable(walk(function.graph.nodes) for function in functions)]
        sets = [node for node in nodes if node.kind == "prim::SetAttr"]
        self.assigned = frozenset((node.inputs[0].type, node.name) for node in sets)
        gets = [node for node in nodes if node.kind == "prim::GetAttr"]
        # The attributes that code uses members of.
        self.opened = frozenset((n.input.type, n.name) for n in gets if _is_opened(n.output))
        self.wrapping = functions_that_wrap(functions)
        self.constants: dict[str, Any] = {}
        self._constant_names: dict[int, str] = {}
        # Classes of exceptions that Python has not, with their qualified names.
        self.exceptions: dict[str, str] = {}
        self.untranslated: dict[str, None] = {}
        # Operators and classes that are not registered here, and what registers them.
        self.libraries: dict[str, str] = {}
        # The schemas of these operators, as far as their calls tell.
        self.foreign: dict[str, None] = {}
        self.modules: dict[tuple[str, ...], Module] = {}
        self._numbers = count(1)
        self._definitions: dict[Type | Function, Definition] = {}
        self._by_content: dict[tuple[object, ...], Definition] = {}
        self.enum_members: dict[EnumType, dict[str, str]] = {}

    def reference(self, key: Type | Function) -> ast.expr:
        """Return a reference to the class for a class, enum or named tuple, or to a function."""
        if isinstance(key, ClassType):
            class_ = self.modules_of_libraries.class_(key)
            if class_ is not None:
                return class_
            if _is_no_grad(key):
                return syntax.form("torch.no_grad")
            if _is_record_function(key):
                return syntax.form("torch.profiler.record_function")
        if isinstance(key, Function):
            name = recovered_function(key)
            if name is not None:
                return of_library(name)
        return syntax.to_definition(self.definition(key))

    def constant(self, content: Any) -> ast.expr:
        """Return a reference to a constant of the table, an object, or a generator."""
        value = content.value if isinstance(content, TableConstant) else content
        name = self._constant_names.setdefault(id(value), f"c{len(self._constant_names)}")
        self.constants[name] = value
        return syntax.imported(CONSTANTS, name)

    def definition(self, key: Type | Function) -> Definition:
        """Return the definition of a class, enum, named tuple or function."""
        if key not in self._definitions:
            assert isinstance(key, Function | NamedType)
            qualified_name = key.qualified_name
            assert qualified_name is not None  # nothing else is referred to
            name = definition_name(qualified_name.rpartition(".")[2])
            path, shown = module_path(qualified_name), unmangled(qualified_name)
            made = Definition(next(self._numbers), name, path, shown)
            self._definitions[key] = made
            made.body = self._body(self, key, made)
            kind = type(key).__name__
            content = (kind, made.qualified_name, *made.types, *map(_content, made.body))
            found = self._definitions[key] = self._by_content.setdefault(content, made)
            if found is made:
                module = self.modules.setdefault(made.path, Module(made.path, _about(shown)))
                made.rename(module.names.unique(made.name))
                module.definitions.append(made)
        return self._definitions[key]

    def enum_member(self, enum: EnumType, name: str) -> str:
        self.definition(enum)
        return self.enum_members[enum][name]

    def has_opened_items(self, type_: Type) -> bool:
        """Return whether code uses members of what a container of modules holds."""
        if not isinstance(type_, ClassType) or container_base(type_) is None:
            return False
        return any((type_, name) in self.opened for name in type_.attributes)


_NO_GRAD = "torch.autograd.grad_mode.no_grad"
_STEPS_OF_NO_GRAD = {
    "__init__": ["prim::SetAttr False"],
    "__enter__": ["prim::SetAttr aten::is_grad_enabled", "aten::set_grad_enabled False"],
    "__exit__": ["aten::set_grad_enabled prim::GetAttr"],
}


_READING = ("prim::GetAttr", "aten::is_grad_enabled")


def _is_no_grad(class_: ClassType) -> bool:
    """Return whether a class is ``torch.no_grad`` by name, and by what its methods do."""
    if unmangled(class_.qualified_name) != f"{ROOT}.{_NO_GRAD}" or len(class_.attributes) != 1:
        return False
    return {name: _steps(method) for name, method in class_.methods.items()} == _STEPS_OF_NO_GRAD


_RECORD_FUNCTION = "torch.autograd.profiler.record_function"
_CALLS_OF_PROFILER = {
    "__enter__": ["profiler::_record_function_enter_new"],
    "__exit__": ["profiler::_record_function_exit"],
}


def _is_record_function(class_: ClassType) -> bool:
    """Return whether a class is torch's ``record_function`` by name, and by what its methods call
    of the profiler."""
    if unmangled(class_.qualified_name) != f"{ROOT}.{_RECORD_FUNCTION}":
        return False
    called = {
        name: [n.kind for n in walk(method.graph.nodes) if n.kind.startswith("profiler::")]
        for name, method in class_.methods.items()
    }
    return called.items() >= _CALLS_OF_PROFILER.items()


def _steps(function: Function) -> list[str]:
    """Return what is done but for reading, each with where its last operand comes from."""
    nodes = [node for node in walk(function.graph.nodes) if not node.is_constant]
    steps = [node for node in nodes if node.kind not in _READING]
    origins = [node.inputs[-1].node for node in steps]
    shown = [repr(o.output.constant) if o.is_constant else o.kind for o in origins]
    return [f"{node.kind} {origin}" for node, origin in zip(steps, shown, strict=True)]


def _is_opened(value: Value) -> bool:
    """Return whether code uses members of an object, and more of a module than to call it."""
    return any(
        user.inputs[0] is value
        and (
            user.kind in ("prim::GetAttr", "prim::SetAttr")
            or (user.kind == "prim::CallMethod" and user.name != "forward")
        )
        for user, _ in value.uses
    )


def _about(qualified_name: str) -> str:
    """Return the docstring of the module that holds a definition."""
    module = qualified_name.removeprefix(f"{ROOT}.").rpartition(".")[0]
    return f"Code of ``{module}``." if module else "Code of the program, which names no module."


def _leads_to(item: Type | Function) -> Iterator[Type | Function]:
    """Yield the types and functions that a type or a function can reach in one step."""
    match item:
        case Function():
            yield from (argument.type for argument in item.schema.arguments)
            for node in walk(item.graph.nodes):
                if node.stand_in is not None:
                    yield node.stand_in
                yield from (value.type for value in node.outputs)
                yield from node.attributes.get("types", ())
                if node.stand_in is not None:
                    yield node.stand_in
            return
        case FunctionType():
            yield item.function
        case ClassType(is_native=False):
            yield from (*item.methods.values(), *item.hooks())
    yield from item.parts()


def _content(statement: ast.stmt) -> str:
    """Return what a statement says, whatever the local variables of its functions are called."""
    copied = copy.deepcopy(statement)
    parts = copied.body if isinstance(copied, ast.ClassDef) else [copied]
    for part in parts:
        if isinstance(part, ast.FunctionDef):
            _number_locals(part)
    return ast.dump(copied)


def _number_locals(function: ast.FunctionDef) -> None:
    """Give the local variables of a function numbers for names, but for its arguments."""
    given = {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    stored = [name.id for name in names if isinstance(name.ctx, ast.Store)]
    own = [name for name in dict.fromkeys(stored) if name not in given]
    numbers = {name: f"<{number}>" for number, name in enumerate(own)}
    for name in names:
        name.id = numbers.get(name.id, name.id)


def is_of_library(function: ast.expr) -> bool:
    """Return whether a function is not of the package."""
    reference = syntax.reference_of(function)
    return reference is None or reference.definition is None


def module_type(module: torch.nn.Module) -> ClassType:
    found = type_of_class(type(module))
    assert isinstance(found, ClassType)
    return found


_CLASSES: dict[Type, str] = {
    **{simple_type(name): name for name in ("bool", "complex", "float", "int", "str")},
    TENSOR: "torch.Tensor", DEVICE: "torch.device", GENERATOR: "torch.Generator",
}  # fmt: skip
_PLAIN_ANNOTATIONS = {**_CLASSES, NONE: "None", NUMBER: "int | float | complex"}
_TESTABLE = {**_CLASSES, simple_type("list"): "list", simple_type("tuple"): "tuple"}


HANDLES = {"Future": "futures::Future", "Await": "futures::Awaitable"}
"""The helpers that stand for calls that run later."""
_CONTAINERS: dict[type[Type], str] = {ListType: "list", DictType: "dict", TupleType: "tuple"}


def shown_type(program: Program, type_: Type) -> ast.expr:
    """Annotate a type. An interface is a protocol; what Python cannot say is ``Any``."""
    if type_ in _PLAIN_ANNOTATIONS:
        return syntax.form(_PLAIN_ANNOTATIONS[type_])
    match type_:
        case (
            TupleType(qualified_name=str())
            | EnumType()
            | InterfaceType()
            | ClassType(is_native=False)
        ):
            return program.reference(type_)
    parts = [shown_type(program, part) for part in type_.parts()]
    if not parts and isinstance(type_, TupleType):
        return syntax.form("tuple[()]")
    if not parts:
        return syntax.form("Any")
    if isinstance(type_, OptionalType):
        return any_of([*parts, syntax.literal(None)])
    if isinstance(type_, UnionType):
        return any_of(parts)
    if isinstance(type_, HandleType) and type_.kind in HANDLES:
        return syntax.subscript(syntax.helper(HANDLES[type_.kind]), *parts)
    base = _CONTAINERS.get(type(type_))
    return syntax.form("Any") if base is None else syntax.subscript(syntax.form(base), *parts)


def any_of(alternatives: Sequence[ast.expr]) -> ast.expr:
    """Return ``int | str | None``, with None last, each once."""
    distinct = {ast.dump(one): one for one in alternatives}
    none = distinct.pop(ast.dump(syntax.literal(None)), None)
    ordered = [*distinct.values(), *([] if none is None else [none])]
    if not ordered:
        return syntax.form("Any")
    return reduce(lambda one, two: ast.BinOp(one, ast.BitOr(), two), ordered)


def type_test(program: Program, subject: ast.expr, types: Sequence[Type], static: Type) -> ast.expr:
    """Test whether ``subject``, whose static type is ``static``, is of one of ``types``."""
    flat: dict[Type, None] = {}
    for type_ in types:
        flat.update(dict.fromkeys(flat_members(type_) or (type_,)))
    if len(flat) > 1 and not syntax.is_atom(subject):
        raise UnsupportedError("isinstance of a computed value and several types")
    tests = [_test(program, subject, type_, static) for type_ in flat]
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)


def _test(program: Program, subject: ast.expr, type_: Type, static: Type) -> ast.expr:
    if type_ == NONE:
        return syntax.form("_0 is None", subject)
    if type_ == INT and not {BOOL, ANY, NUMBER}.isdisjoint(flat_members(static) or (static,)):
        # A bool is an int in Python only.
        return syntax.form("type(_0) is int", subject)
    return syntax.form("isinstance(_0, _1)", subject, _class(program, type_, static))


def _class(program: Program, type_: Type, static: Type) -> ast.expr:
    if type_ in _TESTABLE:
        return syntax.form(_TESTABLE[type_])
    match type_:
        case ClassType(is_native=False) | EnumType() | TupleType(qualified_name=str()):
            return program.reference(type_)
        case ListType() | DictType() | TupleType() if _only_one(type_, static):
            return syntax.builtin(_CONTAINERS[type(type_)])
    needed = "needs element types, which Python's containers lack"
    raise UnsupportedError(f"isinstance(..., {annotation(type_)}) {needed}")


def _only_one(type_: Type, static: Type) -> bool:
    """Return whether the static type leaves one container of this kind, which is asked for."""
    if not isinstance(static, UnionType | OptionalType | type(type_)):
        return False
    members = flat_members(static) or (static,)
    return [member for member in members if isinstance(member, type(type_))] == [type_]
