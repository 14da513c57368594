"""Quantized embeddings with a scale for each row, or for each group of its elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.run.checks import require
from tsarchive.run.guards import store
from tsarchive.run.natives.table import native

__all__: list[str] = []

_ROWS: Final = 2  # rank of a weight
_BYTE: Final = 0xFF


def _unpacker(bits: int, shifts: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """Return a function that unpacks elements of ``bits`` each from bytes, made non-negative."""

    def unpack(rows: Tensor) -> Tensor:
        held = rows.to(torch.int32) & _BYTE
        parts = [(held >> shift) & ((1 << bits) - 1) for shift in shifts]
        return torch.stack(parts, -1).flatten(1) - (1 << (bits - 1))

    return unpack


_UNPACKED: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "embedding_byte": lambda rows: rows,
    "embedding_4bit": _unpacker(4, (4, 0)),
    "embedding_2bit": _unpacker(2, (0, 2, 4, 6)),
}


def _embedding(unpack: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def run(
        weight: Tensor, scales: Tensor, zeros: Tensor | None, _low: int, _high: int,
        indices: Tensor, *more: Any,
    ) -> Tensor:  # fmt: skip
        require(weight.dim() == _ROWS, "the weight of an embedding has no rows")
        which = indices.flatten()
        rows = unpack(weight.index_select(0, which)).to(torch.float32)
        scale = _of_groups(scales, which, rows)
        count, width = scale.size(1), rows.size(1)
        groups = rows.reshape(len(which), count, width // count)
        if zeros is not None:
            groups = groups - _of_groups(zeros, which, rows)
        found = (groups * scale).reshape(*indices.size(), width)
        return store(more[-1], found)

    return run


def _of_groups(numbers: Tensor, which: Tensor, rows: Tensor) -> Tensor:
    """Gather the per-group numbers of each row; a single group serves all elements."""
    found = numbers.unsqueeze(-1) if numbers.dim() == 1 else numbers
    groups = found.size(1) if found.dim() == _ROWS else 0
    fits = groups > 0 and rows.size(1) % groups == 0
    require(fits, f"{list(numbers.size())} scales for rows of {rows.size(1)} elements")
    return found.index_select(0, which).to(torch.float32).unsqueeze(-1)


for _name, _unpack in _UNPACKED.items():
    for _overload in ("out", "dtype_out"):
        native(f"quantized_decomposed::{_name}.{_overload}")(_embedding(_unpack))
