"""Which versions of torch were tried, which of them have an operator, and which is installed."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from tsarchive.errors import TorchVersionError

from .registry import operator_names, tried_versions, versions_of

__all__ = [
    "Span",
    "installed_torch",
    "is_of_another_build",
    "known_operators",
    "require_torch",
    "span_of",
    "tried_versions",
    "untried_torch",
    "versions_with",
    "with_untried_torch",
]

_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)")


class Span(NamedTuple):
    """The first and the last version, among those that were tried, with an operator."""

    first: str
    last: str


@cache
def known_operators() -> dict[str, Span]:
    """Return the operators of all versions that were tried."""
    spans = ((name, span_of(name)) for name in operator_names())
    return {name: span for name, span in spans if span is not None}


def span_of(name: str) -> Span | None:
    """Return the first and the last version that has an operator, by its name without overload."""
    tried = [version for version in versions_of(name) if version in tried_versions()]
    return Span(tried[0], tried[-1]) if tried else None


def versions_with(name: str) -> str | None:
    """Say which versions have the operator ``name`` ("aten::add"); None where none is known."""
    span = span_of(name.partition(".")[0])
    return None if span is None else "torch " + " to ".join(dict.fromkeys(span))


@cache
def installed_torch() -> str | None:
    """Return the version of torch that is installed, without importing it."""
    from importlib import metadata  # it imports forty modules, which most commands do not need

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def is_of_another_build(name: str) -> bool:
    """Whether torch of the installed version has the operator ``name`` in some of its builds."""
    span = span_of(name.partition(".")[0])
    numbers = _numbers(installed_torch() or "")
    return span is not None and _numbers(span.first) <= numbers <= _numbers(span.last)


def untried_torch() -> str | None:
    """Say that the installed torch is newer or older than all that were tried; None if it is not.

    A version without numbers says nothing.
    """
    installed = installed_torch() or ""
    oldest, newest = tried_versions()[0], tried_versions()[-1]
    if _numbers(installed, newest) > _numbers(newest):
        return f"torch {installed} is newer than {newest}, the newest that tsarchive was tried with"
    if _numbers(installed, oldest) < _numbers(oldest):
        return _needed(installed)
    return None


def with_untried_torch(hint: str) -> str:
    """Add to a hint what ``untried_torch`` says, if it says anything."""
    return "; ".join(filter(None, (hint, untried_torch())))


def require_torch(version: str) -> None:
    """Raise TorchVersionError for a torch that is older than all that were tried."""
    oldest = tried_versions()[0]
    if _numbers(version, oldest) < _numbers(oldest):
        raise TorchVersionError(_needed(version), hint="pip install --upgrade torch")


def _needed(version: str) -> str:
    return f"tsarchive needs torch {tried_versions()[0]} or later; this is torch {version}"


def _numbers(version: str, otherwise: str = "") -> tuple[int, ...]:
    match = _NUMBERS.match(version) or _NUMBERS.match(otherwise)
    return tuple(map(int, match.groups())) if match else ()
