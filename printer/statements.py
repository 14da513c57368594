"""Printing of function bodies: statements, and expressions with a method for each kind of node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import ClassVar, NamedTuple

from tsarchive.errors import SaveError
from tsarchive.ir.classes import ClassType, FunctionType, InterfaceType
from tsarchive.ir.graph import (
    PARAM,
    RETURN,
    Block,
    Node,
    Value,
    carried_values,
    has_trip_count,
    is_constant_true,
    must_be_none,
)
from tsarchive.ir.names import (
    NamePool,
    checked_identifier,
    checked_value_name,
    is_identifier,
    to_identifier,
)
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.subtyping import unify
from tsarchive.ir.types import (
    NONE,
    EnumType,
    NamedType,
    OptionalType,
    Rename,
    SimpleType,
    TupleType,
    Type,
    UnionType,
    annotation,
    is_named,
)
from tsarchive.ir.values import necessary_arguments

from .literals import Literals, can_be_inferred, check_zeros, marked_literal, string_text
from .reading_back import FORMS, Declarations, constants_in_order, inlined_nodes

FIRST_VERSION = 1
LOWEST_WRITTEN = 3
# From this version on the record is called `.data/version`.
FIRST_IN_DATA_FOLDER = 6

_DIVISIONS = (
    "aten::div.Tensor", "aten::div.Tensor_mode", "aten::div.Scalar", "aten::div.Scalar_mode",
    "aten::div.out", "aten::div.out_mode", "aten::div_.Tensor", "aten::div_.Tensor_mode",
    "aten::div_.Scalar", "aten::div_.Scalar_mode",
)  # fmt: skip
# The lowest archive version in which each operator has its meaning in the graph. Others have kept
# theirs since the first version. Source: torch._C._get_operator_version_map().
NEEDED = {
    **dict.fromkeys(_DIVISIONS, 4),
    "aten::full": 5,
    "aten::full.out": 5,
    "aten::linspace": 8,
    "aten::linspace.out": 8,
    "aten::logspace": 9,
    "aten::logspace.out": 9,
    "aten::gelu": 10,
    "aten::gelu.out": 10,
}


def version_needed(node: Node) -> int:
    """Return the lowest archive version in which an operator has its meaning in the graph."""
    return (
        FIRST_VERSION if node.schema is None else NEEDED.get(node.schema.full_name, FIRST_VERSION)
    )


@dataclass(slots=True)
class Versions:
    """The archive versions in which printed code has the meaning of its graph.

    ``needed`` is the lowest version by torch's count, which includes every node of a current
    operator. ``before`` is set when old operators were printed: the version must be lower, and at
    least ``methods``, since the version only affects methods of classes.
    """

    needed: int = FIRST_VERSION
    methods: int = FIRST_VERSION
    before: int | None = None

    def add(self, node: Node, *, in_method: bool) -> None:
        if node.schema is None:
            return
        if node.stand_in is not None:
            return  # torch removed the operator: no version says what it means
        changed = version_needed(node)
        if node.upgrader is not None:
            self.before = changed if self.before is None else min(self.before, changed)
            return
        self.add_version(changed, in_method=in_method)

    def add_version(self, needed: int, *, in_method: bool) -> None:
        """Add what current operators need."""
        self.needed = max(self.needed, needed)
        if in_method:
            self.methods = max(self.methods, needed)

    @property
    def written(self) -> int:
        """The archive version to write."""
        return max(LOWEST_WRITTEN, self.needed if self.before is None else self.methods)


class Dialect(NamedTuple):
    """What older releases of torch write otherwise: empty types, and classes of modules."""

    names_empty_types: bool = True
    lists_buffers: bool = True
    has_class_constants: bool = True


TODAY = Dialect()
_EMPTY_TYPES = re.compile(r"(?<![\w.])(NoneType|Tuple\[\(\)\])(?![\w.])")
_EARLIER = {"NoneType": "None", "Tuple[()]": "Tuple[]"}


def version_record(version: int) -> str:
    """Return the name of the record that holds ``version``."""
    return "version" if version < FIRST_IN_DATA_FOLDER else ".data/version"


_LONG = 40


@dataclass(eq=False)
class Statements:
    """Prints function bodies into ``body``, the text of one code record.

    ``owner`` is the node being printed.
    """

    name_pool: ClassVar[type[NamePool]] = NamePool

    literals: Literals
    rename: Rename
    depend: Callable[[NamedType], None]
    versions: Versions = field(default_factory=Versions)
    dialect: Dialect = TODAY

    def __post_init__(self) -> None:
        self.owner: Node | None = None
        self.capturing: Node | None = None
        self.in_closure = False
        self.declarations = Declarations()
        self.identifiers: dict[Value, str] = {}
        self.stored: dict[Value, TaggedText] = {}
        self.body = TaggedText()
        self.names = self.name_pool()
        self.level = 0
        self.in_method = False
        self.inlined: set[Node] = set()
        self.annotated: set[Value] = set()
        self._split_up_to: dict[Node, int] = {}
        self._last_kind = ""
        self._seen_types: set[Type] = set()

    def line(self, *parts: Part) -> None:
        """Write a statement at the current indentation."""
        _write(self.body, ("  " * self.level, *parts, "\n"), self.owner)

    def open_line(self) -> None:
        self.put("  " * self.level)

    def put(self, part: Part) -> None:
        if isinstance(part, str):
            self.body.write(part, self.owner)
        else:
            self.body.append(part)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.level += 1
        yield
        self.level -= 1

    def register(self, type_: Type) -> None:
        """Record every named type inside ``type_`` as a dependency of the code."""
        if isinstance(type_, SimpleType) or type_ in self._seen_types:
            return
        self._seen_types.add(type_)
        if is_named(type_) and isinstance(type_, ClassType | TupleType | InterfaceType | EnumType):
            self.depend(type_)
        for part in type_.parts():
            if part.__class__ is not SimpleType:
                self.register(part)

    def _register_types(self, node: Node) -> None:
        for value in (*node.inputs, *node.outputs):
            type_ = value.type
            if type_.__class__ is not SimpleType:
                self.register(type_)
        for type_ in node.attributes.get("types", ()):
            self.register(type_)

    def assign_names(self, values: Sequence[Value]) -> None:
        for value in values:
            candidate = "_" if value.name is None else to_identifier(value.name)
            self.identifiers[value] = self.names.unique(candidate)

    def print_body(self, body: Block) -> None:
        """Print long constants, then the statements, then the return."""
        constants = constants_in_order(body)
        self.inlined |= inlined_nodes(body)
        outer = self.owner
        with self.indented():
            for node in constants:
                self.owner = node
                self._register_types(node)
                self._define(node)
            self.owner = outer
            self._print_block(body, has_more=bool(body.returns))
            self._print_node(body.return_node)

    def _print_block(self, block: Block, *, has_more: bool) -> None:
        if not has_more and not block.nodes:
            self.line("pass")
        for node in block.nodes:
            self._print_node(node)
            self._last_kind = node.kind if not node.is_constant else self._last_kind

    def _print_node(self, node: Node) -> None:
        outer, self.owner = self.owner, node
        self._register_types(node)
        self.versions.add(node, in_method=self.in_method)
        if not node.is_constant:
            _STATEMENTS.get(node.kind, Statements._define)(self, node)
        self.owner = outer

    def _return(self, node: Node) -> None:
        if len(node.inputs) != 1:
            raise SaveError("a function of an archive returns exactly one value")
        self.line("return ", self.shown(node.input))

    def _define(self, node: Node) -> None:
        """Store a node's expression for its user, or assign it to names."""
        text = self.expression(node)
        long = text.length + 2 * self.level >= _LONG
        if node not in self.inlined or (node.is_constant and long):
            self._assign_outputs(node, text)
            return
        self.stored[node.output] = text
        if long:  # it gets a statement, and so does all that must run before it
            for earlier in self._to_split(*node.output.uses[0]):
                self._assign_outputs(earlier.node, self.use(earlier))

    def _assign_outputs(self, node: Node, text: Part) -> None:
        self.assign_names(node.outputs)
        if node.outputs and node.outputs[0] in self.declarations.assigned:
            type_text = self.annotation(node.output.type)
            self.line(self.shown(node.output), f" : {type_text} = ", text)
        elif node.outputs:
            self.line(*self.list_of(node.outputs), " = ", text)
        else:
            self.line(text)

    def _to_split(self, user: Node, offset: int) -> list[Value]:
        found: list[Value] = []
        while True:
            seen = self._split_up_to.get(user)
            for index in range(offset, -1 if seen is None else seen, -1):
                node = user.inputs[index].node
                if not node.is_constant and node in self.inlined:
                    found.append(user.inputs[index])
            self._split_up_to[user] = offset
            if seen is not None or user not in self.inlined:
                return found[::-1]
            # The user itself is still being printed, so it cannot be split.
            user, offset = user.output.uses[0]
            offset -= 1

    def _assign(self, targets: Sequence[Value], values: Sequence[Value]) -> None:
        if not targets:
            return
        parts: list[Part] = [*self.list_of(targets)]
        if len(targets) == 1 and self._takes_annotation(targets[0]):
            self.annotated.add(targets[0])
            parts.append(f" : {self.annotation(targets[0].type, self.literals.tag)}")
        self.line(*parts, " = ", *self.list_of(values))

    def _takes_annotation(self, target: Value) -> bool:
        return target in self.declarations.always or (
            isinstance(target.type, UnionType | OptionalType)
            and target not in self.annotated
            and target not in self.stored
        )

    def _initialize(self, target: Value, value: Value) -> None:
        """Initialize a loop-carried variable, annotated where the text needs it."""
        if isinstance(target.type, UnionType | OptionalType):
            annotate = target not in self.annotated
            self.annotated.add(target)
        else:
            annotate = target.type != value.type or target in self.declarations.always
        parts: list[Part] = [self.shown(target)]
        if annotate:
            parts.append(f": {self.annotation(target.type)}")
        self.line(*parts, " = ", self.shown(value))

    def _if(self, node: Node) -> None:
        self.assign_names(node.outputs)
        self._header(node, None, "if ", self.shown(node.input), ":\n")
        self._branch(node, node.blocks[0])
        self.line("else:")
        self._branch(node, node.blocks[1])

    def _branch(self, node: Node, block: Block) -> None:
        with self.indented():
            self._print_block(block, has_more=bool(node.outputs))
            declares = not self.declarations.always.isdisjoint(node.outputs)
            if declares or _needs_annotations(node):
                for target, value in zip(node.outputs, block.returns, strict=True):
                    self._assign([target], [value])
            else:
                self._assign(node.outputs, block.returns)

    def _loop(self, node: Node) -> None:
        counted = _is_counted(node)
        (body,) = node.blocks
        self.assign_names(node.outputs)
        carried = list(carried_values(node))
        for _, param, _, output in carried:
            self.stored[param] = self.use(output)
        for first, _, _, output in carried:
            self._initialize(output, first)
        # A while loop does not use the counter: its name is given to the condition.
        self.assign_names(body.params[:1])
        if counted:
            counter, bound = self.shown(body.params[0]), self.shown(node.inputs[0])
            self._header(node, node.inputs[1], "for ", counter, " in range(", bound, "):\n")
        else:
            self._assign(body.params[:1], [node.inputs[1]])
            self._header(node, node.inputs[0], "while ", self.shown(body.params[0]), ":\n")
        first_kept = 1 if counted else 0
        targets = body.params[first_kept:]
        with self.indented():
            self._print_block(body, has_more=bool(targets))
            self._assign(targets, body.returns[first_kept:])

    def _header(self, node: Node, implicit: Value | None, *parts: Part) -> None:
        """Print the line of an if or a loop, of which the text may omit the ``implicit`` input."""
        self.open_line()
        self.body.mark(self.body.length, node)
        if implicit is not None:
            self.body.mark(self.body.length, implicit.node, str(implicit.constant))
        for part in parts:
            self.put(part)

    def _unpack(self, node: Node) -> None:
        self.assign_names(node.outputs)
        if node.outputs:
            # The trailing comma makes this an unpacking even for a single target.
            self.line(*self.list_of(node.outputs), ", = ", self.shown(node.input))
        else:
            self.line(self.shown(node.input))

    def _set_attr(self, node: Node) -> None:
        target, value = node.inputs
        name = checked_identifier(node.name, "the name of an assigned attribute")
        self.line(self.shown(target), f".{name} = ", self.shown(value))

    def _closure(self, node: Node) -> None:
        function, callee = _CLOSURES[node.kind]
        name = self.names.unique(function)
        subgraph: Block = node.attributes["subgraph"]
        self.line(f"def {name}():")
        outside = self.in_closure, self.in_method
        self.capturing, self.in_closure = node, True
        for param, value in zip(subgraph.params, node.inputs, strict=True):
            self.stored[param] = self._captured(value)
        self.capturing = None
        self.body.mark(self.body.length, subgraph)
        self.in_method = False
        self.print_body(subgraph)
        self.in_closure, self.in_method = outside
        self.body.mark(self.body.length, None)
        call = self.build(f"{callee}({name})")
        call.mark(0, node)
        self._assign_outputs(node, call)

    def _captured(self, value: Value) -> TaggedText:
        """Return an input of a closure, which the closure recomputes from captured values."""
        if value in self.identifiers:
            return self.use(value)
        node = value.node
        if node.kind == PARAM:  # loop-carried, under the name of the loop's output
            return self.stored[value]
        if node.is_constant:
            # The closure gets a constant of its own.
            node = replace(node, inputs=[])
        for used in node.inputs:
            if used in self.stored:
                self.stored[used] = self._captured(used)
        outer, self.owner = self.owner, node
        text = self.expression(node)
        self.owner = outer
        return text

    def _enter(self, node: Node) -> None:
        parts: list[Part] = ["with ", self.shown(node.input)]
        if node.output.uses:
            self.assign_names(node.outputs)
            parts += [" as ", self.shown(node.output)]
        self.line(*parts, ":")
        self.level += 1

    def _exit(self, node: Node) -> None:
        if self._last_kind == "prim::Enter":
            self.line("pass")
        self.level -= 1

    def _module_container_index(self, node: Node) -> None:
        container, key = node.inputs
        self.assign_names(node.outputs)
        item = self.build(self.shown(container), "[", self.shown(key), "]")
        item.mark(0, node)
        type_text = self.annotation(node.output.type, self.literals.tag)
        self.line(self.shown(node.output), f" : {type_text} = ", item)

    def build(self, *parts: Part) -> TaggedText:
        text = TaggedText()
        _write(text, parts, self.owner)
        return text

    def shown(self, value: Value) -> Part:
        """Return the same as ``use``, for text that the present owner writes."""
        if self.capturing is None and (name := self.identifiers.get(value)) is not None:
            return name
        return self.use(value)

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
            parts += [", ", self.shown(value)]
        return parts[1:]

    def annotation(self, type_: Type, rename: Rename | None = None) -> str:
        text = annotation(type_, rename or self.rename)
        if self.dialect.names_empty_types:
            return text
        return _EMPTY_TYPES.sub(lambda match: _EARLIER[match[1]], text)

    def expression(self, node: Node) -> TaggedText:
        text = _EXPRESSIONS.get(node.kind, Statements._operator)(self, node)
        if _has_location(node):
            in_parentheses = node.kind in _AT_OPERAND and str(text)[0] == "("
            text.mark(1 if in_parentheses else 0, node)
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

    def _annotate(self, type_: Type, *parts: Part) -> TaggedText:
        return self.build("annotate(", self.annotation(type_), ", ", *parts, ")")

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

    def _tuple_slice(self, node: Node) -> TaggedText:
        begin, end = node.attributes["beg"], node.attributes["end"]
        return self.build("(", self.shown(node.input), f")[{begin}:{end}]")

    def _list(self, node: Node) -> TaggedText:
        return self._container(node, "[", *self.list_of(node.inputs), "]")

    def _dict(self, node: Node) -> TaggedText:
        pairs: list[Part] = []
        for key, value in zip(node.inputs[::2], node.inputs[1::2], strict=True):
            pairs += [", ", self.shown(key), ": ", self.shown(value)]
        return self._container(node, "{", *pairs[1:], "}")

    def _container(self, literal: Node, *parts: Part) -> TaggedText:
        """Return a list or dict, with its type unless a reader infers it from the items."""
        type_ = literal.output.type
        is_inferred = bool(literal.inputs) and all(map(can_be_inferred, type_.parts()))
        if is_inferred and literal.output not in self.declarations.always:
            return self.build(*parts)
        return self._annotate(type_, *parts)

    def _create_object(self, node: Node) -> TaggedText:
        name = checked_value_name(self.annotation(node.output.type))
        return self.build(f"{name}.__new__({name})")

    def _get_attr(self, node: Node) -> TaggedText:
        if is_identifier(node.name):
            return self.build(self.shown(node.input), f".{node.name}")
        return self.build("getattr(", self.shown(node.input), f", {string_text(node.name)})")

    def _call_function(self, node: Node) -> TaggedText:
        callee, *arguments = node.inputs
        return self.build(self.shown(callee), "(", *self._each_with_comma(arguments), ")")

    def _call_method(self, node: Node) -> TaggedText:
        self_value, *arguments = node.inputs
        text = self.build(
            "(", self.shown(self_value), f").{node.name}(", *self._each_with_comma(arguments), ")"
        )
        self.depend(self_value.type)  # type: ignore[arg-type]  # only named types have methods
        return text

    def _each_with_comma(self, values: Sequence[Value]) -> list[Part]:
        parts: list[Part] = []
        for value in values:
            parts += [self.shown(value), ", "]
        return parts

    def _unwrap_optional(self, node: Node) -> TaggedText:
        operand = self.use(node.input)
        if node.input.type == NONE or must_be_none(node.input):
            # The type of unwrap_optional(None) cannot be inferred.
            operand = self._annotate(OptionalType(node.output.type), operand)
        return self.build("torch._unwrap_optional(", operand, ")")

    def _isinstance(self, node: Node) -> TaggedText:
        types = [self.annotation(type_) for type_ in node.attributes["types"]]
        shown = types[0] if len(types) == 1 else f"({', '.join(types)})"
        return self.build("isinstance(", self.shown(node.input), f", {shown})")

    def _filled_form(self, node: Node) -> TaggedText:
        """Fill the inputs of a node, and the type of its output, into the form of its kind."""
        parts: list[Part] = []
        for text, place, _, _ in Formatter().parse(FORMS[node.kind]):
            parts.append(text)
            if place == "type":
                parts.append(self.annotation(node.output.type))
            elif place == "inputs":
                parts += self.list_of(node.inputs)
            elif place is not None:
                parts.append(self.shown(node.inputs[int(place)]))
        return self.build(*parts)

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
        whole = len(node.inputs) - out_count
        needed = whole if node.writes_all else max(needed, self.written_arguments(node))
        arguments: list[Part] = []
        for offset in range(needed):
            arguments += [", ", *self._argument(node.schema, node.inputs[offset], offset)]
        for offset in range(whole, len(node.inputs)):
            name = node.schema.arguments[offset].name
            arguments += [", ", f"{name}=", self.shown(node.inputs[offset])]
        text = self.build(operator_name(node.kind), "(", *arguments[1:], ")")
        for value in node.inputs[needed:whole]:
            hidden = None if self.in_closure else value.node
            text.mark(text.length, hidden, self._default_literal(value), is_text=False)
        return text

    def written_arguments(self, node: Node) -> int:
        """Return the number of arguments in the text that the node came from, if not the minimum.

        torch writes a default of the overload that it had, and may read back another overload.
        """
        return node.written_arguments

    def _default_literal(self, value: Value) -> str | None:
        default = value.constant
        if isinstance(default, str) and not default.isascii():
            return None
        is_scalar = default is None or isinstance(default, bool | int | float | str)
        return self.literals.text(default, value.type) if is_scalar else None

    def _argument(self, schema: FunctionSchema, value: Value, offset: int) -> list[Part]:
        if offset < len(schema.arguments) and schema.arguments[offset].kwarg_only:
            return [f"{schema.arguments[offset].name}=", self.shown(value)]
        return [self.shown(value)]


