"""Writing to a path: all of it or nothing, with the right permissions."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from tsarchive.container import Container, NewRecord, write_container
from tsarchive.errors import SaveError

POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions and pipes are those of POSIX")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def failing_records():
    yield NewRecord("data/0", b"x" * 100_000)
    raise RuntimeError("the module went away")


@pytest.mark.parametrize("existing", [None, b"an older archive"])
def test_after_an_error_everything_is_as_it_was(tmp_path, existing):
    path = tmp_path / "net.pt"
    if existing is not None:
        path.write_bytes(existing)
    with pytest.raises(RuntimeError, match="went away"):
        write_container(path, failing_records())
    assert (path.read_bytes() if path.exists() else None) == existing
    assert len(list(tmp_path.iterdir())) == (existing is not None)


def test_a_refused_record_leaves_nothing_behind(tmp_path):
    with pytest.raises(SaveError):
        write_container(tmp_path / "net.pt", [NewRecord("ok", b"1"), NewRecord("..", b"2")])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_rename_leaves_nothing_behind(tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError("in use")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        write_container(tmp_path / "net.pt", [NewRecord("a", b"1")])
    assert list(tmp_path.iterdir()) == []


def test_an_older_file_is_replaced(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(b"x" * 1_000_000)
    write_container(path, [NewRecord("a", b"1")])
    with Container.open(path) as container:
        assert container.read("a") == b"1"
    assert [entry.name for entry in tmp_path.iterdir()] == ["net.pt"]


def test_an_archive_may_replace_the_one_it_is_copied_from(tmp_path):
    path = tmp_path / "net.pt"
    write_container(path, [NewRecord("a", b"1" * 10_000), NewRecord("b", b"2")])
    with Container.open(path) as container:
        view = container.view("a")
        write_container(path, [NewRecord("b", b"3"), NewRecord("a", view)])
        assert container.read("b") == b"2"
    with Container.open(path) as container:
        assert container.read("a") == view == b"1" * 10_000


@POSIX
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_that_open_gives(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_container(tmp_path / "net.pt", [])
        (tmp_path / "plain").write_bytes(b"")
    finally:
        os.umask(before)
    assert mode(tmp_path / "net.pt") == mode(tmp_path / "plain")


@POSIX
@pytest.mark.parametrize("kept", [0o600, 0o644, 0o666, 0o755])
def test_an_older_file_keeps_its_mode(tmp_path, kept):
    path = tmp_path / "net.pt"
    path.write_bytes(b"")
    path.chmod(kept)
    write_container(path, [])
    assert mode(path) == kept


@POSIX
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_stays_one(tmp_path, exists):
    (tmp_path / "models").mkdir()
    target, link = tmp_path / "models" / "v1.pt", tmp_path / "net.pt"
    if exists:
        target.write_bytes(b"old")
    link.symlink_to(target)
    write_container(link, [NewRecord("a", b"1")])
    assert link.is_symlink()
    assert [entry.name for entry in target.parent.iterdir()] == ["v1.pt"]
    with Container.open(target) as container:
        # The name that was asked for counts, not the one behind the link.
        assert container.root == "net"


@POSIX
def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "net.pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_container(pipe, [NewRecord("a", b"1")])
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_container(tmp_path / "net.pt", [NewRecord("a", b"1")])
    assert received == [(tmp_path / "net.pt").read_bytes()]


def test_a_folder_cannot_be_a_target(tmp_path):
    (tmp_path / "net.pt").mkdir()
    with pytest.raises(OSError, match=r"net\.pt"):
        write_container(tmp_path / "net.pt", [])
    with pytest.raises(FileNotFoundError):
        write_container(tmp_path / "absent" / "net.pt", [])


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "missing" / "net.pt"
    with pytest.raises(FileNotFoundError) as caught:
        write_container(path, [])
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("target", [None, 5, b"net.pt"])
def test_a_target_that_is_neither_path_nor_file_is_refused(target):
    with pytest.raises(SaveError, match="neither a path nor a file object"):
        write_container(target, [])
