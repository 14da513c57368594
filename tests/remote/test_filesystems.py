"""Files in filesystems of fsspec: in memory, in S3, by SFTP, in zip archives and in caches."""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from typing import ClassVar

import pytest

from tests.remote.test_http import CONTENT, COUNT, OTHER, RIGHT, read
from tests.support.processes import output_of
from tests.support.remote_servers import s3_server, sftp_server
from tests.support.web_server import web_server
from tsarchive.errors import RemoteError
from tsarchive.remote.opening import ranges_of, uploading
from tsarchive.remote.ranges import Tail

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

WHERE = ("memory", "s3", "sftp")


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    """The root URL of a kind of place, of which servers are started when they are first needed."""
    with ExitStack() as stack:
        found = {}

        def root_of(kind: str) -> str:
            if kind not in found:
                found[kind] = _start(kind, stack, tmp_path_factory)
            return found[kind]

        yield root_of


def _start(kind: str, stack: ExitStack, tmp_path_factory) -> str:
    if kind == "s3":
        pytest.importorskip("s3fs", reason="s3fs reads from S3")
        pytest.importorskip("moto.server", reason="moto has the server of S3")
        return stack.enter_context(s3_server())
    if kind == "sftp":
        pytest.importorskip("paramiko", reason="paramiko reads by SFTP")
        pytest.importorskip("asyncssh", reason="asyncssh has the server of SFTP")
        return stack.enter_context(sftp_server(tmp_path_factory.mktemp("sftp")))
    return "memory:/"


@pytest.fixture(params=WHERE)
def root(request, started):
    return started(request.param)


def put(url: str, content: bytes) -> None:
    filesystem, path = fsspec.url_to_fs(url)
    filesystem.makedirs(filesystem._parent(path), exist_ok=True)
    filesystem.pipe_file(path, content)


def content_of(url: str) -> bytes:
    filesystem, path = fsspec.url_to_fs(url)
    return filesystem.cat_file(path)


@pytest.mark.whole
def test_reads(root):
    put(f"{root}/reads.pt", CONTENT)
    ranges = ranges_of(f"{root}/reads.pt")
    assert ranges.tail(COUNT) == Tail(len(CONTENT), CONTENT[-COUNT:])
    assert read(ranges) == RIGHT
    ranges.close()


@pytest.mark.whole
def test_small_files(root):
    for content in (b"", b"abc"):
        put(f"{root}/small.pt", content)
        assert ranges_of(f"{root}/small.pt").tail(COUNT) == Tail(len(content), content)


@pytest.mark.whole
@pytest.mark.parametrize("other", [OTHER, OTHER[:1000], OTHER + b"more"])
def test_changes_underneath_are_errors(root, other):
    put(f"{root}/changes.pt", CONTENT)
    ranges = ranges_of(f"{root}/changes.pt")
    ranges.tail(COUNT)
    put(f"{root}/changes.pt", other)
    if root.startswith("sftp"):  # which tells times to the second
        filesystem, path = fsspec.url_to_fs(f"{root}/changes.pt")
        filesystem.ftp.utime(path, (0, 0))
    with pytest.raises(RemoteError, match="the file is another one by now"):
        read(ranges)


@pytest.mark.parametrize("times", [1, 99])
def test_bodies_of_s3_that_break_off(started, monkeypatch, times):
    root = started("s3")
    put(f"{root}/breaks.pt", CONTENT)
    filesystem, _ = fsspec.url_to_fs(root)
    call, asked = filesystem._call_s3, []

    class Broken:
        """A body of which some bytes come."""

        def __init__(self, data: bytes) -> None:
            self.data = data

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

        async def read(self, count):
            from aiohttp import ClientPayloadError

            found, self.data = self.data, b""
            if found:
                return found
            raise ClientPayloadError

    async def breaking(method, *args, **options):
        answer = await call(method, *args, **options)
        asked.append(options.get("Range"))
        if len(asked) <= times:
            answer["Body"] = Broken((await answer["Body"].read())[:100])
        return answer

    monkeypatch.setattr(filesystem, "_call_s3", breaking)
    ranges = ranges_of(f"{root}/breaks.pt")
    if times == 1:
        assert ranges.tail(COUNT) == Tail(len(CONTENT), CONTENT[-COUNT:])
        assert asked == ["bytes=-1000", "bytes=299100-299999"]
    else:
        with pytest.raises(RemoteError, match=r"500 of 900 bytes came. Try again later"):
            ranges.tail(COUNT)


