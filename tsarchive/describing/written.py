"""Which torch wrote a file, with the reasons, also in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tsarchive.operators.registry import listed_versions, minor

from .text import Lines

Writer: TypeAlias = Literal["torch", "tsarchive", "another program"]

# The releases before those whose operators are known.
_OLDER = ("1.0", "1.1", "1.2", "1.3")


@dataclass(frozen=True, slots=True)
class Reason:
    """A mark of a file: releases before ``first`` and after ``last`` do not leave it."""

    mark: str
    first: str
    last: str

    def __str__(self) -> str:
        releases = all_releases()
        if self.last == releases[-1]:
            return f"{self.mark}: since {self.first}"
        if self.first == releases[0]:
            return f"{self.mark}: until {self.last}"
        return f"{self.mark}: {span(self.first, self.last)}"


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The releases of torch, such as "2.9", that may have written a file: ``first`` to ``last``.

    Both are None where no release leaves all marks. ``reasons`` are all marks that were found.
    ``writer`` is what packed the records last; the forms in them are still those of a torch.
    ``compiled_first`` and ``compiled_last`` are the releases whose own source lines the debug
    records name: one of them compiled the code, and perhaps another saved it again. None where no
    lines of torch are named.
    """

    first: str | None
    last: str | None
    reasons: tuple[Reason, ...]
    writer: Writer = "torch"
    compiled_first: str | None = None
    compiled_last: str | None = None


def all_releases() -> tuple[str, ...]:
    """Return the releases of torch that wrote archives, oldest first."""
    return (*_OLDER, *listed_versions())


def since(mark: str, first: str) -> Reason:
    """Return the reason that releases before ``first`` do not leave this mark."""
    return Reason(mark, first, all_releases()[-1])


def until(mark: str, last: str) -> Reason:
    """Return the reason that releases after ``last`` do not leave this mark."""
    return Reason(mark, all_releases()[0], last)


def common(reasons: Iterable[Reason]) -> tuple[str, str] | None:
    """Return the first and the last release that leave all of these marks, None without any."""
    place = all_releases().index
    first, last = 0, len(all_releases()) - 1
    for reason in reasons:
        first, last = max(first, place(reason.first)), min(last, place(reason.last))
    return (all_releases()[first], all_releases()[last]) if first <= last else None


def as_told(version: str) -> WrittenBy | None:
    """Return the answer for a file that names the version of its torch, None for an unknown one."""
    release = minor(version)
    if release not in all_releases():
        return None
    return WrittenBy(release, release, (Reason(f"it names torch {version}", release, release),))


def span(first: str, last: str) -> str:
    """``2.1 to 2.9``"""
    return first if first == last else f"{first} to {last}"


def written_lines(found: WrittenBy) -> Lines:
    """Yield the range, then the marks that bound it; all of them where they contradict."""
    releases = all_releases()
    if found.first is None or found.last is None:
        yield "written by", "no known torch: its marks contradict each other"
        shown = found.reasons
    else:
        range_ = span(found.first, found.last)
        later = " or later" if found.last == releases[-1] and found.first != found.last else ""
        yield "written by", f"torch {range_}{later}"
        shown = _binding(found)
    if found.writer != "torch":
        yield "", f"packed by {found.writer}"
    for reason in shown:
        yield "", str(reason)
    if found.compiled_first is not None and found.compiled_last is not None:
        yield "compiled by", f"torch {span(found.compiled_first, found.compiled_last)}"


def _binding(found: WrittenBy) -> list[Reason]:
    """Return the first mark for either end of the range."""
    ends = all_releases()[0], all_releases()[-1]
    lower = (r for r in found.reasons if r.first == found.first != ends[0])
    upper = (r for r in found.reasons if r.last == found.last != ends[1])
    return list(dict.fromkeys(r for r in (next(lower, None), next(upper, None)) if r is not None))
