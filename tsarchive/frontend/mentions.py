"""What the text of code names, by its syntax alone: for questions that take no types.

They are asked of every archive that is looked at, and lowering takes several times as long.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set

from .conditions import decided_by_literal

# A hyphenated file name has at most this many parts.
_MOST_PARTS = 32


def dotted(node: ast.expr | None) -> str:
    """Return ``a.b.c`` for names with attributes, else empty.

    Names of modules need not be identifiers: ``__torch__.my-model.Net`` is a name, too.
    """
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and len(parts) < _MOST_PARTS:
        parts.append(_dotted(node.right))
        node = node.left
    parts.append(_dotted(node))
    if len(parts) > 1 and not (all(parts) and parts[-1].startswith("__torch__.")):
        return ""
    return "-".join(reversed(parts))


def _dotted(node: ast.expr | None) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def live_nodes(root: ast.AST, without: Set[type] = frozenset()) -> Iterator[ast.AST]:
    """Yield every node but those of branches that a literal rules out, and of types ``without``."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        known = decided_by_literal(node.test) if isinstance(node, ast.If | ast.IfExp) else None
        if known is None:
            pending += [child for child in _children(node) if type(child) not in without]
        elif isinstance(node, ast.If):
            pending += [node.test, *(node.body if known else node.orelse)]
        elif isinstance(node, ast.IfExp):
            pending += [node.test, node.body if known else node.orelse]


def nodes_in(root: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all inside of it, in no order."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += _children(node)


def _children(node: ast.AST) -> list[ast.AST]:
    """Like ``ast.iter_child_nodes``, in a third of the time, but for signs and contexts."""
    found: list[ast.AST] = []
    for field in _FIELDS[type(node)]:
        value = getattr(node, field, None)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


# Fields that hold names, signs and contexts.
_PLAIN = frozenset({"arg", "attr", "ctx", "id", "kind", "name", "op", "ops", "type_comment"})
# The fields of each kind of node that may hold others.
_FIELDS: Mapping[type, Sequence[str]] = {
    kind: () if kind is ast.Constant else [f for f in kind._fields if f not in _PLAIN]
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