@pytest.mark.whole
def test_missing_files(root):
    with pytest.raises(RemoteError, match=r"/missing.pt: there is no such file") as found:
        ranges_of(f"{root}/missing.pt").tail(COUNT)
    assert (found.value.__cause__, found.value.__context__) == (None, None)
    assert "hunter22" not in str(found.value)


def test_refused_passwords_are_not_told(started):
    root = started("sftp").replace("hunter22", "5ecre7")
    with pytest.raises(RemoteError, match=r"sftp://ann@127\.0\.0\.1") as found:
        ranges_of(f"{root}/missing.pt").tail(COUNT)
    assert "5ecre7" not in str(found.value)


def test_protocols_that_nothing_knows():
    with pytest.raises(RemoteError, match="Protocol not known: nowhere"):
        ranges_of("nowhere://model.pt")


def test_packages_that_are_missing(monkeypatch):
    fsspec.register_implementation("never", "neverfs.Files", errtxt="Install neverfs", clobber=True)
    with pytest.raises(RemoteError, match="Install neverfs") as found:
        ranges_of("never://model.pt")
    assert found.value.hint == "pip install neverfs"


_WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
import tsarchive
try:
    tsarchive.open("https://example.org/model.pt")
except tsarchive.RemoteError as error:
    print(error.hint)
