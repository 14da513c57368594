"""Surveys: every file is reported, what has not changed is not read again, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

import tsarchive
from tests.support.archives import ROOT
from tests.support.survey_readers import plain_row
from tests.support.surveys import listed_names, mixed, reading_by
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.surveying import running, surveys
from tsarchive.surveying.listing import listed
from tsarchive.surveying.reading import Aspects, surveyed

PLAIN = "plain_row"


def put(folder, *names):
    listed_names(folder, list(names))


def survey(folder, out, **options):
    """Survey a folder without Dask, and return what the run did, as numbers."""
    found = tsarchive.survey(folder, out, workers=0, **options)
    now = found.progress
    return now.found, now.unchanged, now.done


def paths(out) -> list[str]:
    return [row.path for row in tsarchive.Dataset(out).files()]


def test_every_file_of_a_folder_is_reported(tmp_path):
    folder = mixed(tmp_path / "models")
    tsarchive.survey(folder, tmp_path / "out", workers=0)
    expected = {file.path: surveyed(file, Aspects()) for file in listed(str(folder))}
    found = {each.file.path: each for each in tsarchive.Dataset(tmp_path / "out").surveyed()}
    assert found == expected
    statuses = Counter(each.file.status for each in found.values())
    assert {"read", "refused", "foreign"} == statuses.keys()


def test_what_has_not_changed_is_not_read_again(tmp_path):
    folder, out = tmp_path / "models", tmp_path / "out"
    folder.mkdir()
    put(folder, "a.pt", "b.pt", "c.pt")
    with reading_by(PLAIN):
        assert survey(folder, out) == (3, 0, 3)
        assert survey(f"{folder}/", out) == (3, 3, 0)
        (folder / "a.pt").unlink()
        put(folder, "d.pt")
        os.utime(folder / "b.pt", ns=(1, 1))
        (folder / "c.pt").write_bytes(b"another size")
        assert survey(folder, out) == (3, 0, 3)
        assert survey(folder, out) == (3, 3, 0)
    assert paths(out) == ["b.pt", "c.pt", "d.pt"]
    found = [*tsarchive.Dataset(out).surveyed()]
    assert found == [plain_row(f, Aspects()) for f in sorted(listed(str(folder)), key=_path)]


def _path(file):
    return file.path


def test_roots_that_are_not_named_keep_their_rows(tmp_path):
    out, roots = tmp_path / "out", [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
        put(root, "a.pt", "b.pt")
    with reading_by(PLAIN):
        assert survey(roots, out) == (4, 0, 4)
        (roots[1] / "a.pt").unlink()
        (roots[0] / "a.pt").unlink()
        (roots[0] / "b.pt").unlink()
        assert survey(roots[1:], out) == (1, 1, 0)
        assert paths(out) == ["a.pt", "b.pt", "b.pt"]
        assert survey(roots[:1], out) == (0, 0, 0)
    assert [row.root for row in tsarchive.Dataset(out).files()] == [str(roots[1])]


def test_files_that_are_not_named_keep_their_rows(tmp_path):
    """A file is its own root: files that are named later take no others away."""
    out, names = tmp_path / "out", ["a.pt", "b.pt", "c.pt"]
    put(tmp_path, *names)
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'c.pt'}\n")
    with reading_by(PLAIN):
        survey(tmp_path / "a.pt", out)
        survey(tmp_path / "b.pt", out)
        survey((), out, lists=[tmp_path / "list.txt"])
    assert paths(out) == [str(tmp_path / name) for name in names]


def test_a_file_that_became_a_folder_loses_its_row(tmp_path):
    out, name = tmp_path / "out", tmp_path / "model.pt"
    put(tmp_path, "model.pt")
    with reading_by(PLAIN):
        survey(name, out)
        name.unlink()
        name.mkdir()
        put(name, "a.pt")
        survey(name, out)
    assert paths(out) == ["a.pt"]


def test_a_folder_is_one_root_however_it_is_spelled(tmp_path, monkeypatch):
    out, folder = tmp_path / "out", tmp_path / "models"
    folder.mkdir()
    put(folder, "a.pt", "b.pt")
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    with reading_by(PLAIN):
        assert survey("models", out) == (2, 0, 2)
        for same in ("./models/", folder, "link", "link/../models"):
            assert survey(same, out) == (2, 2, 0)
        (tmp_path / "list.txt").write_text(f"# comment\n\n  # another\n{folder}\n")
        (folder / "a.pt").unlink()
        assert survey((), out, lists=["list.txt"]) == (1, 1, 0)
    assert [(row.root, row.path) for row in tsarchive.Dataset(out).files()] == [("models", "b.pt")]


def test_roots_are_forgotten(tmp_path):
    out = tmp_path / "out"
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        put(tmp_path / name, "a.pt")
    put(tmp_path, "single.pt")
    with reading_by(PLAIN):
        survey([tmp_path / "first", tmp_path / "second", tmp_path / "single.pt"], out)
    found = tsarchive.Survey.of(out).forget(f"{tmp_path}/./first/", tmp_path / "single.pt")
    assert [row.root for row in found.dataset.files()] == [str(tmp_path / "second")]
    for unknown in ("first", "second/a.pt"):
        with pytest.raises(CallError, match="no root"):
            tsarchive.Survey.of(out).forget(tmp_path / unknown)
    assert paths(out) == ["a.pt"]


def test_nothing_is_left_where_a_root_is_not_there(tmp_path):
    (tmp_path / "there").mkdir()
    put(tmp_path, "a.pt")
    for out in (tmp_path / "new", tmp_path / "there"):
        with pytest.raises(FileNotFoundError):
            survey([tmp_path / "a.pt", tmp_path / "nonexistent"], out)
        with pytest.raises(FileNotFoundError):
            survey("a\0b", out)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["a.pt", "there"]
    with reading_by(PLAIN):
        survey(tmp_path / "a.pt", tmp_path / "new")
    with pytest.raises(FileNotFoundError):
        survey(tmp_path / "nonexistent", tmp_path / "new")
    assert paths(tmp_path / "new") == [str(tmp_path / "a.pt")]


def test_files_of_a_size_that_is_not_told_are_read_once(tmp_path, monkeypatch):
    """Their version is told, as by servers that send an ETag and no length."""

    def untold(name, **options):
        return [replace(file, nbytes=None) for file in listed(name, **options)]

    put(tmp_path, "a.pt")
    monkeypatch.setattr(surveys, "listed", untold)
    with reading_by("measured_row"):
        assert survey(tmp_path, tmp_path / "out") == (1, 0, 1)
        assert survey(tmp_path, tmp_path / "out") == (1, 1, 0)
        (tmp_path / "a.pt").write_bytes(b"another version")
        os.utime(tmp_path / "a.pt", ns=(1, 1))
        assert survey(tmp_path, tmp_path / "out") == (1, 0, 1)


def test_files_and_lists_are_roots(tmp_path):
    put(tmp_path, "a.pt", "b.pt")
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'b.pt'}\n{tmp_path / 'gone.pt'}\n")
    options = {"lists": [tmp_path / "list.txt"], "compat": False}
    assert survey(tmp_path / "a.pt", tmp_path / "out", **options) == (3, 0, 3)
    rows = {row.path: row for row in tsarchive.Dataset(tmp_path / "out").files()}
    assert {row.root for row in rows.values()} == {""}
    assert rows[str(tmp_path / "gone.pt")].status == "failed"


def test_files_that_could_not_be_read_are_tried_again(tmp_path):
    put(tmp_path, "a.pt")
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'a.pt'}\n{tmp_path / 'late.pt'}\n")
    options = {"lists": [tmp_path / "list.txt"]}
    assert survey((), tmp_path / "out", **options) == (2, 0, 2)
    put(tmp_path, "late.pt")
    assert survey((), tmp_path / "out", **options) == (2, 1, 1)
    assert survey((), tmp_path / "out", **options) == (2, 2, 0)


def test_files_that_ended_their_process_are_tried_again_where_asked(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    put(folder, "a.pt", "exit.pt")
    with reading_by("dangerous"):
        assert survey(folder, tmp_path / "out") == (2, 0, 2)
        assert survey(folder, tmp_path / "out") == (2, 2, 0)
        assert survey(folder, tmp_path / "out", retry=True) == (2, 1, 1)
    statuses = [row.status for row in tsarchive.Dataset(tmp_path / "out").files()]
    assert statuses == ["read", "crashed"]


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    put(tmp_path, "a.pt")
    with reading_by(PLAIN):
        roots = [tmp_path, f"{tmp_path}/", tmp_path, tmp_path / "a.pt"]
        assert survey(roots, tmp_path / "out") == (1, 0, 1)
        assert paths(tmp_path / "out") == ["a.pt"]


def test_the_dataset_itself_is_not_surveyed(tmp_path):
    put(tmp_path, "a.pt")
    with reading_by(PLAIN):
        for _ in range(2):
            found, _, _ = survey(tmp_path, tmp_path / "out", all_files=True)
    assert found == 1


def test_a_survey_that_is_interrupted_goes_on(tmp_path):
    folder, out = tmp_path / "models", tmp_path / "out"
    folder.mkdir()
    put(folder, *(f"{number}.pt" for number in range(8)))

    def step(now):
        if now.done == 5:
            raise KeyboardInterrupt

    with reading_by(PLAIN):
        with pytest.raises(KeyboardInterrupt):
            survey(folder, out, step=step)
        assert len(paths(out)) == 5
        assert survey(folder, out) == (8, 5, 3)
    assert paths(out) == [f"{number}.pt" for number in range(8)]


_KILLED = """
import sys
from tests.support.surveys import reading_by
import tsarchive

