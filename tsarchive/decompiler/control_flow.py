"""Statements: if, for, while, with, raise, assert, ways out, and the bodies of forked calls.

An if that only computes a value becomes an expression: ``a and b``, ``x if condition else y``.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Collection, Mapping, Sequence

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
from tsarchive.ir.types import BOOL, NONE, HandleType
from tsarchive.run.linkage import is_autocast

from . import syntax
from .comments import statement_of
from .declaring import blocks_of
from .exits import HAS_ELSE
from .flow import BREAK, CONTINUE, RETURN, exits_of, is_endless, text_of
from .iteration import Target, values_of
from .layout import without_markers
from .naming import identifier, members_of
from .operators import at_tensors
from .preparing import PUT, STORE
from .program import HANDLES, Program
from .syntax import ends, move, moves, names_in
from .translation import OpenLoop, Translation, is_call_of_init, is_call_of_setter, told_targets


def translate_nodes(translation: Translation, nodes: Sequence[Node]) -> None:
    """Write the statements of nodes in their order."""
    position = 0
    while position < len(nodes):
        node = nodes[position]
        if node.kind == "prim::Enter":
            end = matching_exit(nodes, position)
            _with(translation, nodes[position : end + 1])
            position = end
        elif not node.is_constant:
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
    users = [user for user, _ in value.uses]
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
    if len(made.uses) == 1:
        translation.emit(ast.Expr(shown), node)
    else:
        translation.made(made, shown, node)


def _if(translation: Translation, node: Node) -> None:
    (condition,) = translation.operands(node)
    translation.flush()
    used = [i for i, output in enumerate(node.outputs) if translation.is_live(output)]
    targets: list[str] = []
    behind = translation.live_ranges.end(node)
    for index in used:
        targets.append(translation.choose(node.outputs[index], behind, targets))
        translation.variables.reserve(targets[-1], node.outputs[index].type)
    branches = [_branch(translation, block, used, targets) for block in node.blocks]
    if len(used) == 1:
        shown = _as_expression(node.outputs[used[0]], condition, branches, targets[0])
        if shown is not None:
            translation.keep(node.outputs[used[0]], shown)
            return
    bodies = [_assigned(statements, targets, values) for statements, values in branches]
    for index, name in zip(used, targets, strict=True):
        translation.hold(name, node.outputs[index])
    _emit_if(translation, node, condition, bodies)


def _emit_if(
    translation: Translation, node: Node, condition: ast.expr, bodies: list[list[ast.stmt]]
) -> None:
    condition, (body, other) = syntax.condition(condition), bodies
    if not without_markers(body):
        condition, body, other = syntax.negated(condition), other, body
    if not body:
        translation.statements.append(ast.Expr(condition))
        return
    shown = _assertion(condition, body, other)
    if shown is not None:
        translation.statements += shown
        return
    line = text_of(node)
    condition, body = _merged(condition, body, other, line)
    behind: list[ast.stmt] = []
    if ends(body):
        behind, other = other, behind
    other = _with_else(other)
    if [type(one) for one in without_markers(other)] in ([], [ast.If]):
        other = without_markers(other)  # ``elif`` has no place for a comment before it
    chain = _open_chain(translation.statements) if line.startswith("elif") else None
    made = ast.If(condition, body, other)
    setattr(made, _LINE, line)
    if chain is None:
        translation.comment(node)
        translation.statements.append(made)
    else:
        chain.orelse = [made]
        setattr(made, HAS_ELSE, node.attributes.get(HAS_ELSE, False))
    translation.statements += behind


def _with_else(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Let what follows an ``elif`` in the other branch of an if be its ``else``."""
    shown = without_markers(statements)
    is_elif = len(shown) > 1 and getattr(shown[0], _LINE, "").startswith("elif")
    last = _open_chain(shown[:1]) if is_elif else None
    if last is None:
        return statements
    last.orelse = statements[statements.index(shown[0]) + 1 :]
    return shown[:1]


