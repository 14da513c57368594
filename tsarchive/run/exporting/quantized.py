"""Operators on quantized tensors, as a layer that runs what stands for them.

An operator that computes takes its arguments apart, computes with floats, and rounds the result to
the scale that it was given, as torch.ao's reference modules do. torch's kernels compute with
integers: a result can be one step of its scale away where the kernel rounds the other way. Views
and what else moves elements moves the integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from tsarchive.errors import UnsupportedError
from tsarchive.ir.types import TENSOR, ListType, OptionalType
from tsarchive.operators.effects import ASKING_SIZES
from tsarchive.run.natives.conversions import to_dtype
from tsarchive.run.operators import without_modes
from tsarchive.run.tracebacks import calling_place

from .affine import Affine, Form, affine_of, marked, moved_by, stretched_by
from .packed import CellParameters, PackedWeights, unpacked

if TYPE_CHECKING:
    from tsarchive.ir.schema import FunctionSchema
    from tsarchive.run.operators import Implementation as Run

Given = Mapping[str, Any]
_DTYPES: Final = {12: torch.qint8, 13: torch.quint8, 14: torch.qint32}
_FULL, _REDUCED = 255, 127
_NAMESPACES: Final = ("quantized::", "aten::quantize")


class Quantization:
    """The layer that runs operators on what stands for quantized tensors, in one form.

    ``operators`` are the names of those that ran.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.operators: dict[str, None] = {}
        self._constants: dict[int, tuple[Any, Any]] = {}

    def __call__(self, schema: FunctionSchema, run: Run, *given: Any, **named: Any) -> Any:
        names = [argument.name for argument in schema.arguments]
        arguments = {**dict(zip(names, given, strict=False)), **named}
        if not _is_concerned(schema, arguments):
            return run(*given, **named)
        self.operators[schema.name] = None
        defaults = {a.name: a.default for a in schema.arguments if a.has_default}
        found = {**defaults, **{name: self._stand(value) for name, value in arguments.items()}}
        full_name = schema.full_name
        for table in (_SPECIAL, _COMPUTING):
            special = table.get(full_name) or table.get(schema.name)
            if special is not None:
                result = special(self, found)
                if table is _SPECIAL:
                    return result
                return self.form.quantized(result, _affine_of_result(found))
        return self._on_tensors(schema, run, found, (given, named))

    def floats(self, value: Any) -> Any:
        """The floats of what stands for a quantized tensor, or of several; other values."""
        if isinstance(value, list):
            return [self.floats(item) for item in value]
        return self.form.floats(value) if affine_of(value) is not None else value

    def _stand(self, value: Any) -> Any:
        """What stands for an argument; constants of the code are quantized tensors and objects."""
        if isinstance(value, list):
            return [self._stand(item) for item in value]
        is_object = isinstance(value, torch.ScriptObject)
        if not is_object and not (isinstance(value, Tensor) and value.is_quantized):
            return value
        if id(value) not in self._constants:
            with without_modes():
                made: Any = (
                    unpacked(value, self.form)
                    if is_object
                    else marked(self.form.stored(value), Affine.of(value))
                )
            self._constants[id(value)] = value, made
        return self._constants[id(value)][1]

    def _on_tensors(self, schema: FunctionSchema, run: Run, given: Given, called: Any) -> Any:
        """An operator that torch has for quantized tensors as well."""
        name = schema.name
        if name in ASKING_SIZES or name in _ASKING:
            return run(*called[0], **called[1])
        affine = next((found for found in map(affine_of, _tensors(given)) if found), None)
        is_per_tensor = affine is not None and affine.axis is None
        if affine is not None and (name in _COPYING or (is_per_tensor and name in _MOVING)):
            return _all_marked(run(*called[0], **called[1]), affine)
        if affine is not None and is_per_tensor and name in _KEEPING:
            arguments, keywords = (_mapped(self.floats, part) for part in called)
            return self.form.quantized(run(*arguments, **keywords), affine)
        place = calling_place()
        raise UnsupportedError(
            f"{schema.full_name} on quantized values has no form in a program of torch.export"
            + (f" ({place})" if place else ""),
            hint="Dequantize before it in the model that the archive was made from",
        )


