"""Public operators in place of internal ones, and of operators that torch implements in Python.

Decomposing a program leaves internal operators that trust their caller to have checked arguments;
policies refuse them. The public operators check, and then do the same. Where one call is not
enough, ``tsarchive/formats/pt2/public_forms.py`` has a function.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


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


CALLS: Final[Mapping[str, PublicForm]] = MappingProxyType(
    {
        "aten::_adaptive_avg_pool2d": PublicForm("aten::adaptive_avg_pool2d"),
        "aten::_adaptive_avg_pool3d": PublicForm("aten::adaptive_avg_pool3d"),
        "aten::_cdist_forward": PublicForm("aten::cdist"),
        "aten::_linalg_det": PublicForm("aten::linalg_det", results=(True, False, False)),
        "aten::_linalg_eigvals": PublicForm("aten::linalg_eigvals"),
        "aten::_linalg_slogdet": PublicForm(
            "aten::linalg_slogdet", results=(True, True, False, False)
        ),
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
)
"""Internal operators that one call replaces, by their full name."""
