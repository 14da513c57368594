"""Generates Python source from the graph of a function: one statement for each node.

The source is made of the templates here and in ``expressions.py``, of identifiers and of Python
literals. Every object it refers to is a global under such a name, so
no text of an archive is ever executed.
"""

from __future__ import annotations

import keyword
from collections import Counter, deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from tsarchive.ir.classes import Function, is_forward, is_module
from tsarchive.ir.graph import (
    CONSTANT,
    Block,
    Node,
    Placed,
    Value,
    carried_values,
    has_trip_count,
    is_constant_true,
    matching_exit,
)
from tsarchive.ir.types import INT, TENSOR, ListType, OptionalType
from tsarchive.operators.effects import COMPUTING, schema_may_write, size_of_made
from tsarchive.operators.python_forms import TURNS

from .expressions import LIST, SCALARS, Expressions
from .linkage import Bound, Linkage, Source, autocast, is_autocast, unpack_list
from .natives import Awaitable, Future
from .operators import assumed, chosen, find_native, repeated
from .passes.layers import Layer
from .passes.liveness import (
    ALIASES,
    NOTHING,
    Liveness,
    Order,
    Wanted,
    all_nodes,
    called_function,
    holds_memory,
)
from .passes.peephole import whole_slices
from .passes.sizes import nodes_on_numbers
from .slots import SlotKind, as_submodule, as_tensor
from .tracebacks import LAYERS

# Python refuses more than 20 nested loops and try statements, and more than 100 indentations.
_DEEPEST: Final = 16
_INDENT: Final = "    "
# Nodes beside operators after which what was read is still there.
_READERS: Final = ALIASES | COMPUTING
_READS: Final = frozenset({"aten::size", "prim::GetAttr"})
_READ_ONCE: Final = SCALARS | {TENSOR, OptionalType(TENSOR)}
_NUMBER: Final = "0123456789_"


class _Part(NamedTuple):
    """Code that becomes one ``def``; ``texts`` are the names in it of values from outside.

    ``end`` is the return node of a graph or a block; code that is only nested too deeply has none.
    A ``block`` gives all of its results in a tuple.
    """

    name: str
    params: Sequence[str]
    nodes: Sequence[Node]
    results: Sequence[Value]
    texts: Mapping[Value, str]
    end: Node | None = None
    block: Block | None = None


def generate(
    function: Function, linkage: Linkage, bound: Bound = (), wanted: Wanted = None
) -> Source:
    """Python source that runs like ``function``, taking all of its arguments by position.

    It computes what is ``wanted`` of the result, and what has effects.
    """
    writer = _Writer(function, linkage, bound)
    name = writer.names.unique(function.name)
    writer.add_graph(name, function.graph, wanted)
    writer.write()
    if writer.layers:
        writer.globals.values[LAYERS] = tuple(writer.layers)
    code = compile("".join(writer.lines), "<tsarchive>", "exec", dont_inherit=True)
    return Source(name, writer.lines, code, writer.globals.values, writer.places)


