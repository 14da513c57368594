"""Python expressions for operators: syntax, functions of torch, or the package's own helpers.

``torch.relu`` and the methods of tensors are made from the same schemas as the operators, as long
as no Python function stands in front of them. Chains of select and slice become ``x[:, 0]``.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MethodDescriptorType, ModuleType
from typing import Any

import torch
import torch.nn.functional

from tsarchive.errors import UnknownOperatorError, UnsupportedError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import COMPUTED, MAX_TRIP_COUNT, Node, Value, must_be_none
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.subtyping import type_in_schema
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
)
from tsarchive.ir.values import is_default, necessary_arguments
from tsarchive.operators.effects import SCALAR_OVERLOADS
from tsarchive.operators.libraries import what_registers
from tsarchive.operators.python_forms import (
    BOUND_BY_HAND,
    FUNCTIONALS,
    NON_ZERO_DIVISOR,
    READABLE_FORMS,
    TAKING_ITEMS,
    WITHOUT_ALPHA,
    WRAPPING,
)
from tsarchive.operators.upgraders import OLDER
from tsarchive.run.checks import MEMORY_FORMATS, enum_names
from tsarchive.run.expressions import nesting, told_element
from tsarchive.run.natives.conversions import DTYPES, LAYOUTS
from tsarchive.run.objects import as_number
from tsarchive.run.operators import (
    find_native,
    implementation,
    operator_schemas,
    schema_without_text,
)

from . import syntax
from .flow import text_of
from .program import Program

_OPERANDS = 2
_REAL: frozenset[Type] = frozenset({INT, FLOAT, BOOL})
_ALPHA = ("aten::add.Tensor", "aten::sub.Tensor", "aten::add.Scalar", "aten::sub.Scalar")
_SUMS = {"aten::add": "_0 + _1", "aten::sub": "_0 - _1"}
_READERS = frozenset({"prim::ListUnpack", "aten::__getitem__", "aten::len", "aten::select"})


@dataclass(eq=False, slots=True)
class Operators:
    """Expressions of the operators of one function.

    ``dtypes`` are values kept as torch.dtype, and ``counters`` the sums that need not wrap.
    """

    function: Function
    program: Program
    dtypes: set[Value]
    counters: set[Node]

    def operator(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        schema = node.schema or schema_without_text(node)
        if node.stand_in is not None:
            return syntax.call(self.program.reference(node.stand_in), arguments)
        if node.upgrader is not None:
            upgrader = syntax.helper(f"{OLDER}::{node.upgrader}")
            return syntax.call(upgrader, *_by_schema(schema, dict(enumerate(arguments))))
        number = known_number(node)
        if number is not None:
            arguments = [arguments[0], syntax.literal(number), *arguments[2:]]
        reflected = _reflected(node, arguments)
        if reflected is not None:
            return reflected
        special = _SPECIAL.get(schema.full_name)
        if special is not None:
            found = special(self, node, arguments)
            if found is not None:
                return found
        form = self._form(node, schema)
        if form is not None:
            made = syntax.form(form, *arguments)
            _note_comparison(node, made)
            return made
        found = indexed(schema, node, arguments)
        if found is not None:
            return found
        if find_native(schema) is not None:
            return self.helper(node, arguments)
        return self._call(node, schema, arguments)

    def _form(self, node: Node, schema: FunctionSchema) -> str | None:
        key = schema.full_name
        may_wrap = self.function in self.program.wrapping and node not in self.counters
        if may_wrap and key in WRAPPING:
            return None
        if key in NON_ZERO_DIVISOR:
            is_unknown = node.inputs[1].constant in (COMPUTED, 0, None)
            is_real = all(value.type in _REAL for value in node.inputs)
            return NON_ZERO_DIVISOR[key] if is_real and not is_unknown else None
        form = READABLE_FORMS.get(key)
        return None if form and _is_named(schema, form, text_of(node)) else form

    def helper(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        """Return a call of the function that runs the operator here, copied into the package."""
        schema = node.schema or schema_without_text(node)
        positional, keywords = _by_schema(schema, dict(enumerate(arguments)))
        element = told_element(schema, node)
        if element is not None:
            keywords["element"] = syntax.literal(element)
        return syntax.call(syntax.helper(schema.full_name), positional, keywords)

    def _call(self, node: Node, schema: FunctionSchema, arguments: Sequence[ast.expr]) -> ast.expr:
        try:
            implementation(schema)
        except UnknownOperatorError as error:
            if not (schema.is_vararg or operator_schemas(schema.name)):
                return self._foreign(schema, arguments)
            # Code may hold operators that it never calls: a call that is reached raises.
            name = f"{self.function.qualified_name}: {schema.full_name}"
            self.program.untranslated.setdefault(name)
            return syntax.form("missing(_0)", syntax.literal(error.message))
        kept = self._kept_arguments(node, schema, arguments)
        if kept is not None:
            text = text_of(node)
            positional, keywords = _by_schema(schema, kept)
            found = callee(schema, len(positional), keywords)
            if found is not None:
                called = _without_defaults(schema, kept, node.inputs, text)
                called = _as_called(schema, called, text)
                positional, keywords = _by_schema(schema, called, text)
            if found is not None and _is_called_as_method(schema, text):
                found = METHOD
            if found == METHOD:
                receiver, *positional = positional
                positional = _spread(schema, positional, keywords, text)
                found = syntax.attribute(receiver, schema.name.partition("::")[2])
                if schema.name == "aten::to" and len(positional) > len(schema.arguments) - 2:
                    keywords["memory_format"] = positional.pop()
            elif schema.name.partition("::")[2] in _SIZED:
                positional = _spread(schema, positional, (), text)
            elif found is None:
                found, positional = _of_items(schema, positional)
            if isinstance(found, ast.expr):
                if _is_functional(found):
                    positional = [_as_tuple(shown) for shown in positional]
                return self._as_list(node, syntax.call(found, positional, keywords))
        count, outs = necessary_arguments(schema, node.inputs)
        total = len(arguments)
        needed = {i: arguments[i] for i in range(total) if i < count or i >= total - outs}
        positional, keywords = _by_schema(schema, needed)
        given = [node.inputs[offset] for offset in needed]
        named = dict(zip(keywords, given[len(positional) :], strict=True))
        is_told = is_told_apart(schema, given[: len(positional)], named)
        return syntax.call(by_overload(schema, is_told=is_told), positional, keywords)

    def _foreign(self, schema: FunctionSchema, arguments: Sequence[ast.expr]) -> ast.expr:
        """Return a call of an operator that is not registered here, which may be where it runs."""
        advice = what_registers(schema.name)
        self.program.libraries.setdefault(schema.name, advice)
        self.program.foreign.setdefault(_in_schema(schema))
        named = syntax.literal(schema.name), syntax.literal(advice)
        positional, keywords = _by_schema(schema, dict(enumerate(arguments)))
        return syntax.call(syntax.form("operator(_0, _1)", *named), positional, keywords)

    def _kept_arguments(
        self, node: Node, schema: FunctionSchema, arguments: Sequence[ast.expr]
    ) -> dict[int, ast.expr] | None:
        """Return arguments that differ from defaults; None where a number stands for a dtype."""
        count = _told_by(schema, node.inputs)
        while count and is_default_list(schema.arguments[count - 1], arguments[count - 1]):
            count -= 1
        enums = enum_names(schema.full_name)
        kept: dict[int, ast.expr] = {}
        for offset, argument in enumerate(schema.arguments):
            value = node.inputs[offset]
            by_name = argument.kwarg_only
            if is_default(argument.default, value) if by_name else offset >= count:
                continue
            shown: ast.expr | None = arguments[offset]
            if offset in enums:
                shown = self._enum_argument(enums[offset], value, arguments[offset])
            if shown is None:
                return None
            kept[offset] = shown
        return kept

    def _as_list(self, node: Node, made: ast.expr) -> ast.expr:
        """Make a list of the tuple that Python's functions return where TorchScript has lists."""
        if len(node.outputs) != 1 or not isinstance(node.output.type, ListType):
            return made
        if is_only_read(node.output):
            return made
        return syntax.form("list(_0)", made)

    def dtype_argument(self, argument: Argument, value: Value, shown: ast.expr) -> ast.expr:
        """Return what a function of torch takes for an argument that may be a dtype.

        Raises UnsupportedError for a dtype that only runs tell.
        """
        if argument.name != "dtype":
            return shown
        found = self._enum_argument("ScalarType", value, shown)
        if found is None:
            raise UnsupportedError(f"{self.function.qualified_name} passes a computed dtype")
        return found

    def _enum_argument(self, kind: str, value: Value, shown: ast.expr) -> ast.expr | None:
        """Return ``torch.float32`` where a dtype is known, likewise the others; None otherwise.

        ``shown`` is the expression for ``value``.
        """
        if must_be_none(value):
            return syntax.literal(None)
        if value in self.dtypes:
            return shown
        member = _ENUM_MEMBERS[kind].get(value.constant)
        return None if member is None else syntax.form(str(member))

    def _sum(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Return ``a + b``, unless b is multiplied by a factor."""
        if node.inputs[2].constant != 1:
            return None
        return syntax.form(_SUMS[node.kind], *arguments)

    def _subtracted_from(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Return ``1 - x``, unless x is multiplied by a factor."""
        is_plain = node.inputs[2].constant == 1 and syntax.is_atom(arguments[1])
        return syntax.form("_1 - _0", *arguments) if is_plain else None

    def _size(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        form = "_0.shape" if is_only_read(node.output) else "list(_0.shape)"
        return syntax.form(form, *arguments)

    def _dtype(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        return syntax.attribute(arguments[0], "dtype") if node.output in self.dtypes else None

    def _compared(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Compare two dtypes, or a dtype and the number of one."""
        if not self.dtypes.intersection(node.inputs):
            return None
        pairs = zip(node.inputs, arguments, strict=True)
        shown = [self._enum_argument("ScalarType", *pair) for pair in pairs]
        if shown[0] is None or shown[1] is None:
            raise UnsupportedError("a dtype is compared with a number that is no dtype")
        form = "_0 == _1" if node.kind == "aten::eq" else "_0 != _1"
        made = syntax.form(form, shown[0], shown[1])
        _note_comparison(node, made)
        return made

    def _shown(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        if not all(value.type in _SHOWN_ALIKE for value in node.inputs):
            return None
        name = "print" if node.kind == "prim::Print" else "str"
        return syntax.call(syntax.builtin(name), arguments)

    def _formatted(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        template, *values = node.inputs
        text = template.constant
        if not isinstance(text, str):
            return None
        pieces = text.split("{}")
        is_plain = len(pieces) == len(values) + 1 and not any(set(p) & {"{", "}"} for p in pieces)
        if not is_plain or not all(value.type in _SHOWN_ALIKE for value in values):
            return None
        if not any(isinstance(one, _TEXT) for shown in arguments[1:] for one in ast.walk(shown)):
            return syntax.f_string(pieces, arguments[1:])
        return syntax.call(syntax.attribute(arguments[0], "format"), arguments[1:])

    def _listed(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Return a list that was just made for its copy."""
        match arguments[0]:
            case ast.Call(function, [_], []) as made:
                reference = syntax.reference_of(function)
                if reference is not None and (reference.home, reference.name) == ("", "list"):
                    return made
        return None

    def _not(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        match arguments[0]:
            case ast.Compare(_, [ast.Is() | ast.In() | ast.IsNot() | ast.NotIn()]) as compared:
                return syntax.negated(compared)
        return None

    def _popped(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        return syntax.form("_0.pop()", arguments[0]) if node.inputs[1].constant == -1 else None

    def _converted(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Return ``x.float()`` where a line converts a tensor so."""
        name = _CONVERSIONS.get(str(DTYPES.get(node.inputs[1].constant)), "")
        given = zip(node.schema.arguments[2:], node.inputs[2:], strict=True) if node.schema else ()
        is_plain = all(is_default(argument.default, value) for argument, value in given)
        if not name or not is_plain or f".{name}()" not in text_of(node):
            return None
        return syntax.call(syntax.attribute(arguments[0], name))

    def _of_real(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Convert a number that is known to be no complex one as Python does."""
        if node.input.type not in _REAL:
            return None
        name = node.kind.partition("::")[2].lower()
        return syntax.call(syntax.builtin(name), arguments)

    def _length(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Return the count of letters where no more is asked than whether there are any."""
        for user, offset in node.output.uses:
            other = user.inputs[1 - offset] if user.operator in _ORDERS else None
            if other is None or other.constant != 0:
                return None
        return syntax.form("len(_0)", *arguments)

    def _split(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Call the method of str, which splits text as TorchScript does where ASCII parts it."""
        separator, most = node.inputs[1].constant, node.inputs[2].constant
        if not isinstance(separator, str) or not separator or not separator.isascii():
            return None
        given = arguments[1:2] if most == -1 else arguments[1:]
        return syntax.call(syntax.attribute(arguments[0], "split"), given)

    def _number_tensor(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        form = _NUMBER_TENSORS.get(node.input.type)
        return None if form is None else syntax.form(form, *arguments)

    def _int(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Return the int of which a tensor was made only to be converted back."""
        made = node.input.node
        if made.kind == "prim::NumToTensor" and made.input.type == INT:
            match arguments[0]:
                case ast.Call(_, [inner], []):
                    return inner
        return None

    def _tensor_of_number(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Call the function of torch, which refuses a number that a dtype does not hold."""
        assert node.schema is not None
        number = node.input.constant
        dtype = node.inputs[1].constant
        is_held = isinstance(number, float | int) and 0 <= number <= _MOST_HELD
        if not (dtype is None or is_held or str(DTYPES.get(dtype)) in _FLOATING):
            return None
        keywords: dict[str, ast.expr] = {}
        rows = zip(node.schema.arguments, node.inputs, arguments, strict=True)
        for argument, value, shown in list(rows)[1:]:
            if not is_default(argument.default, value):
                told: ast.expr | None = shown
                if argument.name == "dtype":
                    told = self._enum_argument("ScalarType", value, shown)
                if told is None:
                    return None
                keywords[argument.name] = told
        function = syntax.form(f"torch.{node.schema.name.partition('::')[2]}")
        return syntax.call(function, arguments[:1], keywords)

    def _tensor_of_list(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
        """Call torch.tensor, which gives the same for ints, and for floats in default precision.

        So it does for a dtype that takes nothing from what is stored first.
        """
        leaf = nesting(node.input.type)[1]
        names = [argument.name for argument in node.schema.arguments] if node.schema else []
        values = dict(zip(names, node.inputs, strict=True))
        if leaf not in _KEEPING:
            return None
        form = "torch.tensor(_0"
        if not must_be_none(values["dtype"]):
            dtype = _ENUM_MEMBERS["ScalarType"].get(values["dtype"].constant)
            if str(dtype) not in _KEEPING[leaf]:
                return None
            form += f", dtype={dtype}"
        elif leaf != FLOAT and not _has_items(node.input):
            form += f", dtype={_KEEPING[leaf][0]}"
        for name in ("device", "requires_grad"):
            if name in values and not is_default(_DEFAULTS[name], values[name]):
                form += f", {name}=_{names.index(name)}"
        return syntax.form(f"{form})", *arguments)


_MOST_HELD = 127
"""The largest number that all dtypes hold, if only as a whole number."""
_FLOATING = frozenset({"torch.float32", "torch.float64"})
_NUMBER_TENSORS: dict[Type, str] = {
    INT: "torch.tensor(_0)", BOOL: "torch.tensor(_0)",
    FLOAT: "torch.tensor(_0, dtype=torch.float64)",
}  # fmt: skip
_KEEPING: Mapping[Type, Sequence[str]] = {
    INT: ("torch.int64", "torch.float64"), BOOL: ("torch.bool", "torch.uint8", "torch.int64"),
    FLOAT: ("torch.float32",),
}  # fmt: skip
"""The dtypes that hold the numbers of a list as the dtype that comes first does."""
_CONVERSIONS: Mapping[str, str] = {
    "torch.bfloat16": "bfloat16", "torch.bool": "bool", "torch.float16": "half",
    "torch.float32": "float", "torch.float64": "double", "torch.int32": "int",
    "torch.int64": "long", "torch.uint8": "byte",
}  # fmt: skip
"""The methods of tensors that convert them."""
_ORDERS = frozenset(f"aten::{sign}.int" for sign in ("eq", "ne", "lt", "le", "gt", "ge"))
_DEFAULTS: Mapping[str, Any] = {"device": None, "requires_grad": False}
# Before Python 3.12 an expression in an f-string cannot hold the quotes around it.
_TEXT = (ast.JoinedStr, ast.Constant)
_SHOWN_ALIKE: frozenset[Type] = frozenset({INT, BOOL, STRING, NONE, ListType(INT)})
"""Types whose values Python shows as TorchScript does."""


def _has_items(value: Value) -> bool:
    """Return whether a list is built of numbers, or of lists of which the first one is."""
    made = value.node
    if made.kind != "prim::ListConstruct" or not made.inputs:
        return False
    return made.input.type in (INT, BOOL) or _has_items(made.input)


def _note_comparison(node: Node, made: ast.expr) -> None:
    """Note what a comparison of values other than tensors can be turned into."""
    if isinstance(made, ast.Compare) and node.output.type == BOOL:
        is_ordered = all(value.type in (INT, STRING) for value in node.inputs)
        syntax.compares_plainly(made, is_ordered=is_ordered)


def _in_schema(schema: FunctionSchema) -> str:
    """Return a schema without defaults as torch reads it."""
    shown = [f"{type_in_schema(one.type)} {one.name}" for one in schema.arguments]
    results = ", ".join(type_in_schema(one.type) for one in schema.returns)
    return f"{schema.full_name}({', '.join(shown)}) -> ({results})"


def known_number(node: Node) -> complex | None:
    """Return the number that a constant operand without dimensions acts as."""
    if node.operator not in SCALAR_OVERLOADS:
        return None
    content = node.inputs[1].constant
    return as_number(content.value) if isinstance(content, TableConstant) else None


def is_only_read(value: Value) -> bool:
    """Return whether a tuple can stand for a list: it is unpacked, indexed, or given to torch."""
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
    schema: FunctionSchema, arguments: Mapping[int, ast.expr], text: str = ""
) -> tuple[list[ast.expr], dict[str, ast.expr]]:
    """Return arguments by position, and those that are given by name.

    The line of the program that is ``text`` may give the last of the former by name, too.
    """
    positional: list[ast.expr] = []
    keywords: dict[str, ast.expr] = {}
    first = _first_by_name(schema, arguments, text)
    for offset, shown in arguments.items():
        if offset < len(schema.arguments) and (
            offset >= first or schema.arguments[offset].kwarg_only
        ):
            keywords[schema.arguments[offset].name] = shown
        else:
            positional.append(shown)
    return positional, keywords


def _told_by(schema: FunctionSchema, values: Sequence[Value]) -> int:
    """Return how many leading arguments a call needs, with all where fewer mean an overload."""
    needed, _ = necessary_arguments(schema, values)
    whole = sum(not argument.kwarg_only for argument in schema.arguments)
    is_doubtful = needed < whole and not is_told_apart(schema, values[:needed], {})
    return whole if is_doubtful and is_told_apart(schema, values[:whole], {}) else needed


def _without_defaults(
    schema: FunctionSchema, arguments: Mapping[int, ast.expr], values: Sequence[Value], text: str
) -> Mapping[int, ast.expr]:
    """Leave out the defaults right before the arguments that a line gives by name."""
    kept = dict(arguments)
    first = _first_by_name(schema, arguments, text)
    if first == len(schema.arguments):
        return kept
    for offset in sorted((offset for offset in kept if offset < first), reverse=True):
        argument = schema.arguments[offset]
        if not argument.has_default or not is_default(argument.default, values[offset]):
            break
        del kept[offset]
    named = {schema.arguments[i].name: values[i] for i in kept if i >= first}
    fewer, more = ([values[i] for i in given if i < first] for given in (kept, arguments))
    is_doubtful = len(fewer) < len(more) and not is_told_apart(schema, fewer, named)
    return arguments if is_doubtful and is_told_apart(schema, more, named) else kept


def by_call(
    schema: FunctionSchema, values: Sequence[Value], arguments: Sequence[ast.expr], text: str
) -> tuple[list[ast.expr], dict[str, ast.expr]]:
    """Return arguments of a method by position and by name, without ``self`` and defaults behind.

    ``values`` are those of the arguments, and ``text`` is the line of the call.
    """
    kept = dict(enumerate(arguments, 1))
    while kept:
        last = max(kept)
        argument = schema.arguments[last]
        if not argument.has_default or not is_default(argument.default, values[last]):
            break
        del kept[last]
    return _by_schema(schema, _without_defaults(schema, kept, values, text), text)


def _is_named(schema: FunctionSchema, form: str, text: str) -> bool:
    """Return whether a line calls an operator on tensors by its name, and not by its sign."""
    name = schema.name.partition("::")[2]
    is_sign = "(" not in form and schema.arguments[0].type == TENSOR and name.isalpha()
    is_called = is_sign and re.search(rf"\b{name}\(", text) is not None
    return is_called and find_native(schema) is None and callee(schema, _OPERANDS) is not None


def _first_by_name(schema: FunctionSchema, arguments: Mapping[int, ast.expr], text: str) -> int:
    """Return the first argument that a line gives by its name, as it does all behind it."""
    first = len(schema.arguments)
    if not text or schema.name.partition("::")[2] in FUNCTIONALS:
        return first
    given = text[text.find("(") :]  # what stands before may assign to such names
    for offset in sorted(arguments, reverse=True):
        argument = schema.arguments[offset]
        is_named = re.search(rf"[(,] *{re.escape(argument.name)} *=(?!=)", given) is not None
        if offset == 0 or not (is_named or argument.kwarg_only):
            break
        first = offset
    return first


def _as_called(
    schema: FunctionSchema, arguments: Mapping[int, ast.expr], text: str
) -> Mapping[int, ast.expr]:
    """Return arguments with a number in the place of a list of it, which the schema takes.

    A list that the line has stays, but for one of a single number.
    """
    found = dict(arguments)
    for offset, shown in arguments.items():
        item = _repeated(schema.arguments[offset], shown)
        if item is not None and (
            schema.arguments[offset].repeat == 1
            or re.search(rf"[\[(] *{re.escape(ast.unparse(item))} *,", text) is None
        ):
            found[offset] = item
    return found


def _repeated(argument: Argument, shown: ast.expr) -> ast.expr | None:
    """Return the number that stands for a list of as many as the argument takes."""
    match shown:
        case ast.List([item]) if argument.repeat == 1:
            return item
        case ast.List([ast.Constant() as item, *others]):
            is_whole = len(others) + 1 == argument.repeat
            return item if is_whole and all(syntax.same(item, one) for one in others) else None
    return None


def is_default_list(argument: Argument, shown: ast.expr) -> bool:
    """Return whether an argument by position is the list that it is by default."""
    is_list = isinstance(argument.default, list) and not argument.kwarg_only
    return is_list and syntax.same(syntax.literal(argument.default), shown)


_SIZED = frozenset({"empty", "ones", "rand", "randn", "zeros"})
_SPREAD = _SIZED | {"expand", "flip", "permute", "repeat", "reshape", "tile", "view"}


def _spread(
    schema: FunctionSchema, arguments: list[ast.expr], keywords: Collection[str], text: str
) -> list[ast.expr]:
    """Return the items of a list that a method is given, where the line gives them one by one."""
    name = schema.name.partition("::")[2]
    match arguments:
        case [ast.List([_, *_] as items)] if name in _SPREAD and not keywords:
            return items if re.search(rf"\.{name}\((?![\[(*])", text) else arguments
    return arguments


def _of_items(
    schema: FunctionSchema, arguments: list[ast.expr]
) -> tuple[ast.expr | None, list[ast.expr]]:
    """Return the function of torch that takes the items of the last list one by one, with them.

    None stands for such a function where there is none, or no list is shown.
    """
    name = schema.name.partition("::")[2]
    match arguments:
        case [*first, ast.List([_, *_] as items)] if len(items) <= TAKING_ITEMS.get(name, 0):
            return syntax.form(f"torch.{name}"), [*first, *items]
    return None, arguments


_QUOTIENT = "_1 / _0"
_REFLECTED: Mapping[str, str] = {
    "return b + a": "_1 + _0", "return b * a": "_1 * _0",
    "return torch.neg(b) + a": "_1 - _0", "return torch.reciprocal(b) * a": _QUOTIENT,
    "return b > a": "_1 < _0", "return b >= a": "_1 <= _0",
    "return b < a": "_1 > _0", "return b <= a": "_1 >= _0",
}  # fmt: skip
"""Operators of a number a and a tensor b, by the lines of torch's own code that runs them."""
_BUILTINS_FILE = "<string>"


def _reflected_form(node: Node) -> str:
    is_builtin = node.range is not None and node.range.source.filename == _BUILTINS_FILE
    return _REFLECTED.get(text_of(node), "") if is_builtin else ""


def is_quotient(node: Node) -> bool:
    """Return whether a node multiplies as the second step of a division by a tensor."""
    return node.kind == "aten::mul" and _reflected_form(node) == _QUOTIENT


def _reflected(node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
    """Return ``1 - x`` where the code has what torch.jit compiles that to; None elsewhere."""
    form = _reflected_form(node)
    if not form or len(node.inputs) < _OPERANDS or not syntax.is_atom(arguments[1]):
        return None
    tensor = _operand(arguments[0]) if "torch." in text_of(node) else arguments[0]
    return None if tensor is None else syntax.form(form, tensor, arguments[1])


def _operand(shown: ast.expr) -> ast.expr | None:
    """Return what is negated, or inverted, by an expression."""
    match shown:
        case ast.UnaryOp(ast.USub(), inner) | ast.Call(_, [inner], []):
            return inner
        case ast.Call(ast.Attribute(inner), [], []):
            return inner
    return None


_SPECIAL: dict[str, Callable[[Operators, Node, Sequence[ast.expr]], ast.expr | None]] = {
    **dict.fromkeys(_ALPHA, Operators._sum),
    "aten::rsub.Scalar": Operators._subtracted_from,
    "aten::size": Operators._size,
    "prim::shape.builtin": Operators._size,
    "prim::dtype": Operators._dtype,
    "aten::eq.int": Operators._compared,
    "aten::ne.int": Operators._compared,
    "aten::__not__": Operators._not,
    "aten::list.t": Operators._listed,
    "aten::pop.t": Operators._popped,
    "aten::str": Operators._shown,
    "prim::Print": Operators._shown,
    "aten::format": Operators._formatted,
    "prim::NumToTensor.Scalar": Operators._number_tensor,
    "prim::NumToTensor.bool": Operators._number_tensor,
    "aten::Int.Tensor": Operators._int,
    "aten::to.dtype": Operators._converted,
    "aten::len.str": Operators._length,
    **{f"aten::{name}.Scalar": Operators._of_real for name in ("Bool", "Float", "Int")},
    "aten::split.str": Operators._split,
    "aten::tensor": Operators._tensor_of_list,
    **dict.fromkeys(
        (f"aten::{name}.{t}" for name in ("tensor", "as_tensor") for t in ("int", "float", "bool")),
        Operators._tensor_of_number,
    ),
    "aten::as_tensor.list": Operators._tensor_of_list,
}


def _is_functional(callee: ast.expr) -> bool:
    """Return whether a function is of torch.nn.functional, which declares tuples of sizes."""
    match callee:
        case ast.Attribute(module):
            found = syntax.reference_of(module)
            return found is not None and found.home == torch.nn.functional.__name__
    return False


def _as_tuple(shown: ast.expr) -> ast.expr:
    """Return a tuple for a list of numbers."""
    match shown:
        case ast.List([_, _, *_] as items) if all(isinstance(i, ast.Constant) for i in items):
            return ast.Tuple(items, ast.Load())
    return shown


METHOD = "method"
"""Stands for the method of the first argument."""

_GAPPY = ListType(OptionalType(TENSOR))
_TO_OVERLOADS = frozenset({"device", "dtype", "other"})


def callee(
    schema: FunctionSchema, count: int, keywords: Collection[str] = ()
) -> ast.expr | str | None:
    """Return the callee for an operator with the first ``count`` arguments by position.

    ``keywords`` are the names of those that are given by name.

    ``METHOD`` means the method of the first argument that has the operator's name, None that
    the operator is reached by its overload alone.
    """
    namespace, _, name = schema.name.partition("::")
    has_out = any(argument.is_out for argument in schema.arguments)
    if namespace != "aten" or has_out or _is_misread(schema, count):
        return None
    # Functions of torch make tensors of numbers, where TorchScript has operators on numbers.
    if not any(_holds_tensor(a.type) for a in (*schema.arguments, *schema.returns)):
        return None
    if name in FUNCTIONALS and count <= FUNCTIONALS[name]:
        return syntax.form(f"F.{name}")
    if _is_same(torch, torch._C._VariableFunctions, name):
        return syntax.form(f"torch.{name}")
    if _is_same(torch.nn.functional, torch._C._nn, name):
        return syntax.form(f"F.{name}")
    family, _, member = name.partition("_")
    if _is_member(family, member):
        return syntax.form(f"torch.{family}.{member}")
    is_method = _is_to(schema, count, keywords) if name == "to" else _is_method(schema, name)
    return METHOD if is_method else None


def is_told_apart(
    schema: FunctionSchema, positional: Sequence[Value], keywords: Mapping[str, Value]
) -> bool:
    """Return whether an operator called with these values is this one, whatever its overloads.

    torch takes the first of them that the values fit.
    """
    for other in operator_schemas(schema.name):
        if other.full_name == schema.full_name:
            return True
        if _may_take(other, positional, keywords):
            return False
    return False


def _may_take(
    schema: FunctionSchema, positional: Sequence[Value], keywords: Mapping[str, Value]
) -> bool:
    """Return whether torch might take an operator for one that is called with these values."""
    by_position = [argument for argument in schema.arguments if not argument.kwarg_only]
    by_name = {argument.name: argument for argument in schema.arguments}
    if len(positional) > len(by_position) or not by_name.keys() >= keywords.keys():
        return False
    pairs = [*zip(by_position, positional, strict=False)]
    pairs += [(by_name[name], value) for name, value in keywords.items()]
    given = {argument.name for argument, _ in pairs}
    is_whole = all(a.has_default or a.name in given for a in schema.arguments)
    return is_whole and all(_may_be_passed(value.type, argument) for argument, value in pairs)


def _may_be_passed(given: Type, argument: Argument) -> bool:
    is_repeated = argument.repeat is not None and _kind(given) == "number"
    return is_repeated or _may_be_taken(given, argument.type)


def _may_be_taken(given: Type, wanted: Type) -> bool:
    """Return whether a value of a type may be an argument of another.

    Tensors and numbers are converted to each other, and all else has to be what is wanted.
    """
    if isinstance(wanted, OptionalType):
        return given == NONE or any(_may_be_taken(given, part) for part in wanted.parts())
    if isinstance(given, OptionalType | UnionType):
        return True
    kinds = [_kind(type_) for type_ in (given, wanted)]
    if "" in kinds or kinds[0] != kinds[1]:
        return "" in kinds
    if isinstance(given, ListType) and isinstance(wanted, ListType):
        return _may_be_taken(given.element, wanted.element)
    return True


def _kind(type_: Type) -> str:
    """Return what tells values of a type from those of others; "" where anything may be."""
    if type_ in (TENSOR, INT, FLOAT, BOOL, NUMBER, COMPLEX):
        return "number"
    if type_ in (STRING, DEVICE):  # which text may name
        return "text"
    if isinstance(type_, ListType | TupleType):
        return "list"
    if isinstance(type_, DictType):
        return "dict"
    return annotation(type_) if isinstance(type_, ClassType) else ""


def by_overload(schema: FunctionSchema, *, is_told: bool = False) -> ast.expr:
    """Return ``torch.ops.aten.relu.default``, which also takes numbers in the place of dtypes.

    Where the arguments have told the overload, it is left out.
    """
    namespace, _, name = schema.name.partition("::")
    found = syntax.form("torch")
    overload = [] if is_told else [schema.overload or "default"]
    for part in ("ops", namespace, name, *overload):
        # Inside of a class Python would take `__interpolate` for a private name.
        is_private = part.startswith("__") and not part.endswith("__")
        if part.isidentifier() and not keyword.iskeyword(part) and not is_private:
            found = syntax.attribute(found, part)
        else:
            found = syntax.form("getattr(_0, _1)", found, syntax.literal(part))
    return found


def _holds_tensor(type_: Type) -> bool:
    return type_ == TENSOR or any(map(_holds_tensor, type_.parts()))


def _is_same(shown: ModuleType, bound: Any, name: str) -> bool:
    """Return whether a function of a Python module is the binding of that name itself."""
    found = getattr(bound, name, None)
    return found is not None and getattr(shown, name, None) is found


def _is_member(family: str, member: str) -> bool:
    """Return whether ``torch.linalg.norm`` is the binding of ``linalg_norm``, and others alike."""
    if family not in _FAMILIES:
        return False
    bound = getattr(getattr(torch._C, f"_{family}"), f"{family}_{member}", None)
    return bound is not None and getattr(getattr(torch, family), member, None) is bound


def _is_misread(schema: FunctionSchema, count: int) -> bool:
    """Return whether torch's Python functions take these arguments for others, or not at all."""
    name = schema.name.partition("::")[2]
    if name in BOUND_BY_HAND or (schema.full_name in WITHOUT_ALPHA and count > _OPERANDS):
        return True
    return any(argument.type == _GAPPY for argument in schema.arguments)


def _is_to(schema: FunctionSchema, count: int, keywords: Collection[str]) -> bool:
    """Return whether ``x.to`` of Python takes the arguments."""
    if schema.overload == "prim_Device":
        return count < len(schema.arguments)
    if schema.overload == "dtype_layout":
        return bool(keywords) and not {"layout", "pin_memory"} & set(keywords)
    return schema.overload in _TO_OVERLOADS


def _is_called_as_method(schema: FunctionSchema, text: str) -> bool:
    """Return whether there is such a method, and a line of the program does not call a function.

    Without a line, what changes a tensor is a method of it, and nothing else is.
    """
    name = schema.name.partition("::")[2]
    called = set(re.findall(rf"([\w\])]+)\.{re.escape(name)}\(", text))
    is_called = bool(called) or schema.arguments[0].is_write
    return is_called and called.isdisjoint(_MODULES) and _is_method(schema, name)


def _is_method(schema: FunctionSchema, name: str) -> bool:
    if not schema.arguments or schema.arguments[0].type != TENSOR:
        return False
    if schema.arguments[0].name not in ("self", "input") or name.startswith("__"):
        return False
    bound = getattr(torch._C.TensorBase, name, None)
    return isinstance(bound, MethodDescriptorType) and name not in torch.Tensor.__dict__


_ENUM_MEMBERS: Mapping[str, Mapping[int, object]] = {
    "ScalarType": DTYPES,
    "Layout": {number: layout for layout, number in LAYOUTS.items()},
    "MemoryFormat": {number: f"torch.{name}" for number, name in MEMORY_FORMATS.items()},
}

_FAMILIES = frozenset({"linalg", "special", "fft"})
"""Modules of torch, by what names of the operators begin with that they have."""
_MODULES = _FAMILIES | {"torch", "F", "functional"}
_MOST_DIMENSIONS = 8
_MARK = "tensor_items"


def indexed(schema: FunctionSchema, node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
    """Return the subscript for a node; None where it has no such form."""
    match schema.full_name:
        case "aten::slice.t":
            bounds = _slice(node.inputs[1:], arguments[1:])
            return None if bounds is None else syntax.subscript(arguments[0], bounds)
        case "aten::unsqueeze" if "None" in (text := text_of(node)) and "unsqueeze" not in text:
            return _extended(arguments[0], _dimension(node.inputs[1]), syntax.literal(None))
        case "aten::select.int":
            return _extended(arguments[0], _dimension(node.inputs[1]), arguments[2])
        case "aten::slice.Tensor":
            bounds = _slice(node.inputs[2:], arguments[2:], of_tensor=True)
            return _extended(arguments[0], _dimension(node.inputs[1]), bounds)
        case "aten::index.Tensor":
            return _by_tensors(node, arguments)
    return None


def _dimension(value: Value) -> int | None:
    number = value.constant
    return number if isinstance(number, int) and -1 <= number < _MOST_DIMENSIONS else None


def _slice(
    values: Sequence[Value], bounds: Sequence[ast.expr], *, of_tensor: bool = False
) -> ast.Slice | None:
    """Return the slice for bounds; None for a step that Python takes otherwise.

    Tensors refuse a step below one in either way.
    """
    start, end, step = values
    shown_step = None
    if step.constant != 1:
        is_positive = isinstance(step.constant, int) and step.constant > 0
        if not is_positive and not (of_tensor and step.constant is COMPUTED):
            return None
        shown_step = bounds[2]
    return ast.Slice(
        None if start.constant == 0 or must_be_none(start) else bounds[0],
        None if end.constant == MAX_TRIP_COUNT or must_be_none(end) else bounds[1],
        shown_step,
    )


def _extended(base: ast.expr, dimension: int | None, item: ast.expr | None) -> ast.expr | None:
    """Return ``base[:, item]`` at ``dimension``, joined with a subscript that ends ``base``."""
    if dimension is None or item is None:
        return None
    if dimension < 0:
        return syntax.subscript(base, ast.Constant(...), item)
    items: list[ast.expr] = list(getattr(base, _MARK, ()))
    kept = sum(map(_keeps_dimension, items))
    if items and isinstance(base, ast.Subscript) and dimension >= kept:
        base = base.value
        dimension -= kept
    else:
        items = []
    items += [*[ast.Slice()] * dimension, item]
    made = syntax.subscript(base, *items)
    setattr(made, _MARK, tuple(items))
    return made


def _keeps_dimension(item: ast.expr) -> bool:
    return isinstance(item, ast.Slice) or (isinstance(item, ast.Constant) and item.value is None)


def _by_tensors(node: Node, arguments: Sequence[ast.expr]) -> ast.expr | None:
    """Return ``x[:, i]`` for tensors that a subscript can have."""
    places = tensor_places(node.inputs[1])
    if not places or not isinstance(arguments[1], ast.List):
        return None
    values, shown = node.inputs[1].node.inputs, arguments[1].elts
    return at_tensors(arguments[0], places[0], [_position(values[i], shown[i]) for i in places])


def tensor_places(indices: Value) -> Sequence[int]:
    """Return the places of the tensors in a list of indices, of which the others are None.

    None at all where a subscript would mean something else: a gap between tensors changes the
    order of dimensions.
    """
    made = indices.node
    if made.kind != "prim::ListConstruct":
        return ()
    given = [place for place, value in enumerate(made.inputs) if not must_be_none(value)]
    is_whole = bool(given) and len(given) == given[-1] - given[0] + 1
    return given if is_whole and (len(given) == 1 or given[0] == 0) else ()


def at_tensors(base: ast.expr, leading: int, indices: Sequence[ast.expr]) -> ast.Subscript:
    """Return ``base[:, i, j]``, with whole dimensions before the indices."""
    base, items = _opened(base, leading)
    return syntax.subscript(base, *items, *[ast.Slice()] * (leading - len(items)), *indices)


def _opened(base: ast.expr, most: int) -> tuple[ast.expr, Sequence[ast.expr]]:
    """Return what a subscript is taken of, and its slices, where they are at most so many."""
    items: Sequence[ast.expr] = getattr(base, _MARK, ())
    are_slices = all(isinstance(item, ast.Slice) for item in items)
    if items and isinstance(base, ast.Subscript) and are_slices and len(items) <= most:
        return base.value, items
    return base, ()


def _position(value: Value, shown: ast.expr) -> ast.expr:
    """Return an index: a list of numbers that was made a tensor for it is one by itself."""
    if is_index(value.node) and isinstance(shown, ast.Call):
        return shown.args[0]
    return shown


def is_index(node: Node) -> bool:
    """Return whether a list of constant ints becomes a tensor only to be an index."""
    if node.operator != "aten::tensor" or node.input.type != ListType(INT):
        return False
    made, dtype, device, _ = node.inputs
    is_plain = dtype.constant in (None, _INT64) and must_be_none(device)
    is_list = made.node.kind == "prim::ListConstruct" and bool(made.node.inputs)
    if not (is_plain and is_list and all(value.node.is_constant for value in made.node.inputs)):
        return False
    users = [user for user, _ in node.output.uses]
    if [user.kind for user in users] != ["prim::ListConstruct"]:
        return False
    return [user.operator for user, _ in users[0].output.uses] == ["aten::index.Tensor"]


_INT64 = next(number for number, dtype in DTYPES.items() if str(dtype) == "torch.int64")
