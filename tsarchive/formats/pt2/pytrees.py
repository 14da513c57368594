"""Tree specifications of torch's pytrees: the nesting of a program's arguments and results.

The text is ``[1, {"type": ..., "context": ..., "children_spec": [...]}]``. torch imports modules
that such a text names; here names stay names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, NoReturn

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.strict_json import parse_text

from .schema import NamedTupleDef

# Deeper than any real arguments; only a text made to exhaust the stack has more.
MAX_DEPTH = 100
PROTOCOL = 1


class Kind(Enum):
    """The kind of a tree node; the value is its name in errors."""

    LEAF = "a value"
    TUPLE = "a tuple"
    LIST = "a list"
    DICT = "a dict"
    ORDERED_DICT = "an OrderedDict"
    DEFAULT_DICT = "a defaultdict"
    NAMED_TUPLE = "a named tuple"
    DEQUE = "a deque"
    REGISTERED = "an object"


MAPPINGS = frozenset({Kind.DICT, Kind.ORDERED_DICT, Kind.DEFAULT_DICT})
Key = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree; ``children`` are in flattened order.

    ``keys`` are those of a mapping; ``fields`` the names of a named tuple; ``name`` is the name
    under which its class, or that of a registered object, was serialized; ``context`` is the text
    of a registered object, the maximum length of a deque, or the name of a default factory.
    """

    kind: Kind
    children: tuple[Tree, ...] = ()
    keys: tuple[Key, ...] = ()
    fields: tuple[str, ...] = ()
    name: str | None = None
    context: Any = None

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        if self.kind is Kind.LEAF:
            return 1
        return sum(child.leaves for child in self.children)

    def places(self) -> Iterator[tuple[str, Tree]]:
        """Yield each child with its accessor, such as ``['key']``, ``[0]`` or ``.field``."""
        if self.kind in MAPPINGS:
            steps = [f"[{key!r}]" for key in self.keys]
        elif self.kind is Kind.NAMED_TUPLE and self.fields:
            steps = [f".{field}" for field in self.fields]
        else:
            steps = [f"[{position}]" for position in range(len(self.children))]
        return zip(steps, self.children, strict=True)

    def leaf_places(self, place: str) -> Iterator[str]:
        """Yield the accessors of all leaves, in order, of a tree that stands at ``place``."""
        if self.kind is Kind.LEAF:
            yield place
        for step, child in self.places():
            yield from child.leaf_places(place + step)


LEAF = Tree(Kind.LEAF)

_KINDS = {
    "builtins.tuple": Kind.TUPLE,
    "builtins.list": Kind.LIST,
    "builtins.dict": Kind.DICT,
    "collections.OrderedDict": Kind.ORDERED_DICT,
    "collections.defaultdict": Kind.DEFAULT_DICT,
    "collections.namedtuple": Kind.NAMED_TUPLE,
    "collections.deque": Kind.DEQUE,
    # torch treats these like their base classes.
    "torch.Size": Kind.TUPLE,
    "torch.fx.immutable_collections.immutable_list": Kind.LIST,
    "torch.fx.immutable_collections.immutable_dict": Kind.DICT,
}

FACTORIES = frozenset({"list", "dict", "tuple", "set", "int", "float", "bool", "str"})


def read_tree(text: str, named_tuples: Mapping[str, NamedTupleDef] = MappingProxyType({})) -> Tree:
    """Parse a tree specification; ``named_tuples`` are the fields of those it names.

    Raises FormatError where the text breaks a rule, UnsupportedError for keys of dicts other than
    strings and numbers.
    """
    match parse_text(text, "", "a tree specification"):
        case [int(protocol), dict(node)] if protocol == PROTOCOL:
            return _Reader(named_tuples).tree(node, 0)
        case [int(protocol), _] if protocol != PROTOCOL:
            message = f"a tree specification has protocol {protocol}; {PROTOCOL} is known"
            raise UnsupportedError(message)
    raise FormatError("a tree specification is malformed")


