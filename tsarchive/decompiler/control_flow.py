"""Statements: if, for, while, with, raise, assert, and the bodies of forked calls.

An if that only computes a value becomes an expression: ``a and b``, ``x if condition else y``.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Sequence

from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import (
    Block,
    Node,
    Value,
    carried_values,
    has_trip_count,
    is_constant_true,
    matching_exit,
    must_be_none,
)
from tsarchive.ir.types import BOOL, NONE
from tsarchive.run.linkage import is_autocast
from tsarchive.run.passes.liveness import all_nodes

from . import syntax
from .layout import without_markers
from .naming import identifier, members_of
from .program import Program
from .syntax import ends, move, moves, names_in
from .translation import Translation, is_call_of_init, is_call_of_setter

_LARGE_CONDITION = 6


def translate_nodes(translation: Translation, nodes: Sequence[Node]) -> None:
    """Write the statements of nodes in their order."""
    position = 0
    while position < len(nodes):
        node = nodes[position]
        if node.kind == "prim::Enter":
            end = matching_exit(nodes, position)
            _with(translation, nodes[position : end + 1])
            position = end
        elif node in translation.live_nodes and not node.is_constant:
            _translate(translation, node)
        position += 1


def _translate(translation: Translation, node: Node) -> None:
    if is_call_of_init(node):
        _construct(translation, node)
    elif is_call_of_setter(node):
        _set_attr(translation, node)
        translation.known[node.output] = syntax.literal(None)
    elif node.kind != "prim::CreateObject" or not _is_constructed(translation, node):
        _BY_KIND.get(node.kind, Translation.simple)(translation, node)


def _is_constructed(translation: Translation, node: Node) -> bool:
    """Return whether an object is first used by its ``__init__``, whose call stands for both."""
    value = node.output
    users = [user for user, _ in translation.uses_of(value)]
    inits = [user for user in users if is_call_of_init(user) and user.input is value]
    if len(inits) != 1 or inits[0] not in translation.block.nodes:
        return False
    if any(used is value for used in inits[0].inputs[1:]):
        return False
    start = translation.live_ranges.start
    return all(start(user).number >= start(inits[0]).number for user in users)


def _construct(translation: Translation, node: Node) -> None:
    made = node.input
    if made in translation.known or any(made is value for value, _ in translation.waiting):
        translation.simple(node)
        return
    arguments = translation.operands(node, range(1, len(node.inputs)))
    class_ = translation.program.reference(made.type)
    shown = syntax.call(class_, arguments)
    translation.flush()
    if len(translation.uses_of(made)) == 1:
        translation.emit(ast.Expr(shown), node)
        return
    name = translation.define(made, translation.live_ranges.start(node))
    translation.emit(syntax.assign([name], shown), node)


def _if(translation: Translation, node: Node) -> None:
    (condition,) = translation.operands(node)
    translation.flush()
    used = [i for i, output in enumerate(node.outputs) if translation.is_live(output)]
    targets: list[str] = []
    behind = translation.live_ranges.end(node)
    for index in used:
        targets.append(translation.choose(node.outputs[index], behind, targets))
    branches = [_branch(translation, block, used, targets) for block in node.blocks]
    if len(used) == 1:
        shown = _as_expression(node.outputs[used[0]], condition, branches, targets[0])
        if shown is not None:
            translation.keep(node.outputs[used[0]], shown)
            return
    bodies = [_assigned(statements, targets, values) for statements, values in branches]
    translation.comment(node)
    for index, name in zip(used, targets, strict=True):
        translation.hold(name, node.outputs[index])
    _emit_if(translation, condition, bodies)


def _emit_if(translation: Translation, condition: ast.expr, bodies: list[list[ast.stmt]]) -> None:
    body, other = bodies
    if not body:
        condition, body, other = _negated(condition), other, body
    if not body:
        translation.statements.append(ast.Expr(condition))
        return
    shown = _assertion(condition, body, other)
    if shown is not None:
        translation.statements += shown
        return
    if ends(body):
        translation.statements += [ast.If(condition, body, []), *other]
        return
    translation.statements.append(ast.If(condition, body, other))


_Branch = tuple[list[ast.stmt], list[ast.expr]]


def _branch(
    translation: Translation, block: Block, used: Sequence[int], targets: Sequence[str]
) -> _Branch:
    results = [block.returns[index] for index in used]
    with translation.wishing(results, targets), translation.inside(block) as statements:
        translate_nodes(translation, block.nodes)
        values = translation.operands(block.return_node, used)
        translation.flush()
    return statements, values


def _assigned(
    statements: list[ast.stmt], targets: Sequence[str], values: Sequence[ast.expr]
) -> list[ast.stmt]:
    """Return statements that also assign their results, unless they raise before."""
    return statements if ends(statements) else [*statements, *moves(targets, values)]


def _loop(translation: Translation, node: Node) -> None:
    (body,) = node.blocks
    condition = node.inputs[1]
    is_counted = has_trip_count(node) or translation.is_live(body.params[0])
    is_endless = is_constant_true(condition) and is_constant_true(body.returns[0])
    if is_counted and not is_endless:
        raise translation.unsupported("has a loop with a count and a condition")
    element = _element(translation, node) if is_counted else None
    shown = translation.operands(node, [0 if is_counted else 1])
    if element is not None:
        shown = _bounds(shown[0])
    targets = _carry(translation, node, shown)
    if is_counted:
        _for(translation, node, targets, shown, element or body.params[0])
    elif is_endless:
        statements = _endless_body(translation, node, targets)
        translation.emit(ast.While(syntax.literal(True), statements, []), node)
    else:
        _while(translation, node, targets, shown[0])


def _carry(translation: Translation, node: Node, header: list[ast.expr]) -> dict[int, str]:
    """Assign the carried values to variables, which are returned by position.

    Expressions of the loop's ``header`` that read such variables are computed first.
    """
    translation.flush()
    (body,) = node.blocks
    targets: dict[int, str] = {}
    first: list[ast.expr] = []
    point = translation.live_ranges.start(node)
    for index, (before, param, _, output) in enumerate(carried_values(node)):
        if not translation.is_carried(node, index):
            continue
        named = param if output.name is None and param.name is not None else output
        candidate = translation.candidate(named)
        taken = list(targets.values())
        targets[index] = translation.variables.choose(candidate, point, besides=taken)
        first.append(translation.use(before))
    moved = moves(list(targets.values()), first)
    if moved and any(names_in(shown) & set(targets.values()) for shown in header):
        for position, shown in enumerate(header):
            name = translation.variables.new("bound")
            translation.emit(syntax.assign([name], shown))
            header[position] = syntax.name(name)
    for statement in moved:
        translation.emit(statement)
    for index, name in targets.items():
        translation.hold(name, node.outputs[index])
        translation.hold(name, body.params[index + 1])
    return targets


def _loop_body(
    translation: Translation, node: Node, targets: dict[int, str]
) -> tuple[list[ast.stmt], ast.expr | None, list[ast.expr]]:
    """Return the statements of the body, the condition at its end, and the carried values there.

    The condition is None where it is always true.
    """
    (body,) = node.blocks
    used = [index + 1 for index in targets]
    results = [body.returns[index] for index in used]
    wished = translation.wishing(results, list(targets.values()))
    condition: ast.expr | None = None
    with wished, translation.inside(body) as statements:
        translate_nodes(translation, body.nodes)
        if is_constant_true(body.returns[0]):
            values = translation.operands(body.return_node, used)
        else:
            condition, *values = translation.operands(body.return_node, [0, *used])
        translation.flush()
    for index, name in targets.items():
        translation.hold(name, node.outputs[index])
    return statements, condition, values


def _endless_body(translation: Translation, node: Node, targets: dict[int, str]) -> list[ast.stmt]:
    """Return the body of a loop without a condition, with its assignments at the end."""
    statements, _, values = _loop_body(translation, node, targets)
    return _assigned(statements, list(targets.values()), values) or [ast.Pass()]


def _for(
    translation: Translation,
    node: Node,
    targets: dict[int, str],
    shown: Sequence[ast.expr],
    counter: Value,
) -> None:
    name = "_"
    if translation.is_live(counter):
        point = translation.live_ranges.start(node.blocks[0].param_node)
        name = translation.define(counter, point, list(targets.values()))
    statements = _endless_body(translation, node, targets)
    called = syntax.call(syntax.builtin("range"), shown)
    translation.emit(ast.For(ast.Name(name, ast.Store()), called, statements, []), node)


def _while(translation: Translation, node: Node, targets: dict[int, str], first: ast.expr) -> None:
    """Write ``while condition:``, or take a variable where turns compute it differently."""
    statements, condition, values = _loop_body(translation, node, targets)
    assert condition is not None
    moved = moves(list(targets.values()), values)
    changed = set().union(*map(names_in, moved))
    is_same, is_true = syntax.same(first, condition), syntax.same(first, syntax.literal(True))
    if (is_same or is_true) and not changed & names_in(condition):
        leave = [] if is_same else [ast.If(_negated(condition), [ast.Break()], [])]
        body = [*statements, *moved, *leave] or [ast.Pass()]
        translation.emit(ast.While(first, body, []), node)
        return
    keep = translation.variables.new("proceed")
    translation.emit(syntax.assign([keep], first))
    both = move([keep, *targets.values()], [condition, *values])
    assert both is not None
    translation.emit(ast.While(syntax.name(keep), [*statements, both], []), node)


def _element(translation: Translation, loop: Node) -> Value | None:
    """Return the element of ``range(low, high, step)`` that each turn makes of its counter.

    None for a loop that only counts. The length of the range must be the last that was computed.
    """
    length, users = loop.inputs[0].node, [use.user for use in loop.blocks[0].params[0].uses]
    if length.kind != "aten::__range_length":
        return None
    if len(users) != 1 or users[0].kind != "aten::__derive_index":
        return None
    (derived,) = users
    if derived.inputs[1] is not length.inputs[0] or derived.inputs[2] is not length.inputs[2]:
        return None
    is_last = bool(translation.waiting) and translation.waiting[-1][0] is length.output
    if not is_last or derived not in loop.blocks[0].nodes or derived not in translation.live_nodes:
        return None
    translation.live_nodes.discard(derived)
    return derived.output


def _bounds(length: ast.expr) -> list[ast.expr]:
    """Return the arguments of range, from the expression for its length."""
    match length:
        case ast.Call(_, [low, high, ast.Constant(1)]):
            return [low, high]
        case ast.Call(_, arguments):
            return list(arguments)
    raise AssertionError("the length of a range is a call")


def _with(translation: Translation, nodes: Sequence[Node]) -> None:
    enter, *inside, _ = nodes
    manager = enter.input
    (shown,) = translation.operands(enter)
    translation.flush()
    type_ = manager.type
    if not isinstance(type_, ClassType) or type_.is_native:
        raise translation.unsupported("enters an object of no class")
    if is_autocast(type_):
        shown = syntax.form("casting(_0)", shown)
    elif type_.methods["__exit__"].schema.return_type != NONE:
        shown = syntax.form("entered(_0)", shown)
    variable: ast.expr | None = None
    if translation.is_live(enter.output):
        variable = ast.Name(translation.define(enter.output), ast.Store())
    translation.comment(enter)
    outer = translation.statements
    translation.statements = []
    translate_nodes(translation, inside)
    translation.flush()
    body = translation.statements or [ast.Pass()]
    translation.statements = outer
    translation.statements.append(ast.With([ast.withitem(shown, variable)], body))


def _unpack(translation: Translation, node: Node) -> None:
    (shown,) = translation.operands(node)
    if node.outputs:
        translation.unpack(node, shown)


def _set_attr(translation: Translation, node: Node) -> None:
    """Assign to an attribute or, for a call of its setter, to a property."""
    owner = node.input.type
    assert isinstance(owner, ClassType)
    members = members_of(owner)
    base, value = translation.operands(node)
    if node.kind == "prim::SetAttr":
        place = members.reach(base, node.name)
    else:
        place = syntax.attribute(base, members.methods[node.name])
    translation.emit(syntax.store(place, value), node)


def _raise(translation: Translation, node: Node) -> None:
    """Write ``raise ValueError(message)``, with a class of the package where Python has none."""
    message, class_ = translation.operands(node)[0], node.inputs[1]
    text = _assertion_text(message) if must_be_none(class_) else None
    if text is not None:
        form = "raise AssertionError()" if _is_empty(text) else "raise AssertionError(_0)"
        translation.emit(syntax.statement(form, text), node)
    elif must_be_none(class_) or not class_.node.is_constant:
        translation.emit(syntax.statement("raise RuntimeError(_0)", message), node)
    else:
        raised = _exception(translation.program, class_.constant)
        translation.emit(syntax.statement("raise _0(_1)", raised, message), node)


def _exception(program: Program, qualified_name: str) -> ast.expr:
    """Return the class of an exception."""
    module, _, name = qualified_name.rpartition(".")
    found = getattr(builtins, name, None)
    if module in ("builtins", "") and isinstance(found, type) and issubclass(found, Exception):
        return syntax.builtin(name)
    shown = identifier(name, private=False)
    program.exceptions.setdefault(shown)
    return syntax.imported(EXCEPTIONS, shown)


def _closure(translation: Translation, node: Node) -> None:
    """Write a function of the values that it takes from outside, and the object that runs it."""
    translation.flush()
    subgraph: Block = node.attributes["subgraph"]
    kind = node.kind.rpartition("::")[2]
    arguments = [translation.use(value) for value in node.inputs]
    name = translation.variables.new(f"{kind}_body")
    inner = Translation(translation.function, subgraph, translation.program)
    names = [inner.variables.parameter(p, p.name or "value") for p in subgraph.params]
    for param, shown in zip(subgraph.params, names, strict=True):
        inner.hold(shown, param)
    finish_function(inner, subgraph)
    translation.variables.used |= inner.variables.used
    parameters = [ast.arg(shown) for shown in names]
    translation.emit(syntax.function(name, parameters, [], inner.statements, None))
    class_ = syntax.helper(f"futures::{_CLOSURES[node.kind]}")
    translation.finish(node, syntax.call(class_, [syntax.name(name), *arguments]), ())


def finish_function(translation: Translation, block: Block, index: int = 0) -> None:
    """Write the statements of a function's block and the return of its result.

    Where the result is that of an if at the end, each branch returns.
    """
    result = block.returns[index]
    last = _last_if(translation, block, result)
    if last is None:
        translate_nodes(translation, block.nodes)
        _return(translation, block, index)
        return
    translate_nodes(translation, block.nodes[: block.nodes.index(last)])
    (condition,) = translation.operands(last)
    translation.flush()
    translation.comment(last)
    bodies = []
    for inner in last.blocks:
        with translation.inside(inner) as statements:
            finish_function(translation, inner, last.outputs.index(result))
            bodies.append(statements)
    _emit_if(translation, condition, bodies)


def _last_if(translation: Translation, block: Block, result: Value) -> Node | None:
    """Return the if at the end of a block whose only use is to make the result."""
    node = result.node
    if node.kind != "prim::If" or node not in block.nodes or len(result.uses) != 1:
        return None
    behind = block.nodes[block.nodes.index(node) + 1 :]
    if any(other in translation.live_nodes and not other.is_constant for other in behind):
        return None
    others = [output for output in node.outputs if output is not result]
    if any(translation.is_live(output) for output in others):
        return None
    size = sum(inner.kind != "prim::Constant" for inner in all_nodes([node]))
    return node if size > _LARGE_CONDITION else None


def _return(translation: Translation, block: Block, index: int = 0) -> None:
    (shown,) = translation.operands(block.return_node, [index])
    translation.flush()
    if ends(translation.statements):
        return
    if not isinstance(shown, ast.Name | ast.Constant):
        translation.comment(block.returns[index].node)
    translation.statements.append(ast.Return(shown))


_CLOSURES = {"prim::fork": "Future", "prim::awaitable": "Awaitable"}
_BY_KIND: dict[str, Callable[[Translation, Node], None]] = {
    "prim::If": _if,
    "prim::Loop": _loop,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::SetAttr": _set_attr,
    "prim::RaiseException": _raise,
    "prim::fork": _closure,
    "prim::awaitable": _closure,
}


_KEY = re.compile(r"@[\w.:]*")
_LONGEST = 60
_LONGEST_NAMED = 40
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def _negated(condition: ast.expr) -> ast.expr:
    match condition:
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Compare(left, [sign], [right]) if type(sign) in _OPPOSITE:
            return ast.Compare(left, [_OPPOSITE[type(sign)]()], [right])
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
    return ast.UnaryOp(ast.Not(), condition)


def _as_expression(
    result: Value, condition: ast.expr, branches: Sequence[_Branch], target: str
) -> ast.expr | None:
    """Return the expression for an if that only computes ``result``; None for statements."""
    if any(statements for statements, _ in branches):
        return None
    (then,), (other,) = (values for _, values in branches)
    if result.type == BOOL:
        found = _boolean(condition, then, other)
        if found is not None:
            return found
    limit = _LONGEST if result.name is None else _LONGEST_NAMED
    if any(isinstance(value, ast.Name) and value.id == target for value in (then, other)):
        return None
    if _length(then) > limit or _length(other) > limit:
        return None
    return ast.IfExp(condition, then, other)


def _length(node: ast.expr) -> int:
    """Return the length of the text, with the names of globals and not their keys."""
    return len(_KEY.sub("", ast.unparse(node)))


def _boolean(condition: ast.expr, then: ast.expr, other: ast.expr) -> ast.expr | None:
    match then, other:
        case ast.Constant(True), ast.Constant(False):
            return condition
        case ast.Constant(False), ast.Constant(True):
            return _negated(condition)
        case _, ast.Constant(False):
            return _joined(ast.And, condition, then)
        case ast.Constant(True), _:
            return _joined(ast.Or, condition, other)
        case ast.Constant(False), _:
            return _joined(ast.And, _negated(condition), other)
        case _, ast.Constant(True):
            return _joined(ast.Or, _negated(condition), then)
    return None


def _joined(kind: type[ast.boolop], first: ast.expr, second: ast.expr) -> ast.expr:
    parts: list[ast.expr] = []
    for part in (first, second):
        is_same = isinstance(part, ast.BoolOp) and type(part.op) is kind
        parts += part.values if is_same and isinstance(part, ast.BoolOp) else [part]
    return ast.BoolOp(kind(), parts)


_ASSERTION = "AssertionError: "
_FAILED = "AssertionError"
EXCEPTIONS = "_exceptions"


def _assertion_text(message: ast.expr) -> ast.expr | None:
    """Return the text of an assertion that failed, None for other messages."""
    match message:
        case ast.Constant(str() as text) if text.startswith(_ASSERTION):
            return syntax.literal(text.removeprefix(_ASSERTION))
        case ast.BinOp(ast.Constant(str() as text), ast.Add(), rest) if text == _ASSERTION:
            return rest
    return None


def _assertion(
    condition: ast.expr, body: Sequence[ast.stmt], other: list[ast.stmt]
) -> list[ast.stmt] | None:
    """Return an ``assert`` for an if that only fails, and what follows if it does not."""
    if len(without_markers(body)) != 1:
        return None
    match body[-1]:
        case ast.Raise(ast.Call(ast.Name(name), arguments)) if name.startswith(f"{_FAILED}@"):
            pass
        case _:
            return None
    text = None if not arguments or _is_empty(arguments[0]) else arguments[0]
    return [ast.Assert(_negated(condition), text), *other]


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""
