"""Cells of recurrent layers: the operators of torch, and the equations that code writes instead.

A cell is known by its result. The gates are sums of products with the item of a sequence and with
the state before, in any order and however they were cut out of larger ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tsarchive.ir.graph import Value

from .affine import Affine, affine_of, columns, sources, whole
from .graphs import operator_of, tensor_of


class Kind(NamedTuple):
    """A kind of recurrent layer: the operator that runs it, its number of gates and of states.

    For fewer than ``fewest`` items its equations take less time: the operator checks its weights
    in each call, and that of LSTMs, which oneDNN runs, reorders them too.
    """

    name: str
    operator: str
    gates: int
    states: int
    fewest: int


# `fewest` was measured, for widths of 16 to 256 and batches of 1 to 16.
LSTM: Final = Kind("LSTM", "aten::lstm.input", gates=4, states=2, fewest=5)
GRU: Final = Kind("GRU", "aten::gru.input", gates=3, states=1, fewest=3)
TANH: Final = Kind("tanh RNN", "aten::rnn_tanh.input", gates=1, states=1, fewest=6)
RELU: Final = Kind("relu RNN", "aten::rnn_relu.input", gates=1, states=1, fewest=6)
_OF_TORCH: Final = {
    "aten::lstm_cell": LSTM, "aten::gru_cell": GRU, "aten::rnn_tanh_cell": TANH,
    "aten::rnn_relu_cell": RELU,
}  # fmt: skip
_SIGMOID: Final = "aten::sigmoid"
_TANH: Final = "aten::tanh"
_PRODUCT: Final = "aten::mul.Tensor"


class Item(NamedTuple):
    """An item of a sequence; ``total`` is how many items code has cut it into, if it tells."""

    sequence: Value
    dim: int
    place: Value | int
    total: int | None = None


class Cell(NamedTuple):
    """One step of a layer: what it reads, its states before and after, and its weights.

    Of several states, the first is the result. Weights are in the order of torch: for items, for
    the state, and the biases; each in parts, one below the other.
    """

    kind: Kind
    item: Item
    before: tuple[Value, ...]
    after: tuple[Value, ...]
    parts: Sequence[Sequence[Tensor]]

    @property
    def width(self) -> int:
        return self.parts[1][0].size(1)

    @property
    def weights(self) -> list[Tensor]:
        return list(map(_joined_rows, self.parts))

    def has_weights_of(self, other: Cell) -> bool:
        """Return whether two cells compute the same of what they are given."""
        pairs = zip(self._tensors(), other._tensors(), strict=False)
        shapes = [[each.shape for each in cell._tensors()] for cell in (self, other)]
        return shapes[0] == shapes[1] and all(torch.equal(*pair) for pair in pairs)

    def _tensors(self) -> list[Tensor]:
        return [tensor for part in self.parts for tensor in part]

    def is_uniform(self) -> bool:
        return len({(tensor.dtype, tensor.device) for tensor in self._tensors()}) == 1


def _joined_rows(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors one below the other, as the one that they were cut out of if they were."""
    first, rows = parts[0], sum(part.size(0) for part in parts)
    ends = [part.data_ptr() + part.nbytes for part in parts[:-1]]
    is_cut = all(part.is_contiguous() for part in parts)
    is_cut = is_cut and ends == [part.data_ptr() for part in parts[1:]]
    if is_cut and len({part.untyped_storage().data_ptr() for part in parts}) == 1:
        return first.as_strided((rows, *first.shape[1:]), first.stride())
    return torch.cat(list(parts))


class _Gates(NamedTuple):
    """Gates in the order of torch, each as what it is of an item and of the state."""

    of_item: Sequence[Affine]
    of_state: Sequence[Affine]


def cells_of(value: Value) -> list[Cell]:
    """Return the cells that may have a value for their result.

    They are several where the item and the state are alike.
    """
    node = value.node
    read = _own if node.kind in _OF_TORCH else _READERS.get(operator_of(node))
    return [] if read is None else [cell for cell in read(value) if cell.is_uniform()]


def _own(value: Value) -> Iterator[Cell]:
    """Yield the cell that an operator of torch computes."""
    node = value.node
    x, state, *others = node.inputs
    kind, item = _OF_TORCH[node.kind], item_of(x)
    before = [state]
    if kind.states > 1:
        before = list(state.node.inputs) if state.node.kind == "prim::ListConstruct" else []
    weights = [tensor_of(value) for value in others]
    if item is None or len(before) != kind.states or weights[0] is None or weights[1] is None:
        return
    biases = [_bias(*pair, weights[1]) for pair in zip(others[2:], weights[2:], strict=True)]
    parts = [[each] for each in (*weights[:2], *biases) if each is not None]
    if len(parts) == len(others) and value is node.outputs[0]:
        yield Cell(kind, item, tuple(before), tuple(node.outputs), parts)


