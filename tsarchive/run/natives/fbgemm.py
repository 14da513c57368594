"""Layers of ``torch.jit.quantized``, of torch 1.0 to 1.5.

torch packs their weights into an object of C++ and keeps its address in the bytes of a tensor,
where code can write. Here the packed tensor holds the bytes of the weight, which is packed when the
layer runs; nothing trusts them. An int8 layer is given its weight beside the packed one, and needs
no other. What torch no longer runs on such tensors, LSTM and GRU, is written out as it ran there:
the inputs of all steps are multiplied, and quantized, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from tsarchive.run.natives.table import fault, native

_aten = torch.ops.aten
_MATRIX: Final = 2


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise fault(RuntimeError, f"{what} for a layer of torch.jit.quantized")


def _matrix(weight: Tensor, dtype: torch.dtype, name: str = "a weight") -> Tensor:
    fits = weight.dim() == _MATRIX and weight.numel() > 0 and weight.dtype == dtype
    fits = fits and weight.layout is torch.strided and weight.device.type == "cpu"
    _require(fits, f"{name} of {weight.dtype} and sizes {list(weight.size())}")
    return weight.detach().contiguous()


@native("aten::fbgemm_linear_quantize_weight")
def quantize_weight(weight: Tensor) -> tuple[Tensor, Tensor, float, int]:
    """The weight in 8 bits, the sums of its rows, the scale and the zero point."""
    found = _aten.fbgemm_linear_quantize_weight.default(_matrix(weight, torch.float32))
    return found[0], found[1], float(found[2]), int(found[3])


@native("aten::fbgemm_pack_quantized_matrix", "aten::fbgemm_pack_quantized_matrix.KN")
def pack_int8(weight: Tensor, *_: int) -> Tensor:
    """The bytes of a weight of 8 bits."""
    return _matrix(weight, torch.int8).view(torch.uint8).clone()


@native("aten::fbgemm_pack_gemm_matrix_fp16")
def pack_half(weight: Tensor) -> Tensor:
    """The bytes of a weight, which is rounded when it is packed."""
    return _matrix(weight, torch.float32).view(torch.uint8).clone()


def _int8_inputs(
    weight: Tensor, offsets: Tensor, scale: Any, zero_point: Any, bias: Tensor
) -> tuple[Any, ...]:
    """What stands behind the input of a layer, with the weight packed."""
    weight = _matrix(weight, torch.int8)
    fits = offsets.dtype == torch.int32 and offsets.numel() == weight.size(0)
    _require(fits, f"{offsets.numel()} sums of {weight.size(0)} rows")
    fits = bias.dtype == torch.float32 and list(bias.size()) == [weight.size(0)]
    _require(fits, f"a bias of sizes {list(bias.size())} and {weight.size(0)} rows")
    packed = _aten.fbgemm_pack_quantized_matrix.default(weight)
    return weight, packed, offsets.contiguous(), scale, zero_point, bias.detach().contiguous()


@native("aten::fbgemm_linear_int8_weight", "aten::fbgemm_linear_int8_weight_fp32_activation")
def linear_int8(
    input: Tensor, weight: Tensor, packed: Tensor, offsets: Tensor, *numbers: Any
) -> Tensor:
    """Inputs are quantized as they come; the packed weight is made from the other."""
    del packed
    _require_input(input, weight.size(-1) if weight.dim() else 0)
    given = _int8_inputs(weight, offsets, *numbers)
    found: Tensor = _aten.fbgemm_linear_int8_weight_fp32_activation.default(input, *given)
    return found


@native("aten::fbgemm_linear_fp16_weight", "aten::fbgemm_linear_fp16_weight_fp32_activation")
def linear_half(input: Tensor, packed: Tensor, bias: Tensor) -> Tensor:
    """The weight is rounded to half precision, the sums are not."""
    fits = packed.dtype == torch.uint8 and packed.dim() == _MATRIX and packed.numel() > 0
    if not fits:
        raise fault(
            RuntimeError,
            "the weight is not packed: call _unpack of each module that has it first, as "
            "torch.jit.quantized asks of archives that were saved after _pack",
        )
    _require(packed.size(1) % 4 == 0, f"a packed weight of sizes {list(packed.size())}")
    weight = packed.contiguous().view(torch.float32)
    _require_input(input, weight.size(1))
    fits = bias.dtype == torch.float32 and list(bias.size()) == [weight.size(0)]
    _require(fits, f"a bias of sizes {list(bias.size())} and {weight.size(0)} rows")
    half = _aten.fbgemm_pack_gemm_matrix_fp16.default(weight)
    found: Tensor = _aten.fbgemm_linear_fp16_weight_fp32_activation.default(input, half, bias)
    return found


def _require_input(input: Tensor, columns: int) -> None:
    fits = input.dim() >= _MATRIX and input.dtype == torch.float32 and input.numel() > 0
    fits = fits and input.layout is torch.strided and input.device.type == "cpu"
    _require(
        fits and input.size(-1) == columns,
        f"an input of {input.dtype} and sizes {list(input.size())}, and {columns} columns,",
    )


_CELL_PARAMETERS: Final = 12
_HALF_PARAMETERS: Final = 4
Linear: TypeAlias = Callable[[Tensor], Tensor]


class _Cell(NamedTuple):
    """The layers of a recurrent cell: of the input, and of the hidden state."""

    input: Linear
    hidden: Linear


def _int8_cell(
    w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, _packed_ih: Tensor, _packed_hh: Tensor,
    offsets_ih: Tensor, offsets_hh: Tensor, scale_ih: Any, scale_hh: Any, zero_ih: Any,
    zero_hh: Any,
) -> _Cell:  # fmt: skip
    def linear(weight: Tensor, *numbers: Any) -> Linear:
        numbers = tuple(map(_number, numbers))
        return lambda x: linear_int8(x, weight, weight, *numbers)

    return _Cell(
        linear(w_ih, offsets_ih, scale_ih, zero_ih, b_ih),
        linear(w_hh, offsets_hh, scale_hh, zero_hh, b_hh),
    )


def _number(given: Any) -> Any:
    """A scale or zero point, which lists of parameters hold as tensors of one element."""
    return given.item() if isinstance(given, Tensor) and given.dim() == 0 else given


def _half_cell(packed_ih: Tensor, packed_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> _Cell:
    return _Cell(
        lambda x: linear_half(x, packed_ih, b_ih), lambda x: linear_half(x, packed_hh, b_hh)
    )


def _lstm_step(cell: _Cell, given: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    hidden, memory = state
    gates = cell.hidden(hidden).add_(given).chunk(4, 1)
    ingate, forget, outgate = gates[0].sigmoid(), gates[1].sigmoid(), gates[3].sigmoid()
    memory = (forget * memory).add_(ingate * gates[2].tanh())
    return outgate * memory.tanh(), memory


def _gru_step(cell: _Cell, given: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    (hidden,) = state
    of_input, of_hidden = given.chunk(3, 1), cell.hidden(hidden).chunk(3, 1)
    reset = (of_hidden[0] + of_input[0]).sigmoid()
    gate = (of_hidden[1] + of_input[1]).sigmoid()
    new = (of_input[2] + of_hidden[2] * reset).tanh()
    return ((hidden - new) * gate + new,)


def _rnn_step(
    activation: Callable[[Tensor], Tensor], cell: _Cell, given: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    return (activation(cell.hidden(state[0]).add_(given)),)


Step: TypeAlias = Callable[[_Cell, Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _one_step(step: Step) -> Callable[..., Any]:
    def run(input: Tensor, hx: Any, *parameters: Any) -> Any:
        cell = _int8_cell(*parameters)
        found = step(cell, cell.input(input), tuple(hx) if isinstance(hx, list) else (hx,))
        return found if isinstance(hx, list) else found[0]

    return run


native("aten::quantized_lstm_cell")(_one_step(_lstm_step))
native("aten::quantized_gru_cell")(_one_step(_gru_step))
native("aten::quantized_rnn_relu_cell")(_one_step(partial(_rnn_step, torch.relu)))
native("aten::quantized_rnn_tanh_cell")(_one_step(partial(_rnn_step, torch.tanh)))


def cells(parameters: Sequence[Tensor], *, is_half: bool = False) -> list[_Cell]:
    """The cells of each layer and direction from a list of all parameters."""
    count = _HALF_PARAMETERS if is_half else _CELL_PARAMETERS
    _require(len(parameters) % count == 0, f"{len(parameters)} parameters of {count} a cell")
    make = _half_cell if is_half else _int8_cell
    places = range(0, len(parameters), count)
    return [make(*parameters[place : place + count]) for place in places]


class Stack(NamedTuple):
    """Layers of recurrent cells: two cells a layer, the second backwards, if ``bidirectional``."""

    step: Step
    cells: Sequence[_Cell]
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool

    def run(
        self, data: Tensor, sizes: Sequence[int], states: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """Run over steps that follow each other in ``data``, of so many rows each."""
        directions = 2 if self.bidirectional else 1
        _require(len(self.cells) == self.num_layers * directions, f"{len(self.cells)} cells")
        fits = all(state.dim() == 3 and state.size(0) == len(self.cells) for state in states)
        _require(fits, f"hidden states of sizes {[list(state.size()) for state in states]}")
        each = list(zip(*(state.unbind(0) for state in states), strict=True))
        ends: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            found: list[Tensor] = []
            for direction in range(directions):
                place = layer * directions + direction
                output, end = self._direction(
                    self.cells[place], data, sizes, each[place], backwards=direction == 1
                )
                found.append(output)
                ends.append(end)
            data = torch.cat(found, -1) if len(found) > 1 else found[0]
            if self.dropout and self.train and layer + 1 < self.num_layers:
                data = torch.dropout(data, self.dropout, True)
        return (data, *(torch.stack(parts) for parts in zip(*ends, strict=True)))

    def _direction(
        self, cell: _Cell, data: Tensor, sizes: Sequence[int], state: tuple[Tensor, ...],
        *, backwards: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
        steps = torch.split(cell.input(data), list(sizes))
        outputs: list[Tensor] = []
        # Sequences end, one after the other from the last row on, and begin so backwards.
        current = tuple(part[: sizes[-1 if backwards else 0]] for part in state)
        ended: list[tuple[Tensor, ...]] = []
        for given in reversed(steps) if backwards else steps:
            rows, more = given.size(0), current[0].size(0)
            if rows < more:
                ended.append(tuple(part[rows:] for part in current))
            parts = zip(current, state, strict=True)
            current = tuple(
                part[:rows] if rows <= more else torch.cat([part, whole[more:rows]])
                for part, whole in parts
            )
            current = self.step(cell, given, current)
            outputs.append(current[0])
        whole = tuple(torch.cat(parts) for parts in zip(current, *reversed(ended), strict=True))
        return torch.cat(outputs[::-1] if backwards else outputs), whole


def run_padded(
    stack: Stack, input: Tensor, states: Sequence[Tensor], *, batch_first: bool
) -> tuple[Tensor, ...]:
    """Run over an input of steps, rows and columns; rows come first if ``batch_first``."""
    _require(input.dim() == 3 and input.numel() > 0, f"an input of sizes {list(input.size())}")
    if batch_first:
        data, *ends = run_padded(stack, input.transpose(0, 1), states, batch_first=False)
        return (data.transpose(0, 1), *ends)
    steps, rows = input.size(0), input.size(1)
    data, *ends = stack.run(input.flatten(0, 1), [rows] * steps, states)
    return (data.view(steps, rows, -1), *ends)


def packed_sizes(batch_sizes: Tensor, data: Tensor) -> list[int]:
    """The rows of each step of a packed sequence, which become fewer."""
    fits = batch_sizes.dim() == 1 and batch_sizes.numel() > 0
    fits = fits and not batch_sizes.is_floating_point() and data.dim() == _MATRIX
    sizes: list[int] = batch_sizes.tolist() if fits else []
    fits = bool(sizes) and sizes == sorted(sizes, reverse=True) and sizes[-1] > 0
    _require(fits and sum(sizes) == data.size(0), f"steps of {sizes} rows")
    return sizes


@native("aten::quantized_gru.input_legacy")
def gru(
    input: Tensor, hx: Tensor, params: list[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """A GRU over a padded sequence."""
    del has_biases
    stack = Stack(_gru_step, cells(params), num_layers, dropout, train, bidirectional)
    return run_padded(stack, input, [hx], batch_first=batch_first)


@native("aten::quantized_gru.data_legacy")
def gru_of_sequence(
    data: Tensor, batch_sizes: Tensor, hx: Tensor, params: list[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """A GRU over a packed sequence."""
    del has_biases
    stack = Stack(_gru_step, cells(params), num_layers, dropout, train, bidirectional)
    return stack.run(data, packed_sizes(batch_sizes, data), [hx])


def lstm(
    input: Tensor, hx: list[Tensor], params: list[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool, *, is_half: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """An LSTM over a padded sequence."""
    del has_biases
    made = cells(params, is_half=is_half)
    stack = Stack(_lstm_step, made, num_layers, dropout, train, bidirectional)
    return run_padded(stack, input, hx, batch_first=batch_first)


def lstm_of_sequence(
    data: Tensor, batch_sizes: Tensor, hx: list[Tensor], params: list[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, *, is_half: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """An LSTM over a packed sequence."""
    del has_biases
    made = cells(params, is_half=is_half)
    stack = Stack(_lstm_step, made, num_layers, dropout, train, bidirectional)
    return stack.run(data, packed_sizes(batch_sizes, data), hx)
