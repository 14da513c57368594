"""A writer of pickle bytes in the form that torch itself reaches after one load and save.

torch memoises a value when its reference count is above one, so its bytes depend on who else holds
the value. After one load and save they depend on the values alone: that form is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from functools import lru_cache
from typing import Any

from tsarchive.errors import SaveError

from . import opcodes as op
from .values import (
    Global,
    MarkedTuple,
    Memo,
    Memoised,
    Object,
    PersistentId,
    Reduce,
    Value,
    identity,
    shared_values,
)

MARK = op.MARK.byte
MARKED_TUPLE = MARK, op.TUPLE.byte
_TUPLES = (op.EMPTY_TUPLE.byte, op.TUPLE1.byte, op.TUPLE2.byte, op.TUPLE3.byte)

_NONE, _TRUE, _FALSE = op.NONE.byte, op.NEWTRUE.byte, op.NEWFALSE.byte
_LIST, _APPENDS = op.EMPTY_LIST.byte + MARK, op.APPENDS.byte
_DICT, _SETITEMS = op.EMPTY_DICT.byte + MARK, op.SETITEMS.byte
_NEW_OBJECT, _BUILD = op.EMPTY_TUPLE.byte + op.NEWOBJ.byte, op.BUILD.byte
_REDUCE, _PERSISTENT = op.REDUCE.byte, op.BINPERSID.byte


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


@lru_cache(maxsize=1 << 12)
def put_opcode(memo: int) -> bytes:
    """Memoise the value on the stack."""
    return _memo_opcode(op.BINPUT, op.LONG_BINPUT, memo)


@lru_cache(maxsize=1 << 12)
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


_COMPLEX = Global("builtins", "complex")

# A container is written by a generator, which yields the values inside it and resumes once they are
# written. A stack of generators takes the place of recursion.
_Parts = Generator[Value, None, None]


def dumps(value: Value) -> bytes:
    """Return a value as a pickle record.

    Strings and globals are memoised by value; lists, dicts, tuples, Objects and Reduces by identity
    if they are referenced at least twice (see Memo); ``()`` counts as one value. Raises SaveError
    if a value contains itself, has a type that TorchScript has no pickle for, is an int beyond 64
    bits, a string that UTF-8 cannot encode, or a malformed Global.

        >>> pickler.loads(pickler.dumps([True, None, "text"]))
        [True, None, 'text']
    """
    shared = shared_values(value)
    if shared is None:
        raise SaveError("a value contains itself", hint="break the cycle before saving")
    writer = PickleWriter(shared)
    writer.write(value)
    return writer.finished()


class PickleWriter:
    """Writes one record; of the values ``shared``, by their ids, the memo holds those written."""

    __slots__ = ("_by_identity", "_by_value", "_memos", "_shared", "out")

    def __init__(self, shared: frozenset[int] = frozenset()) -> None:
        self.out: bytearray = bytearray(op.PROTO.byte + b"\x02")
        self._shared = shared
        self._by_identity: dict[int, int] = {}
        self._by_value: dict[object, int] = {}
        self._memos = 0

    def write(self, root: Value) -> None:
        out, scalars = self.out, _SCALARS
        pending: list[Iterator[Value]] = [iter((root,))]
        while pending:
            for value in pending[-1]:
                if type(value) is int:
                    out += int_opcode(value)
                elif (scalar := scalars.get(kind := type(value))) is not None:
                    scalar(self, value)
                elif (parts := self._begin(kind, value)) is not None:
                    pending.append(parts)
                    break
            else:
                pending.pop()

    def finished(self) -> bytes:
        """Return the record."""
        return bytes(self.out + op.STOP.byte)

    def _begin(self, kind: type, value: Value) -> _Parts | None:
        """Write a reference to a container that is in the memo, or return a generator of its parts.

        ``kind`` is the type of the value, which is no scalar.
        """
        container = _CONTAINERS.get(kind)
        if container is None:
            raise SaveError(f"a value of type {kind.__name__} cannot be pickled for TorchScript")
        memo = self._by_identity.get(identity(value))
        if memo is None:
            return container(self, value)
        self.out += get_opcode(memo)
        return None

    # Memo

    def put(self) -> int:
        """Memoise what was just written; return its memo id."""
        memo = self._memos
        self.out += put_opcode(memo)
        self._memos = memo + 1
        return memo

    def _named(self, key: object, value: str | Global, opcode: Callable[[Any], bytes]) -> None:
        """Write a string or global; a reference if the pickle has one with this key already."""
        memo = self._by_value.get(key)
        if memo is None:
            self.out += opcode(value)
            self._by_value[key] = self.put()
        else:
            self.out += get_opcode(memo)

    def _memoise(self, value: Value, rule: Memo = Memo.SHARED) -> None:
        """Memoise a complete container, so that memo ids of its children are smaller."""
        key = identity(value)
        if rule is Memo.ALWAYS or (rule is Memo.SHARED and key in self._shared):
            self._by_identity[key] = self.put()

    # Scalars

    def _none(self, _: None) -> None:
        self.out += _NONE

    def _bool(self, value: bool) -> None:
        self.out += _TRUE if value else _FALSE

    def _float(self, value: float) -> None:
        self.out += op.BINFLOAT.byte + struct.pack(">d", value)

    def _complex(self, value: complex) -> None:
        self._global(_COMPLEX)
        self._float(value.real)
        self._float(value.imag)
        self.out += op.TUPLE2.byte + op.REDUCE.byte

    def write_text(self, value: str) -> None:
        """Write a string; a reference if it is already in the pickle."""
        self._named(value, value, str_opcode)

    def _global(self, value: Global) -> None:
        # Python hashes a tuple of strings in a tenth of the time of a dataclass.
        self._named((value.module, value.name), value, global_opcode)

    # Containers without a memo

    def _bare(self, value: Value) -> _Parts:
        if type(value) is list:
            return self._bare_list(value)
        if type(value) is dict:
            return self._bare_dict(value)
        if isinstance(value, tuple):
            return self._bare_tuple(value)
        raise SaveError(f"Memoised holds a list, dict or tuple, not {type(value).__name__}")

    def _bare_list(self, value: list[Value]) -> _Parts:
        self.out += _LIST
        yield from value
        self.out += _APPENDS

    def _bare_dict(self, value: dict[Value, Value]) -> _Parts:
        self.out += _DICT
        for key, item in value.items():
            yield key
            yield item
        self.out += _SETITEMS

    def _bare_tuple(self, value: tuple[Value, ...]) -> _Parts:
        opening, closing = _opcodes(value)
        self.out += opening
        yield from value
        self.out += closing

    def _arguments(self, value: tuple[Value, ...]) -> _Parts:
        """Write arguments of a Reduce, whose lists and dicts have no identity of their own."""
        opening, closing = _opcodes(value)
        self.out += opening
        for item in value:
            if type(item) is list or type(item) is dict:
                yield from self._bare(item)
            else:
                yield item
        self.out += closing

    # Containers, memoised as their rule says

    def _container(self, value: Value) -> _Parts:
        yield from self._bare(value)
        self._memoise(value)

    def _memoised(self, value: Memoised) -> _Parts:
        yield from self._bare(value.value)
        self._memoise(value, Memo.ALWAYS)

    def _object(self, value: Object) -> _Parts:
        self._global(value.cls)
        self.out += _NEW_OBJECT
        if type(value.state) is dict:
            yield from self._bare_dict(value.state)
        else:
            yield value.state
        self.out += _BUILD
        self._memoise(value, value.memo)

    def _reduce(self, value: Reduce) -> _Parts:
        if value.items is not None or value.state is not None:
            raise SaveError(f"items or state of {value.function.qualified_name} cannot be written")
        self._global(value.function)
        if isinstance(value.argument, tuple):
            yield from self._arguments(value.argument)
        else:
            yield value.argument
        self.out += _REDUCE
        self._memoise(value, value.memo)

    def _persistent_id(self, value: PersistentId) -> _Parts:
        yield from self._bare_tuple(MarkedTuple(value.value))
        self.out += _PERSISTENT
        self._memoise(value, Memo.ALWAYS)


_SCALARS: dict[type, Callable[[PickleWriter, Any], None]] = {
    type(None): PickleWriter._none,
    bool: PickleWriter._bool,
    float: PickleWriter._float,
    complex: PickleWriter._complex,
    str: PickleWriter.write_text,
    Global: PickleWriter._global,
}

_CONTAINERS: dict[type, Callable[[PickleWriter, Any], _Parts]] = {
    list: PickleWriter._container,
    dict: PickleWriter._container,
    tuple: PickleWriter._container,
    MarkedTuple: PickleWriter._bare_tuple,
    Memoised: PickleWriter._memoised,
    Object: PickleWriter._object,
    Reduce: PickleWriter._reduce,
    PersistentId: PickleWriter._persistent_id,
}


def _opcodes(value: tuple[Value, ...]) -> tuple[bytes, bytes]:
    return MARKED_TUPLE if type(value) is MarkedTuple else tuple_opcodes(len(value))
