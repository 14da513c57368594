"""The memory plan of a method: which value occupies which bytes of an arena, and when.

A value is live from the first instruction that names it to the last. Inputs are live from the
beginning, results to the end, and what is named inside a loop during the whole loop. Instructions
of several chains are numbered consecutively.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tsarchive.describing.text import plural, size
from tsarchive.errors import LimitError
from tsarchive.formats.executorch.content import RECORD
from tsarchive.formats.executorch.methods import (
    Allocation,
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    KernelCall,
    Method,
    Move,
    OptionalTensorList,
    Tensor,
    TensorList,
)
from tsarchive.formats.executorch.view import instruction_text, type_text

from .html import Cell, Html, Section, Subject, clipped, joined, more, table, tag

# Its result shows the bytes of its first argument.
_VIEW_OPERATOR: Final = "executorch_prim::et_view"
# One list can be named by every instruction. Real methods have thousands of names.
_MAX_NAMES: Final = 5_000_000


@dataclass(slots=True)
class Span:
    """The first and the last instruction at which a value is live."""

    first: int
    last: int

    def take(self, place: int) -> None:
        self.first, self.last = min(self.first, place), max(self.last, place)


@dataclass(slots=True)
class Uses:
    """The uses of values by the ``count`` instructions of a method.

    Raises LimitError where there are too many uses.

    ``writes`` has, in order, the instructions that write each value; ``views`` the values whose
    bytes a value aliases. ``read_first`` has the first instruction that reads a value before any
    has written it: ``count`` for results that no instruction names. ``loops`` are the first and
    the last instruction of each loop.
    """

    method: Method
    count: int = 0
    spans: dict[int, Span] = field(default_factory=dict)
    writes: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    views: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    read_first: dict[int, int] = field(default_factory=dict)
    loops: list[tuple[int, int]] = field(default_factory=list)
    names_left: int = _MAX_NAMES

    def __post_init__(self) -> None:
        """Collect uses in one pass over the instructions, ignoring invalid indices."""
        for chain in self.method.chains:
            start = self.count
            for instruction in chain.instructions:
                self._instruction(instruction, self.count, start)
                self.count += 1
        regions = _regions(self.loops)
        for span in self.spans.values():  # live over the whole of a loop, or overlapping loops
            first, last = regions.get(span.first, span), regions.get(span.last, span)
            span.first, span.last = first.first, last.last
        self._stretch_ends()

    def _instruction(self, instruction: Instruction, place: int, start: int) -> None:
        match instruction:
            case KernelCall(operator, args):
                self._call(operator, args, place)
            case DelegateCall(_, args):  # only the backend knows which of them it writes
                self._write(self._expanded(args), place)
            case Move(source, target):
                self._read(self._expanded([source]), place)
                self._write(self._expanded([target]), place)
                self._show(target, source)
            case JumpFalse(condition, destination):
                self._read(self._expanded([condition]), place)
                if 0 <= destination <= place - start:
                    self.loops.append((start + destination, place))
            case Free(value):
                self._read(self._expanded([value]), place)

    def _call(self, operator: int, args: tuple[int, ...], place: int) -> None:
        """Record a call.

        The last argument is the result: what it names among the others is written.
        """
        if not args:
            return
        written = dict.fromkeys(self._expanded(args[-1:]))
        self._read((value for value in self._expanded(args[:-1]) if value not in written), place)
        self._write(written, place)
        operators = self.method.operators
        is_view = 0 <= operator < len(operators) and operators[operator].name == _VIEW_OPERATOR
        if is_view and len(args) > 1:
            self._show(args[-1], args[0])

    def _show(self, value: int, base: int) -> None:
        """Record that a value aliases the bytes of another, where both exist."""
        if value in self.spans and base in self.spans:
            self.views[value].append(base)

    def _read(self, values: Iterable[int], place: int) -> None:
        for value in values:
            if value not in self.spans:
                self.read_first[value] = place
            self._touch(value, place)

    def _write(self, values: Iterable[int], place: int) -> None:
        for value in values:
            self.writes[value].append(place)
            self._touch(value, place)

    def _touch(self, value: int, place: int) -> None:
        self.spans.setdefault(value, Span(place, place)).take(place)

    def _expanded(self, values: Iterable[int]) -> Iterator[int]:
        """Yield values with the items of those that are lists."""
        known = self.method.values
        for value in values:
            if 0 <= value < len(known):
                held = known[value]
                items = held.items if isinstance(held, TensorList | OptionalTensorList) else ()
                self._count(1 + len(items))
                yield value
                yield from (item for item in items if 0 <= item < len(known))

    def _count(self, names: int) -> None:
        self.names_left -= names
        if self.names_left < 0:
            message = "its instructions name too many values, with those in lists"
            raise LimitError(message, record=RECORD, limit=_MAX_NAMES)

    def _stretch_ends(self) -> None:
        """Extend the lifetimes of inputs, results, and values that later ones alias."""
        last = max(self.count - 1, 0)
        for value in self._expanded(self.method.inputs):
            self.spans.setdefault(value, Span(0, 0)).take(0)
        for value in self._expanded(self.method.outputs):
            if value not in self.spans:
                self.read_first[value] = self.count
            self.spans.setdefault(value, Span(last, last)).take(last)
        self._keep_bases()

    def _keep_bases(self) -> None:
        """Keep bytes live as long as any value that aliases them, directly or indirectly."""
        done: set[int] = set()
        for value in sorted(self.views, key=lambda one: -self.spans[one].last):
            last, pending = self.spans[value].last, [value]
            while pending:
                for base in self.views.get(pending.pop(), ()):
                    if base in self.spans and base not in done:
                        done.add(base)
                        self.spans[base].take(last)
                        pending.append(base)


def _regions(loops: Iterable[tuple[int, int]]) -> dict[int, Span]:
    """Map each instruction inside a loop to that loop, joined with those that share some."""
    regions: dict[int, Span] = {}
    region = Span(0, -1)
    for first, last in sorted(loops):
        if first > region.last:
            region = Span(first, first - 1)
        regions.update(dict.fromkeys(range(region.last + 1, last + 1), region))
        region.take(last)
    return regions


INPUT: Final = "input"
OUTPUT: Final = "output"
STATE: Final = "state"
VIEW: Final = "view"
VALUE: Final = "value"
UNUSED: Final = "unused"


@dataclass(frozen=True, slots=True)
class Planned:
    """A value that occupies bytes of an arena during a range of instructions.

    The bytes are ``offset`` to ``offset + nbytes``, the instructions ``first`` to ``last``.
    ``role``: ``input`` and ``output`` of the method; ``state``, which keeps its bytes between calls
    or is read before anything is written; ``view``, which aliases the bytes of the values
    ``bases``; ``unused``, which no instruction names, with -1 for both ends; ``value``, any other.
    """

    index: int
    name: str | None
    type: str
    arena: int
    offset: int
    nbytes: int
    first: int
    last: int
    role: str
    bases: tuple[int, ...]

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned values of a method; ``arenas`` are sizes in bytes by number."""

    method: str
    instructions: int
    arenas: Mapping[int, int]
    values: tuple[Planned, ...]