def _bias(value: Value, tensor: Tensor | None, weight: Tensor) -> Tensor | None:
    if tensor is None and value.node.is_constant:
        return weight.new_zeros(weight.size(0))
    return tensor


def _lstm(value: Value) -> Iterator[Cell]:
    """Match ``sigmoid(show) * tanh(sigmoid(forget) * old + sigmoid(write) * tanh(new))``."""
    for show, shown in _pairs(value, _PRODUCT):
        if [operator_of(each.node) for each in (show, shown)] != [_SIGMOID, _TANH]:
            continue
        cell = shown.node.input
        for first, second in _pairs(cell, "aten::add.Tensor"):
            for (forget, old), (write, new) in _products(first, second):
                kinds = [operator_of(each.node) for each in (forget, write, new)]
                if kinds == [_SIGMOID, _SIGMOID, _TANH]:
                    gates = [gate.node.input for gate in (write, forget, new, show)]
                    yield from _with_gates(LSTM, gates, (old,), (value, cell))


def _products(
    first: Value, second: Value
) -> Iterator[tuple[tuple[Value, Value], tuple[Value, Value]]]:
    """Yield the factors of two products, each in both orders."""
    for one in _pairs(first, _PRODUCT):
        for other in _pairs(second, _PRODUCT):
            yield one, other


def _pairs(value: Value, operator: str) -> Iterator[tuple[Value, Value]]:
    """Yield the operands of a product, or of a sum without a factor, in both orders."""
    node = value.node
    if operator_of(node) == operator and all(extra.constant == 1 for extra in node.inputs[2:]):
        first, second = node.inputs[:2]
        yield first, second
        yield second, first


def _with_gates(
    kind: Kind, gates: Sequence[Value], others: tuple[Value, ...], after: tuple[Value, ...]
) -> Iterator[Cell]:
    """Yield cells whose gates are sums of what an item and the state before give."""
    forms = [affine_of(gate) for gate in gates]
    known = [form for form in forms if form is not None]
    if len(known) == len(forms):
        zeros = [form._replace(bias=torch.zeros_like(form.bias)) for form in known]
        yield from _assembled(kind, _Gates(known, zeros), None, others, after)


def _assembled(
    kind: Kind,
    gates: _Gates,
    state: Value | None,
    others: tuple[Value, ...],
    after: tuple[Value, ...],
) -> Iterator[Cell]:
    """Yield cells of gates; ``state`` is the state before, where it is known."""
    width = gates.of_item[0].rows
    if any(form.rows != width for form in (*gates.of_item, *gates.of_state)):
        return
    for x, hidden in _operands(gates, state):
        item, parts = item_of(x), _parts(gates, x, hidden, width)
        if item is not None and parts is not None:
            yield Cell(kind, item, (hidden, *others), after, parts)


def _operands(gates: _Gates, state: Value | None) -> Iterator[tuple[Value, Value]]:
    """Yield what may be the item, and the state, of the two values that gates are made of."""
    found = [*{part: None for form in (*gates.of_item, *gates.of_state) for part in sources(form)}]
    if len(found) == 2:
        for x, hidden in (found, found[::-1]):
            if state in (None, hidden):
                yield x, hidden


def _parts(gates: _Gates, x: Value, hidden: Value, width: int) -> list[list[Tensor]] | None:
    """Return the weights for items and for states, and the biases."""
    parts = [
        [weight for form in forms if (weight := _column(form, x, hidden, width, place)) is not None]
        for place, forms in enumerate(gates)
    ]
    if [len(part) for part in parts] != [len(forms) for forms in gates]:
        return None
    of_item, of_state = [{weight.size(1) for weight in part} for part in parts]
    if len(of_item) > 1 or of_state != {width}:
        return None
    return parts + [[form.bias for form in forms] for forms in gates]


def _column(form: Affine, x: Value, hidden: Value, width: int, which: int) -> Tensor | None:
    """Return the weight for the item or the state, where a form has it."""
    if {*form.weights} == {(x, hidden)[which]}:
        return form.weights[(x, hidden)[which]]
    found = columns(form, (x, hidden), width)
    return None if found is None else found[which]


def _gru(value: Value) -> Iterator[Cell]:
    """Match ``new + update * (hidden - new)``, and ``(1 - update) * new + update * hidden``."""
    for update, hidden, new in _mixed(value):
        if operator_of(new.node) == _TANH:
            for summands in _with_reset(new.node.input):
                yield from _gru_of(value, update, hidden, *summands)


