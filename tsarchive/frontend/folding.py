"""Constant folding: operators on constants, branches and loops that never run.

torch does the same to every function that it reads, for values that cannot change afterwards. Its
own text has nothing left to fold, but where a type tells more when it is read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tsarchive.ir.graph import CONSTANT, Block, Node, Value, carried_values, drop_carried
from tsarchive.ir.values import Builder
from tsarchive.operators.effects import GROWING, OF_TORCH, is_pure

from .context import Evaluate

_PLAIN = bool | int | float | complex | str | None
# What an operator raises for values that it does not take: it is left to raise when it runs.
_REFUSALS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# What is worth knowing is short. Operators that make much of little run when they are called.
_LONGEST = 2**14
_IDENTITY = frozenset({"aten::__is__", "aten::__isnot__"})


def fold(builder: Builder, evaluate: Evaluate) -> None:
    """Fold the body that is being built, once all of it is known.

    ``evaluate`` gives the function that runs an operator on Python values, None if there is none.
    """
    folding = _Folding(builder, evaluate)
    folding.block(builder.body)
    if folding.loosened:
        folding.sweep(builder.body)


class _Folding:
    """``loosened`` are nodes of which a result has lost a use: perhaps nothing needs them now."""

    def __init__(self, builder: Builder, evaluate: Evaluate) -> None:
        self.builder = builder
        self.evaluate = evaluate
        self.loosened: set[Node] = set()

    def block(self, block: Block) -> None:
        nodes, block.nodes = block.nodes, []
        append = block.nodes.append
        for node in nodes:
            kind, inputs = node.kind, node.inputs
            if kind == "prim::If":
                self._if(node, block)
            elif kind == "prim::Loop":
                self._loop(node, block)
            elif not (
                inputs and inputs[0].node.kind == CONSTANT and self._is_evaluated(node)
            ):  # fmt: skip
                append(node)

    def _if(self, node: Node, block: Block) -> None:
        known = node.input.constant
        if isinstance(known, bool):
            taken = node.blocks.pop(0 if known else 1)
            self.block(taken)
            block.nodes += taken.nodes
            for output, value in zip(node.outputs, taken.returns, strict=True):
                self._replace(output, value)
            self._discard(taken.return_node)
            self._discard(node)
            return
        for branch in node.blocks:
            self.block(branch)
        block.nodes.append(node)
        first, second = node.blocks
        for index in reversed(range(len(node.outputs))):
            if first.returns[index] is second.returns[index]:
                self._replace(node.outputs[index], first.returns[index])
                self._drop_result(node, index)

    def _loop(self, node: Node, block: Block) -> None:
        count, condition = node.inputs[0].constant, node.inputs[1].constant
        if condition is False or (type(count) is int and count <= 0):
            for carried in carried_values(node):
                self._replace(carried.output, carried.first)
            self._discard(node)
            return
        (body,) = node.blocks
        self.block(body)
        block.nodes.append(node)
        for index, carried in reversed(list(enumerate(carried_values(node)))):
            if carried.last is carried.param:
                for same in (carried.output, carried.param):
                    self._replace(same, carried.first)
                self.loosened.add(carried.first.node)
                drop_carried(node, index)

    def _is_evaluated(self, node: Node) -> bool:
        """Put constants in the place of what the node gives, if they are known."""
        if not node.outputs or (node.schema is None and node.kind != "prim::unchecked_cast"):
            return False
        values = [value.constant for value in node.inputs]
        if not all(map(_is_plain, values)):
            return False
        results = self._results(node, values)
        if len(results) != len(node.outputs) or not all(map(_is_plain, results)):
            return False
        for output, result in zip(node.outputs, results, strict=True):
            self._replace(output, self.builder.constant(result, output.type))
        self._discard(node)
        return True

    def _results(self, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        """Return the results of a node for constant inputs; empty when they are not known."""
        if node.kind == "prim::unchecked_cast":
            return values
        schema = node.schema
        if (
            schema is None
            or schema.is_vararg
            or node.kind in GROWING
            or not _is_pure(node)
            or node.upgrader is not None
        ):
            return ()
        if node.kind in _IDENTITY and any(isinstance(value, str | complex) for value in values):
            return (node.kind == "aten::__isnot__",)  # torch makes them anew when it looks at them
        function = self.evaluate(schema)
        if function is None:
            return ()
        pairs = list(zip(schema.arguments, values, strict=True))
        given = [value for argument, value in pairs if not argument.kwarg_only]
        named = {argument.name: value for argument, value in pairs if argument.kwarg_only}
        try:
            result = function(*given, **named)
        except _REFUSALS:
            return ()
        return result if len(schema.returns) > 1 else (result,)

    def _replace(self, value: Value, other: Value) -> None:
        for user, offset in value.uses:
            user.inputs[offset] = other
        other.uses += value.uses
        value.uses.clear()
        self.loosened.add(value.node)

    def _discard(self, node: Node) -> None:
        """Forget a node that stands nowhere any more, with its blocks."""
        for block in node.blocks:
            for inner in (*block.nodes, block.return_node):
                self._discard(inner)
        for value in node.inputs:
            self.loosened.add(value.node)
        node.drop_inputs()

    def _drop_result(self, node: Node, index: int) -> None:
        """Take a result from an ``if``."""
        for block in node.blocks:
            self.loosened.add(block.returns[index].node)
            block.return_node.drop_input(index)
        del node.outputs[index]

    def sweep(self, block: Block) -> None:
        """Remove what nothing needs any more, the last first."""
        for node in reversed(block.nodes):
            if node.kind == "prim::If" and node in self.loosened:
                for index in reversed(range(len(node.outputs))):
                    if not node.outputs[index].uses:
                        self._drop_result(node, index)
            for inner in node.blocks:
                self.sweep(inner)
            if node in self.loosened and _is_idle(node):
                self._discard(node)
                block.nodes.remove(node)


def _is_idle(node: Node) -> bool:
    if any(output.uses for output in node.outputs):
        return False
    if node.kind == "prim::If":
        return not any(block.nodes for block in node.blocks)
    return _is_pure(node)


def _is_pure(node: Node) -> bool:
    """Return whether a node that is no constant has no effects besides its results."""
    schema = node.schema
    if schema is None or schema.name.startswith(OF_TORCH):
        return node.kind != CONSTANT and is_pure(node)
    # torch believes the schemas of others here.
    return bool(schema.returns) and not any(argument.is_write for argument in schema.arguments)


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) and not (isinstance(value, str) and len(value) > _LONGEST)