def _mapped(function: Callable[[Any], Any], part: Any) -> Any:
    if isinstance(part, Mapping):
        return {name: function(value) for name, value in part.items()}
    return [function(value) for value in part]


def _tensors(given: Given) -> Iterator[Any]:
    for value in given.values():
        yield from value if isinstance(value, list) else (value,)


# Lists of anything keep what is put into them.
_HOLDING: Final = (TENSOR, OptionalType(TENSOR), ListType(TENSOR), ListType(OptionalType(TENSOR)))


def _is_concerned(schema: FunctionSchema, given: Given) -> bool:
    if schema.name.startswith(_NAMESPACES):
        return True
    holders = (a.name for a in schema.arguments if a.type in _HOLDING)
    values = _tensors({name: given[name] for name in holders if name in given})
    return any(
        isinstance(value, Tensor) and (affine_of(value) is not None or value.is_quantized)
        for value in values
    )


def _all_marked(result: Any, affine: Affine) -> Any:
    if isinstance(result, Tensor):
        return marked(result, affine)
    return type(result)([_all_marked(item, affine) for item in result])


_SCALES: Final = ("output_scale", "scale", "Y_scale_i")
_ZEROS: Final = ("output_zero_point", "zero_point", "Y_zero_point_i")


def _affine_of_result(given: Given) -> Affine:
    """The scale that an operator is given for its result, else that of its input."""
    first = next(found for found in map(affine_of, _tensors(given)) if found)
    scale = next((given[name] for name in _SCALES if given.get(name) is not None), first.scale)
    zero = next((given[name] for name in _ZEROS if given.get(name) is not None), first.zero_point)
    return Affine.per_tensor(first.dtype, scale, zero)


def _quantize(layer: Quantization, given: Given) -> Tensor:
    dtype = _DTYPES[given["dtype"]]
    scale, zero = given.get("scale"), given.get("zero_point")
    if "axis" in given:
        affine = Affine(dtype, given["scales"], given["zero_points"], given["axis"])
    else:
        affine = Affine.per_tensor(dtype, scale, zero)
    return layer.form.quantized(given["self"], affine)


def _dequantize(layer: Quantization, given: Given) -> Any:
    return layer.floats(given["self"] if "self" in given else given["tensors"])


def _integers(layer: Quantization, given: Given) -> Tensor:
    return layer.form.integers(given["self"])


def _asked(name: str) -> Callable[[Quantization, Given], Any]:
    """Something of an affine; a scale of its own that is no number to a tracer is a symbol."""

    def call(_: Quantization, given: Given) -> Any:
        affine = affine_of(given["self"])
        assert affine is not None
        value = getattr(affine, name)
        return value.item() if affine.axis is None and isinstance(value, Tensor) else value

    return call


def _dtype(_: Quantization, given: Given) -> int:
    tensor = next(iter(given.values()))
    affine = affine_of(tensor)
    kind = tensor.dtype if affine is None else affine.dtype
    return next(number for number in range(_MOST_DTYPES) if to_dtype(number) is kind)


_MOST_DTYPES: Final = 64


def _linear(layer: Quantization, x: Tensor, packed: PackedWeights) -> Tensor:
    return functional.linear(x, layer.floats(packed.marked_weight()), packed.bias)


def _static_linear(layer: Quantization, given: Given) -> Tensor:
    return _linear(layer, layer.floats(given["X"]), given["W_prepack"])


def _dynamic_linear(layer: Quantization, given: Given) -> Tensor:
    x = _observed(layer, given["X"], is_reduced=bool(given.get("reduce_range")))
    return _linear(layer, x, given["W_prepack"])


