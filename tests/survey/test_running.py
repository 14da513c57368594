"""Rows are the same from one process, from many, and whatever happens to these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tsarchive
from tests.support.survey_readers import plain_row
from tests.support.surveys import listed_names, mixed
from tsarchive.surveying import running
from tsarchive.surveying.child import unread
from tsarchive.surveying.listing import Listed
from tsarchive.surveying.reader import Job
from tsarchive.surveying.reading import Aspects
from tsarchive.surveying.running import local_cluster, read_here, read_on_cluster, tasks_of

KILLING = "tests.support.survey_readers:killing"
needs_dask = pytest.mark.skipif(
    running.find_spec("distributed") is None, reason="dask is not installed"
)


def flat(batches) -> dict[str, object]:
    """All rows by the path of their file; each file has come once."""
    every = [each for some in batches for each in some]
    found = {each.file.path: each for each in every}
    assert len(found) == len(every)
    return found


def expected(files) -> dict[str, object]:
    return {file.path: plain_row(file, Aspects()) for file in files}


def test_tasks_end_where_they_are_large():
    most = running._FILES_IN_TASK
    sizes = [1] * (most + 4) + [running._BYTES_IN_TASK, 1, None, running._BYTES_IN_TASK // 2] * 2
    files = [Listed("", str(number), "", size) for number, size in enumerate(sizes)]
    tasks = [*tasks_of(files)]
    assert [file for some in tasks for file in some] == files
    assert [len(some) for some in tasks] == [most, 5, 4, 3]


def test_files_are_read_one_after_the_other(tmp_path):
    files = listed_names(tmp_path, ["a.pt", "exit.pt", "b.pt"])
    found = [*read_here(files, Job(function="tests.support.survey_readers:dangerous"))]
    told = [[(each.file.path, each.file.status) for each in some] for some in found]
    assert told == [[("a.pt", "read")], [("exit.pt", "crashed")], [("b.pt", "read")]]


def nothing_done(job, files):
    """Rows without reading."""
    return [plain_row(file, job.aspects) for file in files]


@needs_dask
def test_few_files_are_on_their_way_at_a_time():
    """However many there are: what has been taken from the listing and not been given back."""
    from distributed import Client

    taken = given = most = 0

    def files() -> Iterator[Listed]:
        nonlocal taken
        for number in range(5_000):
            taken += 1
            yield Listed("", f"{number}.pt", "", 1)

    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with Client(processes=False, **options) as client:
        for some in read_on_cluster(client, files(), Job(), nothing_done):
            given += len(some)
            most = max(most, taken - given)
    assert given == taken == 5_000
    assert most <= running._FILES_IN_TASK * (running._LEAST_TASKS + 1)


@pytest.mark.long("test_few_files_are_on_their_way_at_a_time")
@needs_dask
def test_rows_are_the_same_from_many_processes(tmp_path):
    folder = mixed(tmp_path / "models", hostile=24)
    found = {}
    for workers in (0, 1, 4):
        out = tmp_path / f"by {workers}"
        tsarchive.survey(folder, out, workers=workers)
        found[workers] = [*tsarchive.Dataset(out).surveyed()]
    assert found[0] == found[1] == found[4]
    assert len(found[0]) == sum(1 for path in folder.rglob("*.pt*"))


@pytest.mark.long("test_few_files_are_on_their_way_at_a_time")
@needs_dask
def test_rows_are_the_same_after_processes_were_killed(tmp_path):
    """Five deaths, each in the middle of a task, as if somebody had killed the process."""
    names = [f"{number:02}.pt" for number in range(40)]
    names += ["die-2-a.pt", "die-1-b.pt", "die-2-c.pt"]
    files = listed_names(tmp_path, sorted(names))
    with local_cluster(2) as client:
        found = flat(read_on_cluster(client, files, Job(function=KILLING)))
    assert found == expected(files)
    assert {path.stem: path.stat().st_size for path in tmp_path.glob("*.met")} == {
        "die-2-a.pt": 3, "die-1-b.pt": 2, "die-2-c.pt": 3,
    }  # fmt: skip


@contextmanager
def processes(deaths: int) -> Iterator[Any]:
    """A cluster of worker processes, in which a task may meet so many deaths."""
    import dask
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": deaths}),
        LocalCluster(processes=True, memory_limit=0, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.long("test_few_files_are_on_their_way_at_a_time")
@needs_dask
def test_rows_are_the_same_after_workers_were_killed(tmp_path):
    files = listed_names(tmp_path, [*(f"{n:02}.pt" for n in range(20)), "kill-2-a.pt"])
    with processes(5) as client:
        found = flat(read_on_cluster(client, files, Job(function=KILLING)))
    assert found == expected(files)


@pytest.mark.long("test_few_files_are_on_their_way_at_a_time")
@needs_dask
def test_what_workers_die_of_each_time_has_crashed(tmp_path):
    """It alone: not what was on the same worker."""
    files = listed_names(tmp_path, ["a.pt", "kill-99-b.pt", "c.pt"])
    with processes(1) as client:
        found = flat(read_on_cluster(client, files, Job(function=KILLING)))
    crashed = unread(files[1], "crashed", running._KILLED)
    assert found == expected(files) | {"kill-99-b.pt": crashed}


@pytest.mark.long("test_few_files_are_on_their_way_at_a_time")
@needs_dask
def test_a_scheduler_has_workers_of_its_own(tmp_path):
    folder = mixed(tmp_path / "models")
    with processes(5) as client:
        address = client.scheduler.address
        tsarchive.survey(folder, tmp_path / "there", scheduler=address)
    tsarchive.survey(folder, tmp_path / "here", workers=0)
    there, here = (tsarchive.Dataset(tmp_path / name).surveyed() for name in ("there", "here"))
    assert [*there] == [*here]
