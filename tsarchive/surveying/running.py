"""Reading many files: in this process one after the other, or on a cluster of Dask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from tsarchive.errors import UnsupportedError

from .child import unread
from .listing import Listed
from .reader import Job, Reader
from .rows import Surveyed

if TYPE_CHECKING:
    from distributed import Client

Task: TypeAlias = Callable[[Job, Sequence[Listed]], Sequence[Surveyed]]

# A task has so many files at most, and ends with the one that makes it so large.
_FILES_IN_TASK: Final = 8
_BYTES_IN_TASK: Final = 64 << 20
_LEAST_TASKS: Final = 4
_KILLED: Final = "the workers that were to read it were killed, again and again"


def read_here(files: Iterable[Listed], job: Job) -> Iterator[Sequence[Surveyed]]:
    """Yield the rows of files, one after the other."""
    with Reader(job) as reader:
        for file in files:
            yield [reader.read(file)]


def read_by_workers(
    files: Iterable[Listed], job: Job, workers: int
) -> Iterator[Sequence[Surveyed]]:
    """Yield the rows of files as so many processes of this machine have read them."""
    with local_cluster(workers) as client:
        yield from read_on_cluster(client, files, job)


def read_by_scheduler(
    files: Iterable[Listed], job: Job, address: str
) -> Iterator[Sequence[Surveyed]]:
    """Yield the rows of files as the workers of a scheduler have read them."""
    _require_dask()
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        yield from read_on_cluster(client, files, job)


@contextmanager
def local_cluster(workers: int) -> Iterator[Client]:
    """Run Dask within this process, with so many threads, each of which reads by a process."""
    _require_dask()
    import logging

    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=workers,
            processes=False,
            memory_limit=0,  # files are read by other processes, which have their own
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        try:
            yield client
        finally:
            while _readers:
                _readers.popitem()[1].close()


def read_on_cluster(
    client: Client, files: Iterable[Listed], job: Job, task: Task | None = None
) -> Iterator[Sequence[Surveyed]]:
    """Yield the rows of files, task by task, as they come from a cluster.

    The cluster knows of few more tasks at a time than it has threads, however many files there are.
    Who is on a worker when it dies is suspected, and after some deaths put off: in the end each of
    these files is read while nothing else is, and has ``crashed`` where workers still die. ``task``
    is what workers do, :func:`read_task` where it is not given.
    """
    from distributed import KilledWorker, as_completed

    work, waiting = task or read_task, tasks_of(files)
    running, known = as_completed(loop=client.loop), dict[str, Sequence[Listed]]()
    suspected: list[Listed] = []
    while True:
        room = max(_LEAST_TASKS, 2 * sum(client.nthreads().values())) - len(known)
        for some in islice(waiting, max(room, 0)):
            future = client.submit(work, job, some, pure=False)
            known[future.key] = some
            running.add(future)
        if not known:
            break
        future = next(running)
        some = known.pop(future.key)
        try:
            yield future.result()
        except KilledWorker:
            suspected += some
    for file in suspected:
        try:
            yield client.submit(work, job, [file], pure=False).result()
        except KilledWorker:
            yield [unread(file, "crashed", _KILLED)]


def tasks_of(files: Iterable[Listed]) -> Iterator[Sequence[Listed]]:
    """Yield the files of each task: some, and fewer where they are large."""
    some: list[Listed] = []
    nbytes = 0
    for file in files:
        some.append(file)
        nbytes += file.nbytes or 0
        if len(some) >= _FILES_IN_TASK or nbytes >= _BYTES_IN_TASK:
            yield some
            some, nbytes = [], 0
    if some:
        yield some


# By the thread that reads with it.
_readers: Final[dict[int, Reader]] = {}


def read_task(job: Job, files: Sequence[Listed]) -> list[Surveyed]:
    """Read the files of a task, by the process that this thread has for it."""
    thread = threading.get_ident()
    reader = _readers.get(thread)
    if reader is None or reader.job != job:
        if reader is not None:
            reader.close()
        _readers[thread] = reader = Reader(job)
    return [*map(reader.read, files)]


def _require_dask() -> None:
    if find_spec("distributed") is None:
        hint = "pip install 'tsarchive[survey]', or read by one process: --workers 0, workers=0"
        raise UnsupportedError("Surveys by workers take dask, which is not installed", hint=hint)
