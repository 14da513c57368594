"""Files in any filesystem of fsspec, and objects in S3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, Final

from tsarchive.errors import RemoteError
from tsarchive.remote.failures import attempted, changed
from tsarchive.remote.parallel import CONNECTIONS, Piece, pieces_of, read_pieces, run
from tsarchive.remote.ranges import Ranges, SeekableRanges, Tail
from tsarchive.remote.urls import Url

OF_A_VERSION: Final = (
    "ETag", "etag", "e_tag", "generation", "version_id", "VersionId", "blob_id", "xet_hash",
    "md5", "md5Hash", "content_md5", "Content-MD5", "sha", "checksum", "CRC", "mtime", "mtim",
    "LastModified", "last_modified", "Last-Modified", "updated", "modified", "created",
)  # fmt: skip
"""What filesystems call that which another version of a file has another of, surest first."""
MAX_UNPACKED_BYTES: Final = 1 << 30
"""Files in packed ones are read into memory up to this size."""
_CHUNK_BYTES: Final = 1 << 20
# Codes of S3's errors.
_OUTSIDE: Final = "InvalidRange", "416"
_OTHER_VERSION: Final = "PreconditionFailed", "412"


class FileRanges(Ranges):
    """A file in a filesystem of fsspec.

    That it has stayed the same is found after each reading, by its size and what the filesystem
    tells of its version.
    """

    def __init__(self, url: Url, filesystem: Any, path: str) -> None:
        self.name = url
        self._url = url
        self._filesystem = filesystem
        self._path = path
        self._first: Mapping[str, Any] = {}

    def tail(self, count: int) -> Tail:
        return attempted(self._url, lambda: self._tail(count))

    def read_into(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        attempted(self._url, lambda: self._read_into(wanted))

    def close(self) -> None:
        """Leave connections to the filesystem, which fsspec keeps for other files."""

    def _tail(self, count: int) -> Tail:
        self._first = self._version()
        size = self._first["size"]
        data = bytearray(min(size, count))
        if data:
            self._read_into([(size - len(data), memoryview(data))])
        return Tail(size, data)

    def _read_into(self, wanted: Sequence[Piece]) -> None:
        pieces = pieces_of(wanted)
        while batch := list(islice(pieces, CONNECTIONS)):
            for (_, memory), data in zip(batch, self._ranges(batch), strict=True):
                if len(data) != len(memory):
                    raise changed(self.name)
                memory[:] = data
        if self._version() != self._first:
            raise changed(self.name)

    def _ranges(self, pieces: Sequence[Piece]) -> Sequence[bytes]:
        starts = [offset for offset, _ in pieces]
        stops = [offset + len(memory) for offset, memory in pieces]
        found: Sequence[bytes] = self._filesystem.cat_ranges(
            [self._path] * len(pieces), starts, stops, on_error="raise"
        )
        return found

    def _version(self) -> Mapping[str, Any]:
        self._filesystem.invalidate_cache(self._path)
        info = self._filesystem.info(self._path)
        if info.get("type") == "directory":
            raise IsADirectoryError
        if info.get("size") is None:
            raise RemoteError(f"{self.name}: the filesystem does not tell how long the file is")
        return {key: info[key] for key in ("size", *OF_A_VERSION) if key in info}


class SftpRanges(FileRanges):
    """A file by SFTP, whose parts are asked for all at once: one by one, each 32 KiB would wait."""

    def _ranges(self, pieces: Sequence[Piece]) -> Sequence[bytes]:
        with self._filesystem.open(self._path, "rb") as file:
            return [*file.readv([(offset, len(memory)) for offset, memory in pieces])]


class ObjectRanges(FileRanges):
    """An object in S3, each request for which says of which version it has to be."""

    def _tail(self, count: int) -> Tail:
        return run(self._filesystem.loop, self._object_tail(count))

    def _read_into(self, wanted: Sequence[Piece]) -> None:
        run(self._filesystem.loop, read_pieces(pieces_of(wanted), self._fill))

    async def _object_tail(self, count: int) -> Tail:
        try:
            answer = await self._get(f"-{count}")
        except OSError as error:
            if _code(error) not in _OUTSIDE:  # which says that it is empty
                raise
            return Tail(0, b"")
        length, part = answer["ContentLength"], answer.get("ContentRange")
        if part is None and length > count:
            raise RemoteError(f"{self.name}: the server answers without byte ranges")
        self._first = {"IfMatch": answer["ETag"]}
        size = length if part is None else int(part.rpartition("/")[2])
        data = bytearray(min(size, count))
        with memoryview(data) as memory:
            done = await self._copied(answer, memory)
            if done < len(memory):
                await self._fill(size - len(memory) + done, memory[done:])
        return Tail(size, data)

    async def _fill(self, offset: int, memory: memoryview) -> None:
        """Fill memory with the bytes from an offset on. What broke off goes on where it ended."""
        done = 0
        for _ in range(self._filesystem.retries):
            try:
                answer = await self._get(f"{offset + done}-{offset + len(memory) - 1}")
            except OSError as error:
                if _code(error) in (*_OUTSIDE, *_OTHER_VERSION):
                    raise changed(self.name) from error
                raise
            done += await self._copied(answer, memory[done:])
            if done == len(memory):
                return
        problem = f"{self.name}: {done:,} of {len(memory):,} bytes came"
        raise RemoteError(problem, hint="Try again later")

    async def _get(self, span: str) -> Mapping[str, Any]:
        bucket, key, version = self._filesystem.split_path(self._path)
        given = {"VersionId": version} if version else {}
        answer: Mapping[str, Any] = await self._filesystem._call_s3(
            "get_object", Bucket=bucket, Key=key, Range=f"bytes={span}", **given, **self._first
        )
        return answer

    async def _copied(self, answer: Mapping[str, Any], memory: memoryview) -> int:
        """Copy the body of an answer, and return how many bytes of it came."""
        from s3fs.core import S3_RETRYABLE_ERRORS

        done = 0
        with suppress(*S3_RETRYABLE_ERRORS):
            async with answer["Body"] as body:
                while piece := await body.read(_CHUNK_BYTES):
                    memory[done : done + len(piece)] = piece
                    done += len(piece)
        return done


def _code(error: OSError) -> str | None:
    """Return the code of an answer of S3 that s3fs has made an error of."""
    answer: Any = getattr(error.__cause__, "response", None)
    return None if answer is None else answer.get("Error", {}).get("Code")


class OpenedRanges(SeekableRanges):
    """A file at the end of a chain, such as one in a zip archive, which reads and seeks."""

    def __init__(self, url: Url, filesystem: Any, path: str) -> None:
        opened: BinaryIO = filesystem.open(path, "rb")
        super().__init__(opened)
        self.name = url
        self._url = url
        self._opened = opened
        self._filesystem = filesystem  # which closes the outer file when nobody holds it

    def tail(self, count: int) -> Tail:
        return attempted(self._url, lambda: super(OpenedRanges, self).tail(count))

    def read_into(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        attempted(self._url, lambda: super(OpenedRanges, self).read_into(wanted))

    def close(self) -> None:
        self._opened.close()


class UnpackedRanges(OpenedRanges):
    """A file in a packed one, which is unpacked whole: going back in it would unpack it again."""

    def tail(self, count: int) -> Tail:
        data = attempted(self._url, lambda: self._opened.read(MAX_UNPACKED_BYTES + 1))
        if len(data) > MAX_UNPACKED_BYTES:
            problem = f"{self.name}: a packed file of this size is not read into memory"
            raise RemoteError(problem, limit=MAX_UNPACKED_BYTES, hint="Unpack it first")
        return Tail(len(data), data)
