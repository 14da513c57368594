"""Operators whose calls in code of torch 1.0 to 1.2 differ from current ones.

Source: the schemas that these releases registered, and their behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Renamed operators, with the same arguments in the same order. Most are internal operators that
# tracing recorded.
RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"aten::{old}": f"aten::{new}"
        for old, new in (
            ("_addmm", "addmm"),
            ("_addmm_", "addmm_"),
            ("_addr", "addr"),
            ("_addr_", "addr_"),
            ("_argmax", "argmax"),
            ("_argmin", "argmin"),
            ("_baddbmm_mkl_", "baddbmm_"),
            ("_cat", "cat"),
            ("_cumprod", "cumprod"),
            ("_cumsum", "cumsum"),
            ("_index_copy_", "index_copy_"),
            ("_max", "max"),
            ("_min", "min"),
            ("_mode", "mode"),
            ("_s_where", "where"),
            ("_std", "std"),
            ("_var", "var"),
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
)

_FLOAT32: Final = 6
# These returned floats by default, whatever the types of their arguments.
DTYPES: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(("aten::arange", "aten::randint", "aten::randperm"), _FLOAT32)
)

# The position of the mask. Before torch 1.2 comparisons gave tensors of uint8.
MASKS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "aten::masked_fill": 1,
        "aten::masked_fill_": 1,
        "aten::masked_scatter": 1,
        "aten::masked_scatter_": 1,
        "aten::masked_select": 1,
        "aten::where": 0,
    }
)

# The number of arguments before ``align_corners``, which was added in torch 1.3.
FLAGS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "aten::affine_grid_generator": 2,
        "aten::grid_sampler": 4,
        "aten::grid_sampler_2d": 4,
        "aten::grid_sampler_3d": 4,
    }
)
