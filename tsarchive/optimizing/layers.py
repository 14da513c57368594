"""Layers made one: dropout that does nothing, normalization in the weights before it, activations
that write over what they were given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from torch import Tensor

from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Block, Node, Value
from tsarchive.ir.rewriting import remove, replace, set_input
from tsarchive.ir.types import TENSOR
from tsarchive.operators.effects import IS_TRAINING, NEW_TENSORS
from tsarchive.run.operators import operator_schemas
from tsarchive.run.passes.alias_analysis import OUTSIDE

from .freezing import Written
from .graphs import Inserter, argument, each_node, sweep, tensor_of, uses_of_content

_DROPOUTS: Final = frozenset(
    f"aten::{kind}{end}"
    for kind in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
    for end in ("", "_")
)
CONVOLUTIONS: Final = frozenset(
    {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution"}
)
_TRANSPOSED: Final = frozenset(
    {"aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"}
)
_FOLDED_INTO: Final = CONVOLUTIONS | _TRANSPOSED | {"aten::linear"}
# No gradient needs the results of these. Those of layers are of floating point.
_LAYERS: Final = _FOLDED_INTO | {"aten::batch_norm", "aten::addmm"}
_SUMS: Final = frozenset({"aten::add", "aten::sub", "aten::cat"})
_IN_PLACE: Final = {
    f"aten::{name}": f"aten::{name}_"
    for name in ("relu", "relu6", "hardtanh", "hardswish", "silu", "leaky_relu", "elu", "mish")
}
# Tensors of two dimensions come from these, or from what keeps the number of dimensions.
_TWO_DIMENSIONAL: Final = frozenset({"aten::addmm", "aten::mm"})
_KEEPS_DIMENSIONS: Final = frozenset(
    {
        "aten::linear", "aten::batch_norm", "aten::sigmoid", "aten::tanh", "aten::gelu",
        *_IN_PLACE, *_IN_PLACE.values(), *_DROPOUTS,
    }
)  # fmt: skip


class Weights(NamedTuple):
    """Where a layer has its weight and bias, and whether its weight has inputs first."""

    weight: int
    bias: int
    transposed: bool


def weights_of(node: Node) -> Weights | None:
    """Return where a convolution or linear layer has its weights; None for other nodes."""
    if node.kind not in _FOLDED_INTO or node.operator.endswith(".padding"):
        return None
    transposed: Any = node.kind in _TRANSPOSED
    if node.kind == "aten::_convolution":
        transposed = argument(node, "transposed").constant
    return Weights(1, 2, transposed) if isinstance(transposed, bool) else None


def remove_dropout(graph: Block, done: Counter[str]) -> None:
    """Take out dropout that gives what it is given."""

    def visit(block: Block, node: Node) -> None:
        if node.kind in _DROPOUTS and node.inputs[2].constant is False:
            replace(node.output, node.input)
            remove(block, node)
            done["dropout"] += 1

    each_node(graph, visit)


def name_convolutions(graph: Block) -> None:
    """Write convolutions of traces as the operators that take fewer arguments."""

    def visit(block: Block, node: Node) -> None:
        where, weight = weights_of(node), tensor_of(node.inputs[1]) if node.inputs[1:] else None
        if node.kind != "aten::_convolution" or where is None or weight is None:
            return
        rank = weight.dim() - 2
        if where.transposed or rank not in (1, 2, 3):
            return
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        given = [argument(node, name) for name in names]
        made = Inserter(block, node).operator(f"aten::conv{rank}d", given)
        made.name = node.output.name
        replace(node.output, made)
        remove(block, node)

    each_node(graph, visit)
    sweep(graph)


Tensors = dict[Hashable, Any]
"""Weights that were made, so that all graphs of a module have the same ones."""


def fold_normalization(
    graph: Block, done: Counter[str], left: Counter[str], known: Tensors
) -> None:
    """Put batch normalization into the weights of the layer whose result it takes alone."""

    def visit(block: Block, node: Node) -> None:
        if node.kind != "aten::batch_norm" or node.inputs[IS_TRAINING].constant is not False:
            return
        layer = node.input.node
        made = _normalized(layer, node, known) if layer in block.nodes else None
        if made is None:
            left["batch normalization"] += 1
            return
        where, inserter = weights_of(layer), Inserter(block, layer)
        assert where is not None
        for offset, tensor in zip((where.weight, where.bias), made, strict=True):
            set_input(layer, offset, inserter.constant(TableConstant(tensor), TENSOR))
        replace(node.output, layer.output)
        remove(block, node)
        done["batch normalization"] += 1

    each_node(graph, visit)
    sweep(graph)


def _normalized(layer: Node, node: Node, known: Tensors) -> tuple[Tensor, Tensor] | None:
    """Return weight and bias of a layer with the normalization of its result; None if it stays."""
    where = weights_of(layer)
    if where is None or len(uses_of_content(layer.output)) != 1:
        return None
    if layer.kind == "aten::linear" and not _is_two_dimensional(layer.input):
        return None
    values = [layer.inputs[where.weight], layer.inputs[where.bias], *node.inputs[1:5]]
    tensors = [tensor_of(value) for value in values]
    weight, bias, gamma, beta, mean, variance = tensors
    eps, groups = node.inputs[7].constant, _groups(layer)
    if weight is None or mean is None or variance is None or not isinstance(eps, float):
        return None
    if any(t is None and v.constant is not None for t, v in zip(tensors, values, strict=True)):
        return None
    if len({(t.dtype, t.device) for t in tensors if t is not None}) > 1:
        return None
    channels = weight.size(1) * groups if where.transposed else weight.size(0)
    if mean.numel() != channels or not weight.is_floating_point():
        return None
    key = "normalized", eps, groups, where.transposed, *map(memory_of, tensors)
    if key not in known:
        scale, shift = _affine(gamma, beta, mean, variance, eps)
        scaled = _scaled(weight, scale, groups if where.transposed else None)
        moved = shift if bias is None else bias.double() * scale + shift
        known[key] = scaled.to(weight.dtype).contiguous(), moved.to(weight.dtype)
    made: tuple[Tensor, Tensor] = known[key]
    return made


def memory_of(tensor: Tensor | None) -> Hashable:
    """Return what tells tensors apart that nobody changes."""
    if tensor is None:
        return None
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _groups(layer: Node) -> int:
    """Return the groups of a convolution; 0 where they are not known."""
    found = 1 if layer.kind == "aten::linear" else argument(layer, "groups").constant
    return found if isinstance(found, int) else 0


def _scaled(weight: Tensor, scale: Tensor, groups: int | None) -> Tensor:
    """Return a weight times a number for each channel of the result.

    ``groups`` are those of a transposed convolution, whose weight has the inputs first.
    """
    if groups is None:
        return weight.double() * scale.view(-1, *(1 for _ in weight.shape[1:]))
    parts = weight.double().view(groups, -1, *weight.shape[1:])
    by_channel = scale.view(groups, 1, -1, *(1 for _ in weight.shape[2:]))
    return (parts * by_channel).view(weight.shape)


def _affine(
    gamma: Tensor | None, beta: Tensor | None, mean: Any, variance: Any, eps: float
) -> tuple[Tensor, Tensor]:
    """Return what normalization multiplies by, and adds then."""
    scale = (variance.double() + eps).rsqrt()
    scale = scale if gamma is None else scale * gamma.double()
    shift = -mean.double() * scale
    return scale, shift if beta is None else shift + beta.double()


def _is_two_dimensional(value: Value) -> bool:
    """Return whether a tensor is sure to have two dimensions."""
    node = value.node
    if node.kind in _TWO_DIMENSIONAL:
        return True
    if node.kind in ("aten::view", "aten::reshape"):
        sizes = node.inputs[1].node
        return sizes.kind == "prim::ListConstruct" and len(sizes.inputs) == 2
    if node.kind == "aten::flatten":
        # Of one dimension it gives an error, for there is no dimension 1.
        return [each.constant for each in node.inputs[1:]] == [1, -1]
    return node.kind in _KEEPS_DIMENSIONS and _is_two_dimensional(node.input)


def write_in_place(graph: Block, done: Counter[str]) -> None:
    """Let activations write over new tensors that nothing else sees."""
    written = Written(graph)

    def visit(block: Block, node: Node) -> None:
        wanted = _IN_PLACE.get(node.kind)
        if wanted is None or not _is_own(node, block, graph, written):
            return
        schema = operator_schemas(wanted)[0]
        if [a.name for a in schema.arguments] == [
            a.name for a in (node.schema or schema).arguments
        ]:
            node.kind, node.schema = wanted, schema
            done["in place"] += 1

    each_node(graph, visit)


def _is_own(node: Node, block: Block, graph: Block, written: Written) -> bool:
    """Return whether a node is given a new tensor that it alone uses."""
    value, made = node.input, node.input.node
    if made.operator not in NEW_TENSORS or made not in block.nodes:
        return False
    if not (made.kind in _LAYERS or (made.kind in _SUMS and _is_float(made))):
        return False
    return len(uses_of_content(value)) == 1 and OUTSIDE not in written.aliases.places(value)


def _is_float(node: Node) -> bool:
    """Return whether a sum has a term that is a layer's result, and so is its type."""
    terms = node.input.node.inputs if node.kind == "aten::cat" else node.inputs[:2]
    return any(term.node.kind in _LAYERS for term in terms)
