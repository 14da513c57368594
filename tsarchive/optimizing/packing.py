"""Convolutions and linear layers through oneDNN: weights packed once, activations in the kernel.

oneDNN is not always the quicker way: small layers are done before it has begun. So both ways are
measured on what the example gives each layer, and its results compared. Without an example, only
convolutions are packed whose weights torch would pack in each call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tsarchive.ir.graph import Block, Node, Value, walk
from tsarchive.ir.rewriting import blocks_in, remove, replace
from tsarchive.ir.types import NUMBER, STRING, OptionalType
from tsarchive.operators.effects import NEW_TENSORS, may_write
from tsarchive.run.costs import PlainMode
from tsarchive.run.natives.onednn import (
    CONVOLUTION,
    CONVOLUTION_INTO,
    LINEAR,
    PACK_CONVOLUTION,
    PACK_LINEAR,
    apply_linear,
    convolve,
    convolve_into,
    pack_convolution,
    pack_linear,
)
from tsarchive.run.operators import operator_schemas

from .freezing import Written, value_of
from .graphs import (
    Inserter,
    SizesOf,
    argument,
    is_in_place,
    operator_of,
    tensor_of,
    unknown_sizes,
    uses_of_content,
)
from .layers import CONVOLUTIONS, weights_of
from .measuring import compared, times_of

_OPERATORS: Final = (CONVOLUTION, CONVOLUTION_INTO, LINEAR, PACK_CONVOLUTION, PACK_LINEAR)
_SPACE: Final = 2
_MARGIN: Final = 0.95


class Activation(NamedTuple):
    """An activation as oneDNN names it."""

    name: str = "none"
    scalars: tuple[float, ...] = ()
    algorithm: str = ""


_PLAIN: Final = Activation()
_SIMPLE: Final = {
    "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "hardswish": "hardswish",
    "silu": "swish",
}  # fmt: skip


def activation_of(node: Node) -> Activation | None:
    """Return the activation that a node is; None for others."""
    name = node.kind.removeprefix("aten::").removesuffix("_")
    constants = [value.constant for value in node.inputs[1:]]
    match name, constants:
        case _, [] if name in _SIMPLE:
            return Activation(_SIMPLE[name])
        case "relu6", []:
            return Activation("hardtanh", (0.0, 6.0))
        case "hardtanh", [int() | float() as low, int() | float() as high]:
            return Activation("hardtanh", (float(low), float(high)))
        case "leaky_relu", [int() | float() as slope]:
            return Activation("leaky_relu", (float(slope),))
        case "gelu", ["none" | "tanh" as algorithm]:
            return Activation("gelu", (), algorithm)
    return None


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of the graph with constant weights, and the activation of its result."""

    node: Node
    activation: Node | None
    weight: Tensor
    bias: Tensor | None

    @property
    def is_linear(self) -> bool:
        return self.node.kind == "aten::linear"

    @property
    def function(self) -> Activation:
        found = None if self.activation is None else activation_of(self.activation)
        return _PLAIN if found is None else found

    @property
    def numbers(self) -> tuple[list[int], list[int], list[int], int]:
        """Padding, stride, dilation and groups of a convolution."""
        listed = (value_of(argument(self.node, n)) for n in ("padding", "stride", "dilation"))
        padding, stride, dilation = (each * _SPACE if len(each) == 1 else each for each in listed)
        return padding, stride, dilation, value_of(argument(self.node, "groups"))

    def packed(self, sample: Sequence[int] | None) -> Tensor:
        """Return the packed weight, for an input of these sizes if they are known."""
        if self.is_linear:
            return pack_linear(self.weight, _rows(sample))
        size = None if sample is None else list(sample)
        return pack_convolution(self.weight, *self.numbers, size)

    def as_it_is(self, x: Tensor) -> Tensor:
        call: Callable[..., Tensor]
        if self.is_linear:
            made = torch._C._nn.linear(x, self.weight, self.bias)
        else:
            padding, stride, dilation, groups = self.numbers
            made = torch.conv2d(x, self.weight, self.bias, stride, padding, dilation, groups)
        if self.activation is None:
            return made
        name = self.activation.kind.removeprefix("aten::")
        call = getattr(torch, name, None) or getattr(torch._C._nn, name)
        return call(made, **_options(self.activation))

    def through_onednn(self, x: Tensor, weight: Tensor) -> Tensor:
        name, scalars, algorithm = self.function
        if self.is_linear:
            return apply_linear(x, weight, self.bias, name, list(scalars), algorithm)
        return convolve(x, weight, self.bias, *self.numbers, name, list(scalars), algorithm)


