"""The folder of the cache: whole entries of the right key, of this user alone, and not too many."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from tests.support.command_line import document, run
from tsarchive.caching import CacheFolder, State, cache_folder
from tsarchive.caching import folder as folders

KEY, OTHER = bytes(range(32)), bytes(32)
CONTENT = b"content " * 100

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")


@pytest.fixture
def folder(tmp_path) -> CacheFolder:
    made = CacheFolder(tmp_path / "a" / "cache")
    assert made.state() is State.ABSENT
    assert made.write(KEY, CONTENT)
    return made


def file_of(folder, key=KEY):
    return folder.path / f"{key.hex()}.code"


def test_what_is_written_is_read(folder):
    assert folder.read(KEY) == CONTENT
    assert folder.read(OTHER) is None
    assert folder.write(KEY, b"")
    assert folder.read(KEY) == b""
    assert [entry.path for entry in folder.entries()] == [file_of(folder)]


@posix
def test_the_folder_and_its_files_are_this_users_alone(folder):
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(file_of(folder).stat().st_mode) == 0o600


@pytest.mark.whole
@pytest.mark.parametrize("position", [0, 8, 16, 40, 48, 79, 80, 81, 200, -1])
def test_a_changed_byte_is_no_entry(folder, position):
    data = bytearray(file_of(folder).read_bytes())
    data[position] ^= 1
    file_of(folder).write_bytes(data)
    assert folder.read(KEY) is None


@pytest.mark.parametrize("length", [0, 15, 16, 47, 48, 79, 80, 100])
def test_a_part_is_no_entry(folder, length):
    file_of(folder).write_bytes(file_of(folder).read_bytes()[:length])
    assert folder.read(KEY) is None


def test_an_entry_of_another_key_is_none(folder):
    file_of(folder).rename(file_of(folder, OTHER))
    assert folder.read(OTHER) is None


@posix
def test_a_link_is_no_entry(folder, tmp_path):
    file_of(folder).rename(tmp_path / "entry")
    file_of(folder).symlink_to(tmp_path / "entry")
    assert folder.read(KEY) is None
    file_of(folder).unlink()
    os.link(tmp_path / "entry", file_of(folder))
    assert folder.read(KEY) is None, "a second name may be another user's"
    (tmp_path / "entry").unlink()
    assert folder.read(KEY) == CONTENT


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_none(folder, mode):
    file_of(folder).chmod(mode)
    assert folder.read(KEY) is None


@posix
def test_a_pipe_is_no_entry_and_is_not_waited_for(folder):
    file_of(folder).unlink()
    os.mkfifo(file_of(folder))
    assert folder.read(KEY) is None


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_not_used(folder, mode):
    folder.path.chmod(mode)
    assert folder.state() is State.OPEN
    assert folder.read(KEY) is None
    assert not folder.write(OTHER, CONTENT)
    assert folder.entries() == folder.empty() == []
    folder.path.chmod(0o700)
    assert folder.read(KEY) == CONTENT


@posix
def test_a_link_in_the_place_of_the_folder_is_not_used(folder, tmp_path):
    link = CacheFolder(tmp_path / "link")
    link.path.symlink_to(folder.path)
    assert link.state() is State.LINK
    assert link.read(KEY) is None
    assert not link.write(KEY, CONTENT)


@posix
def test_the_folder_of_another_user_is_not_used(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: folder.path.stat().st_uid + 1)
    assert folder.state() is State.FOREIGN
    assert folder.read(KEY) is None
    assert not folder.write(KEY, CONTENT)


@posix
def test_an_entry_of_another_user_is_none(folder, monkeypatch):
    own = folders._is_own
    monkeypatch.setattr(
        folders, "_is_own", lambda found: stat.S_ISDIR(found.st_mode) and own(found)
    )
    assert folder.state() is State.READY
    assert folder.read(KEY) is None


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "cache").write_bytes(b"")
    folder = CacheFolder(tmp_path / "cache")
    assert folder.state() is State.NO_FOLDER
    assert folder.read(KEY) is None
    assert not folder.write(KEY, CONTENT)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    folder = CacheFolder(tmp_path / "file" / "cache")
    assert not folder.write(KEY, CONTENT)
    assert folder.read(KEY) is None


@posix
def test_a_home_that_is_read_only(tmp_path, monkeypatch):
    monkeypatch.setenv("TSARCHIVE_CACHE", str(tmp_path / ".cache" / "tsarchive"))
    assert cache_folder().state() is State.ABSENT
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and access(path, mode))
    assert cache_folder().state() is State.IMPOSSIBLE
    assert document("cache", code=1)["state"] == "impossible"
    assert "cannot be made: it is not used" in run("cache").stdout


def test_a_full_disk_leaves_no_part(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert not folder.write(OTHER, CONTENT)
    assert [path.name for path in folder.path.iterdir()] == [file_of(folder).name]


def test_what_was_not_used_for_longest_goes(folder):
    keys = [bytes([number]) * 32 for number in range(8)]
    for age, key in enumerate(keys):
        assert folder.write(key, CONTENT)
        os.utime(file_of(folder, key), (1000 - age, 1000 - age))
    os.utime(file_of(folder), (0, 0))
    assert folder.read(keys[-1]) == CONTENT  # which is a use
    size = file_of(folder).stat().st_size
    assert folder.trim(9 * size) == []
    gone = folder.trim(8 * size)
    assert [entry.path for entry in gone] == [
        file_of(folder, key) for key in (KEY, keys[6], keys[5])
    ]
    assert folder.read(keys[-1]) == folder.read(keys[0]) == CONTENT


def test_writing_keeps_the_folder_bounded(folder, monkeypatch):
    monkeypatch.setattr(folders, "MOST_BYTES", 4 * file_of(folder).stat().st_size)
    for number in range(20):
        assert folder.write(bytes([number]) * 32, CONTENT)
        assert len(folder.entries()) <= 4


def test_what_killed_writers_left_behind_goes(folder):
    old, new = folder.path / "tmp1_ab.part", folder.path / "tmp2_ab.part"
    for path in (old, new):
        path.write_text("half of an entry")
    os.utime(old, (0, 0))
    assert folder.write(OTHER, CONTENT)
    assert not old.exists()
    assert new.exists()


def test_what_is_no_entry_stays(folder):
    (folder.path / "notes.txt").write_text("mine")
    (folder.path / "tmp1_ab.part").write_text("left behind")
    assert len(folder.empty()) == 1
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("value", ["0", "", "off", "No", "FALSE"])
def test_the_environment_switches_it_off(monkeypatch, value):
    monkeypatch.setenv("TSARCHIVE_CACHE", value)
    assert cache_folder() is None
    assert document("cache")["state"] == "off"
    assert run("cache").stdout == f"no cache: TSARCHIVE_CACHE is '{value}'\n"


@pytest.mark.parametrize("value", ["1", "on", "Yes", "TRUE"])
def test_the_environment_asks_for_the_usual_folder(monkeypatch, tmp_path, value):
    pytest.importorskip("platformdirs")
    monkeypatch.delenv("TSARCHIVE_CACHE")
    usual = cache_folder().path
    monkeypatch.setenv("TSARCHIVE_CACHE", value)
    monkeypatch.chdir(tmp_path)
    assert cache_folder().path == usual


def test_a_tilde_stands_for_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("TSARCHIVE_CACHE", "~/code")
    assert cache_folder().path == tmp_path / "code"


def test_a_user_without_a_home_has_none(monkeypatch):
    monkeypatch.delenv("TSARCHIVE_CACHE")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert cache_folder() is None
    assert run("cache").stdout == "no cache: there is no folder for this user\n"
    monkeypatch.setenv("TSARCHIVE_CACHE", "1")
    assert run("cache").stdout == "no cache: there is no folder for this user\n"


def test_by_default_it_is_the_users(monkeypatch, tmp_path):
    pytest.importorskip("platformdirs")
    monkeypatch.delenv("TSARCHIVE_CACHE")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder().path == tmp_path / "tsarchive"
    assert cache_folder().path.name.lower() in ("tsarchive", "cache")


@pytest.fixture
def named(folder, monkeypatch) -> CacheFolder:
    monkeypatch.setenv("TSARCHIVE_CACHE", str(folder.path))
    return folder


def test_the_command_shows_it(named):
    found = document("cache")
    entry = {"key": KEY.hex(), "nbytes": file_of(named).stat().st_size}
    assert found.pop("entries") == [{**entry, "used": file_of(named).stat().st_mtime}]
    assert found == {
        "folder": str(named.path), "state": "ready", "nbytes": entry["nbytes"],
        "most_nbytes": 256 << 20, "removed": 0,
    }  # fmt: skip
    assert run("cache").stdout.splitlines()[0].endswith(str(named.path))


def test_the_command_trims_and_empties_it(named):
    assert named.write(OTHER, CONTENT)
    os.utime(file_of(named), (0, 0))
    size = file_of(named).stat().st_size
    assert document("cache", "trim")["removed"] == 0
    assert document("cache", "trim", "--most", 3 * size // 2)["removed"] == 1
    assert named.read(OTHER) == CONTENT
    assert document("cache", "empty")["removed"] == 1
    assert document("cache")["entries"] == []
    assert run("cache", "--most", 1).exit_code == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("800", 800), ("1_000", 1000), ("1kB", 1000), ("1 KiB", 1024), ("0.5k", 500), ("0", 0),
        ("2MB", 2_000_000), ("900 bytes", 900), ("0.001GiB", 1073741),
        ("9007199254740993", 2**53 + 1), ("1" + "0" * 400, 10**400),
    ],
)  # fmt: skip
def test_sizes_may_have_units(named, monkeypatch, text, size):
    asked = []
    monkeypatch.setattr(CacheFolder, "trim", lambda _, most: asked.append(most) or [])
    assert run("cache", "trim", "--most", text).exit_code == 0
    assert asked == [size]


@pytest.mark.parametrize("text", ["ten", "-1", "1PB", "1 2", "", "nan", "1e3"])
def test_what_is_no_size(named, text):
    done = run("cache", "trim", "--most", text)
    assert done.exit_code == 2
    assert "is no size" in done.stderr


@posix
def test_the_command_tells_why_it_is_not_used(named):
    named.path.chmod(0o777)
    assert document("cache", code=1)["state"] == "open"
    assert "other users may write to it: it is not used" in run("cache").stdout