def _close_chains(statements: list[ast.stmt]) -> None:
    """Let what follows ``if ... elif ...`` be its ``else`` again, where it was."""
    for place, statement in enumerate(statements):
        for inner in blocks_of(statement):
            _close_chains(inner)
        last = _open_chain([statement])
        if last is not None and getattr(last, HAS_ELSE, False):
            last.orelse = statements[place + 1 :]
            del statements[place + 1 :]
            return


def _merged(
    condition: ast.expr, body: list[ast.stmt], other: list[ast.stmt], line: str
) -> tuple[ast.expr, list[ast.stmt]]:
    """Return the condition ``a and b`` and the inner body of an if that holds only an if.

    Those that had lines of their own in the program keep them; ``line`` is that of the outer one.
    """
    match without_markers(body):
        case [ast.If(test=inner, body=statements, orelse=[]) as nested]:
            lines = {line, getattr(nested, _LINE, "")}
            are_apart = len(lines) > 1 and all(one.startswith(_IF_LINE) for one in lines)
            if not are_apart and not without_markers(other):
                return _joined(ast.And, condition, inner), statements
    return condition, body


_LINE = "line"
_IF_LINE = ("if ", "elif ")


def _open_chain(statements: Sequence[ast.stmt]) -> ast.If | None:
    """Return the last branch of an if at the end of statements, where all its branches leave."""
    found = statements[-1] if statements else None
    while isinstance(found, ast.If) and ends(found.body):
        if not found.orelse:
            return found
        found = found.orelse[0] if len(found.orelse) == 1 else None
    return None


# Marks an if that was ``elif``.
# Marks the way out of ``while`` where its condition is false.
_IS_HEADER = "is_header"
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
    if has_trip_count(node) or body.params[0].uses or "targets" in node.attributes:
        _for(translation, node)
    elif is_endless(node):
        _while_true(translation, node)
    else:
        _while(translation, node)


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
        targets[index] = translation.variables.choose(candidate, output.type, point, besides=taken)
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
    translation: Translation, loop: OpenLoop
) -> tuple[list[ast.stmt], ast.expr | None, list[ast.expr]]:
    """Return the statements of the body, the condition at its end, and the carried values there.

    The condition is None where it is always true.
    """
    (body,) = loop.node.blocks
    used = [index + 1 for index in loop.targets]
    results = [body.returns[index] for index in used]
    names = list(loop.targets.values())
    condition: ast.expr | None = None
    translation.loops.append(loop)
    with translation.wishing(results, names), translation.inside(body) as statements:
        translate_nodes(translation, body.nodes)
        if is_constant_true(body.returns[0]) or ends(translation.statements):
            values = translation.operands(body.return_node, used)
        else:
            condition, *values = translation.operands(body.return_node, [0, *used])
        translation.flush()
    translation.loops.pop()
    for index, name in loop.targets.items():
        translation.hold(name, loop.node.outputs[index])
    return statements, condition, values


def _end_of_turn(
    translation: Translation, loop: OpenLoop, condition: ast.expr | None, values: list[ast.expr]
) -> list[ast.stmt]:
    """Return what assigns the values of the next turn, and leaves the loop where there is none.

    The condition is None where it is always true. A loop with a variable for it asks by itself.
    """
    names = list(loop.targets.values())
    if loop.condition:
        both = move([loop.condition, *names], [condition or syntax.literal(True), *values])
        return [] if both is None else [both]
    moved = moves(names, values)
    match condition:
        case None:
            return moved
        case ast.Constant(False):
            return [*moved, ast.Break()]
    if not set().union(*map(names_in, moved)) & names_in(condition):
        return [*moved, ast.If(syntax.negated(condition), [ast.Break()], [])]
    keep = translation.variables.new("proceed")
    both = move([keep, *names], [condition, *values])
    assert both is not None
    return [both, ast.If(syntax.negated(syntax.name(keep)), [ast.Break()], [])]


def _whole_body(translation: Translation, loop: OpenLoop) -> list[ast.stmt]:
    """Return the body of a loop, with what its turns end with."""
    statements, condition, values = _loop_body(translation, loop)
    if not ends(statements):
        statements += _end_of_turn(translation, loop, condition, values)
    return statements or [ast.Pass()]


