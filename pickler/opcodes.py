"""The pickle opcodes of TorchScript records: a subset of pickle protocol 2, as data.

Rows follow CPython's ``pickletools``: opcodes and arguments have its names. ``WRITTEN`` is what
torch's pickler and ours emit, ``READ`` what torch's unpickler and ours accept.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Argument(Enum):
    """The layout of the bytes after an opcode: (name, number of bytes that are always present)."""

    NONE = ("none", 0)
    UINT1 = ("uint1", 1)
    UINT2 = ("uint2", 2)
    INT4 = ("int4", 4)
    UINT4 = ("uint4", 4)
    FLOAT8 = ("float8", 8)
    LONG1 = ("long1", 9)
    UTF8_4 = ("unicodestring4", 4)
    UTF8_8 = ("unicodestring8", 8)
    LINES = ("stringnl_noescape_pair", 0)

    @property
    def size(self) -> int:
        """The number of bytes present for every value: all, or the length field of a string."""
        return self.value[1]


class Opcode(NamedTuple):
    """One opcode."""

    name: str
    code: int
    argument: Argument = Argument.NONE

    @property
    def byte(self) -> bytes:
        """The opcode as it stands in the stream."""
        return bytes((self.code,))


PROTO = Opcode("PROTO", 0x80, Argument.UINT1)  # protocol number; first, and always 2
STOP = Opcode("STOP", ord("."))  # the value on the stack is the result

NONE = Opcode("NONE", ord("N"))
NEWTRUE = Opcode("NEWTRUE", 0x88)
NEWFALSE = Opcode("NEWFALSE", 0x89)
BININT1 = Opcode("BININT1", ord("K"), Argument.UINT1)  # int from 0 to 255
BININT2 = Opcode("BININT2", ord("M"), Argument.UINT2)  # int from 0 to 65,535
BININT = Opcode("BININT", ord("J"), Argument.INT4)  # 32-bit signed int
LONG1 = Opcode("LONG1", 0x8A, Argument.LONG1)  # 64-bit signed int; length always 8
BINFLOAT = Opcode("BINFLOAT", ord("G"), Argument.FLOAT8)  # big-endian double
BINUNICODE = Opcode("BINUNICODE", ord("X"), Argument.UTF8_4)  # UTF-8, below 4 GiB
BINUNICODE8 = Opcode("BINUNICODE8", 0x8D, Argument.UTF8_8)  # UTF-8, from 4 GiB on

MARK = Opcode("MARK", ord("("))  # start of a run of items
EMPTY_TUPLE = Opcode("EMPTY_TUPLE", ord(")"))
TUPLE1 = Opcode("TUPLE1", 0x85)  # of one item
TUPLE2 = Opcode("TUPLE2", 0x86)  # of two items
TUPLE3 = Opcode("TUPLE3", 0x87)  # of three items
TUPLE = Opcode("TUPLE", ord("t"))  # of the run
EMPTY_LIST = Opcode("EMPTY_LIST", ord("]"))  # new list
APPEND = Opcode("APPEND", ord("a"))  # add one item
APPENDS = Opcode("APPENDS", ord("e"))  # add the run
LIST = Opcode("LIST", ord("l"))  # of the run
EMPTY_DICT = Opcode("EMPTY_DICT", ord("}"))  # new dict
SETITEM = Opcode("SETITEM", ord("s"))  # set a key
SETITEMS = Opcode("SETITEMS", ord("u"))  # set a run of keys
DICT = Opcode("DICT", ord("d"))  # of the run

GLOBAL = Opcode("GLOBAL", ord("c"), Argument.LINES)  # a name: module and name lines
NEWOBJ = Opcode("NEWOBJ", 0x81)  # object without state
BUILD = Opcode("BUILD", ord("b"))  # give an object a state
REDUCE = Opcode("REDUCE", ord("R"))  # apply a global
BINPERSID = Opcode("BINPERSID", ord("Q"))  # storage, by its id

BINPUT = Opcode("BINPUT", ord("q"), Argument.UINT1)  # memoise the value on the stack
LONG_BINPUT = Opcode("LONG_BINPUT", ord("r"), Argument.UINT4)  # BINPUT, ids above 255
BINGET = Opcode("BINGET", ord("h"), Argument.UINT1)  # a memoised value again
LONG_BINGET = Opcode("LONG_BINGET", ord("j"), Argument.UINT4)  # BINGET, ids above 255

WRITTEN: tuple[Opcode, ...] = (
    *(PROTO, STOP, MARK),
    *(NONE, NEWTRUE, NEWFALSE, BININT1, BININT2, BININT, LONG1, BINFLOAT, BINUNICODE, BINUNICODE8),
    *(EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3, TUPLE, EMPTY_LIST, APPENDS, EMPTY_DICT, SETITEMS),
    *(GLOBAL, NEWOBJ, BUILD, REDUCE, BINPERSID, BINPUT, LONG_BINPUT, BINGET, LONG_BINGET),
)
READ: tuple[Opcode, ...] = (*WRITTEN, APPEND, LIST, SETITEM, DICT)

BY_CODE: dict[int, Opcode] = {opcode.code: opcode for opcode in READ}

# Opcodes of Python's pickle that no TorchScript record holds; errors name them.
FOREIGN: dict[int, str] = {
    ord("I"): "INT",
    ord("L"): "LONG",
    0x8B: "LONG4",
    ord("S"): "STRING",
    ord("T"): "BINSTRING",
    ord("U"): "SHORT_BINSTRING",
    ord("B"): "BINBYTES",
    ord("C"): "SHORT_BINBYTES",
    0x8E: "BINBYTES8",
    0x96: "BYTEARRAY8",
    0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
    ord("V"): "UNICODE",
    0x8C: "SHORT_BINUNICODE",
    ord("F"): "FLOAT",
    0x8F: "EMPTY_SET",
    0x90: "ADDITEMS",
    0x91: "FROZENSET",
    ord("0"): "POP",
    ord("1"): "POP_MARK",
    ord("2"): "DUP",
    ord("g"): "GET",
    ord("p"): "PUT",
    0x94: "MEMOIZE",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x93: "STACK_GLOBAL",
    ord("i"): "INST",
    ord("o"): "OBJ",
    0x92: "NEWOBJ_EX",
    0x95: "FRAME",
    ord("P"): "PERSID",
}
