"""List and dict literals: their types with and without a hint."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tsarchive.ir.subtyping import flat_members, is_subtype, unify_all
from tsarchive.ir.type_parser import DICT_KEYS
from tsarchive.ir.types import STRING, TENSOR, DictType, ListType, Type

from .calls import Calls
from .environment import shown
from .references import Typed, typed


def list_hint(hint: Type | None, elements: Sequence[Type]) -> ListType | None:
    """The list type that a literal under the annotation ``hint`` is of."""
    lists = [member for member in _members(hint) if isinstance(member, ListType)]
    for member in lists:
        if all(is_subtype(element, member.element) for element in elements):
            return member
    return lists[0] if lists else None


def dict_hint(hint: Type | None, values: Sequence[Type]) -> DictType | None:
    """The dict type that a literal under the annotation ``hint`` is of."""
    dicts = [member for member in _members(hint) if isinstance(member, DictType)]
    for member in dicts:
        if all(is_subtype(value, member.value) for value in values):
            return member
    return dicts[0] if dicts else None


def _members(hint: Type | None) -> tuple[Type, ...]:
    return () if hint is None else flat_members(hint)


class Literals(Calls):
    def list_literal(self, node: ast.List, elements: Sequence[Typed], hint: Type | None) -> Typed:
        types = [element.type for element in elements]
        wanted = list_hint(hint, types)
        values = [element.value for element in elements]
        if wanted is None:
            element = unify_all(types, or_union=True) if types else TENSOR
            assert element is not None
            return self.list_of(element, values)._replace(is_empty_list=not types)
        for type_ in types:
            self._check(node, type_, wanted.element, "an element")
        return self.list_of(wanted.element, values)

    def dict_literal(
        self, node: ast.Dict, keys: Sequence[Typed], values: Sequence[Typed], hint: Type | None
    ) -> Typed:
        if keys and keys[0].type not in DICT_KEYS:
            raise self.error(node, f"a dict cannot have keys of type {shown(keys[0].type)}")
        types = [value.type for value in values]
        type_ = dict_hint(hint, types) or self._inferred_dict(keys, types)
        for key, value in zip(keys, values, strict=True):
            self._check(node, key.type, type_.key, "a key")
            self._check(node, value.type, type_.value, "a value")
        inputs = [part.value for pair in zip(keys, values, strict=True) for part in pair]
        return typed(self.append("prim::DictConstruct", inputs, self.checked(type_)).output)

    def _inferred_dict(self, keys: Sequence[Typed], values: Sequence[Type]) -> DictType:
        if not keys:
            return DictType(STRING, TENSOR)
        value = unify_all(values, or_union=True)
        assert value is not None
        return DictType(keys[0].type, value)

    def _check(self, node: ast.AST, actual: Type, wanted: Type, what: str) -> None:
        if not is_subtype(actual, wanted):
            message = f"{what} of type {shown(actual)} stands where {shown(wanted)} is expected"
            raise self.error(node, message)
