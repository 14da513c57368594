"""Two ways to stdout and stderr: the package writes as it is, everything else past escapes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from tsarchive.describing.text import LAYOUT, visible


class Guarded:
    """Stands in for a stream, and escapes control characters in the text written to it.

    Models print and warn, errors and tracebacks quote them, and click repeats file names. The
    package itself writes to ``own``; the text of others goes to ``beneath``, nowhere if None.
    """

    def __init__(self, own: TextIO, beneath: TextIO | None) -> None:
        self.own = own
        self._beneath = beneath

    def write(self, text: str) -> int:
        if self._beneath is not None:
            self._beneath.write(encodable(visible(text, keep=LAYOUT), self._beneath))
        return len(text)

    @property
    def encoding(self) -> str:
        return self.own.encoding

    @property
    def errors(self) -> str | None:
        return self.own.errors

    def flush(self) -> None:
        for stream in (self._beneath, self.own):
            if stream is not None:
                stream.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.own.isatty()

    def fileno(self) -> int:
        return self.own.fileno()


def own_stream(*, stderr: bool = False) -> TextIO | None:
    """Where the package writes text whose escapes and styles are its own; None if it is closed."""
    stream = sys.stderr if stderr else sys.stdout
    return stream.own if isinstance(stream, Guarded) else stream


def encodable(text: str, stream: TextIO | None) -> str:
    """The text with escapes in place of characters that the encoding of the stream lacks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def guarded() -> Iterator[None]:
    """Put guards before stdout and stderr, where there is none."""
    with _guard("stdout"), _guard("stderr"):
        yield


@contextmanager
def code_apart() -> Iterator[None]:
    """Let what code of files prints go to stderr, so that stdout has nothing else than results."""
    with _replaced("stdout", own_stream(), own_stream(stderr=True)):
        yield


@contextmanager
def _guard(name: str) -> Iterator[None]:
    stream = getattr(sys, name)
    if stream is None or isinstance(stream, Guarded):
        yield
        return
    with _replaced(name, stream, stream):
        yield


@contextmanager
def _replaced(name: str, own: TextIO | None, beneath: TextIO | None) -> Iterator[None]:
    if own is None:
        yield
        return
    before, guard = getattr(sys, name), Guarded(own, beneath)
    setattr(sys, name, guard)
    try:
        yield
    finally:
        # click puts a stream that nobody reads to rest, which must stay so.
        if getattr(sys, name) is guard:
            setattr(sys, name, before)
