"""Walking through a pickle as an unpickler would, without making or importing anything.

The stack is kept with what matters of each value: whether it is a global, text, a tuple, or what
a call gave. A walk ends where ``pickle.load`` would raise an error, before what would not run.
What an opcode does to the stack is in the standard library's ``pickletools``. How ``pickletools``
reads some arguments is not how ``pickle`` does: what it refuses would run all the same.
"""

from __future__ import annotations

import codecs
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any, Final, cast

from .pickle_names import CALLS_ITS_ARGUMENT, Budget, is_importable, is_widespread

_LONGEST: Final = 1 << 24


class LongArgument(Exception):
    """An argument is not worth a copy; it ends at ``end``."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self.size = end - start
        self.end = end


class PickleBytes:
    """Like ``io.BytesIO``, but bytes of no pickle, which ask for very much very often, cost
    little: what reaches beyond the end gives nothing rather than all that is left, and what is
    very long raises LongArgument."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self._lines_end = data.rfind(b"\n") + 1

    def read(self, size: int) -> bytes:
        """Exactly so many bytes, or none."""
        start = self.position
        end = start + size
        if end > len(self.data):
            return b""
        if size > _LONGEST:
            raise LongArgument(start, end)
        self.position = end
        return self.data[start:end]

    def readline(self) -> bytes:
        """Read a line with its end, or nothing."""
        start = self.position
        if start >= self._lines_end:
            return b""
        self.position = self.data.index(b"\n", start) + 1
        return self.data[start : self.position]

    def rest(self, most: int) -> bytes:
        """All that is left, or nothing where that is more than ``most``."""
        start = self.position
        if len(self.data) - start > most:
            return b""
        self.position = len(self.data)
        return self.data[start:]


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


def _global(stream: PickleBytes) -> tuple[str, str]:
    """Read the lines of a module and of a name in it."""
    return _name(stream), _name(stream)


def _name(stream: PickleBytes) -> str:
    line = stream.readline() or stream.rest(LONGEST_NAME + 1)
    if not line:
        raise ValueError("a name has no end")
    # pickle cuts the last byte off, whichever it is.
    return line[:-1].decode("utf-8", "replace")


def _number(stream: PickleBytes) -> None:
    """Read an integer in Python's notation, which may be hexadecimal, or a truth value."""
    line = _line(stream)
    if line not in _TRUTHS:
        int(line, 0)


def _long(stream: PickleBytes) -> None:
    int(_line(stream).removesuffix(b"L"), 0)


def _string(stream: PickleBytes) -> str:
    """Read text between quotes; ``pickle`` decides by its arguments which bytes it may hold."""
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
_STOP: Final = OPCODES[b"."]


# What else takes as many steps: to begin a walk, and to keep a name, which takes memory too: of
# names that are not kept after all, so many steps are given back.
STEPS_OF_WALK: Final = 8
_STEPS_OF_NAME: Final = 32
STEPS_OF_LOST_NAME: Final = 24
# So many bytes of arguments take as long as one opcode.
_BYTES_OF_STEP: Final = 64
# Longer tuples are forgotten: no call that matters has as many arguments.
_LONGEST_TUPLE: Final = 64
_MOST_PASSED: Final = 1 << 16
_REDUCE_PACKAGE: Final = "reduce_package"
_EXTENSION: Final = "extension "
_WEIGHT_OF_TUPLE: Final = 2
_WEIGHT_OF_WIDESPREAD: Final = 4


class Act(Enum):
    """The uses that a pickle makes of a global."""

    NAME = "names"
    CALL = "calls"
    MAKE = "makes an object of"
    CHANGE = "changes"
    CALL_COMPUTED = "calls what it computed with"
    EXTENSION = "names by number"


@dataclass(frozen=True, slots=True)
class Event:
    """``name`` is the qualified name of the global, ``offset`` that of the first such opcode."""

    act: Act
    name: str
    offset: int


@dataclass(slots=True)
class Walk:
    """One pickle: from ``start`` to ``end``; ``fault`` says why it ended before STOP. There is
    one event for each name that is used in one way."""

    start: int
    end: int = 0
    events: list[Event] = field(default_factory=list)
    texts: list[tuple[int, str | bytes]] = field(default_factory=list)
    fault: str | None = None
    is_too_long: bool = False
    weight: int = 0
    """All that had to agree for the call of a global that can be imported, from its name on."""
    weight_here: int = 0
    """The same from the start on."""
    length: int = 0
    """The weight of all opcodes."""
    is_clean: bool = False
    """Nothing was left on the stack."""


