"""Invariants of sparse tensors, whose kernels read and write wherever the indices point.

torch checks the indices only when it is asked to (``torch.sparse.check_sparse_tensor_invariants``).
Here they are checked whenever code makes a sparse tensor out of parts, and nothing that code can
write to shares their memory afterwards: constructors are given copies, accessors give copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from .checks import Check, Given, require

SPARSE_MAKERS: Final = frozenset(
    f"aten::sparse_{kind}_tensor" for kind in ("coo", "compressed", "csr", "csc", "bsr", "bsc")
)
"""Operators that take indices and values, by their names."""

INDICES: Final = frozenset(
    {
        "indices", "compressed_indices", "plain_indices", "crow_indices", "col_indices",
        "ccol_indices", "row_indices",
    }
)  # fmt: skip
"""Arguments of constructors that hold indices."""

INDICES_OF: Final = frozenset(
    f"aten::{kind}indices" for kind in ("", "crow_", "col_", "ccol_", "row_")
)
"""Operators that give the very indices of a sparse tensor."""

_FAR: Final = 1 << 31
_WITHOUT_BLOCKS: Final = (torch.sparse_csr, torch.sparse_csc)
_Parts = tuple[Tensor, Tensor]
_BY_ROW: Final = (Tensor.crow_indices, Tensor.col_indices)
_BY_COLUMN: Final = (Tensor.ccol_indices, Tensor.row_indices)
_ACCESSORS: Final[Mapping[torch.layout, tuple[Callable[[Tensor], Tensor], ...]]] = MappingProxyType(
    {
        torch.sparse_csr: _BY_ROW,
        torch.sparse_bsr: _BY_ROW,
        torch.sparse_csc: _BY_COLUMN,
        torch.sparse_bsc: _BY_COLUMN,
    }
)


def validated(made: Tensor) -> Tensor:
    """``made``, whose indices are those of its size; raises RuntimeError as torch's checks do.

    A sparse tensor of the meta device has no indices to look at.
    """
    if made.is_meta:
        return made
    if made.layout is torch.sparse_coo:
        torch._validate_sparse_coo_tensor_args(
            made._indices(), made._values(), made.size(), made.is_coalesced()
        )
    elif made.layout in _ACCESSORS:
        compressed, plain = _compressed_parts(made)
        torch._validate_sparse_compressed_tensor_args(
            compressed, plain, made.values(), made.size(), made.layout
        )
    return made


def with_indices(made: Any) -> Any:
    """``made``, with its indices written: ``empty`` gives compressed layouts whatever was there."""
    if isinstance(made, Tensor) and made.layout in _ACCESSORS and not made.is_meta:
        if made._nnz() == 0:
            _compressed_parts(made)[0].zero_()
        validated(made)
    return made


def _compressed_parts(tensor: Tensor) -> _Parts:
    compressed, plain = _ACCESSORS[tensor.layout]
    return compressed(tensor), plain(tensor)


def _in_place(given: Given) -> None:
    """torch exchanges rows of the indices in place, beneath other tensors that share them."""
    require(given["self"].layout is torch.strided, "a sparse tensor is not transposed in place")


def _converted(given: Given) -> None:
    """torch counts the elements of blocks and of batches in the dtype of the indices."""
    data: Tensor = given["self"]
    if data.layout in _ACCESSORS and not data.is_meta:
        is_flat = data.layout in _WITHOUT_BLOCKS and not given.get("blocksize") and data.dim() <= 2
        is_counted = _compressed_parts(data)[0].dtype is torch.int64 or data.numel() < _FAR
        require(is_flat or is_counted, f"indices of 32 bits over sizes {list(data.size())}")


def _product(sparse: str, dense: str) -> Check:
    """torch multiplies how many elements there are by the columns in 64 bits."""

    def check(given: Given) -> None:
        one, two = given[sparse], given[dense]
        is_product = one.layout is torch.sparse_coo and one.dim() == two.dim() == 2
        count = max(one._nnz(), one.size(0)) * two.size(1) if is_product else 0
        require(count < _FAR**2, f"a product of sizes {list(two.size())}")

    return check


SPARSE_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        **{f"aten::{name}_": _in_place for name in ("t", "transpose", "swapaxes", "swapdims")},
        **{f"aten::to_sparse{kind}": _converted for kind in ("", "_bsc", "_bsr", "_csc", "_csr")},
        "aten::smm": _product("self", "mat2"),
        "aten::sspaddmm": _product("mat1", "mat2"),
    }
)
