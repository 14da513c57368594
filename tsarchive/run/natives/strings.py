"""Operators on strings, which are bytes in TorchScript: positions count bytes, letters are ASCII's.

At run time a string is a Python str that holds the bytes as UTF-8; bytes that are not UTF-8 are
lone surrogates (the "surrogateescape" scheme). Every byte string has exactly one such str, which
``decode`` gives; a result joined from parts must go through ``normalized``, because two escaped
bytes side by side may be one character.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from tsarchive.errors import ScriptError
from tsarchive.run.natives.conversions import python_slice
from tsarchive.run.natives.table import N, Native, check_bytes, fault, native, wrong_kind


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def normalized(text: str) -> str:
    """The one str for the bytes of ``text``."""
    return text if text.isascii() else decode(encode(text))


def _to_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return decode(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_to_text, value))
    return value


def on_bytes(function: Callable[..., Any]) -> Native:
    """``function``, which takes and returns bytes, as a native that takes and returns str."""

    def call(text: str, *arguments: Any) -> Any:
        if not isinstance(text, str):
            raise wrong_kind(text, str)
        others = (encode(value) if isinstance(value, str) else value for value in arguments)
        return _to_text(function(encode(text), *others))

    return call


# On ASCII text, the methods of str of these names do what those of bytes do.
_LIKE_STR = (
    "capitalize", "isalnum", "isalpha", "isdigit", "islower", "istitle", "isupper", "lower",
    "lstrip", "rstrip", "strip", "swapcase", "title", "upper",
)  # fmt: skip


def byte_native(*keys: str) -> Callable[[N], N]:
    """Enter a function of bytes as a native of str."""

    def enter(function: N) -> N:
        native(*keys)(on_bytes(function))
        return function

    return enter


byte_native("aten::isdecimal", "aten::isnumeric")(bytes.isdigit)
byte_native("aten::isspace")(bytes.isspace)
byte_native("aten::list")(lambda string: [string[i : i + 1] for i in range(len(string))])
byte_native("aten::isprintable")(lambda string: all(0x20 <= byte < 0x7F for byte in string))
for _name in ("lt", "le", "gt", "ge"):
    byte_native(f"aten::{_name}.str")(getattr(operator, _name))


def _unless_ascii(of_str: Callable[..., Any], of_bytes: Callable[..., Any]) -> Callable[..., Any]:
    """``of_str`` for ASCII text, ``of_bytes`` for the bytes of other text."""
    run = on_bytes(of_bytes)

    def call(text: str, *arguments: Any) -> Any:
        is_ascii = type(text) is str and text.isascii()
        return of_str(text, *arguments) if is_ascii else run(text, *arguments)

    return call


for _name in _LIKE_STR:
    native(f"aten::{_name}")(_unless_ascii(getattr(str, _name), getattr(bytes, _name)))

native("aten::eq.str")(operator.eq)
native("aten::ne.str")(operator.ne)


@native("aten::add.str")
def concatenate(a: str, b: str) -> str:
    check_bytes(len(a) + len(b))
    text = a + b
    return text if text.isascii() else normalized(text)


@native("aten::join")
def join(separator: str, values: list[str]) -> str:
    if not isinstance(separator, str):
        raise wrong_kind(separator, str)
    check_bytes(sum(map(len, values)) + len(separator) * (len(values) - 1))
    return normalized(separator.join(values))


@native("aten::len.str")
def length(s: str) -> int:
    if not isinstance(s, str):
        raise wrong_kind(s, str)
    return len(s) if s.isascii() else len(encode(s))


@byte_native("aten::__getitem__.str", "prim::StringIndex")
def byte_at(string: bytes, index: int) -> bytes:
    """The byte at ``index`` as a string; negative counts from the end."""
    position = index + len(string) if index < 0 else index
    if not 0 <= position < len(string):
        raise fault(
            IndexError,
            f"basic_string::at: __n (which is {position % 2**64}) >= "
            f"this->size() (which is {len(string)})",
        )
    return string[position : position + 1]


byte_native("aten::slice.str")(
    lambda string, start, end, step: string[python_slice(start, end, step)]
)


@byte_native("aten::ord")
def byte_value(string: bytes) -> int:
    if len(string) != 1:
        raise fault(TypeError, f"String for ord() must be 1 character, found {len(string)}")
    return string[0]


@native("aten::chr")
def byte_of_value(i: int) -> str:
    """One byte, the lowest eight bits of ``i``, which need not be valid UTF-8 by itself."""
    if not 0 <= i < 0x10FFFF:
        raise ScriptError(f"chr() arg not in range(0x110000), found {i}")
    return decode(bytes((i & 0xFF,)))


# Letters and digits, no digit first; torch does not count the underscore.
byte_native("aten::isidentifier")(lambda string: string.isalnum() and not string[:1].isdigit())


def _padded(string: bytes, left: int, right: int, fill: bytes) -> bytes:
    if len(fill) != 1:
        raise fault(TypeError, "TypeError: The fill character must be exactly one character long")
    check_bytes(max(left, 0) + len(string) + max(right, 0))
    return fill * left + string + fill * right


byte_native("aten::ljust")(
    lambda string, width, fill: _padded(string, 0, width - len(string), fill)
)
byte_native("aten::rjust")(
    lambda string, width, fill: _padded(string, width - len(string), 0, fill)
)
# Zeros before the string; a sign stays where it was, after them.
byte_native("aten::zfill")(lambda string, width: _padded(string, width - len(string), 0, b"0"))


@byte_native("aten::center")
def center(string: bytes, width: int, fill: bytes) -> bytes:
    """An odd byte of padding goes to the right, or to the left when ``width`` is odd."""
    total = max(0, width - len(string))
    less, more = total // 2, (total + 1) // 2
    return _padded(string, *((more, less) if width % 2 else (less, more)), fill)


@byte_native("aten::expandtabs")
def expand_tabs(string: bytes, tab_size: int) -> bytes:
    """Spaces up to the next multiple of ``tab_size``; a line break does not restart the count."""
    check_bytes(len(string) + string.count(b"\t") * tab_size)
    expanded = bytearray()
    for byte in string:
        if byte != 0x09:
            expanded.append(byte)
        elif tab_size > 0:
            expanded.extend(b" " * (tab_size - len(expanded) % tab_size))
    return bytes(expanded)


@byte_native("aten::replace")
def replace(string: bytes, old: bytes, new: bytes, maximum: int) -> bytes:
    """Replace the first ``maximum`` occurrences, all when negative.

    The empty string is found before the first byte again and again; without a maximum torch
    runs out of memory.
    """
    if not old and maximum < 0:
        raise ScriptError("replacing the empty string needs a maximum count")
    found = string.count(old) if old else maximum
    count = min(found, maximum) if maximum >= 0 else found
    check_bytes(len(string) + count * (len(new) - len(old)))
    return string.replace(old, new, maximum) if old else new * maximum + string


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
        raise fault(
            IndexError,
            f"basic_string::substr: __pos (which is {start}) > "
            f"this->size() (which is {len(string)})",
        )


def _enter_search(name: str, index_name: str, search: Callable[[bytes, bytes], int]) -> None:
    @byte_native(f"aten::{name}")
    def find(string: bytes, part: bytes, start: int, end: int) -> int:
        """Return the index at which ``search`` finds ``part`` between ``start`` and ``end``, or -1.

        An empty ``part`` is found at ``start`` even when that lies behind the end.
        """
        start, end = _window(len(string), start, end)
        piece = b""
        if end > start:
            _check_start(string, start)
            piece = string[start:end]
        found = search(piece, part)
        return found + start if found >= 0 else -1

    @byte_native(f"aten::{index_name}")
    def index(string: bytes, part: bytes, start: int, end: int) -> int:
        position = find(string, part, start, end)
        if position < 0:
            raise fault(ValueError, "ValueError: substring not found")
        return position


_enter_search("find", "index.str", bytes.find)
_enter_search("rfind", "rindex", bytes.rfind)


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


byte_native("aten::startswith")(
    lambda string, part, start, end: _piece(string, start, end).startswith(part)
)
byte_native("aten::endswith")(
    lambda string, part, start, end: _piece(string, start, end).endswith(part)
)


@byte_native("aten::split.str")
def split(string: bytes, separator: bytes | None, maximum: int) -> list[bytes]:
    """Split at ``separator``, or at runs of blanks, where torch ignores ``maximum``."""
    if separator is None:
        return list(filter(None, _BLANKS.split(string)))
    if not separator:
        raise fault(ValueError, "ValueError: empty separator")
    return string.split(separator, maximum)


@byte_native("aten::rsplit")
def split_from_the_right(string: bytes, separator: bytes, maximum: int) -> list[bytes]:
    """Split at the last ``maximum`` separators; torch never returns for an empty one."""
    if not separator:
        raise fault(ValueError, "ValueError: empty separator")
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


byte_native("aten::partition")(
    lambda string, separator: string.partition(separator) if separator else (b"", b"", string)
)
byte_native("aten::rpartition")(
    lambda string, separator: string.rpartition(separator) if separator else (string, b"", b"")
)
