"""Graphs as an archive: a root class with their methods, and the attributes that stay.

Tensors that oneDNN packed cannot be saved: their order depends on the processor. The archive has
the plain weights, as the state of an object that packs them when it is loaded; what is in memory is
the packed form alone, from which the state is made when it is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from torch import Tensor

from tsarchive.container import NewRecord
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.torchscript.saving_loaded import records_of_program, state_of
from tsarchive.ir.classes import Attribute, ClassType, Function
from tsarchive.ir.constants import ObjectValue, TableConstant
from tsarchive.ir.graph import Block, Node, Value, nested_blocks
from tsarchive.ir.rewriting import blocks_in, remove, replace
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import BOOL, INT, NONE, TENSOR, TupleType, Type
from tsarchive.ir.values import Builder
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.natives.onednn import PACK_CONVOLUTION, PACK_LINEAR
from tsarchive.run.operators import operator_schemas
from tsarchive.run.slots import get_slot

from .packing import Packed

_WEIGHTS: Final = "__torch__.tsarchive.PackedWeights"
_WEIGHTS_NAME: Final = "packed_weights"
_MEMBERS: Final = frozenset({"prim::GetAttr", "prim::SetAttr"})

Describe = Callable[[Any], Any]


def program_records(
    root: ArchiveModule, bodies: Mapping[Function, Block], packed: Sequence[Packed]
) -> list[NewRecord]:
    """Return the records of a module that has graphs for its methods.

    Raises UnsupportedError for a graph that uses modules as values, and CallError for one that has
    packed weights already.
    """
    tree = _Tree(root)
    for graph in bodies.values():
        tree.walk(graph)
    top = tree.parts[id(root)]
    weights = _with_weights(bodies.values(), top, packed) if packed else None
    top.attribute(Attribute("training", BOOL))
    for method, graph in bodies.items():
        _define(top.type, method, graph)

    def build(describe: Describe) -> ObjectValue:
        made = tree.object(root, describe)
        made.slots["training"] = False
        if weights is not None:
            made.slots[top.weights] = _weights_object(weights, packed)
        return made

    return records_of_program(root.tsarchive_classes.container, build, {})


def _define(class_: ClassType, method: Function, graph: Block) -> None:
    first, *others = method.schema.arguments
    schema = method.schema._replace(arguments=(first._replace(type=class_), *others))
    name = f"{class_.qualified_name}.{method.name}"
    class_.methods[method.name] = Function(name, schema, lambda: graph)


@dataclass(eq=False)
class _Part:
    """A module that stays, with the attributes that code uses."""

    module: ArchiveModule
    type: ClassType
    weights: str = _WEIGHTS_NAME
    children: dict[str, ArchiveModule] = field(default_factory=dict)

    def attribute(self, attribute: Attribute) -> None:
        self.type.attributes.setdefault(attribute.name, attribute)


class _Tree:
    """The modules that stay, each with a class of its own."""

    def __init__(self, root: ArchiveModule) -> None:
        self.parts: dict[int, _Part] = {}
        self._root = root
        self._modules: dict[Value, ArchiveModule] = {}

    def walk(self, graph: Block) -> None:
        """Find what code uses of modules, and give their values the new classes."""
        own = graph.params[0]
        own.type = self._part(self._root).type
        self._modules[own] = self._root
        self._block(graph)

    def _part(self, module: ArchiveModule) -> _Part:
        if id(module) not in self.parts:
            name = module.tsarchive_class.qualified_name
            self.parts[id(module)] = _Part(module, ClassType(name, is_module=True))
        return self.parts[id(module)]

    def _block(self, block: Block) -> None:
        for node in (*block.nodes, block.return_node):
            for offset, value in enumerate(node.inputs):
                module = self._modules.get(value)
                if module is not None:
                    self._use(node, offset, self._part(module))
            for inner in nested_blocks(node):
                self._block(inner)

    def _use(self, node: Node, offset: int, part: _Part) -> None:
        if node.kind not in _MEMBERS or offset:
            raise UnsupportedError("the code uses a module as a value")
        attribute = part.module.tsarchive_class.attributes[node.name]
        value = get_slot(part.module, attribute)
        if isinstance(value, Tensor) and value.is_mkldnn:
            raise CallError(
                "the module is optimized already: oneDNN packed its weights",
                hint="Optimize the module that it was made from",
            )
        if isinstance(value, ArchiveModule):
            if node.kind != "prim::GetAttr":
                raise UnsupportedError("the code puts a module in the place of another")
            part.children[node.name] = value
            attribute = attribute._replace(type=self._part(value).type)
            self._modules[node.output] = value
            node.output.type = attribute.type
        part.attribute(attribute)

    def object(self, module: ArchiveModule, describe: Describe) -> ObjectValue:
        """Return a module that stays, with the values of its attributes."""
        part = self.parts[id(module)]
        made = ObjectValue(part.type)
        for name in part.type.attributes:
            if name in part.children:
                made.slots[name] = self.object(part.children[name], describe)
            elif name in module.tsarchive_class.attributes and name != part.weights:
                own = module.tsarchive_class.attributes[name]
                made.slots[name] = describe(get_slot(module, own))
        return made


def _with_weights(graphs: Iterable[Block], top: _Part, packed: Sequence[Packed]) -> ClassType:
    """Let graphs read packed weights from an attribute of their module; return their class."""
    own = top.module.tsarchive_class
    while top.weights in own.attributes or top.weights in own.methods:
        top.weights += "_"
    class_ = ClassType(_WEIGHTS, is_module=True)
    each_once = _each_once(packed)
    places = [next(i for i, one in enumerate(each_once) if one.is_like(each)) for each in packed]
    names = [f"weight_{number}" for number in range(len(each_once))]
    class_.attributes.update({name: Attribute(name, TENSOR) for name in names})
    top.attribute(Attribute(top.weights, class_))
    numbers = {each.use.node: place for each, place in zip(packed, places, strict=True)}
    for graph in graphs:
        _read_weights(graph, top, class_, names, numbers)
    state = TupleType((TENSOR,) * len(each_once))
    _method(class_, "__getstate__", (), state, lambda body: _get_state(body, names, state))
    _method(
        class_, "__setstate__", (Argument("state", state),), NONE,
        lambda body: _set_state(body, names, each_once),
    )  # fmt: skip
    return class_


def _read_weights(
    graph: Block, top: _Part, class_: ClassType, names: Sequence[str], numbers: Mapping[Node, int]
) -> None:
    """Let a graph read weights in the places of nodes, each by its number."""
    found = [(b, node) for b in blocks_in(graph) for node in b.nodes if node in numbers]
    if not found:
        return
    reads: list[Node] = []
    holder = _read(graph.params[0], top.weights, class_, reads)
    wanted = sorted({numbers[node] for _, node in found})
    values = {number: _read(holder, names[number], TENSOR, reads) for number in wanted}
    for block, node in found:
        replace(node.output, values[numbers[node]])
        remove(block, node)
    graph.nodes[:0] = reads


def _each_once(packed: Sequence[Packed]) -> list[Packed]:
    """Return the weights but those that another body has, too."""
    found: list[Packed] = []
    for each in packed:
        if not any(one.is_like(each) for one in found):
            found.append(each)
    return found


def _read(owner: Value, name: str, type_: Type, reads: list[Node]) -> Value:
    node = Node("prim::GetAttr", attributes={"name": name})
    node.add_input(owner)
    reads.append(node)
    return node.add_output(type_, name)


def _weights_object(class_: ClassType, packed: Sequence[Packed]) -> ObjectValue:
    state = tuple(TableConstant(each.weight) for each in _each_once(packed))
    return ObjectValue(class_, state=state_of(class_, state))


def _method(
    class_: ClassType,
    name: str,
    arguments: tuple[Argument, ...],
    returns: Type,
    fill: Callable[[Builder], Value],
) -> None:
    given = (Argument("self", class_), *arguments)
    schema = FunctionSchema(name, "", given, (Argument("", returns),))

    def define() -> Block:
        body = Block()
        for argument in given:
            body.add_param(argument.type, argument.name)
        builder = Builder(body, lambda: None)
        body.add_return(fill(builder))
        return builder.finish()

    class_.methods[name] = Function(f"{class_.qualified_name}.{name}", schema, define)


def _get_state(builder: Builder, names: Sequence[str], state: Type) -> Value:
    own = builder.body.params[0]
    plain = []
    for name in names:
        packed = builder.append("prim::GetAttr", [own], TENSOR, name=name).output
        nothing = builder.constant(None, NONE)
        plain.append(_call(builder, "aten::to_dense", [packed, nothing, nothing]))
    return builder.append("prim::TupleConstruct", plain, state).output


def _set_state(builder: Builder, names: Sequence[str], packed: Sequence[Packed]) -> Value:
    own, state = builder.body.params
    for number, (name, each) in enumerate(zip(names, packed, strict=True)):
        index = builder.constant(number, INT)
        weight = builder.append("prim::TupleIndex", [state, index], TENSOR).output
        made = _packing(builder, weight, each)
        builder.append("prim::SetAttr", [own, made], name=name)
    return builder.constant(None, NONE)


def _packing(builder: Builder, weight: Value, packed: Packed) -> Value:
    size = packed.size
    if packed.numbers is None:
        rows = None if size is None else size[0]
        given = builder.constant(rows, NONE if rows is None else INT)
        return _call(builder, PACK_LINEAR, [weight, given])
    *lists, groups = packed.numbers
    inputs = [_ints(builder, each) for each in lists]
    shown = builder.constant(None, NONE) if size is None else _ints(builder, size)
    inputs = [weight, *inputs, builder.constant(groups, INT), shown]
    return _call(builder, PACK_CONVOLUTION, inputs)


def _ints(builder: Builder, numbers: Sequence[int]) -> Value:
    return builder.list_of(INT, [builder.constant(number, INT) for number in numbers])


def _call(builder: Builder, name: str, inputs: Sequence[Value]) -> Value:
    (schema,) = operator_schemas(name)
    return builder.append(name, inputs, schema.return_type, schema=schema).output
