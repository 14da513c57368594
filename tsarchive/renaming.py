"""Old names of arguments and attributes, which go on working with a DeprecationWarning.

Signatures, ``help`` and type checkers show the new names alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)

_MADE = ".__init__"


def renamed(**names: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a function take keyword arguments by their old names: ``renamed(old="new")``.

    The call raises TypeError when it gives an argument by both names.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for old, new in names.items():
                if old not in kwargs:
                    continue
                if new in kwargs:
                    raise TypeError(f"{function.__name__}() got {old!r}, the old name of {new!r}")
                _warn(f"the argument {old!r} of {function.__qualname__.removesuffix(_MADE)}()", new)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def renamed_fields(**names: str) -> Callable[[_C], _C]:
    """Let a dataclass take and have fields by their old names: ``renamed_fields(old="new")``."""

    def decorate(cls: _C) -> _C:
        made: Any = cls
        made.__init__ = renamed(**names)(made.__init__)
        for old, new in names.items():
            setattr(cls, old, _old_attribute(cls.__name__, old, new))
        return cls

    return decorate


def _old_attribute(owner: str, old: str, new: str) -> property:
    def value(self: Any) -> Any:
        _warn(f"the attribute {old!r} of {owner}", new)
        return getattr(self, new)

    return property(value, doc=f"The old name of ``{new}``.")


def _warn(what: str, new: str) -> None:
    # From here by way of the wrapper to who used the old name.
    warnings.warn(f"{what} is now {new!r}", DeprecationWarning, stacklevel=3)
