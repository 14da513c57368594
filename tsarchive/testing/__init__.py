"""For the test suites of projects that use TorchScript: no jitter, and random programs.

Importing this package imports neither torch nor hypothesis; what needs them does. The fixture
``assert_no_jitter`` is there in pytest as soon as tsarchive is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .assertions import assert_no_jitter
from .program import Program

if TYPE_CHECKING:
    from .strategies import programs, traceable_programs

__all__ = ["Program", "assert_no_jitter", "programs", "traceable_programs"]

_STRATEGIES = ("programs", "traceable_programs")


def __getattr__(name: str) -> Any:
    if name not in _STRATEGIES:
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
