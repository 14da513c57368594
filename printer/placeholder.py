"""The module that stands for a function that is saved by itself."""

from __future__ import annotations

from .graph import Block, Function, Value
from .schema import Argument, FunctionSchema
from .types import BOOL, Attribute, ClassType
from .values import ObjectValue


def placeholder(graph: Block) -> ObjectValue:
    """A function as the ``forward`` of a module without state.

    The schema is made anew from the graph, so defaults are lost, as they are in torch.
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
