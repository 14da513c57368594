"""The ``quantized_decomposed`` operators of torch.ao's quantization, as TorchScript code.

torch defines them in Python, on import of torch.ao; a process that only loads a program, or
libtorch, lacks them. The code does what torch's does, with the same checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

_MODULE: Final = "__torch__.torch.ao.quantization.fx._decomposed"
_RAISE: Final = "ops.prim.RaiseException"

# Numbers of dtypes: 0 uint8, 1 int8, 2 int16, 3 int32, 4 int64, 5 float16, 6 float32, 7 float64, 15
# bfloat16, 23 float8_e5m2, 24 float8_e4m3fn, 27 uint16. The bounds of quantized values:
_BOUNDS: Final = {
    0: [0, 255],
    1: [-128, 127],
    2: [-(1 << 15), (1 << 15) - 1],
    3: [-(1 << 31), (1 << 31) - 1],
    23: [-57344, 57344],
    24: [-448, 448],
    27: [0, (1 << 16) - 1],
}
_CHECKS: Final = f"""\
def _bounds(dtype: int) -> List[int]:
  bounds = {_BOUNDS}
  if torch.__contains__(bounds, dtype):
    pass
  else:
    {_RAISE}("values cannot be quantized to this dtype")
  return bounds[dtype]
def _quant_min_max_bounds_check(quant_min: int, quant_max: int, dtype: int) -> NoneType:
  least, most = {_MODULE}._bounds(dtype)
  raise_if(torch.lt(quant_min, least), "quant_min out of bounds for dtype")
  raise_if(torch.gt(quant_max, most), "quant_max out of bounds for dtype")
  return None
def _axis_check(input: Tensor, axis: int) -> NoneType:
  raise_if(torch.ge(axis, torch.dim(input)),
    "Expecting axis to be less than the number of dimensions")
  return None
def _one_element(tensor: Tensor) -> Tensor:
  raise_if(torch.ne(torch.numel(tensor), 1),
    "Expecting scale and zero_point tensors of one element")
  return tensor
def _dtype_check(input: Tensor, dtype: int) -> NoneType:
  raise_if(torch.ne(ops.prim.dtype(input), dtype), "Expecting input to have another dtype")
  return None
def _float32(input: Tensor) -> Tensor:
  if torch.__contains__([5, 15], ops.prim.dtype(input)):
    input0 = torch.to(input, 6)
  else:
    input0 = input
  _0 = {_MODULE}._dtype_check(input0, 6)
  return input0
"""
_PER_TENSOR: Final = f"""\
def _quantized(input: Tensor, scale: float, zero_point: number, quant_min: int, quant_max: int,
    dtype: int) -> Tensor:
  input0 = {_MODULE}._float32(input)
  _0 = {_MODULE}._quant_min_max_bounds_check(quant_min, quant_max, dtype)
  scaled = torch.round(torch.mul(input0, torch.div(1., scale)))
  values = torch.clamp(torch.add(scaled, zero_point), quant_min, quant_max)
  return torch.to(values, dtype)
def quantize_per_tensor(input: Tensor, scale: float, zero_point: int, quant_min: int,
    quant_max: int, dtype: int) -> Tensor:
  return {_MODULE}._quantized(input, scale, zero_point, quant_min, quant_max, dtype)
def quantize_per_tensor_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int,
    quant_max: int, dtype: int) -> Tensor:
  zero = torch.item({_MODULE}._one_element(zero_point))
  factor = float({_MODULE}._one_element(scale))
  return {_MODULE}._quantized(input, factor, zero, quant_min, quant_max, dtype)
def quantize_per_tensor_tensor2(input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: Tensor,
    quant_max: Tensor, dtype: int) -> Tensor:
  least = int(quant_min)
  most = int(quant_max)
  return {_MODULE}.quantize_per_tensor_tensor(input, scale, zero_point, least, most, dtype)
def _dequantized(input: Tensor, scale: float, zero_point: number, dtype: int,
    out_dtype: Optional[int]) -> Tensor:
  _0 = {_MODULE}._dtype_check(input, dtype)
  _1 = {_MODULE}._bounds(dtype)
  if torch.__is__(out_dtype, None):
    out_dtype0 = 6
  else:
    out_dtype0 = unchecked_cast(int, out_dtype)
  return torch.mul(torch.sub(torch.to(input, out_dtype0), zero_point), scale)
