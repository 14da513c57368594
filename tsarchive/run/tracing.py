"""Helpers for functions that torch.compile and torch.export trace or call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


def called_by_tracers(function: F) -> F:
    """Let torch.compile call ``function`` itself; the result must be a bool or None."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def with_own_code(function: Any) -> Any:
    """``function`` with a code object of its own.

    torch.compile counts compilations by code object, and compiles none more than a few times.
    """
    function.__code__ = function.__code__.replace()
    return function


def held(condition: Any) -> Any:
    """The condition; a symbol of a tracer becomes true, and the tracer checks it."""
    if not isinstance(condition, torch.SymBool):
        return condition
    check: Any = torch._check
    check(condition)
    return True