def _half_linear(layer: Quantization, given: Given) -> Tensor:
    return _linear(layer, given["X"], given["W_prepack"])


def _observed(layer: Quantization, x: Tensor, *, is_reduced: bool) -> Tensor:
    return layer.form.observed(x, _REDUCED if is_reduced else _FULL)


def _convolve(layer: Quantization, x: Tensor, packed: PackedWeights) -> Tensor:
    """A convolution; one of a sequence is packed as one of rows of height 1."""
    numbers, weight = packed.numbers, layer.floats(packed.marked_weight())
    is_sequence = x.dim() == weight.dim() - 1
    wide = x.unsqueeze(-2) if is_sequence else x
    is_flat = weight.dim() == _FLAT
    stride, padding, dilation = (numbers[name] for name in ("stride", "padding", "dilation"))
    given, groups = (wide, weight, packed.bias, stride, padding), numbers["groups"]
    made: Tensor
    if numbers["transpose"]:
        turn = functional.conv_transpose2d if is_flat else functional.conv_transpose3d
        made = turn(*given, numbers["output_padding"], groups, dilation)
    else:
        made = (torch.conv2d if is_flat else torch.conv3d)(*given, dilation, groups)
    return made.squeeze(-2) if is_sequence else made


_FLAT: Final = 4


def _weights(given: Given) -> PackedWeights:
    found: PackedWeights = given["weight"] if "weight" in given else given["packed_weight"]
    return found


def _static_convolution(layer: Quantization, given: Given) -> Tensor:
    return _convolve(layer, layer.floats(given["qx"]), _weights(given))


def _dynamic_convolution(layer: Quantization, given: Given) -> Tensor:
    x = _observed(layer, given["qx"], is_reduced=bool(given.get("reduce_range")))
    return _convolve(layer, x, _weights(given))


def _added_convolution(layer: Quantization, given: Given) -> Tensor:
    return torch.add(_static_convolution(layer, given), layer.floats(given["qaccum"]))


def _with_relu(run: Callable[[Quantization, Given], Tensor]) -> Callable[..., Tensor]:
    return lambda layer, given: torch.relu(run(layer, given))


def _prepack(layer: Quantization, given: Given) -> PackedWeights:
    """Weights that code packs: quantized ones, or floats that are rounded to 16 bits."""
    weight = given["W"] if "W" in given else given["weight"]
    bias = given["B"] if "B" in given else given.get("bias")
    names = ("stride", "padding", "output_padding", "dilation", "groups")
    numbers = {name: given[name] for name in names if name in given}
    packed = PackedWeights(layer.form, weight, bias, transpose="output_padding" in given, **numbers)
    packed._affine = affine_of(weight)
    return packed


def _embedding(layer: Quantization, given: Given) -> Tensor:
    found: Tensor = functional.embedding(given["indices"], given["weight"].weight)
    return found


def _binary(operation: Callable[[Any, Any], Any]) -> Callable[[Quantization, Given], Tensor]:
    return lambda layer, given: operation(layer.floats(given["qa"]), layer.floats(given["qb"]))


def _with_number(
    operation: Callable[[Any, Any], Any], affine_after: Callable[[Affine, float], Affine]
) -> Callable[[Quantization, Given], Tensor]:
    """An operator of a tensor and a number, whose result has a scale of its own."""

    def call(layer: Quantization, given: Given) -> Tensor:
        tensor, number = given["qa"], given["b"]
        affine = affine_of(tensor)
        assert affine is not None
        made = operation(layer.floats(tensor), number)
        return layer.form.quantized(made, affine_after(affine, number))

    return call


def _unary(run: Callable[..., Tensor], *names: str) -> Callable[[Quantization, Given], Tensor]:
    """A function of one tensor; ``names`` are further arguments by position."""

    def call(layer: Quantization, given: Given) -> Tensor:
        tensor = next(value for value in given.values() if affine_of(value) is not None)
        return run(layer.floats(tensor), *(given[name] for name in names))

    return call