def dequantize_per_tensor(input: Tensor, scale: float, zero_point: int, quant_min: int,
    quant_max: int, dtype: int, out_dtype: Optional[int]=None) -> Tensor:
  return {_MODULE}._dequantized(input, scale, zero_point, dtype, out_dtype)
def dequantize_per_tensor_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int,
    quant_max: int, dtype: int, out_dtype: Optional[int]=None) -> Tensor:
  zero = torch.item({_MODULE}._one_element(zero_point))
  factor = float({_MODULE}._one_element(scale))
  return {_MODULE}._dequantized(input, factor, zero, dtype, out_dtype)
def dequantize_per_tensor_tensor2(input: Tensor, scale: Tensor, zero_point: Tensor,
    quant_min: Tensor, quant_max: Tensor, dtype: int, out_dtype: Optional[int]=None) -> Tensor:
  return {_MODULE}.dequantize_per_tensor_tensor(input, scale, zero_point, 0, 0, dtype, out_dtype)
"""
_CHOOSING: Final = f"""\
def _range(input: Tensor, quant_min: int, quant_max: int, dtype: int) -> Tuple[Tensor, Tensor]:
  if torch.__contains__([5, 6, 15], ops.prim.dtype(input)):
    pass
  else:
    {_RAISE}("Expecting input to have dtype torch.float32/16/b16")
  _0 = {_MODULE}._bounds(dtype)
  raise_if(torch.__or__(torch.gt(quant_min, 0), torch.lt(quant_max, 0)),
    "the quantization range must include 0")
  raise_if(torch.ge(quant_min, quant_max), "qmin must be strictly less than qmax")
  least, most = torch.aminmax(input)
  raise_if(bool(torch.gt(least, most)), "min should be less than max")
  zero = torch.zeros_like(least)
  return (torch.minimum(least, zero), torch.maximum(most, zero))
def _scale(width: Tensor, steps: float, eps: float) -> Tensor:
  least = torch.full([1], eps, dtype=6, device=ops.prim.device(width))
  return torch.maximum(torch.div(width, steps), least)
def choose_qparams_tensor(input: Tensor, quant_min: int, quant_max: int, eps: float,
    dtype: int) -> Tuple[Tensor, Tensor]:
  least, most = {_MODULE}._range(input, quant_min, quant_max, dtype)
  steps = float(torch.sub(quant_max, quant_min))
  scale = {_MODULE}._scale(torch.sub(most, least), steps, eps)
  zero = torch.rsub(torch.to(torch.round(torch.div(least, scale)), 3), quant_min)
  zero_point = torch.clamp(zero, quant_min, quant_max)
  return (torch.to(scale, 7), torch.to(zero_point, 4))
def choose_qparams_symmetric_tensor(input: Tensor, quant_min: int, quant_max: int, eps: float,
    dtype: int) -> Tuple[Tensor, Tensor]:
  least, most = {_MODULE}._range(input, quant_min, quant_max, dtype)
  steps = torch.div(float(torch.sub(quant_max, quant_min)), 2)
  scale = {_MODULE}._scale(torch.maximum(torch.neg(least), most), steps, eps)
  if torch.eq(dtype, 0):
    zero = 128
  else:
    zero = 0
  zero_point = torch.full([1], zero, dtype=4, device=ops.prim.device(input))
  return (torch.to(scale, 7), zero_point)
def choose_qparams_per_token(input: Tensor, dtype: int) -> Tuple[Tensor, Tensor]:
  scales = torch.amax(torch.abs(input), [-1], True)
  if torch.eq(ops.prim.dtype(scales), 5):
    scales0 = torch.to(scales, 6)
  else:
    scales0 = scales
  raise_if(torch.ne(dtype, 1), "unsupported dtype in choose_qparams_per_token")
  scales1 = torch.div(torch.clamp(scales0, 1e-05), 127)
  return (scales1, torch.zeros_like(scales1))
