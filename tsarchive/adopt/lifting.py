"""Copying of a graph of torch's IR, node by node, to the program graph.

Uses only the interface of torch's graph objects; types, constants and subgraphs are converted by
the adopter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tsarchive.ir.classes import Attribute, ClassType, Function, FunctionType
from tsarchive.ir.graph import Block, Node, Value
from tsarchive.ir.names import base_name
from tsarchive.ir.schema import Argument, FunctionSchema, parse_schema_with
from tsarchive.ir.types import BOOL, Type
from tsarchive.ir.values import ObjectValue, TableConstant

from .node_ranges import PlaceReader


class TypesAndConstants(Protocol):
    """Conversions that the copy needs for everything but nodes."""

    def type(self, type_: Any) -> Type: ...

    def constant(self, node: Any) -> Any: ...


class GraphCopy:
    """Copies one graph; values are identified by their numbers, unique in a graph."""

    def __init__(self, adopter: TypesAndConstants, places: PlaceReader, function: str) -> None:
        self.adopter = adopter
        self.places = places
        self.function = function
        self.values: dict[int, Value] = {}

    def graph(self, theirs: Any) -> Block:
        return self._filled(Block(), theirs, theirs.param_node(), theirs.return_node())

    def _filled(self, ours: Block, theirs: Any, params: Any, returns: Any) -> Block:
        for value in _outputs(params):
            self._bind(value, ours.param_node)
        for node in theirs.nodes():
            self._node(node, ours)
        for value in _inputs(returns):
            ours.add_return(self.values[value.unique()])
        return ours

    def _bind(self, value: Any, node: Node) -> None:
        type_ = self.adopter.type(value.type())
        self.values[value.unique()] = node.add_output(type_, base_name(value.debugName()))

    def _node(self, theirs: Any, block: Block) -> None:
        kind = theirs.kind()
        ours = block.append(
            kind,
            [self.values[value.unique()] for value in _inputs(theirs)],
            schema=self._schema(theirs),
            place=self.places.place(theirs, kind, self.function),
        )
        for value in _outputs(theirs):
            self._bind(value, ours)
        if kind in _WITH_BLOCKS:
            for inner in theirs.blocks():
                self._filled(ours.add_block(), inner, inner.paramNode(), inner.returnNode())
        read = _ATTRIBUTES.get(kind)
        if read is not None:
            ours.attributes.update(read(self, theirs, ours))
        elif (names := theirs.attributeNames()) and (lost := set(names) - _NOT_WRITTEN):
            ours.lost = sorted(lost)

    def _schema(self, node: Any) -> FunctionSchema | None:
        text = node.schema()
        return None if text == "(no schema)" else _operator_schema(text)

    def _constant(self, theirs: Any, ours: Node) -> dict[str, Any]:
        if isinstance(ours.output.type, FunctionType):
            return {"value": ours.output.type.function}
        return {"value": self.adopter.constant(theirs)}

    def _dense(self, theirs: Any, _: Node) -> dict[str, Any]:
        return {"value": TableConstant(theirs.t("value").to_dense())}

    def _name(self, theirs: Any, _: Node) -> dict[str, Any]:
        return {"name": theirs.s("name")}

    def _subgraph(self, theirs: Any, _: Node) -> dict[str, Any]:
        return {"subgraph": self._copy_of(theirs.g("Subgraph"))}

    def _copy_of(self, graph: Any) -> Block:
        return GraphCopy(self.adopter, self.places, self.function).graph(graph)

    def _types(self, theirs: Any, _: Node) -> dict[str, Any]:
        return {"types": [self.adopter.type(type_) for type_ in theirs.tys("types")]}

    def _bounds(self, theirs: Any, _: Node) -> dict[str, Any]:
        return {"beg": theirs.i("beg"), "end": theirs.i("end")}


_ATTRIBUTES: dict[str, Callable[[GraphCopy, Any, Node], dict[str, Any]]] = {
    "prim::Constant": GraphCopy._constant,
    "prim::ConstantMKLDNNTensor": GraphCopy._dense,
    "prim::GetAttr": GraphCopy._name,
    "prim::SetAttr": GraphCopy._name,
    "prim::CallMethod": GraphCopy._name,
    "prim::fork": GraphCopy._subgraph,
    "prim::awaitable": GraphCopy._subgraph,
    "prim::isinstance": GraphCopy._types,
    "prim::TupleSlice": GraphCopy._bounds,
}

_WITH_BLOCKS = frozenset({"prim::If", "prim::Loop"})


# By index: the iterators over the same values cost ten times as much.
def _inputs(node: Any) -> Iterator[Any]:
    return map(node.inputsAt, range(node.inputsSize()))


def _outputs(node: Any) -> Iterator[Any]:
    return map(node.outputsAt, range(node.outputsSize()))


# The number by which torch identifies repeated warnings; it is reassigned on loading.
_NOT_WRITTEN = frozenset({"warn_id"})

_schemas: dict[str, FunctionSchema] = {}


def _operator_schema(text: str) -> FunctionSchema:
    """Parse a schema. Operators may name torchbind classes; printing only needs their names."""
    found = _schemas.get(text)
    if found is None:
        found = parse_schema_with(text, lambda name: ClassType(name, is_native=True))
        _schemas[text] = found
    return found


def placeholder(graph: Block) -> ObjectValue:
    """Wrap a function as the ``forward`` of a module without state.

    The schema is rebuilt from the graph, so defaults are lost, as they are in torch.
    """
    class_ = ClassType("__torch__.PlaceholderModule", is_module=True)
    class_.attributes["training"] = Attribute("training", BOOL)
    graph.params.insert(0, Value(graph.param_node, class_, "self"))
    arguments = tuple(
        Argument(value.name or f"argument_{position}", value.type)
        for position, value in enumerate(graph.params)
    )
    results = (Argument("", graph.returns[0].type),)
    schema = FunctionSchema("forward", "", arguments, results)
    forward = Function(f"{class_.qualified_name}.forward", schema, lambda: graph)
    class_.methods["forward"] = forward
    return ObjectValue(class_, {"training": True})
