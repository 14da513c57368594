"""A file of ExecuTorch as a container whose records are its parts, uncopied.

A program has ``header``, ``program`` (the tables, with everything before them), ``segments/N`` and
``named_data/KEY``, inline blobs as ``constants/N`` and ``delegates/N``; a data file has ``tables``
in place of ``program``; a bundle has ``program``, which is a whole .pte file, the parts of that
below ``program/``, and the tensors of its calls below ``test_suites/``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from tsarchive.container import Record
from tsarchive.container.faults import STRICT
from tsarchive.container.layout import STORED
from tsarchive.container.source import Closing, Source, Span
from tsarchive.errors import ArchiveError, MissingRecordError, UnsupportedError

from .content import (
    BUNDLE,
    PROGRAM_PREFIX,
    BundledProgram,
    Content,
    DataFile,
    Entry,
    Program,
    Segment,
    first_by_key,
)
from .header import AT, BPTE, PTD, PTE

if TYPE_CHECKING:
    from tsarchive.container.traffic import Traffic


class Regions(Closing):
    """An opened file. ``kind`` is ``pte``, ``ptd`` or ``bpte``.

    Raises FormatError and UnsupportedError when header or root break a rule.
    """

    def __init__(self, source: Source, kind: str) -> None:
        self._source: Source | None = source
        self.kind = kind
        self._content: Content = _READERS[kind](self.source)

    @property
    def content(self) -> Content:
        """The decoded file.

        Raises ArchiveError when the file is closed, FormatError when it was written to since.
        """
        _ = self.source
        return self._content

    @property
    def program(self) -> Program | None:
        """The program, also that in a bundle; None for data files."""
        if isinstance(self.content, BundledProgram):
            return self.content.program
        return self.content if isinstance(self.content, Program) else None

    def require_program(self) -> Program:
        """Return the program. Raises UnsupportedError for data files."""
        found = self.program
        if found is None:
            raise UnsupportedError(
                "a data file has no program", hint="Give the .pte file that it belongs to"
            )
        return found

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """Parts by name, in file order where they have one.

        Raises FormatError and LimitError where tables that name them break a rule.
        """
        return {
            name: Record(name, size, size, STORED, None, self._offset)
            for name, (_, size) in self._regions.items()
        }

    @property
    def nbytes(self) -> int:
        """The size of the file in bytes."""
        return self.source.size

    @property
    def traffic(self) -> Traffic | None:
        """What reading has cost so far, where the file is elsewhere."""
        return self.source.traffic

    def read(self, name: str) -> bytes:
        """Return a copy of the bytes of a part. Raises MissingRecordError when there is none."""
        return bytes(self.view(name))

    def view(self, name: str) -> memoryview:
        """Return the bytes of a part, not copied; writing to them does not change the file.

        Raises MissingRecordError when there is no such part, FormatError when the file was written
        to since it was opened.
        """
        return self.start_of(name, self._region(name).size)

    def start_of(self, name: str, size: int) -> memoryview:
        """Return the first bytes of a part, at most so many, as ``view`` does."""
        place = self._region(name)
        return self.source.piece(place.start, place.start + min(size, place.size))

    def prefetch_starts(self, names: Iterable[str], size: int) -> None:
        """Get the first bytes of parts at once, where the file is elsewhere."""
        places = map(self._region, names)
        self.source.prefetch(Span(start, start + min(size, of_all)) for start, of_all in places)

    def buffer(self) -> memoryview:
        """The bytes of the whole file.

        Raises ArchiveError when it is closed, FormatError when it was written to since.
        """
        return memoryview(self.source.data)

    @property
    def source(self) -> Source:
        """The bytes of the file. Raises what ``buffer`` raises."""
        if self._source is None:
            raise ArchiveError("the file is closed", hint="Open it again")
        self._source.require_unchanged(STRICT, contents=True)
        return self._source

    def close(self) -> None:
        """Release the file. Views handed out stay valid and keep what they need of it."""
        source, self._source = self._source, None
        if source is not None:
            del self._content
            source.close()

    @cached_property
    def _regions(self) -> dict[str, Segment]:
        return first_by_key(_parts(self.content))

    def _region(self, name: str) -> Segment:
        found = self._regions.get(name)
        if found is None:
            raise MissingRecordError("the file has no such part", record=name)
        return found

    def _offset(self, name: str) -> int:
        return self._region(name).start


def opened_regions(source: Source, kind: str) -> Regions:
    """Open the file in these bytes, which are released when it cannot be opened."""
    try:
        return Regions(source, kind)
    except BaseException:
        source.close()
        raise


_Parts = Iterator[tuple[str, Segment]]


def _numbered(folder: str, regions: Iterable[Segment]) -> _Parts:
    for number, region in enumerate(regions):
        yield f"{folder}/{number}", region


def _named(prefix: str, entries: Iterable[Entry], segments: Sequence[Segment]) -> _Parts:
    """Yield the bytes of keys, without those that are not in their segment."""
    for entry in entries:
        if 0 <= entry.segment < len(segments):
            start, size = segments[entry.segment]
            nbytes = size if entry.layout is None else entry.layout.nbytes
            if entry.offset + nbytes <= size:
                yield f"{prefix}named_data/{entry.key}", Segment(start + entry.offset, nbytes)


_READERS: Final = {PTE: Program, PTD: DataFile, BPTE: BundledProgram}


def _parts(content: Content) -> _Parts:
    if isinstance(content, BundledProgram):
        program = content.program
        yield BUNDLE, Segment(0, content.source.size)
        yield PROGRAM_PREFIX.rstrip("/"), Segment(program.start, program.source.size)
        yield from _parts(program)
        for name, tensor in content.tensors():
            yield name, Segment(tensor.start, len(tensor.data))
        return
    prefix, start, size = content.prefix, content.start, content.source.size
    if content.header is not None:
        yield f"{prefix}header", Segment(start + AT, content.header.length)
        size = content.header.tables_size
    yield content.record, Segment(start, size)
    segments = _moved(content.segments, start)
    yield from _numbered(f"{prefix}segments", segments)
    yield from _named(prefix, content.entries, segments)
    if isinstance(content, Program):
        yield from _numbered(f"{prefix}constants", _moved(content.inline_constants, start))
        yield from _numbered(f"{prefix}delegates", _moved(content.inline_delegates, start))


def _moved(places: Iterable[Segment], start: int) -> list[Segment]:
    return [Segment(start + begin, size) for begin, size in places]


class Unclaimed(NamedTuple):
    """Bytes from ``start`` in the file on, not all zero. ``is_rest``: up to the end of the file."""

    start: int
    data: memoryview
    is_rest: bool


def find_unclaimed(content: Content) -> Iterator[Unclaimed]:
    """Yield bytes behind the tables of a file that are in no segment, and are not padding.

    Of a bundle, those behind its own tables and those in its program. Raises FormatError and
    LimitError where the tables break a rule.
    """
    if isinstance(content, BundledProgram):
        yield from _between(content.source, content.tables_end, (), 0)
        yield from find_unclaimed(content.program)
    else:
        yield from _between(content.source, content.tables_end, content.segments, content.start)


def _between(
    source: Source, end: int, segments: tuple[Segment, ...], start: int
) -> Iterator[Unclaimed]:
    gaps = [*_gaps(end, (*sorted(segments), Segment(source.size, 0)))]
    source.prefetch(gaps)
    for begin, stop in gaps:
        gap = source.piece(begin, stop)
        if bytes(gap).strip(b"\0"):
            yield Unclaimed(start + begin, gap, is_rest=stop == source.size)


def _gaps(end: int, segments: Iterable[Segment]) -> Iterator[Span]:
    """Yield what is between segments, the first of which begins behind ``end``."""
    for start, size in segments:
        if end < start:
            yield Span(end, start)
        end = max(end, start + size)