def choose_qparams_per_token_asymmetric(input: Tensor, dtype: int) -> Tuple[Tensor, Tensor]:
  least = torch.amin(input, [-1], True)
  most = torch.amax(input, [-1], True)
  least0 = torch.minimum(least, torch.zeros_like(least))
  most0 = torch.maximum(most, torch.zeros_like(most))
  scale = torch.clamp(torch.div(torch.sub(most0, least0), 255.), 1.1920928955078125e-07)
  least1 = torch.div(least0, scale)
  most1 = torch.div(most0, scale)
  errors = torch.add(torch.add(least1, -128), torch.add(most1, 127))
  chosen = torch.where(torch.gt(errors, 0), torch.rsub(least1, -128), torch.rsub(most1, 127))
  zero_point = torch.round(torch.clamp(chosen, -128, 127))
  return (torch.to(scale, 7), torch.to(zero_point, 4))
"""
_PER_CHANNEL: Final = f"""\
def _along(values: Tensor, input: Tensor) -> Tensor:
  rest = torch.mul([1], torch.sub(torch.dim(input), 1))
  return torch.view(values, torch.add([torch.size(values, 0)], rest))
def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int,
    quant_min: int, quant_max: int, dtype: int) -> Tensor:
  input0 = {_MODULE}._float32(input)
  _0 = {_MODULE}._axis_check(input0, axis)
  _1 = {_MODULE}._quant_min_max_bounds_check(quant_min, quant_max, dtype)
  moved = torch.transpose(input0, 0, axis)
  factors = torch.reciprocal({_MODULE}._along(scales, moved))
  zeros = {_MODULE}._along(zero_points, moved)
  scaled = torch.add(torch.round(torch.mul(moved, factors)), zeros)
  values = torch.clamp(scaled, quant_min, quant_max)
  return torch.to(torch.transpose(values, 0, axis), dtype)
def dequantize_per_channel(input: Tensor, scales: Tensor, zero_points: Optional[Tensor], axis: int,
    quant_min: int, quant_max: int, dtype: int, out_dtype: Optional[int]=None) -> Tensor:
  _0 = {_MODULE}._dtype_check(input, dtype)
  _1 = {_MODULE}._axis_check(input, axis)
  _2 = {_MODULE}._quant_min_max_bounds_check(quant_min, quant_max, dtype)
  if torch.__is__(out_dtype, None):
    out_dtype0 = 6
  else:
    out_dtype0 = unchecked_cast(int, out_dtype)
  moved = torch.transpose(input, 0, axis)
  factors = {_MODULE}._along(scales, moved)
  if torch.__is__(zero_points, None):
    values = torch.mul(moved, factors)
  else:
    zero_points0 = unchecked_cast(Tensor, zero_points)
    zeros = {_MODULE}._along(zero_points0, moved)
    values = torch.mul(torch.sub(moved, zeros), factors)
  return torch.transpose(torch.to(values, out_dtype0), 0, axis)
"""
_PER_TOKEN: Final = f"""\
def quantize_per_token(input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int,
    quant_max: int, dtype: int) -> Tensor:
  _0 = {_MODULE}._quant_min_max_bounds_check(quant_min, quant_max, dtype)
  tokens = 1
  for i in range(torch.sub(torch.dim(input), 1)):
    tokens0 = torch.mul(tokens, torch.size(input, i))
    tokens = tokens0
  raise_if(torch.ne(tokens, torch.numel(scales)), "Expecting a scale for each token")
  raise_if(torch.ne(tokens, torch.numel(zero_points)), "Expecting a zero point for each token")
  scaled = torch.round(torch.add(torch.mul(input, torch.reciprocal(scales)), zero_points))
  return torch.to(torch.clamp(scaled, quant_min, quant_max), dtype)
def dequantize_per_token(input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int,
    quant_max: int, dtype: int, output_dtype: int) -> Tensor:
  return torch.to(torch.mul(torch.sub(input, zero_points), scales), output_dtype)
