"""Reading several pieces of a file at once in the event loop of fsspec."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, TypeAlias, TypeVar

Piece: TypeAlias = tuple[int, memoryview]

CONNECTIONS: Final = 8
"""How many requests are under way at most."""
PIECE_BYTES: Final = 8 << 20
"""Longer spans are fetched in several requests, of more than this where these would be many."""
_MANY: Final = 4 * CONNECTIONS

_T = TypeVar("_T")


def run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> _T:
    """Return what a coroutine returns in a loop that runs in another thread."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # where the user interrupts
        raise


def pieces_of(wanted: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the same, in pieces for one request each."""
    for offset, memory in wanted:
        size = max(PIECE_BYTES, -(-len(memory) // _MANY))
        for start in range(0, len(memory), size):
            yield offset + start, memory[start : start + size]


async def read_pieces(
    wanted: Iterable[Piece], read: Callable[[int, memoryview], Awaitable[None]]
) -> None:
    """Call ``read`` with every piece. The first error ends the others."""
    pieces = iter(wanted)

    async def work() -> None:
        for offset, memory in pieces:
            await read(offset, memory)

    tasks = [asyncio.ensure_future(work()) for _ in range(CONNECTIONS)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
