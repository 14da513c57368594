"""Files on web servers, through the sessions of fsspec's HTTP filesystem."""

from __future__ import annotations

import re
import warnings
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tsarchive.errors import ArchiveWarning, RemoteError
from tsarchive.remote.failures import ACCESS, attempted, changed
from tsarchive.remote.http_bodies import Filling, chunks_of
from tsarchive.remote.http_client import Client, Manners, Unfinished
from tsarchive.remote.parallel import pieces_of, read_pieces, run
from tsarchive.remote.ranges import Ranges, Tail
from tsarchive.remote.urls import Url

if TYPE_CHECKING:
    import aiohttp

_OK: Final = 200
_PARTIAL: Final = 206
_OTHER_VERSION: Final = 412
_OUTSIDE: Final = 416
_DENIED: Final = (401, 403)
_OF_A_VERSION: Final = "ETag", "Last-Modified"
_NUMBER: Final = r"\d{1,20}"
_CONTENT_RANGE = re.compile(
    rf"bytes (?:(?P<first>{_NUMBER})-(?P<last>{_NUMBER})|\*)/(?P<size>{_NUMBER}|\*)"
)
_DOWNLOAD: Final = "Download it, or write simplecache:: before the URL, which keeps a copy"
_NO_RANGES: Final = "the server answers without byte ranges"

_T = TypeVar("_T")


class _Version(NamedTuple):
    """What tells one version of a file from another, as far as the server says."""

    size: int
    etag: str | None
    modified: str | None

    @classmethod
    def of(cls, response: aiohttp.ClientResponse, size: int) -> _Version:
        return cls(size, response.headers.get("ETag"), response.headers.get("Last-Modified"))

    @property
    def conditions(self) -> dict[str, str]:
        """Headers with which a server refuses to send another version."""
        if self.etag is not None and not self.etag.startswith("W/"):
            return {"If-Match": self.etag}
        return {} if self.modified is None else {"If-Unmodified-Since": self.modified}

    def is_of(self, response: aiohttp.ClientResponse) -> bool:
        """Return whether a response may be of this version; what it does not say counts for it."""
        etag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
        if self.etag is not None and etag is not None:
            return self.etag == etag
        return modified in (None, self.modified) or self.modified is None


class _Part(NamedTuple):
    """The bytes that a response has, of how many; numbers that it does not tell are None."""

    start: int | None
    stop: int | None
    size: int | None


