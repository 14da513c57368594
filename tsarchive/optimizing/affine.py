"""What values are as sums of products with constant weights, however code has written them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tsarchive.ir.graph import Node, Value
from tsarchive.operators.effects import CUTTING

from .graphs import operator_of, tensor_of

END: Final = (1 << 63) - 1


class Affine(NamedTuple):
    """A tensor of two dimensions: the sum of values times weights, and of a bias.

    Weights have a row for each column of the result, as those of ``aten::linear``.
    """

    weights: Mapping[Value, Tensor]
    bias: Tensor

    @property
    def rows(self) -> int:
        return self.bias.size(0)

    def part(self, first: int, end: int) -> Affine:
        """Return some columns of the result."""
        return Affine({v: w[first:end] for v, w in self.weights.items()}, self.bias[first:end])

    def negated(self) -> Affine:
        return Affine({value: -weight for value, weight in self.weights.items()}, -self.bias)

    def plus(self, other: Affine) -> Affine | None:
        if self.bias.shape != other.bias.shape or self.bias.dtype != other.bias.dtype:
            return None
        weights = {**self.weights, **other.weights}
        for value in self.weights.keys() & other.weights.keys():
            weights[value] = self.weights[value] + other.weights[value]
        return Affine(weights, self.bias + other.bias)


_Read = Callable[[Node, int], "Affine | None"]


def affine_of(value: Value) -> Affine | None:
    """Return what a value is if all it is given has two dimensions; None for others."""
    read = _READERS.get(operator_of(value.node))
    return None if read is None else read(value.node, value.node.outputs.index(value))


def _linear(node: Node, _: int) -> Affine | None:
    return _product(node.inputs[0], tensor_of(node.inputs[1]), node.inputs[2])


def _multiplied(node: Node, _: int) -> Affine | None:
    return _product(node.inputs[0], _transposed(node.inputs[1]), None)


def _added_to_bias(node: Node, _: int) -> Affine | None:
    bias, x, weight, *factors = node.inputs
    if any(factor.constant != 1 for factor in factors):
        return None
    return _product(x, _transposed(weight), bias)


def _transposed(value: Value) -> Tensor | None:
    weight = tensor_of(value)
    return weight.t() if weight is not None and weight.dim() == 2 else None


def _product(x: Value, weight: Tensor | None, bias: Value | None) -> Affine | None:
    if weight is None or weight.dim() != 2 or not weight.is_floating_point():
        return None
    if bias is None or bias.constant is None:
        return Affine({whole(x): weight}, weight.new_zeros(weight.size(0)))
    shift = _shift(bias, weight.size(0), weight.dtype)
    return None if shift is None else Affine({whole(x): weight}, shift)


def _shift(value: Value, rows: int, dtype: torch.dtype) -> Tensor | None:
    """Return a constant that is added to all rows of a batch."""
    tensor = tensor_of(value)
    if tensor is None or tensor.is_complex() or tuple(tensor.shape) not in ((), (rows,), (1, rows)):
        return None
    # A number without dimensions does not decide the type of the result.
    return tensor.reshape(-1) if tensor.dim() else tensor.to(dtype).expand(rows)


def _sum(node: Node, _: int) -> Affine | None:
    first, second, alpha = node.inputs
    if alpha.constant != 1:
        return None
    forms = affine_of(first), affine_of(second)
    match forms:
        case Affine() as one, Affine() as other:
            return one.plus(other)
        case (Affine() as one, None) | (None, Affine() as one):
            shift = _shift(second if forms[1] is None else first, one.rows, one.bias.dtype)
            return None if shift is None else one.plus(Affine({}, shift))
    return None


def _sum_with_number(node: Node, _: int) -> Affine | None:
    form, (number, alpha) = affine_of(node.input), (v.constant for v in node.inputs[1:])
    if form is None or not isinstance(number, int | float) or alpha != 1:
        return None
    return form._replace(bias=form.bias + number)


def _slice(node: Node, _: int) -> Affine | None:
    if whole(node.output) is not node.output:
        return affine_of(node.input)
    form, (dim, first, end, step) = affine_of(node.input), (v.constant for v in node.inputs[1:])
    if form is None or dim not in _COLUMNS or step != 1:
        return None
    bounds = [0 if first is None else first, form.rows if end is None else end]
    if not all(type(bound) is int for bound in bounds):
        return None
    return form.part(*(slice(*bounds).indices(form.rows)[:2]))


def _item(node: Node, place: int) -> Affine | None:
    return _part_of(node.input.node, place, len(node.outputs))


def _item_of_list(node: Node, _: int) -> Affine | None:
    place = node.inputs[1].constant
    return _part_of(node.input.node, place, None) if type(place) is int else None


def _part_of(node: Node, place: int, count: int | None) -> Affine | None:
    """Return one of the parts that columns were cut into; ``count`` is how many code expects."""
    if operator_of(node) not in CUTTING:
        return None
    form, (wanted, dim) = affine_of(node.input), node.inputs[1:]
    if form is None or dim.constant not in _COLUMNS:
        return None
    bounds = _bounds(node.kind, wanted, form.rows)
    if not -len(bounds) <= place < len(bounds) or count not in (None, len(bounds)):
        return None
    return form.part(*bounds[place])


def _bounds(kind: str, wanted: Value, rows: int) -> list[tuple[int, int]]:
    """Return where parts begin and end; none where code does not tell."""
    number: Any = wanted.constant
    if wanted.node.kind == "prim::ListConstruct":
        sizes = [value.constant for value in wanted.node.inputs]
        if not all(type(size) is int for size in sizes) or sum(sizes) != rows:
            return []
        return [(sum(sizes[:place]), sum(sizes[: place + 1])) for place in range(len(sizes))]
    if type(number) is not int or number <= 0:
        return []
    size = -(-rows // number) if kind.endswith("chunk") else number
    return [(first, min(first + size, rows)) for first in range(0, rows, size)]


def whole(value: Value) -> Value:
    """Return the tensor of which a value is a slice with all that is in it."""
    node = value.node
    if node.operator != "aten::slice.Tensor":
        return value
    first, end, step = [each.constant for each in node.inputs[2:]]
    is_whole = first in (None, 0) and end in (None, END) and step == 1
    return whole(node.inputs[0]) if is_whole else value


def columns(form: Affine, values: Sequence[Value], last: int) -> list[Tensor] | None:
    """Return the weight of each of two values, also where they are joined; None without one.

    ``last`` is how many columns the second value has.
    """
    found: list[Tensor | None] = [None, None]
    for value, weight in form.weights.items():
        parts = _joined(value)
        if value in values:
            pairs = [(value, weight)]
        elif len(parts) == len(values) and {*parts} == {*values}:
            width = weight.size(1) - last if parts[0] is values[0] else last
            pairs = list(zip(parts, (weight[:, :width], weight[:, width:]), strict=True))
        else:
            return None
        for each, part in pairs:
            before = found[values.index(each)]
            found[values.index(each)] = part if before is None else before + part
    known = [weight for weight in found if weight is not None]
    return known if len(known) == len(found) else None


def sources(form: Affine) -> set[Value]:
    """Return the values that are multiplied, also those that are joined first."""
    return {part for value in form.weights for part in _joined(value)}


def _joined(value: Value) -> list[Value]:
    """Return the values whose columns stand side by side in a tensor."""
    node = value.node
    if node.operator != "aten::cat" or node.inputs[1].constant not in _COLUMNS:
        return [value]
    listed = node.input.node
    return [*map(whole, listed.inputs)] if listed.kind == "prim::ListConstruct" else [value]


_COLUMNS: Final = (1, -1)
_READERS: Final[Mapping[str, _Read]] = {
    "aten::linear": _linear,
    "aten::matmul": _multiplied,
    "aten::mm": _multiplied,
    "aten::addmm": _added_to_bias,
    "aten::add.Tensor": _sum,
    "aten::add.Scalar": _sum_with_number,
    "aten::slice.Tensor": _slice,
    "aten::__getitem__.t": _item_of_list,
    "prim::ListUnpack": _item,
}
