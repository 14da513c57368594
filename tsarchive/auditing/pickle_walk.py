"""Walking a pickle without running it: which globals it names, calls, and changes.

Opcodes are those of the standard library's ``pickletools``, of every protocol. The stack is kept
with what matters of each value: whether it is a global, text, a tuple, or what a call gave.
"""

from __future__ import annotations

import codecs
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import IO, Any, Final, cast

from tsarchive.auditing.budgets import Budget
from tsarchive.auditing.pickle_bytes import LongArgument, PickleBytes
from tsarchive.auditing.pickle_names import CALLS_ITS_ARGUMENT

__all__ = ["STEPS_OF_LOST_NAME", "Act", "Event", "Walk", "walk"]

# pickletools asks for it when it meets old text; a file must not cause an import.
codecs.lookup("raw_unicode_escape")

# What else takes as many steps: to begin a walk, and to keep a name, which takes memory too: of
# names that are not kept after all, so many steps are given back.
_STEPS_OF_WALK: Final = 8
_STEPS_OF_NAME: Final = 32
STEPS_OF_LOST_NAME: Final = 24
# So many bytes of arguments take as long as one opcode.
_BYTES_OF_STEP: Final = 64
# What is longer is no name of anything that can be imported.
_LONGEST_NAME: Final = 500
# Longer tuples are forgotten: no call that matters has as many arguments.
_LONGEST_TUPLE: Final = 64
_OPCODES: Final = {opcode.code: opcode for opcode in pickletools.opcodes}
_REDUCE_PACKAGE: Final = "reduce_package"


class Act(Enum):
    """What a pickle does with a global."""

    NAME = "names"
    CALL = "calls"
    MAKE = "makes an object of"
    CHANGE = "changes attributes of"
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


@dataclass(frozen=True, slots=True)
class _Global:
    name: str


@dataclass(frozen=True, slots=True)
class _Made:
    """What a call gave. ``by`` is the name of the global at its root."""

    by: str


_MARK: Final = object()
_TEXT: Final = (str, bytes)


def walk(stream: PickleBytes, start: int, budget: Budget) -> Walk:
    """Walk one pickle; whatever is in it, the walk ends and says what it saw."""
    stream.seek(start)
    machine = _Machine(start, budget.left)
    try:
        while not machine.run(stream):
            continue
    except _TooLong:
        machine.walk.fault = "there are more opcodes than are looked at"
        machine.walk.is_too_long = True
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        machine.walk.fault = str(error)[:_LONGEST_NAME] or type(error).__name__
    machine.walk.end = stream.tell()
    arguments = (machine.walk.end - start - machine.skipped) // _BYTES_OF_STEP
    budget.spend(_STEPS_OF_WALK + machine.steps + arguments)
    return machine.walk


class _TooLong(Exception):
    """The walk has taken as many steps as it may."""


