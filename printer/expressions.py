"""Printing of expressions, one method for each kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tsarchive.errors import SaveError
from tsarchive.ir.classes import FunctionType
from tsarchive.ir.graph import Node, Value, must_be_none
from tsarchive.ir.names import checked_value_name, is_identifier
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.types import (
    NONE,
    DictType,
    ListType,
    NamedType,
    OptionalType,
    Rename,
    TupleType,
    Type,
    annotation,
)
from tsarchive.ir.values import necessary_arguments

from .literal_marks import marked_literal
from .literals import Literals, can_be_inferred, check_zeros, string_text
from .read_types import Declarations

Part = str | TaggedText


class Expressions:
    """Prints the expressions of one code record; ``owner`` is the node being printed."""

    def __init__(
        self, literals: Literals, rename: Rename, depend: Callable[[NamedType], None]
    ) -> None:
        self.literals = literals
        self.rename = rename
        self.depend = depend
        self.owner: Node | None = None
        self.capturing: Node | None = None
        self.in_closure = False
        self.declarations = Declarations()
        self.identifiers: dict[Value, str] = {}
        self.stored: dict[Value, TaggedText] = {}

    def build(self, *parts: Part) -> TaggedText:
        text = TaggedText()
        for part in parts:
            if isinstance(part, str):
                text.write(part, self.owner)
            else:
                text.append(part)
        return text

    def use(self, value: Value) -> TaggedText:
        """Return a value as its user prints it: its identifier, or the expression stored for it."""
        name = self.identifiers.get(value)
        if name is None:
            return self.stored[value]
        text = TaggedText()
        text.write(name, self.capturing or self.owner)
        return text

    def list_of(self, values: Iterable[Value]) -> list[Part]:
        parts: list[Part] = []
        for value in values:
            parts += [", ", self.use(value)]
        return parts[1:]

    def annotation(self, type_: Type) -> str:
        return annotation(type_, self.rename)

    def expression(self, node: Node) -> TaggedText:
        text = _BY_KIND.get(node.kind, Expressions._operator)(self, node)
        if _has_location(node):
            text.mark(_location(node, str(text)), node)
        return text

    def _constant(self, node: Node) -> TaggedText:
        type_ = node.output.type
        if isinstance(type_, FunctionType):
            self.depend(type_)
            return self.build(checked_value_name(self.rename(type_)))
        value = None if must_be_none(node.output) else node.attributes["value"]
        check_zeros(value)
        literal = self.literals.literal(value, type_)
        text = marked_literal(literal, node, in_closure=self.in_closure)
        return self._annotate(type_, text) if node.output in self.declarations.always else text

    def _uninitialized(self, node: Node) -> TaggedText:
        return self.build(f"uninitialized({self.annotation(node.output.type)})")

    def _conversion(self, node: Node) -> TaggedText:
        return self._annotate(node.output.type, self.use(node.input))

    def _annotate(self, type_: Type, *parts: Part) -> TaggedText:
        return self.build("annotate(", self.annotation(type_), ", ", *parts, ")")

    def _builtin_call(self, node: Node) -> TaggedText:
        name = node.kind.partition("::")[2].lower()
        return self.build(f"{name}(", *self.list_of(node.inputs), ")")

    def _get_item(self, node: Node) -> TaggedText:
        base = self.use(node.inputs[0]).owned_by(self.owner)
        shown: list[Part] = [base] if is_identifier(str(base)) else ["(", base, ")"]
        return self.build(*shown, "[", self.use(node.inputs[1]), "]")

    def _tuple(self, node: Node) -> TaggedText:
        type_ = node.output.type
        assert isinstance(type_, TupleType)
        name = checked_value_name(self.rename(type_)) if type_.qualified_name else ""
        end = ",)" if len(node.inputs) == 1 else ")"
        return self.build(f"{name}(", *self.list_of(node.inputs), end)

    def _tuple_index(self, node: Node) -> TaggedText:
        base, index = node.inputs
        return self.build("(", self.use(base), ")[", self.use(index), "]")

    def _tuple_slice(self, node: Node) -> TaggedText:
        begin, end = node.attributes["beg"], node.attributes["end"]
        return self.build("(", self.use(node.input), f")[{begin}:{end}]")

    def _list(self, node: Node) -> TaggedText:
        type_ = node.output.type
        assert isinstance(type_, ListType)
        items: list[Part] = ["[", *self.list_of(node.inputs), "]"]
        if not can_be_inferred(type_.element) or self._needs_type(node):
            return self._annotate(type_, *items)
        return self.build(*items)

    def _dict(self, node: Node) -> TaggedText:
        type_ = node.output.type
        assert isinstance(type_, DictType)
        pairs: list[Part] = []
        for key, value in zip(node.inputs[::2], node.inputs[1::2], strict=True):
            pairs += [", ", self.use(key), ": ", self.use(value)]
        items: list[Part] = ["{", *pairs[1:], "}"]
        inferred = can_be_inferred(type_.key) and can_be_inferred(type_.value)
        if not inferred or self._needs_type(node):
            return self._annotate(type_, *items)
        return self.build(*items)

    def _needs_type(self, literal: Node) -> bool:
        return not literal.inputs or literal.output in self.declarations.always

    def _create_object(self, node: Node) -> TaggedText:
        name = checked_value_name(self.annotation(node.output.type))
        return self.build(f"{name}.__new__({name})")

    def _get_attr(self, node: Node) -> TaggedText:
        if is_identifier(node.name):
            return self.build(self.use(node.input), f".{node.name}")
        return self.build("getattr(", self.use(node.input), f", {string_text(node.name)})")

    def _call_function(self, node: Node) -> TaggedText:
        callee, *arguments = node.inputs
        return self.build(self.use(callee), "(", *self._each_with_comma(arguments), ")")

    def _call_method(self, node: Node) -> TaggedText:
        self_value, *arguments = node.inputs
        text = self.build(
            "(", self.use(self_value), f").{node.name}(", *self._each_with_comma(arguments), ")"
        )
        self.depend(self_value.type)  # type: ignore[arg-type]  # only named types have methods
        return text

    def _each_with_comma(self, values: Sequence[Value]) -> list[Part]:
        parts: list[Part] = []
        for value in values:
            parts += [self.use(value), ", "]
        return parts

    def _unwrap_optional(self, node: Node) -> TaggedText:
        operand = self.use(node.input)
        if node.input.type == NONE or must_be_none(node.input):
            # The type of unwrap_optional(None) cannot be inferred.
            operand = self._annotate(OptionalType(node.output.type), operand)
        return self.build("torch._unwrap_optional(", operand, ")")

    def _unchecked_cast(self, node: Node) -> TaggedText:
        type_text = self.annotation(node.output.type)
        return self.build("unchecked_cast(", type_text, ", ", self.use(node.input), ")")

    def _isinstance(self, node: Node) -> TaggedText:
        types = [self.annotation(type_) for type_ in node.attributes["types"]]
        shown = types[0] if len(types) == 1 else f"({', '.join(types)})"
        return self.build("isinstance(", self.use(node.input), f", {shown})")

    def _tolist(self, node: Node) -> TaggedText:
        return self._annotate(node.output.type, self.use(node.inputs[0]), ".tolist()")

    def _enum_part(self, node: Node) -> TaggedText:
        part = {"prim::EnumValue": "value", "prim::EnumName": "name"}[node.kind]
        return self.build("(", self.use(node.input), f").{part}")

    def _dense_constant(self, node: Node) -> TaggedText:
        """Return a tensor in MKL-DNN layout, which archives cannot store, as a conversion."""
        entry = self.literals.text(node.attributes["value"], node.output.type)
        return self.build(f"torch.to_mkldnn({entry})")

    def _refused(self, node: Node) -> TaggedText:
        raise SaveError(
            f"{node.kind} cannot be written to an archive",
            hint="Remove calls to Python functions (torch.jit.ignore) and closures before saving",
        )

    def _operator(self, node: Node) -> TaggedText:
        if node.schema is None:
            raise SaveError(f"no operator schema for a node of kind {node.kind}")
        if node.lost:
            raise SaveError(
                f"{node.kind} holds {', '.join(node.lost)}, which code cannot say",
                hint="Save the module before it is optimised",
            )
        needed, out_count = necessary_arguments(node.schema, node.inputs)
        needed = max(needed, self.written_arguments(node))
        arguments: list[Part] = []
        for offset in range(needed):
            arguments += [", ", *self._argument(node.schema, node.inputs[offset], offset)]
        for offset in range(len(node.inputs) - out_count, len(node.inputs)):
            name = node.schema.arguments[offset].name
            arguments += [", ", f"{name}=", self.use(node.inputs[offset])]
        text = self.build(operator_name(node.kind), "(", *arguments[1:], ")")
        for value in node.inputs[needed : len(node.inputs) - out_count]:
            hidden = None if self.in_closure else value.node
            text.mark(text.length, hidden, self._default_literal(value), is_text=False)
        return text

    def written_arguments(self, node: Node) -> int:
        """Return the number of arguments in the text that the node came from, if not the minimum.

        torch writes a default of the overload that it had, and may read back another overload.
        """
        return node.written_arguments

    def _default_literal(self, value: Value) -> str | None:
        default = value.node.attributes["value"]
        if isinstance(default, str) and not default.isascii():
            return None
        is_scalar = default is None or isinstance(default, bool | int | float | str)
        return self.literals.text(default, value.type) if is_scalar else None

    def _argument(self, schema: FunctionSchema, value: Value, offset: int) -> list[Part]:
        if offset < len(schema.arguments) and schema.arguments[offset].kwarg_only:
            return [f"{schema.arguments[offset].name}=", self.use(value)]
        return [self.use(value)]


_OVERRIDES = {
    "aten::backward": "torch.autograd.backward",
    "aten::grad": "torch.autograd.grad",
}


def operator_name(kind: str) -> str:
    """Return the callee of an operator; overload names are never printed."""
    if kind in _OVERRIDES:
        return _OVERRIDES[kind]
    namespace, _, name = kind.partition("::")
    return f"torch.{name}" if namespace == "aten" else f"ops.{namespace}.{name}"


# Nodes of these kinds have no source location when they are read back.
_WITHOUT_LOCATION = frozenset(
    {
        "prim::Constant", "prim::GetAttr", "prim::TupleIndex", "prim::TupleSlice",
        "prim::ListConstruct", "prim::DictConstruct", "prim::isinstance", "prim::tolist",
        "prim::unchecked_cast", "prim::EnumName", "prim::EnumValue",
    }
)  # fmt: skip
# The location of these is the start of their first operand, inside its parentheses.
_AT_OPERAND = frozenset({"prim::CallMethod", "aten::__getitem__"})


def _has_location(node: Node) -> bool:
    if node.kind == "prim::TupleConstruct":
        type_ = node.output.type
        return isinstance(type_, TupleType) and type_.qualified_name is not None
    return node.kind not in _WITHOUT_LOCATION


def _location(node: Node, text: str) -> int:
    """Return the offset of a node's location within its text."""
    return 1 if node.kind in _AT_OPERAND and text[0] == "(" else 0


