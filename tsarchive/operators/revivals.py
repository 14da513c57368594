"""Operators that code of torch 1.0 to 1.2 calls otherwise than code of today.

Source: the schemas that these releases registered, and what they do.

In a method the version of the archive says what an operator means. Functions and closures are read
as code of today, so that ``TEXT`` has to spell the old meaning out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WITH_UNDERSCORE: Final = (
    "addmm", "addmm_", "addr", "addr_", "argmax", "argmin", "cat", "cumprod", "cumsum",
    "index_copy_", "max", "min", "mode", "std", "var",
)  # fmt: skip
# Other names, with the same arguments in the same order. Most are inner steps of an operator that
# tracing recorded.
RENAMED: Final[Mapping[str, str]] = {
    f"aten::{old}": f"aten::{new}"
    for old, new in (
        *((f"_{name}", name) for name in _WITH_UNDERSCORE),
        ("_baddbmm_mkl_", "baddbmm_"),
        ("_s_where", "where"),
        ("max_values", "amax"),
        ("min_values", "amin"),
        ("native_clone", "clone"),
        ("native_pow", "pow"),
        ("native_zero_", "zero_"),
        ("quantize_linear", "quantize_per_tensor"),
        ("s_copy_", "copy_"),
        ("s_native_addmm", "addmm"),
        ("s_native_addmm_", "addmm_"),
        ("thnn_conv3d", "slow_conv3d"),
        ("thnn_conv_depthwise2d", "_conv_depthwise2d"),
        ("trtrs", "triangular_solve"),
    )
}

_FLOAT32: Final = 6
# These filled with floats unless told otherwise, whatever their arguments were.
DTYPES: Final[Mapping[str, int]] = dict.fromkeys(
    ("aten::arange", "aten::randint", "aten::randperm"), _FLOAT32
)

# Where the mask stands. Before torch 1.2 comparisons gave tensors of uint8.
MASKS: Final[Mapping[str, int]] = {
    **{f"aten::masked_{kind}": 1 for kind in ("fill", "fill_", "scatter", "scatter_", "select")},
    "aten::where": 0,
}

# The arguments before ``align_corners``, which was not to be chosen before torch 1.3.
FLAGS: Final[Mapping[str, int]] = {
    "aten::affine_grid_generator": 2,
    "aten::grid_sampler": 4,
    "aten::grid_sampler_2d": 4,
    "aten::grid_sampler_3d": 4,
}


RECORD: Final = "libs/__torch__/before_torch_1_4.py"
_QUALIFIER: Final = "__torch__.before_torch_1_4"

_DIVISION = """\
def {name}(self: Tensor,
    other: {type}) -> Tensor:
  if torch.is_floating_point(self):
    _0 = True
  else:
    _0 = {other_is_float}
  if _0:
    _1 = torch.true_divide{suffix}(self, other)
  else:
    _1 = torch.divide{suffix}(self, other, rounding_mode="trunc")
  return _1
"""
_TENSOR = {"type": "Tensor", "other_is_float": "torch.is_floating_point(other)"}
_NUMBER = {"type": "number", "other_is_float": "isinstance(other, float)"}
_OPTIONS = (
    "dtype: Optional[int], layout: Optional[int], device: Optional[Device], "
    "pin_memory: Optional[bool]"
)
_GIVEN = "dtype=dtype, layout=layout, device=device, pin_memory=pin_memory"
_POINTS = """\
def {name}(start: number, end: number, steps: Optional[int], {more}{options}) -> Tensor:
  if torch.__is__(steps, None):
    _0 = 100
  else:
    _0 = unchecked_cast(int, steps)
  return torch.{name}(start, end, _0, {base}{given})
"""
_FULL = """\
def full(size: List[int], fill_value: number, {options}) -> Tensor:
  if torch.__is__(dtype, None):
    _0 = torch.full(size, float(fill_value), {given})
  else:
    _0 = torch.full(size, fill_value, {given})
  return _0
"""

TEXT: Final = "".join(
    (
        _DIVISION.format(name="div_tensor", suffix="", **_TENSOR),
        _DIVISION.format(name="div_number", suffix="", **_NUMBER),
        _DIVISION.format(name="div_tensor_", suffix="_", **_TENSOR),
        _DIVISION.format(name="div_number_", suffix="_", **_NUMBER),
        _FULL.format(options=_OPTIONS, given=_GIVEN),
        _POINTS.format(name="linspace", more="", base="", options=_OPTIONS, given=_GIVEN),
        _POINTS.format(
            name="logspace", more="base: float, ", base="base, ", options=_OPTIONS, given=_GIVEN
        ),
    )
)

# By torch's names of the old operators. The others mean what they meant.
FUNCTIONS: Final[Mapping[str, str]] = {
    "div_Tensor_0_3": f"{_QUALIFIER}.div_tensor",
    "div_Scalar_0_3": f"{_QUALIFIER}.div_number",
    "div__Tensor_0_3": f"{_QUALIFIER}.div_tensor_",
    "div__Scalar_0_3": f"{_QUALIFIER}.div_number_",
    "full_0_4": f"{_QUALIFIER}.full",
    "linspace_0_7": f"{_QUALIFIER}.linspace",
    "logspace_0_8": f"{_QUALIFIER}.logspace",
}
