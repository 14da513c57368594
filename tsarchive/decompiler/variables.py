"""Assigns values to local variables, with the names of the original program where it had some.

Values of one name share a variable where their live ranges allow it. Nodes are numbered in the
order of the text. A value that a loop uses and that was made outside of it is needed until the loop
ends; what only the other branch of an ``if`` uses does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import RETURN, Block, Node, Value, must_be_none
from tsarchive.ir.subtyping import is_subtype
from tsarchive.ir.types import (
    INT,
    NONE,
    STRING,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    Type,
    UnionType,
    VarType,
)
from tsarchive.run.passes.liveness import ALIASES

from .flow import EXITS
from .flow import RETURN as RETURN_STATEMENT
from .iteration import values_of
from .naming import GLOBAL_NAMES, identifier, numbered


def _before_digits(name: str) -> range:
    """Return the lengths of a name without some of the digits at its end, longest first."""
    return range(len(name) - 1, len(name.rstrip("0123456789")) - 1, -1)


class Variables:
    """The local variables of one function. Names of parameters stay as they are.

    ``told`` are those that lines of the program assign to, digits and all.

    Each variable has one of the ``types``, as in TorchScript, and holds no values of others.
    """

    def __init__(
        self, live_ranges: LiveRanges, names: Iterable[str], told: Iterable[str] = ()
    ) -> None:
        self._live_ranges = live_ranges
        self._known = frozenset(names)
        self._told = frozenset(told)
        self._holders: dict[str, Value] = {}
        self.used: set[str] = set()
        self.types: dict[str, Type] = {}
        self.mixed: set[str] = set()
        """Variables that hold values of narrower types than their own as well."""

    def parameter(self, value: Value, name: str) -> str:
        found = next(n for n in numbered(identifier(name)) if n not in self._holders)
        self.hold(found, value)
        return found

    def hold(self, name: str, value: Value) -> None:
        self._holders[name] = value
        self.used.add(name)
        known = self.types.setdefault(name, value.type)
        if _is_wider(value) or value.node.kind == CHOSEN_MODULE:
            self.mixed.add(name)
        if known != value.type:
            self.mixed.add(name)
            self.types[name] = value.type if is_subtype(known, value.type) else known

    def reserve(self, name: str, type_: Type) -> None:
        """Keep a variable for values of a type, which one of its branches may assign first."""
        self.types.setdefault(name, type_)

    def choose(
        self,
        candidate: str,
        type_: Type,
        point: Point,
        *,
        besides: Collection[str] = (),
        wish: str = "",
    ) -> str:
        """Return a variable for a new value at ``point``: ``wish``, or one like ``candidate``.

        It holds nothing that is needed later, and is none of ``besides``.
        """
        if wish and wish not in besides and self._is_free(wish, type_, point):
            return wish
        return next(
            name
            for name in numbered(self._base(candidate))
            if name not in besides
            and name not in GLOBAL_NAMES
            and self._is_free(name, type_, point)
        )

    def new(self, candidate: str) -> str:
        """Return a variable that no other value of the function shares."""
        name = candidate
        while name in self.used:
            name += "_"
        self.used.add(name)
        return name

    def _base(self, candidate: str) -> str:
        """Return the name before it was made unique: ``x1`` where there is an ``x``, too.

        A name of the program may itself end with digits: ``x10`` is ``x1`` where that is one.
        """
        shown = candidate
        if candidate not in self._told:
            shorter = [candidate[:end] for end in _before_digits(candidate)]
            told = (name for name in shorter if name in self._told)
            known = (name for name in shorter[-1:] if name in self._known)
            shown = next(told, next(known, candidate))
        return identifier(shown, private=False)

    def _is_free(self, name: str, type_: Type, point: Point) -> bool:
        known = self.types.get(name, NONE)
        if known != NONE and not is_subtype(type_, known):
            return False
        holder = self._holders.get(name)
        return holder is None or not self._live_ranges.is_needed_after(holder, point)

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Forget what is assigned inside after the branch."""
        outer = dict(self._holders)
        yield
        self._holders = outer


def _is_wider(value: Value) -> bool:
    """Return whether a value is declared as one of a type that has others, too."""
    is_open = isinstance(value.type, OptionalType | UnionType)
    return is_open and value.node.kind in _DECLARING


_DECLARING = frozenset({"prim::DictConstruct", "prim::ListConstruct", "prim::unchecked_cast"})


class Point(NamedTuple):
    """A place in a function: its number, and the blocks around it as (node, number of block)."""

    number: int
    path: tuple[tuple[Node, int], ...]