_BY_KIND: dict[str, Callable[[Expressions, Node], TaggedText]] = {
    "prim::Constant": Expressions._constant,
    "prim::ConstantMKLDNNTensor": Expressions._dense_constant,
    "prim::Uninitialized": Expressions._uninitialized,
    "aten::ScalarImplicit": Expressions._conversion,
    "aten::FloatImplicit": Expressions._conversion,
    "aten::IntImplicit": Expressions._conversion,
    "aten::Int": Expressions._builtin_call,
    "aten::Float": Expressions._builtin_call,
    "aten::Bool": Expressions._builtin_call,
    "aten::str": Expressions._builtin_call,
    "aten::sorted": Expressions._builtin_call,
    "prim::Print": Expressions._builtin_call,
    "aten::__getitem__": Expressions._get_item,
    "prim::TupleConstruct": Expressions._tuple,
    "prim::TupleIndex": Expressions._tuple_index,
    "prim::TupleSlice": Expressions._tuple_slice,
    "prim::ListConstruct": Expressions._list,
    "prim::DictConstruct": Expressions._dict,
    "prim::CreateObject": Expressions._create_object,
    "prim::GetAttr": Expressions._get_attr,
    "prim::CallFunction": Expressions._call_function,
    "prim::CallMethod": Expressions._call_method,
    "aten::_unwrap_optional": Expressions._unwrap_optional,
    "prim::unchecked_unwrap_optional": Expressions._unchecked_cast,
    "prim::unchecked_cast": Expressions._unchecked_cast,
    "prim::isinstance": Expressions._isinstance,
    "prim::tolist": Expressions._tolist,
    "prim::EnumValue": Expressions._enum_part,
    "prim::EnumName": Expressions._enum_part,
    "prim::PythonOp": Expressions._refused,
    "prim::Closure": Expressions._refused,
}
