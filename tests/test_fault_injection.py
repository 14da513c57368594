"""Reads that fail, files that shrink, disks that are full: an error, and nothing is lost."""

from __future__ import annotations

import errno
import io
import itertools
import mmap
import os
import resource
import signal
import sys

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, records_of
from tests.support.processes import torch_process
from tsarchive.container import writer

MODEL = ARCHIVES / "buffers.pt"
DATA = MODEL.read_bytes()
OLD = b"an older archive, which must not be lost"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="uses what Linux has")
VERBS = {
    "open": lambda f: [record.offset for record in tsarchive.open(f).records.values()],
    "tree": lambda f: tsarchive.open(f).tree(),
    "verify": tsarchive.verify,
    "audit": tsarchive.audit,
    "load": tsarchive.load,
}
each_verb = pytest.mark.parametrize("verb", VERBS)


class Reads(io.BytesIO):
    """A file object whose reads give ``most`` bytes each, until number ``at`` does something else.

    It has no file number, so it is read, not mapped.
    """

    def __init__(self, data: bytes, at: int, fault, most: int = 512):
        super().__init__(data)
        self.left, self.fault, self.most = at, fault, most
        self.has_failed = False

    def read(self, size=-1):
        if self.left == 0 and not self.has_failed:
            self.has_failed = True
            return self.fault()
        self.left -= 1
        return super().read(self.most if size is None or size < 0 else min(size, self.most))


def failing(error):
    def fault():
        raise error

    return fault


@each_verb
def test_every_read_fails_once(verb):
    """With the system's own error, whichever read it is."""
    for number in itertools.count():
        file = Reads(DATA, number, failing(OSError(errno.EIO, "the disk is bad")))
        try:
            VERBS[verb](file)
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017
        else:
            assert not file.has_failed
            break
    assert number > len(DATA) // 512


@each_verb
def test_every_read_may_be_short(verb):
    """A pipe gives what it has; what comes of it is the same."""
    whole = VERBS[verb](io.BytesIO(DATA))
    short = VERBS[verb](Reads(DATA, -1, None, most=7))
    if verb != "load":
        assert repr(short) == repr(whole)
    else:
        assert list(short.state_dict()) == list(whole.state_dict())


