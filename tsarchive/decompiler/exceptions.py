"""``raise`` and ``assert``, in Python's form."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from tsarchive.ir.graph import Node, must_be_none

from . import syntax
from .comments import without_markers
from .conditions import negated
from .naming import identifier
from .program import Program

_ASSERTION = "AssertionError: "
_FAILED = "AssertionError"
EXCEPTIONS = "_exceptions"


def raised(program: Program, node: Node, arguments: Sequence[ast.expr]) -> ast.stmt:
    """``raise ValueError(message)``, with a class of the package where Python has none."""
    message, class_ = arguments[0], node.inputs[1]
    references = program.references
    if must_be_none(class_):
        text = _assertion_text(message)
        if text is not None:
            arguments = [] if _is_empty(text) else [text]
            return ast.Raise(syntax.call(references.builtin(_FAILED), arguments))
        return ast.Raise(syntax.call(references.builtin("RuntimeError"), [message]))
    if not class_.node.is_constant:
        return ast.Raise(syntax.call(references.builtin("RuntimeError"), [message]))
    qualified_name = class_.node.attributes["value"]
    module, _, name = qualified_name.rpartition(".")
    found = getattr(builtins, name, None)
    is_exception = isinstance(found, type) and issubclass(found, Exception)
    if module in ("builtins", "") and is_exception:
        return ast.Raise(syntax.call(references.builtin(name), [message]))
    shown = program.exception(identifier(name, private=False))
    return ast.Raise(syntax.call(references.imported(EXCEPTIONS, shown), [message]))


def _assertion_text(message: ast.expr) -> ast.expr | None:
    """The text of an assertion that failed, None for other messages."""
    match message:
        case ast.Constant(str() as text) if text.startswith(_ASSERTION):
            return syntax.string(text.removeprefix(_ASSERTION))
        case ast.BinOp(ast.Constant(str() as text), ast.Add(), rest) if text == _ASSERTION:
            return rest
    return None


def assertion(
    condition: ast.expr, body: Sequence[ast.stmt], other: list[ast.stmt]
) -> list[ast.stmt] | None:
    """``assert`` for an if that fails and does nothing else; what follows if it does not."""
    if len(without_markers(body)) != 1:
        return None
    match body[-1]:
        case ast.Raise(ast.Call(ast.Name(name), arguments)) if name.startswith(f"{_FAILED}@"):
            pass
        case _:
            return None
    text = None if not arguments or _is_empty(arguments[0]) else arguments[0]
    return [ast.Assert(negated(condition), text), *other]


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""