class _Machine:
    """A stack of what is known of each value; None is a value of which nothing matters."""

    def __init__(self, start: int, most_steps: int) -> None:
        self.walk = Walk(start)
        self.steps = 0
        self.skipped = 0
        self._most_steps = most_steps
        self._noted: set[tuple[Act, str]] = set()
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, stream: PickleBytes) -> bool:
        """Go on to the end, or behind the next argument that is too long to look at; whether
        it is the end."""
        try:
            for opcode, argument, position in pickletools.genops(cast("IO[bytes]", stream)):
                self.step(opcode, argument, position or 0)
        except LongArgument as long:
            self.step(_OPCODES[chr(stream.data[long.opcode])], None, long.opcode)
            self.skipped += long.size
            stream.seek(long.end)
            return False
        return True

    def step(self, opcode: pickletools.OpcodeInfo, argument: Any, position: int) -> None:
        self.steps += 1
        if self.steps > self._most_steps:
            raise _TooLong
        if isinstance(argument, _TEXT) and opcode.name not in _NAMING:
            self.walk.texts.append((position, argument))
        special = _SPECIAL.get(opcode.name)
        if special is not None:
            special(self, argument, position)
        else:
            self._generic(opcode, argument)

    def _generic(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        before = opcode.stack_before
        if pickletools.markobject in before:
            self._to_mark()
            before = before[: before.index(pickletools.markobject)]
        for _ in before:
            self._pop()
        pushed = argument if isinstance(argument, str) else None
        self._stack += [pushed for _ in opcode.stack_after]

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise IndexError("the stack is empty")
        return self._stack.pop()

    def _to_mark(self) -> list[Any]:
        """Everything above the last mark, which goes, too."""
        for index in range(len(self._stack) - 1, -1, -1):
            if self._stack[index] is _MARK:
                found = self._stack[index + 1 :]
                del self._stack[index:]
                return found
        raise IndexError("there is no mark on the stack")

    def _note(self, act: Act, name: str, position: int) -> None:
        if (act, name) not in self._noted:
            self.steps += _STEPS_OF_NAME
            self._noted.add((act, name))
            self.walk.events.append(Event(act, name, position))

    def _push_global(self, name: str, position: int) -> None:
        self._note(Act.NAME, name, position)
        self._stack.append(_Global(name))

    def _call(self, function: Any, arguments: Any, position: int, act: Act) -> None:
        match function:
            case _Global(name):
                self._note(act, name, position)
                self._note_called_argument(name, arguments, position)
            case _Made(name):
                self._note(Act.CALL_COMPUTED, name, position)
            case _:
                name = "an unknown value"
                self._note(Act.CALL_COMPUTED, name, position)
        self._stack.append(_Made(name))

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
            elif given is not None:
                self._note(Act.CALL_COMPUTED, name, position)

    # One method for each opcode, or each group of them, that matters.

    def global_(self, argument: str, position: int) -> None:
        self._push_global(_in_one(*argument.split(" ", 1)), position)

    def stack_global(self, _: Any, position: int) -> None:
        name, module = self._pop(), self._pop()
        parts = [part if isinstance(part, str) else "?" for part in (module, name)]
        self._push_global(_in_one(*parts), position)

    def inst(self, argument: str, position: int) -> None:
        arguments = tuple(self._to_mark())
        name = _in_one(*argument.split(" ", 1))
        self._note(Act.NAME, name, position)
        self._call(_Global(name), arguments, position, Act.CALL)

    def obj(self, _: Any, position: int) -> None:
        found = self._to_mark()
        if not found:
            raise IndexError("the stack is empty")
        self._call(found[0], tuple(found[1:]), position, Act.CALL)

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
        self._pop()
        if self._stack and isinstance(self._stack[-1], _Global):
            self._note(Act.CHANGE, self._stack[-1].name, position)

    def extension(self, argument: int, position: int) -> None:
        self._note(Act.EXTENSION, f"extension {argument}", position)
        self._stack.append(_Made(f"extension {argument}"))

    def persistent(self, _: Any, position: int) -> None:
        """torch.package calls functions that stand in a persistent id of this kind."""
        value = self._pop()
        if isinstance(value, tuple) and value[:1] == (_REDUCE_PACKAGE,):
            for function in value:
                if isinstance(function, _Global):
                    self._note(Act.CALL, function.name, position)
        self._stack.append(None)

    def tuple_(self, size: int | None) -> None:
        items = self._to_mark() if size is None else [self._pop() for _ in range(size)][::-1]
        self._stack.append(tuple(items) if len(items) <= _LONGEST_TUPLE else None)

    def mark(self, _: Any, __: int) -> None:
        self._stack.append(_MARK)

    def pop(self, _: Any, __: int) -> None:
        if not self._stack:
            raise IndexError("the stack is empty")
        self._stack.pop()

    def dup(self, _: Any, __: int) -> None:
        self._stack.append(self._stack[-1])

    def put(self, argument: int | None, _: int) -> None:
        self._memo[len(self._memo) if argument is None else argument] = self._stack[-1]

    def get(self, argument: int, _: int) -> None:
        if argument not in self._memo:
            raise ValueError(f"memo entry {argument} is read before it is written")
        self._stack.append(self._memo[argument])


def _in_one(module: str, name: str = "") -> str:
    """A qualified name, of which no more is kept than tells it from those that are harmless."""
    joined = f"{module[:_LONGEST_NAME]}.{name[:_LONGEST_NAME]}"
    return joined if len(joined) <= _LONGEST_NAME else f"{joined[:_LONGEST_NAME]}..."


_Handler = Callable[[_Machine, Any, int], None]


def _tuple_of(size: int | None) -> _Handler:
    return lambda machine, _argument, _position: machine.tuple_(size)


_NAMING: Final = frozenset({"GLOBAL", "INST"})
_SPECIAL: Final[dict[str, _Handler]] = {
    "GLOBAL": _Machine.global_,
    "STACK_GLOBAL": _Machine.stack_global,
    "INST": _Machine.inst,
    "OBJ": _Machine.obj,
    "REDUCE": _Machine.reduce,
    "NEWOBJ": _Machine.newobj,
    "NEWOBJ_EX": _Machine.newobj_ex,
    "BUILD": _Machine.build,
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), _Machine.extension),
    "BINPERSID": _Machine.persistent,
    "TUPLE": _tuple_of(None),
    "EMPTY_TUPLE": _tuple_of(0),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "MARK": _Machine.mark,
    "POP": _Machine.pop,
    "DUP": _Machine.dup,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
}
