"""Recurrent layers that are written as code: loops of cells, and steps that a trace made of one.

Equations of a cell take more than the operators of torch for a whole sequence: they broadcast, and
have sequences and states of any rank. So the layer stands behind a question for the sizes of what
it is given, and the code as it was takes everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final

import torch

from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Block, Carried, Node, Value, carried_values, is_constant_true, walk
from tsarchive.ir.rewriting import blocks_in, remove, set_input
from tsarchive.ir.types import INT, TENSOR, ListType
from tsarchive.operators.effects import is_pure, may_write

from .affine import whole
from .cells import Cell, Item, Kind, cells_of, item_of_list
from .freezing import Written, number_of
from .graphs import Inserter, SizesOf, all_true, is_in_place, sweep, taken_by, unknown_sizes

_TENSORS: Final = ListType(TENSOR)


@dataclass(eq=False)
class _Run:
    """A cell that runs over a sequence, and the nodes that do it.

    ``results`` are the values of the code that are known of the layer, each with what makes it of
    its results: the sequence of states, and the last states.
    """

    cell: Cell
    starts: Sequence[Value]
    nodes: set[Node]
    first: int = 0
    count: int | None = None
    results: dict[Value, _Make] = field(default_factory=dict)

    @property
    def sequence(self) -> Value:
        return self.cell.item.sequence

    @property
    def length(self) -> int:
        """How many items the sequence has, or has at least."""
        return self.cell.item.total or self.first + (self.count or self.cell.kind.fewest)


_Make = Callable[[Inserter, Sequence[Value]], Value]


def find_recurrence(graph: Block, done: Counter[str], sizes_of: SizesOf = unknown_sizes) -> None:
    """Let operators for whole sequences compute loops, and rows of steps.

    A cell alone stays as equations: ``lstm_cell`` takes as long as they do once all else is done.
    ``sizes_of`` knows tensors of 32-bit floating point on the CPU.
    """
    for block in reversed(list(blocks_in(graph))):
        known = cache(cells_of)
        for node in reversed(list(block.nodes)):
            run = _run(block, node, known) if node in block.nodes else None
            if run is not None and _put(graph, block, run, sizes_of):
                what = "loop" if node.kind == "prim::Loop" else "steps"
                done[f"{what} of {run.cell.kind.name} as one layer"] += 1
                known = cache(cells_of)
    sweep(graph)


def _run(block: Block, node: Node, known: _CellsOf) -> _Run | None:
    return _loop(block, node) if node.kind == "prim::Loop" else _row(block, node, known)


def _is_short(run: _Run, sizes_of: SizesOf) -> bool:
    """Return whether a sequence is known to have fewer items than the layer is for."""
    sizes, dim = sizes_of(run.sequence), run.cell.item.dim
    return sizes is not None and dim < len(sizes) and sizes[dim] < run.length


def _put(graph: Block, block: Block, run: _Run, sizes_of: SizesOf) -> bool:
    """Put the layer in the place of what a run has; false where it is not the same, or slower."""
    if _is_short(run, sizes_of):
        return False
    written = Written(graph, _writers(graph, run))
    if any(map(written.may_be, _values(run))):
        return False
    nodes = [node for node in block.nodes if node in run.nodes]
    own = {output for node in nodes for output in node.outputs}
    others = [node for node in (*block.nodes, block.return_node) if node not in run.nodes]
    taken = [(node, taken_by(node) & own) for node in others]
    place = next((node for node, values in taken if values), None)
    seen = set().union(*(values for _, values in taken))
    if place is None or not seen <= run.results.keys() or not _stands_before(block, place, run):
        return False
    inserter, results = Inserter(block, place), [each for each in run.results if each in seen]
    questions = _questions(run, sizes_of)
    if questions:
        _branch(inserter, block, run, nodes, results, questions)
    else:
        for value, made in zip(results, _layer(inserter, run, results), strict=True):
            _give_outside(value, made, run.nodes)
        for node in reversed(nodes):
            remove(block, node)
    return True


def _writers(graph: Block, run: _Run) -> list[Node]:
    """Return what may write to tensors, but for the steps: they write to their own."""
    own = set(walk(run.nodes))
    return [node for node in walk(graph.nodes) if node not in own and may_write(node)]


def _values(run: _Run) -> Iterator[Value]:
    yield run.sequence
    yield from run.starts
    for node in run.nodes:
        if node.kind != "prim::Loop":
            yield from node.outputs


def _give_outside(value: Value, made: Value, nodes: set[Node]) -> None:
    """Let all use another value but the nodes that compute it."""
    made.name = value.name
    for use in list(value.uses):
        if use.user not in nodes:
            set_input(use.user, use.offset, made)


def _stands_before(block: Block, place: Node, run: _Run) -> bool:
    """Return whether all that a run is given is there at a node."""
    nodes = [*block.nodes, block.return_node]
    later = {node for node in nodes[nodes.index(place) :] if node not in run.nodes}
    given = {value for node in run.nodes for value in taken_by(node)} | {*run.starts, run.sequence}
    return all(value.node not in later for value in given)


def _branch(
    inserter: Inserter,
    block: Block,
    run: _Run,
    nodes: Sequence[Node],
    results: Sequence[Value],
    questions: Sequence[_Question],
) -> None:
    """Ask whether the layer gives the same; let the code as it was run where it does not."""
    branch = inserter.insert(Node("prim::If"))
    branch.add_input(_asked(Inserter(block, branch), questions))
    fast, slow = branch.add_block(), branch.add_block()
    for made in _layer(Inserter(fast, fast.return_node), run, results):
        fast.add_return(made)
    for node in nodes:
        block.nodes.remove(node)
        slow.nodes.append(node)
    for value in results:
        _give_outside(value, branch.add_output(value.type), run.nodes)
        slow.add_return(value)


_Question = Callable[[Inserter], Value]


def _asked(inserter: Inserter, questions: Sequence[_Question]) -> Value:
    """Return whether all questions are answered with yes; none is asked after a no."""
    answer = questions[0](inserter)
    if len(questions) == 1:
        return answer
    branch = inserter.insert(Node("prim::If"))
    branch.add_input(answer)
    then, otherwise = branch.add_block(), branch.add_block()
    then.add_return(_asked(Inserter(then, then.return_node), questions[1:]))
    otherwise.add_return(Inserter(otherwise, otherwise.return_node).constant(False))
    return branch.add_output(answer.type)


def _questions(run: _Run, sizes_of: SizesOf) -> list[_Question]:
    """Return what has to be asked, in this order; nothing where sizes are known."""
    asked = [_has_rank, _has_length, _has_states, _has_types]
    return [] if _fits(run, sizes_of) else [partial(each, run) for each in asked]


def _has_rank(run: _Run, inserter: Inserter) -> Value:
    rank = inserter.operator("aten::dim", [run.sequence])
    return inserter.operator("aten::eq.int", [rank, inserter.constant(3)])


def _has_length(run: _Run, inserter: Inserter) -> Value:
    call, constant, item = inserter.operator, inserter.constant, run.cell.item
    length = call("aten::size.int", [run.sequence, constant(item.dim)])
    compare = "aten::ge.int" if item.total is None else "aten::eq.int"
    return call(compare, [length, constant(run.length)])


def _has_states(run: _Run, inserter: Inserter) -> Value:
    call, constant, width = inserter.operator, inserter.constant, run.cell.width
    batch = call("aten::size.int", [run.sequence, constant(1 - run.cell.item.dim)])
    sizes = inserter.node("prim::ListConstruct", [batch, constant(width)], ListType(INT))
    found = [call("aten::size", [value]) for value in dict.fromkeys(run.starts)]
    return all_true(inserter, [call("aten::eq.int_list", [each, sizes]) for each in found])


def _has_types(run: _Run, inserter: Inserter) -> Value:
    call = inserter.operator
    dtype = inserter.constant(number_of(run.cell.parts[0][0].dtype))
    found = [call("prim::dtype", [value]) for value in dict.fromkeys((run.sequence, *run.starts))]
    return all_true(inserter, [call("aten::eq.int", [each, dtype]) for each in found])


def _fits(run: _Run, sizes_of: SizesOf) -> bool:
    """Return whether sizes are known, and are those of a layer."""
    sizes, dim = sizes_of(run.sequence), run.cell.item.dim
    if sizes is None or len(sizes) != 3 or run.cell.parts[0][0].dtype is not torch.float32:
        return False
    length, wanted = sizes[dim], run.length
    fits = length >= wanted if run.cell.item.total is None else length == wanted
    return fits and all(sizes_of(each) == (sizes[1 - dim], run.cell.width) for each in run.starts)


def _layer(inserter: Inserter, run: _Run, results: Sequence[Value]) -> list[Value]:
    """Call the operator of the layer; return what code has of it."""
    call, constant, cell = inserter.operator, inserter.constant, run.cell
    sequence, dim, zero = run.sequence, cell.item.dim, constant(0)
    if run.count is not None:
        bounds = [constant(number) for number in (dim, run.first, run.first + run.count, 1)]
        sequence = call("aten::slice.Tensor", [sequence, *bounds])
    states = [call("aten::unsqueeze", [each, zero]) for each in run.starts]
    given = inserter.node("prim::ListConstruct", states, _TENSORS) if states[1:] else states[0]
    weights = [constant(TableConstant(weight), TENSOR) for weight in cell.weights]
    listed = inserter.node("prim::ListConstruct", weights, _TENSORS)
    options = map(constant, (True, 1, 0.0, False, False, dim == 1))
    output = call(cell.kind.operator, [sequence, given, listed, *options])
    made = output.node.outputs
    return [run.results[value](inserter, made) for value in results]


def _loop(block: Block, loop: Node) -> _Run | None:
    """Return the run of a loop that carries the states of a cell, and may list its results."""
    (body,) = loop.blocks
    carried = {each.last: each for each in carried_values(loop)}
    if not (is_constant_true(loop.inputs[1]) and is_constant_true(body.returns[0])):
        return None
    cell = next((c for last in carried for c in cells_of(last) if _is_carried(c, carried)), None)
    if cell is None or cell.item.place is not body.params[0]:
        return None
    count = _constant_count(loop, cell.kind)
    if count is None and not _is_length(loop, cell.item):
        return None
    states = [carried[value] for value in cell.after]
    run = _Run(cell, [each.first for each in states], {loop}, count=count)
    run.results = {each.output: _state(place) for place, each in enumerate(states)}
    effects = [node for node in body.nodes if not (is_pure(node) or is_in_place(node))]
    if len(effects) > 1 or (effects and not _add_stack(block, effects[0], run)):
        return None
    return run if cell.item.sequence.node not in body.nodes else None


def _is_carried(cell: Cell, carried: Mapping[Value, Carried]) -> bool:
    """Return whether a loop carries the states of a cell, and nothing else."""
    params = [carried[value].param for value in cell.after if value in carried]
    return len(carried) == len(params) and params == [*cell.before]


def _constant_count(loop: Node, kind: Kind) -> int | None:
    count = loop.inputs[0].constant
    return count if type(count) is int and count >= kind.fewest else None


def _is_length(loop: Node, item: Item) -> bool:
    """Return whether a loop has a round for each item of a sequence."""
    node = loop.inputs[0].node
    if node.operator == "aten::size.int":
        return whole(node.input) is item.sequence and node.inputs[1].constant == item.dim
    if node.operator == "aten::len.Tensor":
        return whole(node.input) is item.sequence and item.dim == 0
    if node.operator != "aten::len.t":
        return False
    cut = item_of_list(node.input)
    return cut is not None and (cut.sequence, cut.dim) == (item.sequence, item.dim)


def _add_stack(block: Block, append: Node, run: _Run) -> bool:
    """Add the node that stacks the list of results, which nothing else sees."""
    if append.operator != "aten::append.t" or append.inputs[1] is not run.cell.after[0]:
        return False
    made, (loop,) = append.input, run.nodes
    is_new = made.node.kind == "prim::ListConstruct" and not made.node.inputs
    users = [use.user for use in made.uses if use.user is not append]
    if not is_new or append.output.uses or len(users) != 1:
        return False
    # A list from outside has what earlier rounds of another loop appended, too.
    in_turn = [node for node in block.nodes if node in (made.node, loop, users[0])]
    return in_turn == [made.node, loop, users[0]] and _add_stacked(run, users[0])


def _add_stacked(run: _Run, stack: Node) -> bool:
    """Add a node that stacks all results."""
    dim = stack.inputs[1].constant if stack.operator == "aten::stack" else None
    if dim not in _STACKED:
        return False
    run.nodes.add(stack)
    run.results[stack.output] = _stacked(_STACKED[dim], run.cell.item.dim)
    return True


def _state(place: int) -> _Make:
    """Return what makes a last state of the results of a layer."""

    def make(inserter: Inserter, made: Sequence[Value]) -> Value:
        return inserter.operator("aten::squeeze.dim", [made[place + 1], inserter.constant(0)])

    return make


def _stacked(dim: int, own: int) -> _Make:
    """Return what stacks all results of a layer over a sequence in dimension ``own``."""

    def make(inserter: Inserter, made: Sequence[Value]) -> Value:
        zero, one = inserter.constant(0), inserter.constant(1)
        output = made[0]
        if dim != own:
            output = inserter.operator("aten::transpose.int", [output, zero, one])
        # Layers have results of sequences in the usual order, and give a view of them.
        return inserter.operator("aten::contiguous", [output, zero]) if dim else output

    return make


def _selected(dim: int, place: int) -> _Make:
    def make(inserter: Inserter, made: Sequence[Value]) -> Value:
        where = [inserter.constant(dim), inserter.constant(place)]
        return inserter.operator("aten::select.int", [made[0], *where])

    return make


def _row(block: Block, last: Node, known: _CellsOf) -> _Run | None:
    """Return the run of cells in a row, one for each item of a sequence."""
    cells = _chain(last.outputs[0], known) if last.outputs else []
    if not cells or len(cells) < cells[0].kind.fewest:
        return None
    first, end = cells[0], cells[-1]
    assert isinstance(first.item.place, int)
    run = _Run(first, first.before, set(), first.item.place, len(cells))
    for place, cell in enumerate(cells):
        run.results[cell.after[0]] = _selected(first.item.dim, place)
    run.results |= {value: _state(place) for place, value in enumerate(end.after)}
    items = [cell.after[0] for cell in cells]
    ends = [*end.after]
    for use in items[0].uses:
        listed = use.user
        if listed.kind == "prim::ListConstruct" and listed.inputs == items:
            stacks = [user for user, _ in listed.output.uses]
            if all(stack in block.nodes and _add_stacked(run, stack) for stack in stacks):
                run.nodes.add(listed)
                ends.append(listed.output)
    return run if _add_steps(block, run, ends) else None


def _chain(value: Value, known: _CellsOf) -> list[Cell]:
    """Return cells that follow each other to the one that gives a value."""
    found: list[Cell] = []
    cell = next((c for c in known(value) if isinstance(c.item.place, int)), None)
    while cell is not None:
        found.insert(0, cell)
        cell = next((c for c in known(cell.before[0]) if _follows(cell, c)), None)
    return found


def _follows(cell: Cell, earlier: Cell) -> bool:
    """Return whether a cell goes on from where another ends."""
    item, other = cell.item, earlier.item
    is_next = isinstance(item.place, int) and other == item._replace(place=item.place - 1)
    is_like = earlier.kind is cell.kind and earlier.after == cell.before
    return is_next and is_like and cell.has_weights_of(earlier)


def _add_steps(block: Block, run: _Run, ends: Sequence[Value]) -> bool:
    """Add the nodes between what a run is given and what it gives; false where one has effects."""
    given = {run.sequence, *run.starts}
    places = {node: place for place, node in enumerate(block.nodes)}
    waiting = [value.node for value in ends]
    while waiting:
        node = waiting.pop()
        run.nodes.add(node)
        for value in node.inputs:
            is_step = value not in given and value.node in places and not value.node.is_constant
            if is_step and value.node not in run.nodes:
                waiting.append(value.node)
    for node in sorted(run.nodes, key=places.__getitem__):
        if _is_shared(node, run):
            run.nodes.remove(node)
    return all(is_pure(node) or is_in_place(node) for node in run.nodes)


def _is_shared(node: Node, run: _Run) -> bool:
    """Return whether a node comes before all steps, and others need it, too."""
    is_first = not any(value.node in run.nodes for value in node.inputs)
    outside = [value for value in node.outputs for use in value.uses if use.user not in run.nodes]
    return is_first and any(value not in run.results for value in outside)


_CellsOf = Callable[[Value], "list[Cell]"]
_STACKED: Final = {0: 0, 1: 1, -3: 0, -2: 1}