def test_every_read_may_be_the_last():
    """A connection that ends early is a file cut short."""
    for number in range(len(DATA) // 512 + 1):
        with pytest.raises(tsarchive.FormatError):
            tsarchive.load(Reads(DATA[: number * 512], -1, None))


@each_verb
def test_a_file_object_that_would_block(verb):
    with pytest.raises(BlockingIOError):
        VERBS[verb](Reads(DATA, 1, lambda: None))


@pytest.mark.parametrize("verb", ["open", "tree", "load"])
@pytest.mark.parametrize("error", [ValueError("closed"), KeyError("x"), RuntimeError("gone")])
def test_a_file_object_with_errors_of_its_own(verb, error):
    """They are ours then: callers handle one family, and OSError."""
    with pytest.raises(tsarchive.ArchiveError, match=type(error).__name__):
        VERBS[verb](Reads(DATA, 1, failing(error)))


def is_open(path) -> bool:
    folder = "/proc/self/fd"
    return any(os.path.realpath(f"{folder}/{name}") == str(path) for name in os.listdir(folder))


@LINUX
@each_verb
def test_a_map_that_fails_leaves_no_file_open(verb, model_path, monkeypatch):
    def refuse(*arguments, **keywords):
        raise OSError(errno.ENODEV, "cannot be mapped")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(OSError, match="cannot be mapped"):
        VERBS[verb](model_path)
    assert not is_open(model_path)


@LINUX
@pytest.mark.parametrize("damage", [b"", b"text", DATA[:-30], DATA[:40], b"PK\x05\x06" + bytes(18)])
@pytest.mark.parametrize("verb", ["open", "tree", "load"])
def test_a_refused_file_is_not_kept_open(verb, damage, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(damage)
    for _ in range(3):
        with pytest.raises(tsarchive.ArchiveError):
            VERBS[verb](path)
    assert not is_open(path)


def test_a_file_that_is_kept_open_is_seen(model_path):
    with model_path.open("rb"):
        assert is_open(model_path)


@pytest.fixture
def model_path(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(DATA)
    return path


SIZES = (0, 1, 100, 1000, 4095, 4096, len(DATA) - 1)


@LINUX
@pytest.mark.parametrize("size", [size for size in SIZES if size < len(DATA)])
def test_a_file_cut_under_the_map_is_noticed_before_it_is_used(model_path, size):
    """Touching the lost pages would end the process with SIGBUS.

    Tensors that were loaded before are views of the map, which torch touches without asking.
    """
    archive = tsarchive.open(model_path)
    os.truncate(model_path, size)
    for name in archive.records:
        with pytest.raises(tsarchive.FormatError, match="when it was opened"):
            archive.read(name)
    with pytest.raises(tsarchive.ArchiveError):
        archive.tree()


@LINUX
def test_a_file_replaced_under_the_map_is_the_one_that_was_opened(model_path):
    with tsarchive.open(model_path) as archive:
        other = model_path.with_suffix(".new")
        other.write_bytes(b"another file")
        os.replace(other, model_path)
        assert {name: archive.read(name) for name in archive.records} == records_of(DATA)


class Full(io.FileIO):
    """A file whose writes fail from number ``at`` on."""

    at = 0
    error: type[BaseException] = OSError

    def write(self, data):
        if Full.at == 0:
            if Full.error is OSError:
                raise OSError(errno.ENOSPC, "no space left on device")
            raise Full.error
        Full.at -= 1
        return super().write(bytes(data)[:1000])


@pytest.fixture
def full_after(monkeypatch):
    """Make every file that a save opens fail at write number N, for whatever reason."""

    def prepare(number, error=OSError):
        Full.at, Full.error = number, error

    def opened(path, mode):
        return io.BufferedWriter(Full(path, mode.replace("b", "")), buffer_size=256)

    monkeypatch.setattr(writer, "open", opened, raising=False)
    return prepare


SAVES = {
    "plain": {},
    "canonical": {"canonical": True},
    "with files": {"extra_files": {"notes.txt": "x" * 3000}},
}


@pytest.mark.parametrize("options", SAVES)
@pytest.mark.parametrize("existing", [OLD, None])
def test_a_disk_that_is_full_at_any_write_loses_nothing(tmp_path, full_after, options, existing):
    path = tmp_path / "saved.pt"
    if existing is not None:
        path.write_bytes(existing)
    module = tsarchive.load(MODEL)
    for number in itertools.count():
        full_after(number)
        try:
            tsarchive.save(module, path, **SAVES[options])
            break
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017
        assert (path.read_bytes() if path.exists() else None) == existing
        assert os.listdir(tmp_path) == ([] if existing is None else ["saved.pt"])
    assert number > 3
    assert os.listdir(tmp_path) == ["saved.pt"]
    assert list(tsarchive.load(path).state_dict()) == list(module.state_dict())


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_interrupted_save_loses_nothing(tmp_path, full_after, interruption):
    path = tmp_path / "saved.pt"
    path.write_bytes(OLD)
    module = tsarchive.load(MODEL)
    for number in range(4):
        full_after(number, interruption)
        with pytest.raises(interruption):
            tsarchive.save(module, path)
        assert path.read_bytes() == OLD
        assert os.listdir(tmp_path) == ["saved.pt"]


@pytest.mark.parametrize("step", ["chmod", "replace"])
def test_a_step_behind_the_last_write_that_fails_loses_nothing(tmp_path, monkeypatch, step):
    def refuse(*arguments):
        raise OSError(errno.EDQUOT, "over the quota")

    path = tmp_path / "saved.pt"
    path.write_bytes(OLD)
    module = tsarchive.load(MODEL)
    monkeypatch.setattr(os, step, refuse)
    with pytest.raises(OSError, match="over the quota"):
        tsarchive.save(module, path)
    monkeypatch.undo()
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["saved.pt"]


@LINUX
def test_a_device_that_is_always_full():
    with pytest.raises(OSError, match="No space left"):
        tsarchive.save(tsarchive.load(MODEL), "/dev/full")


def test_a_file_object_that_is_full():
    class Sink(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            raise OSError(errno.ENOSPC, "no space left on device")

    with pytest.raises(OSError, match="no space left"):
        tsarchive.save(tsarchive.load(MODEL), Sink())


@LINUX
def test_a_limit_on_the_size_of_files(tmp_path):
    """The system refuses the rest of a write: what the disk has by then is taken back."""
    path = tmp_path / "saved.pt"
    path.write_bytes(OLD)
    module = tsarchive.load(MODEL)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            tsarchive.save(module, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["saved.pt"]


_KILLED = """
import io, os, signal, sys
import tsarchive
from tsarchive.container import writer

class Killing(io.FileIO):
    def write(self, data):
        super().write(bytes(data)[:1000])
        os.kill(os.getpid(), signal.SIGKILL)

writer.open = lambda path, mode: io.BufferedWriter(Killing(path, "x"), buffer_size=256)
tsarchive.save(tsarchive.load(sys.argv[1]), sys.argv[2])
"""


@LINUX
def test_a_process_that_is_killed_while_it_saves_leaves_the_old_file(tmp_path):
    path = tmp_path / "saved.pt"
    path.write_bytes(OLD)
    killed = torch_process("-c", _KILLED, MODEL, path, cwd=tmp_path)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == OLD
