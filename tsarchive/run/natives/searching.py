"""Operators that look for a string in a string, and split at what they find."""

from __future__ import annotations

import re
from collections.abc import Callable

from tsarchive.errors import ScriptError
from tsarchive.run.natives.faults import index_fault, value_fault
from tsarchive.run.natives.strings import byte_native

# The characters that end a line in Python, taken as a set of single bytes: the UTF-8 forms of
# U+2028 and U+2029 put E2, 80, A8 and A9 into it.
_LINE_ENDS = b"\n\r\v\f\x1c\x1d\x1e\x85\xe2\x80\xa8\xa9"
_LINE_END = re.compile(b"[" + _LINE_ENDS + b"]")
_BLANKS = re.compile(b"[ \t" + _LINE_ENDS + b"]+")


def _window(size: int, start: int, end: int) -> tuple[int, int]:
    """The bounds of a search; negative ones count from behind the last byte (-1 is the end)."""
    if start < 0:
        start = max(0, size + start)
    if end < 0:
        end = max(0, size + end + 1)
    return start, end


def _check_start(string: bytes, start: int) -> None:
    if start > len(string):
        raise index_fault(
            f"basic_string::substr: __pos (which is {start}) > "
            f"this->size() (which is {len(string)})"
        )


def _position(
    string: bytes, part: bytes, start: int, end: int, search: Callable[[bytes, bytes], int]
) -> int:
    """Where ``search`` finds ``part`` between ``start`` and ``end``, or -1.

    An empty ``part`` is found at ``start`` even when that lies behind the end.
    """
    start, end = _window(len(string), start, end)
    piece = b""
    if end > start:
        _check_start(string, start)
        piece = string[start:end]
    found = search(piece, part)
    return found + start if found >= 0 else -1


@byte_native("aten::find")
def find(string: bytes, part: bytes, start: int, end: int) -> int:
    return _position(string, part, start, end, bytes.find)


@byte_native("aten::rfind")
def find_last(string: bytes, part: bytes, start: int, end: int) -> int:
    return _position(string, part, start, end, bytes.rfind)


def _found(position: int) -> int:
    if position < 0:
        raise value_fault("ValueError: substring not found")
    return position


@byte_native("aten::index.str")
def index(string: bytes, part: bytes, start: int, end: int) -> int:
    return _found(find(string, part, start, end))


@byte_native("aten::rindex")
def index_of_last(string: bytes, part: bytes, start: int, end: int) -> int:
    return _found(find_last(string, part, start, end))


@byte_native("aten::count")
def count(string: bytes, part: bytes, start: int, end: int) -> int:
    """Occurrences that do not overlap and begin before ``end``; torch never returns for ""."""
    if start > len(string):
        return 0
    start, end = _window(len(string), start, end)
    if not part:
        if start < end:
            raise ScriptError("the empty string cannot be counted")
        return 0
    return string[: max(0, end + len(part) - 1)].count(part, start)


def _piece(string: bytes, start: int, end: int) -> bytes:
    """The bytes between the bounds; an end before the start counts as none."""
    start, end = _window(len(string), start, end)
    _check_start(string, start)
    return string[start:] if end < start else string[start:end]


@byte_native("aten::startswith")
def starts_with(string: bytes, part: bytes, start: int, end: int) -> bool:
    return _piece(string, start, end).startswith(part)


@byte_native("aten::endswith")
def ends_with(string: bytes, part: bytes, start: int, end: int) -> bool:
    return _piece(string, start, end).endswith(part)


@byte_native("aten::split.str")
def split(string: bytes, separator: bytes | None, maximum: int) -> list[bytes]:
    """Split at ``separator``, or at runs of blanks, where torch ignores ``maximum``."""
    if separator is None:
        return [piece for piece in _BLANKS.split(string) if piece]
    if not separator:
        raise value_fault("ValueError: empty separator")
    return string.split(separator, maximum)


@byte_native("aten::rsplit")
def split_from_the_right(string: bytes, separator: bytes, maximum: int) -> list[bytes]:
    """Split at the last ``maximum`` separators; torch never returns for an empty one."""
    if not separator:
        raise value_fault("ValueError: empty separator")
    return string.rsplit(separator, maximum)


@byte_native("aten::splitlines")
def split_lines(string: bytes, keep_ends: bool) -> list[bytes]:
    """Split behind every line end: "\\r\\n" is two, and kept ones are items of their own."""
    pieces: list[bytes] = []
    begin = 0
    for match in _LINE_END.finditer(string):
        pieces.append(string[begin : match.start()])
        if keep_ends:
            pieces.append(match[0])
        begin = match.end()
    return [*pieces, string[begin:]] if begin != len(string) else pieces


@byte_native("aten::partition")
def partition(string: bytes, separator: bytes) -> tuple[bytes, bytes, bytes]:
    return string.partition(separator) if separator else (b"", b"", string)


@byte_native("aten::rpartition")
def partition_at_last(string: bytes, separator: bytes) -> tuple[bytes, bytes, bytes]:
    return string.rpartition(separator) if separator else (string, b"", b"")