class _Writer(Expressions):
    """Writes the parts of one function, each as a ``def`` of its own."""

    def __init__(self, function: Function, linkage: Linkage, bound: Bound) -> None:
        super().__init__(function, linkage, bound)
        self.lines: list[str] = []
        self.places: list[Placed | None] = []
        self.level = 0
        self._place: Placed | None = None
        self._parts: deque[_Part] = deque()
        self._live_nodes: set[Node] = set()
        self._order = Order()
        self._before: dict[Node, Node] = {}
        self._here: Container[Node | None] = ()
        # Variables by what they were read from, as long as that has not changed.
        self._reads: dict[Hashable, str] = {}
        self._shared: set[str] = set()
        self._changing: dict[int, bool] = {}
        self.layers: list[tuple[int, str]] = []

    def add_graph(self, name: str, graph: Block, wanted: Wanted = None) -> None:
        analyses = self.linkage.analyses
        live = Liveness(graph, analyses.effects, wanted)
        self._live_nodes |= live.nodes
        self._order.add(graph.nodes)
        self.unchanged |= analyses.identities.of(graph, live.nodes, self.number_operand)
        self.live_values |= live.values
        if self.dispatch.direct_call is not None:
            self.on_numbers |= nodes_on_numbers(graph, live.nodes, self.known_number)
            self.unchanged |= whole_slices(graph, live.nodes)
        results = () if wanted == NOTHING else graph.returns
        if results and wanted is not None:
            # The tuple of the result is made of the wanted items alone.
            self._live_nodes.add(results[0].node)
            self.live_values.add(results[0])
        params = [self.define(param) for param in graph.params]
        texts = {param: self.text[param] for param in graph.params}
        self._parts.append(_Part(name, params, graph.nodes, results, texts, graph.return_node))

    def write(self) -> None:
        while self._parts:
            part = self._parts.popleft()
            self.text.update(part.texts)
            self._place = None
            self.line(f"def {part.name}({', '.join(part.params)}):")
            with self._indented():
                self._name_members(part)
                if part.end is not None:
                    self._spend(part.nodes)
                given = part.texts if part.end is not None and part.block is None else ()
                self._nodes(part.nodes, part.end, given)
                self._return(part)

    def _return(self, part: _Part) -> None:
        texts = [*map(self.whole, part.results)]
        if part.block is None:
            self.line(f"return {', '.join(texts)}".rstrip())
        else:
            self.line(f"return {_tuple_of(texts)}")

    def _name_members(self, part: _Part) -> None:
        """Name the dictionary of a module where its method reads several slots.

        Its tables have names, too, where nothing runs in between that could put others there.
        """
        self.own_members, self.own_tables = "", {}
        module = self.own_module()
        if module is None or part.end is not self.function.graph.return_node:
            return
        nodes = [node for node, _ in module.uses if node in self._live_nodes]
        reads = Counter(self.slot(node)[0] for node in nodes if self.reads_members(node))
        own = reads.pop(SlotKind.PLAIN, 0)
        running = (n for n in part.nodes if n in self._live_nodes and not n.is_constant)
        is_steady = not any(map(self._may_change_reads, running))
        several = [kind for kind in reads if reads[kind] > 1 and is_steady]
        if own + sum(1 if kind in several else reads[kind] for kind in reads) > 1:
            members = self.members(module)
            self.own_members = self.names.unique("members")
            self.line(f"{self.own_members} = {members}")
        for kind in several:
            table = f"{self.members(module)}[{kind.value!a}]"
            name = self.own_tables[kind] = self.names.unique(kind.value[1:])
            self.line(f"{name} = {table}")

    def line(self, text: str) -> None:
        self.lines.append(f"{_INDENT * self.level}{text}\n")
        self.places.append(self._place)

    def _add(self, statement: str) -> None:
        """Add a statement to the last line."""
        self.lines[-1] = f"{self.lines[-1][:-1]}; {statement}\n"

    @contextmanager
    def _indented(self) -> Iterator[None]:
        """Lines written inside form a block; an empty one is ``pass``."""
        before = len(self.lines)
        self.level += 1
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.level -= 1

    def _spend(self, nodes: Sequence[Node], turns: int = 0) -> None:
        """Charge the budget with the cost of running ``nodes``, where there are limits."""
        if self.dispatch.spend is None:
            return
        running = [n for n in nodes if n in self._live_nodes and not n.is_constant]
        steps = len(running) + turns
        if not steps:
            return
        size = sum(map(size_of_made, running))
        spend = self.globals.name("spend", self.dispatch.spend)
        self._place = running[0].place if running else self._place
        self.line(f"{spend}({steps}, {size})" if size else f"{spend}({steps})")

    def _nodes(
        self, nodes: Sequence[Node], end: Node | None = None, given: Iterable[Value] = ()
    ) -> None:
        """Write statements for ``nodes``; ``end`` is the return node that takes their results.

        Values that are ``given`` to these nodes belong to them alone.
        """
        outside, self._here = self._here, {*nodes, end} if self.level <= _DEEPEST else ()
        live = self._live_nodes
        running = [node for node in nodes if node in live and node.kind != CONSTANT]
        ends = self._order.last_uses(nodes, live, given)
        self._before.update(zip(running[1:], running, strict=False))
        self._reads.clear()
        position = 0
        while position < len(running):
            node = running[position]
            self._place = node.place
            if node.kind == "prim::Enter":
                exit_ = matching_exit(running, position)
                self._with(running[position : exit_ + 1])
                self._reads.clear()  # leaving it may have set attributes
                position = exit_
            else:
                self.ending = ending = ends.get(node, ())
                _STATEMENTS.get(node.kind, _Writer._assign)(self, node)
                if ending:
                    self._drop(node, ending)
                if self._reads and self._may_change_reads(node):
                    self._reads.clear()
            position += 1
        self._here = outside

    def _drop(self, node: Node, values: Sequence[Value]) -> None:
        """Give up the variables of tensors that were used for the last time."""
        names = [self.text[value] for value in values if self._is_held(value)]
        if node.blocks and names:
            self.line(f"del {', '.join(names)}")
        elif names:
            self._add(f"del {', '.join(names)}")

    def _is_held(self, value: Value) -> bool:
        """Return whether a variable holds a value at the end of the node that uses it last."""
        if value not in self.live_values or value in self.passed_on:
            return False
        node = value.node
        return not ((node.kind == LIST and self._is_inline(node)) or node in self.on_numbers)

    def _target(self, value: Value) -> str:
        """A variable for the result of a node: one that a tensor leaves, else a new one.

        The tensor is given up by that, once the result is there. A name in the source stays.
        """
        if value.type is not TENSOR:
            return self.define(value)
        wanted = value.name and value.name.rstrip(_NUMBER)
        for left in self.ending:
            if left.type is TENSOR and self._is_held(left):
                name = self.text[left]
                if not wanted or name.rstrip(_NUMBER) == wanted:
                    self.passed_on.add(left)
                    self.text[value] = name
                    return name
        return self.define(value)

    def _targets(self, values: Sequence[Value]) -> str:
        """New variables for the results of a node, ``_`` for those that nothing uses."""
        names = [self.define(v) if v in self.live_values else "_" for v in values]
        return ", ".join(names)

    def _assign(self, node: Node) -> None:
        if node.kind == LIST and all([value.node.kind == CONSTANT for value in node.inputs]):
            self.constant_lists.add(node)
        if node.kind in ALIASES or (node.kind == LIST and self._is_inline(node)):
            self.text[node.outputs[0]] = self.expression(node)
            return
        key = self._read_key(node) if node.kind in _READS else None
        if key in self._reads:
            self._share(node, self._reads[key])
            return
        text = self.expression(node)
        if node in self.on_numbers and (text.isidentifier() or text.isdecimal()):
            self.text[node.output] = text
            return
        if node in self.pure:
            if self.fold(node.output, text, self._here):
                return
            key = text if self.dispatch.inlines else None
            if key in self._reads:
                self._share(node, self._reads[key])
                return
        outputs = node.outputs
        if len(outputs) == 1 and outputs[0] in self.live_values:
            target = self._target(outputs[0])
            if target != text:
                self.line(f"{target} = {text}")
            if key is not None:
                self._reads[key] = target
        elif any(output in self.live_values for output in outputs):
            self.line(f"{self._targets(outputs)} = {text}")
        else:
            self.line(text)

    def _call_method_of(self, node: Node) -> None:
        """Call a method; that of a layer, which runs one operator, is written out."""
        layer = self._layer(node) if node.output in self.live_values else None
        text = None if layer is None else self.layer_text(node, layer)
        if layer is None or text is None:
            self._assign(node)
            return
        passed = set(self.passed_on)
        conditions = self.layer_conditions(layer)
        other = self.expression(node) if conditions else self.call_through_hooks(node)
        ended = [self.text[value] for value in node.inputs if value in self.passed_on - passed]
        test, kinds = self.is_as_written(node.input), {self.slot(read)[0] for read in layer.reads}
        target = self._target(node.output)
        if kinds:
            test = f"{self.layer_members} := {test}"
        self.line(f"if ({test}) and {conditions}:" if conditions else f"if {test}:")
        with self._indented():
            for kind, table in self.layer_tables.items() if kinds else ():
                if kind in kinds:
                    self.line(f"{table} = {self.layer_members}[{kind.value!a}]")
            self.line(f"{target} = {text}")
            if ended:
                self._add(f"del {', '.join(ended)}")
            self.layers.append((len(self.lines), self.callee_name(node)))
        self.line("else:")
        with self._indented():
            self.line(f"{target} = {other}")

    def _layer(self, node: Node) -> Layer | None:
        """The layer whose method a node calls, where its operator can stand for the call."""
        function = called_function(node)
        if function is None or self.dispatch.direct_call is None or self.level > _DEEPEST:
            return None
        is_called = is_module(node.input.type) and is_forward(node.input.type, node.name)
        return self.linkage.analyses.layers.of(function) if is_called else None

    def _read_key(self, node: Node) -> Hashable:
        """What a node reads, where an equal node right after it reads the same; else None."""
        if not self.dispatch.inlines:
            return None
        if node.kind == "prim::GetAttr" and is_module(node.input.type):
            is_same = is_module(node.output.type) or node.output.type in _READ_ONCE
            return (self.use(node.input), node.name) if is_same else None
        if node.kind == "aten::size" and len(node.inputs) > 1 and node not in self.on_numbers:
            return node.input, self.use(node.inputs[1])
        return None

    def _share(self, node: Node, name: str) -> None:
        """Let the result of a node be what a variable holds."""
        self.text[node.output] = name
        self._shared.add(name)

    def _may_change_reads(self, node: Node) -> bool:
        """Return whether attributes of modules or sizes of tensors may be others after a node."""
        schema = node.schema
        if schema is None or node.stand_in is not None or node.upgrader is not None:
            return node.kind not in _READERS
        found = self._changing.get(id(schema))
        if found is None:
            found = schema_may_write(schema)
            self._changing[id(schema)] = found
        return found

    def _is_inline(self, node: Node) -> bool:
        """Return whether a list is written where it is used: one operator of torch reads it.

        Its items are constants, or they are ints and the operator comes next.
        """
        if node.kind != LIST or len(node.outputs[0].uses) != 1:
            return False
        user = node.output.uses[0].user
        return (
            user.schema is not None
            and find_native(user.schema) is None
            and user.upgrader is None
            and (
                node in self.constant_lists
                or (node.output.type == ListType(INT) and self._before.get(user) is node)
            )
        )

    def _move(
        self, targets: Sequence[str], values: Sequence[Value], made: Sequence[Node] = ()
    ) -> None:
        """Assign in parallel, leaving out what is in place already.

        Variables of tensors that the nodes ``made`` are deleted after that.
        """
        pairs = [(name, self.whole(value)) for name, value in zip(targets, values, strict=True)]
        moved = [position for position, (name, text) in enumerate(pairs) if name != text]
        if not moved:
            return
        names, texts = zip(*(pairs[position] for position in moved), strict=True)
        self.line(f"{', '.join(names)} = {', '.join(texts)}")
        left = [values[position] for position in moved if holds_memory(values[position].type)]
        left = [value for value in left if value.node in made and value.node.kind not in ALIASES]
        spare = dict.fromkeys(map(self.use, left)).keys() - names
        if spare:
            self._add(f"del {', '.join(sorted(spare))}")

    def _if(self, node: Node) -> None:
        if self.dispatch.opens_blocks:
            self._call_branches(node)
            return
        if self._outlined([node]):
            return
        used = [index for index, output in enumerate(node.outputs) if output in self.live_values]
        targets = [self.define(node.outputs[index]) for index in used]
        true, false = node.blocks
        before = len(self.lines)
        self.line(f"if {self._condition(node)}:")
        first = self._branch(true, targets, used)
        middle = len(self.lines)
        self.line("else:")
        second = self._branch(false, targets, used)
        if first and second:
            self._forget_lines(before)
            self._choose(node, node.outputs[used[0]], first, second)
        elif self.lines[middle + 1 :] == [_INDENT * (self.level + 1) + "pass\n"]:
            self._forget_lines(middle)

    def _condition(self, node: Node) -> str:
        """The condition of an if.

        Tracers cannot decide on a symbol, but can assume that it holds where the if does nothing
        but raise an exception otherwise.
        """
        text = self.whole(node.input)
        if self.dispatch.inlines:
            return text
        true, false = node.blocks
        does_nothing_else = not (node.outputs or true.nodes)
        fails = any(last.kind == "prim::RaiseException" for last in false.nodes[-1:])
        return self.call(assumed, text) if does_nothing_else and fails else text

    def _branch(self, block: Block, targets: Sequence[str], used: Sequence[int]) -> str | None:
        """Write a branch. Returns the text of its one result, if it has no statements."""
        results = [block.returns[index] for index in used]
        before = len(self.lines)
        with self._indented():
            self._spend(block.nodes)
            self._nodes(block.nodes, block.return_node)
            is_empty = len(self.lines) == before
            self._move(targets, results, block.nodes)
        return self.use(results[0]) if is_empty and len(results) == 1 else None

    def _forget_lines(self, start: int) -> None:
        del self.lines[start:], self.places[start:]

    def _choose(self, node: Node, chosen: Value, first: str, second: str) -> None:
        """Write a conditional expression, where neither branch does anything else.

        It becomes ``and`` or ``or`` where these mean the same.
        """
        target, condition = self.text[chosen], self.use(node.input)
        text = f"{first} if {condition} else {second}"
        if node.input in self.folded:
            condition = self.whole(node.input)
            if second == "False":
                text = condition if first == "True" else f"({condition}) and {first}"
            elif first == "True":
                text = f"({condition}) or {second}"
        if not (chosen.type in SCALARS and self.fold(chosen, text, self._here)):
            self.line(f"{target} = {text}")

    def _call_branches(self, node: Node) -> None:
        """Call the function of one branch by way of the export, which may hold both."""
        used = [index for index, output in enumerate(node.outputs) if output in self.live_values]
        params, texts = self._outside([node])
        true, false = (
            self._block_function(block, params, [block.returns[index] for index in used], texts)
            for block in node.blocks
        )
        raising = next((str(not at) for at, b in enumerate(node.blocks) if _raises(b)), "None")
        call = self.call(chosen, self.whole(node.input), true, false, _tuple_of(params), raising)
        self._take([node.outputs[index] for index in used], call)

    def _call_body(self, node: Node) -> None:
        """Call the function of a loop's body by way of the export, which may hold the loop."""
        (body,) = node.blocks
        count, condition = node.inputs[:2]
        rows = [
            row for row in carried_values(node)
            if row.output in self.live_values or row.param in self.live_values
        ]  # fmt: skip
        params, texts = self._outside([node])
        own = (body.params[0], *(row.param for row in rows))
        texts |= {param: self.define(param) for param in own}
        results = [body.returns[0], *(row.last for row in rows)]
        name = self._block_function(body, [*(texts[p] for p in own), *params], results, texts)
        turns = self.whole(count) if has_trip_count(node) else "None"
        first = _tuple_of([self.use(row.first) for row in rows])
        shows_turn = str(body.params[0] in self.live_values)
        call = self.call(
            repeated, turns, self.use(condition), name, first, _tuple_of(params), shows_turn
        )
        self._take([row.output for row in rows], call)

    def _block_function(
        self,
        block: Block,
        params: Sequence[str],
        results: Sequence[Value],
        texts: Mapping[Value, str],
    ) -> str:
        """Make a function of a block; return its name."""
        name = self.names.unique(f"{self.function.name}_block")
        part = _Part(name, params, block.nodes, results, texts, block.return_node, block)
        self._parts.append(part)
        return name

    def _take(self, outputs: Sequence[Value], call: str) -> None:
        """Unpack a tuple of results."""
        self.line(f"({self._targets(outputs)},) = {call}" if outputs else call)

    def _loop(self, node: Node) -> None:
        if self.dispatch.opens_blocks:
            self._call_body(node)
            return
        if self._outlined([node]):
            return
        (body,) = node.blocks
        targets, first, last = self._carried(node)
        self._move(targets, first)
        count, condition = node.inputs[:2]
        is_endless = is_constant_true(condition) and is_constant_true(body.returns[0])
        if not is_endless:
            keep = self.names.unique("proceed")
            self._move([keep], [condition])
            targets, last = [keep, *targets], [body.returns[0], *last]
        if has_trip_count(node) or body.params[0] in self.live_values:
            counter = self._targets(body.params[:1])
            self.ranges[body.params[0]] = TURNS
            self.line(f"for {counter} in {self.globals.name('range', range)}({self.whole(count)}):")
            guard = "" if is_endless else f"if not {keep}:"
        else:
            self.line(f"while {'True' if is_endless else keep}:")
            guard = ""
        with self._indented():
            if guard:
                self.line(guard)
                with self._indented():
                    self.line("break")
            self._spend(body.nodes, turns=1)
            self._nodes(body.nodes, body.return_node, body.params[1:])
            self._move(targets, last, body.nodes)

    def _carried(self, node: Node) -> tuple[list[str], list[Value], list[Value]]:
        """The variables that a loop carries, their first values, and those of the next turn."""
        targets, first, last = [], [], []
        for before, param, after, output in carried_values(node):
            if output not in self.live_values and param not in self.live_values:
                continue
            name = self._taken_over(before) or self.names.unique(
                output.name or param.name or "carried"
            )
            self.text[output] = self.text[param] = name
            targets.append(name)
            first.append(before)
            last.append(after)
        return targets, first, last

    def _taken_over(self, value: Value) -> str | None:
        """The variable of a value that a loop can take over for one that it carries, else None."""
        text = self.use(value)
        is_own = value in self.ending or value.node in self._here
        if len(value.uses) > 1 or not is_own or value.node.kind in ALIASES | {"prim::Constant"}:
            return None
        if not text.isidentifier() or value.node in self.on_numbers or text in self._shared:
            return None
        self.passed_on.add(value)
        return text

    def _unpack_tuple(self, node: Node) -> None:
        if node.outputs:
            self.line(f"({self._targets(node.outputs)},) = {self.use(node.input)}")

    def _unpack_list(self, node: Node) -> None:
        items, count = self.use(node.input), len(node.outputs)
        text = self.call(unpack_list, items, str(count))
        if node.input.node.schema is not None and items.isidentifier():
            length = self.globals.name("len", len)
            text = f"{items} if {length}({items}) == {count} else {text}"
        targets = f"({self._targets(node.outputs)},) = " if node.outputs else ""
        self.line(targets + text)

    def _set_attr(self, node: Node) -> None:
        kind, key = self.slot(node)
        target, value = self.receiver(node.inputs[0]), self.use(node.inputs[1])
        check = _TABLE_CHECKS.get(kind)
        if check is not None:
            value = self.call(check, value)
        self.line(f"{target}.{kind.value}[{key!a}] = {value}")

    def _closure(self, node: Node) -> None:
        subgraph: Block = node.attributes["subgraph"]
        callee = self.names.unique(f"{self.function.name}_{node.kind.rpartition('::')[2]}")
        for param, value in zip(subgraph.params, node.inputs, strict=True):
            tensor = self.known_tensor(value)
            if tensor is not None:
                self.known[param] = tensor
        self.add_graph(callee, subgraph)
        if self.dispatch.bounded is not None:
            # Deferred code may run after the call has ended.
            bounded = self.globals.name("bounded", self.dispatch.bounded)
            callee = f"{bounded}({callee})"
        text = self.call(_CLOSURES[node.kind], callee, *map(self.use, node.inputs))
        self.line(f"{self._targets(node.outputs)} = {text}")

    def _with(self, nodes: Sequence[Node]) -> None:
        """Write code between Enter and Exit; ``__exit__`` always gets Nones."""
        if self._outlined(nodes):
            return
        enter, *inside, _ = nodes
        manager = self.receiver(enter.input)
        target = f"{self._targets(enter.outputs)} = " if enter.output in self.live_values else ""
        start, end = (self.method_name(enter, name) for name in ("__enter__", "__exit__"))
        self.line(f"{target}{start}({manager})")
        leave = f"{end}({manager}, None, None, None)"
        self.line("try:")
        with self._indented(), self._casting(enter.input):
            self._nodes(inside)
        self.line(f"except {self.globals.name('BaseException', BaseException)}:")
        with self._indented():
            self.line(leave)
            self.line("raise")
        self.line(leave)

    @contextmanager
    def _casting(self, manager: Value) -> Iterator[None]:
        if not is_autocast(manager.type):
            yield
            return
        self.line(f"with {self.globals.name('autocast', autocast)}({self.use(manager)}):")
        with self._indented():
            yield

    def _outlined(self, nodes: Sequence[Node]) -> bool:
        """Make a function of code that is nested too deeply; false where it is not."""
        if self.level <= _DEEPEST:
            return False
        inside = set(all_nodes(nodes))
        params, texts = self._outside(nodes)
        results = [
            output
            for node in nodes
            for output in node.outputs
            if output in self.live_values and any(user not in inside for user, _ in output.uses)
        ]
        name = self.names.unique(f"{self.function.name}_part")
        self._parts.append(_Part(name, params, nodes, results, texts))
        target = f"{self._targets(results)} = " if results else ""
        self.line(f"{target}{name}({', '.join(params)})")
        return True

    def _outside(self, nodes: Sequence[Node]) -> tuple[list[str], dict[Value, str]]:
        """The variables that nodes use and do not define, and the texts of such values."""
        # Values without a text are used by dead code only.
        free = _free_values(nodes, set(all_nodes(nodes)))
        texts = {value: self.text[value] for value in free if value in self.text}
        params = dict.fromkeys(text for text in texts.values() if text.isidentifier())
        return [text for text in params if not keyword.iskeyword(text)], texts