def _normalized(layer: Quantization, given: Given) -> Tensor:
    statistics = (given["mean"], given["var"], given["weight"], given["bias"])
    return functional.batch_norm(layer.floats(given["qx"]), *statistics, eps=given["eps"])


def _fixed(scale: float, zeros: Mapping[torch.dtype, int], run: Callable[..., Tensor]) -> Any:
    """A function whose results have a scale that fits its range."""

    def call(layer: Quantization, given: Given) -> Tensor:
        affine = affine_of(given["self"])
        assert affine is not None
        chosen = Affine(affine.dtype, scale, zeros[affine.dtype])
        return layer.form.quantized(run(layer.floats(given["self"])), chosen)

    return call


def _cell_linear(
    layer: Quantization, x: Tensor, packed: PackedWeights, *, is_reduced: bool
) -> Tensor:
    is_whole = packed.marked_weight().is_floating_point()
    return _linear(layer, x if is_whole else _observed(layer, x, is_reduced=is_reduced), packed)


def _lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    enter, forget, new, leave = gates.chunk(4, -1)
    after = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * after.tanh(), after


def _gru_step(inputs: Tensor, hidden: Tensor, state: Tensor) -> Tensor:
    (reset_i, update_i, new_i), (reset_h, update_h, new_h) = (
        inputs.chunk(3, -1),
        hidden.chunk(3, -1),
    )
    new = (new_i + new_h * (reset_i + reset_h).sigmoid()).tanh()
    return (state - new) * (update_i + update_h).sigmoid() + new


def _lstm_direction(
    layer: Quantization, x: Tensor, states: list[Tensor], cell: CellParameters, *, is_back: bool
) -> tuple[Tensor, list[Tensor]]:
    """One layer and direction over a sequence, whose steps are the first dimension."""
    inputs = _cell_linear(layer, x, cell.inputs, is_reduced=cell.is_reduced).unbind(0)
    hidden, carried = states
    outputs = []
    for step in reversed(inputs) if is_back else inputs:
        gates = step + _cell_linear(layer, hidden, cell.hidden, is_reduced=cell.is_reduced)
        hidden, carried = _lstm_step(gates, carried)
        outputs.append(hidden)
    return torch.stack(outputs[::-1] if is_back else outputs), [hidden, carried]


def _gru_direction(
    layer: Quantization, x: Tensor, states: list[Tensor], cell: CellParameters, *, is_back: bool
) -> tuple[Tensor, list[Tensor]]:
    inputs = _cell_linear(layer, x, cell.inputs, is_reduced=cell.is_reduced).unbind(0)
    (state,) = states
    outputs = []
    for step in reversed(inputs) if is_back else inputs:
        gates = _cell_linear(layer, state, cell.hidden, is_reduced=cell.is_reduced)
        state = _gru_step(step, gates, state)
        outputs.append(state)
    return torch.stack(outputs[::-1] if is_back else outputs), [state]


def _recurrent(direction: Callable[..., Any]) -> Callable[[Quantization, Given], tuple[Any, ...]]:
    """A recurrent network, unrolled over its steps."""

    def call(layer: Quantization, given: Given) -> tuple[Any, ...]:
        states = given["hx"] if isinstance(given["hx"], list) else [given["hx"]]
        x = given["input"].transpose(0, 1) if given["batch_first"] else given["input"]
        ways = 2 if given["bidirectional"] else 1
        cells, last = given["params"], []
        for index in range(0, len(cells), ways):
            outputs = []
            for way in range(ways):
                first = [state[index + way] for state in states]
                made, after = direction(layer, x, first, cells[index + way], is_back=way == 1)
                outputs.append(made)
                last.append(after)
            x = torch.cat(outputs, -1)
            if given["train"] and given["dropout"] and index + ways < len(cells):
                x = functional.dropout(x, given["dropout"], training=True)
        result = x.transpose(0, 1) if given["batch_first"] else x
        return result, *(torch.stack(parts) for parts in zip(*last, strict=True))

    return call


