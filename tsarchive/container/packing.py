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


class Packing(NamedTuple):
    """``is_torchs``: the first member is padded and marked as torch does it. ``has_times``: it has
    the time at which it was written."""

    is_torchs: bool
    has_times: bool


def packing_of(buffer: memoryview) -> Packing:
    """Look at the first local header of an archive that fills ``buffer``."""
    if len(buffer) < LOCAL.size or buffer[:4] != LOCAL_SIGNATURE:
        return Packing(is_torchs=False, has_times=False)
    header = LocalHeader(*LOCAL.unpack_from(buffer, 0))
    extra_start = LOCAL.size + header.name_length
    data = extra_start + header.extra_length
    is_padded = PADDING_FIELD in bytes(buffer[extra_start:data]) and not data % ALIGNMENT
    return Packing(
        is_torchs=is_padded and bool(header.flags & FLAG_UTF8),
        has_times=bool(header.time or header.date),
    )
