"""A file elsewhere as a source, of which only what is asked for is fetched."""

from __future__ import annotations

import mmap
import os
import weakref
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Final

from tsarchive.container import caps
from tsarchive.container.faults import Faults
from tsarchive.container.source import Source, Span
from tsarchive.container.traffic import RemoteLimits, Traffic, limits_in_force, watching
from tsarchive.errors import ArchiveError, FormatError, RemoteError
from tsarchive.remote.ranges import Ranges, Tail
from tsarchive.steps import Stage

# Torch writes code, pickles and the directory behind the tensors: mostly this is all of them.
_TAIL_BYTES: Final = 128 << 10
# So much is read before it is written: enough to be asked for in parallel.
_COPIED_BYTES: Final = 64 << 20
# Bytes between two spans that cost less than another request.
_GAP_BYTES: Final = 64 << 10


def copy_whole(ranges: Ranges, path: str) -> None:
    """Write all of a file elsewhere to a path, piece by piece.

    Raises RemoteError where it cannot be read, FormatError where it is too long; OSError where it
    cannot be written.
    """
    tail = _sound_tail(ranges, _TAIL_BYTES)
    rest = tail.size - len(tail.data)
    memory = memoryview(bytearray(min(_COPIED_BYTES, rest)))
    with open(path, "wb") as copy:
        for start in range(0, rest, _COPIED_BYTES):
            piece = memory[: rest - start]
            ranges.read_into([(start, piece)])
            copy.write(piece)
        copy.write(tail.data)


class RangedSource(Source):
    """A file elsewhere: what is asked for is fetched once, and kept in memory of its size.

    Memory that nothing was written to takes no space. The connection is released when all of the
    file is there, or with this object. Where the first request gives all of a file, it is not
    elsewhere any more. Several threads may read at a time.
    """

    def __init__(self, ranges: Ranges) -> None:
        """Take ownership of ``ranges``."""
        self._limits = limits_in_force()
        try:
            tail = _sound_tail(ranges, self._limits.first_of(ranges.name, _TAIL_BYTES))
        except BaseException:
            ranges.close()
            raise
        super().__init__(_private_memory(tail.size) if tail.size else memoryview(b""))
        self._ranges = ranges
        self._release_connection = weakref.finalize(self, ranges.close)
        self._release_connection.atexit = False  # the process lets go of all
        self._present = _Spans()
        self._lock = Lock()
        self._process = os.getpid()
        self._traffic = Traffic(1, len(tail.data))
        self.is_elsewhere = self.is_sparing = len(tail.data) < tail.size
        self._put(tail.size - len(tail.data), tail.data)

    @property
    def data(self) -> mmap.mmap | bytearray | memoryview:
        self.prefetch([Span(0, self.size)])
        return self._data

    @property
    def traffic(self) -> Traffic:
        return self._traffic

    def piece(self, start: int, stop: int) -> memoryview:
        self.prefetch([Span(start, stop)])
        return super().piece(start, stop)

    def memory(self, start: int, stop: int) -> memoryview:
        return super().piece(start, stop)

    def prefetch(self, spans: Iterable[Span]) -> None:
        """Fetch what of these spans is not there yet, merged to few ranges.

        Raises RemoteError where it cannot be had, or this process was forked from the one that
        opened the file; LimitError where it is more than is allowed.
        """
        if os.getpid() != self._process:
            self._require_present(spans)
            return
        with self._lock:
            missing = self._missing(spans)
            if missing:
                self._fetch(missing)

    def expect_all(self) -> None:
        super().expect_all()
        self._limits = RemoteLimits(requests=None, nbytes=None)

    def require_unchanged(self, faults: Faults, *, contents: bool) -> None:
        """Do nothing: every range is of the version that was opened."""

    def let_go(self) -> None:
        """Do nothing: what was fetched is kept."""

    def close(self) -> None:
        self._release_connection()
        super().close()

    def _missing(self, spans: Iterable[Span]) -> list[Span]:
        """Return what to ask for, so that all of these spans are there.

        What is there is not fetched again: its user may have written to it.
        """
        inside = (Span(max(start, 0), min(stop, self.size)) for start, stop in spans)
        gaps = [gap for span in inside for gap in self._present.missing(span)]
        return [gap for span in _merged(gaps) for gap in self._present.missing(span)]

    def _require_present(self, spans: Iterable[Span]) -> None:
        """Raise RemoteError where something of these spans is not there, in a forked process.

        It shares connections and the positions of files with its parent, and has none of its
        threads. One of these may have had the lock.
        """
        if self._missing(spans):
            problem = f"{self._ranges.name} was opened by the process that this one was forked from"
            hint = "Open it in the process that reads it, or load it without lazy=True before"
            raise RemoteError(problem, hint=hint)

    def _fetch(self, missing: Sequence[Span]) -> None:
        if not self._release_connection.alive:
            raise ArchiveError(f"{self._ranges.name} is closed", hint="Open it again")
        self._limits.require(self._ranges.name, self._traffic, _cost(missing))
        step = watching()
        if step is None:
            self._read(missing)
        else:
            for part in _parts(missing):
                share = min(self._traffic.nbytes / self.size, 1)
                step(Stage(f"fetching {self._ranges.name}", share))
                self._read(part)
        if not any(self._present.missing(Span(0, self.size))):
            self._release_connection()

    def _read(self, spans: Sequence[Span]) -> None:
        with memoryview(self._data) as arena:
            self._ranges.read_into([(start, arena[start:stop]) for start, stop in spans])
        self._traffic += _cost(spans)
        for span in spans:
            self._present.add(span)

    def _put(self, start: int, data: bytes | bytearray) -> None:
        if data:
            self._data[start : start + len(data)] = data
            self._present.add(Span(start, start + len(data)))


