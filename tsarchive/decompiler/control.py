"""Statements with blocks: if, for, while, with, raise, and the bodies of forked calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import Block, Node, Value, matching_exit
from tsarchive.ir.types import NONE
from tsarchive.run.autocast import is_autocast
from tsarchive.run.passes.last_uses import all_nodes

from . import syntax
from .conditions import as_expression, negated
from .expressions import is_call_of_init, is_call_of_setter
from .loops import translate_loop
from .members import members_of
from .moves import ends, move, separated
from .raising import assertion, raised

if TYPE_CHECKING:
    from .translation import Translation

__all__ = ["finish_function", "translate_control"]

_LARGE_CONDITION = 6


def translate_control(translation: Translation, nodes: Sequence[Node], position: int) -> int:
    """Translate the node at ``position``; the position of the last node that this took."""
    node = nodes[position]
    if node.kind == "prim::Enter":
        end = matching_exit(nodes, position)
        _with(translation, nodes[position : end + 1])
        return end
    if is_call_of_init(node):
        _construct(translation, node)
    elif is_call_of_setter(node):
        _set_property(translation, node)
    elif node.kind != "prim::CreateObject" or not _is_constructed(translation, node):
        _BY_KIND.get(node.kind, _simple)(translation, node)
    return position


def _simple(translation: Translation, node: Node) -> None:
    translation.simple(node)


def _is_constructed(translation: Translation, node: Node) -> bool:
    """Whether the first use of an object is the call of its ``__init__``, which stands for both."""
    value = node.output
    users = [user for user, _ in translation.uses_of(value)]
    inits = [user for user in users if is_call_of_init(user) and user.input is value]
    if len(inits) != 1 or inits[0] not in translation.block.nodes:
        return False
    if any(used is value for used in inits[0].inputs[1:]):
        return False
    start = translation.lifetimes.start
    return all(start(user).number >= start(inits[0]).number for user in users)


def _construct(translation: Translation, node: Node) -> None:
    made = node.input
    if made in translation.known or any(made is value for value, _ in translation.waiting):
        translation.simple(node)
        return
    arguments = translation.operands(node, range(1, len(node.inputs)))
    class_ = translation.program.class_(made.type, translation.references)
    shown = syntax.call(class_, arguments)
    translation.flush()
    if len(translation.uses_of(made)) == 1:
        translation.emit(syntax.expression_statement(shown), node)
        return
    name = translation.define(made, translation.lifetimes.start(node))
    translation.emit(syntax.assign([name], shown), node)


def _if(translation: Translation, node: Node) -> None:
    (condition,) = translation.operands(node)
    translation.flush()
    used = [i for i, output in enumerate(node.outputs) if translation.is_live(output)]
    targets: list[str] = []
    behind = translation.lifetimes.end(node)
    for index in used:
        value = node.outputs[index]
        targets.append(
            translation.variables.choose(
                translation.candidate(value), behind, besides=targets,
                wish=translation.wishes.get(value, ""),
            )
        )  # fmt: skip
    branches = [_branch(translation, block, used, targets) for block in node.blocks]
    if len(used) == 1:
        shown = as_expression(node.outputs[used[0]], condition, branches, targets[0])
        if shown is not None:
            translation.keep(node.outputs[used[0]], shown)
            return
    bodies = [_assigned(statements, targets, values) for statements, values in branches]
    comment = translation.comments.before(node)
    if comment is not None:
        translation.statements.append(comment)
    for index, name in zip(used, targets, strict=True):
        translation.hold(name, node.outputs[index])
    _emit_if(translation, condition, bodies)


def _emit_if(translation: Translation, condition: ast.expr, bodies: list[list[ast.stmt]]) -> None:
    body, other = bodies
    if not _has_statements(body):
        condition, body, other = negated(condition), other, body
    if not _has_statements(body):
        translation.statements.append(syntax.expression_statement(condition))
        return
    shown = assertion(condition, body, other)
    if shown is not None:
        translation.statements += shown
        return
    if ends(body):
        translation.statements += [ast.If(condition, body, []), *other]
        return
    translation.statements.append(ast.If(condition, body, other if _has_statements(other) else []))


def _has_statements(body: Sequence[ast.stmt]) -> bool:
    return bool(body)


_Branch = tuple[list[ast.stmt], list[ast.expr]]


def _branch(
    translation: Translation, block: Block, used: Sequence[int], targets: Sequence[str]
) -> _Branch:
    for index, name in zip(used, targets, strict=True):
        translation.wishes.setdefault(block.returns[index], name)
    with translation.variables.branch(), translation.inside(block) as statements:
        translation.nodes(block.nodes)
        values = translation.operands(block.return_node, used)
        translation.flush()
        for index, name in zip(used, targets, strict=True):
            if translation.wishes.get(block.returns[index]) == name:
                del translation.wishes[block.returns[index]]
        return statements, values


def _assigned(
    statements: list[ast.stmt], targets: Sequence[str], values: Sequence[ast.expr]
) -> list[ast.stmt]:
    """A branch with the assignment of its results, which code that raises does not reach."""
    if ends(statements):
        return statements
    moved = move(targets, values)
    return statements if moved is None else [*statements, *separated(moved)]


def _with(translation: Translation, nodes: Sequence[Node]) -> None:
    enter, *inside, _ = nodes
    manager = enter.input
    (shown,) = translation.operands(enter)
    translation.flush()
    type_ = manager.type
    if not isinstance(type_, ClassType) or type_.is_native:
        raise UnsupportedError(
            f"{translation.function.qualified_name} enters an object of no class"
        )
    called = shown
    if is_autocast(type_):
        called = syntax.call(translation.references.imported("_objects", "casting"), [shown])
    elif type_.methods["__exit__"].schema.return_type != NONE:
        called = syntax.call(translation.references.imported("_objects", "entered"), [shown])
    variable: ast.expr | None = None
    if translation.is_live(enter.output):
        variable = ast.Name(translation.define(enter.output), ast.Store())
    comment = translation.comments.before(enter)
    outer = translation.statements
    translation.statements = []
    translation.nodes(inside)
    translation.flush()
    body = translation.statements or [ast.Pass()]
    translation.statements = outer
    if comment is not None:
        translation.statements.append(comment)
    translation.statements.append(ast.With([ast.withitem(called, variable)], body))


def _unpack(translation: Translation, node: Node) -> None:
    (shown,) = translation.operands(node)
    if node.outputs:
        translation.unpack(node, shown)


def _set_attr(translation: Translation, node: Node) -> None:
    owner = node.inputs[0].type
    assert isinstance(owner, ClassType)
    base, value = translation.operands(node)
    place = members_of(owner).reach(base, node.name)
    place.ctx = ast.Store()  # type: ignore[attr-defined]  # an attribute or subscript
    translation.emit(ast.Assign([place], value, lineno=0), node)


def _set_property(translation: Translation, node: Node) -> None:
    owner = node.input.type
    assert isinstance(owner, ClassType)
    base, value = translation.operands(node)
    place = ast.Attribute(base, members_of(owner).method(node.name), ast.Store())
    translation.emit(ast.Assign([place], value, lineno=0), node)
    translation.known[node.output] = syntax.literal(None)


def _raise(translation: Translation, node: Node) -> None:
    arguments = translation.operands(node)
    translation.emit(raised(translation, node, arguments), node)


def _closure(translation: Translation, node: Node) -> None:
    """A nested function, and the object that runs it."""
    translation.flush()
    subgraph: Block = node.attributes["subgraph"]
    kind = node.kind.rpartition("::")[2]
    arguments = [translation.use(value) for value in node.inputs]
    name = translation.variables.new(f"{kind}_body")
    translation.emit(translation.nested(name, subgraph))
    class_ = translation.references.imported("_torchscript.futures", _CLOSURES[node.kind])
    translation.finish(node, syntax.call(class_, [syntax.name(name), *arguments]), ())


def finish_function(translation: Translation, block: Block, index: int = 0) -> None:
    """The body of a function: the statements of its block and the return of its result.

    Where the result is that of an if at the end, each branch returns.
    """
    result = block.returns[index]
    last = _last_if(translation, block, result)
    if last is None:
        translation.nodes(block.nodes)
        _return(translation, block, index)
        return
    translation.nodes(block.nodes[: block.nodes.index(last)])
    (condition,) = translation.operands(last)
    translation.flush()
    comment = translation.comments.before(last)
    bodies = []
    for inner in last.blocks:
        with translation.variables.branch(), translation.inside(inner) as statements:
            finish_function(translation, inner, last.outputs.index(result))
            bodies.append(statements)
    if comment is not None:
        translation.statements.append(comment)
    _emit_if(translation, condition, bodies)


def _last_if(translation: Translation, block: Block, result: Value) -> Node | None:
    """The if at the end of a block whose only use is to make the result."""
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
        comment = translation.comments.before(block.returns[index].node)
        if comment is not None:
            translation.statements.append(comment)
    translation.statements.append(ast.Return(shown))


_CLOSURES = {"prim::fork": "Future", "prim::awaitable": "Awaitable"}
_BY_KIND: dict[str, Callable[[Translation, Node], None]] = {
    "prim::If": _if,
    "prim::Loop": translate_loop,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::SetAttr": _set_attr,
    "prim::RaiseException": _raise,
    "prim::fork": _closure,
    "prim::awaitable": _closure,
}
