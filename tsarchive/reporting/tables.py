"""The sections that are lists and tables.

The facts of a file as in ``tsarchive info``, its bytes by purpose, its records, the findings of
verify and audit, the names in its pickles, its modules, operators and tensors.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from tsarchive.auditing import AuditReport
from tsarchive.container import Record
from tsarchive.describing.contents import GroupFacts, ModuleInfo, TensorInfo, fact_lines
from tsarchive.describing.text import method_name, plural, shape, size
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding
from tsarchive.formats.base import ZipFormat
from tsarchive.formats.records import RecordTable
from tsarchive.formats.registry import format_named
from tsarchive.scanning.report import OperatorUse, PickledName
from tsarchive.verifying import VerifyReport

from .charts import Share, strip
from .code import line_anchors
from .html import (
    MAX_FACT,
    Cell,
    Html,
    Section,
    Subject,
    counted_bar,
    fact_list,
    joined,
    more,
    share_bar,
    table,
    tag,
    text,
)


def overview(subject: Subject) -> Section | None:
    """Make the section; None for a file that cannot be opened."""
    if subject.archive is None:
        return None
    format_ = format_named(subject.archive.kind)
    facts = format_.describe(subject.archive, subject.name, subject.nbytes)
    body = joined((_bytes(facts.groups), fact_list(fact_lines(facts))))
    return Section("overview", "Overview", body, 1, 1)


def _bytes(groups: Mapping[str, GroupFacts]) -> Html:
    """Draw the shares of record groups as a bar, and list them."""
    shares = [
        Share(name, group.stored_nbytes, f"{size(group.stored_nbytes)} in "
              f"{plural(group.records, 'record')}")
        for name, group in groups.items()
    ]  # fmt: skip
    return strip("Bytes by purpose", shares)


_OF_ZIP: Final = ("record", "purpose", "bytes", "in the file", "stored as", "offset")
_OF_PARTS: Final = ("part", "bytes", "offset")


def records(subject: Subject) -> Section | None:
    """Make the section; None for a file that cannot be opened."""
    archive = subject.archive
    if archive is None:
        return None
    found = list(archive.records.values())
    shown = found[: subject.rows]
    format_ = format_named(archive.kind)
    purposes = format_.table(archive.container) if isinstance(format_, ZipFormat) else None
    headings = _OF_PARTS if purposes is None else _OF_ZIP
    rows = [_record_row(record, purposes) for record in shown]
    body = joined((table("records", headings, rows), more(len(shown), len(found), "record")))
    return Section("records", "Records", body, len(shown), len(found))


def _record_row(record: Record, purposes: RecordTable | None) -> list[Cell]:
    """Return the cells of a record; for a part of another file than a zip, the fewer ones."""
    name, nbytes = Cell(record.name, is_code=True), Cell(f"{record.size:,}", value=record.size)
    if purposes is None:
        return [name, nbytes, _offset(record)]
    return [
        name,
        Cell(purposes.role(record.name).described),
        nbytes,
        Cell(f"{record.stored_size:,}", value=record.stored_size),
        Cell(method_name(record.method)),
        _offset(record),
    ]


def _offset(record: Record) -> Cell:
    """Return the offset of a record's data in the file, according to its local header."""
    try:
        return Cell(f"{record.offset:,}", value=record.offset)
    except ArchiveError:
        return Cell("unknown", value=-1)


_MEANINGS: Final[Mapping[str, str]] = {
    "sound": "The file is whole, and what it claims to be.",
    "unusual": "The file is whole, and no writer of archives makes all of it so.",
    "another kind": "The file is of another kind.",
    "broken": "The file is damaged or incomplete.",
    "inconsistent": "The file contradicts itself: it is damaged or forged.",
    "hostile": "The file was made to deceive or to attack.",
}
_NOTHING: Final = "Nothing was found that it can do beyond computing."


def findings(subject: Subject) -> Section | None:
    """Make the section; None where the file was not checked."""
    if subject.verified is None or subject.audited is None:
        return None
    found = subject.findings
    shown = found[: subject.rows]
    anchors = line_anchors(subject)
    items = (_item(finding, anchors) for finding in shown)
    body = joined(
        (
            tag("p", verdict(subject.verified), " ", _abilities(subject.audited)),
            tag("ul", *items, class_="findings") if shown else None,
            more(len(shown), len(found), "finding"),
        )
    )
    return Section("findings", "Findings", body, len(shown), len(found))


def verdict(verified: VerifyReport) -> Html:
    """Return the result of verifying as a word and a sentence."""
    style = "good" if verified.ok else "bad"
    word = tag("b", verified.verdict, class_=f"badge {style}")
    return joined((word, " ", _MEANINGS[verified.verdict]))


def _abilities(audited: AuditReport) -> str:
    counts = Counter(finding.severity.value for finding in audited.findings)
    told = [f"{counts[name]:,} {name}" for name in ("error", "warning") if counts[name]]
    return f"What it can do, and holds: {', '.join(told)}." if told else _NOTHING


def _item(finding: Finding, anchors: Mapping[str, tuple[str, int]]) -> Html:
    severity = finding.severity.value
    heading = (
        tag("b", severity, class_=f"badge {severity}"),
        " ",
        tag("span", text(finding.message, MAX_FACT)),
    )
    nature = joined((tag("code", finding.rule), f" {finding.nature.value}"))
    details = joined((nature, *_where(finding, anchors)), ", ")
    hint = tag("p", text(finding.hint, MAX_FACT), class_="hint") if finding.hint else None
    return tag("li", tag("p", *heading), tag("p", details, class_="dim"), hint)


