"""Conditions: what is known of them beforehand, and what they tell of a variable's type."""

from __future__ import annotations

import ast
from typing import NamedTuple

from tsarchive.ir.subtyping import flat_members, is_subtype, union_of
from tsarchive.ir.types import ANY, BOOL, NONE, OptionalType, Type, UnionType

from .calls import positional
from .expressions import Expressions, decide_isinstance
from .references import Typed


class Condition(NamedTuple):
    """``known`` is set where only one branch can be taken; inside the branches the variable
    ``name`` has the narrower types ``when_true`` and ``when_false`` (None: no narrower)."""

    value: Typed
    known: bool | None = None
    name: str | None = None
    when_true: Type | None = None
    when_false: Type | None = None

    def inverted(self, value: Typed) -> Condition:
        known = None if self.known is None else not self.known
        return Condition(value, known, self.name, self.when_false, self.when_true)


class Conditions(Expressions):
    def condition(self, node: ast.expr) -> Condition:
        match node:
            case ast.Constant(bool() as known):
                return Condition(self.constant(known, BOOL), known)
            case ast.UnaryOp(ast.Not(), operand):
                inner = self.condition(operand)
                if inner.known is not None:
                    return inner.inverted(self.constant(not inner.known, BOOL))
                negated = self.operator_value("aten::__not__", positional(inner.value), node)
                return inner.inverted(negated)
            case ast.Call(ast.Name("isinstance"), [subject, _]) if not node.keywords:
                return self._instance_condition(node, subject)
            case ast.Compare(subject, [ast.Is() | ast.IsNot() as sign], [ast.Constant(None)]):
                return self._none_condition(node, subject, isinstance(sign, ast.Is))
        given = self.as_condition(self.value(node), node)
        is_scripting = given.value.node.kind == "aten::is_scripting"
        return Condition(given, True if is_scripting else None)

    def _instance_condition(self, node: ast.Call, subject: ast.expr) -> Condition:
        types = self.instance_types(node.args[1])
        given = self.value(subject)
        known = decide_isinstance(given.type, types)
        made = self.check_instance(given, types)
        if not isinstance(subject, ast.Name):
            return Condition(made, known)
        when_true, when_false = narrowed(given.type, types)
        return Condition(made, known, subject.id, when_true, when_false)

    def _none_condition(self, node: ast.Compare, subject: ast.expr, is_none: bool) -> Condition:
        given = self.value(subject)
        known = none_status(given)
        if known is not None:
            answer = known if is_none else not known
            return Condition(self.constant(answer, BOOL), answer)
        kind = "aten::__is__" if is_none else "aten::__isnot__"
        made = self.operator_value(kind, positional(given, self.none()), node)
        if not isinstance(subject, ast.Name):
            return Condition(made)
        rest = union_of(member for member in flat_members(given.type) if member != NONE)
        found = Condition(made, None, subject.id, None, rest)
        return found if is_none else found.inverted(made)


def none_status(given: Typed) -> bool | None:
    """True where a value is always None, False where it never is."""
    if given.type == NONE or (
        given.value.node.is_constant and given.value.node.attributes["value"] is None
    ):
        return True
    is_open = isinstance(given.type, OptionalType | UnionType) or given.type == ANY
    return None if is_open and is_subtype(NONE, given.type) else False


def narrowed(actual: Type, types: tuple[Type, ...]) -> tuple[Type | None, Type | None]:
    """The type of a value after an isinstance check that held, and after one that did not."""
    if actual == ANY:
        return union_of(types), None
    true: list[Type] = []
    false: list[Type] = []
    for member in flat_members(actual):
        found = [_smaller(member, type_) for type_ in types]
        matching = [type_ for type_ in found if type_ is not None]
        if matching:
            true += matching
        else:
            false.append(member)
    return union_of(true) if true else None, union_of(false) if false else None


def _smaller(member: Type, type_: Type) -> Type | None:
    if is_subtype(member, type_):
        return member
    return type_ if is_subtype(type_, member) else None