def _needs_annotations(node: Node) -> bool:
    """Return whether the branches yield values of types that only an annotation unifies.

    torch assigns them in one statement, which takes no annotation and does not read back.
    """
    one, other = (block.returns for block in node.blocks)
    return any(
        isinstance(target.type, UnionType) and unify(first.type, second.type) is None
        for target, first, second in zip(node.outputs, one, other, strict=True)
    )


def _is_counted(node: Node) -> bool:
    """Return whether a loop prints as ``for``, and not as ``while``."""
    (body,) = node.blocks
    always = is_constant_true(node.inputs[1]) and is_constant_true(body.returns[0])
    counted = has_trip_count(node) or bool(body.params[0].uses)
    if counted and not always:
        raise SaveError(
            "a loop with both a trip count and a condition has no source form",
            hint="Save the module before it is optimised",
        )
    return counted


_CLOSURES = {
    "prim::fork": ("__forked_function", "fork"),
    "prim::awaitable": ("__awaitable_function", "awaitable"),
}

_STATEMENTS: dict[str, Callable[[Statements, Node], None]] = {
    RETURN: Statements._return,
    "prim::If": Statements._if,
    "prim::Loop": Statements._loop,
    "prim::TupleUnpack": Statements._unpack,
    "prim::ListUnpack": Statements._unpack,
    "prim::SetAttr": Statements._set_attr,
    "prim::fork": Statements._closure,
    "prim::awaitable": Statements._closure,
    "prim::Enter": Statements._enter,
    "prim::Exit": Statements._exit,
    "prim::ModuleContainerIndex": Statements._module_container_index,
}


