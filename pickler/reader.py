"""A stack machine that reads pickle bytes to inert values; it imports and calls nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, NoReturn, TypeAlias, TypeGuard

from tsarchive.errors import PickleError

from . import opcodes as op
from .values import Global, Object, PersistentId, Reduce, Repeats, Value, repeats_in


class Limits(NamedTuple):
    """Bounds on one pickle record; beyond any of them reading ends with a PickleError.

    Depth needs no bound: the machine does not recurse.

        >>> pickler.loads(pickler.dumps([1] * 100), limits=pickler.Limits(max_items=10))
        Traceback (most recent call last):
            ...
        tsarchive.errors.PickleError: ...
    """

    max_bytes: int = 1 << 28
    """Size of the record."""
    max_opcodes: int = 1 << 24
    """Opcodes. Bounds time, and memory: each may leave one value on the stack."""
    max_memo: int = 1 << 22
    """Memoised values."""
    max_items: int = 1 << 24
    """Items put into containers."""
    max_values: int = 1 << 22
    """Containers, marks, names, and values made of them. Bounds memory: a container costs about 80
    bytes for the one byte that makes it.
    """
    max_repeats: int = 1 << 22
    """The number of times that a walk along every reference meets values again. A list of a list
    twice, thirty times over, is a billion of them in a hundred bytes.
    """


_PROTOCOL = 2
_NOT_TORCHSCRIPT = "this pickle is not a TorchScript one"
_ORDERED_DICT = Global("collections", "OrderedDict")

_UINT4 = Struct("<I").unpack_from
_INT8 = Struct("<q").unpack_from
_UINT8 = Struct("<Q").unpack_from

_SIMPLE_KEYS = frozenset({type(None), bool, int, float, str, Global, Object, Reduce, PersistentId})

# Values that may share other values. A persistent id holds five scalars, or is malformed.
_SHARING = frozenset({list, tuple, dict, Object, Reduce, PersistentId})


_DEFAULT_LIMITS = Limits()


def loads(
    data: bytes | memoryview,
    *,
    record: str | None = None,
    limits: Limits = _DEFAULT_LIMITS,
    any_int: bool = False,
) -> Value:
    """Return the value of a pickle record; ``record`` is its name for errors.

    A value that the pickle refers to twice is one object. Tagged lists, tensors, complex numbers
    and ``OrderedDict`` stay Reduce nodes; every tuple is a plain one and every ``memo`` is SHARED,
    so ``dumps`` does not give the same bytes again. No value contains itself, and the number of
    references to shared values is bounded, so that a walk along every reference ends. With
    ``any_int`` integers have any length, as Python writes them in files of torch.save; in
    TorchScript they have 32 or 64 bits.

    Raises PickleError, with the offset of the opcode, for whatever torch's unpickler would reject,
    and for input that it accepts without a defined meaning: targets and arguments of wrong type,
    memo ids and keys set twice, bytes after the end.

        >>> pickler.loads(pickler.dumps({"sizes": (1, 2.5)}))
        {'sizes': (1, 2.5)}
    """
    size = memoryview(data).nbytes
    if size > limits.max_bytes:
        raise PickleError("the pickle is too large", record=record, limit=limits.max_bytes)
    machine = _Machine(bytes(data), record, limits, any_int=any_int)
    return machine.run()


class _Machine:
    """Each handler takes the position after its opcode and returns that of the next one.

    A MARK puts the stack aside and starts a new one, so no opcode reaches below a mark.
    """

    __slots__ = (
        "any_int", "data", "items_left", "limits", "marks", "memo", "record", "shared", "stack",
        "unbuilt", "values_left",
    )  # fmt: skip

    def __init__(self, data: bytes, record: str | None, limits: Limits, *, any_int: bool) -> None:
        self.any_int = any_int
        self.data = data
        self.record = record
        self.limits = limits
        self.items_left = limits.max_items
        self.values_left = limits.max_values
        self.stack: list[Value] = []
        self.marks: list[list[Value]] = []
        self.memo: dict[int, Value] = {}
        self.unbuilt: set[int] = set()
        self.shared = False

    def run(self) -> Value:
        data, handlers, stop = self.data, _HANDLERS, op.STOP.code
        position, limit = self.read_header(), self.limits.max_opcodes
        try:
            for _ in repeat(None, limit):
                if (code := data[position]) == stop:
                    break
                position = handlers[code](self, position + 1)
            else:
                self.fail("the pickle has too many opcodes", position, limit=limit)
        except (IndexError, StructError):
            self.fail_short(position)
        return self.finish(position)

    def read_header(self) -> int:
        if self.data[:1] != op.PROTO.byte:
            self.fail("the pickle does not begin with PROTO", 0, hint=_NOT_TORCHSCRIPT)
        if self.data[1:2] != bytes((_PROTOCOL,)):
            found = f"protocol {self.data[1]}" if len(self.data) > 1 else "no protocol number"
            self.fail(f"{found} where protocol 2 is expected", 0, hint=_NOT_TORCHSCRIPT)
        return 2

    def finish(self, position: int) -> Value:
        """Return the one value left; fail unless STOP stands where it should."""
        if self.marks:
            self.fail("STOP before the end of a run that MARK began", position)
        if len(self.stack) != 1:
            self.fail(f"{len(self.stack)} values on the stack at STOP, not 1", position)
        if position + 1 != len(self.data):
            self.fail("bytes follow the end of the pickle", position + 1)
        if self.unbuilt:
            self.fail("an object was made and never given a state", position)
        root = self.stack[0]
        limit = self.limits.max_repeats
        repeats = repeats_in(root, limit) if self.shared else Repeats.FEW
        if repeats is Repeats.ENDLESS:
            self.fail("a value contains itself", position)
        if repeats is Repeats.MANY:
            self.fail("values are referred to too often", position, limit=limit)
        return root

    # Errors

    def fail(
        self, message: str, offset: int, *, limit: int | None = None, hint: str | None = None
    ) -> NoReturn:
        raise PickleError(message, record=self.record, offset=offset, limit=limit, hint=hint)

    def fail_short(self, position: int) -> NoReturn:
        """Fail because the opcode at ``position`` reached beyond the data or below the stack."""
        if position >= len(self.data):
            self.fail("the pickle ends without STOP", position)
        opcode = op.BY_CODE[self.data[position]]
        if position + 1 + opcode.argument.size > len(self.data):
            self.fail(f"the pickle ends inside the argument of {opcode.name}", position)
        self.fail(f"{opcode.name} finds too few values on the stack", position)

    def spend(self, items: int, position: int) -> None:
        self.items_left -= items
        if self.items_left < 0:
            self.fail("the pickle has too many items", position - 1, limit=self.limits.max_items)

    def make(self, position: int) -> None:
        """Count a value that takes more memory than the bytes that encode it."""
        self.values_left -= 1
        if self.values_left < 0:
            self.fail("the pickle has too many values", position - 1, limit=self.limits.max_values)

    def unknown(self, position: int) -> int:
        code = self.data[position - 1]
        name = op.FOREIGN.get(code)
        if name is None:
            self.fail(f"byte 0x{code:02x} is not a pickle opcode", position - 1)
        message = f"opcode {name} (0x{code:02x}) does not occur in TorchScript"
        self.fail(message, position - 1, hint=_NOT_TORCHSCRIPT)

    def proto(self, position: int) -> int:
        self.fail("PROTO after the beginning", position - 1)

    # Scalars

    def binint1(self, position: int) -> int:
        self.stack.append(self.data[position])
        return position + 1

    def long1(self, position: int) -> int:
        length, start = self.data[position], position + 1
        if length == 8:
            self.stack += _INT8(self.data, start)
            return start + 8
        if not self.any_int:
            self.fail(f"LONG1 of {length} bytes, not 8", position - 1, hint=_NOT_TORCHSCRIPT)
        self.stack.append(int.from_bytes(self.bytes_at(start, length), "little", signed=True))
        return start + length

    def bytes_at(self, start: int, length: int) -> bytes:
        """Return bytes of an argument. Raises IndexError where the pickle ends before."""
        found = self.data[start : start + length]
        if len(found) < length:
            raise IndexError
        return found

    def binunicode(self, position: int) -> int:
        (length,) = _UINT4(self.data, position)
        return self.text(position - 1, position + 4, length)

    def binunicode8(self, position: int) -> int:
        (length,) = _UINT8(self.data, position)
        return self.text(position - 1, position + 8, length)

    def text(self, offset: int, start: int, length: int) -> int:
        end = start + length
        if end > len(self.data):
            self.fail(f"a string of {length} bytes is longer than the pickle", offset)
        self.stack.append(self.decode(self.data[start:end], offset))
        return end

    def decode(self, text: bytes, offset: int) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            self.fail(f"a string is not UTF-8: {error.reason}", offset)

    # Containers

    def mark(self, position: int) -> int:
        self.make(position)
        self.marks.append(self.stack)
        self.stack = []
        return position

    def run_of_items(self, position: int) -> list[Value]:
        """Pop everything since the MARK and restore the stack before it."""
        if not self.marks:
            name = op.BY_CODE[self.data[position - 1]].name
            self.fail(f"{name} without a MARK", position - 1)
        items = self.stack
        self.stack = self.marks.pop()
        self.spend(len(items), position)
        return items

    def tuple_(self, position: int) -> int:
        items = self.run_of_items(position)
        self.stack.append(tuple(items))
        return position

    def list_(self, position: int) -> int:
        items = self.run_of_items(position)
        self.stack.append(items)
        return position

    def dict_(self, position: int) -> int:
        items = self.run_of_items(position)
        filled: dict[Value, Value] = {}
        self.set_items(filled, items, position)
        self.stack.append(filled)
        return position

    def empty_list(self, position: int) -> int:
        self.make(position)
        self.stack.append([])
        return position

    def empty_dict(self, position: int) -> int:
        self.make(position)
        self.stack.append({})
        return position

    def append(self, position: int) -> int:
        self.spend(1, position)
        item = self.stack.pop()
        self.extend_list(self.stack[-1], [item], position)
        return position

    def appends(self, position: int) -> int:
        items = self.run_of_items(position)
        self.extend_list(self.stack[-1], items, position)
        return position

    def extend_list(self, target: Value, items: list[Value], position: int) -> None:
        if type(target) is not list:
            self.fail(f"items for a list are put in a {type(target).__name__}", position - 1)
        target += items

    def setitem(self, position: int) -> int:
        self.spend(2, position)
        item, key = self.stack.pop(), self.stack.pop()
        self.set_items(self.dict_to_fill(position), [key, item], position)
        return position

    def setitems(self, position: int) -> int:
        items = self.run_of_items(position)
        self.set_items(self.dict_to_fill(position), items, position)
        return position

    def dict_to_fill(self, position: int) -> dict[Value, Value]:
        target = self.stack[-1]
        if type(target) is dict:
            return target
        if not _is_ordered_dict(target):
            self.fail(f"items for a dict are put in a {type(target).__name__}", position - 1)
        if target.items is None:
            target.items = {}
        return target.items

    def set_items(self, target: dict[Value, Value], items: list[Value], position: int) -> None:
        if len(items) % 2:
            self.fail("a dict has a key without a value", position - 1)
        for key, item in zip(items[::2], items[1::2], strict=True):
            if type(key) not in _SIMPLE_KEYS:
                self.check_key(key, position)
            if key in target:
                self.fail("a dict has a key twice", position - 1)
            target[key] = item

    def check_key(self, key: Value, position: int) -> None:
        """Allow tuples as keys only if flat: hashing nested ones recurses without bound in CPython.

        Their items count against the limit at each use, since each use as a key hashes all of them.
        """
        parts = key if type(key) is tuple else (key,)
        self.spend(len(parts), position)
        for part in parts:
            if type(part) not in _SIMPLE_KEYS:
                self.fail(f"a {type(part).__name__} is in the key of a dict", position - 1)

    # Names and what is made of them

    def global_(self, position: int) -> int:
        self.make(position)
        middle = self.data.find(b"\n", position)
        end = self.data.find(b"\n", middle + 1)
        if middle < 0 or end < 0:
            self.fail("the pickle ends inside a name", position - 1)
        module = self.decode(self.data[position:middle], position - 1)
        name = self.decode(self.data[middle + 1 : end], position - 1)
        value = Global(module, name)
        if not value.is_well_formed():
            self.fail(f"{value.qualified_name[:80]!r} is not a dotted name", position - 1)
        self.stack.append(value)
        return end + 1

    def newobj(self, position: int) -> int:
        self.make(position)
        arguments, cls = self.stack.pop(), self.stack.pop()
        if type(cls) is not Global:
            self.fail(f"an object whose class is a {type(cls).__name__}", position - 1)
        if arguments != ():
            self.fail("an object whose class is given arguments", position - 1)
        made = Object(cls)
        self.unbuilt.add(id(made))
        self.stack.append(made)
        return position

    def build(self, position: int) -> int:
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is Object and id(target) in self.unbuilt:
            self.unbuilt.remove(id(target))
            target.state = state
        elif _is_ordered_dict(target) and target.state is None:
            target.state = state
        else:
            self.fail(f"BUILD on a value of type {type(target).__name__}", position - 1)
        return position

    def reduce(self, position: int) -> int:
        self.make(position)
        argument, function = self.stack.pop(), self.stack.pop()
        if type(function) is not Global:
            self.fail(f"a {type(function).__name__} where a function is named", position - 1)
        self.stack.append(Reduce(function, argument))
        return position

    def binpersid(self, position: int) -> int:
        self.make(position)
        value = self.stack.pop()
        if type(value) is not tuple:
            self.fail(f"a persistent id that is a {type(value).__name__}", position - 1)
        self.stack.append(PersistentId(value))
        return position

    # Memo

    def binput(self, position: int) -> int:
        return self.put(self.data[position], position - 1, position + 1)

    def long_binput(self, position: int) -> int:
        return self.put(_UINT4(self.data, position)[0], position - 1, position + 4)

    def put(self, memo: int, offset: int, end: int) -> int:
        value = self.stack[-1]
        if memo in self.memo:
            self.fail(f"memo {memo} is set twice", offset)
        if len(self.memo) >= self.limits.max_memo:
            self.fail("the pickle has too many memos", offset, limit=self.limits.max_memo)
        self.memo[memo] = value
        return end

    def binget(self, position: int) -> int:
        return self.get(self.data[position], position - 1, position + 1)

    def long_binget(self, position: int) -> int:
        return self.get(_UINT4(self.data, position)[0], position - 1, position + 4)

    def get(self, memo: int, offset: int, end: int) -> int:
        if memo not in self.memo:
            self.fail(f"memo {memo} is read before it is set", offset)
        value = self.memo[memo]
        self.shared = self.shared or type(value) in _SHARING
        self.stack.append(value)
        return end


def _is_ordered_dict(value: Value) -> TypeGuard[Reduce]:
    return isinstance(value, Reduce) and value.function == _ORDERED_DICT and value.argument == ()


_Handler: TypeAlias = Callable[[_Machine, int], int]


def _constant(value: Value) -> _Handler:
    def push(machine: _Machine, position: int) -> int:
        machine.stack.append(value)
        return position

    return push


def _number(layout: str) -> _Handler:
    struct = Struct(layout)
    unpack, size = struct.unpack_from, struct.size

    def push(machine: _Machine, position: int) -> int:
        machine.stack += unpack(machine.data, position)
        return position + size

    return push


def _tuple_of(length: int) -> _Handler:
    def push(machine: _Machine, position: int) -> int:
        machine.make(position)
        machine.spend(length, position)
        items = [machine.stack.pop() for _ in range(length)]
        machine.stack.append(tuple(reversed(items)))
        return position

    return push


_HANDLED: dict[op.Opcode, _Handler] = {
    op.PROTO: _Machine.proto,
    op.MARK: _Machine.mark,
    op.NONE: _constant(None),
    op.NEWTRUE: _constant(True),
    op.NEWFALSE: _constant(False),
    op.BININT1: _Machine.binint1,
    op.BININT2: _number("<H"),
    op.BININT: _number("<i"),
    op.LONG1: _Machine.long1,
    op.BINFLOAT: _number(">d"),
    op.BINUNICODE: _Machine.binunicode,
    op.BINUNICODE8: _Machine.binunicode8,
    op.EMPTY_TUPLE: _constant(()),
    op.TUPLE1: _tuple_of(1),
    op.TUPLE2: _tuple_of(2),
    op.TUPLE3: _tuple_of(3),
    op.TUPLE: _Machine.tuple_,
    op.EMPTY_LIST: _Machine.empty_list,
    op.APPEND: _Machine.append,
    op.APPENDS: _Machine.appends,
    op.LIST: _Machine.list_,
    op.EMPTY_DICT: _Machine.empty_dict,
    op.SETITEM: _Machine.setitem,
    op.SETITEMS: _Machine.setitems,
    op.DICT: _Machine.dict_,
    op.GLOBAL: _Machine.global_,
    op.NEWOBJ: _Machine.newobj,
    op.BUILD: _Machine.build,
    op.REDUCE: _Machine.reduce,
    op.BINPERSID: _Machine.binpersid,
    op.BINPUT: _Machine.binput,
    op.LONG_BINPUT: _Machine.long_binput,
    op.BINGET: _Machine.binget,
    op.LONG_BINGET: _Machine.long_binget,
}

_HANDLERS: list[_Handler] = [_Machine.unknown] * 256
for _opcode, _handler in _HANDLED.items():
    _HANDLERS[_opcode.code] = _handler
