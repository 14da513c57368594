"""Opening a container: sources, root, records, views, closing, and how little is touched."""

from __future__ import annotations

import gzip
import io
import mmap
import subprocess
import sys
import zipfile
import zlib

import pytest

from tsarchive.container import Container, NewRecord, write_container
from tsarchive.errors import ArchiveError, CallError, FormatError, MissingRecordError

TEXT = b"def forward(self) -> int:\n  return 1\n" * 20
DATA = {"data/0": bytes(range(256)), "data/1": b"", "code/a.py": TEXT, "version": b"3\n"}


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "net.v2.pt"
    write_container(target, [NewRecord(n, d, deflate=n.endswith(".py")) for n, d in DATA.items()])
    return target


def test_importing_the_container_loads_no_archive_or_tensor_library():
    script = (
        "import sys, tsarchive.container\n"
        "print(sorted({'zipfile', 'torch', 'lzma', 'bz2', 'tempfile'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_records_are_in_directory_order_without_the_root(path):
    with Container.open(path) as container:
        assert container.root == "net.v2"
        assert list(container.records) == [*DATA, ".data/serialization_id"]
        assert repr(container) == "<Container 'net.v2': 5 records>"


def test_a_record_says_what_the_directory_says(path):
    with Container.open(path) as container, zipfile.ZipFile(path) as expected:
        for name, record in container.records.items():
            info = expected.getinfo(f"net.v2/{name}")
            assert (record.name, record.size, record.stored_size, record.method, record.crc) == (
                name,
                info.file_size,
                info.compress_size,
                info.compress_type,
                info.CRC,
            )
            assert record.offset % 64 == 0
            assert container.buffer()[record.offset :][: record.stored_size] == (
                container.payload(name)
            )


def test_a_record_is_a_value(path):
    with Container.open(path) as first, Container.open(path) as second:
        assert first.records["version"] == second.records["version"]
        assert len({first.records["version"], second.records["version"]}) == 1
        with pytest.raises(AttributeError):
            first.records["version"].size = 5
        with pytest.raises(TypeError):
            first.records["version"] = second.records["version"]


def test_read_gives_the_data_however_it_is_stored(path):
    with Container.open(path) as container:
        assert container.records["code/a.py"].method == 8
        assert container.records["code/a.py"].stored_size < len(TEXT)
        assert {name: container.read(name) for name in DATA} == DATA


def test_a_view_is_writable_and_leaves_the_file_alone(path):
    before = path.read_bytes()
    with Container.open(path) as container:
        for name, expected in DATA.items():
            view = container.view(name)
            assert view == expected
            assert not view.readonly
            if len(view):
                view[0] ^= 0xFF
    assert path.read_bytes() == before


def test_a_view_of_stored_data_lies_in_the_map(path):
    with Container.open(path) as container:
        container.view("data/0")[:3] = b"abc"
        assert container.payload("data/0")[:3] == b"abc"
        assert container.buffer()[container.records["data/0"].offset :][:3] == b"abc"
        with pytest.raises(FormatError, match="CRC"):
            container.read("data/0")


def test_a_view_of_deflated_data_is_a_copy(path):
    with Container.open(path) as container:
        container.view("code/a.py")[:] = bytes(len(TEXT))
        assert container.read("code/a.py") == TEXT


def test_the_payload_is_the_compressed_form(path):
    with Container.open(path) as container:
        assert zlib.decompress(container.payload("code/a.py"), -15) == TEXT


@pytest.mark.parametrize("method", ["read", "view", "payload"])
def test_a_missing_record_is_named(path, method):
    with Container.open(path) as container:
        with pytest.raises(MissingRecordError) as caught:
            getattr(container, method)("net.v2/version")
        assert caught.value.record == "net.v2/version"


def test_views_outlive_the_container(path):
    container = Container.open(path)
    view, record = container.view("data/0"), container.records["data/0"]
    container.close()
    container.close()
    assert view == DATA["data/0"]
    for use in (lambda: container.read("data/0"), container.buffer, lambda: record.offset):
        with pytest.raises(ArchiveError, match="closed"):
            use()


def test_closing_unmaps_the_file_when_no_view_is_left(path):
    container = Container.open(path)
    with container.buffer() as buffer:
        data = buffer.obj
    container.read("data/0")
    container.close()
    assert data.closed


class Pipe(io.RawIOBase):
    """Gives its bytes once, in pieces, and cannot seek."""

    def __init__(self, data):
        self.left = data

    def readable(self):
        return True

    def readinto(self, target):
        size = min(len(target), 100)
        piece, self.left = self.left[:size], self.left[size:]
        target[: len(piece)] = piece
        return len(piece)


def zipped_file(path):
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return gzip.open(packed)


def offset_file(path):
    longer = path.with_suffix(".long")
    longer.write_bytes(b"header" + path.read_bytes())
    file = longer.open("rb")
    file.seek(6)
    return file


SOURCES = {
    "text path": str,
    "path object": lambda path: path,
    "file": lambda path: path.open("rb"),
    "unbuffered file": lambda path: path.open("rb", buffering=0),
    "file opened for update": lambda path: path.open("r+b"),
    "file at a later position": offset_file,
    "memory": lambda path: io.BytesIO(path.read_bytes()),
    "pipe": lambda path: Pipe(path.read_bytes()),
    "buffered pipe": lambda path: io.BufferedReader(Pipe(path.read_bytes())),
    "decompressor": zipped_file,
}


MAPPED = {"text path", "path object", "file", "unbuffered file", "file opened for update"}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_file_on_disk_is_mapped(path, kind):
    source = SOURCES[kind](path)
    with Container.open(source) as container:
        assert isinstance(container.buffer().obj, mmap.mmap) == (kind in MAPPED)
    if hasattr(source, "close"):
        source.close()


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_gives_the_same_records(path, kind):
    source = SOURCES[kind](path)
    with Container.open(source) as container:
        if hasattr(source, "close"):
            source.close()
        view = container.view("data/0")
        view[0] = 7
        assert view[1:] == DATA["data/0"][1:]
        assert {name: container.read(name) for name in DATA if name != "data/0"} == {
            name: data for name, data in DATA.items() if name != "data/0"
        }


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Container.open(tmp_path / "absent.pt")
    with pytest.raises(OSError, match="directory"):
        Container.open(tmp_path)


def plain_zip(members):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return io.BytesIO(target.getvalue())


ROOTS = {
    "one folder": ({"a/x": b"1", "a/b/y": b"2"}, "a", ["x", "b/y"]),
    "no folder": ({"x": b"1", "y": b"2"}, "", ["x", "y"]),
    "no folder first": ({"x": b"1", "extra/y": b"2"}, "", ["x", "extra/y"]),
    "folder entries": ({"a/": b"", "a/x": b"1", "a/b/": b"", "a/b/y": b"2"}, "a", ["x", "b/y"]),
}


@pytest.mark.parametrize("layout", ROOTS)
def test_root_and_names(layout):
    members, root, names = ROOTS[layout]
    with Container.open(plain_zip(members)) as container:
        assert container.root == root
        assert list(container.records) == names
        prefix = f"{root}/" if root else ""
        assert {name: container.read(name) for name in names} == {
            name: members[prefix + name] for name in names
        }


def test_opening_touches_no_local_header(path):
    """Headers are checked when a record is asked for: here all of them are gone."""
    data = bytearray(path.read_bytes())
    with Container.open(path) as container:
        starts = [record.offset for record in container.records.values()]
    directory = data.index(b"PK\x01\x02")
    data[:directory] = bytes(directory)
    with Container.open(io.BytesIO(data)) as container:
        assert len(container.records) == len(starts)
        for name, record in container.records.items():
            with pytest.raises(FormatError, match="no local header") as caught:
                container.read(name)
            assert caught.value.record == name
            with pytest.raises(FormatError):
                _ = record.offset


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (None, "NoneType"),
        (b"PK", "bytes"),
        (3, "int"),
        (io.StringIO("PK"), "a file opened as text"),
    ],
)
def test_what_is_no_file(source, what):
    with pytest.raises(CallError, match=f"cannot be read from {what}"):
        Container.open(source)
