"""The members of a tar archive, in which torch.save once wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_BLOCK: Final = 512
_NAME: Final = slice(0, 100)
_SIZE: Final = slice(124, 136)
_MAGIC: Final = slice(257, 262)
_MOST: Final = 100_000


def members_of(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents, up to the first header that is none."""
    position = 0
    for _ in range(_MOST):
        header = data[position : position + _BLOCK]
        size = _number(header[_SIZE])
        if header[_MAGIC] != b"ustar" or size is None:
            return
        name = header[_NAME].partition(b"\0")[0].decode("utf-8", "replace")
        position += _BLOCK
        yield name, data[position : position + size]
        position += -(-size // _BLOCK) * _BLOCK


def _number(field: bytes) -> int | None:
    """A size: octal digits or, for large ones, binary behind a bit that says so."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and set(digits) <= set(b"01234567") else None
