"""Members of a package that are imported when they are asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tsarchive.garbage import not_collecting

__all__ = ["late_member"]


def late_member(package: str, homes: Mapping[str, str], name: str) -> Any:
    """What a package has under ``name``, from the module that ``homes`` says; it stays there.

    Raises AttributeError for a name that has no home.
    """
    home = homes.get(name)
    if home is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    with not_collecting():
        value = getattr(import_module(home), name)
    setattr(sys.modules[package], name, value)
    return value
