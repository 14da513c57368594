"""Which versions of torch were tried, and which of them have an operator.

``operators.txt`` names the versions in its first line, and in each other line an operator with
the first and the last of them that have it, as their registries say. ``nox -s registry`` writes it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from tsarchive.errors import TorchVersionError

__all__ = [
    "Span",
    "installed_torch",
    "is_of_another_build",
    "known_operators",
    "require_torch",
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
def tried_versions() -> tuple[str, ...]:
    """Return the versions of torch that were tried, such as "2.13", oldest first."""
    return tuple(_lines()[0].split()[2:])


@cache
def known_operators() -> dict[str, Span]:
    """Return the operators of all versions that were tried."""
    rows = (line.split() for line in _lines() if not line.startswith("#"))
    return {name: Span(first, last) for name, first, last in rows}


def versions_with(name: str) -> str | None:
    """Say which versions have the operator ``name`` ("aten::add"); None where none is known."""
    span = known_operators().get(name.partition(".")[0])
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
    span = known_operators().get(name.partition(".")[0])
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


def _lines() -> list[str]:
    from importlib.resources import files

    return files("tsarchive.policy").joinpath("operators.txt").read_text("ascii").splitlines()


def _numbers(version: str, otherwise: str = "") -> tuple[int, ...]:
    match = _NUMBERS.match(version) or _NUMBERS.match(otherwise)
    return tuple(map(int, match.groups())) if match else ()
