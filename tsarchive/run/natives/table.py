"""The table of native operators: schema name and overload name → Python function.

torch raises RuntimeError for all faults of the running program. Here faults name the class that the
same fault has in Python, so that a caller can tell an index from a key without reading the text.

A few bytes of code can ask for more memory than there is (``"a".ljust(1 << 60)``). Python would
raise MemoryError or OverflowError, or take all memory first; torch ends its process. So what one
operator makes is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import torch

from tsarchive.errors import ArchiveError, ScriptError

Native = Callable[..., Any]
N = TypeVar("N", bound=Native)

_TABLE: dict[str, Native] = {}

NATIVES: Mapping[str, Native] = MappingProxyType(_TABLE)
"""Operators that run as Python functions.

The key is the schema name, a dot and the overload name (``"aten::add.int"``); an empty overload
name leaves the dot out (``"aten::__is__"``). A native takes the schema's arguments by position,
defaults filled in, and those after ``*`` by keyword. dtype, layout and memory format are the
plain ints of the archive. An operator that mutates a list or a dict mutates the object given.
"""


def native(*keys: str) -> Callable[[N], N]:
    """Enter the decorated function into the table under every one of ``keys``."""

    def enter(function: N) -> N:
        for key in keys:
            if key in _TABLE:
                raise ArchiveError(f"the native operator {key} is defined twice")
            _TABLE[key] = function
        return function

    return enter


def fault(class_: type[Exception], message: str) -> ScriptError:
    """Return the error for a fault that has this class in Python."""
    return ScriptError(message, exception=f"builtins.{class_.__name__}")


def wrong_kind(value: object, wanted: type) -> ScriptError:
    """For a value that code takes for one of another kind, which ``unchecked_cast`` can do.

    To be raised before the value is asked for an attribute: an object of the archive has attributes
    of any name, and those of Python's objects are no values of TorchScript.
    """
    return fault(TypeError, f"expected a {wanted.__name__}, but found a {type(value).__name__}")


def check_kind(value: object, wanted: type) -> None:
    """Raise ScriptError for a value of another kind; hot operators test it themselves."""
    if not isinstance(value, wanted):
        raise wrong_kind(value, wanted)


def overload(key: str) -> Native:
    """The operator ``key`` ("aten::log.float") as torch runs it, looked up when called."""
    namespace, _, name = key.partition("::")
    packet_name, _, overload_name = name.partition(".")

    def call(*arguments: Any, **keywords: Any) -> Any:
        packet = getattr(getattr(torch.ops, namespace), packet_name)
        return getattr(packet, overload_name or "default")(*arguments, **keywords)

    return call


def guarded(function: Native, key: str) -> Native:
    """``function``, but ``key`` as torch runs it where Python raises and C has an answer.

    Python's arithmetic and its math module call the same C library, and raise on a division by
    zero, a domain error or an overflow; C gives an infinity or a nan with a sign of its own. torch
    refuses complex numbers, too, with an error of its own.
    """
    answer = overload(key)

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ValueError, OverflowError, ZeroDivisionError, TypeError):
            return answer(*arguments)

    return call


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
    error = fault(MemoryError, f"{what} is not made")
    error.limit = limit
    return error