def _gates(layer: Quantization, given: Given, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """The gates of a single step; its weights hold the biases that are given beside them."""
    inputs = _cell_linear(layer, given["input"], given["w_ih"], is_reduced=True)
    return inputs, _cell_linear(layer, hidden, given["w_hh"], is_reduced=True)


def _lstm_cell(layer: Quantization, given: Given) -> tuple[Tensor, Tensor]:
    hidden, cell = given["hx"]
    return _lstm_step(torch.add(*_gates(layer, given, hidden)), cell)


def _gru_cell(layer: Quantization, given: Given) -> Tensor:
    return _gru_step(*_gates(layer, given, given["hx"]), given["hx"])


def _rnn_cell(run: Callable[[Tensor], Tensor]) -> Callable[[Quantization, Given], Tensor]:
    return lambda layer, given: run(torch.add(*_gates(layer, given, given["hx"])))


_ZERO_LEAST: Final = {torch.quint8: 0, torch.qint8: -128, torch.qint32: 0}
_ZERO_MIDDLE: Final = {torch.quint8: 128, torch.qint8: 0, torch.qint32: 0}
_Handler = Callable[[Quantization, Given], Any]
_SPECIAL: Final[dict[str, _Handler]] = {
    "aten::quantize_per_tensor": _quantize,
    "aten::quantize_per_channel": _quantize,
    "aten::dequantize": _dequantize,
    "aten::int_repr": _integers,
    "aten::q_scale": _asked("scale"),
    "aten::q_zero_point": _asked("zero_point"),
    "aten::q_per_channel_scales": _asked("scale"),
    "aten::q_per_channel_zero_points": _asked("zero_point"),
    "aten::q_per_channel_axis": _asked("axis"),
    "prim::dtype": _dtype,
    "aten::is_quantized": lambda _, given: affine_of(given["self"]) is not None,
    "prim::is_quantized": lambda _, given: affine_of(next(iter(given.values()))) is not None,
    "aten::sigmoid": _fixed(1 / 256, _ZERO_LEAST, torch.sigmoid),
    "aten::hardsigmoid": _fixed(1 / 256, _ZERO_LEAST, functional.hardsigmoid),
    "aten::tanh": _fixed(1 / 128, _ZERO_MIDDLE, torch.tanh),
    "quantized::linear_dynamic": _dynamic_linear,
    "quantized::linear_relu_dynamic": _with_relu(_dynamic_linear),
    "quantized::linear_dynamic_fp16": _half_linear,
    "quantized::linear_relu_dynamic_fp16": _with_relu(_half_linear),
    **{
        f"quantized::conv{kind}{rank}d_dynamic": _dynamic_convolution
        for kind in ("", "_transpose")
        for rank in (1, 2, 3)
    },
    "quantized::linear_prepack": _prepack,
    **{
        f"quantized::conv{kind}{rank}d_prepack": _prepack
        for kind in ("", "_transpose")
        for rank in (1, 2, 3)
    },
    "quantized::linear_unpack": lambda _, given: (
        given["W_prepack"].marked_weight(), given["W_prepack"].bias,
    ),
    "quantized::embedding_byte": _embedding,
    "quantized::embedding_4bit": _embedding,
    "quantized::add_scalar": _with_number(torch.add, moved_by),
    "quantized::add.Scalar": _with_number(torch.add, moved_by),
    "quantized::mul_scalar": _with_number(torch.mul, stretched_by),
    "quantized::mul.Scalar": _with_number(torch.mul, stretched_by),
    "quantized::quantized_lstm_cell_dynamic": _lstm_cell,
    "quantized::quantized_gru_cell_dynamic": _gru_cell,
    "quantized::quantized_rnn_relu_cell_dynamic": _rnn_cell(torch.relu),
    "quantized::quantized_rnn_tanh_cell_dynamic": _rnn_cell(torch.tanh),
    "aten::quantized_lstm.input": _recurrent(_lstm_direction),
    "aten::quantized_gru.input": _recurrent(_gru_direction),
}  # fmt: skip
"""Operators whose results are what they give, by name or full name."""

_ALONE: Final[dict[str, _Handler]] = {
    "linear": _static_linear,
    **{f"conv{kind}{rank}d": _static_convolution
       for kind in ("", "_transpose") for rank in (1, 2, 3)},
    "conv2d_add": _added_convolution,
    "add": _binary(torch.add),
    "mul": _binary(torch.mul),
    "cat": lambda layer, given: torch.cat(layer.floats(given["qx"]), given["dim"]),
    **dict.fromkeys(("batch_norm", *(f"batch_norm{rank}d" for rank in (1, 2, 3))), _normalized),
}  # fmt: skip
_COMPUTING: Final[dict[str, _Handler]] = {
    **{f"quantized::{name}": run for name, run in _ALONE.items()},
    **{f"quantized::{name}_relu": _with_relu(run) for name, run in _ALONE.items()},
    "quantized::linear_leaky_relu": lambda layer, given: functional.leaky_relu(
        _static_linear(layer, given), given["negative_slope"]
    ),
    "quantized::linear_tanh": lambda layer, given: torch.tanh(_static_linear(layer, given)),
    "quantized::matmul": _binary(torch.matmul),
    "quantized::hardswish": _unary(functional.hardswish),
    "quantized::leaky_relu": _unary(functional.leaky_relu, "negative_slope"),
    "quantized::sigmoid": _unary(torch.sigmoid),
    "quantized::elu": _unary(torch.ops.aten.elu, "alpha", "scale", "input_scale"),
    "quantized::celu": _unary(torch.celu, "alpha"),
    "quantized::softmax": _unary(torch.softmax, "dim"),
    "quantized::prelu": _unary(torch.prelu, "weight"),
    "quantized::relu6": _unary(functional.relu6),
    "quantized::clamp": _unary(torch.clamp, "min", "max"),
    "quantized::layer_norm": _unary(torch.layer_norm, "normalized_shape", "weight", "bias", "eps"),
    "quantized::group_norm": _unary(torch.group_norm, "num_groups", "weight", "bias", "eps"),
    "quantized::max_pool1d": _unary(
        torch.max_pool1d, "kernel_size", "stride", "padding", "dilation", "ceil_mode"
    ),
    "quantized::max_pool2d": _unary(
        torch.max_pool2d, "kernel_size", "stride", "padding", "dilation", "ceil_mode"
    ),
}
"""Operators that compute floats, which are rounded to the scale of the result."""

_ASKING: Final = frozenset(
    {
        "aten::is_contiguous", "aten::is_floating_point", "aten::ndimension", "aten::sym_size",
        "aten::stride", "prim::device", "prim::layout",
    }
)  # fmt: skip
_COPYING: Final = frozenset({"aten::alias", "aten::clone", "aten::contiguous", "aten::detach"})
_MOVING: Final = frozenset(
    f"aten::{name}"
    for name in (
        "chunk", "expand", "expand_as", "flatten", "flip", "index_select", "movedim", "narrow",
        "permute", "pixel_shuffle", "repeat", "reshape", "roll", "select", "slice", "split",
        "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unflatten", "unsqueeze",
        "view", "view_as",
    )
)  # fmt: skip
_KEEPING: Final = frozenset(
    f"aten::{name}"
    for name in (
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d",
        "avg_pool2d", "avg_pool3d", "cat", "channel_shuffle", "clamp", "clamp_max", "clamp_min",
        "constant_pad_nd", "hardtanh", "leaky_relu", "max_pool1d", "max_pool2d", "max_pool3d",
        "mean", "reflection_pad1d", "reflection_pad2d", "relu", "relu6", "upsample_bilinear2d",
        "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    )
)  # fmt: skip
"""Operators whose results have the scale of their input."""
