"""The text of a function as it reads back: node order, types, builtins in sight, source ranges.

A node may be printed inside the expression that uses it when reading that back emits nodes in the
order they have now. A parser emits arguments left to right and then the operator; so walking inputs
right to left beside the list of nodes, last to first, must meet each inlined producer in turn.

The text of None, of a tuple and of a literal loses a wider declared type: ``[(1, None)]`` of type
``List[Tuple[int, Optional[Tensor]]]`` reads back as ``List[Tuple[int, NoneType]]``. Tuples are
widened where they are used. Lists and dicts are not, and neither is a loop-carried variable; then
the text does not compile.

torch takes ``range`` or ``torch`` for the name of a value like any other, and then writes ``for i
in range(n)`` or ``torch.mul(x, y)`` in the scope of that value.

torch writes the range of every node beside the text. When the text is read back, each node created
where some text begins gets the range recorded for that byte, and nodes without a location lose
theirs. After two such rounds the records repeat; here the rounds are simulated on the printed text,
without printing again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from tsarchive.ir.classes import ClassType, Function, FunctionType, method_schema
from tsarchive.ir.constants import Device, GeneratorSeed, TableConstant
from tsarchive.ir.graph import (
    COMPUTED,
    RETURN,
    Block,
    Node,
    Placed,
    Value,
    carried_index,
    carried_values,
    must_be_none,
    nested_blocks,
)
from tsarchive.ir.names import to_identifier
from tsarchive.ir.schema import Argument
from tsarchive.ir.source_ranges import (
    Mark,
    Range,
    Source,
    TaggedRange,
    TaggedText,
    new_range,
    new_record,
    range_records,
)
from tsarchive.ir.subtyping import bindings_of, is_subtype, substitute, unify, unify_all
from tsarchive.ir.types import (
    COMPOSITE,
    NONE,
    DictType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
)
from tsarchive.ir.values import type_of_constant

from .literals import UNIQUE, can_be_inferred, has_non_ascii, is_number

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
    if isinstance(type_, TupleType) and type_.qualified_name is None:
        return any(not can_be_inferred(part) or _is_wide_inside(part) for part in type_.elements)
    return isinstance(type_, COMPOSITE) and any(map(_is_wide_inside, type_.parts()))


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

    def _set_or_declare(self, value: Value, type_: Type) -> None:
        if type_ != value.type and self.declares:
            self.found.always.add(value)
            type_ = value.type
        self._types[value] = type_

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
        type_ = _type_of_text(value.constant, value.type)
        if isinstance(value.type, ListType | DictType):
            self._set_or_declare(value, type_)
        else:
            self._types[value] = type_

    def _tuple(self, node: Node) -> None:
        type_ = node.output.type
        assert isinstance(type_, TupleType)
        if type_.qualified_name is None:
            self._types[node.output] = TupleType(tuple(map(self._of, node.inputs)))
            return
        for value, wanted in zip(node.inputs, type_.elements, strict=True):
            self._check(value, wanted)

    def _literal(self, node: Node) -> None:
        output, parts = node.output, node.output.type.parts()
        if node.inputs and all(map(can_be_inferred, parts)):
            types = [self._of(value) for value in node.inputs]
            is_list = node.kind == "prim::ListConstruct"
            inferred = (
                ListType(_common(types)) if is_list else DictType(types[0], _common(types[1::2]))
            )
            self._set_or_declare(output, inferred)
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
            self._types[output] = joined
        else:
            self.fits = False

    def _loop(self, node: Node) -> None:
        carried = list(carried_values(node))
        for first, param, _, output in carried:
            self._initialize(output, first)
            self._types[param] = self._of(output)
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
            self._types[output] = part

    def _tuple_index(self, node: Node) -> None:
        base, index = node.inputs[0], node.inputs[1].constant
        parts = self._of(base).parts()
        if index is COMPUTED:
            # The selected element is known only later, so each must be usable as the first.
            self.fits = self.fits and all(is_subtype(part, parts[0]) for part in parts)
            self._types[node.output] = parts[0]
        elif self._differs(base):
            self._types[node.output] = parts[index]

    def _tuple_slice(self, node: Node) -> None:
        type_ = self._of(node.input)
        if type_ != node.input.type:
            begin, end = node.attributes["beg"], node.attributes["end"]
            self._types[node.output] = TupleType(type_.parts()[begin:end])

    def _set_attr(self, node: Node) -> None:
        target, value = node.inputs
        if isinstance(target.type, ClassType):
            self._check(value, target.type.attributes[node.name].type)

    def _closure(self, node: Node) -> None:
        subgraph: Block = node.attributes["subgraph"]
        self._inlined |= inlined_nodes(subgraph)
        for param, value in zip(subgraph.params, node.inputs, strict=True):
            self._types[param] = self._of(value)
        self._block(subgraph)
        type_ = node.output.type
        if isinstance(type_, HandleType) and self._differs(subgraph.returns[0]):
            self._types[node.output] = HandleType(type_.kind, self._of(subgraph.returns[0]))

    def _call_function(self, node: Node) -> None:
        callee, *arguments = node.inputs
        if isinstance(callee.type, FunctionType):
            self._arguments(arguments, callee.type.function.schema.arguments)

    def _call_method(self, node: Node) -> None:
        owner, *arguments = node.inputs
        if any(map(self._differs, arguments)):
            schema = method_schema(owner.type, node.name)
            assert schema is not None
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
        before = bindings_of(node.schema, [value.type for value in node.inputs])
        after = bindings_of(node.schema, map(self._of, node.inputs))
        if before is None:
            return
        if after is None:
            self.fits = False
            return
        for output, result in zip(node.outputs, node.schema.returns, strict=False):
            type_ = substitute(result.type, after)
            if type_ is not None and substitute(result.type, before) == output.type:
                self._types[output] = type_

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


_BY_KIND: dict[str, Callable[[_Reading, Node], None]] = {
    "prim::TupleConstruct": _Reading._tuple,
    "prim::ListConstruct": _Reading._literal,
    "prim::DictConstruct": _Reading._literal,
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


# The bodies of these may use an input more than once.
_CAPTURING = frozenset({"prim::fork", "prim::rpc_async", "prim::rpc_sync", "prim::rpc_remote"})


def inlined_nodes(body: Block) -> set[Node]:
    """Return the nodes of ``body`` and its nested blocks that need no statement of their own."""
    return _Scan(body).inlined


def can_inline(value: Value) -> bool:
    node = value.node
    if len(node.outputs) != 1 or len(value.uses) != 1 or node.blocks:
        return False
    user, offset = value.uses[0]
    if value.name is not None and user.kind != RETURN:
        return False
    if carried_index(user, offset) is not None:
        return False
    # Reading back an isinstance inside a condition would refine types once more.
    return user.kind not in _CAPTURING and node.kind != "prim::isinstance"


@dataclass(slots=True)
class _Visit:
    """A node whose inputs below ``next_input`` are yet to be matched against ``cursor``."""

    node: Node
    cursor: Node | None
    next_input: int


class _Scan:
    def __init__(self, body: Block) -> None:
        self.inlined: set[Node] = set()
        self.before: dict[Node, Node | None] = {}
        self._scan_block(body)

    def _scan_block(self, block: Block) -> None:
        previous: Node | None = None
        for node in (*block.nodes, block.return_node):
            self.before[node] = previous
            if not node.is_constant:
                previous = node
        self._scan_node(block.return_node)
        for node in reversed(block.nodes):
            self._scan_node(node)

    def _enter(self, node: Node) -> _Visit:
        for block in node.blocks:
            self._scan_block(block)
        return _Visit(node, self.before[node], len(node.inputs))

    def _scan_node(self, start: Node) -> None:
        if start in self.inlined:
            return
        stack = [self._enter(start)]
        while stack:
            visit = stack[-1]
            if visit.next_input == 0:
                stack.pop()
                if stack:
                    self.inlined.add(visit.node)
                    stack[-1].cursor = visit.cursor
                continue
            visit.next_input -= 1
            value = visit.node.inputs[visit.next_input]
            if value.node is visit.cursor and can_inline(value):
                stack.append(self._enter(value.node))
            elif value.node.is_constant:
                self.inlined.add(value.node)


def constants_in_order(body: Block) -> list[Node]:
    """Return the constants used in ``body`` by first use; fork bodies have their own."""
    found: dict[Node, None] = {}
    _find_constants(body, found)
    return list(found)


def _find_constants(block: Block, found: dict[Node, None]) -> None:
    for node in (*block.nodes, block.return_node):
        for value in node.inputs:
            if value.node.is_constant:
                found.setdefault(value.node)
        for inner in node.blocks:
            _find_constants(inner, found)


FORMS = {
    "aten::Bool": "bool({inputs})",
    "aten::Float": "float({inputs})",
    "aten::FloatImplicit": "annotate({type}, {0})",
    "aten::Int": "int({inputs})",
    "aten::IntImplicit": "annotate({type}, {0})",
    "aten::ScalarImplicit": "annotate({type}, {0})",
    "aten::sorted": "sorted({inputs})",
    "aten::str": "str({inputs})",
    "prim::EnumName": "({0}).name",
    "prim::EnumValue": "({0}).value",
    "prim::Print": "print({inputs})",
    "prim::TupleIndex": "({0})[{1}]",
    "prim::Uninitialized": "uninitialized({type})",
    "prim::tolist": "annotate({type}, {0}.tolist())",
    "prim::unchecked_cast": "unchecked_cast({type}, {0})",
    "prim::unchecked_unwrap_optional": "unchecked_cast({type}, {0})",
}
"""The texts of nodes, with places for their inputs and the type of their output."""

_BUILTIN_OF_KIND = {
    **{kind: form.partition("(")[0] for kind, form in FORMS.items() if form[0] != "("},
    "prim::ConstantMKLDNNTensor": "torch",
    "prim::Loop": "range",
    "prim::awaitable": "awaitable",
    "prim::fork": "fork",
    "prim::isinstance": "isinstance",
}

BUILTINS = frozenset({*_BUILTIN_OF_KIND.values(), "CONSTANTS", "ops", "torch"})
_WITHOUT_NAME = frozenset({"aten::__getitem__", "prim::EnumName", "prim::EnumValue"})


def shadowed_builtins(function: Function, own_name: str | None) -> set[str]:
    """Return the builtins used by the body in the scope of a value of that name or ``own_name``."""
    in_sight = {to_identifier(argument.name) for argument in function.schema.arguments}
    if own_name is not None:
        in_sight.add(own_name)
    if BUILTINS.isdisjoint(in_sight) and not _binds_a_builtin(function.graph):
        return set()  # nearly every function
    return set(_shadowed(function.graph, in_sight))


def _binds_a_builtin(block: Block) -> bool:
    return any(
        any(value.name in BUILTINS for value in node.outputs)
        or any(_binds_a_builtin(inner) for inner in nested_blocks(node))
        for node in (block.param_node, *block.nodes)
    )


def _shadowed(block: Block, outer: set[str]) -> Iterator[str]:
    in_sight = set(outer)
    for node in (*block.nodes, block.return_node):
        if node.is_constant:
            continue
        if node.kind == "prim::Loop":  # loop-carried values are assigned before its first line
            in_sight |= _names(node.outputs)
        yield from in_sight.intersection(_needed(node))
        for inner in nested_blocks(node):
            yield from _shadowed(inner, in_sight | _names(inner.params))
        in_sight |= _names(node.outputs)


def _names(values: Iterable[Value]) -> set[str]:
    return {to_identifier(value.name) for value in values if value.name is not None}


def _needed(node: Node) -> Iterator[str]:
    """Yield the builtins in the text of a node and of the constants that it uses."""
    if node.kind in _BUILTIN_OF_KIND:
        yield _BUILTIN_OF_KIND[node.kind]
    elif node.kind == "prim::ListConstruct" or node.kind == "prim::DictConstruct":
        if not (node.inputs and all(map(can_be_inferred, node.output.type.parts()))):
            yield "annotate"
    elif node.schema is not None and node.kind not in _WITHOUT_NAME:
        yield "torch" if node.kind.startswith("aten::") else "ops"
    if node.kind == "aten::_unwrap_optional" and must_be_none(node.input):
        yield "annotate"
    for value in node.inputs:
        if value.node.is_constant:
            yield from _needed_by_constant(value.constant)


def _needed_by_constant(value: Any) -> Iterator[str]:
    match value:
        case TableConstant():
            yield from ("CONSTANTS", "torch")
        case Device() | GeneratorSeed():
            yield "torch"
        case list() | dict():
            yield "annotate"
            for item in value:
                yield from _needed_by_constant(item)
        case tuple():
            for item in value:
                yield from _needed_by_constant(item)


_ROUNDS = 2


class Sampled(Protocol):
    """The text of a function that others share."""

    def rows(self, ranges: Sequence[int], rounds: int) -> Iterable[tuple[int, int]]:
        """Return the same as ``ranges_after_rounds``, for the nodes of the function."""


class Copy:
    """The owner of text like a sample's, whose nodes have these places.

    ``gap`` is the number of bytes before those that the sample counts.
    """

    __slots__ = ("gap", "places", "sample")

    def __init__(self, sample: Sampled, gap: int, places: Sequence[Placed]) -> None:
        self.sample = sample
        self.gap = gap
        self.places = places


_Ranges = dict[str, list[TaggedRange]]
# A file, and an offset in it.
_Place = tuple[str, int]


def fixpoint_ranges(files: Mapping[str, TaggedText]) -> _Ranges:
    """Return the range records of each file, as torch's third save of the same program has them.

    For a program that torch has read from a file, they are those of its next save.
    """
    owners = dict.fromkeys(owner for body in files.values() for _, owner in body.owners)
    places_of_copies = {id(owner.places): owner.places for owner in owners if type(owner) is Copy}
    of_copies = {key: _Numbered(places) for key, places in places_of_copies.items()}
    ranges: dict[Any, Range | None] = {
        node: node.range for node in owners if node is not None and type(node) is not Copy
    }
    known = chain(ranges.values(), *(numbered.ranges for numbered in of_copies.values()))
    is_read = any(range_.source.is_read for range_ in set(known) if range_ is not None)
    rounds = 0 if is_read else _ROUNDS
    places = _places(files) if rounds else {}
    reloaded = {name: _reloads(rounds) for name in files}
    for number in range(rounds):
        loaded = {
            name: reloaded[name][number].records(range_records(body.owners, ranges.get))
            for name, body in files.items()
        }
        ranges = _ranges_at(places, loaded)
    return {
        name: _with_copies(body.owners, ranges.get, of_copies, reloaded[name])
        for name, body in files.items()
    }


class _Numbered:
    """The ranges of the nodes of copies, each with a number: ``pattern`` has those of the nodes."""

    def __init__(self, places: Sequence[Placed]) -> None:
        numbers: dict[Range | None, int] = {None: _NOWHERE}
        self.pattern = tuple([numbers.setdefault(p.range, len(numbers)) for p in places])
        self.ranges = list(numbers)

    def after(self, reloaded: Sequence[_Reloaded]) -> dict[int, Range | None]:
        """Return what reading makes of the ranges, and of none, by the numbers that these have."""
        found = {number: _after(range_, reloaded) for number, range_ in enumerate(self.ranges)}
        found |= {-n - 1: _after(None, reloaded[n:]) for n in range(len(reloaded))}
        found[_NOWHERE] = None
        return found


def _with_copies(
    owners: Sequence[tuple[int, Any]],
    range_of: Callable[[Any], Range | None],
    copies: Mapping[int, _Numbered],
    reloaded: Sequence[_Reloaded],
) -> list[TaggedRange]:
    """Return a record for each change of the range, those inside of copies among them.

    Text of a function begins without a range, so what stands before it decides over none inside.
    """
    found: list[TaggedRange] = []
    by_number: dict[int, dict[int, Range | None]] = {}
    start = 0
    for index, (offset, owner) in enumerate(owners):
        if type(owner) is Copy:
            key = id(owner.places)
            if key not in by_number:
                by_number[key] = copies[key].after(reloaded)
            rows = owner.sample.rows(copies[key].pattern, len(reloaded))
            _add_records(found, range_records(owners[start:index], range_of))
            _add_records(found, _placed(rows, offset, owner.gap, by_number[key].get))
            start = index + 1
    _add_records(found, range_records(owners[start:], range_of))
    return found


def _add_records(found: list[TaggedRange], more: list[TaggedRange]) -> None:
    """Append records, the first only where it changes the range."""
    is_same = found and more and found[-1].range == more[0].range
    found += more[1:] if is_same else more


def _placed(
    rows: Iterable[tuple[int, int]], offset: int, gap: int, get: Callable[[int], Range | None]
) -> list[TaggedRange]:
    start = offset + gap
    return [
        new_record((offset, None)),
        *[new_record((start + at, get(number))) for at, number in rows],
    ]


def _after(range_: Range | None, reloaded: Sequence[_Reloaded]) -> Range | None:
    for each in reloaded:
        range_ = each.range(range_)
    return range_


_NOWHERE = 0


def ranges_after_rounds(
    owners: Sequence[tuple[int, int]],
    places: Sequence[tuple[int, int]],
    ranges: Sequence[int],
    rounds: int,
) -> list[tuple[int, int]]:
    """Return where the text of a function changes its range, once it was written and read often.

    Nodes have numbers, -1 stands for none; ``ranges`` are those of the nodes, by numbers of their
    own: 0 for none, and from -1 down what each round makes of none. The text begins without a
    range.
    """
    of_node = dict(enumerate(ranges))
    rows = _changes(owners, of_node)
    for number in range(rounds):
        offsets = [offset for offset, _ in rows]
        read = [-number - 1, *(range_ or -number - 1 for _, range_ in rows)]
        of_node = {node: read[bisect_right(offsets, at)] for node, at in places}
        rows = _changes(owners, of_node)
    return rows


def _changes(
    owners: Sequence[tuple[int, int]], of_node: Mapping[int, int]
) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    last = _NOWHERE
    for offset, node in owners:
        range_ = of_node.get(node, _NOWHERE)
        if range_ != last:
            found.append((offset, range_))
            last = range_
    return found


def ranges_after_reading(files: Mapping[str, TaggedText], records: _Ranges) -> _Ranges:
    """Return the range records of the next save, for files that were read with ``records``."""
    loaded = {name: _Reloaded(set()).records(rows) for name, rows in records.items()}
    ranges = _ranges_at(_places(files), loaded)
    return {name: range_records(body.owners, ranges.get) for name, body in files.items()}


_Loaded = tuple[list[int], list[Range]]


def _ranges_at(places: Mapping[Node, _Place], loaded: Mapping[str, _Loaded]) -> dict[Any, Any]:
    """Return the ranges of nodes once files are read that have these."""
    ranges: dict[Any, Any] = {}
    for node, (file, offset) in places.items():
        offsets, found = loaded[file]
        ranges[node] = found[bisect_right(offsets, offset) - 1]
    return ranges


def _reloads(rounds: int) -> list[_Reloaded]:
    """Return what loaders make of one file that is read so many times."""
    own: set[Source] = set()
    return [_Reloaded(own) for _ in range(rounds)]


class _Reloaded:
    """What a loader makes of the ranges of one file: their sources become new ones.

    Sources that an earlier loader made of the file are its ``own``. They are kept in place of the
    equal ones that this loader would make: no other file has them.
    """

    def __init__(self, own: set[Source]) -> None:
        self._sources: dict[Source | None, Source] = {}
        self._own = own

    def records(self, records: Sequence[TaggedRange]) -> _Loaded:
        """Return the offsets of the ranges, and these."""
        return [record[0] for record in records], [self.range(record[1]) for record in records]

    def range(self, range_: Range | None) -> Range:
        source, begin, end = range_ or _NO_RANGE
        known = self._sources.get(source)
        if known is None:
            if range_ is not None and source in self._own:
                return range_
            known = self._sources[source] = _read_again(source)
            self._own.add(known)
        return new_range((known, begin, end))


_NO_RANGE = (None, 0, 0)


def _read_again(source: Source | None) -> Source:
    if source is None:
        return Source("", "", 0)
    return Source(source.text, source.filename or "", source.first_line)


def _places(files: Mapping[str, TaggedText]) -> dict[Node, _Place]:
    """Return where each node is created when the text is read back; others are left out."""
    places: dict[Node, _Place] = {}
    for name, body in files.items():
        for node, offset in _offsets(body.marks, places.keys()):
            places[node] = name, offset
    return places


def places_of_nodes(marks: Iterable[Mark]) -> Iterator[tuple[Node, int]]:
    """Yield where the text of a function makes its nodes when it is read back."""
    return _offsets(marks, ())


def _offsets(marks: Iterable[Mark], known: Container[Node]) -> Iterator[tuple[Node, int]]:
    """Yield the locations in one file. A hook is printed twice; its copy in a class comes first."""
    scopes: list[_Scope] = []
    for mark in marks:
        if isinstance(mark.node, Function | Block):
            scopes.append(_Scope(mark.node, scopes[0] if scopes else None))
        elif mark.node is None and mark.literal is None:
            yield from ((node, at) for node, at in scopes.pop().places() if node not in known)
        else:
            scopes[-1].add(mark)


class _Scope:
    """A function body, in which equal constants become one node, or a closure in it.

    Numbers of a closure are merged with those of the function.
    """

    def __init__(self, scope: Function | Block, function: _Scope | None) -> None:
        self._function = function
        self._returns = (scope.graph if isinstance(scope, Function) else scope).returns
        self._offsets: dict[Node, int] = {}
        self._literals: dict[Node, object] = {}
        self._first: dict[object, tuple[int, bool]] = {}

    def add(self, mark: Mark) -> None:
        if mark.literal is None:
            if mark.node is not None and self._has_place(mark.node):
                self._offsets.setdefault(mark.node, mark.offset)
        elif self._function is not None and is_number(mark.literal):
            self._function.add(mark)
        else:
            self._add_literal(mark, mark.literal)

    def _add_literal(self, mark: Mark, literal: str) -> None:
        key: object = mark.node if literal == UNIQUE else literal
        if mark.node is not None:
            self._literals[mark.node] = key
        if mark.is_text or not is_number(literal):
            event = (mark.offset, not mark.is_text)
            self._first[key] = min(event, self._first.get(key, event))

    def _has_place(self, node: Node) -> bool:
        """Return whether a node has a location.

        Constants have none, nor has the return value made for code that always raises.
        """
        is_unreached = node.kind == "prim::Uninitialized" and node.output in self._returns
        return not (node.is_constant or is_unreached)

    def places(self) -> Iterator[tuple[Node, int]]:
        """Yield locations.

        Constants stand where the first equal one is created; defaults have none.
        """
        yield from self._offsets.items()
        for node, key in self._literals.items():
            offset, is_default = self._first.get(key, (0, True))
            if not is_default:
                yield node, offset
