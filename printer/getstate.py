"""What a pickle must know of a ``__getstate__``: which parts of its result something else holds."""

from __future__ import annotations

from .graph import Block, Node, Value
from .types import TENSOR, ClassType, ListType, OptionalType, TupleType, Type
from .values import Held

_BIAS = 1


def held_elements(getstate: Block) -> Held:
    """Positions in the returned tuple that something besides the result keeps alive.

    These are slots of the object, constants of the graph, and the bias inside packed
    parameters; what the function computes is held by the result alone.
    """
    returned = getstate.returns[0].node
    if returned.kind != "prim::TupleConstruct":
        return Held()
    return Held(tuple(i for i, value in enumerate(returned.inputs) if _is_held(value)))


def _is_held(value: Value) -> bool:
    node = value.node
    if node.kind == "prim::TupleUnpack":
        return _holds(node.input, node.outputs.index(value))
    if node.kind == "prim::If":
        return all(map(_is_held, _choices(value)))
    if _is_unpack(node):
        return value is node.outputs[_BIAS]
    return node.kind in ("prim::GetAttr", "prim::Constant")


def _holds(tuple_: Value, index: int) -> bool:
    """Whether something besides ``tuple_`` keeps its element at ``index`` alive."""
    node = tuple_.node
    match node.kind:
        case "prim::TupleConstruct":
            return _is_held(node.inputs[index])
        case "prim::If":
            return all(_holds(choice, index) for choice in _choices(tuple_))
        case "prim::CallMethod":
            owner = node.input.type
            if isinstance(owner, ClassType) and not owner.is_native and node.name in owner.methods:
                return _holds(owner.methods[node.name].graph.returns[0], index)
    return _is_unpack(node) and index == _BIAS


def _choices(value: Value) -> list[Value]:
    """What the branches of an if statement give for one of its outputs, where they give any."""
    position = value.node.outputs.index(value)
    given = [block.returns[position] for block in value.node.blocks]
    return [choice for choice in given if choice.node.kind != "prim::Uninitialized"]


def _is_unpack(node: Node) -> bool:
    """``conv2d_unpack(packed)`` and ``packed.unpack()`` give a fresh weight and the own bias."""
    if node.kind == "prim::CallMethod":
        return node.name == "unpack"
    return node.kind.startswith("quantized::") and "_unpack" in node.kind


def held_by_native(state: Type) -> Held:
    """The same for a torchbind class: packed parameters give their own bias, an optional."""
    if not isinstance(state, TupleType):
        return Held()
    optional = OptionalType(TENSOR)
    return Held(
        tuple(i for i, element in enumerate(state.elements) if element == optional),
        tuple(i for i, element in enumerate(state.elements) if element == ListType(optional)),
    )
