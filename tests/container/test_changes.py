"""Files that change under their map, and reads that fail: typed errors, and nothing leaks."""

from __future__ import annotations

import gc
import io
import mmap
import os
import pickle
from contextlib import suppress

import pytest

from tsarchive.container import Container, NewRecord, caps, survey, write_container
from tsarchive.container.source import Source
from tsarchive.errors import CallError, FormatError
from tsarchive.findings import Nature

TEXT = b"def forward(self) -> int:\n  return 1\n" * 20
# Large enough that most of its pages are far from the end that opening reads.
DATA = {"data/0": bytes(range(256)) * 400, "code/a.py": TEXT, "version": b"3\n"}


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "net.pt"
    write_container(target, [NewRecord(n, d, deflate=n.endswith(".py")) for n, d in DATA.items()])
    return target


def descriptors(path):
    """The descriptors of the file at a path: those of other tests come and go."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # that of the listing itself is closed
            if os.path.samestat(os.fstat(int(name)), os.stat(path)):
                found.add(name)
    return found


USES = {
    "read": lambda container: container.read("data/0"),
    "read deflated": lambda container: container.read("code/a.py"),
    "view": lambda container: container.view("data/0"),
    "view deflated": lambda container: container.view("code/a.py"),
    "payload": lambda container: container.payload("data/0"),
    "buffer": lambda container: container.buffer(),
    "offset": lambda container: container.records["data/0"].offset,
}
# These hand out bytes of the map that no CRC-32 protects.
UNCHECKED = {"view", "payload", "buffer"}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("size", ["none", "one page", "a byte less", "a byte more"])
def test_a_file_of_another_size_is_not_touched(path, use, size):
    """Touching a page behind the end of a file kills the process."""
    length = path.stat().st_size
    sizes = {"none": 0, "one page": 4096, "a byte less": length - 1, "a byte more": length + 1}
    with Container.open(path) as container:
        USES[use](container)
        os.truncate(path, sizes[size])
        with pytest.raises(
            FormatError, match=f"{length} bytes when it was opened and has"
        ) as caught:
            USES[use](container)
        assert "renaming" in caught.value.hint


@pytest.mark.parametrize("use", USES)
def test_a_file_that_was_written_to(path, use):
    before = path.stat()
    with Container.open(path) as container, path.open("r+b") as file:
        start = container.records["data/0"].offset
        file.seek(start)
        file.write(b"other")
        file.flush()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        if use in UNCHECKED:
            with pytest.raises(FormatError, match="written to after it was opened"):
                USES[use](container)
        elif use == "read":
            with pytest.raises(FormatError, match="CRC-32"):
                USES[use](container)
        else:
            USES[use](container)


@pytest.mark.parametrize("replace", ["rename over", "remove"])
def test_a_file_that_was_replaced_stays_readable(path, tmp_path, replace):
    with Container.open(path) as container:
        if replace == "remove":
            path.unlink()
        else:
            write_container(path, [NewRecord("data/0", b"new")])
        assert {name: container.read(name) for name in DATA} == DATA
        assert container.view("data/0") == DATA["data/0"]


def test_what_is_in_memory_does_not_change():
    source = io.BytesIO()
    write_container(source, [NewRecord(name, data) for name, data in DATA.items()])
    source.seek(0)
    with Container.open(source) as container:
        source.seek(0)
        source.truncate()
        assert {name: container.read(name) for name in DATA} == DATA


def test_closing_gives_the_descriptors_back(path):
    with Container.open(path) as container:
        assert descriptors(path)
        container.read("data/0")
    assert not descriptors(path)
    container.close()
    assert not descriptors(path)
    with survey(path):
        assert descriptors(path)
    assert not descriptors(path)


def test_a_container_that_is_let_go_of_gives_the_descriptors_back(path):
    view = Container.open(path).view("data/0")
    assert view == DATA["data/0"]
    del view
    gc.collect()
    assert not descriptors(path)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_reads_on(path):
    with Container.open(path) as container:
        child = os.fork()
        if child == 0:
            os._exit(0 if container.read("data/0") == DATA["data/0"] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert container.read("data/0") == DATA["data/0"]


def test_a_container_is_not_pickled(path):
    with Container.open(path) as container, pytest.raises(TypeError):
        pickle.dumps(container)


REFUSED = {"cut": lambda data: data[:-1], "empty": lambda data: b"", "page": lambda data: b"<html>"}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_file_is_let_go_of(path, kind):
    path.write_bytes(REFUSED[kind](path.read_bytes()))
    with pytest.raises(FormatError) as caught:
        Container.open(path)
    # The error and its frames are still held.
    assert caught.value.offset is not None or caught.value.hint
    assert not descriptors(path)
    found = survey(path)
    assert found.container is None
    assert not descriptors(path)


@pytest.mark.parametrize("call", [(mmap, "mmap"), (os, "dup"), (os, "fstat")])
@pytest.mark.parametrize("opener", [Container.open, survey])
def test_a_failing_call_is_an_os_error_and_leaks_nothing(path, monkeypatch, call, opener):
    def failing(*args, **kwargs):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(*call, failing)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        opener(path)
    monkeypatch.undo()
    assert not descriptors(path)


class Failing(io.RawIOBase):
    """Gives its bytes in pieces and fails at one of the reads."""

    def __init__(self, data, fails_at, error):
        self.source = io.BytesIO(data)
        self.reads_left = fails_at
        self.error = error

    def readable(self):
        return True

    def readinto(self, target):
        if self.reads_left == 0:
            raise self.error
        self.reads_left -= 1
        return self.source.readinto(memoryview(target)[:5000])


@pytest.mark.parametrize("opener", [Container.open, survey])
@pytest.mark.parametrize("buffered", [False, True])
def test_every_read_may_fail(path, opener, buffered):
    data = path.read_bytes()
    error = OSError(5, "Input/output error")
    reads = len(data) // 5000 + (3 if buffered else 2)
    for fails_at in range(reads + 1):
        source = Failing(data, fails_at, error)
        if fails_at == reads:
            opener(io.BufferedReader(source) if buffered else source).close()
            continue
        with pytest.raises(OSError, match="Input/output error") as caught:
            opener(io.BufferedReader(source) if buffered else source)
        assert caught.value is error


def test_a_file_that_is_open_as_text(path):
    path.write_bytes(b"\xff" + path.read_bytes())  # no UTF-8
    with open(path, encoding="utf-8") as text, pytest.raises(FormatError) as caught:
        Container.open(text)
    assert "'rb'" in caught.value.hint


class Reads:
    """A file object of which only ``read`` is there, with what each read gives."""

    def __init__(self, *results):
        self.results = list(results)

    def read(self, size=-1):
        result = self.results.pop(0) if self.results else b""
        if isinstance(result, BaseException):
            raise result
        return result


def test_reads_may_be_short(path):
    data = path.read_bytes()
    pieces = [data[start : start + 777] for start in range(0, len(data), 777)]
    with Container.open(Reads(*pieces)) as container:
        assert {name: container.read(name) for name in DATA} == DATA
    with pytest.raises(FormatError, match="it is cut short"):
        Container.open(Reads(data[:777]))


BAD_READS = {
    "cut stream": (EOFError("ended before the marker"), FormatError, "EOFError: ended before"),
    "closed": (ValueError("I/O operation on closed file"), FormatError, "closed file"),
    "nothing yet": (None, BlockingIOError, "no bytes"),
    "text": ("PK", CallError, "opened as text"),
    "a number": (5, FormatError, "TypeError"),
    "no memory": (MemoryError("none left"), MemoryError, "none left"),
    "an interrupt": (KeyboardInterrupt("Ctrl-C"), KeyboardInterrupt, "Ctrl-C"),
}


@pytest.mark.parametrize("fault", BAD_READS)
@pytest.mark.parametrize("good", [(), (b"PK",)])
def test_reads_that_give_no_bytes(fault, good):
    result, kind, message = BAD_READS[fault]
    with pytest.raises(kind, match=message):
        Container.open(Reads(*good, result))
    if kind is FormatError:
        (found,) = survey(Reads(*good, result)).findings
        assert (found.rule, found.nature) == ("file-unreadable", Nature.BROKEN)


def test_a_closed_file_is_an_error(path):
    file = path.open("rb")
    file.close()
    with pytest.raises(FormatError, match="closed file"):
        Container.open(file)


def test_a_file_that_is_cut_while_it_is_surveyed(path, monkeypatch):
    """Whenever it happens: never a dead process, always a finding."""
    original, data = Source.require_unchanged, path.read_bytes()
    rules = []
    for cut_at in range(12):
        path.write_bytes(data)
        calls = iter(range(1000))

        def cutting(self, faults, *, contents, calls=calls, cut_at=cut_at):
            if next(calls) == cut_at:
                os.truncate(path, 4096)
            original(self, faults, contents=contents)

        monkeypatch.setattr(Source, "require_unchanged", cutting)
        with survey(path) as found:
            rules.append({finding.rule for finding in found.findings})
            assert (found.container is None) == ("file-changed" in rules[-1])
    assert rules[0] == {"file-changed"}
    assert rules[-1] == set()
    assert not descriptors(path)


def test_what_has_no_end_is_refused(monkeypatch):
    monkeypatch.setattr(caps, "MAX_DEVICE_BYTES", 5_000_000)
    monkeypatch.setattr(caps, "MAX_COPIED_BYTES", 100)
    with pytest.raises(FormatError, match="not read into memory"):
        Container.open("/dev/zero")
    with pytest.raises(FormatError, match="not read into memory"):
        Container.open(io.BytesIO(bytes(101)))
    (finding,) = survey("/dev/zero").findings
    assert finding.rule == "file-unreadable"