def _gru_of(
    value: Value, update: Affine, hidden: Value, of_item: Affine, reset: Affine, of_state: Affine
) -> Iterator[Cell]:
    if {*of_state.weights} == {hidden} and hidden not in sources(of_item):
        zeros = [gate._replace(bias=torch.zeros_like(gate.bias)) for gate in (reset, update)]
        gates = _Gates([reset, update, of_item], [*zeros, of_state])
        yield from _assembled(GRU, gates, hidden, (), (value,))


def _mixed(value: Value) -> Iterator[tuple[Affine, Value, Value]]:
    """Yield gate, state, and new value of a weighted mean of the two.

    The gate is that of the state: where code has that of the new value, it is one less it.
    """
    for first, second in _pairs(value, "aten::add.Tensor"):
        for (gate, one), (rest, other) in _products(first, second):
            form = _gate(gate)
            if form is not None and _is_rest(rest, gate):
                yield form, one, other
                yield form.negated(), other, one
        for gate, difference in _pairs(second, _PRODUCT):
            form = _gate(gate)
            for far, near in _difference(difference):
                if form is not None and near is first:
                    yield form, far, near
                    yield form.negated(), near, far


def _gate(value: Value) -> Affine | None:
    return affine_of(value.node.input) if operator_of(value.node) == _SIGMOID else None


def _is_rest(value: Value, gate: Value) -> bool:
    """Return whether a value is ``1 - gate``."""
    node, factors = value.node, [each.constant for each in value.node.inputs[1:]]
    if operator_of(node) == "aten::rsub.Scalar":
        return node.input is gate and factors == [1, 1]
    negative = node.input.node if operator_of(node) == "aten::add.Scalar" else node
    is_negated = operator_of(negative) == "aten::neg" and negative.input is gate
    return is_negated and factors == [1, 1]


def _difference(value: Value) -> Iterator[tuple[Value, Value]]:
    node = value.node
    if operator_of(node) == "aten::sub.Tensor" and node.inputs[2].constant == 1:
        yield node.inputs[0], node.inputs[1]


def _with_reset(total: Value) -> Iterator[tuple[Affine, Affine, Affine]]:
    """Yield ``of_item``, ``reset`` and ``of_state`` of ``of_item + reset * of_state``."""
    summands = list(_summands(total))
    for place, product in enumerate(summands):
        others = [affine_of(each) for each in summands[:place] + summands[place + 1 :]]
        of_item = _total(others)
        for reset, of_state in _pairs(product, _PRODUCT):
            found = of_item, _gate(reset), affine_of(of_state)
            match found:
                case Affine(), Affine(), Affine():
                    yield found


def _summands(value: Value) -> Iterator[Value]:
    """Yield what a sum has that is more than products with weights."""
    pair = next(_pairs(value, "aten::add.Tensor"), None)
    if pair is None or affine_of(value) is not None:
        yield value
    else:
        for each in pair:
            yield from _summands(each)


def _total(forms: Sequence[Affine | None]) -> Affine | None:
    total = forms[0] if forms else None
    for form in forms[1:]:
        total = None if total is None or form is None else total.plus(form)
    return total


def _tanh(value: Value) -> Iterator[Cell]:
    return _with_gates(TANH, [value.node.input], (), (value,))


def _relu(value: Value) -> Iterator[Cell]:
    return _with_gates(RELU, [value.node.input], (), (value,))


def item_of(value: Value) -> Item | None:
    """Return of which sequence a value is an item."""
    value = whole(value)
    node = value.node
    if node.operator == "aten::select.int":
        sequence, dim, place = whole(node.inputs[0]), node.inputs[1].constant, node.inputs[2]
        return Item(sequence, dim, _number(place)) if dim in (0, 1) else None
    if node.operator == "aten::__getitem__.t":
        cut = item_of_list(node.input)
        return None if cut is None else cut._replace(place=_number(node.inputs[1]))
    if node.kind == "prim::ListUnpack":
        cut, index = item_of_list(node.input), node.outputs.index(value)
        return None if cut is None else cut._replace(place=index, total=len(node.outputs))
    return None


def item_of_list(items: Value) -> Item | None:
    """Return the first of the items that a sequence is cut into."""
    node = items.node
    if node.operator != "aten::unbind.int" or node.inputs[1].constant not in (0, 1):
        return None
    return Item(whole(node.inputs[0]), node.inputs[1].constant, 0)


def _number(value: Value) -> Value | int:
    """Return a place as a number; as a value where it is not known, or counted from the end."""
    place = value.constant
    return place if type(place) is int and place >= 0 else value


_READERS: Final[Mapping[str, Callable[[Value], Iterator[Cell]]]] = {
    _PRODUCT: _lstm,
    "aten::add.Tensor": _gru,
    _TANH: _tanh,
    "aten::relu": _relu,
}