def plan_of(method: Method) -> Plan:
    """Compute the plan. Raises LimitError where instructions name too many values."""
    uses = Uses(method)
    values = tuple(_planned(method, uses))
    sizes = dict(enumerate(method.arenas[1:], 1))
    arenas = {arena: sizes.get(arena, 0) for arena in sorted({*sizes, *(v.arena for v in values)})}
    return Plan(method.name, uses.count, arenas, values)


def _planned(method: Method, uses: Uses) -> Iterator[Planned]:
    writers = _Writers(method, uses)
    inputs, outputs = frozenset(method.inputs), frozenset(method.outputs)
    for index, tensor in _placed(method):
        writer = writers.before(index)
        shown = (*uses.views.get(index, ()), *(() if writer is None else (writer.value,)))
        bases = tuple(dict.fromkeys(shown))
        role = _role(index, tensor, uses, bases, inputs, outputs)
        span = _span(index, role, uses, writer)
        allocation = tensor.allocation
        assert allocation is not None
        yield Planned(
            index, tensor.name, type_text(tensor), allocation.arena, allocation.offset,
            tensor.nbytes, span.first, span.last, role, bases,
        )  # fmt: skip


def _placed(method: Method) -> Iterator[tuple[int, Tensor]]:
    for index, value in enumerate(method.values):
        if isinstance(value, Tensor) and value.allocation is not None:
            yield index, value