"""


@pytest.mark.parametrize("missing", ["fsspec", "aiohttp"])
def test_the_extra_is_missing(missing):
    assert output_of("-c", _WITHOUT, missing) == b'pip install "tsarchive[remote]"\n'


@pytest.mark.whole
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_files_in_zip_archives_elsewhere(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "all.zip", "w", method) as archive:
        archive.writestr("inner/model.pt", CONTENT)
    packed = (tmp_path / "all.zip").read_bytes()
    with web_server({"/all.zip": packed}) as server:
        ranges = ranges_of(f"zip://inner/model.pt::{server.url}/all.zip")
        found = ranges.tail(COUNT)
        assert found.size == len(CONTENT)
        assert CONTENT.endswith(found.data)
        if method == zipfile.ZIP_STORED:
            assert len(found.data) == COUNT
            assert read(ranges) == RIGHT
        else:
            assert found.data == CONTENT
        ranges.close()


def test_packed_files_that_are_too_large(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.pt", CONTENT)
    monkeypatch.setattr("tsarchive.remote.filesystems.MAX_UNPACKED_BYTES", len(CONTENT) - 1)
    with pytest.raises(RemoteError, match="Unpack it first"):
        ranges_of(f"zip://model.pt::{tmp_path}/all.zip").tail(COUNT)


# fsspec leaves the file of a block cache open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.whole
@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache"])
def test_caches_of_fsspec(tmp_path, cache):
    storage = {cache: {"cache_storage": str(tmp_path)}}
    with web_server({"/model.pt": CONTENT}) as server, pytest.MonkeyPatch.context() as patched:
        patched.setitem(fsspec.config.conf, cache, storage[cache])
        for _ in range(2):
            ranges = ranges_of(f"{cache}::{server.url}/model.pt")
            assert ranges.tail(COUNT) == Tail(len(CONTENT), CONTENT[-COUNT:])
            assert read(ranges) == RIGHT
            ranges.close()
        fsspec.filesystem("https").invalidate_cache()
    assert [*tmp_path.iterdir()]


# Uploads.


@pytest.mark.whole
def test_uploads_replace_whole_files(root):
    put(f"{root}/folder/up.pt", OTHER[:10])
    with uploading(f"{root}/folder/up.pt") as stream:
        stream.write(CONTENT)
        assert content_of(f"{root}/folder/up.pt") == OTHER[:10]
    assert content_of(f"{root}/folder/up.pt") == CONTENT
    filesystem, path = fsspec.url_to_fs(f"{root}/folder")
    assert [name.rpartition("/")[2] for name in filesystem.ls(path, detail=False)] == ["up.pt"]


class Stop(Exception):
    """What a test raises."""


def upload(url: str, content: bytes, error: type[Exception] | None = None) -> None:
    with uploading(url) as stream:
        stream.write(content)
        if error is not None:
            raise error


@pytest.mark.whole
def test_what_fails_while_it_is_written_is_not_uploaded(root):
    put(f"{root}/failing.pt", OTHER)
    with pytest.raises(Stop):
        upload(f"{root}/failing.pt", CONTENT, Stop)
    assert content_of(f"{root}/failing.pt") == OTHER


@pytest.mark.whole
@pytest.mark.parametrize("failing", ["put_file", "mv"])
def test_uploads_that_fail_leave_what_was_there(root, failing, monkeypatch):
    put(f"{root}/kept/old.pt", OTHER)
    filesystem, path = fsspec.url_to_fs(f"{root}/kept")

    def dies(source: str, target: str) -> None:
        """Write a part of the file, as a connection that ends does, or do nothing."""
        if failing == "put_file" and not root.startswith("s3"):
            filesystem.pipe_file(target, CONTENT[:1000])
        raise OSError(f"connection lost: {root}/kept/old.pt")

    monkeypatch.setattr(filesystem, failing, dies)
    if root.startswith("s3") and failing == "mv":
        upload(f"{root}/kept/old.pt", CONTENT)
        assert content_of(f"{root}/kept/old.pt") == CONTENT
        return
    with pytest.raises(RemoteError, match="connection lost") as found:
        upload(f"{root}/kept/old.pt", CONTENT)
    assert "hunter22" not in str(found.value)
    assert (found.value.__cause__, found.value.__context__) == (None, None)
    assert content_of(f"{root}/kept/old.pt") == OTHER
    assert [name.rpartition("/")[2] for name in filesystem.ls(path, detail=False)] == ["old.pt"]


class Copying(MemoryFileSystem):
    """Files that are moved as fsspec does it, by copies, the first of which breaks off."""

    protocol = "copying"
    cachable = False
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace(f"{cls.protocol}://", "memory://"))

    def cp_file(self, path1, path2, **_):
        self.pipe_file(path2, self.cat_file(path1)[:1000])
        raise OSError("the disk is full")


class Unmoved(Copying):
    """Files that keep their place if the other is taken, which only an answer tells."""

    protocol = "unmoved"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]

    def mv(self, path1, path2, **_):
        return False


@pytest.mark.parametrize(("made", "message"), [
    (Copying, "is not replaced at once, but copied over.*Write it to a path"),
    (Unmoved, "it was not put in its place"),
])  # fmt: skip
@pytest.mark.parametrize("old", [OTHER, OTHER[:10]], ids=len)
def test_filesystems_that_do_not_rename(made, message, old):
    fsspec.register_implementation(made.protocol, made, clobber=True)
    put(f"{made.protocol}://kept/old.pt", old)
    with pytest.raises(RemoteError, match=message):
        upload(f"{made.protocol}://kept/old.pt", CONTENT)
    assert content_of(f"{made.protocol}://kept/old.pt") == old
    assert made().find("/") == ["/kept/old.pt"]


def test_chains_are_for_reading():
    with pytest.raises(RemoteError, match="chains of URLs are for reading"):
        upload("zip://model.pt::memory://all.zip", CONTENT)


def test_servers_that_die_leave_what_was_there(tmp_path):
    pytest.importorskip("paramiko", reason="paramiko writes by SFTP")
    pytest.importorskip("asyncssh", reason="asyncssh has the server of SFTP")
    (tmp_path / "old.pt").write_bytes(OTHER)
    with sftp_server(tmp_path, dies_after=len(CONTENT) // 2) as root:
        with pytest.raises(RemoteError, match="sftp://ann@") as found:
            upload(f"{root}/old.pt", CONTENT)
        assert "hunter22" not in str(found.value)
    assert (tmp_path / "old.pt").read_bytes() == OTHER
    assert all(path.stat().st_size < len(CONTENT) for path in tmp_path.glob(".*"))


def test_parts_of_uploads_to_s3_do_not_show(started, monkeypatch):
    """Of several parts the object is made when all have come, and not if one fails."""
    root = started("s3")
    put(f"{root}/parts.pt", OTHER)
    filesystem, _ = fsspec.url_to_fs(root)
    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 5 << 20)
    asked = []
    call = filesystem._call_s3

    async def refusing(method, *args, **options):
        asked.append(method)
        if method == "upload_part" and options["PartNumber"] == 3:
            raise OSError("the server went away")
        return await call(method, *args, **options)

    monkeypatch.setattr(filesystem, "_call_s3", refusing)
    with pytest.raises(RemoteError, match="the server went away"):
        upload(f"{root}/parts.pt", bytes(12 << 20))
    assert "abort_multipart_upload" in asked
    assert content_of(f"{root}/parts.pt") == OTHER


def test_nothing_is_written_over_http():
    with web_server({}) as server:
        with pytest.raises(RemoteError, match=r"files are not written over HTTP.*upload that"):
            upload(f"{server.url}/model.pt", CONTENT)
        assert not server.requests