def _tuple_of(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)},)" if texts else "()"


def _raises(block: Block) -> bool:
    """Return whether a block always ends with an exception."""
    return any(
        node.kind == "prim::RaiseException"
        or (node.kind == "prim::If" and all(map(_raises, node.blocks)))
        for node in block.nodes
    )


def _free_values(nodes: Sequence[Node], inside: set[Node]) -> Iterator[Value]:
    """The values that ``nodes`` use and do not define, each once, without constants."""
    own_params = {param for node in inside for block in node.blocks for param in block.params}
    seen: set[Value] = set()
    for node in all_nodes(nodes):
        for value in node.inputs:
            if value in seen or value in own_params or value.node in inside:
                continue
            seen.add(value)
            if not value.node.is_constant:
                yield value


# Python code calls methods of the entries of these tables.
_TABLE_CHECKS: Final[dict[SlotKind, Callable[[Any], Any]]] = {
    SlotKind.PARAMETER: as_tensor,
    SlotKind.BUFFER: as_tensor,
    SlotKind.MODULE: as_submodule,
}
_CLOSURES: dict[str, type] = {"prim::fork": Future, "prim::awaitable": Awaitable}
_STATEMENTS: dict[str, Callable[[_Writer, Node], None]] = {
    "prim::CallMethod": _Writer._call_method_of,
    "prim::If": _Writer._if,
    "prim::Loop": _Writer._loop,
    "prim::TupleUnpack": _Writer._unpack_tuple,
    "prim::ListUnpack": _Writer._unpack_list,
    "prim::SetAttr": _Writer._set_attr,
    "prim::fork": _Writer._closure,
    "prim::awaitable": _Writer._closure,
}
