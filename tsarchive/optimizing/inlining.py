"""One graph for a method and all that it calls, on the modules that it has.

Attributes of modules become constants but for those that are kept. A value in the graph may stand
for a module: no node makes it, until something other than a call or an attribute needs it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import Function, FunctionType
from tsarchive.ir.constants import Device, EnumMember, TableConstant
from tsarchive.ir.graph import CONSTANT, Block, Node, Value
from tsarchive.ir.rewriting import copied
from tsarchive.ir.types import (
    ANY,
    NONE,
    TENSOR,
    DictType,
    EnumType,
    ListType,
    OptionalType,
    TupleType,
    Type,
)
from tsarchive.ir.values import type_of_constant
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.slots import get_slot

MODULE: Final = "prim::Module"
"""The kind of a node that stands in no block: its value is a module."""

_CALL: Final = "prim::CallFunction"
_SCALARS: Final = (bool, int, float, complex, str, type(None))
_Emit = Callable[["Inlining", Node, "Scope"], None]


class Slot(NamedTuple):
    """An attribute of one module."""

    owner: ArchiveModule
    name: str

    @property
    def value(self) -> Any:
        return get_slot(self.owner, self.owner.tsarchive_class.attributes[self.name])


class Scope(NamedTuple):
    """A block that is being filled, and the values that stand for those of what is inlined."""

    block: Block
    values: dict[Value, Value]


class Inlined(NamedTuple):
    """A graph, and what its values are: modules, and attributes that became constants."""

    graph: Block
    modules: Mapping[Value, ArchiveModule]
    frozen: Mapping[Value, Slot]
    assigned: frozenset[Slot]
    calls: int


def inlined(root: ArchiveModule, method: Function, kept: frozenset[Slot]) -> Inlined:
    """Return the graph of a method of ``root`` without calls of its functions and modules.

    Raises UnsupportedError for code that chooses between modules when it runs.
    """
    inlining = Inlining(root, kept)
    graph = inlining.start(method)
    return Inlined(
        graph,
        inlining.modules,
        inlining.frozen,
        frozenset(inlining.assigned),
        inlining.calls,
    )


class Inlining:
    def __init__(self, root: ArchiveModule, kept: frozenset[Slot]) -> None:
        self.root = root
        self.kept = kept
        self.modules: dict[Value, ArchiveModule] = {}
        self.frozen: dict[Value, Slot] = {}
        self.assigned: set[Slot] = set()
        self.calls = 0
        self._paths = {id(module): name for name, module in reversed([*root.named_modules()])}
        self._known: dict[int, Value] = {}

    def start(self, method: Function) -> Block:
        """Return the whole graph, whose parameters are those of the method."""
        graph = Block()
        first, *others = method.graph.params
        self._self = graph.add_param(first.type, first.name)
        given = [self._module(self.root)]
        given += [graph.add_param(value.type, value.name) for value in others]
        scope = Scope(graph, dict(zip(method.graph.params, given, strict=True)))
        for value in self._run(method.graph, scope):
            graph.add_return(self._made(value, scope))
        return graph

    def _run(self, body: Block, scope: Scope) -> list[Value]:
        for node in body.nodes:
            _BY_KIND.get(node.kind, Inlining._other)(self, node, scope)
        return [scope.values[value] for value in body.returns]

    def _call(self, function: Function, given: list[Value], node: Node, scope: Scope) -> None:
        """Put the body of a function in the place of its call."""
        self.calls += 1
        body = function.graph
        inner = Scope(scope.block, dict(zip(body.params, given, strict=True)))
        for output, value in zip(node.outputs, self._run(body, inner), strict=True):
            scope.values[output] = value

    def _call_method(self, node: Node, scope: Scope) -> None:
        module = self.modules.get(scope.values[node.input])
        if module is None:
            return self._other(node, scope)
        given = [scope.values[value] for value in node.inputs]
        self._call(module.tsarchive_class.function(node.name), given, node, scope)

    def _call_function(self, node: Node, scope: Scope) -> None:
        type_ = node.input.type
        if not isinstance(type_, FunctionType):
            return self._other(node, scope)
        given = [scope.values[value] for value in node.inputs[1:]]
        self._call(type_.function, given, node, scope)

    def _get(self, node: Node, scope: Scope) -> None:
        module = self.modules.get(scope.values[node.input])
        if module is None:
            return self._other(node, scope)
        attribute = module.tsarchive_class.attributes[node.name]
        slot = Slot(module, node.name)
        value = slot.value
        if slot in self.kept:
            return self._other(node, scope)
        if isinstance(value, ArchiveModule):
            scope.values[node.output] = self._module(value)
            return
        made = constant_of(value, attribute.type, scope.block, node)
        if made is None:
            return self._other(node, scope)
        if _is_shared(made.type):
            self.frozen[made] = slot
        scope.values[node.output] = made

    def _set(self, node: Node, scope: Scope) -> None:
        module = self.modules.get(scope.values[node.input])
        if module is not None:
            self.assigned.add(Slot(module, node.name))
        self._other(node, scope)

    def _index(self, node: Node, scope: Scope) -> None:
        module = self.modules.get(scope.values[node.input])
        key = scope.values[node.inputs[1]].constant
        if module is None or not isinstance(key, int | str):
            raise UnsupportedError("the code chooses between modules when it runs")
        children = list(module._modules.values())
        child = children[key] if isinstance(key, int) else module._modules[key]
        assert isinstance(child, ArchiveModule)
        scope.values[node.output] = self._module(child)

    def _constant(self, node: Node, scope: Scope) -> None:
        if not isinstance(node.output.type, FunctionType):
            return self._other(node, scope)
        if any((use.user.kind, use.offset) != (_CALL, 0) for use in node.output.uses):
            raise UnsupportedError("the code takes a function for a value")

    def _other(self, node: Node, scope: Scope) -> None:
        """Copy a node, with the blocks in it."""
        given = [self._made(scope.values[value], scope) for value in node.inputs]
        made = copied(node, given)
        scope.block.nodes.append(made)
        for inner in node.blocks:
            self._copy_block(inner, made.add_block(), scope)
        subgraph = node.attributes.get("subgraph")
        if subgraph is not None:
            made.attributes["subgraph"] = Block()
            self._copy_block(subgraph, made.attributes["subgraph"], scope)
        scope.values.update(zip(node.outputs, made.outputs, strict=True))

    def _copy_block(self, body: Block, made: Block, scope: Scope) -> None:
        inner = Scope(made, dict(scope.values))
        for value in body.params:
            inner.values[value] = made.add_param(value.type, value.name)
        for value in self._run(body, inner):
            made.add_return(self._made(value, inner))

    def _module(self, module: ArchiveModule) -> Value:
        if id(module) not in self._known:
            value = Node(MODULE).add_output(module.tsarchive_class)
            self._known[id(module)] = value
            self.modules[value] = module
        return self._known[id(module)]

    def _made(self, value: Value, scope: Scope) -> Value:
        """Return a value that nodes may use: a module is read from where it is."""
        module = self.modules.get(value)
        if module is None:
            return value
        found, owner = self._self, self.root
        for name in filter(None, self._paths[id(module)].split(".")):
            child = owner._modules[name]
            assert isinstance(child, ArchiveModule)
            node = scope.block.append("prim::GetAttr", [found], name=name)
            found, owner = node.add_output(child.tsarchive_class, name), child
        return found


_BY_KIND: dict[str, _Emit] = {
    CONSTANT: Inlining._constant,
    _CALL: Inlining._call_function,
    "prim::CallMethod": Inlining._call_method,
    "prim::GetAttr": Inlining._get,
    "prim::SetAttr": Inlining._set,
    "prim::ModuleContainerIndex": Inlining._index,
}


def constant_of(value: Any, type_: Type, block: Block, node: Node) -> Value | None:
    """Return the value of an attribute as a constant, or made of constants; None if it is none.

    ``type_`` is what the attribute is declared to be.
    """
    if isinstance(type_, OptionalType):
        type_ = NONE if value is None else type_.element
    match value:
        case torch.Tensor() if value.layout is not torch.strided:
            return None  # torch.jit has no constants of this kind
        case torch.Tensor():
            return _literal(TableConstant(value.detach()), TENSOR, block, node)
        case torch.device():
            return _literal(Device(str(value)), type_, block, node)
        case enum.Enum():
            found = getattr(type(value), "tsarchive_enum", None)
            if not isinstance(found, EnumType):
                return None
            return _literal(EnumMember(found, value.name, value.value), found, block, node)
        case list() if isinstance(type_, ListType):
            return _built(
                "prim::ListConstruct", value, [type_.element] * len(value), type_, block, node
            )
        case tuple() if isinstance(type_, TupleType):
            return _built("prim::TupleConstruct", value, list(type_.elements), type_, block, node)
        case dict() if isinstance(type_, DictType):
            items = [part for pair in value.items() for part in pair]
            types = [type_.key, type_.value] * len(value)
            return _built("prim::DictConstruct", items, types, type_, block, node)
    if not isinstance(value, _SCALARS):
        return None
    return _literal(value, type_of_constant(value) if type_ != NONE else NONE, block, node)


def _literal(value: Any, type_: Type, block: Block, node: Node) -> Value:
    return block.append(CONSTANT, value=value).add_output(type_, node.output.name)


def _built(
    kind: str, values: Any, types: list[Type], type_: Type, block: Block, node: Node
) -> Value | None:
    if any(element == ANY for element in types):
        return None
    made = [constant_of(*pair, block, node) for pair in zip(values, types, strict=True)]
    given = [value for value in made if value is not None]
    if len(given) < len(made):
        return None
    return block.append(kind, given).add_output(type_, node.output.name)


def _is_shared(type_: Type) -> bool:
    """Return whether a value of this type may be written to."""
    return (
        type_ == TENSOR
        or isinstance(type_, ListType | DictType)
        or any(map(_is_shared, type_.parts()))
    )
