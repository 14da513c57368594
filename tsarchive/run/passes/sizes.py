"""Sizes that traces compute with tensors, as the numbers that they are.

A trace has ``Int(mul(NumToTensor(size(x, 0)), 4))`` where the code had ``x.size(0) * 4``. What does
with ints what an operator does with such tensors is told here, for generated code and for
``tsarchive.optimize``. Generated code has the number where nothing else sees the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final

from tsarchive.ir.graph import RETURN, Block, Node, Value
from tsarchive.ir.types import INT, TENSOR

from .liveness import all_nodes

ValueOf = Callable[[Value], int | float | complex | None]
"""The number that a constant tensor acts as."""

_MAKES_TENSOR: Final = "prim::NumToTensor"
_TO_INT: Final = frozenset({"aten::Int.Tensor", "aten::IntImplicit", "aten::ScalarImplicit"})
_TO_BOOL: Final = "aten::Bool.Tensor"
_RSUB: Final = "aten::rsub"
_WITH_ALPHA: Final = frozenset({"aten::add", "aten::sub", _RSUB})
_DIVISIONS: Final = frozenset({"aten::floor_divide", "aten::remainder", "aten::div"})
_COMPARISONS: Final = frozenset(f"aten::{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge"))
_LARGE: Final = 1 << 62  # remainders of ints and of tensors differ from here on
_OVERLOADS: Final = frozenset({"", "Tensor", "Scalar", "Scalar_Tensor"})
_WITH_MODE: Final = frozenset({"Tensor_mode", "Scalar_mode"})
_ROUNDED: Final = {"floor": "aten::floordiv.int", "trunc": "aten::__round_to_zero_floordiv.int"}
_ON_INTS: Final[Mapping[str, str]] = {
    **{f"aten::{name}": f"aten::{name}.int" for name in ("add", "sub", "mul", "neg", "remainder")},
    **{name: f"{name}.int" for name in _COMPARISONS},
    _RSUB: "aten::sub.int",
    "aten::floor_divide": "aten::floordiv.int",
}
_COMPUTING: Final = _ON_INTS.keys() | {"aten::div"}
COMPUTING_INTS: Final = frozenset({*_ON_INTS.values(), *_ROUNDED.values()})
"""The operators on ints that stand for those on tensors."""


def operator_on_ints(node: Node) -> str | None:
    """The operator on ints that does what an operator does with tensors that hold ints."""
    if node.schema is None or node.upgrader is not None or node.stand_in is not None:
        return None
    overload = node.schema.overload
    if node.kind == "aten::div":
        return _ROUNDED.get(node.inputs[2].constant) if overload in _WITH_MODE else None
    return _ON_INTS.get(node.kind) if overload in _OVERLOADS else None


def operands(node: Node) -> Sequence[Value]:
    """What the operator on ints is given."""
    return node.inputs[1::-1] if node.kind == _RSUB else node.inputs[:2]


def makes_number(node: Node) -> bool:
    """Return whether a node makes a tensor of an int."""
    return node.kind == _MAKES_TENSOR and node.input.type == INT


class Numbers:
    """Tells which nodes may work on numbers; ``number_of`` tells those of constant tensors."""

    def __init__(self, number_of: ValueOf) -> None:
        self._number_of = number_of

    def among(self, nodes: Iterable[Node]) -> set[Node]:
        """The nodes, of all in their order, that make tensors of ints and compute with them."""
        made: set[Node] = set()
        for node in nodes:
            if node.kind in _COMPUTING:
                if made and self._may_be_one(node, made):
                    made.add(node)
            elif makes_number(node):
                made.add(node)
        return made

    def takes_ints(self, node: Node, made: Container[Node]) -> bool:
        """Return whether the operands are such tensors or ints, at least one is no constant."""
        given = node.inputs[:2]
        return any(value.node in made for value in given) and all(
            self._is_int(value, made) for value in given
        )

    def known(self, value: Value) -> int | None:
        """The int that a constant is, or that a constant tensor acts as."""
        if value.type == TENSOR:
            found = self._number_of(value)
            return found if type(found) is int else None
        return _constant(value)

    def _is_int(self, value: Value, made: Container[Node]) -> bool:
        if value.node in made:
            return value.node.kind not in _COMPARISONS
        return value.type == INT or (value.type == TENSOR and self.known(value) is not None)

    def _may_be_one(self, node: Node, made: Container[Node]) -> bool:
        if operator_on_ints(node) is None or not self.takes_ints(node, made):
            return False
        if node.kind in _WITH_ALPHA:
            return all(_constant(value) == 1 for value in node.inputs[2:])
        if node.kind in _DIVISIONS:
            divisor = self.known(node.inputs[1])
            return divisor is not None and 0 < divisor < _LARGE
        return True


def _constant(value: Value) -> int | None:
    """The value of an int constant."""
    return int(value.constant) if value.type == INT and value.node.is_constant else None


def nodes_on_numbers(graph: Block, live: Container[Node], number_of: ValueOf) -> set[Node]:
    """The nodes that make tensors of ints, compute with them and take the ints out.

    No tensor of theirs is left.
    """
    nodes = [node for node in all_nodes(graph.nodes) if node in live]
    if not any(node.kind == _MAKES_TENSOR for node in nodes):
        return set()
    numbers = Numbers(number_of)
    made = numbers.among(nodes)
    while seen := {node for node in made if not _is_unseen(node, made, live, numbers)}:
        made -= seen
    return made | {user for node in made for user, _ in node.output.uses if user in live}


def _is_unseen(node: Node, made: Container[Node], live: Container[Node], numbers: Numbers) -> bool:
    """Return whether numbers suffice for the operands of ``node`` and the users of its result."""
    if node.kind != _MAKES_TENSOR and not numbers.takes_ints(node, made):
        return False
    users = [use.user for use in node.output.uses if use.user in live or use.user.kind == RETURN]
    return all(user in made or gives_number(user, node) for user in users)


def gives_number(user: Node, node: Node) -> bool:
    """Return whether ``user`` takes the number, or its truth, out of the result of ``node``."""
    if user.operator == _TO_BOOL:
        return True
    return user.operator in _TO_INT and node.kind not in _COMPARISONS


def asks_truth(node: Node) -> bool:
    """Return whether a node takes out of a tensor whether its int is not zero."""
    return node.operator == _TO_BOOL and node.input.node.kind not in _COMPARISONS