@dataclass(frozen=True, slots=True)
class _Global:
    """``since`` is the weight of all that stands before it, here as in the next classes."""

    name: str
    since: int


@dataclass(frozen=True, slots=True)
class _Made:
    """The result of a call. ``by`` is the name of the global at its root."""

    by: str
    since: int


@dataclass(frozen=True, slots=True)
class _Mark:
    since: int


_TEXT: Final = (str, bytes)


Passed = dict[int, int]
"""The places that walks which called nothing have passed, and the depth of their stacks there. A
walk that comes there with no deeper stack calls nothing from there on, either."""


def note_passed(passed: Passed, position: int, height: int) -> None:
    """Note that a walk came to nothing that was at a position with so many values."""
    if len(passed) >= _MOST_PASSED:
        passed.clear()
    passed[position] = height


def weight_of_name(name: str) -> int:
    """Return what a name adds to the weight of its use."""
    return _WEIGHT_OF_WIDESPREAD * is_widespread(name)


def walk(stream: PickleBytes, start: int, budget: Budget, passed: Passed | None = None) -> Walk:
    """Walk one pickle; whatever is in it, the walk ends and says what it saw. With ``passed``, it
    is one of many from where no reader begins, and ends where an earlier one came to nothing, or
    where a global has a name that none can have."""
    stream.position = start
    machine = _Machine(start, budget.left, passed)
    try:
        machine.run(stream)
    except _TooLong:
        machine.walk.fault = "there are more opcodes than are looked at"
        machine.walk.is_too_long = True
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        machine.walk.fault = str(error)[:LONGEST_NAME] or type(error).__name__
    machine.walk.end, machine.walk.length = stream.position, machine.weight
    machine.walk.is_clean = not machine.stack
    if passed is not None:
        machine.add_to(passed)
    arguments = (machine.walk.end - start - machine.skipped) // _BYTES_OF_STEP
    budget.left -= STEPS_OF_WALK + machine.steps + arguments
    return machine.walk


class _TooLong(Exception):
    """The walk has taken as many steps as it may."""