def _where(finding: Finding, anchors: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    if finding.record is not None:
        yield joined(("record ", tag("code", finding.record)))
    if finding.line is not None:
        anchor, lines = anchors.get(finding.record or "", ("", 0))
        is_shown = 1 <= finding.line <= lines
        shown = f"line {finding.line}"
        yield tag("a", shown, href=f"#{anchor}-L{finding.line}") if is_shown else shown
    if finding.offset is not None:
        yield f"offset {finding.offset:,}"


def pickled_names(subject: Subject) -> Section | None:
    """Make the section; None where no pickle names anything."""
    names = () if subject.audited is None else subject.audited.pickled_names
    if not names:
        return None
    ordered = sorted(names, key=lambda name: (name.reason is not None, name.name))
    shown = ordered[: subject.rows]
    headings = ("name", "record", "used", "why it is harmless")
    rows = [_name_row(name) for name in shown]
    body = joined((table("pickled", headings, rows), more(len(rows), len(names), "name")))
    return Section("pickled", "Pickled names", body, len(rows), len(names))


def _name_row(name: PickledName) -> list[Cell]:
    reason = name.reason or tag("b", "outside of the format", class_="badge warning")
    return [
        Cell(name.name, is_code=True),
        Cell(name.record or "the file", is_code=True),
        Cell("called" if name.is_called else "named"),
        Cell(reason, value=name.reason or ""),
    ]


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
    used = () if subject.audited is None else subject.audited.operators
    uses = {use.operator: use for use in used}
    counts = subject.archive.view.operators() if subject.archive and subject.has_program else None
    if counts is None:
        counts = {name: len(use.places) for name, use in uses.items()}
    if not counts:
        return None
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ordered[: subject.rows]
    most = shown[0][1]
    rows = [
        _operator_row(name, count, most, uses.get(name.partition(".")[0])) for name, count in shown
    ]
    headings = ("operator", "calls", "what it can do") if uses else ("operator", "calls")
    body = joined((table("operators", headings, rows), more(len(rows), len(counts), "operator")))
    return Section("operators", "Operators", body, len(rows), len(counts))


def _operator_row(name: str, count: int, most: int, use: OperatorUse | None) -> list[Cell]:
    cells = [Cell(name, is_code=True), Cell(counted_bar(count, most), value=count)]
    if use is not None:
        style = "risk plain" if use.risk.value == _PLAIN else "risk"
        certain = "" if use.is_certain else " (or a method of that name)"
        told = joined((tag("span", use.risk.value, class_=style), f" {use.reason}{certain}"))
        cells.append(Cell(told, value=use.risk.value))
    return cells


_HEADINGS: Final = ("name", "dtype", "shape", "elements", "bytes", "role", "record", "offset")
_HOW: Final = (
    "Values are not read unless they are asked for: 'tsarchive report FILE --histograms' draws all "
    "of them, --histograms='*.weight' those whose names fit."
)
_OPEN: Final = "Open a tensor by its name to see how its values are spread."


def tensors(subject: Subject) -> Section | None:
    """Make the section; None for files without tensors."""
    if subject.archive is None or not subject.has_tensors:
        return None
    found = list(subject.archive.tensors.items())
    if not found:
        return None
    shown = _largest(found, subject.rows)
    drawn = dict(_histograms(subject, shown))
    keys = [str(index) if str(index) in drawn else None for index in range(len(shown))]
    body = joined(
        (
            tag("p", _OPEN if drawn else _HOW, class_="dim"),
            table(
                "tensors", _HEADINGS, [_tensor_row(name, info) for name, info in shown], keys=keys
            ),
            more(len(shown), len(found), "tensor", ", none of which is larger"),
        )
    )
    return Section("tensors", "Tensors", body, len(shown), len(found), drawn or None)


def _largest(found: list[tuple[str, TensorInfo]], most: int) -> list[tuple[str, TensorInfo]]:
    """Return the largest tensors in file order."""
    if len(found) <= most:
        return found
    sizes = sorted(range(len(found)), key=lambda index: -found[index][1].nbytes)
    return [found[index] for index in sorted(sizes[:most])]


def _tensor_row(name: str, info: TensorInfo) -> list[Cell]:
    return [
        Cell(name, is_code=True),
        Cell(info.dtype),
        Cell(shape(info.shape), value=shape(info.shape)),
        Cell(f"{info.elements:,}", value=info.elements),
        Cell(f"{info.nbytes:,}", value=info.nbytes),
        Cell(info.role),
        Cell(info.storage or "several", is_code=True),
        Cell("" if info.offset is None else f"{info.offset:,}", value=info.offset),
    ]


def _histograms(
    subject: Subject, shown: list[tuple[str, TensorInfo]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the script's histogram data by row number."""
    pattern, archive = subject.histograms, subject.archive
    wanted = [
        (index, name)
        for index, (name, _) in enumerate(shown)
        if pattern is not None and fnmatchcase(name, pattern)
    ]
    if not wanted or archive is None:
        return
    from .histograms import Elements, histogram

    elements = Elements(archive)
    for index, name in wanted:
        try:
            yield str(index), histogram(elements.of(name)).document()
        except ArchiveError as error:
            yield str(index), {"problem": error.message}
