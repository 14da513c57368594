"""Functions that code calls by their bare name: ``int(x)``, ``len(x)``, ``print(x)`` and such."""

from __future__ import annotations

import ast

from tsarchive.ir.classes import ClassType
from tsarchive.ir.subtyping import is_subtype
from tsarchive.ir.types import BOOL, COMPLEX, FLOAT, INT, STRING, DictType, ListType, Type

from .calls import Arguments, Calls, positional
from .references import Reference, Typed

# The casts, the type that each gives, and its operator.
CASTS: dict[str, tuple[Type, str]] = {
    "bool": (BOOL, "aten::Bool"),
    "complex": (COMPLEX, "aten::Complex"),
    "float": (FLOAT, "aten::Float"),
    "int": (INT, "aten::Int"),
    "str": (STRING, "aten::str"),
}
_OPERATORS = {
    "print": "prim::Print", "len": "aten::len", "hex": "aten::hex", "oct": "aten::oct",
    "round": "aten::round", "hash": "aten::hash", "id": "prim::id", "min": "prim::min",
    "max": "prim::max", "abs": "prim::abs", "all": "aten::all", "any": "aten::any",
    "divmod": "aten::divmod", "sum": "aten::sum", "list": "aten::list", "dict": "aten::dict",
    "ord": "aten::ord", "chr": "aten::chr", "bin": "aten::bin", "pow": "aten::pow",
    "rangelist": "prim::rangelist", "sorted": "aten::sorted",
}  # fmt: skip
BUILTINS = frozenset({*CASTS, *_OPERATORS})
# Classes take part in these by a method.
_MAGIC = {
    **{name: f"__{name}__" for name in (*CASTS, "len", "hex", "oct", "round")},
}


class Builtins(Calls):
    def call_builtin(self, name: str, arguments: Arguments, node: ast.AST) -> Reference:
        given = arguments.positional
        if name in _MAGIC and given and isinstance(given[0].type, ClassType):
            rest = Arguments(given[1:], arguments.keywords)
            return self.call_method(given[0], _MAGIC[name], rest, node)
        if name in CASTS:
            return self._cast(name, arguments, node)
        return self.call_operator(_OPERATORS[name], arguments, node)

    def _cast(self, name: str, arguments: Arguments, node: ast.AST) -> Reference:
        type_, kind = CASTS[name]
        if len(arguments.positional) == 1 and not arguments.keywords:
            (given,) = arguments.positional
            if is_subtype(given.type, type_):
                return given
            if type_ == BOOL and (
                isinstance(given.type, ListType | DictType) or given.type == STRING
            ):
                return self._is_not_empty(given, node)
        return self.call_operator(kind, arguments, node)

    def _is_not_empty(self, given: Typed, node: ast.AST) -> Typed:
        length = self.operator_value("aten::len", positional(given), node)
        return self.operator_value("aten::gt", positional(length, self.constant(0, INT)), node)

    def as_condition(self, given: Typed, node: ast.AST) -> Typed:
        """A value as the condition of an ``if`` or ``while``."""
        return self.as_value(self.call_builtin("bool", positional(given), node), node)