class HttpRanges(Ranges):
    """A file on a web server. Its session belongs to fsspec, which keeps it for others."""

    def __init__(self, url: Url, filesystem: Any, manners: Manners | None = None) -> None:
        self.name = url
        self._url = url
        self._client = Client(url, filesystem, manners or Manners())
        self._version = _Version(0, None, None)

    def tail(self, count: int) -> Tail:
        found = self._run(self._client.patiently(lambda: self._tail(count)))
        if len(found.data) > count:
            message = f"{self.name}: {_NO_RANGES}, so all {found.size:,} bytes were read"
            warnings.warn(message, ArchiveWarning, stacklevel=2)
        return found

    def read_into(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        self._run(read_pieces(pieces_of(wanted), self._fill))

    def info(self) -> Mapping[str, Any]:
        """Return what the server tells of the file, which it is not asked to send.

        Raises RemoteError where there is no such file, or the server cannot be asked.
        """
        return self._run(self._client.patiently(self._info))

    def close(self) -> None:
        """Leave connections to the session, in which other files are read."""

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return attempted(self._url, lambda: run(self._client.loop, work))

    async def _info(self) -> Mapping[str, Any]:
        # Links that are signed for reading refuse HEAD.
        async with self._client.get({"Range": "bytes=-1"}) as response:
            headers, size = response.headers, self._size(response)
            return {"type": "file", "size": size, **{k: headers.get(k) for k in _OF_A_VERSION}}

    async def _tail(self, count: int) -> Tail:
        async with self._client.get({"Range": f"bytes=-{count}"}) as response:
            if response.status == _OK and not _may_send_others(response, count):
                return await self._whole(response)
            size = self._size(response)
            self._version = _Version.of(response, size or 0)
            if size is not None and self._has_end(response, size, count):
                return Tail(size, await self._rest(response, min(size, count)))
        return await self._counted_tail(size, count)

    def _size(self, response: aiohttp.ClientResponse) -> int | None:
        """Return how long the file is; None where it can only be read to see."""
        if response.status == _OK:
            return response.content_length
        if response.status not in (_PARTIAL, _OUTSIDE):
            raise self._refusal(response)
        part = self._part(response)
        # What was asked for ends with the file.
        return part.stop if part.size is None else part.size

    def _has_end(self, response: aiohttp.ClientResponse, size: int, count: int) -> bool:
        if response.status != _PARTIAL:
            return False
        part = self._part(response)
        return (part.start, part.stop) == (max(0, size - count), size)

    async def _rest(self, response: aiohttp.ClientResponse, count: int) -> bytearray:
        data = bytearray(count)
        await self._filling(memoryview(data)).take(response)
        return data

    async def _counted_tail(self, size: int | None, count: int) -> Tail:
        """Return the end of a file by its place from the beginning."""
        if size == 0:
            return Tail(0, b"")
        start = max(0, (size or 0) - count)
        part = {} if size is None else self._headers(start, size)
        async with self._client.get(part) as response:
            if response.status == _OK:
                return await self._whole(response)
            if size is None:
                raise self._refusal(response)
            self._require(response, start, size)
            return Tail(size, await self._rest(response, size - start))

    async def _whole(self, response: aiohttp.ClientResponse) -> Tail:
        """Return all of a file of a server that sends no parts."""
        most, length = self._client.manners.whole_bytes, response.content_length
        data = bytearray()
        async for chunk in chunks_of(response, self._client.manners):
            data += chunk
            if max(len(data), length or 0) > most:
                problem = f"{self.name}: {_NO_RANGES}, and the file is too large to be read whole"
                raise RemoteError(problem, limit=most, hint=_DOWNLOAD)
        if length is not None and len(data) < length:
            raise Unfinished(f"{len(data):,} of {length:,} bytes came")
        return Tail(len(data), data)

    async def _fill(self, offset: int, memory: memoryview) -> None:
        """Fill memory with the bytes from an offset on. What broke off goes on where it ended."""
        filling = self._filling(memory)

        async def read_rest() -> None:
            start, stop = offset + filling.done, offset + len(memory)
            async with self._client.get(self._headers(start, stop)) as response:
                self._require(response, start, stop)
                await filling.take(response)

        await self._client.patiently(read_rest)

    def _headers(self, start: int, stop: int) -> dict[str, str]:
        """Return what asks for these bytes of the version that was opened."""
        return {"Range": f"bytes={start}-{stop - 1}", **self._version.conditions}

    def _filling(self, memory: memoryview) -> Filling:
        return Filling(self.name, memory, self._client.manners)

    def _require(self, response: aiohttp.ClientResponse, start: int, stop: int) -> None:
        """Raise RemoteError unless a response has these bytes of the version that was opened."""
        if response.status in (_OTHER_VERSION, _OUTSIDE):
            raise changed(self.name)
        if response.status != _PARTIAL:
            raise self._refusal(response)
        part = self._part(response)
        is_same = part.size in (None, self._version.size) and self._version.is_of(response)
        if not is_same:
            raise changed(self.name)
        if (part.start, part.stop) != (start, stop):
            raise self._wrong(f"bytes {part.start}-{part.stop} where {start}-{stop} were asked for")

    def _part(self, response: aiohttp.ClientResponse) -> _Part:
        """Return what the Content-Range of a response says; raise RemoteError for nonsense."""
        text = response.headers.get("Content-Range", "")
        told = _CONTENT_RANGE.fullmatch(text)
        if told is None and response.status == _OUTSIDE:
            return _Part(None, None, None)
        if told is None:
            raise self._wrong(f"a part without a Content-Range that tells which: {text[:80]!r}")
        first, last, size = (int(n) if n and n != "*" else None for n in told.groups())
        if first is None or last is None:
            return _Part(None, None, size)
        if not first <= last < (last + 1 if size is None else size):
            raise self._wrong(f"a part that cannot be: {text!r}")
        return _Part(first, last + 1, size)

    def _refusal(self, response: aiohttp.ClientResponse) -> RemoteError:
        status = response.status
        if status == _OK:
            return self._wrong("all of the file where a part was asked for")
        told = RemoteError(f"{self.name}: the server answers {status} {response.reason}")
        told.hint = ACCESS if status in _DENIED else None
        return told

    def _wrong(self, what: str) -> RemoteError:
        return RemoteError(f"{self.name}: the server sends {what}", hint=_DOWNLOAD)


def _may_send_others(response: aiohttp.ClientResponse, count: int) -> bool:
    """Return whether a server that sent all may send parts that are counted from the beginning."""
    has_ranges = response.headers.get("Accept-Ranges") == "bytes"
    return has_ranges and (response.content_length or 0) > count
