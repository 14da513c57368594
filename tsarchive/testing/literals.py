"""Literals of plain types, as source."""

from __future__ import annotations

import math

from hypothesis import strategies as st

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


BY_TYPE: dict[str, st.SearchStrategy[str]] = {
    "int": _WHOLE.map(str).map(_signed),
    "float": _FLOATS.map(repr).map(_signed),
    "bool": st.booleans().map(str),
    "str": _TEXT.map(repr),
    "complex": st.sampled_from(("1j", "(2+0.5j)", "complex(1, -1)")),
}
