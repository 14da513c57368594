"""Strategies for arguments and for literals in source, by type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from .vocabulary import split

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


_SMALL = st.integers(-3, 9)
_WHOLE = st.one_of(_SMALL, _SMALL, st.sampled_from((100, 2**31, 2**40, -(2**62))))


def _is_kept(value: float) -> bool:
    # TorchScript writes 1e10 as `10000000000`, which it reads back as an int.
    return math.isfinite(value) and not (1e10 <= abs(value) < 1e18)


_FLOATS = st.one_of(
    st.sampled_from((0.5, 2.0, -1.5, 0.0, 1.0, 1e-5, 3e20, 0.1)),
    st.floats(-4, 4),
    st.floats(allow_nan=False).filter(_is_kept),
)
# Carriage returns do not read back. TorchScript counts bytes, so non-ASCII text appears only in
# forms that do not slice it.
_TEXT = st.one_of(
    st.text("abc ", max_size=4),
    st.text("a'\"\\\n\t\x01\x7f{}%", max_size=4),
    st.sampled_from(("a text that is too long to stand inside an expression", "")),
)


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


LITERALS: dict[str, st.SearchStrategy[str]] = {
    "int": _WHOLE.map(str).map(_signed),
    "float": _FLOATS.map(repr).map(_signed),
    "bool": st.booleans().map(str),
    "str": _TEXT.map(repr),
    "complex": st.sampled_from(("1j", "(2+0.5j)", "complex(1, -1)")),
}
