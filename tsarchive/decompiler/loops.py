"""Loops: ``for`` over a range, ``while``, and the variables that they carry."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tsarchive.errors import UnsupportedError
from tsarchive.ir.graph import Block, Node, Value, carried_values, has_trip_count, is_constant_true

from . import syntax
from .conditions import negated
from .moves import ends, move, names_in, separated

if TYPE_CHECKING:
    from .translation import Translation

__all__ = ["translate_loop"]


def translate_loop(translation: Translation, node: Node) -> None:
    (body,) = node.blocks
    condition = node.inputs[1]
    is_counted = _is_counted(node, translation)
    is_endless = is_constant_true(condition) and is_constant_true(body.returns[0])
    if is_counted and not is_endless:
        raise UnsupportedError(
            f"{translation.function.qualified_name} has a loop with a count and a condition"
        )
    element = _element(translation, node) if is_counted else None
    shown = translation.operands(node, [0 if is_counted else 1])
    if element is not None:
        shown = _bounds(shown[0])
    targets = _carry(translation, node, shown)
    if is_counted:
        _for(translation, node, targets, shown, element or body.params[0])
    elif is_endless:
        statements, _, _ = _loop_body(translation, body, targets, node)
        translation.emit(ast.While(syntax.literal(True), statements, []), node)
    else:
        _while(translation, node, targets, shown[0])


def _carry(translation: Translation, node: Node, header: list[ast.expr]) -> dict[int, str]:
    """Variables of the carried values by position, with their first values in them.

    What the ``header`` of the loop computes from variables that change is computed before.
    """
    translation.flush()
    (body,) = node.blocks
    targets: dict[int, str] = {}
    first: list[ast.expr] = []
    point = translation.lifetimes.start(node)
    for index, (before, param, _, output) in enumerate(carried_values(node)):
        if not translation.is_carried(node, index):
            continue
        named = param if output.name is None and param.name is not None else output
        candidate = translation.candidate(named)
        taken = list(targets.values())
        targets[index] = translation.variables.choose(candidate, point, besides=taken)
        first.append(translation.use(before))
    moved = move(list(targets.values()), first)
    if moved is not None:
        if any(names_in(shown) & set(targets.values()) for shown in header):
            _settle(translation, header)
        for statement in separated(moved):
            translation.emit(statement)
    for index, name in targets.items():
        translation.hold(name, node.outputs[index])
        translation.hold(name, body.params[index + 1])
    return targets


def _settle(translation: Translation, header: list[ast.expr]) -> None:
    for position, shown in enumerate(header):
        name = translation.variables.new("bound")
        translation.emit(syntax.assign([name], shown))
        header[position] = syntax.name(name)


def _loop_body(
    translation: Translation, body: Block, targets: dict[int, str], node: Node
) -> tuple[list[ast.stmt], ast.expr | None, ast.stmt | None]:
    """The statements of the body with the moves at their end, the next condition, the moves."""
    used = [index + 1 for index in targets]
    condition: ast.expr | None = None
    for index, name in targets.items():
        translation.wishes.setdefault(body.returns[index + 1], name)
    with translation.variables.branch(), translation.inside(body) as statements:
        translation.nodes(body.nodes)
        if not is_constant_true(body.returns[0]):
            condition, *values = translation.operands(body.return_node, [0, *used])
        else:
            values = translation.operands(body.return_node, used)
        translation.flush()
        moved = move(list(targets.values()), values)
    for index, name in targets.items():
        if translation.wishes.get(body.returns[index + 1]) == name:
            del translation.wishes[body.returns[index + 1]]
    for index, name in targets.items():
        translation.hold(name, node.outputs[index])
    if moved is not None and not ends(statements) and condition is None:
        statements += separated(moved)
    return statements or [ast.Pass()], condition, moved


def _for(
    translation: Translation,
    node: Node,
    targets: dict[int, str],
    shown: Sequence[ast.expr],
    counter: Value,
) -> None:
    (body,) = node.blocks
    name = "_"
    if translation.is_live(counter):
        point = translation.lifetimes.start(body.param_node)
        name = translation.define(counter, point, list(targets.values()))
    statements, _, _ = _loop_body(translation, body, targets, node)
    called = syntax.call(translation.references.builtin("range"), shown)
    translation.emit(ast.For(ast.Name(name, ast.Store()), called, statements, [], lineno=0), node)


def _while(translation: Translation, node: Node, targets: dict[int, str], first: ast.expr) -> None:
    """``while condition:``, or a variable where the condition differs between the turns."""
    (body,) = node.blocks
    statements, condition, moved = _loop_body(translation, body, targets, node)
    assert condition is not None
    changed = names_in(moved) if moved else set()
    if syntax.same(first, condition) and not changed & names_in(condition):
        body_with_move = (
            statements if moved is None else [*_without_pass(statements), *separated(moved)]
        )
        translation.emit(ast.While(first, body_with_move, []), node)
        return
    if _is_true(first) and not changed & names_in(condition):
        leave = ast.If(negated(condition), [ast.Break()], [])
        body_with_move = [
            *_without_pass(statements),
            *([] if moved is None else separated(moved)),
            leave,
        ]
        translation.emit(ast.While(first, body_with_move, []), node)
        return
    keep = translation.variables.new("proceed")
    translation.emit(syntax.assign([keep], first))
    both = move([keep, *targets.values()], [condition, *_values_of(moved, targets)])
    assert both is not None
    translation.emit(ast.While(syntax.name(keep), [*_without_pass(statements), both], []), node)


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _values_of(moved: ast.stmt | None, targets: dict[int, str]) -> list[ast.expr]:
    """The value that every target is assigned by ``moved``; its own where it is not."""
    found: dict[str, ast.expr] = {}
    match moved:
        case ast.Assign([ast.Name(name)], value):
            found[name] = value
        case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
            shown = [name.id for name in names if isinstance(name, ast.Name)]
            found = dict(zip(shown, values, strict=True))
    return [found.get(name, syntax.name(name)) for name in targets.values()]


def _without_pass(statements: list[ast.stmt]) -> list[ast.stmt]:
    return [statement for statement in statements if not isinstance(statement, ast.Pass)]


def _is_counted(loop: Node, translation: Translation) -> bool:
    return has_trip_count(loop) or translation.is_live(loop.blocks[0].params[0])


def _derived(loop: Node) -> Node | None:
    """The node that makes the elements of a range of the counter, where nothing else uses it."""
    uses = loop.blocks[0].params[0].uses
    if len(uses) == 1 and uses[0].user.kind == "aten::__derive_index":
        return uses[0].user
    return None


def _element(translation: Translation, loop: Node) -> Value | None:
    """The element of ``range(low, high, step)`` that each turn makes of its counter.

    None for a loop that only counts. The length of the range must be the last that was computed.
    """
    length, derived = loop.inputs[0].node, _derived(loop)
    if length.kind != "aten::__range_length" or derived is None:
        return None
    if derived.inputs[1] is not length.inputs[0] or derived.inputs[2] is not length.inputs[2]:
        return None
    is_last = bool(translation.waiting) and translation.waiting[-1][0] is length.output
    if not is_last or derived not in loop.blocks[0].nodes or derived not in translation.live_nodes:
        return None
    translation.live_nodes.discard(derived)
    return derived.output


def _bounds(length: ast.expr) -> list[ast.expr]:
    """The arguments of range, from the expression for its length."""
    match length:
        case ast.Call(_, [low, high, ast.Constant(1)]):
            return [low, high]
        case ast.Call(_, arguments):
            return list(arguments)
    raise AssertionError("the length of a range is a call")