class _Machine:
    """A stack of what is known of each value; None is a value of which nothing matters."""

    def __init__(self, start: int, most_steps: int, passed: Passed | None) -> None:
        self.walk = Walk(start)
        self.steps = 0
        self.skipped = 0
        self.weight = self._since = 0
        self._most_steps = most_steps
        self._noted: set[tuple[Act, str]] = set()
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._passed = passed
        self._marks = 0
        self._been: list[tuple[int, int]] = []
        self._lowest = 0

    def run(self, stream: PickleBytes) -> None:
        """Go on to the end."""
        is_stop = False
        passed = self._passed
        while not is_stop:
            position = stream.position
            if passed is not None:
                self._pass(position, passed)
            code = stream.read(1)
            opcode = OPCODES.get(code)
            if opcode is None:
                raise ValueError(f"{code!r} is no opcode" if code else "it ends before STOP")
            argument = None if opcode.read is None else self._argument(opcode.read, stream)
            self.step(opcode, argument, position)
            is_stop = opcode is _STOP

    def _pass(self, position: int, passed: Passed) -> None:
        """Note where this is, or raise ValueError where an earlier walk came to nothing."""
        while self._been and self._been[-1][1] > self._lowest:
            self._been.pop()
        self._lowest = len(self.stack)
        is_more = self.walk.weight or self._memo or self._marks
        if not is_more and self._lowest <= passed.get(position, -1):
            raise ValueError("it comes to nothing")
        if len(self._been) < _MOST_PASSED:
            self._been.append((position, self._lowest))

    def add_to(self, passed: Passed) -> None:
        """Tell where the walk has been with nothing on the stack that it looked at since."""
        if not self.walk.weight and not self.walk.is_too_long:
            for position, height in self._been:
                if height <= self._lowest:
                    note_passed(passed, position, height)

    def _argument(self, read: _Reader, stream: PickleBytes) -> Any:
        """Return the argument of an opcode; None where it is too long to look at."""
        try:
            return read(stream)
        except LongArgument as long:
            self.skipped += long.size
            stream.position = long.end
            return None

    def step(self, opcode: Opcode, argument: Any, position: int) -> None:
        self.steps += 1
        if self.steps > self._most_steps:
            raise _TooLong
        self._since = self.weight
        self.weight += opcode.weight
        if isinstance(argument, _TEXT):
            self.walk.texts.append((position, argument))
        special = _SPECIAL.get(opcode.name)
        if special is not None:
            special(self, argument, position)
        else:
            self._generic(opcode, argument)

    def _generic(self, opcode: Opcode, argument: Any) -> None:
        if opcode.has_mark:
            self._to_mark()
        for _ in range(opcode.pops):
            self._pop()
        for plain in opcode.pushes:
            is_text = plain is not None and isinstance(argument, str)
            self.stack.append(argument if is_text else plain)

    def _pop(self) -> Any:
        self._top()
        return self.stack.pop()

    def _top(self) -> Any:
        if self.stack:
            self._lowest = min(self._lowest, len(self.stack) - 1)
        if not self.stack or isinstance(self.stack[-1], _Mark):
            raise IndexError("the stack is empty")
        return self.stack[-1]

    def _to_mark(self) -> tuple[_Mark, list[Any]]:
        """Pop everything down to the last mark; return the mark and what was above it."""
        for index in range(len(self.stack) - 1, -1, -1):
            mark = self.stack[index]
            if isinstance(mark, _Mark):
                self._lowest = min(self._lowest, index)
                self._marks -= 1
                found = self.stack[index + 1 :]
                del self.stack[index:]
                return mark, found
        raise IndexError("there is no mark on the stack")

    def _note(self, act: Act, name: str, position: int) -> None:
        if (act, name) not in self._noted:
            self.steps += _STEPS_OF_NAME
            self._noted.add((act, name))
            self.walk.events.append(Event(act, name, position))

    def _weigh(self, name: str, since: int, bonus: int = 0) -> None:
        """Weigh the use of a global that can be there; letters outside ASCII speak for a text."""
        if (is_importable(name) and name.isascii()) or name.startswith(_EXTENSION):
            weight = self.weight + bonus + weight_of_name(name)
            self.walk.weight = max(self.walk.weight, weight - since)
            self.walk.weight_here = weight

    def _global(self, name: str, position: int) -> _Global:
        self._note(Act.NAME, name, position)
        if self._passed is not None and not is_importable(name):
            raise ValueError("no global has such a name")
        return _Global(name, self._since)

    def _call(
        self, function: Any, arguments: Any, position: int, act: Act, since: int | None = None
    ) -> None:
        """``since`` is told where the call begins before the name of the function."""
        match function:
            case _Global(name, named):
                self._note(act, name, position)
                self._note_called_argument(name, arguments, position)
            case _Made(name, named):
                self._note(Act.CALL_COMPUTED, name, position)
            case _:
                name, named = "an unknown value", self._since
                self._note(Act.CALL_COMPUTED, name, position)
        if not (function is None or isinstance(function, _Global | _Made)):
            raise ValueError("it calls what cannot be called")
        if isinstance(arguments, tuple):
            since, bonus = (named, _WEIGHT_OF_TUPLE) if since is None else (since, 0)
            self._weigh(name, since, bonus)
        self.stack.append(_Made(name, named))

    def _note_called_argument(self, name: str, arguments: Any, position: int) -> None:
        """Some harmless functions call some of their arguments."""
        places = CALLS_ITS_ARGUMENT.get(name, ())
        if places and not isinstance(arguments, tuple):
            self._note(Act.CALL_COMPUTED, name, position)
            return
        for given in (arguments[place] for place in places if place < len(arguments)):
            if isinstance(given, _Global):
                act = Act.MAKE if name.endswith("_reconstructor") else Act.CALL
                self._note(act, given.name, position)
            elif given is not None and not isinstance(given, Plain):
                self._note(Act.CALL_COMPUTED, name, position)

    def _change(self, position: int, *, is_built: bool) -> None:
        """Something is stored in the value on top of the stack; ``is_built`` tells of what was put
        together for that. What chance makes often weighs little, or nothing."""
        changed = self._top()
        if not isinstance(changed, _Global):
            return
        self._note(Act.CHANGE, changed.name, position)
        if is_widespread(changed.name):
            since = changed.since if is_built else self.weight
            self.walk.weight = max(self.walk.weight, self.weight - since)
            self.walk.weight_here = max(self.walk.weight_here, self.weight)

    # One method for each opcode, or each group of them, that matters.

    def global_(self, argument: tuple[str, str], position: int) -> None:
        self.stack.append(self._global(_in_one(*argument), position))

    def stack_global(self, _: Any, position: int) -> None:
        name, module = self._pop(), self._pop()
        parts = [part if isinstance(part, str) else "?" for part in (module, name)]
        self.stack.append(self._global(_in_one(*parts), position))

    def inst(self, argument: tuple[str, str], position: int) -> None:
        mark, arguments = self._to_mark()
        class_ = self._global(_in_one(*argument), position)
        self._call(class_, tuple(arguments), position, Act.CALL, mark.since)

    def obj(self, _: Any, position: int) -> None:
        mark, found = self._to_mark()
        if not found:
            raise IndexError("the stack is empty")
        self._call(found[0], tuple(found[1:]), position, Act.CALL, mark.since)

    def reduce(self, _: Any, position: int) -> None:
        arguments, function = self._pop(), self._pop()
        self._call(function, arguments, position, Act.CALL)

    def newobj(self, _: Any, position: int) -> None:
        arguments, class_ = self._pop(), self._pop()
        self._call(class_, arguments, position, Act.MAKE)

    def newobj_ex(self, _: Any, position: int) -> None:
        self._pop()
        self.newobj(None, position)

    def build(self, _: Any, position: int) -> None:
        state = self._pop()
        is_pair = isinstance(state, tuple) and len(state) == 2
        self._change(position, is_built=state is Plain.DICT or is_pair)

    def store(self, _: Any, position: int, *, items: int | None) -> None:
        """Items are stored; None stands for all above the mark."""
        if items is None:
            self._to_mark()
        for _ in range(items or 0):
            self._pop()
        self._change(position, is_built=items is None)

    def extension(self, argument: int, position: int) -> None:
        name = f"{_EXTENSION}{argument}"
        self._note(Act.EXTENSION, name, position)
        self.stack.append(_Made(name, self._since))

    def persistent(self, _: Any, position: int) -> None:
        """torch.package calls functions that stand in a persistent id of this kind."""
        value = self._pop()
        if isinstance(value, tuple) and value[:1] == (_REDUCE_PACKAGE,):
            for function in value:
                if isinstance(function, _Global):
                    self._note(Act.CALL, function.name, position)
                    self._weigh(function.name, function.since)
        self.stack.append(None)

    def tuple_(self, _: Any, __: int, *, size: int | None) -> None:
        items = self._to_mark()[1] if size is None else [self._pop() for _ in range(size)][::-1]
        self.stack.append(tuple(items) if len(items) <= _LONGEST_TUPLE else None)

    def mark(self, _: Any, __: int) -> None:
        self._marks += 1
        self.stack.append(_Mark(self._since))

    def pop(self, _: Any, __: int) -> None:
        if self.stack and isinstance(self.stack[-1], _Mark):
            self._to_mark()
        else:
            self._pop()

    def dup(self, _: Any, __: int) -> None:
        self.stack.append(self._top())

    def put(self, argument: int | None, _: int) -> None:
        self._memo[len(self._memo) if argument is None else argument] = self._top()

    def get(self, argument: int, _: int) -> None:
        if argument not in self._memo:
            raise ValueError(f"memo entry {argument} is read before it is written")
        self.stack.append(self._memo[argument])


