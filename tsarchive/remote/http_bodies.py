"""Bodies of HTTP responses, copied to the memory that they are for.

Long ones are read from the connection straight into it: aiohttp copies each byte three times.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from tsarchive.errors import RemoteError
from tsarchive.remote.http_client import Manners, Pace, Unfinished

if TYPE_CHECKING:
    import aiohttp

# A connection that was read from directly is closed, which shorter bodies are not worth.
_LONG: Final = 4 << 20


class Filling:
    """Memory that responses fill, one after the other; ``done`` counts the bytes that are there."""

    def __init__(self, name: str, memory: memoryview, manners: Manners) -> None:
        self.done = 0
        self._name = name
        self._memory = memory
        self._manners = manners

    async def take(self, response: aiohttp.ClientResponse) -> None:
        """Copy a body into the rest.

        Raises Unfinished where it is shorter or slow, RemoteError where it is longer.
        """
        if _is_plain(response, len(self._memory) - self.done):
            await self._take_directly(response)
        else:
            async for chunk in chunks_of(response, self._manners):
                self._put(chunk)
        if self.done < len(self._memory):
            raise Unfinished(f"{self.done:,} of {len(self._memory):,} bytes came")

    def _put(self, chunk: bytes) -> None:
        stop = self.done + len(chunk)
        if stop > len(self._memory):
            problem = f"{self._name}: the server sends more bytes than it says"
            raise RemoteError(problem)
        self._memory[self.done : stop] = chunk
        self.done = stop

    async def _take_directly(self, response: aiohttp.ClientResponse) -> None:
        # What aiohttp has received comes first. Nothing else runs before its place is taken.
        while chunk := response.content.read_nowait():
            self._put(chunk)
        connection = response.connection
        transport = None if connection is None else connection.transport
        if transport is None:
            return  # all of it was there
        before = transport.get_protocol()
        rest = _Rest(self._memory[self.done :])
        transport.set_protocol(rest)
        try:
            await rest.wait(self._manners)
        finally:
            self.done += rest.done
            transport.set_protocol(before)
            response.close()


class _Rest(asyncio.BufferedProtocol):
    """Receives the rest of a body into memory, in place of aiohttp's protocol."""

    def __init__(self, memory: memoryview) -> None:
        self.done = 0
        self._memory = memory
        self._beyond = memoryview(bytearray(1))
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(self, manners: Manners) -> None:
        """Wait until all is there, or the connection has ended.

        Raises asyncio.TimeoutError where nothing comes, Unfinished where it comes slowly.
        """
        seen, pace = -1, Pace(manners)
        while not self._end.done():
            if seen == self.done:
                raise asyncio.TimeoutError
            pace.require(self.done)
            seen = self.done
            await asyncio.wait([self._end], timeout=manners.silence)

    def get_buffer(self, sizehint: int) -> memoryview:
        # The end of the connection takes a buffer, too, and one without room is an error.
        return self._memory[self.done :] or self._beyond

    def buffer_updated(self, nbytes: int) -> None:
        if self.done < len(self._memory):
            self.done += nbytes
        if self.done == len(self._memory):
            self._stop()

    def eof_received(self) -> None:
        self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()

    def _stop(self) -> None:
        if not self._end.done():
            self._end.set_result(None)


async def chunks_of(response: aiohttp.ClientResponse, manners: Manners) -> AsyncIterator[bytes]:
    """Yield a body as it comes. Raises Unfinished where it comes slowly."""
    done, pace = 0, Pace(manners)
    async for chunk, _ in response.content.iter_chunks():
        yield chunk
        done += len(chunk)
        pace.require(done)


def _is_plain(response: aiohttp.ClientResponse, size: int) -> bool:
    """Return whether a body is nothing but so many bytes, and long."""
    is_framed = response.content_length == size and "Transfer-Encoding" not in response.headers
    return is_framed and size >= _LONG and response.connection is not None
