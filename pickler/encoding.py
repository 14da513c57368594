"""Encoding of single values as pickle bytes: ints, strings, names, memo references."""

from __future__ import annotations

import struct
from functools import lru_cache

from tsarchive.errors import SaveError

from . import opcodes as op
from .values import Global

MARK = op.MARK.byte
MARKED_TUPLE = MARK, op.TUPLE.byte
_TUPLES = (op.EMPTY_TUPLE.byte, op.TUPLE1.byte, op.TUPLE2.byte, op.TUPLE3.byte)


@lru_cache(maxsize=1 << 12)
def int_opcode(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return struct.pack("<BB", op.BININT1.code, value)
    if 0 <= value < 1 << 16:
        return struct.pack("<BH", op.BININT2.code, value)
    if -(1 << 31) <= value < 1 << 31:
        return struct.pack("<Bi", op.BININT.code, value)
    if -(1 << 63) <= value < 1 << 63:
        return struct.pack("<BBq", op.LONG1.code, 8, value)
    raise SaveError(f"an int of {value.bit_length()} bits does not fit in 64 bits")


def str_opcode(value: str) -> bytes:
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise SaveError(f"the string {value[:40]!r} cannot be written as UTF-8") from error
    return _str_header(len(text)) + text


def _str_header(length: int) -> bytes:
    if length < 1 << 32:
        return struct.pack("<BI", op.BINUNICODE.code, length)
    return struct.pack("<BQ", op.BINUNICODE8.code, length)


def global_opcode(value: Global) -> bytes:
    if not value.is_well_formed():
        raise SaveError(f"{value.qualified_name[:80]!r} is not a name that a pickle can hold")
    return op.GLOBAL.byte + f"{value.module}\n{value.name}\n".encode()


def put_opcode(memo: int) -> bytes:
    """Memoise the value on the stack."""
    return _memo_opcode(op.BINPUT, op.LONG_BINPUT, memo)


def get_opcode(memo: int) -> bytes:
    """Recall a value."""
    return _memo_opcode(op.BINGET, op.LONG_BINGET, memo)


def _memo_opcode(short: op.Opcode, long: op.Opcode, memo: int) -> bytes:
    if memo < 1 << 8:
        return bytes((short.code, memo))
    return struct.pack("<BI", long.code, memo)


def tuple_opcodes(length: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after the items."""
    if length >= len(_TUPLES):
        return MARKED_TUPLE
    return b"", _TUPLES[length]