class _Reader:
    def __init__(self, named_tuples: Mapping[str, NamedTupleDef]) -> None:
        self._named_tuples = named_tuples

    def tree(self, node: Any, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise FormatError("a tree specification is nested too deeply", limit=MAX_DEPTH)
        match node:
            case {"type": None, "children_spec": []}:
                return LEAF
            case {"type": str(name), "context": context, "children_spec": list(inner)}:
                children = tuple([self.tree(child, depth + 1) for child in inner])
                return self._node(name, context, children)
        self._fail("a node is malformed")

    def _fail(self, message: str) -> NoReturn:
        raise FormatError(f"a tree specification: {message}")

    def _node(self, name: str, context: Any, children: tuple[Tree, ...]) -> Tree:
        kind = _KINDS.get(name)
        if kind is None:
            return Tree(Kind.REGISTERED, children, name=name, context=context)
        if kind in (Kind.TUPLE, Kind.LIST):
            return Tree(kind, children)
        if kind is Kind.NAMED_TUPLE:
            return self._named_tuple(context, children)
        value = self._value(context)
        if kind is Kind.DEQUE:
            if value is not None and (type(value) is not int or value < len(children)):
                self._fail("the greatest length of a deque is malformed")
            return Tree(Kind.DEQUE, children, context=value)
        factory = None
        if kind is Kind.DEFAULT_DICT:
            factory, value = self._default(value)
        return Tree(kind, children, keys=self._keys(value, children), context=factory)

    def _value(self, context: Any) -> Any:
        """Return a context, which is JSON as text, or a value of the surrounding JSON."""
        if isinstance(context, str):
            return parse_text(context, "", "the context of a tree specification")
        return context

    def _keys(self, value: Any, children: tuple[Tree, ...]) -> tuple[Key, ...]:
        if not isinstance(value, list) or len(value) != len(children):
            self._fail(f"a dict of {len(children)} values has not as many keys")
        for key in value:
            if isinstance(key, dict | list):
                raise UnsupportedError(
                    f"a dict among arguments or results has the key {str(key)[:100]}, "
                    "which is no string or number"
                )
        if len(set(value)) != len(value):
            self._fail("a dict has a key twice")
        return tuple(value)

    def _default(self, value: Any) -> tuple[str | None, Any]:
        """Return the default factory of a defaultdict, by name, and the keys."""
        match value:
            case {
                "default_factory_module": "builtins",
                "default_factory_name": str(factory),
                "dict_context": keys,
            } if factory in FACTORIES:
                return factory, keys
            case {"default_factory_module": "builtins", "default_factory_name": "NoneType"}:
                return None, value.get("dict_context")
            case {"default_factory_name": factory}:
                raise UnsupportedError(
                    f"a defaultdict has the default factory {str(factory)[:100]}, "
                    "which is none of Python's own types"
                )
        self._fail("the context of a defaultdict is malformed")

    def _named_tuple(self, context: Any, children: tuple[Tree, ...]) -> Tree:
        """Return the class by its name; torch 2.1 wrote name and fields as JSON."""
        if isinstance(context, str) and context.startswith("{"):
            context = self._value(context)
        match context:
            case str(name):
                known = self._named_tuples.get(name)
                fields: Any = () if known is None else known.field_names
            case {"class_name": str(name), "fields": list(fields)}:
                pass
            case _:
                self._fail("the context of a named tuple is malformed")
        are_names = all(isinstance(f, str) and f.isascii() and f.isidentifier() for f in fields)
        if fields and (len(fields) != len(children) or not are_names):
            self._fail(f"a named tuple of {len(children)} values has other fields")
        if len(set(fields)) != len(fields):
            self._fail("a named tuple has a field twice")
        return Tree(Kind.NAMED_TUPLE, children, fields=tuple(fields), name=name)
