"""How data flows through methods: a box for each statement that calls something, and arrows.

The code of the page is read as text; statements that only fetch attributes or constants are left
out, and control flow is one box, so that pictures stay small.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tsarchive.archive import Archive
from tsarchive.describing.text import plural, visible
from tsarchive.errors import ArchiveError
from tsarchive.frontend.syntax import bounded, dotted, parse_statements
from tsarchive.ir.text_limits import check_text, parse_module

from .code import code_texts
from .html import LINES_PER_ROW, Html, Section, Subject, clipped, joined, tag
from .layered import Box, layered

# Of one method, and of a page: a page about any model stays of a size that a browser draws.
MOST_BOXES: Final = 120
_ALL_BOXES: Final = 400
_MOST_LINES: Final = 20_000
_LABEL: Final = 34
_TOLD: Final = 200
_SMALLEST: Final = 3
_CONTROL: Final = (ast.If, ast.For, ast.While, ast.With)
_PREFIXES: Final = ("torch.ops.aten.", "torch.ops.", "torch.", "ops.", "__torch__.")


_TOLD_OF: Final = (
    "A box is a step, and leads to its line of code below, which leads back. Arrows follow the "
    "values. Attributes and constants are left out."
)


@dataclass(slots=True)
class Flow:
    """The boxes of a method, those of its first steps; ``steps`` counts all of them."""

    title: str
    boxes: list[Box] = field(default_factory=list)
    steps: int = 0


class _Method(NamedTuple):
    owner: str
    code: ast.FunctionDef


def data_flow(subject: Subject) -> Section | None:
    """Make the section; None for files whose code has no method of several steps."""
    flows, others = subject.once(_flows)
    if not flows:
        return None
    told = tag("p", _TOLD_OF, class_="dim")
    figures = (_figure(flow, is_open=not index) for index, flow in enumerate(flows))
    left = f"and {plural(others, 'more method')}, whose code is below" if others else None
    body = joined((told, *figures, tag("p", left, class_="more") if left else None))
    return Section("flow", "Data flow", body, len(flows), len(flows) + others)


def flow_anchors(subject: Subject) -> Mapping[str, str]:
    """Return the anchors of boxes by the anchors of the lines of code that they stand for."""
    boxes = (box for flow in subject.once(_flows)[0] for box in flow.boxes)
    return {box.href[1:]: box.anchor for box in boxes if box.href and box.anchor}


def _flows(subject: Subject) -> tuple[list[Flow], int]:
    """Return the flows to draw, those of the main class first, and how many others there are."""
    found: list[Flow] = []
    archive, left = subject.archive, min(_ALL_BOXES, subject.rows)
    if archive is None or not subject.has_program:
        return [], 0
    main = _main_class(subject)
    methods = [*_methods(subject)]
    methods.sort(key=lambda method: method[1].owner != main)
    others = 0
    for block, method, shown in methods:
        flow = _Reading(block, len(found), shown, min(left, MOST_BOXES)).read(method)
        if flow.steps < _SMALLEST:
            continue
        if not left:
            others += 1
            continue
        left -= len(flow.boxes)
        found.append(flow)
    return found, others


def _main_class(subject: Subject) -> str:
    with suppress(ArchiveError):
        if subject.archive is not None:
            return subject.archive.view.tree().qualified_class.rpartition(".")[2]
    return ""


def _methods(subject: Subject) -> Iterator[tuple[str, _Method, int]]:
    """Yield the methods of code that the page shows, with the anchor of their code."""
    assert subject.archive is not None
    left = min(subject.rows * LINES_PER_ROW, _MOST_LINES)
    for anchor, name, source in code_texts(subject.archive):
        if left <= 0:
            break
        if isinstance(source, ArchiveError):
            continue
        lines = source.count("\n") + 1
        if lines <= _MOST_LINES:
            with suppress(ArchiveError), bounded(name):
                for method in _defined(_parsed(subject.archive, name, source)):
                    yield anchor, method, left
        left -= lines


def _parsed(archive: Archive, name: str, source: str) -> list[ast.stmt]:
    """Parse code; listings, which need not be Python, have more than TorchScript does."""
    if not archive.view.has_listings:
        return parse_statements(source, name, 1)
    check_text(source, name, 1)
    try:
        return parse_module(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []


def _defined(statements: list[ast.stmt], owner: str = "") -> Iterator[_Method]:
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            yield from _defined(statement.body, statement.name)
        elif isinstance(statement, ast.FunctionDef):
            yield _Method(owner, statement)


class _Reading:
    """Reads one method. A name stands for the boxes that its value comes from."""

    def __init__(self, block: str, number: int, shown: int, most: int) -> None:
        self._block = block
        self._number = number
        self._shown = shown
        self._most = most
        self._names: dict[str, tuple[int, ...]] = {}
        self._written: dict[str, str] = {}
        self._flow = Flow("")

    def read(self, method: _Method) -> Flow:
        owner = f"{method.owner}." if method.owner else ""
        self._flow.title = f"{owner}{method.code.name}"
        for argument in method.code.args.args:
            if argument.arg != "self":
                self._names[argument.arg] = self._box(argument.arg, argument.arg, None, "given", ())
        for statement in method.code.body:
            self._statement(statement)
        return self._flow

    def _statement(self, statement: ast.stmt) -> None:
        calls = [*_called(statement, self._written)]
        sources = self._sources(statement)
        targets = [*_targets(statement)]
        if isinstance(statement, ast.FunctionDef):
            return
        if isinstance(statement, ast.Return):
            self._box("return", ast.unparse(statement), statement, "result", sources)
        elif isinstance(statement, _CONTROL):
            kind = type(statement).__name__.lower()
            label = f"{kind}: {plural(len(calls), 'call')}"
            sources = self._box(label, ", ".join(calls) or kind, statement, "control", sources)
        elif calls:
            sources = self._box(
                " → ".join(reversed(calls)), ast.unparse(statement), statement, "call", sources
            )
        elif len(targets) == 1 and isinstance(statement, ast.Assign):
            self._written[targets[0]] = dotted(statement.value).removeprefix("self.")
        for name in targets:
            self._names[name] = sources

    def _sources(self, statement: ast.stmt) -> tuple[int, ...]:
        names = (node.id for node in ast.walk(statement)
                 if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))  # fmt: skip
        found = {number for name in names for number in self._names.get(name, ())}
        return tuple(sorted(found))

    def _box(
        self, label: str, told: str, at: ast.stmt | None, style: str, sources: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Add a box, and return its number; what is left out leads to nothing."""
        self._flow.steps += 1
        if len(self._flow.boxes) >= self._most:
            return ()
        number = len(self._flow.boxes)
        line = None if at is None or at.lineno > self._shown else at.lineno
        href = None if line is None else f"#{self._block}-L{line}"
        place = "" if at is None else f"line {at.lineno}: "
        self._flow.boxes.append(
            Box(
                _short(visible(label, keep="")),
                clipped(f"{place}{told}", _TOLD),
                href,
                f"flow-{self._number}-{number}",
                style,
                sources,
            )
        )
        return (number,)