def _while_true(translation: Translation, node: Node) -> None:
    """Write a loop without a condition; a way out at its start is the condition of ``while``."""
    targets = _carry(translation, node, [])
    body = _whole_body(translation, OpenLoop(node, targets))
    condition, rest, shown = syntax.literal(True), body, without_markers(body)
    match shown[0]:
        case ast.If(found, inner, []) if _only_breaks(inner):
            condition = syntax.negated(found)
            rest = body[body.index(shown[0]) + 1 :] or [ast.Pass()]
    translation.emit(ast.While(condition, rest, []), node)


def _only_breaks(body: Sequence[ast.stmt]) -> bool:
    match without_markers(body):
        case [ast.Break() as statement]:
            return hasattr(statement, _IS_HEADER)
    return False


def _for(translation: Translation, node: Node) -> None:
    (body,) = node.blocks
    is_certain = is_constant_true(node.inputs[1])
    if not is_certain:
        translation.flush()  # the condition is asked first
    header = translation.operands(node, [0] if is_certain else [0, 1])
    if not is_certain:
        header = [ast.IfExp(header[1], header[0], syntax.literal(0))]
    targets = _carry(translation, node, header)
    point = translation.live_ranges.start(body.param_node)
    wanted = node.attributes.get("targets", body.params[0])
    if "targets" in node.attributes or _COUNTING.match(text_of(node)):
        translation.told |= told_targets(node, wanted)
    last = _last_items(node, targets, wanted)
    _wish(translation, targets, last)
    taken = [name for index, name in targets.items() if index not in last]
    target = translation.target(wanted, point, taken)
    statements = _keeping(translation, targets, last)
    others = {index: name for index, name in targets.items() if index not in last}
    rest = _whole_body(translation, OpenLoop(node, others))
    statements += [one for one in rest if not (statements and isinstance(one, ast.Pass))]
    for index in last:
        translation.hold(targets[index], node.outputs[index])
    (shown,) = header
    if "targets" not in node.attributes:
        shown = syntax.call(syntax.builtin("range"), [shown])
    if _WITH_KEYS not in text_of(node):
        target, shown = _halved(target, shown)
    is_expression = bool(text_of(node)) and not text_of(node).startswith("for")
    if is_expression and not last and _comprehension(translation, body, target, shown, statements):
        return
    translation.emit(ast.For(target, shown, statements, []), node)


_WITH_KEYS = ".items()"
_COUNTING = re.compile(r"for .+? in range\(")


def _last_items(loop: Node, carried: Collection[int], target: Target) -> dict[int, Value]:
    """Return which of the ``carried`` values are, from each turn's start, what a turn gets."""
    (body,) = loop.blocks
    exits = list(exits_of(loop))
    found: dict[int, Value] = {}
    for index in carried:
        item = body.returns[index + 1]
        given = [node.inputs[index + (node.kind == CONTINUE)] for node in exits]
        is_same = item.type == loop.outputs[index].type and all(one is item for one in given)
        if is_same and item in values_of(target) and not body.params[index + 1].uses:
            found[index] = item
    return found


def _wish(translation: Translation, targets: Mapping[int, str], last: Mapping[int, Value]) -> None:
    """Let an item of a turn be a variable that keeps it: that of its own name, if there is one."""
    for value in last.values():
        keeping = [targets[index] for index, item in last.items() if item is value]
        told = translation.candidate(value)
        translation.wishes[value] = told if told in keeping else keeping[0]


def _keeping(
    translation: Translation, targets: Mapping[int, str], last: Mapping[int, Value]
) -> list[ast.stmt]:
    """Return what assigns items of a turn to the variables that keep them."""
    names = [targets[index] for index in last]
    for name, value in zip(names, last.values(), strict=True):
        translation.variables.hold(name, value)
    return moves(names, list(map(translation.use, last.values())))


def _halved(target: ast.expr, iterable: ast.expr) -> tuple[ast.expr, ast.expr]:
    """Return what goes through the values, or the keys, of a dict where a loop uses no others."""
    match target, iterable:
        case ast.Tuple([ast.Name("_"), used]), ast.Call(ast.Attribute(owner, "items"), []):
            return used, syntax.call(syntax.attribute(owner, "values"))
        case ast.Tuple([used, ast.Name("_")]), ast.Call(ast.Attribute(owner, "items"), []):
            return used, owner
    return target, iterable


