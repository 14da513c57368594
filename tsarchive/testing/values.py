"""Strategies for arguments, by type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from .type_text import split

if TYPE_CHECKING:
    import torch

_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-3, 6),
    "float": st.sampled_from((0.5, -1.5, 2.0, 0.1)),
    "bool": st.booleans(),
    "str": st.text("abc ", max_size=5),
    "complex": st.sampled_from((1j, 2 - 0.5j)),
}
_SHAPES = ((3,), (2, 3), (), (3, 3), (0,))


def _tensor(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    import torch

    count = torch.Size(shape).numel()
    return (torch.arange(count) - 1).reshape(shape).to(getattr(torch, dtype))


def arguments(type_: str) -> st.SearchStrategy[Any]:
    """Draw values for a parameter annotated with ``type_``."""
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if type_ == "Tensor":
        dtypes = st.sampled_from(("float32", "float32", "int64", "float64", "bool"))
        return st.builds(_tensor, st.sampled_from(_SHAPES), dtypes)
    head, inner = split(type_)
    inside = [arguments(part) for part in inner]
    match head:
        case "List":
            return st.lists(*inside, min_size=1, max_size=3)
        case "Dict":
            return st.dictionaries(*inside, min_size=1, max_size=3)
        case "Tuple":
            return st.tuples(*inside)
        case "Optional":
            return st.none() | inside[0]
    return st.one_of(inside)
