"""Checks before operators of linear algebra: what LAPACK does not check, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor

from .checks import Check, Given, require
from .natives.conversions import INT64_MIN

_MATRIX = 2
_MOST_FACTORS = 1 << 10

WITH_SPARE: Final = frozenset({"aten::linalg_eig", "aten::linalg_eigvals"})
"""Operators that may write eigenvectors beyond those of the last matrix."""


def with_spare(run: Callable[..., Any]) -> Callable[..., Any]:
    """``run`` with one more matrix, behind those that are given.

    Where LAPACK does not converge for a real matrix, the last eigenvalue that it leaves may be
    complex, and torch writes a pair of eigenvectors, one of them for the next matrix, before it
    looks for errors. The one behind the others converges, and each is computed on its own.
    """

    def run_with_spare(data: Tensor, **outs: Tensor) -> Any:
        require(data.is_complex() or not outs, "eigenvalues of a real matrix into an out")
        is_square = data.dim() >= _MATRIX and data.size(-1) == data.size(-2)
        if data.is_complex() or data.is_meta or not (is_square and data.numel()):
            return run(data, **outs)
        n = data.size(-1)
        spare = torch.arange(1, n + 1, dtype=data.dtype, device=data.device).diag()
        made = run(torch.cat([data.reshape(-1, n, n), spare[None]]))
        if isinstance(made, Tensor):
            return made[:-1].reshape(data.shape[:-1])
        values, vectors = made
        return values[:-1].reshape(data.shape[:-1]), vectors[:-1].reshape(data.shape)

    return run_with_spare


def _eigenvalues(given: Given) -> None:
    """LAPACK reads beyond its memory when it meets numbers that are not finite."""
    data: Tensor = given["self"] if "self" in given else given["A"]
    is_fine = data.layout is not torch.strided or bool(torch.isfinite(data).all())
    require(is_fine, "the matrix whose eigenvalues are wanted holds infs or NaNs")


def _pivots(given: Given) -> None:
    data: Tensor = given["LU_data"]
    pivots: Tensor = given["LU_pivots"]
    fits = data.dim() >= _MATRIX
    fits = fits and list(pivots.size()) == [*data.size()[:-2], min(data.size()[-2:])]
    require(fits, f"pivots of sizes {list(pivots.size())} for {list(data.size())}")


def _pivot_pairs(given: Given) -> None:
    """LAPACK takes a negative pivot and the one behind it for a block of two rows."""
    pivots: Tensor = given["pivots"]
    data: Tensor = given["LD"]
    fits = data.dim() >= _MATRIX and pivots.size() == data.size()[:-1]
    require(fits, f"pivots of sizes {list(pivots.size())} for {list(data.size())}")
    if not pivots.is_meta:
        rows = list(pivots.reshape(-1, pivots.size(-1))) if pivots.numel() else []
        require(all(_is_paired(row.tolist()) for row in rows), "pivots that ldl_factor cannot give")


def _is_paired(pivots: Sequence[int]) -> bool:
    """Whether all name rows, and negative ones stand in pairs."""
    places = iter(pivots)
    is_paired = all(place > 0 or next(places, 0) == place for place in places)
    return is_paired and all(0 < abs(place) <= len(pivots) for place in pivots)


def _least_squares(given: Given) -> None:
    is_sound = given["driver"] != "gelss" or given["b"].numel() > 0
    require(is_sound, "the driver gelss needs a right side")


def _chain(given: Given) -> None:
    """torch looks for the best order in a table of all pairs."""
    factors = given["tensors"] if "tensors" in given else given["matrices"]
    require(len(factors) <= _MOST_FACTORS, f"a product of {len(factors)} matrices")


def _power(given: Given) -> None:
    """torch takes the power to ``-n`` of the inverse."""
    require(given["n"] != INT64_MIN, "the least integer has no opposite")


MATRIX_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "aten::chain_matmul": _chain,
        "aten::linalg_eigvals": _eigenvalues,
        "aten::linalg_ldl_solve": _pivot_pairs,
        "aten::linalg_lstsq": _least_squares,
        "aten::linalg_matrix_power": _power,
        "aten::linalg_multi_dot": _chain,
        "aten::lu_unpack": _pivots,
        "aten::matrix_power": _power,
    }
)