Part = str | TaggedText


def _write(text: TaggedText, parts: Iterable[Part], owner: Node | None) -> None:
    """Write parts one after another; strings are those of the owner."""
    plain = ""
    for part in parts:
        if isinstance(part, str):
            plain += part
        else:
            text.write(plain, owner)
            text.append(part)
            plain = ""
    text.write(plain, owner)


def operator_name(kind: str) -> str:
    """Return the callee of an operator; overload names are never printed."""
    namespace, _, name = kind.partition("::")
    if kind in ("aten::backward", "aten::grad"):
        return f"torch.autograd.{name}"
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


_EXPRESSIONS: dict[str, Callable[[Statements, Node], TaggedText]] = {
    **dict.fromkeys(FORMS, Statements._filled_form),
    "prim::Constant": Statements._constant,
    "prim::ConstantMKLDNNTensor": Statements._dense_constant,
    "aten::__getitem__": Statements._get_item,
    "prim::TupleConstruct": Statements._tuple,
    "prim::TupleSlice": Statements._tuple_slice,
    "prim::ListConstruct": Statements._list,
    "prim::DictConstruct": Statements._dict,
    "prim::CreateObject": Statements._create_object,
    "prim::GetAttr": Statements._get_attr,
    "prim::CallFunction": Statements._call_function,
    "prim::CallMethod": Statements._call_method,
    "aten::_unwrap_optional": Statements._unwrap_optional,
    "prim::isinstance": Statements._isinstance,
    "prim::PythonOp": Statements._refused,
    "prim::Closure": Statements._refused,
}
