"""Diagrams of a program's memory plan over time, and the same as tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tsarchive.describing.text import plural, size
from tsarchive.formats.executorch.listing import instruction_text
from tsarchive.formats.executorch.methods import Method

from .html import Cell, Html, clipped, joined, more, table, tag
from .memory_plan import UNUSED, VIEW, Plan, Planned, plan_of
from .section import Section, Subject


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
