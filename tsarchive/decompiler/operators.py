"""Python expressions for operators: syntax, functions of torch, or the package's own helpers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tsarchive.errors import UnknownOperatorError, UnsupportedError
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Node, Value, must_be_none
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, STRING, ListType, Type
from tsarchive.ir.values import TableConstant, necessary_arguments
from tsarchive.operators.effects import SCALAR_OVERLOADS
from tsarchive.operators.python_forms import NON_ZERO_DIVISOR, READABLE_FORMS, WRAPPING
from tsarchive.run.checks import enum_names
from tsarchive.run.expressions import nesting, told_element
from tsarchive.run.operators import (
    find_native,
    implementation,
    schema_without_text,
)
from tsarchive.run.passes.peephole import as_number

from . import syntax
from .callees import METHOD, by_overload, callee, enum_literal
from .indexing import indexed, is_index
from .program import Program

_OPERANDS = 2
_ALPHA = ("aten::add.Tensor", "aten::sub.Tensor", "aten::add.Scalar", "aten::sub.Scalar")
_SIGN: Mapping[str, type[ast.operator]] = {"aten::add": ast.Add, "aten::sub": ast.Sub}
_READERS = frozenset({"prim::ListUnpack", "aten::__getitem__", "aten::len", "aten::select"})


class Operators:
    """Expressions of the operators of one function. ``dtypes`` are values kept as torch.dtype."""

    def __init__(self, function: Function, program: Program, dtypes: set[Value]) -> None:
        self.references = program.references
        self._function = function
        self._untranslated = program.untranslated
        self._dtypes = dtypes
        self._is_wide = function in program.wrapping

    def operator(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        schema = node.schema or schema_without_text(node)
        if node.upgrader is not None:
            return self._upgraded(node, schema, arguments)
        number = known_number(node)
        if number is not None:
            arguments = [arguments[0], syntax.literal(number), *arguments[2:]]
        special = _SPECIAL.get(schema.full_name)
        if special is not None:
            found = special(self, node, arguments)
            if found is not None:
                return found
        form = self._form(node, schema)
        if form is not None:
            return self.filled(form, arguments)
        if is_index(schema):
            found = indexed(node, arguments)
            if found is not None:
                return found
        if find_native(schema) is not None:
            return self.helper(node, arguments)
        return self._call(node, schema, arguments)

    def _form(self, node: Node, schema: FunctionSchema) -> str | None:
        key = schema.full_name
        if self._is_wide and key in WRAPPING:
            return None
        if key in NON_ZERO_DIVISOR:
            divisor = node.inputs[1].node
            known = divisor.is_constant and divisor.attributes["value"] not in (0, None)
            return NON_ZERO_DIVISOR[key] if known else None
        return READABLE_FORMS.get(key)

    def filled(self, form: str, arguments: Sequence[ast.expr]) -> ast.expr:
        modules = {"torch", "math"}
        names = {
            name: self.references.module(name) if name in modules else self.references.builtin(name)
            for name in syntax.names_in(form)
            if name not in ("True", "False", "None")
        }
        return syntax.substituted(form, arguments, names)

    def helper(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        """A call of the function that runs the operator here, copied into the package."""
        schema = node.schema or schema_without_text(node)
        positional, keywords = _by_schema(schema, arguments)
        element = told_element(schema, node)
        if element is not None:
            keywords["element"] = syntax.string(element)
        return syntax.call(self.references.helper(schema.full_name), positional, keywords)

    def _upgraded(
        self, node: Node, schema: FunctionSchema, arguments: Sequence[ast.expr]
    ) -> ast.expr:
        positional, keywords = _by_schema(schema, arguments)
        return syntax.call(
            self.references.helper(f"upgrader::{node.upgrader}"), positional, keywords
        )

    def _call(self, node: Node, schema: FunctionSchema, arguments: Sequence[ast.expr]) -> ast.expr:
        try:
            implementation(schema)
        except UnknownOperatorError as error:
            return self._missing(schema.full_name, error.message)
        kept = self._kept_arguments(node, schema, arguments)
        positional, keywords, is_plain = kept
        names = keywords.keys()
        found = callee(schema, len(positional), self.references, names) if is_plain else None
        if found == METHOD:
            function = syntax.attribute(positional[0], schema.name.partition("::")[2])
            if schema.name == "aten::to" and len(positional) > len(schema.arguments) - 1:
                keywords["memory_format"] = positional.pop()
            return self._as_list(node, syntax.call(function, positional[1:], keywords))
        if isinstance(found, ast.expr):
            return self._as_list(node, syntax.call(found, positional, keywords))
        positional, keywords = self._all_needed(node, schema, arguments)
        return syntax.call(by_overload(schema, self.references), positional, keywords)

    def _kept_arguments(
        self, node: Node, schema: FunctionSchema, arguments: Sequence[ast.expr]
    ) -> tuple[list[ast.expr], dict[str, ast.expr], bool]:
        """Arguments that differ from their defaults; false where a number stands for a dtype."""
        count, _ = necessary_arguments(schema, node.inputs)
        enums = enum_names(schema.full_name)
        positional: list[ast.expr] = []
        keywords: dict[str, ast.expr] = {}
        for offset, argument in enumerate(schema.arguments):
            value, shown = node.inputs[offset], arguments[offset]
            if argument.kwarg_only and _is_default(argument.default, value):
                continue
            if not argument.kwarg_only and offset >= count:
                continue
            if offset in enums:
                member = self._enum_argument(enums[offset], value, shown)
                if member is None:
                    return [], {}, False
                shown = member
            if argument.kwarg_only:
                keywords[argument.name] = shown
            else:
                positional.append(shown)
        return positional, keywords, True

    def _all_needed(
        self, node: Node, schema: FunctionSchema, arguments: Sequence[ast.expr]
    ) -> tuple[list[ast.expr], dict[str, ast.expr]]:
        count, outs = necessary_arguments(schema, node.inputs)
        kept = [i for i in range(len(arguments)) if i < count or i >= len(arguments) - outs]
        positional, keywords = [], {}
        for offset in kept:
            argument = schema.arguments[offset]
            if argument.kwarg_only:
                keywords[argument.name] = arguments[offset]
            else:
                positional.append(arguments[offset])
        return positional, keywords

    def _as_list(self, node: Node, made: ast.expr) -> ast.expr:
        """Python's functions give tuples where TorchScript has lists."""
        if len(node.outputs) != 1 or not isinstance(node.output.type, ListType):
            return made
        if is_only_read(node.output):
            return made
        return syntax.call(self.references.builtin("list"), [made])

    def _missing(self, operator: str, reason: str) -> ast.expr:
        """A call that raises when it is reached: code may hold operators that it never calls."""
        self._untranslated.setdefault(f"{self._function.qualified_name}: {operator}")
        called = self.references.imported("_objects", "missing")
        return syntax.call(called, [syntax.string(reason)])

    def _enum_argument(self, kind: str, value: Value, shown: ast.expr) -> ast.expr | None:
        """``torch.float32`` where a dtype is known, likewise the others; None where it is not.

        ``shown`` is the expression for ``value``.
        """
        if must_be_none(value):
            return syntax.literal(None)
        if value in self._dtypes:
            return shown
        if not value.node.is_constant:
            return None
        return enum_literal(kind, value.node.attributes["value"], self.references)

    def _sum(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """``a + b``, unless b is multiplied by a factor."""
        if not _is_number(node.inputs[2], 1):
            return None
        return ast.BinOp(arguments[0], _SIGN[node.kind](), arguments[1])

    def _size(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        shape = syntax.attribute(arguments[0], "shape")
        if is_only_read(node.output):
            return shape
        return syntax.call(self.references.builtin("list"), [shape])

    def _dtype(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        return syntax.attribute(arguments[0], "dtype") if node.output in self._dtypes else None

    def _compared(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Two dtypes, or a dtype and the number of one."""
        if not self._dtypes.intersection(node.inputs):
            return None
        pairs = zip(node.inputs, arguments, strict=True)
        shown = [self._enum_argument("ScalarType", *pair) for pair in pairs]
        if shown[0] is None or shown[1] is None:
            raise UnsupportedError("a dtype is compared with a number that is no dtype")
        sign: ast.cmpop = ast.Eq() if node.kind == "aten::eq" else ast.NotEq()
        return ast.Compare(shown[0], [sign], [shown[1]])

    def _text(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        if node.input.type not in _SHOWN_ALIKE:
            return None
        return syntax.call(self.references.builtin("str"), [arguments[0]])

    def _print(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        if not all(value.type in _SHOWN_ALIKE for value in node.inputs):
            return None
        return syntax.call(self.references.builtin("print"), arguments)

    def _formatted(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        template, *values = node.inputs
        if not template.node.is_constant:
            return None
        text = template.node.attributes["value"]
        pieces = text.split("{}")
        is_plain = len(pieces) == len(values) + 1 and not any(set(p) & {"{", "}"} for p in pieces)
        if not is_plain or not all(value.type in _SHOWN_ALIKE for value in values):
            return None
        return syntax.call(syntax.attribute(arguments[0], "format"), arguments[1:])

    def _number_tensor(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        torch = self.references.module("torch")
        made = syntax.attribute(torch, "tensor")
        if node.input.type in (INT, BOOL):
            return syntax.call(made, arguments)
        if node.input.type == FLOAT:
            keywords = {"dtype": syntax.attribute(torch, "float64")}
            return syntax.call(made, arguments, keywords)
        return None

    def _int(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """``int`` of a tensor that was made only to convert it back."""
        made = node.input.node
        if made.kind == "prim::NumToTensor" and made.input.type == INT:
            match arguments[0]:
                case ast.Call(_, [inner], []):
                    return inner
        return None

    def _tensor_of_list(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """torch.tensor, which makes the same tensor of ints, and of floats in default precision."""
        leaf = nesting(node.input.type)[1]
        names = [argument.name for argument in node.schema.arguments] if node.schema else []
        values = dict(zip(names, node.inputs, strict=True))
        keywords: dict[str, ast.expr] = {}
        if not must_be_none(values["dtype"]):
            return None
        if leaf not in (FLOAT, INT, BOOL):
            return None
        torch = self.references.module("torch")
        if leaf != FLOAT and not _has_items(node.input):
            dtype = "int64" if leaf == INT else "bool"
            keywords["dtype"] = syntax.attribute(torch, dtype)
        for name in ("device", "requires_grad"):
            if name in values and not _is_default(_DEFAULTS[name], values[name]):
                keywords[name] = arguments[names.index(name)]
        return syntax.call(syntax.attribute(torch, "tensor"), [arguments[0]], keywords)


_DEFAULTS: Mapping[str, Any] = {"device": None, "requires_grad": False}
_SHOWN_ALIKE: frozenset[Type] = frozenset({INT, BOOL, STRING, NONE})
"""Types whose values Python shows as TorchScript does."""


def known_number(node: Node) -> complex | None:
    """The number that a constant operand without dimensions acts as."""
    if node.schema is None or node.schema.full_name not in SCALAR_OVERLOADS:
        return None
    constant = node.inputs[1].node
    if not constant.is_constant:
        return None
    content = constant.attributes["value"]
    return as_number(content.value) if isinstance(content, TableConstant) else None


def is_only_read(value: Value) -> bool:
    """Whether a tuple can stand for a list: it is only unpacked, indexed, or given to torch."""
    return all(
        user.kind in _READERS
        or (
            user.schema is not None
            and find_native(user.schema) is None
            and user.schema.full_name not in READABLE_FORMS
            and user.kind.startswith("aten::")
            and not user.schema.arguments[offset].is_write
        )
        for user, offset in value.uses
    )


def _by_schema(
    schema: FunctionSchema, arguments: Sequence[ast.expr]
) -> tuple[list[ast.expr], dict[str, ast.expr]]:
    positional, keywords = [], {}
    for offset, shown in enumerate(arguments):
        if offset < len(schema.arguments) and schema.arguments[offset].kwarg_only:
            keywords[schema.arguments[offset].name] = shown
        else:
            positional.append(shown)
    return positional, keywords


def _has_items(value: Value) -> bool:
    return (
        value.node.kind == "prim::ListConstruct"
        and bool(value.node.inputs)
        and (value.node.inputs[0].type in (INT, BOOL))
    )


def _is_number(value: Value, number: int) -> bool:
    return value.node.is_constant and value.node.attributes["value"] == number


def _is_default(default: Any, value: Value) -> bool:
    if not value.node.is_constant:
        return False
    content = value.node.attributes["value"]
    return type(content) is type(default) and bool(content == default)


_Special = Callable[[Operators, Node, Sequence[ast.expr]], ast.expr | None]
_SPECIAL: dict[str, _Special] = {
    **dict.fromkeys(_ALPHA, Operators._sum),
    "aten::size": Operators._size,
    "prim::shape.builtin": Operators._size,
    "prim::dtype": Operators._dtype,
    "aten::eq.int": Operators._compared,
    "aten::ne.int": Operators._compared,
    "aten::str": Operators._text,
    "prim::Print": Operators._print,
    "aten::format": Operators._formatted,
    "prim::NumToTensor.Scalar": Operators._number_tensor,
    "prim::NumToTensor.bool": Operators._number_tensor,
    "aten::Int.Tensor": Operators._int,
    "aten::tensor": Operators._tensor_of_list,
    "aten::as_tensor.list": Operators._tensor_of_list,
}