def _short(label: str) -> str:
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"


def _called(statement: ast.stmt, written: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of what a statement calls, the innermost last."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and (name := _callee(node.func, written)):
            yield name


# They build values, or fetch attributes of names that are no identifiers.
_BUILDING: Final = frozenset({"annotate", "getattr", "uninitialized", "unchecked_cast", "device"})


def _callee(function: ast.expr, written: Mapping[str, str]) -> str:
    first, _, rest = dotted(function).partition(".")
    name = f"{written.get(first) or first}{'.' if rest else ''}{rest}".removeprefix("self.")
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    name = name.removeprefix(prefix).removesuffix(".default")
    return "" if name in _BUILDING else name


def _targets(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _figure(flow: Flow, *, is_open: bool) -> Html:
    label = f"Data flow of {flow.title}"
    left = flow.steps - len(flow.boxes)
    told = f"the first {len(flow.boxes)} of {plural(flow.steps, 'step')}" if left else None
    heading = tag("summary", tag("span", flow.title, class_="name"), " ",
                  tag("span", told or plural(flow.steps, "step"), class_="figures"))  # fmt: skip
    drawn = tag("div", layered(flow.boxes, label), class_="scroll flow-frame", tabindex=0,
                role="region", aria_label=label)  # fmt: skip
    rest = tag("p", f"and {left:,} more steps, in the code below", class_="more") if left else None
    return tag("details", heading, drawn, rest, class_="code-block", open=is_open)
