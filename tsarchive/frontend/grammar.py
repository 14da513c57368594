"""The Python syntax that code of an archive may have, as a table.

It is what torch's printer writes, of any version, and what hand-written code has that torch reads
as we do. A construct that the table does not name is refused where code is parsed, before anything
else looks at the tree.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final

from tsarchive.errors import SourceError

Kinds = frozenset[type[ast.AST]]

_EXPRESSION: Kinds = frozenset(
    {
        ast.Attribute, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Constant, ast.Dict,
        ast.IfExp, ast.List, ast.Name, ast.Subscript, ast.Tuple, ast.UnaryOp,
    }
)  # fmt: skip
_ANNOTATION: Kinds = frozenset({ast.Attribute, ast.BinOp, ast.Constant, ast.Name, ast.Subscript})
_TARGET: Kinds = frozenset({ast.Attribute, ast.Name, ast.Subscript, ast.Tuple})
_NAME: Kinds = frozenset({ast.Name})
_STATEMENT: Kinds = frozenset(
    {
        ast.AnnAssign, ast.Assign, ast.AugAssign, ast.Expr, ast.For, ast.FunctionDef, ast.If,
        ast.Pass, ast.Return, ast.While, ast.With,
    }
)  # fmt: skip
_IN_CLASS: Kinds = frozenset({ast.AnnAssign, ast.Assign, ast.FunctionDef, ast.Pass})
# Lines of archives of version 1 stand beside the definitions; expressions that are parsed on
# their own are assigned.
_IN_RECORD: Kinds = frozenset({ast.Assign, ast.ClassDef, ast.FunctionDef, ast.Import})

# The operators behind arithmetic signs.
BINARY: dict[type[ast.operator], str] = {
    ast.Add: "aten::add", ast.Sub: "aten::sub", ast.Mult: "aten::mul", ast.Div: "aten::div",
    ast.FloorDiv: "aten::floordiv", ast.Mod: "aten::remainder", ast.Pow: "aten::pow",
    ast.MatMult: "aten::matmul", ast.BitAnd: "aten::__and__", ast.BitOr: "aten::__or__",
    ast.BitXor: "aten::__xor__", ast.LShift: "aten::__lshift__", ast.RShift: "aten::__rshift__",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {
    ast.USub: "aten::neg", ast.Invert: "aten::bitwise_not", ast.Not: "aten::__not__",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "aten::eq", ast.NotEq: "aten::ne", ast.Lt: "aten::lt", ast.LtE: "aten::le",
    ast.Gt: "aten::gt", ast.GtE: "aten::ge", ast.Is: "aten::__is__", ast.IsNot: "aten::__isnot__",
    ast.In: "aten::__contains__",
}  # fmt: skip
_BINARY: Kinds = frozenset(BINARY)
_COMPARISON: Kinds = frozenset({*COMPARISONS, ast.NotIn})
_UNARY: Kinds = frozenset(UNARY)

FIELDS: Final[Mapping[type[ast.AST], Mapping[str, Kinds]]] = {
    # Definitions: no decorators, no metaclass, no starred and no keyword-only parameters.
    ast.ClassDef: {"bases": _NAME, "body": _IN_CLASS},
    ast.FunctionDef: {
        "args": frozenset({ast.arguments}), "body": _STATEMENT, "returns": _ANNOTATION,
    },
    ast.arguments: {"args": frozenset({ast.arg}), "defaults": _EXPRESSION},
    ast.arg: {"annotation": _ANNOTATION},
    ast.Import: {"names": frozenset({ast.alias})},
    ast.alias: {},
    # Statements: loops without else.
    ast.AnnAssign: {"target": _TARGET, "annotation": _ANNOTATION, "value": _EXPRESSION},
    ast.Assign: {"targets": _TARGET, "value": _EXPRESSION},
    ast.AugAssign: {"target": _TARGET, "op": _BINARY, "value": _EXPRESSION},
    ast.Expr: {"value": _EXPRESSION},
    ast.For: {"target": _NAME, "iter": frozenset({ast.Call}), "body": _STATEMENT},
    ast.If: {"test": _EXPRESSION, "body": _STATEMENT, "orelse": _STATEMENT},
    ast.Pass: {},
    ast.Return: {"value": _EXPRESSION},
    ast.While: {"test": _EXPRESSION, "body": _STATEMENT},
    ast.With: {"items": frozenset({ast.withitem}), "body": _STATEMENT},
    ast.withitem: {"context_expr": _EXPRESSION, "optional_vars": _TARGET},
    # Expressions: nothing starred, no comprehension, no lambda, no f-string, no walrus.
    ast.Attribute: {"value": _EXPRESSION},
    ast.BinOp: {"left": _EXPRESSION, "op": _BINARY, "right": _EXPRESSION},
    ast.BoolOp: {"op": frozenset({ast.And, ast.Or}), "values": _EXPRESSION},
    ast.Call: {
        "func": _EXPRESSION, "args": _EXPRESSION, "keywords": frozenset({ast.keyword}),
    },
    ast.keyword: {"value": _EXPRESSION},
    ast.Compare: {"left": _EXPRESSION, "ops": _COMPARISON, "comparators": _EXPRESSION},
    ast.Constant: {},
    ast.Dict: {"keys": _EXPRESSION, "values": _EXPRESSION},
    ast.IfExp: {"test": _EXPRESSION, "body": _EXPRESSION, "orelse": _EXPRESSION},
    ast.List: {"elts": _EXPRESSION},
    ast.Name: {},
    ast.Slice: {"lower": _EXPRESSION, "upper": _EXPRESSION, "step": _EXPRESSION},
    ast.Subscript: {"value": _EXPRESSION, "slice": _EXPRESSION | {ast.Slice}},
    ast.Tuple: {"elts": _EXPRESSION | {ast.Slice}},
    ast.UnaryOp: {"op": _UNARY, "operand": _EXPRESSION},
    **{sign: {} for sign in _BINARY | _COMPARISON | _UNARY | {ast.And, ast.Or}},
}  # fmt: skip
"""The nodes that each field of a node may hold. Fields that are not named must be empty."""

OF_PYTHON: Final = frozenset(
    f"__{name}__"
    for name in (
        "annotations", "base", "bases", "builtins", "class", "closure", "code",
        "defaults", "del", "delattr", "dict", "dir", "doc", "func", "getattribute", "globals",
        "import", "init_subclass", "kwdefaults", "loader", "module", "mro", "name", "qualname",
        "reduce", "reduce_ex", "self", "set_name", "setattr", "slots", "spec", "subclasses",
        "subclasshook", "traceback", "weakref", "wrapped",
    )
)  # fmt: skip
"""Attributes by which Python code gets from an object to all there is. They would be refused when
a function is compiled, as no type has them; here they are before anybody asks for that."""

# Fields that hold no code: names, signs of context, comments.
_PLAIN: Final = frozenset(
    {"arg", "asname", "attr", "ctx", "id", "is_async", "kind", "level", "name", "simple",
     "type_comment"}
)  # fmt: skip
_LONGEST_SHOWN: Final = 200
_LITERALS: Final = (bool, complex, float, int, str, type(None))
_NOTHING: Kinds = frozenset()
_ROWS: Final[Mapping[type[ast.AST], Sequence[tuple[str, Kinds]]]] = {
    kind: [(f, rows.get(f, _NOTHING)) for f in kind._fields if f not in _PLAIN]
    for kind, rows in FIELDS.items()
    if kind is not ast.Constant
}
_LEAVES: Final = frozenset(kind for kind in FIELDS if not _ROWS.get(kind))


_SHOWN: Final[Mapping[type[ast.AST], str]] = {
    ast.Starred: "a starred expression",
    ast.JoinedStr: "a JoinedStr (an f-string)",
}


# A node, or the one around it, and what about it the table does not allow.
_Fault = tuple[ast.AST, str]


def check_tree(body: Sequence[ast.stmt], text: str, record: str, first_line: int) -> None:
    """Refuse what :data:`FIELDS` does not allow. Raises SourceError with line and construct.

    The tree is that of ``text``, of which line 1 is ``first_line`` of ``record``.
    """
    fault = _first_fault(body)
    if fault is not None:
        node, what = fault
        line = getattr(node, "lineno", 1) - 1
        message = f"{what} cannot stand in TorchScript code"
        shown = text.split("\n")[line].strip()[:_LONGEST_SHOWN]
        raise SourceError(message, record=record, line=first_line + line, construct=shown)


def _first_fault(body: Sequence[ast.stmt]) -> _Fault | None:
    for statement in body:
        if type(statement) not in _IN_RECORD:
            return statement, f"{_shown(statement)} outside of classes and functions"
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        node_kind = type(node)
        if node_kind is ast.Constant:
            return node, f"a literal of {type(node.value).__name__}"  # type: ignore[attr-defined]
        for field, kinds in _ROWS[node_kind]:
            value = getattr(node, field)
            if value is None:
                continue
            for part in value if type(value) is list else (value,):
                kind = type(part)
                if kind in kinds:
                    # Other literals need no second look.
                    if kind not in _LEAVES or (
                        kind is ast.Constant and type(part.value) not in _LITERALS
                    ):
                        pending.append(part)
                # torch drops defaults that it cannot write, which leaves gaps.
                elif part is not None or field != "defaults":
                    return _misplaced(part, node, field, kinds)
        if node_kind is ast.Attribute and node.attr in OF_PYTHON:  # type: ignore[attr-defined]
            return node, f"the attribute {node.attr}"  # type: ignore[attr-defined]
        if node_kind is ast.keyword and node.arg is None:  # type: ignore[attr-defined]
            return node.value, "an argument with **"  # type: ignore[attr-defined]
    return None


def _misplaced(part: ast.AST | None, around: ast.AST, field: str, kinds: Kinds) -> _Fault:
    if part is None:
        return around, "a dict with **"
    place = part if hasattr(part, "lineno") else around
    if not kinds:
        return place, f"{type(around).__name__} with {field}"
    return place, f"{_shown(part)} in the {field} of {type(around).__name__}"


def _shown(node: ast.AST) -> str:
    return _SHOWN.get(type(node), f"a {type(node).__name__}")
