"""Functions of Python that do what operators of ``aten`` do, where names and signatures mislead.

Operators are named without their namespace, unless an overload is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

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

FUNCTIONALS: Final[Mapping[str, int]] = {
        "adaptive_avg_pool2d": 2, "adaptive_avg_pool3d": 2, "elu": 2, "glu": 2, "hardsigmoid": 1,
        "hardswish": 1, "hardtanh": 3, "leaky_relu": 2, "mish": 1, "pad": 4, "relu6": 1, "silu": 1,
    }  # fmt: skip
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


class PublicForm(NamedTuple):
    """A call of a public operator in place of an internal one.

    ``arguments`` are names of arguments of the internal operator, or constants; without them the
    public one takes the same arguments in the same order. Those in ``keywords`` are given by name.
    ``results`` tells which results of the internal operator the public one returns; the others are
    factors for the backward pass.
    """

    operator: str
    arguments: tuple[str | bool | None, ...] | None = None
    keywords: tuple[str, ...] = ()
    results: tuple[bool, ...] | None = None


_FIRST: Final = ("input", "weight", "bias")
_STATISTICS: Final = ("running_mean", "running_var")
_LAST: Final = ("momentum", "eps")
_SOLVED: Final = (True, False, False, True)


def _batch_norm(*arguments: str | bool | None) -> PublicForm:
    return PublicForm("aten::native_batch_norm", (*_FIRST, *arguments, *_LAST))


CALLS: Final[Mapping[str, PublicForm]] = {
    "aten::_adaptive_avg_pool2d": PublicForm("aten::adaptive_avg_pool2d"),
    "aten::_adaptive_avg_pool3d": PublicForm("aten::adaptive_avg_pool3d"),
    "aten::_cdist_forward": PublicForm("aten::cdist"),
    "aten::_linalg_det": PublicForm("aten::linalg_det", results=(True, False, False)),
    "aten::_linalg_eigvals": PublicForm("aten::linalg_eigvals"),
    "aten::_linalg_slogdet": PublicForm("aten::linalg_slogdet", results=(True, True, False, False)),
    "aten::_linalg_solve_ex": PublicForm(
        "aten::linalg_solve_ex", keywords=("left", "check_errors"), results=_SOLVED
    ),
    "aten::_native_batch_norm_legit": _batch_norm(*_STATISTICS, "training"),
    "aten::_native_batch_norm_legit.no_stats": _batch_norm(None, None, "training"),
    "aten::_native_batch_norm_legit_no_training": _batch_norm(*_STATISTICS, False),
    "aten::_pdist_forward": PublicForm("aten::pdist"),
    "aten::_to_dense": PublicForm("aten::to_dense", keywords=("masked_grad",)),
    "aten::_to_sparse": PublicForm(
        "aten::to_sparse", keywords=("layout", "blocksize", "dense_dim")
    ),
    "aten::_to_sparse.sparse_dim": PublicForm("aten::to_sparse.sparse_dim"),
    "aten::_to_sparse_bsc": PublicForm("aten::to_sparse_bsc"),
    "aten::_to_sparse_bsr": PublicForm("aten::to_sparse_bsr"),
    "aten::_to_sparse_csc": PublicForm("aten::to_sparse_csc"),
    "aten::_to_sparse_csr": PublicForm("aten::to_sparse_csr"),
    "aten::_unsafe_index.Tensor": PublicForm("aten::index.Tensor"),
    "aten::_unsafe_index_put": PublicForm("aten::index_put"),
    "prims::convert_element_type": PublicForm("aten::to.dtype", ("a", "dtype", False, True)),
    "prims::rev": PublicForm("aten::flip"),
    "prims::scalar_tensor": PublicForm("aten::scalar_tensor", keywords=("dtype", "device")),
}
"""Internal operators that one call replaces, by their full name."""