def _comprehension(
    translation: Translation,
    body: Block,
    target: ast.expr,
    iterable: ast.expr,
    statements: Sequence[ast.stmt],
) -> bool:
    """Write a loop that does nothing but fill the list or dict made before it as one expression."""
    last = body.nodes[-1] if body.nodes else None
    before = without_markers(translation.statements)
    if last is None or not before:
        return False
    found = _filled(before[-1], without_markers(statements), target, iterable)
    if found is None:
        return False
    translation.statements.remove(before[-1])
    translation.replaced(last.input, found, body)
    return True


def _filled(
    made: ast.stmt, statements: Sequence[ast.stmt], target: ast.expr, iterable: ast.expr
) -> ast.expr | None:
    """Return the comprehension for an empty container and the statements that fill it."""
    rule = ast.comprehension(target, iterable, [], 0)
    shown: ast.expr
    match made, statements:
        case (
            ast.Assign([ast.Name(name)], ast.List([])),
            [ast.Expr(ast.Call(ast.Attribute(ast.Name(filled), "append"), [item]))],
        ):
            parts, shown = [item, iterable], ast.ListComp(item, [rule])
        case (
            ast.Assign([ast.Name(name)], ast.Dict([])),
            [ast.Assign([ast.Subscript(ast.Name(filled), key)], item)],
        ) if syntax.is_atom(key):  # it is evaluated before the item there, behind it here
            parts, shown = [key, item, iterable], ast.DictComp(key, item, [rule])
        case (
            ast.Assign([ast.Name(name)], ast.Dict([])),
            [
                ast.Assign([ast.Name(variable)], key),
                ast.Assign([ast.Subscript(ast.Name(filled), ast.Name(used))], item),
            ],
        ) if used == variable not in names_in(item):
            parts, shown = [key, item, iterable], ast.DictComp(key, item, [rule])
        case _:
            return None
    is_read = any(name in names_in(part) for part in parts)
    return None if filled != name or is_read else shown


def _while(translation: Translation, node: Node) -> None:
    """Write a loop whose turns compute its condition otherwise than what stands before it."""
    header = translation.operands(node, [1])
    targets = _carry(translation, node, header)
    keep = translation.variables.new("proceed")
    translation.emit(syntax.assign([keep], header[0]))
    body = _whole_body(translation, OpenLoop(node, targets, keep))
    translation.emit(ast.While(syntax.name(keep), body, []), node)


def _leave(translation: Translation, node: Node) -> None:
    """Write ``break`` or ``continue``, with the values that the loop gives or goes on with."""
    loop = translation.loops[-1]
    assert node.attributes["loop"] is loop.node  # only the loop around it is left
    if node.kind == BREAK:
        values = translation.operands(node, list(loop.targets))
        translation.flush()
        translation.statements += moves(list(loop.targets.values()), values)
        made = ast.Break()
        if node.attributes.get("is_header"):
            setattr(made, _IS_HEADER, True)
        translation.statements.append(made)
        return
    offsets = [index + 1 for index in loop.targets]
    condition, *values = translation.operands(node, [0, *offsets])
    translation.flush()
    is_true = is_constant_true(node.input)
    translation.statements += _end_of_turn(
        translation, loop, None if is_true else condition, values
    )
    translation.statements.append(ast.Continue())


def _leave_function(translation: Translation, node: Node) -> None:
    (shown,) = translation.operands(node)
    translation.flush()
    if not ends(translation.statements):
        translation.statements.append(_return(translation, shown))


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
    items = [ast.withitem(shown, variable)]
    match body:
        case [ast.With(inner, inner_body)]:
            items, body = [*items, *inner], inner_body
    translation.statements.append(ast.With(items, body))


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
        place = members.place(base, node.name)
    else:
        place = syntax.attribute(base, members.methods[node.name])
    unpacked = translation.statements[-1] if translation.statements else None
    is_only_stored = len(node.inputs[1].uses) == 1 and not translation.waiting
    if not (is_only_stored and syntax.unpack_to(unpacked, value, place)):
        translation.emit(syntax.store(place, value), node)


