"""Printing of statements: the body of a function as lines of source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

from tsarchive.errors import SaveError
from tsarchive.ir.classes import ClassType, InterfaceType
from tsarchive.ir.graph import (
    PARAM,
    RETURN,
    Block,
    Node,
    Value,
    carried_values,
    has_trip_count,
    is_constant_true,
)
from tsarchive.ir.names import NamePool, checked_identifier, to_identifier
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.subtyping import unify
from tsarchive.ir.types import (
    TENSOR,
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

from .expressions import Expressions, Part
from .inline import constants_in_order, inlined_nodes
from .literals import Literals
from .versions import Versions

_LONG = 40


class Statements(Expressions):
    """Prints function bodies into ``body``, the text of one code record."""

    name_pool: ClassVar[type[NamePool]] = NamePool

    def __init__(
        self,
        literals: Literals,
        rename: Rename,
        depend: Callable[[NamedType], None],
        versions: Versions | None = None,
    ) -> None:
        super().__init__(literals, rename, depend)
        self.body = TaggedText()
        self.names = self.name_pool()
        self.level = 0
        self.versions = versions or Versions()
        self.in_method = False
        self.inlined: set[Node] = set()
        self.annotated: set[Value] = set()
        self._split_up_to: dict[Node, int] = {}
        self._last_kind = ""
        self._seen_types: set[Type] = set()

    def line(self, *parts: Part) -> None:
        """Write a statement at the current indentation."""
        self.open_line()
        for part in parts:
            self.put(part)
        self.body.write("\n", self.owner)

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

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Attribute the text written inside the block to ``node``."""
        outer = self.owner
        self.owner = node
        yield
        self.owner = outer

    def register(self, type_: Type) -> None:
        """Record every named type inside ``type_`` as a dependency of the code."""
        if isinstance(type_, SimpleType) or type_ in self._seen_types:
            return
        self._seen_types.add(type_)
        if is_named(type_) and isinstance(type_, ClassType | TupleType | InterfaceType | EnumType):
            self.depend(type_)
        for part in type_.parts():
            self.register(part)

    def _register_types(self, node: Node) -> None:
        for value in (*node.inputs, *node.outputs):
            if value.type is not TENSOR:
                self.register(value.type)
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
            _BY_KIND.get(node.kind, Statements._define)(self, node)
        self.owner = outer

    def _return(self, node: Node) -> None:
        if len(node.inputs) != 1:
            raise SaveError("a function of an archive returns exactly one value")
        self.line("return ", self.use(node.input))

    def _define(self, node: Node) -> None:
        """Store a node's expression for its user, or assign it to names."""
        text = self.expression(node)
        long = self._is_long(text)
        if node not in self.inlined or (node.is_constant and long):
            self._assign_outputs(node, text)
            return
        self.stored[node.output] = text
        if long:
            self._split(node.output)

    def _is_long(self, text: TaggedText) -> bool:
        return text.length + 2 * self.level >= _LONG

    def _assign_outputs(self, node: Node, text: Part) -> None:
        self.assign_names(node.outputs)
        if node.outputs and node.outputs[0] in self.declarations.assigned:
            type_text = self.annotation(node.output.type)
            self.line(self.use(node.output), f" : {type_text} = ", text)
        elif node.outputs:
            self.line(*self.list_of(node.outputs), " = ", text)
        else:
            self.line(text)

    def _split(self, value: Value) -> None:
        """Give statements to a long inline expression and to all that must run before it."""
        for earlier in self._to_split(*value.uses[0]):
            text = self.use(earlier)
            self._assign_outputs(earlier.node, text)

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
            parts.append(f" : {annotation(targets[0].type, self.literals.tag)}")
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
        parts: list[Part] = [self.use(target)]
        if annotate:
            parts.append(f": {self.annotation(target.type)}")
        self.line(*parts, " = ", self.use(value))

    def _if(self, node: Node) -> None:
        self.assign_names(node.outputs)
        self.open_line()
        self.body.mark(self.body.length, node)
        self.put("if ")
        self.put(self.use(node.input))
        self.put(":\n")
        self._branch(node, node.blocks[0])
        self.line("else:")
        self._branch(node, node.blocks[1])

    def _branch(self, node: Node, block: Block) -> None:
        with self.indented():
            self._print_block(block, has_more=bool(node.outputs))
            if _needs_annotations(node) or self._declares_outputs(node):
                for target, value in zip(node.outputs, block.returns, strict=True):
                    self._assign([target], [value])
            else:
                self._assign(node.outputs, block.returns)

    def _declares_outputs(self, node: Node) -> bool:
        return not self.declarations.always.isdisjoint(node.outputs)

    def _loop(self, node: Node) -> None:
        counted, condition = _loop_form(node)
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
            counter, bound = self.use(body.params[0]), self.use(node.inputs[0])
            self._loop_header(node, node.inputs[1], "for ", counter, " in range(", bound, "):\n")
        else:
            self._assign(body.params[:1], [condition])
            self._loop_header(node, node.inputs[0], "while ", self.use(body.params[0]), ":\n")
        first_kept = 1 if counted else 0
        targets = body.params[first_kept:]
        with self.indented():
            self._print_block(body, has_more=bool(targets))
            self._assign(targets, body.returns[first_kept:])

    def _loop_header(self, node: Node, implicit: Value, *parts: Part) -> None:
        """Print a loop header; ``implicit`` is the condition or trip count that the text omits."""
        self.open_line()
        self.body.mark(self.body.length, node)
        self.body.mark(self.body.length, implicit.node, str(implicit.node.attributes["value"]))
        for part in parts:
            self.put(part)

    def _unpack(self, node: Node) -> None:
        self.assign_names(node.outputs)
        if node.outputs:
            # The trailing comma makes this an unpacking even for a single target.
            self.line(*self.list_of(node.outputs), ", = ", self.use(node.input))
        else:
            self.line(self.use(node.input))

    def _set_attr(self, node: Node) -> None:
        target, value = node.inputs
        name = checked_identifier(node.name, "the name of an assigned attribute")
        self.line(self.use(target), f".{name} = ", self.use(value))

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
        with self.at(node):
            return self.expression(node)

    def _enter(self, node: Node) -> None:
        parts: list[Part] = ["with ", self.use(node.input)]
        if node.output.uses:
            self.assign_names(node.outputs)
            parts += [" as ", self.use(node.output)]
        self.line(*parts, ":")
        self.level += 1

    def _exit(self, node: Node) -> None:
        if self._last_kind == "prim::Enter":
            self.line("pass")
        self.level -= 1

    def _module_container_index(self, node: Node) -> None:
        container, key = node.inputs
        self.assign_names(node.outputs)
        item = self.build(self.use(container), "[", self.use(key), "]")
        item.mark(0, node)
        type_text = annotation(node.output.type, self.literals.tag)
        self.line(self.use(node.output), f" : {type_text} = ", item)


def _needs_annotations(node: Node) -> bool:
    """Return whether the branches yield values of types that only an annotation unifies.

    torch assigns them in one statement, which takes no annotation and does not read back.
    """
    one, other = (block.returns for block in node.blocks)
    return any(
        isinstance(target.type, UnionType) and unify(first.type, second.type) is None
        for target, first, second in zip(node.outputs, one, other, strict=True)
    )


def _loop_form(node: Node) -> tuple[bool, Value]:
    """Return whether a loop prints as ``for``, and its initial condition."""
    condition = node.inputs[1]
    (body,) = node.blocks
    always = is_constant_true(condition) and is_constant_true(body.returns[0])
    counted = has_trip_count(node) or bool(body.params[0].uses)
    if counted and not always:
        raise SaveError(
            "a loop with both a trip count and a condition has no source form",
            hint="Save the module before it is optimised",
        )
    return counted, condition


_CLOSURES = {
    "prim::fork": ("__forked_function", "fork"),
    "prim::awaitable": ("__awaitable_function", "awaitable"),
}

_BY_KIND: dict[str, Callable[[Statements, Node], None]] = {
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