def step(now):
    print(now.done, flush=True)

with reading_by("plain_row"):
    tsarchive.survey(sys.argv[1], sys.argv[2], workers=0, step=step)
"""


@pytest.mark.long("test_a_survey_that_is_interrupted_goes_on")
def test_a_survey_that_is_killed_goes_on(tmp_path):
    folder, out = tmp_path / "models", tmp_path / "out"
    folder.mkdir()
    put(folder, *(f"{number:04}.pt" for number in range(400)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-c", _KILLED, str(folder), str(out)]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        done = next(int(line) for line in killed.stdout if int(line) >= 50)
        killed.send_signal(signal.SIGKILL)
    kept = len(paths(out))
    assert done <= kept <= 400
    with reading_by(PLAIN):
        assert survey(folder, out) == (400, kept, 400 - kept)
    assert len(paths(out)) == 400


def test_progress_tells_of_all_files(tmp_path):
    put(tmp_path, "a.pt", "b.pt")
    told = []
    with reading_by(PLAIN):
        survey(tmp_path, tmp_path / "out", step=told.append)
        survey(tmp_path, tmp_path / "out", step=told.append)
    steps = [(now.found, now.unchanged, now.done, now.left, now.is_listed) for now in told]
    assert steps == [
        (1, 0, 0, 1, False), (2, 0, 0, 2, False), (2, 0, 0, 2, True), (2, 0, 1, 1, True),
        (2, 0, 2, 0, True), (1, 1, 0, 0, False), (2, 2, 0, 0, False), (2, 2, 0, 0, True),
    ]  # fmt: skip


def test_arguments_that_contradict_each_other_are_refused(tmp_path):
    for options in ({"workers": -1}, {"workers": 2, "scheduler": "tcp://localhost:1"}):
        with pytest.raises(CallError):
            tsarchive.survey(tmp_path, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_workers_take_dask(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "find_spec", lambda name: None)
    put(tmp_path, "a.pt")
    for options in ({}, {"workers": 2}, {"scheduler": "tcp://localhost:1"}):
        with pytest.raises(UnsupportedError, match="dask") as raised:
            tsarchive.survey(tmp_path, tmp_path / "out", **options)
        assert "tsarchive[survey]" in (raised.value.hint or "")


def test_aspects_are_kept_with_the_rows(tmp_path):
    put(tmp_path, "a.pt")
    survey(tmp_path, tmp_path / "out", weights=False)
    index = json.loads((tmp_path / "out" / "survey.json").read_text())
    assert index["aspects"]["weights"] is False
    assert index["aspects"]["tsarchive"] == tsarchive.__version__
    with pytest.raises(CallError, match="weights False, not True"):
        survey(tmp_path, tmp_path / "out")