def _in_one(module: str, name: str = "") -> str:
    """Join a qualified name, cut to a length at which it still differs from harmless ones."""
    joined = f"{module[:LONGEST_NAME]}.{name[:LONGEST_NAME]}"
    return joined if len(joined) <= LONGEST_NAME else f"{joined[:LONGEST_NAME]}..."


_Handler = Callable[[_Machine, Any, int], None]


_SPECIAL: Final[dict[str, _Handler]] = {
    "GLOBAL": _Machine.global_,
    "STACK_GLOBAL": _Machine.stack_global,
    "INST": _Machine.inst,
    "OBJ": _Machine.obj,
    "REDUCE": _Machine.reduce,
    "NEWOBJ": _Machine.newobj,
    "NEWOBJ_EX": _Machine.newobj_ex,
    "BUILD": _Machine.build,
    "APPEND": partial(_Machine.store, items=1),
    "SETITEM": partial(_Machine.store, items=2),
    **dict.fromkeys(("APPENDS", "SETITEMS", "ADDITEMS"), partial(_Machine.store, items=None)),
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), _Machine.extension),
    "BINPERSID": _Machine.persistent,
    "TUPLE": partial(_Machine.tuple_, size=None),
    "EMPTY_TUPLE": partial(_Machine.tuple_, size=0),
    **{f"TUPLE{size}": partial(_Machine.tuple_, size=size) for size in (1, 2, 3)},
    "MARK": _Machine.mark,
    "POP": _Machine.pop,
    "DUP": _Machine.dup,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
}
