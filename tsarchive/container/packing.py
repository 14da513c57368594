"""What wrote a zip archive, as its first member tells."""

from __future__ import annotations

from typing import NamedTuple

from tsarchive.container.layout import (
    ALIGNMENT,
    FLAG_UTF8,
    LOCAL,
    LOCAL_SIGNATURE,
    PADDING_FIELD,
    LocalHeader,
)
from tsarchive.container.reader import Container
from tsarchive.container.recognise import HEAD_BYTES


class Packing(NamedTuple):
    """``is_torchs``: the first member is padded and marked as torch does it. ``has_times``: it has
    the time at which it was written."""

    is_torchs: bool
    has_times: bool


def packing_of(container: Container) -> Packing:
    """Look at the local header at the start of an archive."""
    stops = (span.stop for span in container.spans(container.records))
    head = container.piece(0, min([HEAD_BYTES, *stops]))  # of a file elsewhere one request
    start = head[: LOCAL.size]
    if len(start) < LOCAL.size or start[:4] != LOCAL_SIGNATURE:
        return Packing(is_torchs=False, has_times=False)
    header = LocalHeader(*LOCAL.unpack(start))
    extra_start = LOCAL.size + header.name_length
    data = extra_start + header.extra_length
    is_padded = PADDING_FIELD in bytes(container.piece(extra_start, data)) and not data % ALIGNMENT
    return Packing(
        is_torchs=is_padded and bool(header.flags & FLAG_UTF8),
        has_times=bool(header.time or header.date),
    )
