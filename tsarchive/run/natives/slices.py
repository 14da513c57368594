"""Bounds of slices of lists and strings."""

from __future__ import annotations

from tsarchive.errors import ScriptError
from tsarchive.run.natives.narrowing import INT64_MAX, INT64_MIN


def python_slice(start: int | None, end: int | None, step: int) -> slice:
    """The Python slice with the meaning of TorchScript's bounds.

    The largest int stands for a bound left out.
    Raises ScriptError for a step of zero and for the smallest int.
    """
    if step == 0:
        raise ScriptError("List slice should have non-zero step")
    if step == INT64_MIN:
        raise ScriptError("List slice step is out of bounds")
    return slice(None if start == INT64_MAX else start, None if end == INT64_MAX else end, step)