@dataclass(frozen=True, eq=False)
class Packed:
    """A weight of the archive, and how it is packed: ``size`` is that of the input, if known."""

    weight: Tensor
    numbers: tuple[list[int], list[int], list[int], int] | None
    size: tuple[int, ...] | None
    use: Value

    def is_like(self, other: Packed) -> bool:
        """Return whether both are one weight in one order."""
        is_one = self.weight.data_ptr() == other.weight.data_ptr()
        is_one = is_one and self.weight.shape == other.weight.shape
        return is_one and (self.numbers, self.size) == (other.numbers, other.size)


def is_available() -> bool:
    """Return whether this torch has the operators of oneDNN, and a processor that they know."""
    is_built: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return is_built and all(map(_is_registered, _OPERATORS))


def _is_registered(name: str) -> bool:
    schemas = operator_schemas(name.partition(".")[0])
    return any(schema.full_name == name for schema in schemas)


def layers_of(graph: Block) -> Iterator[tuple[Block, Layer]]:
    """Yield the layers that oneDNN may compute, each with its block."""
    for block in blocks_in(graph):
        for node in block.nodes:
            layer = _layer(node, block)
            if layer is not None:
                yield block, layer


def _layer(node: Node, block: Block) -> Layer | None:
    where = weights_of(node)
    if where is None or where.transposed or node.kind not in CONVOLUTIONS | {"aten::linear"}:
        return None
    weight, bias = (tensor_of(node.inputs[offset]) for offset in (where.weight, where.bias))
    if weight is None or (bias is None and node.inputs[where.bias].constant is not None):
        return None
    if not _is_plain(weight) or not (bias is None or _is_plain(bias)):
        return None
    found = Layer(node, _activation(node, block), weight, bias)
    if not found.is_linear and (weight.dim() != _SPACE + 2 or not _has_numbers(node)):
        return None
    return found


