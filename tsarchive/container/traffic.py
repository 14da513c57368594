"""How much may be asked of a server to look at a file, and how much was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from tsarchive.errors import LimitError
from tsarchive.steps import Step

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Traffic:
    """What reading a file elsewhere has cost: ranges that were asked for, and their bytes.

    For example:

        >>> with tsarchive.open("net.pt") as archive:
        ...     print(archive.traffic)  # the file is on this machine
        None
    """

    requests: int
    nbytes: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.requests + other.requests, self.nbytes + other.nbytes)


@dataclass(frozen=True, slots=True)
class RemoteLimits:
    """Bounds on what is asked of a server to look at one file; None for no bound.

    ``requests`` counts ranges, ``nbytes`` their bytes. What by its nature reads a whole file, as
    loading and verifying do, is not bound: no byte is asked for twice. Nor is what a server sends
    that knows no ranges, which is all of the file at once. The default is far above
    what listing and reading code take of the largest models.

        >>> tsarchive.RemoteLimits(requests=10, nbytes=2**20).requests
        10
    """

    requests: int | None = 4096
    nbytes: int | None = 512 * _MIB

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Apply these bounds, in this thread or task, to the files that are opened meanwhile."""
        token = _IN_FORCE.set(self)
        try:
            yield
        finally:
            _IN_FORCE.reset(token)

    def first_of(self, name: str, wanted: int) -> int:
        """Return how many bytes of ``wanted`` the first request may ask for.

        Raises LimitError where these bounds allow none.
        """
        allowed = wanted if self.nbytes is None else min(wanted, self.nbytes)
        self.require(name, Traffic(0, 0), Traffic(1, max(allowed, 1)))
        return allowed

    def require(self, name: str, before: Traffic, more: Traffic) -> None:
        """Raise LimitError where a file would cost more than these bounds allow."""
        for what, limit, spent, asked in (
            ("requests", self.requests, before.requests, more.requests),
            ("nbytes", self.nbytes, before.nbytes, more.nbytes),
        ):
            if limit is not None and spent + asked > limit:
                raise _exceeded(name, what, limit, spent, asked)


_WATCHING: Final[ContextVar[Step | None]] = ContextVar("who watches fetching", default=None)


@contextmanager
def watched_by(step: Step) -> Iterator[None]:
    """Tell a function, in this thread or task, how much of files elsewhere has been fetched."""
    token = _WATCHING.set(step)
    try:
        yield
    finally:
        _WATCHING.reset(token)


def watching() -> Step | None:
    """Return what is told of fetching, if anything is."""
    return _WATCHING.get()


_DEFAULT: Final = RemoteLimits()
_IN_FORCE: Final = ContextVar("limits of files elsewhere", default=_DEFAULT)


def limits_in_force() -> RemoteLimits:
    """Return the bounds for a file that is opened now."""
    return _IN_FORCE.get()


def _exceeded(name: str, what: str, limit: int, spent: int, asked: int) -> LimitError:
    noun = "requests" if what == "requests" else "bytes"
    message = f"{name} has cost {spent:,} {noun}, and {asked:,} more are asked for"
    enough = f"tsarchive.RemoteLimits({what}={spent + asked}).in_force()"
    return LimitError(
        message, limit=limit, hint=f"Download the file, or allow more of it: with {enough}: ..."
    )
