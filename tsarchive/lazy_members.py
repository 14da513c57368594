"""Members of a package that are imported on first access."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .garbage import count_as_old, not_collecting


def lazy_member(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Import and return the member ``name`` of a package, and store it in the package.

    ``homes`` maps names to their modules. Raises AttributeError for a name that is not in it.
    """
    home = homes.get(name)
    if home is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    with not_collecting():
        value = getattr(import_module(home), name)
        count_as_old()
    setattr(sys.modules[package], name, value)
    return value