def _private_memory(size: int) -> mmap.mmap:
    """Return memory that processes forked from this one have copies of, as of a mapped file."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class _Spans:
    """Spans that neither overlap nor touch, in order."""

    def __init__(self) -> None:
        self._spans: list[Span] = []

    def add(self, span: Span) -> None:
        near = self._near(span)
        joined = [span, *self._spans[near]]
        self._spans[near] = [Span(min(s.start for s in joined), max(s.stop for s in joined))]

    def missing(self, span: Span) -> Iterator[Span]:
        """Yield the parts of a span that are in none."""
        at = span.start
        for own in self._spans[self._near(span)]:
            if at < own.start:
                yield Span(at, own.start)
            at = max(at, own.stop)
        if at < span.stop:
            yield Span(at, span.stop)

    def _near(self, span: Span) -> slice:
        """Return where the spans are that overlap or touch one."""
        first = bisect_left(self._spans, span.start, key=lambda own: own.stop)
        last = bisect_left(self._spans, span.stop + 1, lo=first, key=lambda own: own.start)
        return slice(first, last)


def _sound_tail(ranges: Ranges, count: int) -> Tail:
    """Return so much of the end of a file.

    Raises RemoteError, and FormatError for files that are too long.
    """
    tail = ranges.tail(count)
    if tail.size > caps.MAX_COPIED_BYTES:
        problem = f"{ranges.name} has {tail.size:,} bytes, which are not read into memory"
        raise FormatError(problem, limit=caps.MAX_COPIED_BYTES)
    if len(tail.data) > tail.size:
        problem = f"{ranges.name} has {tail.size:,} bytes, and its end {len(tail.data):,}"
        raise RemoteError(problem, hint="The server contradicts itself")
    return tail


def _cost(spans: Sequence[Span]) -> Traffic:
    return Traffic(len(spans), sum(stop - start for start, stop in spans))


def _parts(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield these spans, each part of no more bytes than are copied at once."""
    part: list[Span] = []
    room = _COPIED_BYTES
    for start, stop in spans:
        while start < stop:
            part.append(Span(start, min(stop, start + room)))
            room -= part[-1].stop - start
            start = part[-1].stop
            if not room:
                yield part
                part, room = [], _COPIED_BYTES
    if part:
        yield part


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, as one where another request would cost more than what is between."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start - found[-1].stop <= _GAP_BYTES:
            found[-1] = Span(found[-1].start, max(found[-1].stop, span.stop))
        else:
            found.append(span)
    return found
