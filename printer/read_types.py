"""The types that values have when the text of a function is read back.

The text of None, of a tuple and of a literal loses a wider declared type: ``[(1, None)]`` of type
``List[Tuple[int, Optional[Tensor]]]`` reads back as ``List[Tuple[int, NoneType]]``. Tuples are
widened where they are used. Lists and dicts are not, and neither is a loop-carried variable; then
the text does not compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tsarchive.ir.classes import ClassType, FunctionType, InterfaceType
from tsarchive.ir.graph import Block, Node, Value, carried_values, nested_blocks
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.subtyping import (
    Bindings,
    bind,
    has_variables,
    is_subtype,
    substitute,
    unify,
    unify_all,
)
from tsarchive.ir.types import (
    NONE,
    DictType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
)
from tsarchive.ir.values import TableConstant, type_of_constant

from .inline import inlined_nodes
from .literals import can_be_inferred, has_non_ascii

_MAY_WIDEN = frozenset(
    {
        "prim::Constant", "prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct",
        "prim::If", "prim::Loop",
    }
)  # fmt: skip


@dataclass(slots=True)
class Declarations:
    """Values whose text must declare their type.

    ``always`` holds those that need it everywhere, ``assigned`` those that need it where they are
    assigned to a name: literals that otherwise take their type from their use.
    """

    always: set[Value] = field(default_factory=set)
    assigned: set[Value] = field(default_factory=set)


def needed_declarations(body: Block, returns: Type) -> Declarations | None:
    """Return what must be declared for ``body`` to read back; None if that is not enough.

    ``always`` is empty for a body that reads back without declarations.
    """
    if not _may_need_types(body):
        return Declarations()
    for declares in (False, True):
        reading = _Reading(declares)
        reading.function(body, returns)
        if reading.fits:
            return reading.found
    return None


def _may_need_types(block: Block) -> bool:
    """Return whether there are tuples of wide elements; nearly no function has them."""
    return any(
        (node.kind in _MAY_WIDEN and any(_is_wide_inside(value.type) for value in node.outputs))
        or (node.kind == "prim::TupleIndex" and not node.inputs[1].node.is_constant)
        or any(map(_may_need_types, nested_blocks(node)))
        for node in block.nodes
    )


def _is_wide_inside(type_: Type) -> bool:
    """Return whether ``type_`` has a tuple element whose text may lose part of its type."""
    match type_:
        case TupleType(elements, None):
            return any(not can_be_inferred(part) or _is_wide_inside(part) for part in elements)
        case TupleType(elements) | UnionType(elements):
            return any(map(_is_wide_inside, elements))
        case ListType() | DictType() | OptionalType() | HandleType():
            return any(map(_is_wide_inside, type_.parts()))
    return False


class _Reading:
    """Computes the types of all values of a function when its text is read back.

    ``declares`` adds declarations wherever types would differ. ``fits`` tells whether every value
    fits where it is used, provided it did before.
    """

    def __init__(self, declares: bool) -> None:
        self.declares = declares
        self.found = Declarations()
        self.fits = True
        self._types: dict[Value, Type] = {}
        self._inlined: set[Node] = set()

    def function(self, body: Block, returns: Type) -> None:
        self._inlined |= inlined_nodes(body)
        self._block(body)
        for value in body.returns:
            self._check(value, returns, takes_literal=True)

    def _block(self, block: Block) -> None:
        for node in block.nodes:
            if not node.is_constant:
                _BY_KIND.get(node.kind, _Reading._operator)(self, node)

    def _of(self, value: Value) -> Type:
        if value not in self._types and value.node.is_constant:
            self._constant(value)
        return self._types.get(value, value.type)

    def _differs(self, value: Value) -> bool:
        return self._of(value) != value.type

    def _set(self, value: Value, type_: Type) -> None:
        self._types[value] = type_

    def _set_or_declare(self, value: Value, type_: Type) -> None:
        if type_ != value.type and self.declares:
            self.found.always.add(value)
            type_ = value.type
        self._set(value, type_)

    def _check(
        self, value: Value, wanted: Type, read: Type | None = None, *, takes_literal: bool = False
    ) -> None:
        """Check that ``value`` fits ``wanted`` when it is read back as ``read``."""
        actual = self._of(value)
        if is_subtype(actual, read or wanted) or not is_subtype(value.type, wanted):
            return
        if takes_literal and self._is_literal(value) and _is_narrower(actual, value.type):
            self.found.assigned.add(value)
        else:
            self.fits = False

    def _is_literal(self, value: Value) -> bool:
        """Return whether the value is printed as a list or dict literal where it is used."""
        node = value.node
        is_container = node.kind in ("prim::ListConstruct", "prim::DictConstruct")
        return node.is_constant or (is_container and node in self._inlined)

    def _constant(self, value: Value) -> None:
        if isinstance(value.type, FunctionType):
            return
        type_ = _type_of_text(value.node.attributes["value"], value.type)
        if isinstance(value.type, ListType | DictType):
            self._set_or_declare(value, type_)
        else:
            self._set(value, type_)

    def _tuple(self, node: Node) -> None:
        type_ = node.output.type
        assert isinstance(type_, TupleType)
        if type_.qualified_name is None:
            self._set(node.output, TupleType(tuple(map(self._of, node.inputs))))
            return
        for value, wanted in zip(node.inputs, type_.elements, strict=True):
            self._check(value, wanted)

    def _list(self, node: Node) -> None:
        self._literal(node, lambda inputs: ListType(_common(inputs)))

    def _dict(self, node: Node) -> None:
        self._literal(node, lambda inputs: DictType(inputs[0], _common(inputs[1::2])))

    def _literal(self, node: Node, infer: Callable[[Sequence[Type]], Type]) -> None:
        output, parts = node.output, node.output.type.parts()
        if node.inputs and all(map(can_be_inferred, parts)):
            self._set_or_declare(output, infer([self._of(value) for value in node.inputs]))
        if self._of(output) == output.type:
            for index, value in enumerate(node.inputs):
                self._check(value, parts[index % len(parts)])

    def _if(self, node: Node) -> None:
        for block in node.blocks:
            self._block(block)
        one, other = (block.returns for block in node.blocks)
        for output, first, second in zip(node.outputs, one, other, strict=True):
            if len(node.outputs) == 1 and isinstance(output.type, UnionType | OptionalType):
                # The first assignment determines the type.
                self._check(first, output.type, takes_literal=True)
                self._check(second, output.type)
            else:
                self._join(output, first, second)

    def _join(self, output: Value, first: Value, second: Value) -> None:
        joined = unify(self._of(first), self._of(second))
        if joined is None and isinstance(output.type, UnionType):
            joined = output.type  # branches of these kinds show the type anyway
        if self.declares and joined != output.type:
            self.found.always.add(output)
            self._check(first, output.type, takes_literal=True)
            self._check(second, output.type, takes_literal=True)
        elif joined is not None:
            self._set(output, joined)
        else:
            self.fits = False

    def _loop(self, node: Node) -> None:
        carried = list(carried_values(node))
        for first, param, _, output in carried:
            self._initialize(output, first)
            self._set(param, self._of(output))
        self._block(node.blocks[0])
        for _, _, last, output in carried:
            self._check(last, output.type, self._of(output))

    def _initialize(self, output: Value, first: Value) -> None:
        tells_type = isinstance(output.type, UnionType | OptionalType) or output.type != first.type
        if not tells_type:
            self._set_or_declare(output, self._of(first))
        if self._of(output) == output.type:
            self._check(first, output.type, takes_literal=True)

    def _unpack(self, node: Node) -> None:
        type_ = self._of(node.input)
        if type_ == node.input.type:
            return
        parts = type_.parts() if isinstance(type_, TupleType) else type_.parts() * len(node.outputs)
        for output, part in zip(node.outputs, parts, strict=True):
            self._set(output, part)

    def _tuple_index(self, node: Node) -> None:
        base, index = node.inputs[0], node.inputs[1].node
        parts = self._of(base).parts()
        if not index.is_constant:
            # The selected element is known only later, so each must be usable as the first.
            self.fits = self.fits and all(is_subtype(part, parts[0]) for part in parts)
            self._set(node.output, parts[0])
        elif self._differs(base):
            self._set(node.output, parts[index.attributes["value"]])

    def _tuple_slice(self, node: Node) -> None:
        type_ = self._of(node.input)
        if type_ != node.input.type:
            begin, end = node.attributes["beg"], node.attributes["end"]
            self._set(node.output, TupleType(type_.parts()[begin:end]))

    def _set_attr(self, node: Node) -> None:
        target, value = node.inputs
        if isinstance(target.type, ClassType):
            self._check(value, target.type.attributes[node.name].type)

    def _closure(self, node: Node) -> None:
        subgraph: Block = node.attributes["subgraph"]
        self._inlined |= inlined_nodes(subgraph)
        for param, value in zip(subgraph.params, node.inputs, strict=True):
            self._set(param, self._of(value))
        self._block(subgraph)
        type_ = node.output.type
        if isinstance(type_, HandleType) and self._differs(subgraph.returns[0]):
            self._set(node.output, HandleType(type_.kind, self._of(subgraph.returns[0])))

    def _call_function(self, node: Node) -> None:
        callee, *arguments = node.inputs
        if isinstance(callee.type, FunctionType):
            self._arguments(arguments, callee.type.function.schema.arguments)

    def _call_method(self, node: Node) -> None:
        type_, arguments = node.input.type, node.inputs[1:]
        if any(map(self._differs, arguments)):
            schema = _method_schema(type_, node.name)
            self._arguments(arguments, schema.arguments[1:])

    def _arguments(self, values: Sequence[Value], formals: Sequence[Argument]) -> None:
        for value, formal in zip(values, formals, strict=False):
            if self._differs(value):
                self._check(value, formal.type)

    def _as_declared(self, node: Node) -> None:
        """Skip a node whose text shows its type, or whose type does not depend on its inputs."""

    def _operator(self, node: Node) -> None:
        if node.schema is None or not any(map(self._differs, node.inputs)):
            return
        before = _matched(node.schema, [value.type for value in node.inputs])
        after = _matched(node.schema, [self._of(value) for value in node.inputs])
        if before is None:
            return
        if after is None:
            self.fits = False
            return
        for output, result in zip(node.outputs, node.schema.returns, strict=False):
            type_ = substitute(result.type, after)
            if type_ is not None and substitute(result.type, before) == output.type:
                self._set(output, type_)

    def _unwrap_optional(self, node: Node) -> None:
        if not node.input.node.is_constant:
            self._operator(node)


def _common(types: Sequence[Type]) -> Type:
    common = unify_all(types, or_union=True)
    assert common is not None
    return common


def _is_narrower(literal: Type, declared: Type) -> bool:
    """Return whether a list or dict literal of the one type can be read as the other."""
    if type(literal) is not type(declared) or not isinstance(declared, ListType | DictType):
        return False
    return all(map(is_subtype, literal.parts(), declared.parts()))


def _type_of_text(value: Any, type_: Type) -> Type:
    """Return the type of a constant as its literal shows it."""
    if isinstance(value, TableConstant):
        return type_.element if isinstance(type_, OptionalType) else type_
    if value is None:
        return NONE
    if has_non_ascii(value):
        return type_
    match type_, value:
        case TupleType(elements, None), tuple():
            return TupleType(tuple(map(_type_of_text, value, elements)))
        case ListType(element), list() if value and can_be_inferred(element):
            return ListType(_common([_type_of_text(item, element) for item in value]))
        case DictType(key, item), dict() if value and can_be_inferred(item):
            return DictType(key, _common([_type_of_text(each, item) for each in value.values()]))
    is_scalar = not isinstance(value, tuple | list | dict)
    return type_of_constant(value) if is_scalar and not can_be_inferred(type_) else type_


def _method_schema(type_: Type, name: str) -> FunctionSchema:
    if isinstance(type_, InterfaceType):
        return type_.methods[name]
    assert isinstance(type_, ClassType)
    return type_.methods[name].schema


def _matched(schema: FunctionSchema, actual: Sequence[Type]) -> Bindings | None:
    """Bind the type variables of ``schema``; None if the arguments do not fit."""
    bindings: Bindings = {}
    for formal, type_ in zip(schema.arguments, actual, strict=False):
        if not has_variables(formal.type):
            continue
        if not bind(formal.type, type_, bindings):
            return None
        wanted = substitute(formal.type, bindings)
        if wanted is None or not _fits(type_, wanted):
            return None
    return bindings


def _fits(actual: Type, wanted: Type) -> bool:
    """Return whether a value is accepted as it is, or is a tuple that becomes a list."""
    if isinstance(actual, TupleType) and isinstance(wanted, ListType):
        return all(is_subtype(element, wanted.element) for element in actual.elements)
    return is_subtype(actual, wanted)


_BY_KIND: dict[str, Callable[[_Reading, Node], None]] = {
    "prim::TupleConstruct": _Reading._tuple,
    "prim::ListConstruct": _Reading._list,
    "prim::DictConstruct": _Reading._dict,
    "prim::If": _Reading._if,
    "prim::Loop": _Reading._loop,
    "prim::TupleUnpack": _Reading._unpack,
    "prim::ListUnpack": _Reading._unpack,
    "prim::TupleIndex": _Reading._tuple_index,
    "prim::TupleSlice": _Reading._tuple_slice,
    "prim::SetAttr": _Reading._set_attr,
    "prim::fork": _Reading._closure,
    "prim::awaitable": _Reading._closure,
    "prim::CallFunction": _Reading._call_function,
    "prim::CallMethod": _Reading._call_method,
    "prim::unchecked_cast": _Reading._as_declared,
    "prim::isinstance": _Reading._as_declared,
    "prim::tolist": _Reading._as_declared,
    "aten::_unwrap_optional": _Reading._unwrap_optional,
}
