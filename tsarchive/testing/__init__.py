"""Helpers for the test suites of projects that use TorchScript.

An assertion against jitter, and strategies for random programs and hostile files. Importing this
package imports neither torch nor hypothesis; its members do so on use. The pytest fixture
``assert_no_jitter`` is available as soon as tsarchive is installed. May import the verbs that save
and compare, the container and pickles.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .assertions import assert_no_jitter
from .program import Program

if TYPE_CHECKING:
    from .strategies import (
        mutated_archives,
        mutated_code,
        mutated_pickles,
        mutated_programs,
        programs,
        traceable_programs,
    )

__all__ = [
    "Program",
    "assert_no_jitter",
    "mutated_archives",
    "mutated_code",
    "mutated_pickles",
    "mutated_programs",
    "programs",
    "traceable_programs",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.strategies"), name)
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        message = f"{__name__}.{name} needs hypothesis: pip install 'tsarchive[testing]'"
        raise ImportError(message) from error


def __dir__() -> list[str]:
    return __all__