"""
_PER_GROUP: Final = f"""\
def _grouped(input: Tensor, scales: Tensor, group_size: int) -> Tensor:
  raise_if(torch.le(group_size, 1), "group_size must be > 1")
  width = torch.size(input, -1)
  if torch.__and__(torch.gt(group_size, width), torch.eq(torch.size(scales, -1), 1)):
    group_size0 = width
  else:
    group_size0 = group_size
  raise_if(torch.ne(torch.remainder(width, group_size0), 0),
    "the last dimension must be divisible by group_size")
  raise_if(torch.ne(torch.dim(input), 2), "the input must be 2-dimensional")
  return torch.reshape(input, [-1, group_size0])
def quantize_per_channel_group(input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int,
    quant_max: int, dtype: int, group_size: int) -> Tensor:
  groups = {_MODULE}._grouped(input, scales, group_size)
  raise_if(bool(torch.any(torch.isnan(groups))), "to_quant must not contain NaNs")
  factors = torch.reciprocal(torch.reshape(scales, [-1, 1]))
  zeros = torch.reshape(zero_points, [-1, 1])
  scaled = torch.round(torch.add(torch.mul(groups, factors), zeros))
  values = torch.to(torch.clamp(scaled, quant_min, quant_max), dtype)
  return torch.reshape(values, torch.size(input))
def dequantize_per_channel_group(input: Tensor, scales: Tensor, zero_points: Optional[Tensor],
    quant_min: int, quant_max: int, dtype: int, group_size: int, output_dtype: int) -> Tensor:
  groups = {_MODULE}._grouped(input, scales, group_size)
  if torch.__is__(zero_points, None):
    values = groups
  else:
    zero_points0 = unchecked_cast(Tensor, zero_points)
    values = torch.sub(groups, torch.reshape(zero_points0, [-1, 1]))
  scaled = torch.mul(values, torch.reshape(scales, [-1, 1]))
  return torch.to(torch.reshape(scaled, torch.size(input)), output_dtype)
"""
_CONVERTING: Final = """\
def convert_element_type_no_fuse(input: Tensor, dtype: int) -> Tensor:
  return torch.to(input, dtype, False, True)
"""
_OPERATORS: Final = (
    "quantize_per_tensor", "quantize_per_tensor.tensor", "quantize_per_tensor.tensor2",
    "dequantize_per_tensor", "dequantize_per_tensor.tensor", "dequantize_per_tensor.tensor2",
    "choose_qparams.tensor", "choose_qparams_symmetric.tensor", "choose_qparams_per_token",
    "choose_qparams_per_token_asymmetric", "quantize_per_channel", "dequantize_per_channel",
    "quantize_per_channel_group", "dequantize_per_channel_group", "quantize_per_token",
    "dequantize_per_token", "convert_element_type.no_fuse",
)  # fmt: skip
_OTHER_NAMES: Final = {
    "_choose_qparams_per_token_asymmetric_impl": "choose_qparams_per_token_asymmetric"
}
FUNCTIONS: Final[Mapping[tuple[str, str], str]] = {
    (f"quantized_decomposed::{name}", overload): f"{_MODULE}.{operator.replace('.', '_')}"
    for shown, operator in [*zip(_OPERATORS, _OPERATORS, strict=True), *_OTHER_NAMES.items()]
    for name, _, overload in [shown.partition(".")]
}
"""The function for each operator, by its kind and overload name."""


@cache
def files() -> Mapping[str, str]:
    """Return the code record of the functions by its name, as torch prints it.

    Each parameter of a function is on a line of its own, and ``raise_if(condition, message)`` above
    stands for a branch that raises.
    """
    text = _CHECKS + _PER_TENSOR + _CHOOSING + _PER_CHANNEL + _PER_TOKEN + _PER_GROUP + _CONVERTING
    text = re.sub(
        r"^def \w+\([^)]*\)", lambda head: re.sub(r",\s+", ",\n    ", head[0]), text, flags=re.M
    )
    branch = rf"  if \1:\n    {_RAISE}(\2)\n  else:\n    pass"
    text = re.sub(r'^  raise_if\((.*),\s+(".*")\)$', branch, text, flags=re.M)
    return {"code/__torch__/torch/ao/quantization/fx/_decomposed.py": text}
