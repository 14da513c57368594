"""The program graph: typed SSA with nested blocks, the shape of TorchScript's own IR.

Node kinds carry torch's names (``prim::If``, ``aten::add``). Inputs and outputs of control flow:

* ``prim::If``    inputs (condition); two blocks; outputs = what the blocks return
* ``prim::Loop``  inputs (trip count, initial condition, carried...); one block with parameters
                  (counter, carried...) that returns (condition, carried...)
* ``prim::Constant``  attribute ``value``: a Python value, or one of ``values.py``
* ``prim::fork``, ``prim::awaitable``  attribute ``subgraph``: a Block whose parameters match inputs

``carried_values`` pairs the four ends of each value that a loop carries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from tsarchive.errors import ArchiveError, UnsupportedError

from .schema import FunctionSchema
from .source_ranges import Range
from .types import NONE, Type

CONSTANT = "prim::Constant"
RETURN = "prim::Return"
PARAM = "prim::Param"
MAX_TRIP_COUNT = 2**63 - 1
# What a value that is computed has in the place of the content of a constant.
COMPUTED: Final = object()


class Use(NamedTuple):
    """``user`` takes the value as its input number ``offset``."""

    user: Node
    offset: int


@dataclass(eq=False, slots=True)
class Value:
    """One value. ``name`` is its name in the source, without uniquing suffix; None when unnamed."""

    node: Node
    type: Type
    name: str | None = None
    uses: list[Use] = field(default_factory=list)

    @property
    def constant(self) -> Any:
        """The content of a constant, or COMPUTED."""
        return self.node.attributes["value"] if self.node.kind == CONSTANT else COMPUTED

    def __repr__(self) -> str:
        return f"%{self.name or hex(id(self))}"


class Placed(Protocol):
    """Something that knows its range in user source; None when it has no place there."""

    @property
    def range(self) -> Range | None: ...


@dataclass(eq=False, slots=True)
class Node:
    """One operation. ``schema`` is set for operators; ``place`` is its place in user source.

    ``upgrader`` names the function that an operator of an old archive runs in its place, and
    ``stand_in`` is that function, a ``Function``, where it is written in TorchScript.
    ``has_effects`` keeps an operator even where nothing uses its results. ``lost`` are parts of an
    operator that source code cannot express. ``written_arguments`` is the number of arguments in
    the source text of an operator, if more than needed: torch writes a default of the overload that
    it had, and may read back another overload. ``writes_all`` is set where text without the
    defaults would mean another one.

    Open-world lowering sets two more. ``is_written`` tells that the source text calls the operator
    by its name, or as a method. ``refusal`` is why the meaning of the node is not known: what it
    calls may be anything of its name.
    """

    kind: str
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    schema: FunctionSchema | None = None
    place: Placed | None = None
    upgrader: str | None = None
    stand_in: Any = None
    has_effects: bool = False
    lost: Sequence[str] = ()
    written_arguments: int = 0
    writes_all: bool = False
    is_written: bool = False
    refusal: ArchiveError | None = None

    def add_input(self, value: Value) -> None:
        value.uses.append(Use(self, len(self.inputs)))
        self.inputs.append(value)

    def drop_inputs(self) -> None:
        """Remove this node's uses of its inputs, before the node itself is removed."""
        for offset, value in enumerate(self.inputs):
            value.uses.remove(Use(self, offset))
        self.inputs.clear()

    def drop_input(self, offset: int) -> None:
        """Remove one input; those behind it move up."""
        kept = [value for index, value in enumerate(self.inputs) if index != offset]
        self.drop_inputs()
        for value in kept:
            self.add_input(value)

    def add_output(self, type_: Type, name: str | None = None) -> Value:
        value = Value(self, type_, name)
        self.outputs.append(value)
        return value

    def add_block(self) -> Block:
        block = Block()
        self.blocks.append(block)
        return block

    @property
    def range(self) -> Range | None:
        return None if self.place is None else self.place.range

    @property
    def input(self) -> Value:
        return self.inputs[0]

    @property
    def output(self) -> Value:
        return self.outputs[0]

    @property
    def is_constant(self) -> bool:
        return self.kind == CONSTANT

    @property
    def operator(self) -> str:
        """The name of an operator with its overload; "" for other nodes."""
        return self.schema.full_name if self.schema is not None else ""

    @property
    def name(self) -> str:
        """The attribute or method name of GetAttr, SetAttr and CallMethod."""
        return str(self.attributes["name"])