def _store(translation: Translation, node: Node) -> None:
    """Assign to a part of a tensor; Python computes what is assigned first."""
    place, value = translation.in_order(node, [1, 0])
    if isinstance(place, ast.Subscript):
        place = syntax.subscript(place.value, place.slice)
    else:
        place = syntax.subscript(place, syntax.literal(...))
    translation.emit(syntax.store(place, value), node)


def _put(translation: Translation, node: Node) -> None:
    """Assign to the items of a tensor that others select."""
    last = len(node.inputs) - 1
    base, *indices, value = translation.in_order(node, [last, *range(last)])
    place = at_tensors(base, node.attributes["leading"], indices)
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
    program.exceptions.setdefault(shown, qualified_name)
    return syntax.imported(EXCEPTIONS, shown)


def _closure(translation: Translation, node: Node) -> None:
    """Write a function of the values that it takes from outside, and the object that runs it."""
    translation.flush()
    subgraph: Block = node.attributes["subgraph"]
    kind = node.kind.rpartition("::")[2]
    arguments = [translation.use(value) for value in node.inputs]
    assert isinstance(node.output.type, HandleType)
    class_ = syntax.helper(HANDLES[node.output.type.kind])
    called = _called(translation, subgraph, arguments)
    if called is not None:
        translation.finish(node, syntax.call(class_, called), ())
        return
    name = translation.variables.new(f"{kind}_body")
    inner = Translation(translation.function, subgraph, translation.program)
    subgraph = inner.graph
    names = [inner.variables.parameter(p, p.name or "value") for p in subgraph.params]
    for param, shown in zip(subgraph.params, names, strict=True):
        inner.hold(shown, param)
    finish_function(inner, subgraph)
    translation.variables.used |= inner.variables.used
    parameters = [ast.arg(shown) for shown in names]
    translation.emit(syntax.function(name, parameters, [], inner.statements, None))
    translation.finish(node, syntax.call(class_, [syntax.name(name), *arguments]), ())


def _called(
    translation: Translation, body: Block, given: Sequence[ast.expr]
) -> list[ast.expr] | None:
    """Return what a body calls and its arguments, where it does nothing but one call.

    ``given`` are the expressions of its parameters.
    """
    nodes = [node for node in body.nodes if not node.is_constant]
    if len(nodes) != 1 or [*body.returns] != nodes[0].outputs:
        return None
    (call,) = nodes
    known = dict(zip(body.params, given, strict=True))
    if not all(value in known or value.node.is_constant for value in call.inputs):
        return None
    first, *rest = (known.get(v) or translation.constant(v) for v in call.inputs)
    if call.kind == "prim::CallFunction":
        return [first, *rest]
    owner = call.input.type
    if call.kind != "prim::CallMethod" or not isinstance(owner, ClassType) or owner.is_native:
        return None
    is_called = call.name == "forward" and owner.is_module and not any(owner.hooks())
    method = members_of(owner).methods[call.name]
    return [first if is_called else syntax.attribute(first, method), *rest]


def finish_function(translation: Translation, block: Block) -> None:
    """Write the statements of a function's block and the return of its result."""
    _finish(translation, block)
    _close_chains(translation.statements)


def _finish(translation: Translation, block: Block) -> None:
    translate_nodes(translation, block.nodes)
    (shown,) = translation.operands(block.return_node)
    translation.flush()
    if ends(translation.statements):
        return
    (result,) = block.returns
    if result.node.kind == "prim::Uninitialized":
        return  # the end is never reached
    if not isinstance(shown, ast.Name | ast.Constant):
        translation.comment(result.node)
    if not _is_nothing(translation, shown):
        translation.statements.append(_return(translation, shown))


def _return(translation: Translation, shown: ast.expr) -> ast.stmt:
    return ast.Return(None if _is_nothing(translation, shown) else shown)


