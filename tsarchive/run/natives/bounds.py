"""What one operator on strings or lists may make.

A few bytes of code can ask for more memory than there is (``"a".ljust(1 << 60)``). Python would
raise MemoryError or OverflowError, or take all memory first; torch ends its process.
"""

from __future__ import annotations

from typing import Final

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import INT64_MAX, INT64_MIN

MAX_BYTES: Final = 2**28
"""Of the string that one operator makes."""
MAX_ITEMS: Final = 2**26
"""Of the list that one operator makes; an int in it has 40 bytes."""


def check_bytes(count: int) -> None:
    """Raise ScriptError before a string is made that would have more than ``MAX_BYTES``."""
    if count > MAX_BYTES:
        raise _refused(f"a string of {count} bytes", MAX_BYTES)


def check_items(count: int) -> None:
    """Raise ScriptError before a list is made that would have more than ``MAX_ITEMS``."""
    if count > MAX_ITEMS:
        raise _refused(f"a list of {count} items", MAX_ITEMS)


def _refused(what: str, limit: int) -> ScriptError:
    """It stands for the MemoryError that Python would raise."""
    error = ScriptError(f"{what} is not made", exception="builtins.MemoryError")
    error.limit = limit
    return error


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