@dataclass(eq=False, slots=True)
class Block:
    """A sequence of nodes with parameters and a return node."""

    param_node: Node = field(default_factory=lambda: Node(PARAM))
    nodes: list[Node] = field(default_factory=list)
    return_node: Node = field(default_factory=lambda: Node(RETURN))

    @property
    def params(self) -> list[Value]:
        return self.param_node.outputs

    @property
    def returns(self) -> list[Value]:
        return self.return_node.inputs

    def add_param(self, type_: Type, name: str | None = None) -> Value:
        return self.param_node.add_output(type_, name)

    def add_return(self, value: Value) -> None:
        self.return_node.add_input(value)

    def append(
        self,
        kind: str,
        inputs: Sequence[Value] = (),
        *,
        place: Placed | None = None,
        schema: FunctionSchema | None = None,
        **attributes: Any,
    ) -> Node:
        """Append a node without outputs; the caller adds outputs and blocks."""
        node = Node(kind, [*inputs], attributes=attributes, schema=schema, place=place)
        for offset, value in enumerate(node.inputs):
            value.uses.append(Use(node, offset))
        self.nodes.append(node)
        return node


def nested_blocks(node: Node) -> list[Block]:
    """Return the blocks of control flow, and the body of a fork or awaitable."""
    subgraph = node.attributes.get("subgraph")
    return [*node.blocks, subgraph] if subgraph is not None else node.blocks


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """``nodes`` and those of their nested blocks, each before what it holds."""
    for node in nodes:
        yield node
        if node.blocks or node.attributes:
            for inner in nested_blocks(node):
                yield from walk(inner.nodes)


def take_apart(block: Block) -> None:
    """Clear a graph: its nodes and values refer to each other, and its memory goes at once."""
    for node in (block.param_node, *block.nodes, block.return_node):
        for inner in nested_blocks(node):
            take_apart(inner)
        node.inputs.clear()
        node.outputs.clear()


class Carried(NamedTuple):
    """One value that a loop carries, at the four places where it has a name."""

    first: Value
    param: Value
    last: Value
    output: Value


# Inputs of a loop before those that it carries: trip count and condition.
_FIRST_CARRIED = 2


def carried_values(loop: Node) -> Iterator[Carried]:
    """Return the values that a loop carries, in the order of its outputs."""
    (body,) = loop.blocks
    rows = zip(
        loop.inputs[_FIRST_CARRIED:], body.params[1:], body.returns[1:], loop.outputs, strict=True
    )
    return map(Carried._make, rows)


def drop_carried(loop: Node, index: int) -> None:
    """Let a loop carry one value less; nothing may use it in the loop or after it."""
    (body,) = loop.blocks
    loop.drop_input(index + _FIRST_CARRIED)
    body.return_node.drop_input(index + 1)
    del loop.outputs[index], body.params[index + 1]


def carried_index(user: Node, offset: int) -> int | None:
    """Return the carried value that starts as input ``offset``; None for other inputs."""
    is_carried = user.kind == "prim::Loop" and offset >= _FIRST_CARRIED
    return offset - _FIRST_CARRIED if is_carried else None


def has_trip_count(loop: Node) -> bool:
    """Return whether a loop has a bound on its number of iterations, as ``for`` loops have."""
    return bool(loop.inputs[0].constant != MAX_TRIP_COUNT)


def is_constant_true(value: Value) -> bool:
    return value.constant is True


def must_be_none(value: Value) -> bool:
    """True when the value can only be None."""
    return value.type == NONE or value.constant is None


def matching_exit(nodes: Sequence[Node], start: int) -> int:
    """Return the position of the Exit that belongs to the Enter at ``start``.

    Raises UnsupportedError where the block ends before it.
    """
    depth = 0
    for position in range(start, len(nodes)):
        depth += nodes[position].kind == "prim::Enter"
        depth -= nodes[position].kind == "prim::Exit"
        if depth == 0:
            return position
    raise UnsupportedError("a with statement has no end in the block where it starts")


_T = TypeVar("_T", bound=Hashable)


def closure(beginnings: Iterable[_T], leads_to: Callable[[_T], Iterable[_T]]) -> set[_T]:
    """Return the beginnings and everything that is reached from them, in any number of steps."""
    reached: set[_T] = set()
    pending = list(beginnings)
    while pending:
        item = pending.pop()
        if item not in reached:
            reached.add(item)
            pending += leads_to(item)
    return reached