class LiveRanges:
    """The places of the nodes of one function.

    ``moves`` tells which nodes may be computed later than where they stand, where their result
    is used: what they use is needed until then.
    """

    def __init__(self, graph: Block, moves: Callable[[Node], bool]) -> None:
        self._moves = moves
        self._points: dict[Node, Point] = {}
        self._ends: dict[Node, int] = {}
        self._next = 1
        self._number(graph, ())
        self._needed: dict[Value, tuple[Point, ...]] = {}

    def _number(self, block: Block, path: tuple[tuple[Node, int], ...]) -> None:
        self._place(block.param_node, path)
        for node in block.nodes:
            self._place(node, path)
            for index, inner in enumerate(node.blocks):
                self._number(inner, (*path, (node, index)))
            for value in values_of(node.attributes.get("targets")):
                self._points[value.node] = self._points[node.blocks[0].param_node]
            self._ends[node] = self._next
            self._next += 1
        self._place(block.return_node, path)

    def _place(self, node: Node, path: tuple[tuple[Node, int], ...]) -> None:
        self._points[node] = Point(self._next, path)
        self._next += 1

    def start(self, node: Node) -> Point:
        return self._points[node]

    def end(self, node: Node) -> Point:
        """Return the place behind the blocks of a node."""
        return self._points[node]._replace(number=self._ends[node])

    def is_needed_after(self, value: Value, point: Point) -> bool:
        return any(
            use.number > point.number and not _exclude(use.path, point.path)
            for use in self._uses(value)
        )

    def _uses(self, value: Value) -> tuple[Point, ...]:
        found = self._needed.get(value)
        if found is None:
            home = self._points[value.node].path
            found = tuple(self._outside_loops(use, home) for use in self._used_at(value))
            self._needed[value] = found
        return found

    def _used_at(self, value: Value) -> Iterator[Point]:
        for user, _ in value.uses:
            yield self._points[user]
            if self._moves(user):
                for output in user.outputs:
                    yield from self._uses(output)

    def _outside_loops(self, use: Point, home: tuple[tuple[Node, int], ...]) -> Point:
        """Return where a value is needed last: the end of a loop that does not define it."""
        for depth in range(len(home), len(use.path)):
            node = use.path[depth][0]
            if node.kind == "prim::Loop":
                return self.end(node)
        return use


def _exclude(one: tuple[tuple[Node, int], ...], other: tuple[tuple[Node, int], ...]) -> bool:
    """Return whether control that was at ``other`` cannot come to ``one``, which stands behind it.

    They may lie in different branches of one ``if``, or the branch of ``other`` leaves the loop or
    function that both are in.
    """
    for depth, (node, index) in enumerate(other):
        if one[: depth + 1] != other[: depth + 1] and _leaves(node.blocks[index], one):
            return True
    for (node, index), (other_node, other_index) in zip(one, other, strict=False):
        if node is not other_node:
            return False
        if index != other_index:
            return True
    return False


def _leaves(block: Block, path: tuple[tuple[Node, int], ...]) -> bool:
    """Return whether a block ends with a way out of what holds a path."""
    last = block.nodes[-1] if block.nodes else None
    if last is None or last.kind not in EXITS:
        return False
    loop = last.attributes.get("loop")
    return loop is None or any(node is loop for node, _ in path)


_BUILDERS = frozenset({"prim::TupleConstruct", "prim::ListConstruct", "prim::TupleIndex"})


CHOSEN_MODULE = "prim::ModuleContainerIndex"


def is_vague(value: Value) -> bool:
    """Return whether a list or dict needs a variable, which tells the types of what it may hold.

    Its items do not, and what uses it is neither an operator on such lists nor the end of a
    function. A module that a number or key chooses needs one that tells its interface.
    """
    node, type_ = value.node, value.type
    if node.kind == CHOSEN_MODULE:
        return True
    if node.kind not in ("prim::ListConstruct", "prim::DictConstruct"):
        return False
    if node.inputs and not isinstance(type_.parts()[-1], OptionalType | UnionType):
        return False
    is_plain = type_ in (ListType(TENSOR), DictType(STRING, TENSOR))
    return not is_plain and not all(_tells_type(*use) for use in value.uses)


def _tells_type(user: Node, offset: int) -> bool:
    """Return whether an empty list, or one in which None stands, needs no type for a user."""
    if user.schema is None or offset >= len(user.schema.arguments):
        return user.kind in (RETURN, RETURN_STATEMENT)
    wanted, given = user.schema.arguments[offset].type, user.inputs[offset].node.inputs
    if not isinstance(wanted, ListType) or isinstance(wanted.element, VarType):
        return False
    return not given or user.kind == "aten::index" or any(map(must_be_none, given))


def is_movable(assigned: Container[tuple[Type, str]], node: Node) -> bool:
    """Return whether the value of the node does not depend on when it is computed.

    ``assigned`` holds the attributes that code sets. Tuples and lists count where one user reads
    them; their items must be at hand, too. So do attributes of several types: torch.jit knows only
    of variables that they are not None behind a test.
    """
    if node.kind in ALIASES:
        return True
    if node.kind == "prim::GetAttr":
        owner = node.input.type
        is_fixed = (owner, node.name) not in assigned
        if isinstance(node.output.type, OptionalType | UnionType) and len(node.output.uses) > 1:
            return False
        return is_fixed and isinstance(owner, ClassType) and owner.is_module
    if node.kind in _BUILDERS and not is_vague(node.output):
        return len(node.output.uses) == 1 and node.output.name is None
    if node.kind == "prim::NumToTensor":
        is_converted = all(user.operator == "aten::Int.Tensor" for user, _ in node.output.uses)
        return node.input.type == INT and is_converted
    return False


def dtype_values(nodes: list[Node], takes_dtype: Callable[[Node, int], bool]) -> set[Value]:
    """Return the results of prim::dtype that can stay a torch.dtype: all users take one."""
    made = [node.output for node in nodes if node.kind == "prim::dtype"]
    found = {value for value in made if all(takes_dtype(*use) for use in value.uses)}
    compared = [node.inputs for node in nodes if node.kind in ("aten::eq", "aten::ne")]
    while True:
        mixed = [
            values
            for values in compared
            if any(v not in found and not isinstance(v.constant, int) for v in values)
        ]
        bad = found & set().union(*mixed)
        if not bad:
            return found
        found -= bad
