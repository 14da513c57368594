"""Recurrent layers that are written as code: the equations of an LSTM, and loops of them.

``lstm_cell`` has its operands in batches of one size, where code would broadcast them: so cells are
looked for where an example tells that they have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Block, Node, Value, carried_values, is_constant_true
from tsarchive.ir.types import TENSOR, ListType

from .graphs import Inserter, each_node, remove, replace, set_input, sweep, tensor_of

_GATES: Final = 4
_TENSORS: Final = ListType(TENSOR)
_IN_LOOP: Final = frozenset(
    {
        "prim::Constant", "prim::ListConstruct", "aten::slice", "aten::select", "aten::lstm_cell",
        "aten::append",
    }
)  # fmt: skip


class _Cell(NamedTuple):
    """The equations of an LSTM cell: input, state, and weights in the order of torch."""

    x: Value
    hidden: Value
    cell: Value
    weights: tuple[Tensor, Tensor, Tensor, Tensor]


def find_recurrence(graph: Block, done: Counter[str]) -> None:
    """Let ``aten::lstm`` compute loops over a sequence, and rows of steps that a trace made of one.

    A cell alone stays as equations: what checks the operands of ``lstm_cell`` costs more here.
    """
    own: list[Node] = []

    def find_cell(block: Block, node: Node) -> None:
        made = _put_cell(block, node) if node in block.nodes else None
        if made is not None:
            own.append(made)

    def find_layer(block: Block, node: Node) -> None:
        if node.kind == "prim::Loop" and _put_layer(block, node):
            done["loop of an LSTM as one layer"] += 1
        elif node.kind == "aten::stack" and node.inputs and _put_row(block, node):
            done["steps of an LSTM as one layer"] += 1

    def write_out(block: Block, node: Node) -> None:
        if node in own:
            _write_out(block, node)

    each_node(graph, find_cell)
    sweep(graph)
    each_node(graph, find_layer)
    sweep(graph)
    each_node(graph, write_out)
    sweep(graph)


def _write_out(block: Block, cell: Node) -> None:
    """Put the equations in the place of a cell."""
    inserter = Inserter(block, cell)
    x, state, *weights = cell.inputs
    hidden, old = state.node.inputs
    one, two = [
        inserter.operator("aten::linear", [value, *weights[place::2]])
        for place, value in enumerate((x, hidden))
    ]
    total = inserter.operator("aten::add.Tensor", [one, two, inserter.constant(1)])
    count, dim = inserter.constant(_GATES), inserter.constant(1)
    parts = inserter.operator("aten::chunk", [total, count, dim])
    write, forget, new, show = inserter.node(
        "prim::ListUnpack", [parts], *[TENSOR] * _GATES
    ).node.outputs
    write, forget, show = [inserter.operator("aten::sigmoid", [v]) for v in (write, forget, show)]
    new = inserter.operator("aten::tanh", [new])
    kept = inserter.operator("aten::mul.Tensor", [forget, old])
    added = inserter.operator("aten::mul.Tensor", [write, new])
    made = inserter.operator("aten::add.Tensor", [kept, added, inserter.constant(1)])
    shown = inserter.operator("aten::tanh", [made])
    replace(cell.outputs[1], made)
    replace(cell.outputs[0], inserter.operator("aten::mul.Tensor", [show, shown]))


def _put_cell(block: Block, node: Node) -> Node | None:
    """Replace the equations whose last is ``node``; return the cell in their place."""
    product = _terms(node, "aten::mul", ("aten::sigmoid", "aten::tanh"))
    if product is None:
        return None
    show, new_cell = product
    found = _cell(show, new_cell, block)
    if found is None:
        return None
    inserter = Inserter(block, new_cell.node)
    state = inserter.node("prim::ListConstruct", [found.hidden, found.cell], _TENSORS)
    weights = [inserter.constant(TableConstant(weight), TENSOR) for weight in found.weights]
    hidden = inserter.operator("aten::lstm_cell", [found.x, state, *weights])
    cell = hidden.node.outputs[1]
    hidden.name, cell.name = node.output.name, new_cell.name
    replace(node.output, hidden)
    replace(new_cell, cell)
    return hidden.node


def _cell(show: Value, new_cell: Value, block: Block) -> _Cell | None:
    """Match ``cell = sigmoid(forget) * old + sigmoid(write) * tanh(new)``."""
    if new_cell.node.kind != "aten::add" or not _is_plain_sum(new_cell.node):
        return None
    for first, second in _both_orders(new_cell.node.inputs[:2]):
        written = _terms(first.node, "aten::mul", ("aten::sigmoid", "aten::tanh"))
        kept = _with_old(second.node)
        if written is None or kept is None or not (_is_used_once(first) and _is_used_once(second)):
            continue
        forget, old = kept
        gates = [written[0], forget, written[1], show]
        found = _gates(gates, old, block)
        if found is not None:
            return found
    return None


def _with_old(node: Node) -> tuple[Value, Value] | None:
    """Match ``sigmoid(forget) * old``."""
    if node.kind != "aten::mul" or len(node.inputs) != 2:
        return None
    for gate, old in _both_orders(node.inputs):
        if gate.node.kind == "aten::sigmoid" and _is_used_once(gate):
            return gate.node.input, old
    return None


def _gates(gates: Sequence[Value], old: Value, block: Block) -> _Cell | None:
    """Match gates that are parts of ``linear(x) + linear(hidden)``."""
    parts = gates[0].node
    is_split = parts.kind == "prim::ListUnpack" and len(parts.outputs) == _GATES
    if not is_split or any(v.node is not parts or len(v.uses) != 1 for v in gates):
        return None
    chunk = parts.input.node
    if chunk.kind != "aten::chunk" or [v.constant for v in chunk.inputs[1:]] != [_GATES, 1]:
        return None
    total = chunk.input.node
    if len({*gates}) != _GATES or total.kind != "aten::add" or not _is_plain_sum(total):
        return None
    if not all(node in block.nodes for node in (parts, chunk, total)):
        return None
    if not (_is_used_once(chunk.input) and _is_used_once(parts.input)):
        return None
    order = [parts.outputs.index(gate) for gate in gates]
    layers = sorted((value.node for value in total.inputs[:2]), key=_takes_state)
    return _with_weights(layers, old, order)


def _takes_state(layer: Node) -> bool:
    """Return whether a layer seems to take the state of a cell: it takes no item of a sequence."""
    return layer.kind != "aten::linear" or layer.input.node.kind != "aten::select"


def _with_weights(layers: Sequence[Node], old: Value, order: Sequence[int]) -> _Cell | None:
    if any(layer.kind != "aten::linear" or not _is_used_once(layer.output) for layer in layers):
        return None
    tensors = [_weights(layer) for layer in layers]
    for (first, own), (second, other) in _both_orders(list(zip(layers, tensors, strict=True))):
        if own is None or other is None or own[0].dtype != other[0].dtype:
            return None
        rows, width = other[0].shape
        if rows == _GATES * width and own[0].size(0) == rows:
            chosen = own[0], other[0], own[1], other[1]
            weights = tuple(_ordered(weight, order) for weight in chosen)
            return _Cell(first.input, second.input, old, weights)  # type: ignore[arg-type]
    return None


def _weights(layer: Node) -> tuple[Tensor, Tensor] | None:
    weight, bias = (tensor_of(value) for value in layer.inputs[1:])
    if weight is None or not weight.is_floating_point() or weight.dim() != 2:
        return None
    if bias is None:
        if layer.inputs[2].constant is not None:
            return None
        bias = weight.new_zeros(weight.size(0))
    return weight, bias


def _ordered(weight: Tensor, order: Sequence[int]) -> Tensor:
    if list(order) == list(range(_GATES)):
        return weight
    parts = weight.chunk(_GATES)
    return torch.cat([parts[index] for index in order])


def _terms(node: Node, kind: str, kinds: tuple[str, str]) -> tuple[Value, Value] | None:
    """Match a product of results of two operators; return what these are given."""
    if node.kind != kind or len(node.inputs) != 2:
        return None
    for first, second in _both_orders(node.inputs):
        is_found = (first.node.kind, second.node.kind) == kinds
        if is_found and _is_used_once(first) and _is_used_once(second):
            return first.node.input, second.node.input
    return None


def _both_orders(pair: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    first, second = pair
    yield first, second
    yield second, first


def _is_plain_sum(node: Node) -> bool:
    return node.operator == "aten::add.Tensor" and node.inputs[2].constant == 1


def _is_used_once(value: Value) -> bool:
    return len(value.uses) == 1


def _put_layer(block: Block, loop: Node) -> bool:
    """Replace a loop over a sequence that appends the results of a cell to a list."""
    (body,) = loop.blocks
    nodes = [node for node in body.nodes if not node.is_constant]
    calls = [node for node in nodes if node.kind == "aten::lstm_cell"]
    appends = [node for node in nodes if node.kind == "aten::append"]
    if not all(node.kind in _IN_LOOP for node in nodes) or len(calls) != 1 or len(appends) != 1:
        return False
    if not (is_constant_true(loop.inputs[1]) and is_constant_true(body.returns[0])):
        return False
    (cell,), (append,) = calls, appends
    state = _state(loop, cell)
    read = _read_sequence(loop, cell)
    stack = _stack(block, append, cell)
    if state is None or read is None or stack is None:
        return False
    sequence, dim = read
    if stack.inputs[1].constant != dim or dim not in (0, 1):
        return False
    _write_layer(block, loop, stack, cell, sequence, state, is_batch_first=dim == 1)
    return True


def _state(loop: Node, cell: Node) -> tuple[Any, Any] | None:
    """Return what the loop carries of hidden state and cell; None where it carries others."""
    given = cell.inputs[1].node.inputs
    carried = {each.param: each for each in carried_values(loop)}
    if len(carried) != 2 or len(given) != 2 or any(value not in carried for value in given):
        return None
    found = carried[given[0]], carried[given[1]]
    is_next = [each.last for each in found] == cell.outputs
    return found if is_next else None


def _read_sequence(loop: Node, cell: Node) -> tuple[Value, int] | None:
    """Return the sequence whose items a cell reads from first to last, and the dimension."""
    (body,) = loop.blocks
    select = cell.inputs[0].node
    if select.kind != "aten::select" or select.inputs[2] is not body.params[0]:
        return None
    sequence, dim = _whole(select.inputs[0]), select.inputs[1].constant
    if sequence.node in body.nodes or sequence in body.params:
        return None
    count = loop.inputs[0].node
    is_length = count.kind == "aten::size" and count.inputs[0] is sequence
    if not is_length or len(count.inputs) != 2 or count.inputs[1].constant != dim:
        return None
    return (sequence, dim) if isinstance(dim, int) else None


def _stack(block: Block, append: Node, cell: Node) -> Node | None:
    """Return the node that stacks the list of results, which nothing else sees."""
    results, item = append.inputs
    users = [user for user, _ in results.uses if user is not append]
    made = results.node
    is_new = made.kind == "prim::ListConstruct" and not made.inputs and made in block.nodes
    if not is_new or item is not cell.outputs[0] or len(users) != 1 or append.outputs[0].uses:
        return None
    is_stack = users[0].kind == "aten::stack" and users[0] in block.nodes
    return users[0] if is_stack else None


def _write_layer(
    block: Block,
    loop: Node,
    stack: Node,
    cell: Node,
    sequence: Value,
    state: tuple[Any, Any],
    *,
    is_batch_first: bool,
) -> None:
    inserter = Inserter(block, loop)
    starts = [each.first for each in state]
    results = _layer(inserter, cell, sequence, starts, is_batch_first=is_batch_first)
    results[0].name = stack.output.name
    for each, last in zip(state, results[1:], strict=True):
        replace(each.output, last)
    replace(stack.output, results[0])
    for node in (stack, loop):
        remove(block, node)


def _layer(
    inserter: Inserter,
    cell: Node,
    sequence: Value,
    starts: Sequence[Value],
    *,
    is_batch_first: bool,
) -> list[Value]:
    """Call ``aten::lstm`` with the weights of a cell; return the results, last state, last cell."""
    zero = inserter.constant(0)
    given = [inserter.operator("aten::unsqueeze", [each, zero]) for each in starts]
    first = inserter.node("prim::ListConstruct", given, _TENSORS)
    weights = [inserter.constant(value.constant, TENSOR) for value in cell.inputs[2:]]
    listed = inserter.node("prim::ListConstruct", weights, _TENSORS)
    options = map(inserter.constant, (True, 1, 0.0, False, False, is_batch_first))
    output = inserter.operator("aten::lstm.input", [sequence, first, listed, *options])
    last = output.node.outputs[1:]
    return [output, *(inserter.operator("aten::squeeze.dim", [each, zero]) for each in last)]


def _put_row(block: Block, stack: Node) -> bool:
    """Replace cells in a row, one for each item of a sequence, whose results are stacked."""
    results, dim = stack.inputs[0], stack.inputs[1].constant
    cells = [value.node for value in results.node.inputs]
    if results.node.kind != "prim::ListConstruct" or len(cells) < 2 or dim not in (0, 1):
        return False
    if any(cell.kind != "aten::lstm_cell" or cell not in block.nodes for cell in cells):
        return False
    if any(v is not cell.outputs[0] for v, cell in zip(results.node.inputs, cells, strict=True)):
        return False
    sequence = _items_in_turn(cells, dim)
    if sequence is None or not all(map(_follows, cells, cells[1:])):
        return False
    # What follows the first cell uses values that stand before it, or are of the row.
    inserter = Inserter(block, cells[0])
    bounds = [inserter.constant(number) for number in (dim, 0, len(cells), 1)]
    items = inserter.operator("aten::slice.Tensor", [sequence, *bounds])
    starts = cells[0].inputs[1].node.inputs
    made = _layer(inserter, cells[0], items, starts, is_batch_first=dim == 1)
    made[0].name = stack.output.name
    replace(stack.output, made[0])
    for output, value in zip(cells[-1].outputs, made[1:], strict=True):
        _replace_outside(output, value, results.node)
    return True


def _replace_outside(output: Value, value: Value, within: Node) -> None:
    """Let all but one node use another value."""
    for use in list(output.uses):
        if use.user is not within:
            set_input(use.user, use.offset, value)


def _items_in_turn(cells: Sequence[Node], dim: int) -> Value | None:
    """Return the sequence of which each cell reads the next item."""
    found: Value | None = None
    for place, cell in enumerate(cells):
        select = cell.inputs[0].node
        if select.kind != "aten::select" or [v.constant for v in select.inputs[1:]] != [dim, place]:
            return None
        sequence = _whole(select.inputs[0])
        if found is not None and sequence is not found:
            return None
        found = sequence
    return found


def _whole(value: Value) -> Value:
    """Return the tensor of which a value is a slice with all that is in it."""
    node = value.node
    if node.kind != "aten::slice":
        return value
    *bounds, step = [each.constant for each in node.inputs[2:]]
    is_whole = step == 1 and bounds in ([None, None], [0, 2**63 - 1])
    return node.inputs[0] if is_whole else value


def _follows(cell: Node, later: Node) -> bool:
    """Return whether a cell goes on from the state of another, with its weights, and nothing else
    sees what is between them but for the results."""
    own = [tensor_of(value) for value in cell.inputs[2:]]
    other = [tensor_of(value) for value in later.inputs[2:]]
    is_same = all(
        a is not None and b is not None and a.shape == b.shape and torch.equal(a, b)
        for a, b in zip(own, other, strict=True)
    )
    state = later.inputs[1].node
    is_next = state.kind == "prim::ListConstruct" and state.inputs == cell.outputs
    return is_same and is_next and len(cell.outputs[0].uses) == 2 and len(cell.outputs[1].uses) == 1