def _role(
    index: int, tensor: Tensor, uses: Uses, bases: tuple[int, ...],
    inputs: frozenset[int], outputs: frozenset[int],
) -> str:  # fmt: skip
    if index in inputs:
        return INPUT
    if _is_kept(tensor):
        return STATE
    if index in outputs:
        return OUTPUT
    if index not in uses.spans:
        return UNUSED
    if bases:
        return VIEW
    return STATE if index in uses.read_first else VALUE


def _is_kept(tensor: Tensor) -> bool:
    """Return whether the value has its bytes before the method is called."""
    return tensor.has_data or tensor.name is not None


def _span(index: int, role: str, uses: Uses, writer: _Write | None) -> Span:
    if role == STATE:
        return Span(0, max(uses.count - 1, 0))
    found = uses.spans.get(index)
    if found is None:
        return Span(-1, -1)
    return found if writer is None else Span(min(found.first, max(writer.place, 0)), found.last)


class _Write(NamedTuple):
    """An instruction that writes a value; -1 for one that is initialized."""

    place: int
    value: int


class _Writers:
    """Finds the writers of values that are read without being written themselves.

    Views that only change the shape are not in the program: their value has the place of another,
    and is read without a write.
    """

    def __init__(self, method: Method, uses: Uses) -> None:
        self._uses = uses
        self._inputs = frozenset(method.inputs)
        self._allocations = {index: tensor.allocation for index, tensor in _placed(method)}
        self._writes: defaultdict[Allocation | None, list[_Write]] = defaultdict(list)
        for index, tensor in _placed(method):
            is_initialized = index in self._inputs or _is_kept(tensor)
            places = [-1] * is_initialized + list(uses.writes.get(index, ()))
            self._writes[tensor.allocation] += (_Write(place, index) for place in places)
        for writes in self._writes.values():
            writes.sort()

    def before(self, index: int) -> _Write | None:
        """Return the last write of the same place before a value is first read.

        None for a value that an instruction writes before.
        """
        first_read = self._uses.read_first.get(index)
        if first_read is None or index in self._inputs:
            return None
        writes = self._writes[self._allocations[index]]
        place = bisect_left(writes, (first_read,))
        found = writes[place - 1] if place else None
        return None if found is None or found.value == index else found


def ticks(limit: int, most: int) -> Iterable[int]:
    """Return about ``most`` ticks from 0 to ``limit``, spaced by 1, 2 or 5 times a power of ten."""
    wanted = max(limit / most, 1)
    power = 10 ** math.floor(math.log10(wanted))
    step = next(int(factor * power) for factor in (1, 2, 5, 10) if factor * power >= wanted)
    return range(0, limit + 1, step)