def _is_nothing(translation: Translation, shown: ast.expr) -> bool:
    """Return whether the result is None, with nothing to compute, and the function has no other."""
    is_at_hand = isinstance(shown, ast.Name | ast.Constant)
    return translation.function.schema.return_type == NONE and is_at_hand


_BY_KIND: dict[str, Callable[[Translation, Node], None]] = {
    "prim::If": _if,
    "prim::Loop": _loop,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::SetAttr": _set_attr,
    STORE: _store,
    PUT: _put,
    "prim::RaiseException": _raise,
    "prim::fork": _closure,
    "prim::awaitable": _closure,
    BREAK: _leave,
    CONTINUE: _leave,
    RETURN: _leave_function,
}


_KEY = re.compile(r"@[\w.:]*")
_LONGEST = 60
_LONGEST_NAMED = 40


def _as_expression(
    result: Value, condition: ast.expr, branches: Sequence[_Branch], target: str
) -> ast.expr | None:
    """Return the expression for an if that only computes ``result``; None for statements."""
    if any(statements for statements, _ in branches) or _is_statement(result):
        return None
    (then,), (other,) = (values for _, values in branches)
    if result.type == BOOL:
        found = _boolean(condition, then, other, text_of(result.node))
        if found is not None:
            return found
    limit = _LONGEST if result.name is None else _LONGEST_NAMED
    if any(isinstance(value, ast.Name) and value.id == target for value in (then, other)):
        return None
    if _length(then) > limit or _length(other) > limit:
        return None
    return ast.IfExp(condition, then, other)


def _is_statement(result: Value) -> bool:
    """Return whether the line of an if says that both branches assign its result."""
    is_variable = result.name is not None and result.type != BOOL
    return is_variable and text_of(result.node).startswith(_IF_LINE)


def _length(node: ast.expr) -> int:
    """Return the length of the text, with the names of globals and not their keys."""
    return len(_KEY.sub("", ast.unparse(node)))


def _boolean(condition: ast.expr, then: ast.expr, other: ast.expr, text: str) -> ast.expr | None:
    """Return what an if of booleans says with fewer words; ``text`` is its original line."""
    match then, other:
        case ast.Constant(True), ast.Constant(False):
            return condition
        case ast.Constant(False), ast.Constant(True):
            return syntax.negated(condition)
        case _, ast.Constant(False):
            return _chained(condition, then, text) or _joined(ast.And, condition, then)
        case ast.Constant(True), _:
            return _joined(ast.Or, condition, other)
        case ast.Constant(False), _:
            return _joined(ast.And, syntax.negated(condition), other)
        case _, ast.Constant(True):
            return _joined(ast.Or, syntax.negated(condition), then)
    return None


def _chained(first: ast.expr, second: ast.expr, text: str) -> ast.expr | None:
    """Return ``a < b < c`` for ``a < b`` and ``b < c``, where evaluating b once is the same.

    The original line decides, as far as it is known; else signs of one direction are chained.
    """
    match first, second:
        case ast.Compare(left, signs, parts), ast.Compare(middle, more, others) if syntax.is_atom(
            middle
        ) and syntax.same(parts[-1], middle):
            shown = ast.Compare(left, [*signs, *more], [*parts, *others])
            if not isinstance(middle, ast.Constant) and _may_chain(shown.ops, text):
                return shown
    return None


def _may_chain(signs: Sequence[ast.cmpop], text: str) -> bool:
    kinds = set(map(type, signs))
    if kinds & {ast.In, ast.NotIn, ast.Is, ast.IsNot}:
        return False
    written = statement_of(text)
    if written is None:
        return any(kinds <= one for one in _DIRECTIONS)
    found = [one.ops for one in ast.walk(written) if isinstance(one, ast.Compare)]
    return any(list(map(type, signs)) == list(map(type, ops[: len(signs)])) for ops in found)


_DIRECTIONS: tuple[set[type[ast.cmpop]], ...] = ({ast.Lt, ast.LtE}, {ast.Gt, ast.GtE}, {ast.Eq})


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
    return [ast.Assert(syntax.negated(condition), text), *other]


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""
