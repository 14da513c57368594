"""Values to pickle bytes, in the form that torch's own pickles no longer change.

torch memoises a value when its reference count is above one, so its bytes depend on who else
holds the value. After one load and save they depend on the values alone: that form is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Iterator

from tsarchive.errors import SaveError
from tsarchive.pickler import opcodes as op
from tsarchive.pickler.references import count_references, is_rewritten
from tsarchive.pickler.values import (
    Global,
    MarkedTuple,
    Memo,
    Memoised,
    Object,
    PersistentId,
    Reduce,
    Value,
)

_COMPLEX = Global("builtins", "complex")
_SMALL_TUPLES = (op.EMPTY_TUPLE, op.TUPLE1, op.TUPLE2, op.TUPLE3)
_MARK = op.MARK.byte

# A container is written by a generator: it yields the values that stand inside it, and goes on
# once they are written. A stack of generators takes the place of recursion.
_Parts = Generator[Value, None, None]


def dumps(value: Value) -> bytes:
    """One value as a pickle record.

    Strings and globals are memoised by value; lists, dicts, tuples, Objects and Reduces by
    identity if they are referenced at least twice (see Memo); ``()`` counts as one value.

    Raises SaveError if a value contains itself, has a type that TorchScript has no pickle for,
    is an int beyond 64 bits, a string that UTF-8 cannot encode, or a malformed Global.
    """
    references = count_references(value)
    if references.cyclic:
        raise SaveError("a value contains itself", hint="TorchScript values must not be cyclic")
    return _Writer(references.shared).write(value)


class _Writer:
    __slots__ = ("_by_identity", "_by_value", "_memos", "_out", "_shared")

    def __init__(self, shared: frozenset[int]) -> None:
        self._out = bytearray()
        self._shared = shared
        self._by_identity: dict[int, int] = {}
        self._by_value: dict[str | Global, int] = {}
        self._memos = 0

    def write(self, root: Value) -> bytes:
        self._out += op.PROTO.byte + b"\x02"
        pending: list[Iterator[Value]] = [iter((root,))]
        while pending:
            for value in pending[-1]:
                parts = self._begin(value)
                if parts is not None:
                    pending.append(parts)
                    break
            else:
                pending.pop()
        self._out += op.STOP.byte
        return bytes(self._out)

    def _begin(self, value: Value) -> _Parts | None:
        """Write a scalar or a reference to a memo; of a container, give the parts."""
        kind = type(value)
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            scalar(self, value)
            return None
        container = _CONTAINERS.get(kind)
        if container is None:
            raise SaveError(f"a value of type {kind.__name__} cannot be pickled for TorchScript")
        memo = self._by_identity.get(id(value))
        if memo is not None:
            self._get(memo)
            return None
        return container(self, value)

    # Memo

    def _put(self) -> int:
        memo = self._memos
        self._memos += 1
        self._memo(op.BINPUT, op.LONG_BINPUT, memo)
        return memo

    def _get(self, memo: int) -> None:
        self._memo(op.BINGET, op.LONG_BINGET, memo)

    def _memo(self, short: op.Opcode, long: op.Opcode, memo: int) -> None:
        if memo < 256:
            self._out += bytes((short.code, memo))
        else:
            self._out += long.byte + struct.pack("<I", memo)

    def _memoise(self, value: Value, rule: Memo = Memo.SHARED) -> None:
        """Memoise a container that is complete: memo ids of children are smaller."""
        if rule is Memo.ALWAYS or (rule is Memo.SHARED and id(value) in self._shared):
            self._by_identity[id(value)] = self._put()

    # Scalars

    def _none(self, _: None) -> None:
        self._out += op.NONE.byte

    def _bool(self, value: bool) -> None:
        self._out += op.NEWTRUE.byte if value else op.NEWFALSE.byte

    def _int(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self._out += bytes((op.BININT1.code, value))
        elif 0 <= value < 1 << 16:
            self._out += op.BININT2.byte + struct.pack("<H", value)
        elif -(1 << 31) <= value < 1 << 31:
            self._out += op.BININT.byte + struct.pack("<i", value)
        elif -(1 << 63) <= value < 1 << 63:
            self._out += op.LONG1.byte + b"\x08" + struct.pack("<q", value)
        else:
            raise SaveError(f"an int of {value.bit_length()} bits does not fit in 64")

    def _float(self, value: float) -> None:
        self._out += op.BINFLOAT.byte + struct.pack(">d", value)

    def _complex(self, value: complex) -> None:
        self._global(_COMPLEX)
        self._float(value.real)
        self._float(value.imag)
        self._out += op.TUPLE2.byte + op.REDUCE.byte

    def _str(self, value: str) -> None:
        memo = self._by_value.get(value)
        if memo is not None:
            return self._get(memo)
        try:
            text = value.encode()
        except UnicodeEncodeError as error:
            raise SaveError(f"the string {value[:40]!r} is not valid Unicode: {error.reason}") from error
        self._out += unicode_header(len(text)) + text
        self._by_value[value] = self._put()
        return None

    def _global(self, value: Global) -> None:
        memo = self._by_value.get(value)
        if memo is not None:
            return self._get(memo)
        if not value.is_well_formed():
            raise SaveError(f"{value.qualified_name!r} is not a name that a pickle can hold")
        self._out += op.GLOBAL.byte + f"{value.module}\n{value.name}\n".encode()
        self._by_value[value] = self._put()
        return None

    # Containers

    def _list(self, value: list[Value]) -> _Parts:
        yield from self._bare_list(value)
        self._memoise(value)

    def _dict(self, value: dict[Value, Value]) -> _Parts:
        yield from self._bare_dict(value)
        self._memoise(value)

    def _tuple(self, value: tuple[Value, ...]) -> _Parts:
        yield from self._bare_tuple(value)
        self._memoise(value)

    def _memoised(self, wrapper: Memoised) -> _Parts:
        yield from self._bare(wrapper.value)
        self._memoise(wrapper, Memo.ALWAYS)

    def _object(self, value: Object) -> _Parts:
        self._global(value.cls)
        self._out += op.EMPTY_TUPLE.byte + op.NEWOBJ.byte
        if type(value.state) is dict:
            yield from self._bare_dict(value.state)
        else:
            yield value.state
        self._out += op.BUILD.byte
        self._memoise(value, value.memo)

    def _reduce(self, value: Reduce) -> _Parts:
        if value.items is not None or value.state is not None:
            raise SaveError(f"items and state of {value.function.qualified_name} are not written")
        self._global(value.function)
        if isinstance(value.argument, tuple):
            yield from self._bare_tuple(self._owning(value.argument))
        else:
            yield value.argument
        self._out += op.REDUCE.byte
        self._memoise(value, value.memo)

    def _persistent_id(self, value: PersistentId) -> _Parts:
        yield from self._marked_tuple(value.value)
        self._out += op.BINPERSID.byte
        self._memoise(value, Memo.ALWAYS)
