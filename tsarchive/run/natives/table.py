"""The table of native operators: schema name and overload name → Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from tsarchive.errors import ArchiveError

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
