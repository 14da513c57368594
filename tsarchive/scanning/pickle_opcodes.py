"""The opcodes of pickles, and their arguments as unpicklers read them.

What an opcode does to the stack is in the standard library's ``pickletools``. How ``pickletools``
reads some arguments is not how ``pickle`` does: what it refuses would run all the same.
"""

from __future__ import annotations

import codecs
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, cast

from .pickle_bytes import PickleBytes

# pickletools asks for it when it meets old text; a file must not cause an import.
codecs.lookup("raw_unicode_escape")

# What is longer is no name of anything that can be imported.
LONGEST_NAME: Final = 500
# Text has no other bytes, and what must follow these hardly ever: quotes, numbers, right lengths.
_RARE: Final = (
    "STRING", "BINSTRING", "BINUNICODE", "BINBYTES", "INT", "LONG", "FLOAT", "PUT", "GET",
)  # fmt: skip
_WEIGHT_OF_RARE: Final = 3
_WEIGHT_OF_LETTER: Final = 1
_TRUTHS: Final = (b"00", b"01")
_Reader = Callable[[PickleBytes], Any]


class Plain(Enum):
    """A value that cannot be called, and is no tuple of arguments."""

    OTHER = auto()
    DICT = auto()


@dataclass(frozen=True, slots=True)
class Opcode:
    """``pops`` counts what it takes below the mark, if ``has_mark``; ``pushes`` has an item for
    each value it leaves, None where its type is not known. ``weight`` is less for those that begin
    words and lines of texts, too."""

    name: str
    weight: int
    read: _Reader | None
    has_mark: bool
    pops: int
    pushes: tuple[Plain | None, ...]


def read_opcode(stream: PickleBytes) -> Opcode:
    """The next opcode; its argument follows in the stream."""
    code = stream.read(1)
    found = OPCODES.get(code)
    if found is None:
        raise ValueError(f"{code!r} is no opcode" if code else "it ends before STOP")
    return found


def _global(stream: PickleBytes) -> tuple[str, str]:
    """The lines of a module and of a name in it."""
    return _name(stream), _name(stream)


def _name(stream: PickleBytes) -> str:
    line = stream.readline() or stream.rest(LONGEST_NAME + 1)
    if not line:
        raise ValueError("a name has no end")
    # pickle cuts the last byte off, whichever it is.
    return line[:-1].decode("utf-8", "replace")


def _number(stream: PickleBytes) -> None:
    """An integer in the notation of Python, which may be hexadecimal, or a truth value."""
    line = _line(stream)
    if line not in _TRUTHS:
        int(line, 0)


def _long(stream: PickleBytes) -> None:
    int(_line(stream).removesuffix(b"L"), 0)


def _string(stream: PickleBytes) -> str:
    """Text between quotes; which bytes it may hold depends on how ``pickle`` is called."""
    line = _line(stream)
    if len(line) < 2 or line[0] != line[-1] or line[:1] not in (b"'", b'"'):
        raise ValueError("text is not between quotes")
    return codecs.escape_decode(line[1:-1])[0].decode("latin-1")


def _line(stream: PickleBytes) -> bytes:
    line = stream.readline()
    if not line:
        raise ValueError("a line has no end")
    return line[:-1]


_READERS: Final[dict[str, _Reader]] = {
    "GLOBAL": _global,
    "INST": _global,
    "INT": _number,
    "LONG": _long,
    "STRING": _string,
}


def _opcode(info: pickletools.OpcodeInfo) -> Opcode:
    before = info.stack_before
    has_mark = pickletools.markobject in before
    is_of_text = info.code.isascii() and info.name not in _RARE
    return Opcode(
        info.name,
        _WEIGHT_OF_LETTER if is_of_text else _WEIGHT_OF_RARE,
        _READERS.get(info.name) or (None if info.arg is None else cast(_Reader, info.arg.reader)),
        has_mark,
        before.index(pickletools.markobject) if has_mark else len(before),
        tuple(_KINDS.get(after.name, Plain.OTHER) for after in info.stack_after),
    )


_KINDS: Final = {pickletools.anyobject.name: None, pickletools.pydict.name: Plain.DICT}
OPCODES: Final = {info.code.encode("latin-1"): _opcode(info) for info in pickletools.opcodes}
