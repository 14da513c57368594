"""What a pickle must know of a ``__getstate__``: which parts of its result something else holds."""

from __future__ import annotations

from .graph import Block, Value
from .types import TENSOR, ClassType, OptionalType, TupleType, Type

_BIAS_OUTPUT = 1


def held_elements(getstate: Block) -> tuple[int, ...]:
    """Positions in the returned tuple that something besides the result keeps alive.

    These are slots of the object, constants of the graph, and the bias inside packed
    parameters; what the function computes is held by the result alone.
    """
    returned = getstate.returns[0].node
    if returned.kind != "prim::TupleConstruct":
        return ()
    return tuple(i for i, value in enumerate(returned.inputs) if _is_held(value))


def _is_held(value: Value) -> bool:
    node = value.node
    if node.kind == "prim::TupleUnpack":
        return _is_unpacking(node.input) and value is node.outputs[_BIAS_OUTPUT]
    return node.kind in ("prim::GetAttr", "prim::Constant")


def _is_unpacking(value: Value) -> bool:
    """``conv2d_unpack(packed)`` and ``packed.unpack()`` give a fresh weight and the own bias."""
    node = value.node
    if node.kind != "prim::CallMethod":
        return node.kind.startswith("quantized::") and node.kind.endswith("_unpack")
    owner = node.input.type
    if isinstance(owner, ClassType) and not owner.is_native and node.name in owner.methods:
        return _is_unpacking(owner.methods[node.name].graph.returns[0])
    return node.name == "unpack"


def held_by_native(state: Type) -> tuple[int, ...]:
    """The same for a torchbind class: packed parameters give their own bias, an optional."""
    if not isinstance(state, TupleType):
        return ()
    optional = OptionalType(TENSOR)
    return tuple(index for index, element in enumerate(state.elements) if element == optional)
