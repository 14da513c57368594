"""Expressions: names, literals, operators and calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import ClassVar

from tsarchive.errors import SourceError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.subtyping import flat_members, is_subtype
from tsarchive.ir.type_parser import type_of_expression
from tsarchive.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    STRING,
    TENSOR,
    HandleType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
)
from tsarchive.ir.values import Device, GeneratorSeed

from .arithmetic import BINARY, COMPARISONS, UNARY, number
from .attributes import Attributes
from .builtins import BUILTINS, Builtins
from .calls import Arguments, positional
from .casts import is_device
from .environment import shorten, shown
from .grammar import OF_PYTHON
from .references import (
    Builtin,
    Closure,
    Constructor,
    FunctionReference,
    MethodReference,
    Namespace,
    OperatorNamespace,
    OperatorReference,
    Reference,
    Special,
    ToList,
    Typed,
    TypeReference,
    typed,
)
from .syntax import string_value

_ROOTS: dict[str, Reference] = {
    **{special.value: special for special in Special},
    **{name: Builtin(name) for name in BUILTINS},
    "torch": OperatorNamespace("aten"),
    "__torch__": Namespace("__torch__"),
}
_NUMBER_TYPES: dict[type, Type] = {int: INT, float: FLOAT, complex: COMPLEX}
ExpressionHandler = Callable[..., Reference]
# A function and its arguments.
_MOST_FORKED = 256
_CLOSURE_TYPES = {Special.FORK: "Future", Special.AWAITABLE: "Await"}


class Expressions(Attributes, Builtins):
    """Compiles expressions; ``expression_handlers`` says how."""

    expression_handlers: ClassVar[dict[type[ast.expr], ExpressionHandler]]

    def expression(self, node: ast.expr, hint: Type | None = None) -> Reference:
        """What an expression denotes; ``hint`` is the type that literals should take."""
        handler = self.expression_handlers.get(type(node))
        if handler is None:
            self.refuse(node, f"a {type(node).__name__}")
        around, self.position = self.position, node
        found = handler(self, node, hint)
        self.position = around
        return found

    def value(self, node: ast.expr, hint: Type | None = None) -> Typed:
        found = self.expression(node, hint)
        return found if type(found) is Typed else self.as_value(found, node)

    def type_of(self, node: ast.expr) -> Type:
        """The type that an annotation writes."""
        try:
            return self.importer.sizes.checked(type_of_expression(node, self.importer.resolve_type))
        except SourceError as error:
            raise self.locate(error, node) from error.__cause__

    def _name(self, node: ast.Name, hint: Type | None) -> Reference:
        found = self.scope.find(node.id) or _ROOTS.get(node.id)
        if found is not None:
            return found
        literal = self._number(node)
        if literal is not None:
            return literal
        reason = self.scope.why_unusable(node.id)
        raise self.error(node, reason or f"{node.id!r} is not defined here")

    def _attribute(self, node: ast.Attribute, hint: Type | None) -> Reference:
        return self.attribute(self.expression(node.value), node.attr, node)

    def _constant(self, node: ast.Constant, hint: Type | None) -> Reference:
        kind = type(node.value)
        if kind is bool:
            return self.constant(node.value, BOOL)
        if kind is str:
            return self.constant(string_value(node, self.text), STRING)
        if node.value is None:
            return self.none()
        found = self._number(node)
        if found is None:
            self.refuse(node, f"a {type(node.value).__name__}")
        return found

    def _number(self, node: ast.expr) -> Typed | None:
        try:
            found = number(node)
        except OverflowError:
            raise self.error(node, "an integer does not fit 64 bits") from None
        return None if found is None else self.constant(found, _NUMBER_TYPES[type(found)])

    def _tuple(self, node: ast.Tuple, hint: Type | None) -> Reference:
        return self.tuple_of([self.value(element) for element in node.elts])

    def _list(self, node: ast.List, hint: Type | None) -> Reference:
        return self.list_literal(node, [self.value(element) for element in node.elts], hint)

    def _dict(self, node: ast.Dict, hint: Type | None) -> Reference:
        keys, values = [], []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.refuse(node, "a dict with **")
            keys.append(self.value(key))
            values.append(self.value(value))
        return self.dict_literal(node, keys, values, hint)

    def _unary(self, node: ast.UnaryOp, hint: Type | None) -> Reference:
        kind = UNARY.get(type(node.op))
        if kind is None:
            self.refuse(node, "this sign")
        literal = self._number(node)
        if literal is not None:
            return literal
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            operand = self.as_condition(operand, node)
        return self.call_operator(kind, positional(operand), node)

    def _binary(self, node: ast.BinOp, hint: Type | None) -> Reference:
        literal = self._number(node)
        if literal is not None:
            return literal
        sides = positional(self.value(node.left), self.value(node.right))
        if isinstance(node.op, ast.Mod) and sides.positional[0].type == STRING:
            return self.call_operator("aten::percentFormat", sides, node)
        return self.call_operator(BINARY[type(node.op)], sides, node)

    def _compare(self, node: ast.Compare, hint: Type | None) -> Reference:
        if len(node.ops) != 1 or type(node.ops[0]) not in COMPARISONS:
            self.refuse(node, "this comparison")
        sides = [self.value(node.left), self.value(node.comparators[0])]
        if isinstance(node.ops[0], ast.In):
            sides.reverse()
        return self.call_operator(COMPARISONS[type(node.ops[0])], positional(*sides), node)

    def _subscript(self, node: ast.Subscript, hint: Type | None) -> Reference:
        base = self.value(node.value)
        if base.type == TENSOR:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self.tensor_element(base, [self._tensor_index(part) for part in parts], node)
        if not isinstance(node.slice, ast.Slice):
            return self.element(base, self.value(node.slice), node, hint)
        bounds = self._bounds(node.slice)
        if isinstance(base.type, TupleType):
            return self.tuple_slice(base, *(self._bound(bound, node) for bound in bounds))
        return self.slice_of(base, None, bounds, node)

    def _tensor_index(self, node: ast.expr) -> Typed | tuple[Typed | None, ...]:
        return self._bounds(node) if isinstance(node, ast.Slice) else self.value(node)

    def _bounds(self, node: ast.Slice) -> tuple[Typed | None, ...]:
        parts = (node.lower, node.upper, node.step)
        return tuple(None if part is None else self.value(part) for part in parts)

    def _bound(self, bound: Typed | None, node: ast.AST) -> int | None:
        if bound is None:
            return None
        value = bound.value.node.attributes.get("value")
        if type(value) is not int:
            raise self.error(node, "the bounds of a tuple slice must be integer literals")
        return value

    def arguments(self, node: ast.Call) -> Arguments:
        given = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.refuse(argument, "a starred argument")
            given.append(self.value(argument))
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.refuse(node, "an argument with **")
            keywords[keyword.arg] = self.value(keyword.value)
        return Arguments(given, keywords)

    def _call(self, node: ast.Call, hint: Type | None) -> Reference:
        callee = self.expression(node.func)
        if isinstance(callee, Special):
            return self._special(callee, node, hint)
        if isinstance(callee, Constructor):
            return self._new_object(callee, node)
        arguments = self.arguments(node)
        match callee:
            case OperatorReference(kind, target):
                return self._operator(kind, target, arguments, node)
            case FunctionReference(function):
                return self.call_function(function, arguments, node)
            case MethodReference(target, name):
                return self.call_method(target, name, arguments, node)
            case TypeReference(type_):
                return self.construct(type_, arguments, node)
            case Builtin(name):
                return self.call_builtin(name, arguments, node)
            case ToList(target):
                return self._to_list(target, arguments, node, hint)
            case Typed(_, ClassType(is_module=is_module)):
                name = "forward" if is_module else "__call__"
                return self.call_method(callee, name, arguments, node)
        raise self.error(node, f"{shorten(ast.unparse(node.func))!r} cannot be called")

    def _operator(
        self, kind: str, target: Typed | None, arguments: Arguments, node: ast.Call
    ) -> Reference:
        if kind == "aten::device" and len(arguments.positional) == 1:
            constant = arguments.positional[0].value.node.attributes.get("value")
            if isinstance(constant, str) and is_device(constant):
                return self.constant(Device(constant), DEVICE)
        if kind == "aten::Generator":
            seeded = _seeded(arguments)
            if seeded is not None:
                return self.constant(seeded, GENERATOR)
        return self.call_operator(kind, arguments, node, target)

    def _new_object(self, callee: Constructor, node: ast.Call) -> Typed:
        same = len(node.args) == 1 and self.expression(node.args[0]) == TypeReference(callee.type)
        if not same or node.keywords:
            raise self.error(node, "__new__ takes its own class")
        return typed(self.append("prim::CreateObject", (), callee.type).output)

    def _to_list(
        self, target: Typed, arguments: Arguments, node: ast.AST, hint: Type | None
    ) -> Typed:
        if hint is None or arguments.positional or arguments.keywords:
            raise self.error(node, "tolist() needs the type of its result: annotate(T, x.tolist())")
        return typed(self.append("prim::tolist", [target.value], hint).output)

    def _special(self, form: Special, node: ast.Call, hint: Type | None) -> Reference:
        handler = _SPECIAL.get(form)
        if handler is None:
            raise self.error(node, f"{form.value} cannot be called")
        minimum, maximum, method = handler
        if node.keywords or not minimum <= len(node.args) <= maximum:
            raise self.error(node, f"wrong arguments for {form.value}")
        return method(self, node, form)

    def _annotate(self, node: ast.Call, form: Special) -> Typed:
        type_ = self.type_of(node.args[0])
        given = self.value(node.args[1], type_)
        converted = self.convert(given, type_)
        if converted is None:
            raise self.error(node, f"expected {shown(type_)}, but found {shown(given.type)}")
        if converted.type == NONE and isinstance(type_, OptionalType | UnionType):
            # The type of None is worth keeping: it tells what a variable may hold later.
            return self.constant(None, type_)
        return converted

    def _unchecked_cast(self, node: ast.Call, form: Special) -> Typed:
        type_ = self.type_of(node.args[0])
        given = self.value(node.args[1])
        is_repeated = isinstance(node.args[1], ast.Call) and given.type == type_
        if is_repeated and given.value.node.kind == "prim::unchecked_cast":
            return given
        return typed(self.append("prim::unchecked_cast", [given.value], type_).output)

    def _uninitialized(self, node: ast.Call, form: Special) -> Typed:
        type_ = self.type_of(node.args[0])
        return typed(self.append("prim::Uninitialized", (), type_).output)

    def _getattr(self, node: ast.Call, form: Special) -> Reference:
        base = self.expression(node.args[0])
        match node.args[1]:
            case ast.Constant(str(text)) as name:
                if text in OF_PYTHON:
                    self.refuse(node, f"the attribute {text}")
                return self.attribute(base, string_value(name, self.text), node)
        raise self.error(node, "the name given to getattr must be a string literal")

    def _isinstance(self, node: ast.Call, form: Special) -> Typed:
        return self.check_instance(self.value(node.args[0]), self.instance_types(node.args[1]))

    def check_instance(self, given: Typed, types: tuple[Type, ...]) -> Typed:
        known = decide_isinstance(given.type, types)
        if known is not None:
            return self.constant(known, BOOL)
        return typed(self.append("prim::isinstance", [given.value], BOOL, types=types).output)

    def instance_types(self, node: ast.expr) -> tuple[Type, ...]:
        if isinstance(node, ast.Tuple):
            return tuple(t for element in node.elts for t in self.instance_types(element))
        return (self.type_of(node),)

    def _fork(self, node: ast.Call, form: Special) -> Typed:
        closure = self.forked(node, form)
        type_ = HandleType(_CLOSURE_TYPES[form], closure.body.returns[0].type)
        kind = f"prim::{form.value}"
        made = self.append(kind, closure.captured, type_, subgraph=closure.body)
        return typed(made.output)

    def forked(self, node: ast.Call, form: Special) -> Closure:
        """What ``fork(f)`` starts."""
        closure = self.expression(node.args[0])
        if len(node.args) > 1:
            raise self.error(node, f"wrong arguments for {form.value}")
        if not isinstance(closure, Closure):
            raise self.error(node, f"{form.value} takes a function that is defined before it")
        return closure


def decide_isinstance(actual: Type, types: tuple[Type, ...]) -> bool | None:
    """The answer to an isinstance check where the static type gives one."""
    if actual == ANY:
        return True if types == (ANY,) else None
    wanted = tuple(member for type_ in types for member in flat_members(type_))
    members = flat_members(actual)
    if all(any(is_subtype(member, type_) for type_ in wanted) for member in members):
        return True
    for member in members:
        if any(is_subtype(member, type_) or is_subtype(type_, member) for type_ in wanted):
            return None
    return False


def _seeded(arguments: Arguments) -> GeneratorSeed | None:
    """What ``torch.Generator(device="cpu", seed=7)`` makes: torch makes it once, not per call."""
    constants = {
        name: given.value.node.attributes["value"]
        for name, given in arguments.keywords.items()
        if given.value.node.is_constant
    }
    match constants:
        case {"device": str(device), "seed": int(seed)} if is_device(device):
            return GeneratorSeed(device, seed)
    return None


Expressions.expression_handlers = {
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Constant: Expressions._constant,
    ast.Tuple: Expressions._tuple,
    ast.List: Expressions._list,
    ast.Dict: Expressions._dict,
    ast.UnaryOp: Expressions._unary,
    ast.BinOp: Expressions._binary,
    ast.Compare: Expressions._compare,
    ast.Subscript: Expressions._subscript,
    ast.Call: Expressions._call,
}

_SpecialHandler = Callable[[Expressions, ast.Call, Special], Reference]
# For each form the least and largest number of arguments.
_SPECIAL: dict[Special, tuple[int, int, _SpecialHandler]] = {
    Special.ANNOTATE: (2, 2, Expressions._annotate),
    Special.UNCHECKED_CAST: (2, 2, Expressions._unchecked_cast),
    Special.UNINITIALIZED: (1, 1, Expressions._uninitialized),
    Special.GETATTR: (2, 2, Expressions._getattr),
    Special.ISINSTANCE: (2, 2, Expressions._isinstance),
    Special.FORK: (1, _MOST_FORKED, Expressions._fork),
    Special.AWAITABLE: (1, _MOST_FORKED, Expressions._fork),
}
