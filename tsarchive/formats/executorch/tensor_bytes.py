"""Conversion of user data to the bytes of a tensor."""

from __future__ import annotations

from typing import Any, Final

from tsarchive.errors import CallError

from .values import Layout

# Formats of the buffer protocol, by torch's names of dtypes.
_FORMATS: Final = {
    "bool": "?", "uint8": "B", "int8": "b", "int16": "h", "uint16": "H", "int32": "i",
    "uint32": "I", "int64": "lq", "uint64": "LQ", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
_NAMES: Final = {letter: name for name, letters in _FORMATS.items() for letter in letters}


def bytes_for(name: str, layout: Layout, data: Any) -> memoryview:
    """Return the bytes of a tensor from raw bytes or from an array of its dtype and shape.

    Raises CallError for an array of another dtype or shape, and for another number of bytes.
    """
    view = _view(name, data)
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return _of_size(name, view, layout.nbytes)
    _require_like(name, layout, view)
    return _in_order(layout, data, view)


def raw_bytes(name: str, size: int, data: Any) -> memoryview:
    """Return bytes that are not a tensor. Raises CallError unless there are ``size`` of them."""
    view = _view(name, data)
    return _of_size(name, view.cast("B") if view.c_contiguous else memoryview(view.tobytes()), size)


def _view(name: str, data: Any) -> memoryview:
    try:
        return memoryview(data)
    except TypeError:
        raise CallError(
            f"{name!r} cannot be replaced by a {type(data).__name__}",
            hint="Give an array of NumPy (tensor.numpy()) or bytes",
        ) from None


def _of_size(name: str, view: memoryview, size: int) -> memoryview:
    if view.nbytes != size:
        raise CallError(f"{name!r} has {size:,} bytes, not {view.nbytes:,}")
    return view


def _require_like(name: str, layout: Layout, view: memoryview) -> None:
    given = (view.format or "").lstrip("@=<")
    if not given or given not in _FORMATS.get(layout.dtype, ""):
        found = _NAMES.get(given, f"of format {view.format!r}")
        raise CallError(
            f"{name!r} is {layout.dtype}, the array {found}",
            hint="Give an array of that dtype, or the raw bytes",
        )
    if view.shape != layout.sizes:
        raise CallError(f"{name!r} has the sizes {layout.sizes}, the array {view.shape}")


def _in_order(layout: Layout, data: Any, view: memoryview) -> memoryview:
    """Return the elements in memory order, which may differ from the order of dimensions."""
    if layout.dim_order != tuple(range(len(layout.sizes))):
        view = memoryview(data.transpose(layout.dim_order))
    if view.c_contiguous:
        return view.cast("B") if view.nbytes else memoryview(b"")
    return memoryview(view.tobytes())
