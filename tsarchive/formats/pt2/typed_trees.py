"""Nested arguments and results as types and nodes of a program graph.

Trees become TorchScript types. A list or dict whose items are of several types holds ``Any``; a
deque is a list, every mapping a dict, a registered object a tuple of its flattened items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.graph import Value
from tsarchive.ir.names import to_type_name, untaken_name
from tsarchive.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    STRING,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
)

from .building import Body
from .pytrees import MAPPINGS, Key, Kind, Tree

_KEY_TYPES = {str: STRING, int: INT, float: FLOAT, bool: BOOL}
_LISTS = frozenset({Kind.LIST, Kind.DEQUE})


@dataclass(frozen=True, slots=True)
class TypedTree:
    """A tree with the type of each of its nodes."""

    tree: Tree
    type: Type
    children: tuple[TypedTree, ...] = ()

    def places(self, place: str) -> Iterator[tuple[str, TypedTree]]:
        """Yield each child with its place in a tree that stands at ``place``."""
        for (step, _), child in zip(self.tree.places(), self.children, strict=True):
            yield place + step, child


class NamedTuples:
    """The named tuple types of one program: one for each name and types of fields."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...], tuple[Type, ...]], TupleType] = {}
        self._taken: set[str] = set()

    def type_of(self, tree: Tree, elements: tuple[Type, ...]) -> TupleType:
        name = to_type_name(tree.name or "")
        key = name, tree.fields, elements
        found = self._known.get(key)
        if found is None:
            fields = tree.fields or tuple(f"field_{i}" for i in range(len(elements)))
            qualified = untaken_name(f"__torch__.{name}", self._taken)
            found = self._known[key] = TupleType(elements, qualified, fields)
        return found

    @property
    def names(self) -> frozenset[str]:
        """The qualified names in use."""
        return frozenset(self._taken)

    def find(self, qualified_name: str) -> TupleType | None:
        """Return the type of that name; None when there is none."""
        types = self._known.values()
        return next((type_ for type_ in types if type_.qualified_name == qualified_name), None)


def typed_tree(tree: Tree, leaves: Iterator[Type], named: NamedTuples) -> TypedTree:
    """Return the tree with types; ``leaves`` are the types of its leaves in order.

    Raises UnsupportedError for a dict that TorchScript has no type for.
    """
    if tree.kind is Kind.LEAF:
        return TypedTree(tree, next(leaves))
    children = tuple([typed_tree(child, leaves, named) for child in tree.children])
    types = tuple([child.type for child in children])
    return TypedTree(tree, _type_of(tree, types, named), children)


def _type_of(tree: Tree, types: tuple[Type, ...], named: NamedTuples) -> Type:
    if tree.kind in _LISTS:
        return ListType(common_type(types))
    if tree.kind in MAPPINGS:
        return DictType(_key_type(tree.keys), common_type(types))
    if tree.kind is Kind.NAMED_TUPLE:
        return named.type_of(tree, types)
    return TupleType(types)


def _key_type(keys: Sequence[Key]) -> Type:
    kinds = {type(key) for key in keys} or {str}
    found = _KEY_TYPES.get(kinds.pop())
    if kinds or found is None:
        raise UnsupportedError("a dict among arguments or results has keys of several types")
    return found


def common_type(types: Iterable[Type]) -> Type:
    """Return the type of the items of a list or dict."""
    found = dict.fromkeys(types)
    has_none = NONE in found
    found.pop(NONE, None)
    if len(found) > 1:
        return ANY
    type_ = next(iter(found), TENSOR)
    if has_none and type_ != ANY and not isinstance(type_, OptionalType):
        return OptionalType(type_)
    return type_


def unpack(body: Body, value: Value, typed: TypedTree) -> Iterator[Value]:
    """Append nodes that unpack a value; yield its leaves in order."""
    if value.type != typed.type and typed.type != NONE:
        value = body.append("prim::unchecked_cast", [value], typed.type).output
    if typed.tree.kind is Kind.LEAF:
        yield value
        return
    for part, child in zip(_parts(body, value, typed), typed.children, strict=True):
        yield from unpack(body, part, child)


def _parts(body: Body, value: Value, typed: TypedTree) -> Sequence[Value]:
    if not typed.children:
        return ()
    if typed.tree.kind in _LISTS:
        return body.unpacked(value, len(typed.children))
    if isinstance(typed.type, DictType):
        keys, type_ = typed.tree.keys, typed.type.key
        return [body.value("aten::__getitem__", value, body.constant(key, type_)) for key in keys]
    types = [child.type for child in typed.children]
    return body.append("prim::TupleUnpack", [value], *types).outputs


def build(body: Body, typed: TypedTree, leaves: Iterator[Value]) -> Value:
    """Build a value from these leaves. Raises FormatError if it is not of the declared type."""
    if typed.tree.kind is Kind.LEAF:
        return next(leaves)
    parts = [build(body, child, leaves) for child in typed.children]
    if isinstance(typed.type, ListType):
        return body.list_of(typed.type.element, parts)
    if isinstance(typed.type, DictType):
        key_type = typed.type.key
        keys = [body.constant(key, key_type) for key in typed.tree.keys]
        pairs = [value for pair in zip(keys, parts, strict=True) for value in pair]
        return body.append("prim::DictConstruct", pairs, typed.type).output
    for part, child in zip(parts, typed.children, strict=True):
        if part.type != child.type:
            raise FormatError("a result is not of the type that its place says")
    return body.append("prim::TupleConstruct", parts, typed.type).output
