"""Alias analysis: values of a graph that may share memory, as far as dead code depends on it.

Every mutable value points to places. A place that the graph does not own (an input, an attribute,
an element of a container) is ``OUTSIDE``: whatever is written there may be seen by others. The
rules are those of torch's alias analysis, without its distinction of places by type.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Set
from typing import Any, Final, NamedTuple

from tsarchive.ir.classes import ClassType, InterfaceType
from tsarchive.ir.graph import Block, Node, Value, carried_values, nested_blocks
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import (
    ANY,
    STORAGE,
    TENSOR,
    DictType,
    HandleType,
    ListType,
    SimpleType,
    Type,
    VarType,
)
from tsarchive.operators.effects import COPIES_LISTS, RUNNING_STATISTICS, WITH_STATISTICS
from tsarchive.run.checks import may_write_unsaid, registered_schemas


class _Outside:
    """The type of ``OUTSIDE``."""

    def __repr__(self) -> str:
        return "OUTSIDE"


OUTSIDE: Final = _Outside()
Place = Value | _Outside
_NOWHERE: Final[Set[Place]] = frozenset()

_MUTABLE: Final = frozenset({TENSOR, ANY, STORAGE})
_ANY_MUTABLE = (ListType, DictType, ClassType, InterfaceType, HandleType, VarType)


def _unknown(call: Node) -> bool | None:
    return None


class Aliases:
    """The places that each value may refer to, and the places that each node writes to.

    ``kept`` are the nodes that count; None stands for all. ``passing`` are operators whose result
    is their first operand. ``gives_new`` returns whether the result of a call is new, if the call
    writes to none of its arguments and keeps none of them; None for other calls.
    """

    def __init__(
        self,
        graph: Block,
        kept: Container[Node] | None = None,
        *,
        passing: Container[Node] = (),
        gives_new: Callable[[Node], bool | None] = _unknown,
    ) -> None:
        self._kept = kept
        self._passing = passing
        self._gives_new = gives_new
        self._passed: dict[Value, Value] = {}
        self._released: list[Value] = []
        self._targets: dict[Place, set[Place]] = {}
        self._writes: dict[Node, list[Value]] = {}
        self._places: dict[Value, Set[Place]] = {}
        for value in graph.params:
            self._release(value)
        self._block(graph)

    def places(self, value: Value) -> Set[Place]:
        """A value that points nowhere is a place of its own; immutable ones have none."""
        found = self._places.get(value)
        if found is None:
            found = self._places[value] = self._reached(value)
        return found

    def _reached(self, value: Value) -> Set[Place]:
        if not is_mutable(value.type):
            return _NOWHERE
        found: set[Place] = set()
        waiting: list[Place] = [self._passed.get(value, value)]
        seen: set[Place] = set()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            targets = self._targets.get(place) if place is not OUTSIDE else None
            if targets:
                waiting.extend(targets)
            else:
                found.add(place)
        return found

    def written(self, node: Node) -> set[Place]:
        """The places that ``node`` itself may write to, without those of nodes in its blocks."""
        return set().union(*map(self.places, self._writes.get(node, ())))

    def written_tensors(self, node: Node) -> set[Place]:
        """The places of tensors that ``node`` may write to, without those of their containers."""
        tensors = (value for value in self._writes.get(node, ()) if value.type == TENSOR)
        return set().union(*map(self.places, tensors))

    def known_outside(self) -> set[Place]:
        """The places that code outside may hold, or may come to hold when the graph runs."""
        return {OUTSIDE}.union(*map(self.places, self._released))

    def _point(self, value: Value, target: Place) -> None:
        value = self._passed.get(value, value)
        if isinstance(target, Value):
            target = self._passed.get(target, target)
        if is_mutable(value.type) and value is not target:
            self._targets.setdefault(value, set()).add(target)

    def _release(self, value: Value) -> None:
        """From here on others may hold ``value``."""
        self._released.append(value)
        self._point(value, OUTSIDE)

    def _write(self, node: Node, value: Value) -> None:
        if is_mutable(value.type):
            self._writes.setdefault(node, []).append(value)

    def _block(self, block: Block) -> None:
        for node in block.nodes:
            if self._kept is not None and node not in self._kept:
                continue
            rule = _RULES.get(node.kind, Aliases._operator)
            (Aliases._pass_through if node in self._passing else rule)(self, node)

    def _nothing(self, node: Node) -> None:
        """Results are new, or not mutable."""

    def _if(self, node: Node) -> None:
        for block in node.blocks:
            self._block(block)
            for output, value in zip(node.outputs, block.returns, strict=True):
                self._point(output, value)

    def _loop(self, node: Node) -> None:
        for carried in carried_values(node):
            self._point(carried.param, carried.first)
            self._point(carried.param, carried.last)
            self._point(carried.output, carried.last)
            self._point(carried.output, carried.first)
        self._block(node.blocks[0])

    def _extract(self, node: Node) -> None:
        """Items of a container or an object may alias anything."""
        for output in node.outputs:
            self._release(output)

    def _fill(self, node: Node) -> None:
        users = [user for user, _ in node.output.uses if self._kept is None or user in self._kept]
        if len(users) == 1 and users[0].kind in COPIES_LISTS:
            for value in node.inputs:
                self._point(node.output, value)
            return
        for value in node.inputs:
            self._release(value)

    def _pass_on(self, node: Node) -> None:
        self._point(node.output, node.input)

    def _pass_through(self, node: Node) -> None:
        first = node.inputs[0]
        self._passed[node.output] = self._passed.get(first, first)

    def _start(self, node: Node) -> None:
        """A fork or awaitable: its body runs with the inputs at some time."""
        for value in node.inputs:
            self._release(value)
        for block in nested_blocks(node):
            for param in block.params:
                self._release(param)
            self._block(block)

    def _set_attribute(self, node: Node) -> None:
        self._write(node, node.inputs[0])
        self._release(node.inputs[1])

    def _call(self, node: Node) -> None:
        is_new = self._gives_new(node)
        if is_new is not None:
            for value in () if is_new else node.inputs:
                self._point(node.output, value)
            return
        for value in node.inputs:
            self._write(node, value)
            self._release(value)
        self._extract(node)

    def _operator(self, node: Node) -> None:
        roles = None if node.schema is None else _roles_of(node.schema)
        if roles is None:
            self._call(node)
            return
        by_label: dict[str, Value] = {}
        arguments, results = roles
        for value, role in zip(node.inputs, arguments, strict=False):
            for label in role.labels:
                by_label.setdefault(label, value)
            if role.is_write:
                self._write(node, value)
            if role.escapes:
                self._release(value)
        for output, role in zip(node.outputs, results, strict=False):
            if role.escapes:
                self._release(output)
            for label in role.labels & by_label.keys():
                self._point(output, by_label[label])
        if node.kind in WITH_STATISTICS:
            for offset in RUNNING_STATISTICS:
                self._write(node, node.inputs[offset])


_NEW: Final = (
    "prim::CreateObject", "prim::Uninitialized", "prim::Print", "prim::isinstance", "prim::tolist",
)  # fmt: skip
_EXTRACTED: Final = (
    "prim::Constant",  # shared by all calls
    "prim::GetAttr", "prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice",
    "prim::ListUnpack", "prim::ModuleContainerIndex", "aten::wait", "prim::awaitable_wait",
)  # fmt: skip
_FILLED: Final = ("prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct")
_CALLED: Final = ("prim::CallFunction", "prim::CallMethod", "prim::Enter", "prim::Exit")
_RULES: dict[str, Callable[[Aliases, Node], None]] = {
    **dict.fromkeys(_NEW, Aliases._nothing),
    **dict.fromkeys(_EXTRACTED, Aliases._extract),
    **dict.fromkeys(_FILLED, Aliases._fill),
    **dict.fromkeys(_CALLED, Aliases._call),
    **dict.fromkeys(("prim::fork", "prim::awaitable"), Aliases._start),
    "prim::If": Aliases._if,
    "prim::Loop": Aliases._loop,
    "prim::unchecked_cast": Aliases._pass_on,
    "prim::SetAttr": Aliases._set_attribute,
}


def is_mutable(type_: Type) -> bool:
    """Return whether a value of this type can change, or hold a value that can."""
    if isinstance(type_, SimpleType):
        return type_ in _MUTABLE
    return isinstance(type_, _ANY_MUTABLE) or any(map(is_mutable, type_.parts()))


class _Role(NamedTuple):
    """The effect of an operator on one argument or result.

    ``labels`` are shared by those that may be one memory, ``is_write`` marks what is written to,
    ``escapes`` what may be held elsewhere or come from there.
    """

    labels: frozenset[str] = frozenset()
    is_write: bool = False
    escapes: bool = False


_Roles = tuple[tuple[_Role, ...], tuple[_Role, ...]]
"""Those of arguments and of results."""


def _role(argument: Any) -> _Role:
    info = argument.alias_info
    if info is None:
        return _Role()
    if not info.before_set and not info.after_set:
        # The annotation is about the elements of a list. They may be anywhere, but torch takes a
        # write to them for one to the list.
        return _Role(is_write=info.is_write, escapes=not info.is_write)
    is_wild = "*" in info.before_set | info.after_set
    return _Role(frozenset(info.before_set - {"*"}), info.is_write, is_wild)


_known_roles: dict[str, tuple[tuple[Any, ...], _Roles | None]] = {}


def _roles_of(schema: FunctionSchema) -> _Roles | None:
    """Return the alias annotations of a registered operator.

    None when nothing is known: the operator may write to every argument.
    """
    name = schema.full_name
    registered = registered_schemas(schema.name)
    known = _known_roles.get(name)
    if known is None or known[0] is not registered:
        roles = None if may_write_unsaid(name) else _annotated_roles(schema, registered)
        known = _known_roles[name] = registered, roles
    return known[1]


def _annotated_roles(schema: FunctionSchema, registered: tuple[Any, ...]) -> _Roles:
    for found in registered:
        if found.overload_name == schema.overload:
            return tuple(map(_role, found.arguments)), tuple(map(_role, found.returns))
    # Functions of TorchScript's own library write nothing, and may return what they are given;
    # operators that torch does not have say in their schemas what they write to.
    passed_on = _Role(frozenset("a"))
    taken = tuple(_Role(frozenset("a"), argument.is_write) for argument in schema.arguments)
    return taken, (passed_on,) * len(schema.returns)
