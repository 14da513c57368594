"""Which torch wrote a file, with the reasons, also in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from tsarchive.operators.registry import listed_versions, minor

from .text import Lines

Writer: TypeAlias = Literal["torch", "tsarchive", "another program"]

# What schemas say of programs that name no version, which torch.export writes since 2.1.
_UNTIL: Final = "<="
_FIRST_EXPORT: Final = "2.1"
# The releases before those whose operators are known.
_OLDER: Final = ("1.0", "1.1", "1.2", "1.3")


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
        if self.first == self.last:
            is_told = f"torch {self.first}" in self.mark
            return self.mark if is_told else f"{self.mark}: only {self.first}"
        return f"{self.mark}: {Span(self.first, self.last)}"


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The releases of torch, such as "2.9", that may have written a file: ``first`` to ``last``.

    ``is_between``: a build between these two wrote it, which follow each other. Both are None where
    marks contradict each other. ``reasons`` are all marks that were found.
    ``writer`` is what packed the records last; the forms in them are still those of a torch.
    ``compiled_first`` and ``compiled_last`` are the releases whose own source lines the debug
    records name: one of them compiled the code, and perhaps another saved it again. None where no
    lines of torch are named.

        >>> with tsarchive.open("net.pt") as archive:
        ...     print(archive.written_by.writer)
        tsarchive
    """

    first: str | None
    last: str | None
    reasons: tuple[Reason, ...]
    writer: Writer = "torch"
    is_between: bool = False
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


class Span(NamedTuple):
    """Releases from ``first`` to ``last``, or what was built between the two."""

    first: str
    last: str
    is_between: bool = False

    def __str__(self) -> str:
        if self.is_between:
            return f"{self.first} and {self.last}"
        return self.first if self.first == self.last else f"{self.first} to {self.last}"


def spans(releases: Iterable[str]) -> str:
    """Return "1.13, 2.4 to 2.9": releases, oldest first, those that follow each other as one."""
    runs: list[list[str]] = []
    for release in releases:
        if runs and _follows(runs[-1][-1], release):
            runs[-1].append(release)
        else:
            runs.append([release])
    return ", ".join(_ends(run[0], run[-1]) for run in runs)


def _ends(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last.rpartition(' ')[2]}"


def _follows(one: str, other: str) -> bool:
    known = listed_versions()
    if one not in known or other not in known:
        return True  # releases of ExecuTorch, all of which are shown
    return known.index(other) == known.index(one) + 1


def common(reasons: Iterable[Reason]) -> Span | None:
    """Return the releases that leave all of these marks; None where marks contradict each other.

    What one release has left off and the next one has not yet begun is of a build between them.
    """
    releases = all_releases()
    first, last = 0, len(releases) - 1
    for reason in reasons:
        first = max(first, releases.index(reason.first))
        last = min(last, releases.index(reason.last))
    if first <= last:
        return Span(releases[first], releases[last])
    return Span(releases[last], releases[first], True) if first == last + 1 else None


def as_told(version: str) -> WrittenBy | None:
    """Return the answer for a file that names the version of its torch, None for an unknown one."""
    release = minor(version.removeprefix(_UNTIL))
    if release not in all_releases():
        return None
    first = _FIRST_EXPORT if version.startswith(_UNTIL) else release
    return WrittenBy(first, release, (Reason(f"it names torch {version}", first, release),))


def surely_differ(found: WrittenBy, other: WrittenBy) -> bool:
    """Return whether no release may have written both."""
    releases = all_releases()
    spans = [_positions(each, releases) for each in (found, other)]
    return None not in spans and not set.intersection(*map(set, filter(None, spans)))


def _positions(found: WrittenBy, releases: Sequence[str]) -> range | None:
    """Return the places of the releases that may have written a file, doubled for those between."""
    if found.first is None or found.last is None:
        return None
    first, last = releases.index(found.first) * 2, releases.index(found.last) * 2
    return range(first + 1, last) if found.is_between else range(first, last + 1)


def written_lines(found: WrittenBy) -> Lines:
    """Yield the range, then the marks that bound it, or that contradict each other."""
    yield "written by", releases_of(found)
    if found.writer != "torch":
        yield "", f"packed by {found.writer}"
    for reason in _binding(found):
        yield "", str(reason)
    if found.compiled_first is not None and found.compiled_last is not None:
        yield "compiled by", f"torch {Span(found.compiled_first, found.compiled_last)}"


def releases_of(found: WrittenBy) -> str:
    """Return the releases in words: ``torch 2.1 to 2.4``."""
    if found.first is None or found.last is None:
        return "no torch that is known: marks contradict each other"
    range_ = Span(found.first, found.last, found.is_between)
    if found.is_between:
        return f"a build of torch between {range_}"
    is_open = found.last == all_releases()[-1] and found.first != found.last
    return f"torch {range_}{' or later' if is_open else ''}"


def _binding(found: WrittenBy) -> list[Reason]:
    """Return the marks that decide: one of the latest first release, one of the earliest last."""
    releases = all_releases()
    lower = max(found.reasons, key=lambda reason: releases.index(reason.first), default=None)
    upper = min(found.reasons, key=lambda reason: releases.index(reason.last), default=None)
    deciding = [r for r in (lower, upper) if r and (r.first, r.last) != (releases[0], releases[-1])]
    return [*dict.fromkeys(deciding)]
