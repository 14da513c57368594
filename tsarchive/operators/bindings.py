"""Functions of Python that do what operators of ``aten`` do, where names and signatures mislead.

Operators are named without their namespace, unless an overload is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BOUND_OTHERWISE: Final = frozenset({"bernoulli", "is_contiguous", "requires_grad_", "set_", "to"})
"""Operators whose bindings have other arguments, or do other things, or fail with other words."""

WITHOUT_NUMBERS: Final = frozenset(
    f"aten::{name}{end}.Scalar" for name in ("add", "sub", "mul", "div") for end in ("", "_")
)
"""Overloads that the bindings have no signature for: numbers act as tensors there."""

DEFAULTS_IN_WORDS: Final = frozenset({"reduction"})
"""Arguments whose default is a word, such as Mean, which the parser of bindings takes for 0."""

TAKES_LIST_ITEMS: Final = frozenset({"aten::expand", "aten::permute", "aten::repeat", "aten::view"})
"""Operators that are methods which take the items of their only list one by one as well."""

FUNCTIONALS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "adaptive_avg_pool2d": 2, "adaptive_avg_pool3d": 2, "elu": 2, "glu": 2, "hardsigmoid": 1,
        "hardswish": 1, "hardtanh": 3, "leaky_relu": 2, "mish": 1, "pad": 4, "relu6": 1, "silu": 1,
    }
)  # fmt: skip
"""Functions of torch.nn.functional that do what the operator does with this many arguments."""

BOUND_BY_HAND: Final = frozenset(
    {
        "as_tensor", "from_file", "get_device", "index", "item", "new_tensor", "normal",
        "promote_types", "result_type", "sparse_bsc_tensor", "sparse_bsr_tensor",
        "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
        "sym_size", "sym_stride", "tensor", "type", "_has_compatible_shallow_copy_type",
    }
)  # fmt: skip
"""Operators whose functions have other arguments than the schema, and names that mislead."""

WITHOUT_ALPHA: Final = frozenset(
    f"aten::{name}{end}.Scalar" for name in ("add", "sub") for end in ("", "_")
)
"""Overloads whose functions take the third argument by position for another one."""
