"""The trees of modules of two files side by side, with what changed in each module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tsarchive.describing.contents import ModuleInfo
from tsarchive.diffing.report import Change
from tsarchive.ir.names import unmangled

from .comparison import MODULE, Comparison
from .html import Html, Section, joined, more, tag

_MARKS: Final = {"added": "+", "removed": "−", "changed": "~", "around": "", "alike": ""}
_ALL_FROM: Final = 40
_ALONE: Final = ("added", "removed")


class _Node(NamedTuple):
    """A module before and after; None where one side has none. ``path`` is that after, if there is
    one; ``above`` are the paths of the modules around it."""

    path: str
    above: tuple[str, ...]
    before: ModuleInfo | None
    after: ModuleInfo | None


def modules(compared: Comparison) -> Section | None:
    """Make the trees of modules side by side; None for files without modules."""
    if not all(side.archive.view.has_modules for side in compared.sides):
        return None
    roots = (side.archive.view.signed_tree() for side in compared.sides)
    changes = compared.report.changes
    nodes = list(_Merging(compared.moved).nodes("", "", (), *roots))
    kinds = _kinds_by_module({node.path for node in nodes}, changes)
    states = {node.path: _state(node, kinds) for node in nodes}
    around = {path for node in nodes if states[node.path] != "alike" for path in node.above}
    states |= {path: "around" for path in around if states[path] == "alike"}
    shown = nodes[: compared.rows]
    rows = (_node_row(node, states[node.path], kinds.get(node.path, Counter())) for node in shown)
    head = tag("tr", *(tag("th", name, scope="col") for name in ("before", "after", "changes")))
    made = tag("table", tag("thead", head), tag("tbody", *rows), class_="sides trees")
    box = _alike_box("modules", is_checked=len(nodes) <= _ALL_FROM)
    body = joined((box, tag("div", made, class_="scroll"), more(len(shown), len(nodes), "module")))
    return Section("modules", "Modules", body, len(shown), len(nodes))


def _alike_box(noun: str, *, is_checked: bool) -> Html:
    box = tag("input", type="checkbox", id=f"show-alike-{noun}", checked=is_checked)
    return tag("p", tag("label", box, f" {noun} without a change"), class_="tools")


class _Merging:
    """Makes one tree of two. Modules that were renamed in their place stand together."""

    def __init__(self, was: Mapping[str, str]) -> None:
        self._was = was

    def nodes(
        self,
        path_before: str,
        path: str,
        above: tuple[str, ...],
        before: ModuleInfo | None,
        after: ModuleInfo | None,
    ) -> Iterator[_Node]:
        """Yield modules in the order of the file after."""
        own = path if after is not None else path_before
        yield _Node(own, above, before, after)
        one = {_below(path_before, c.name): c for c in (before.children if before else ())}
        other = {_below(path, c.name): c for c in (after.children if after else ())}
        paths = {self._place_before(child, path, path_before, one): child for child in other}
        for place in _in_order(list(one), list(paths)):
            child = paths.get(place, place)
            found = one.get(place), other.get(paths.get(place, ""))
            yield from self.nodes(place, child, (*above, own), *found)

    def _place_before(
        self, child: str, path: str, path_before: str, one: Mapping[str, ModuleInfo]
    ) -> str:
        """Return where a module in the module at ``path`` was, or would have been."""
        was = self._was.get(child)
        if was is not None and was in one:
            return was
        return _below(path_before, child.removeprefix(f"{path}.") if path else child)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _in_order(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield what is there after, and each that is gone behind the one that it stood behind."""
    kept = set(after)
    gone: dict[str, list[str]] = {}
    last = ""
    for name in before:
        if name in kept:
            last = name
        else:
            gone.setdefault(last, []).append(name)
    yield from gone.get("", ())
    for name in after:
        yield name
        yield from gone.get(name, ())


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition(".")[0]
        yield path


def _kinds_by_module(paths: set[str], found: Sequence[Change]) -> dict[str, Counter[str]]:
    """Return the kinds of changes by the module that is at their place or nearest above it."""
    kinds: dict[str, Counter[str]] = {}
    for change in found:
        if change.part == "extra files":
            continue
        told = change.kind
        if change.kind == MODULE and isinstance(change.before, str) and change.after is not None:
            told = f"was {change.before}"
            if change.before in paths:
                kinds.setdefault(change.before, Counter())[f"is now {change.where}"] += 1
        for where in (change.where, *change.also):
            place = next((path for path in (where, *_above(where)) if path in paths), "")
            kinds.setdefault(place, Counter())[told] += 1
    return kinds


def _state(node: _Node, kinds: Mapping[str, Counter[str]]) -> str:
    if node.before is None:
        return "added"
    if node.after is None:
        return "removed"
    return "changed" if node.path in kinds else "alike"


def _node_row(node: _Node, state: str, kinds: Counter[str]) -> Html:
    counts = kinds if kinds.keys() - {MODULE} or state not in _ALONE else Counter([state])
    told = ", ".join(f"{kind} ({n:,})" if n > 1 else kind for kind, n in counts.items())
    return tag("tr", _node_cell(node, node.before, state), _node_cell(node, node.after, state),
               tag("td", told, class_="dim"), class_=state)  # fmt: skip


def _node_cell(node: _Node, module: ModuleInfo | None, state: str) -> Html:
    if module is None:
        return tag("td", class_="absent")
    names = {_class_name(side) for side in (node.before, node.after) if side is not None}
    name = _class_name(module)
    is_other = len(names) > 1
    class_ = "class differs" if is_other else "class"
    parts = (
        Html('<span class="indent"></span>' * len(node.above)),
        tag("span", _MARKS[state], class_="mark"),
        tag("span", module.name or "(root)", class_="name"),
        " ",
        tag("span", name if is_other else name.rpartition(".")[2], class_=class_, title=name),
    )
    return tag("td", *parts)


def _class_name(module: ModuleInfo) -> str:
    return unmangled(module.qualified_class).removeprefix("__torch__.")
