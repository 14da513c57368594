"""Translates the graph of a function to statements of a Python function.

Nodes are taken in order. An expression waits until the node that uses it is met, and becomes part
of that one's expression when nothing else was computed in between; otherwise it gets a variable.
So everything is computed in the order of the archive's code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block, Node, Value, carried_index
from tsarchive.operators.python_forms import READABLE_FORMS, READABLE_STATEMENTS
from tsarchive.run.checks import enum_names
from tsarchive.run.operators import find_native
from tsarchive.run.passes.liveness import Liveness
from tsarchive.run.passes.uses import all_nodes

from . import syntax
from .code_motion import Movable, dtype_values
from .expressions import Expressions
from .live_ranges import LiveRanges, Point
from .operators import Operators, known_number
from .program import Program
from .variables import Variables

_CAPTURING = frozenset({"prim::fork", "prim::awaitable"})
# Expressions that nest deeper are hard to read, and at some depth Python refuses them.
_DEEPEST = 16
_DEPTH = "nesting_depth"
_D = TypeVar("_D", bound=ast.AST)
_NAME_OF_KIND = {
    "prim::ListConstruct": "items",
    "prim::DictConstruct": "mapping",
    "prim::TupleConstruct": "pair",
    "prim::If": "result",
    "prim::Loop": "carried",
    "prim::CallFunction": "result",
    "prim::CreateObject": "made",
    "prim::TupleUnpack": "item",
    "prim::TupleIndex": "item",
    "prim::ListUnpack": "item",
    "prim::isinstance": "is_instance",
    "aten::__getitem__": "item",
    "aten::__isnot__": "is_not_none",
    "aten::__is__": "is_none",
}
_NAME_OF_OPERATOR = {
    "size": "n", "len": "n", "format": "text", "str": "text", "to": "converted", "select": "item",
    "slice": "part", "dim": "n_dim", "item": "number", "Int": "number", "Float": "number",
}  # fmt: skip


class Translation(Expressions):
    """The state of translating one function: its variables, and the expressions that wait."""

    def __init__(self, function: Function, graph: Block, program: Program) -> None:
        live, nodes = Liveness(graph, program.effects), list(all_nodes(graph.nodes))
        operators = Operators(function, program, _dtypes(nodes))
        unchanged = program.identities.of(graph, live.nodes, known_number)
        super().__init__(function, program, operators, live.values, unchanged)
        self.comments = program.comments
        self.live_nodes = live.nodes
        self.movable = Movable(program.assigned)
        self.live_ranges = LiveRanges(graph, self.live_nodes, self.movable)
        self.variables = Variables(self.live_ranges, _names(graph, nodes))
        self._owners = {block.return_node: node for node in nodes for block in node.blocks}
        self.statements: list[ast.stmt] = []
        self.waiting: list[tuple[Value, ast.expr]] = []
        self.wishes: dict[Value, str] = {}
        self.block = graph

    def uses_of(self, value: Value) -> list[tuple[Node, int]]:
        """The uses of a value by code that runs."""
        return [use for use in value.uses if self._counts(*use)]

    def _counts(self, user: Node, offset: int) -> bool:
        carried = carried_index(user, offset)
        if carried is not None:
            return user in self.live_nodes and self.is_carried(user, carried)
        if user.kind != "prim::Return":
            return user in self.live_nodes
        owner = self._owners.get(user)
        if owner is None:
            return True
        if owner.kind == "prim::Loop":
            return offset == 0 or self.is_carried(owner, offset - 1)
        return self.is_live(owner.outputs[offset])

    def is_carried(self, loop: Node, index: int) -> bool:
        """Whether anything reads a value that a loop carries."""
        return self.is_live(loop.outputs[index]) or self.is_live(loop.blocks[0].params[index + 1])

    def emit(self, statement: ast.stmt, node: Node | None = None) -> None:
        """Add a statement after all waiting expressions."""
        self.flush()
        if node is not None:
            comment = self.comments.before(node)
            if comment is not None:
                self.statements.append(comment)
        self.statements.append(statement)

    def flush(self) -> None:
        """Assign all waiting expressions to variables."""
        waiting, self.waiting = self.waiting, []
        for value, shown in waiting:
            self._assign(value, shown)

    def _assign(self, value: Value, shown: ast.expr) -> None:
        name = self.define(value)
        comment = self.comments.before(value.node)
        if comment is not None:
            self.statements.append(comment)
        self.statements.append(syntax.assign([name], shown))

    def define(self, value: Value, point: Point | None = None, besides: Sequence[str] = ()) -> str:
        """A variable for a new value."""
        if point is None:
            is_if = value.node.kind == "prim::If"
            point = (self.live_ranges.end if is_if else self.live_ranges.start)(value.node)
        name = self.variables.choose(
            self.candidate(value), point, besides=besides, wish=self.wishes.get(value, "")
        )
        self.hold(name, value)
        return name

    def hold(self, name: str, value: Value) -> None:
        self.variables.hold(name, value)
        self.known[value] = syntax.name(name)

    def candidate(self, value: Value) -> str:
        if value.name is not None:
            return value.name
        node = value.node
        if node.kind in _NAME_OF_KIND:
            return _NAME_OF_KIND[node.kind]
        if "name" in node.attributes:
            return node.name
        shown = node.kind.rpartition("::")[2].strip("_")
        return _NAME_OF_OPERATOR.get(shown, shown)

    def operands(self, node: Node, offsets: Sequence[int] | None = None) -> list[ast.expr]:
        """The expressions of the inputs; waiting ones are used where the order allows it."""
        chosen = range(len(node.inputs)) if offsets is None else offsets
        taken: dict[int, ast.expr] = {}
        for offset in reversed(chosen):
            value = node.inputs[offset]
            if self.waiting and self.waiting[-1][0] is value:
                taken[offset] = self.waiting.pop()[1]
            elif any(value is waiting for waiting, _ in self.waiting):
                self.flush()
        return [taken[i] if i in taken else self.use(node.inputs[i]) for i in chosen]

    def settled_operands(self, node: Node) -> list[ast.expr]:
        """The inputs as variables and constants, which may be evaluated in any order."""
        self.flush()
        return [self.use(value) for value in node.inputs]

    def simple(self, node: Node) -> None:
        """A node without blocks of its own."""
        is_reordered = _is_out_of_order(node)
        arguments = self.settled_operands(node) if is_reordered else self.operands(node)
        if node.schema is not None and node.schema.full_name in READABLE_STATEMENTS:
            self._statement(node, READABLE_STATEMENTS[node.schema.full_name], arguments)
            return
        self.finish(node, self.expression(node, arguments), arguments)

    def finish(self, node: Node, shown: ast.expr, arguments: Sequence[ast.expr]) -> None:
        """Keep the expression of a node for its user, or give its results variables."""
        live = [output for output in node.outputs if self.is_live(output)]
        if not live:
            if not isinstance(shown, ast.Name | ast.Constant):
                self.emit(syntax.expression_statement(shown), node)
            return
        if len(node.outputs) > 1:
            self.unpack(node, shown)
            return
        if all(shown is not argument for argument in arguments):
            depth = 1 + max((getattr(argument, _DEPTH, 0) for argument in arguments), default=0)
            setattr(shown, _DEPTH, depth)
        if self.movable(node) and all(map(self._is_at_hand, node.inputs, arguments)):
            self.known[node.output] = shown
        else:
            self.keep(node.output, shown)

    def keep(self, value: Value, shown: ast.expr) -> None:
        """Let an expression wait for the user of its value, or assign it."""
        if self._waits(value) and getattr(shown, _DEPTH, 0) <= _DEEPEST:
            self.waiting.append((value, shown))
        else:
            self.flush()
            self._assign(value, shown)

    def _is_at_hand(self, value: Value, shown: ast.expr) -> bool:
        return value.node.is_constant or self.known.get(value) is shown

    def _waits(self, value: Value) -> bool:
        """Whether the only use of a value can take its expression."""
        uses = self.uses_of(value)
        if len(uses) != 1:
            return False
        user, offset = uses[0]
        if user.kind in _CAPTURING or carried_index(user, offset) is not None:
            return False
        if user is not self.block.return_node and user not in self.block.nodes:
            return False
        return value.name is None or self.is_attribute_name(value)

    def is_attribute_name(self, value: Value) -> bool:
        """Whether the name of a value is only that of the attribute it was read from."""
        node = value.node
        return node.kind == "prim::GetAttr" and (value.name or "").rstrip("0123456789") in (
            node.name, node.name.rstrip("0123456789")
        )  # fmt: skip

    def unpack(self, node: Node, shown: ast.expr) -> None:
        self.flush()
        names: list[str] = []
        for output in node.outputs:
            names.append(self.define(output, besides=names) if self.is_live(output) else "_")
        self.emit(syntax.assign(names, shown, unpack=True), node)

    def _statement(self, node: Node, form: str, arguments: Sequence[ast.expr]) -> None:
        if form == "extend":
            self._extend(node, arguments)
            return
        place = ast.Subscript(arguments[0], arguments[1], ast.Store())
        if form == "set":
            self.emit(ast.Assign([place], arguments[2], lineno=0), node)
        else:
            self.emit(ast.Delete([ast.Subscript(arguments[0], arguments[1], ast.Del())]), node)
        self._alias(node, arguments[0])

    def _extend(self, node: Node, arguments: Sequence[ast.expr]) -> None:
        extend = syntax.call(syntax.attribute(arguments[0], "extend"), [arguments[1]])
        self.emit(syntax.expression_statement(extend), node)
        self._alias(node, arguments[0])

    def _alias(self, node: Node, changed: ast.expr) -> None:
        """Assign the result of an operator that returns its first operand."""
        for output in node.outputs:
            if self.is_live(output):
                self._assign(output, changed)

    @contextmanager
    def inside(self, block: Block) -> Iterator[list[ast.stmt]]:
        """Collect the statements written inside in the list that this yields."""
        outer = self.statements, self.waiting, self.block
        self.statements, self.waiting, self.block = [], [], block
        with self.comments.nested():
            yield self.statements
        self.statements, self.waiting, self.block = outer


def _names(graph: Block, nodes: Sequence[Node]) -> Iterator[str]:
    values = [*graph.params, *(output for node in nodes for output in node.outputs)]
    values += [param for node in nodes for block in node.blocks for param in block.params]
    return (value.name for value in values if value.name is not None)


def _is_out_of_order(node: Node) -> bool:
    """Whether the Python form evaluates its operands in another order."""
    if node.schema is None:
        return False
    if node.schema.full_name in READABLE_STATEMENTS:
        return True
    form = READABLE_FORMS.get(node.schema.full_name)
    if form is None:
        return False
    numbers = syntax.parameters(form)
    return numbers != sorted(numbers)


def _dtypes(nodes: list[Node]) -> set[Value]:
    """The values that are kept as torch.dtype."""
    answers: dict[Value, list[bool]] = {}
    for node in nodes:
        if node.kind == "prim::dtype":
            answers[node.output] = [_takes_dtype(*use) for use in node.output.uses]
    return dtype_values([node for node in nodes if node.schema is not None], answers)


def _takes_dtype(user: Node, offset: int) -> bool:
    if user.schema is None or user.upgrader is not None:
        return False
    if user.schema.full_name in ("aten::eq.int", "aten::ne.int"):
        return True
    if find_native(user.schema) is not None:
        return False
    return enum_names(user.schema.full_name).get(offset) == "ScalarType"


def function_definition(
    name: str,
    arguments: list[ast.arg],
    defaults: list[ast.expr],
    body: list[ast.stmt],
    returns: ast.expr | None,
) -> ast.FunctionDef:
    given = ast.arguments([], arguments, None, [], [], None, defaults)
    made = ast.FunctionDef(name, given, body or [ast.Pass()], [], returns)
    made.lineno = 0
    return without_type_parameters(made)


def without_type_parameters(made: _D) -> _D:
    """Say that a definition has no type parameters, as Python 3.12 and later require."""
    if "type_params" in made._fields:
        setattr(made, "type_params", [])  # noqa: B010  # a field that older Pythons lack
    return made
