"""Conditions: which are decided statically, and how they narrow the type of a variable."""

from __future__ import annotations

import ast
from typing import NamedTuple

from tsarchive.ir.subtyping import flat_members, is_subtype, union_of
from tsarchive.ir.types import ANY, NONE, UNKNOWN, OptionalType, Type, UnionType

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


def decided_by_literal(test: ast.expr) -> bool | None:
    """Return what a literal, or ``not`` before one, decides."""
    negations = 0
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, negations = test.operand, negations + 1
    match test:
        case ast.Constant(bool() as value):
            return value != bool(negations % 2)
    return None


def decide_isinstance(actual: Type, types: tuple[Type, ...]) -> bool | None:
    """Return the answer to an isinstance check where the static type gives one."""
    if actual is UNKNOWN or UNKNOWN in types:
        return None
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


def none_status(given: Typed) -> bool | None:
    """True where a value is always None, False where it never is."""
    if given.type == NONE or (
        given.value.node.is_constant and given.value.node.attributes["value"] is None
    ):
        return True
    is_open = isinstance(given.type, OptionalType | UnionType) or given.type == ANY
    if given.type is UNKNOWN:
        return None
    return None if is_open and is_subtype(NONE, given.type) else False


def narrowed(actual: Type, types: tuple[Type, ...]) -> tuple[Type | None, Type | None]:
    """Return the type of a value after an isinstance check that holds, and after one that fails."""
    if actual == ANY or actual is UNKNOWN:
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