def byte_ticks(limit: int, most: int) -> Iterable[int]:
    """Return ticks for bytes, spaced by a power of two."""
    return range(0, limit + 1, 1 << max((limit - 1) // most, 0).bit_length())


_WIDTH: Final = 1000
_HEIGHT: Final = 360
_LEFT: Final = 84
_BOTTOM: Final = 34
_TOP: Final = 8
# Estimates for labels inside boxes.
_LETTER: Final = 6.4
_LINE: Final = 13
_LONGEST_INSTRUCTION: Final = 120
_LONGEST_NAME: Final = 80
_LEGEND: Final[Mapping[str, str]] = {
    "input": "given by the caller",
    "output": "given to the caller",
    "value": "between instructions",
    "state": "kept between calls, or read before anything writes it",
    "view": "the bytes of another value, in another shape",
}
_HOW: Final = (
    "Left to right are the instructions, bottom to top the bytes of an arena. A box is a value "
    "from the first instruction that names it to the last; inputs are there from the beginning, "
    "results to the end. What a loop names is drawn over the whole loop."
)
_POINT: Final = (
    "Point at a box, or walk through them with the arrow keys, to see which value it is."
)
_HEADINGS: Final = ("value", "type", "arena", "offset", "bytes", "from", "to", "role")


def memory_plan(subject: Subject) -> Section | None:
    """Make the section; None for files other than ExecuTorch programs, and without a plan."""
    program = subject.executorch_program
    if program is None:
        return None
    plans = [(method, plan_of(method)) for method in program.methods[: subject.rows]]
    drawn = [(method, plan) for method, plan in plans if plan.values]
    if not drawn:
        return None
    left, parts = subject.rows, [tag("p", _HOW, class_="dim"), _legend()]
    for number, (method, plan) in enumerate(drawn):
        if left:
            parts.append(_method(number, method, plan, left))
            left -= min(len(plan.values), left)
    total = sum(len(plan.values) for _, plan in drawn)
    body = joined((*parts, more(len(parts) - 2, len(drawn), "method")))
    return Section("memory", "Memory plan", body, subject.rows - left, total)


def _legend() -> Html:
    items = (
        tag("li", tag("span", class_=f"key {role}"), tag("b", role), f" {meaning}")
        for role, meaning in _LEGEND.items()
    )
    return tag("ul", *items, class_="legend")


def _method(number: int, method: Method, plan: Plan, most: int) -> Html:
    """Draw all arenas of a method, with at most ``most`` values."""
    values = sorted(plan.values, key=lambda value: -value.nbytes)[:most]
    names, arenas = _Names(method), defaultdict[int, list[Planned]](list)
    for value in values:
        arenas[value.arena].append(value)
    figures = [_arena(plan, arena, arenas[arena], names) for arena in sorted(arenas)]
    rows = [_row(value, names) for value in sorted(values, key=lambda value: value.index)]
    listed = tag("details", tag("summary", "As a table"),
                 table(f"memory-{number}", _HEADINGS, rows))  # fmt: skip
    rest = more(len(values), len(plan.values), "value", ", none of which is larger")
    return joined((tag("h3", tag("code", plan.method)), *figures, listed, rest))


class _Names:
    """Names of instructions and values."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._instructions = [one for chain in method.chains for one in chain.instructions]

    def instruction(self, number: int) -> str:
        """Return an instruction: ``3: aten::add.out(%0, %1, %2, %3, %3)``."""
        if not 0 <= number < len(self._instructions):
            return "none"
        text = instruction_text(self._method, self._instructions[number])
        return f"{number}: {clipped(text, _LONGEST_INSTRUCTION)}"

    def value(self, value: Planned) -> str:
        """Return a value: ``%3 net.weight float32[2, 3]``."""
        name = "" if value.name is None else f" {clipped(value.name, _LONGEST_NAME)}"
        return f"%{value.index}{name} {value.type}"


def _arena(plan: Plan, arena: int, values: Sequence[Planned], names: _Names) -> Html:
    nbytes = plan.arenas[arena]
    limit = nbytes or max((value.end for value in values), default=0) or 1
    used = (value for value in values if value.role != UNUSED)
    # Views are drawn over their bases, small boxes over large ones.
    drawn = sorted(used, key=lambda value: (value.role == VIEW, -value.nbytes))
    title = f"Arena {arena} of {plan.method}: {size(nbytes)} for {plural(len(values), 'value')}"
    picture = tag(
        "svg",
        *_axes(plan, limit),
        tag("g", *(_box(value, plan, limit, names) for value in drawn), class_="boxes"),
        viewBox=f"0 0 {_LEFT + _WIDTH + 8} {_TOP + _HEIGHT + _BOTTOM}",
        class_="plan", role="img", tabindex=0, aria_label=f"{title}. A table of it follows.",
    )  # fmt: skip
    beyond = sum(value.end > limit for value in values)
    problem = f"Beyond the end of the arena: {plural(beyond, 'value')}" if beyond else None
    return tag(
        "figure",
        tag("figcaption", title),
        picture,
        tag("p", problem, class_="problem") if problem else None,
        tag("output", _POINT, class_="told", aria_live="polite"),
    )


def _box(value: Planned, plan: Plan, limit: int, names: _Names) -> Html:
    count = max(plan.instructions, 1)
    x = _LEFT + _WIDTH * value.first / count
    width = max(_WIDTH * (value.last + 1 - value.first) / count, 1)
    low, high = min(value.offset, limit) / limit, min(value.end, limit) / limit
    y, height = _TOP + _HEIGHT * (1 - high), max(_HEIGHT * (high - low), 1)
    shape = tag("rect", x=round(x, 2), y=round(y, 2), width=round(width, 2),
                height=round(height, 2))  # fmt: skip
    parts = [tag("title", _told(value, names)), shape]
    parts += _label(value, x, y, width, height)
    return tag("g", *parts, class_=f"box {value.role}", data_value=value.index)


def _label(value: Planned, x: float, y: float, width: float, height: float) -> Iterator[Html]:
    """Yield as much of a value's name as fits into its box."""
    letters = int((width - 8) / _LETTER)
    texts = f"%{value.index} {value.name or ''} {value.type}", f"%{value.index}"
    spaced = (" ".join(text.split()) for text in texts)
    shown = next((text for text in spaced if len(text) <= letters), None)
    if height >= _LINE and shown is not None:
        yield tag("text", shown, x=round(x + 4, 2), y=round(y + height / 2 + 4, 2))


def _told(value: Planned, names: _Names) -> Html:
    of = ", ".join(f"%{base}" for base in value.bases[:4])
    role = f"{value.role} of {of}" if of else value.role
    lines = (
        names.value(value),
        f"{role}, {value.nbytes:,} bytes at {value.offset:,}",
        f"from {names.instruction(value.first)}",
        f"to {names.instruction(value.last)}",
    )
    return joined(lines, "\n")


def _axes(plan: Plan, limit: int) -> Iterable[Html]:
    """Draw grid lines and numbers: bytes at the left, instructions below."""
    right, bottom = _LEFT + _WIDTH, _TOP + _HEIGHT
    for offset in byte_ticks(limit, 5):
        y = round(bottom - _HEIGHT * offset / limit, 2)
        yield tag("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="grid")
        yield tag("text", size(offset), x=_LEFT - 8, y=y + 4, class_="tick left")
    for place in ticks(max(plan.instructions, 1), 10):
        x = round(_LEFT + _WIDTH * place / max(plan.instructions, 1), 2)
        yield tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="grid")
        yield tag("text", f"{place:,}", x=x, y=bottom + 18, class_="tick")
    yield tag("text", "instruction", x=right, y=bottom + 31, class_="tick left")


def _row(value: Planned, names: _Names) -> list[Cell]:
    of = ", ".join(f"%{base}" for base in value.bases)
    return [
        Cell(f"%{value.index} {value.name or ''}".strip(), is_code=True),
        Cell(value.type, is_code=True),
        Cell(str(value.arena), value=value.arena),
        Cell(f"{value.offset:,}", value=value.offset),
        Cell(f"{value.nbytes:,}", value=value.nbytes),
        Cell(names.instruction(value.first), value=value.first, is_code=True),
        Cell(names.instruction(value.last), value=value.last, is_code=True),
        Cell(f"{value.role} of {of}" if of else value.role),
    ]
