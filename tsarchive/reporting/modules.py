"""The modules of a file as a tree with sizes, and the operators that they call."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from tsarchive.describing.contents import ModuleInfo
from tsarchive.describing.text import plural, size
from tsarchive.scanning.report import OperatorUse

from .html import Cell, Html, joined, more, share_bar, table, tag
from .section import Section, Subject

# Levels that are unfolded initially, and the maximum number of modules visible then.
_OPEN_LEVELS = 3
_OPEN_MODULES = 40


class _Total(NamedTuple):
    """A module's totals, including its descendants."""

    modules: int
    parameters: int
    nbytes: int


def tree(subject: Subject) -> Section | None:
    """Make the section; None for files without modules."""
    archive = subject.archive
    if archive is None or not subject.has_program:
        return None
    root = archive.view.signed_tree()
    drawing = _Drawing(root, subject.rows)
    shown, total = len(drawing.chosen), drawing.totals[id(root)].modules
    buttons = tag(
        "p",
        tag("button", "Unfold all", type="button", data_fold="open"),
        tag("button", "Fold all", type="button", data_fold="close"),
        class_="tools",
    )
    drawn = tag("ul", drawing.module(root, 0), class_="tree", id="tree-root")
    body = joined((buttons, drawn, more(shown, total, "module")))
    return Section("modules", "Modules", body, shown, total)


class _Drawing:
    """Draws the modules nearest to the root, up to the limit."""

    def __init__(self, root: ModuleInfo, most: int) -> None:
        self.totals: dict[int, _Total] = {}
        self._add_up(root)
        self._all = max(self.totals[id(root)].nbytes, 1)
        levels = _nearest(root, most)
        self.chosen = frozenset(levels)
        self._open_levels = max(
            level
            for level in range(_OPEN_LEVELS + 1)
            if level <= 1 or sum(other <= level for other in levels.values()) <= _OPEN_MODULES
        )

    def _add_up(self, module: ModuleInfo) -> _Total:
        modules, parameters, nbytes = 1, module.parameters, module.nbytes
        for child in module.children:
            below = self._add_up(child)
            modules += below.modules
            parameters += below.parameters
            nbytes += below.nbytes
        found = self.totals[id(module)] = _Total(modules, parameters, nbytes)
        return found

    def module(self, module: ModuleInfo, level: int) -> Html:
        """Draw a module as a list item, with its children."""
        label = self._label(module)
        children = [child for child in module.children if id(child) in self.chosen]
        if not module.children:
            return tag("li", tag("div", label, class_="leaf"))
        below = [self.module(child, level + 1) for child in children]
        left = len(module.children) - len(children)
        if left:
            below.append(tag("li", f"and {left:,} more", class_="more"))
        is_open = level < self._open_levels
        return tag("li", tag("details", tag("summary", label), tag("ul", *below), open=is_open))

    def _label(self, module: ModuleInfo) -> Html:
        total, methods = self.totals[id(module)], ", ".join(module.methods)
        told = (
            tag("span", module.name or "(root)", class_="name"),
            tag("span", module.qualified_class, class_="class"),
            tag("span", methods, class_="methods", title=methods) if methods else None,
        )
        parts = [tag("span", joined(told, " "), class_="told-of")]
        if total.nbytes:
            counted = f"{plural(total.parameters, 'parameter')}, " if total.parameters else ""
            parts.append(tag("span", f"{counted}{size(total.nbytes)}", class_="figures"))
            parts.append(share_bar(total.nbytes, self._all))
        return tag("span", joined(parts, " "), class_="label")


def _nearest(root: ModuleInfo, most: int) -> dict[int, int]:
    """Return the modules nearest to the root by identity, with their depth."""
    levels = {id(root): 0}
    pending = deque([root])
    while pending:
        module = pending.popleft()
        for child in module.children:
            if len(levels) >= most:
                return levels
            levels[id(child)] = levels[id(module)] + 1
            pending.append(child)
    return levels


_PLAIN: Final = "compute"


def operators(subject: Subject) -> Section | None:
    """Make the section; None for files without operators."""
    uses = {use.operator: use for use in subject.audited.operators} if subject.audited else {}
    counts = subject.archive.view.operators() if subject.archive and subject.has_program else None
    if counts is None:
        counts = {name: len(use.places) for name, use in uses.items()}
    if not counts:
        return None
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ordered[: subject.rows]
    most = shown[0][1]
    rows = [_row(name, count, most, uses.get(name.partition(".")[0])) for name, count in shown]
    headings = ("operator", "calls", "what it can do") if uses else ("operator", "calls")
    body = joined((table("operators", headings, rows), more(len(rows), len(counts), "operator")))
    return Section("operators", "Operators", body, len(rows), len(counts))


def _row(name: str, count: int, most: int, use: OperatorUse | None) -> list[Cell]:
    bar = joined((tag("span", f"{count:,}", class_="number"), share_bar(count, most)), " ")
    cells = [Cell(name, is_code=True), Cell(bar, value=count)]
    if use is not None:
        cells.append(Cell(_ability(use), value=use.risk.value))
    return cells


def _ability(use: OperatorUse) -> Html:
    style = "risk plain" if use.risk.value == _PLAIN else "risk"
    certain = "" if use.is_certain else " (or a method of that name)"
    return joined((tag("span", use.risk.value, class_=style), f" {use.reason}{certain}"))
