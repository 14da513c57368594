"""The verb: survey folders, buckets, files and lists, or go on with a survey."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from hashlib import blake2b
from itertools import chain
from typing import IO, Final, Literal, TypeAlias

from tsarchive.errors import CallError
from tsarchive.steps import no_step

from .dataset import Dataset, DatasetWriter
from .listing import Listed, RootNames, is_elsewhere, listed, name_of, named_in
from .reader import Job
from .reading import Aspects
from .results import Progress, Survey
from .rows import FileRow, Status, Surveyed
from .running import read_by_scheduler, read_by_workers, read_here

_PACKAGE: Final = "tsarchive"  # not imported: it imports this module
DEFAULT_SECONDS: Final = 600.0
"""The time that a file may take where nobody says otherwise."""
# Bytes that could not be had may be there by the next run.
_AGAIN: Final[frozenset[Status]] = frozenset({"failed"})
_ENDED: Final[frozenset[Status]] = frozenset({"crashed", "timeout"})


Root: TypeAlias = str | os.PathLike[str]


def survey(
    roots: Root | Sequence[Root],
    out: str | os.PathLike[str],
    *,
    lists: Sequence[Root] = (),
    all_files: bool = False,
    digest: bool = True,
    fingerprint: bool = True,
    weights: bool = True,
    verify: bool = True,
    audit: bool = True,
    compat: bool = True,
    workers: int | None = None,
    scheduler: str | None = None,
    seconds: float | None = DEFAULT_SECONDS,
    memory: int | None = None,
    retry: bool = False,
    format: Literal["parquet", "jsonl"] | None = None,
    step: Callable[[Progress], None] | None = None,
) -> Survey:
    """Survey all files of folders, buckets and lists: a row for each file and each finding.

    ``roots`` are folders with all that is below them, files, or URLs of either; ``lists`` are text
    files that name roots, one a line. Of folders, files with the suffixes of models are read, or
    ``all_files``. ``digest`` (SHA-256 of the file), ``fingerprint``, with ``weights`` or without,
    ``verify``, ``audit`` and ``compat`` are what is asked of each file. Nothing of a file runs.

    The dataset is written to the folder ``out``, as Parquet where pyarrow is installed, else as
    JSON lines, or in the ``format`` that is named. Where it has a survey of the same aspects, that
    is gone on with: files of the same size and version (ETag or modification time) are not read
    again, those that are gone lose their rows, and rows of roots that are not named now stay. A
    file that several roots have is one of the first. A process that ends early loses the files that
    were being read. ``retry`` also reads again what crashed or took too long before; what could not
    be read at all is always tried again.

    Files are read by ``workers`` processes, one for each processor by default, which Dask gives
    their work, or by those of the ``scheduler`` at an address: each of its threads starts one. With
    0 workers, one process reads one file after the other, without Dask. A process may die of a
    file, whose row tells so after several tries. One that takes longer than ``seconds`` or more
    than ``memory`` bytes for a file is ended.

    ``step`` is called with the progress, often.

    Raises OSError for a root, a list or ``out`` that cannot be used; CallError for arguments that
    contradict each other or the survey in ``out``, for a URL as ``out``, or for a folder to which
    another survey is being written; UnsupportedError where a package is missing.

        >>> survey = tsarchive.survey("net.pt", "survey", workers=0, format="jsonl")
        >>> survey.summary().files
        1
    """
    step = step or no_step
    aspects = Aspects(digest, fingerprint, weights, verify, audit, compat)
    job = Job(aspects, seconds, memory)
    job.require()
    if workers is not None and (workers < 0 or scheduler is not None):
        hint = "Give the number of workers, or the address of a scheduler that has workers"
        raise CallError("there are no such workers", hint=hint)
    given = [roots] if isinstance(roots, str | os.PathLike) else [*roots]
    asked = asdict(aspects) | {"tsarchive": sys.modules[_PACKAGE].__version__}
    with DatasetWriter(out, asked, format) as writer, tempfile.TemporaryFile() as spool:
        listing = _Listing(spool, os.path.abspath(out), writer.dataset, retry=retry)
        try:
            listing.take(given, lists, all_files=all_files, step=step)
        except BaseException:
            writer.withdraw()
            raise
        progress = listing.progress
        step(progress)
        with closing(_read(listing.files(), job, workers, scheduler)) as read:
            for rows in read:
                writer.add(rows)
                progress = replace(progress, done=progress.done + len(rows))
                step(progress)
        writer.finish(listing.has)
        return Survey(writer.dataset, progress)


def _read(
    files: Iterator[Listed], job: Job, workers: int | None, scheduler: str | None
) -> Generator[Sequence[Surveyed], None, None]:
    first = next(files, None)
    if first is None:
        return  # no process is started for nothing
    todo = chain([first], files)
    if scheduler is not None:
        yield from read_by_scheduler(todo, job, scheduler)
    elif workers == 0:
        yield from read_here(todo, job)
    else:
        yield from read_by_workers(todo, job, workers or os.cpu_count() or 1)


class _Listing:
    """The files of a survey; those that are to be read stand in a file, and not in memory."""

    def __init__(self, spool: IO[bytes], out: str, before: Dataset, *, retry: bool) -> None:
        self.progress = Progress()
        self._spool = spool
        self._out = os.path.join(out, "")
        again = _AGAIN | (_ENDED if retry else frozenset())
        self._known: dict[bytes, int | None] = {}
        self._names = RootNames()
        for row in before.files():
            self._names.of(row.root)
            if row.status not in again:
                self._known[_state(row)] = row.nbytes
        self._found: set[bytes] = set()
        self._places: set[bytes] = set()
        self._roots: set[str] = set()

    def take(
        self,
        roots: Sequence[Root],
        lists: Sequence[Root],
        *,
        all_files: bool,
        step: Callable[[Progress], None],
    ) -> None:
        """List all files. Raises OSError for a root or list that cannot be read."""
        names = [os.fspath(root) for root in roots]
        self._roots.update(self._names.of(name_of(name)) for name in names)
        found = (listed(name, all_files=all_files) for name in names)
        named = (named_in(os.fspath(each), all_files=all_files) for each in lists)
        for file in chain.from_iterable(chain(found, named)):
            self._take(file)
            step(self.progress)
        self.progress = replace(self.progress, is_listed=True)

    def files(self) -> Iterator[Listed]:
        """Yield the files that are to be read."""
        self._spool.seek(0)
        for line in self._spool:
            yield Listed(**json.loads(line))

    def has(self, row: FileRow) -> bool:
        """Return whether a row is of a file that is there, or of no root that was listed."""
        listed = row.root or row.path  # a single file is its own root
        return listed not in self._roots or _digest(row.root, row.path) in self._found

    def _take(self, file: Listed) -> None:
        file = replace(file, root=self._names.of(file.root))
        place = file.place if is_elsewhere(file.place) else os.path.abspath(file.place)
        name, where = _digest(file.root, file.path), _digest(place)
        if name in self._found or where in self._places or place.startswith(self._out):
            return
        self._found.add(name)
        self._places.add(where)
        self._roots.add(file.root or file.path)
        is_known = self._is_known(file)
        now = self.progress
        self.progress = replace(now, found=now.found + 1, unchanged=now.unchanged + is_known)
        if not is_known:
            self._spool.write(json.dumps(asdict(file)).encode() + b"\n")

    def _is_known(self, file: Listed) -> bool:
        """Return whether there is a row of this version of a file, and of this size if told."""
        state = _state(file)
        if file.version is None or state not in self._known:
            return False
        return file.nbytes in (None, self._known[state])


def _state(file: Listed | FileRow) -> bytes:
    return _digest(file.root, file.path, str(file.version))


def _digest(*texts: str) -> bytes:
    return blake2b(json.dumps(texts).encode(), digest_size=16).digest()