def _is_plain(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu" and tensor.numel() > 0


def _has_numbers(node: Node) -> bool:
    values = [argument(node, name) for name in ("padding", "stride", "dilation")]
    lists = [
        value_of(value) if value.node.kind == "prim::ListConstruct" else None for value in values
    ]
    is_plain = all(each is not None and all(type(n) is int for n in each) for each in lists)
    return is_plain and type(argument(node, "groups").constant) is int


def _activation(node: Node, block: Block) -> Node | None:
    """Return the activation that takes the result of a layer alone."""
    users = [use.user for use in uses_of_content(node.output)]
    if len(users) != 1 or users[0] not in block.nodes or activation_of(users[0]) is None:
        return None
    return users[0]


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of what a convolution gives and a tensor that nobody else needs, of one size."""

    layer: Layer
    node: Node
    activation: Node | None

    @property
    def other(self) -> Value:
        """The other term, in whose place there may be the result of another sum by now."""
        return _other_term(self.node, self.layer)

    def of(self, made: Tensor, other: Tensor) -> Tensor:
        total = made.add_(other)
        return total if self.activation is None else total.relu_()

    def through_onednn(self, x: Tensor, other: Tensor, weight: Tensor) -> Tensor:
        name = None if self.activation is None else "relu"
        return convolve_into(
            other, x, weight, self.layer.bias, *self.layer.numbers, "add", None, name, [], None
        )


def has_sums(graph: Block) -> bool:
    """Return whether the result of a convolution is added to something, and to nothing else."""
    return is_available() and any(map(_added_to, _convolutions(graph)))


def _convolutions(graph: Block) -> Iterator[tuple[Block, Layer]]:
    return (found for found in layers_of(graph) if not found[1].is_linear)


def _added_to(found: tuple[Block, Layer]) -> tuple[Node, Value] | None:
    """Return the sum that takes the result of a convolution, and its other term."""
    block, layer = found
    users = [use.user for use in layer.node.output.uses]
    if layer.activation is not None or len(users) != 1 or users[0] not in block.nodes:
        return None
    (node,) = users
    if operator_of(node) != "aten::add.Tensor" or node.inputs[2].constant != 1:
        return None
    other = _other_term(node, layer)
    return None if other is layer.node.output else (node, other)


def _other_term(total: Node, layer: Layer) -> Value:
    first, second = total.inputs[:2]
    return second if first is layer.node.output else first


def _sums(graph: Block, sizes_of: SizesOf) -> dict[Node, Sum]:
    """Return, by convolutions, the sums that they may write over the other term."""
    found = [(block, layer, _added_to((block, layer))) for block, layer in _convolutions(graph)]
    if not any(total for *_, total in found):
        return {}
    writers = [node for node in walk(graph.nodes) if may_write(node) and not is_in_place(node)]
    written = Written(graph, writers)
    sums = {}
    for block, layer, total in found:
        if total is None or not _is_free(block, layer, *total, sizes_of):
            continue
        node, other = total
        if not any(map(written.may_be, (other, layer.node.output, node.output))):
            sums[layer.node] = Sum(layer, node, _rectified(node, block))
    return sums


def _rectified(node: Node, block: Block) -> Node | None:
    found = _activation(node, block)
    return found if found is not None and activation_of(found) == Activation("relu") else None


def _is_free(block: Block, layer: Layer, node: Node, other: Value, sizes_of: SizesOf) -> bool:
    """Return whether a convolution may write over a new tensor, which nobody reads but the sum."""
    size = sizes_of(layer.node.output)
    if size is None or size != sizes_of(other) or layer.node.input is other:
        return False
    places = {each: place for place, each in enumerate(block.nodes)}
    own, others = places[layer.node], [use.user for use in other.uses if use.user is not node]
    is_before = all(places.get(user, own) < own for user in (other.node, *others))
    is_read = all(operator_of(user) in NEW_TENSORS for user in (other.node, *others))
    return is_before and is_read and len(others) == len(other.uses) - 1


class Samples(PlainMode):  # type: ignore[no-untyped-call]
    """Keeps what layers are given while an example runs, by the memory of their weights."""

    def __init__(self, weights: Iterator[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inputs: dict[int, Tensor] = {}
        self._wanted = {weight.data_ptr() for weight in weights}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in _LAYER_OPERATORS:
            offset = _LAYER_OPERATORS[func]
            x, weight = args[offset : offset + 2]
            if weight.data_ptr() in self._wanted:
                self.inputs.setdefault(weight.data_ptr(), x.detach().clone())
        return func(*args, **(kwargs or {}))


_LAYER_OPERATORS: Final = {
    torch.ops.aten.convolution.default: 0,
    torch.ops.aten._convolution.default: 0,
    torch.ops.aten.linear.default: 0,
    torch.ops.aten.addmm.default: 1,
    torch.ops.aten.mm.default: 0,
}


def pack(
    graph: Block,
    samples: Mapping[int, Tensor] | None,
    done: Counter[str],
    left: Counter[str],
    *,
    takes_images: bool,
    sizes_of: SizesOf = unknown_sizes,
) -> list[Packed]:
    """Let oneDNN compute the layers that are quicker so; return their weights.

    ``samples`` are inputs by the memory of weights; layers without one are chosen by a rule.
    ``takes_images`` tells whether results may be images in another order, ``sizes_of`` the sizes
    of tensors of 32-bit floating point on the CPU.
    """
    found: list[Packed] = []
    sums = _sums(graph, sizes_of) if takes_images and samples else {}
    for block, layer in list(layers_of(graph)):
        if not (layer.is_linear or takes_images):
            left["convolution, as code sees the order of its result"] += 1
            continue
        sample = None if samples is None else samples.get(layer.weight.data_ptr())
        total, kind = sums.get(layer.node), "linear layer" if layer.is_linear else "convolution"
        if total is not None and sample is not None and _sum_pays(total, sample):
            found.append(_put_sum(block, total, tuple(sample.shape)))
            done["sum in its layer"] += 1
            has_activation = total.activation is not None
        elif _pays(layer, sample):
            found.append(_put(block, layer, None if sample is None else tuple(sample.shape)))
            has_activation = layer.activation is not None
        else:
            left[f"{kind}, {_reason(samples, sample)}"] += 1
            continue
        done[f"{kind} packed"] += 1
        done["activation in its layer"] += has_activation
    return found


def _pays(layer: Layer, sample: Tensor | None) -> bool:
    """Return whether oneDNN is quicker: measured for a sample, and by a rule without one."""
    return _by_rule(layer) if sample is None else _by_sample(layer, sample)


def _reason(samples: Mapping[int, Tensor] | None, sample: Tensor | None) -> str:
    """Return why a layer is left."""
    if sample is not None:
        return "as quick without oneDNN"
    return "as no example was measured" if samples is None else "not reached by the example"


def _by_rule(layer: Layer) -> bool:
    """Return whether torch itself packs the weight in each call."""
    if layer.is_linear:
        return False
    *_, groups = layer.numbers
    return groups == 1 and max(layer.weight.shape[2:]) > 1


def _by_sample(layer: Layer, sample: Tensor) -> bool:
    """Return whether oneDNN gives the same sooner."""
    rank = 2 if layer.is_linear else _SPACE + 2
    if sample.dim() != rank or not sample.numel():
        return False
    with torch.no_grad():
        weight = layer.packed(sample.shape)
        expected, given = layer.as_it_is(sample), layer.through_onednn(sample, weight)
        if not compared(expected, given).agree:
            return False
        before, after = times_of(
            lambda: layer.as_it_is(sample), lambda: layer.through_onednn(sample, weight)
        )
    return after < before * _MARGIN


def _sum_pays(total: Sum, sample: Tensor) -> bool:
    """Return whether one operator gives the same sooner than the layer and the sum."""
    layer = total.layer
    if sample.dim() != _SPACE + 2 or not sample.numel():
        return False
    with torch.no_grad():
        weight = layer.packed(sample.shape)
        made = layer.through_onednn(sample, weight)
        other = torch.rand_like(made)
        expected = total.of(layer.as_it_is(sample), other)
        given = total.through_onednn(sample, other.clone(), weight)
        if not compared(expected, given).agree:
            return False
        *before, after = times_of(
            lambda: total.of(layer.as_it_is(sample), other),
            lambda: total.of(layer.through_onednn(sample, weight), other),
            lambda: total.through_onednn(sample, other, weight),
        )
    return after < min(before) * _MARGIN


def _put_sum(block: Block, total: Sum, size: tuple[int, ...]) -> Packed:
    """Put the call of oneDNN in the place of a convolution and a sum."""
    layer, other, inserter = total.layer, total.other, Inserter(block, total.layer.node)
    weight, inputs = _operands(layer, inserter)
    packed = Packed(layer.weight, layer.numbers, size, weight)
    attribute = None if total.activation is None else "relu"
    inputs = [other, *inputs, inserter.constant("add"), inserter.constant(None)]
    inputs += [
        inserter.constant(attribute),
        inserter.list_of([], OptionalType(NUMBER)),
        inserter.constant(None),
    ]
    made = inserter.operator(CONVOLUTION_INTO, inputs)
    nodes = [node for node in (total.activation, total.node, layer.node) if node is not None]
    made.name = nodes[0].output.name
    for node in nodes:
        replace(node.output, made)
        remove(block, node)
    return packed


def _operands(layer: Layer, inserter: Inserter) -> tuple[Value, list[Value]]:
    """Return the place of a packed weight, and what a layer of oneDNN is given."""
    where = weights_of(layer.node)
    assert where is not None
    weight = inserter.node("prim::Packed", [], layer.node.inputs[where.weight].type)
    inputs = [layer.node.input, weight, layer.node.inputs[where.bias]]
    if not layer.is_linear:
        *lists, groups = layer.numbers
        inputs += [*map(inserter.list_of, lists), inserter.constant(groups)]
    return weight, inputs


def _put(block: Block, layer: Layer, size: tuple[int, ...] | None) -> Packed:
    """Put the call of oneDNN in the place of a layer. Its weight is set by who writes the graph."""
    last = layer.activation or layer.node
    inserter = Inserter(block, layer.node)
    weight, inputs = _operands(layer, inserter)
    packed = Packed(layer.weight, None if layer.is_linear else layer.numbers, size, weight)
    name, scalars, algorithm = layer.function
    inputs += [
        inserter.constant(name),
        inserter.list_of(scalars, OptionalType(NUMBER)),
        inserter.constant(algorithm, STRING),
    ]
    made = inserter.operator(LINEAR if layer.is_linear else CONVOLUTION, inputs)
    made.name = last.output.name
    replace(last.output, made)
    if layer.activation is not None:
        remove(block, layer.activation)
        replace(layer.node.output, made)  # what asks for the shape
    remove(block, layer.node)
    return packed


def _rows(size: Sequence[int] | None) -> int | None:
    return None if size is None else int(torch.Size(size[:-1]).numel())


def _options(node: Node) -> dict[str, Any]:
    """Return the arguments of an activation by name, but the first."""
    assert node.schema is not None
    names = [argument.name for argument in node.schema.arguments]
    return {name: value.constant for name, value in zip(names[1:], node.inputs[1:], strict=True)}
