"""Which releases load an archive of torch.export: its layout, its schema, and its operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from tsarchive.formats.compatibility import Compatibility, Found, Reason, rows_of
from tsarchive.operators.libraries import is_of_torch, what_registers
from tsarchive.operators.registry import schema_texts, versions_of
from tsarchive.operators.releases import Release

from .metadata import graphs_in, operator_and_overload
from .records import FLAT_INPUTS, USUAL_NAME, Layout, Records
from .view import Pt2View

# The version of the schema that each release and those after it write; they read programs of the
# same major version. Source: ``SCHEMA_VERSION`` in torch/_export/serde/schema.py of each.
_SCHEMAS: Final[Mapping[str, tuple[int, int]]] = {
    "2.1": (1, 0), "2.2": (2, 0), "2.3": (5, 1), "2.4": (5, 3), "2.5": (7, 3), "2.6": (8, 2),
    "2.7": (8, 7), "2.8": (8, 8), "2.9": (8, 14), "2.10": (8, 15), "2.11": (8, 17),
    "2.12": (8, 20),
}  # fmt: skip
# The first release that reads each layout.
_LAYOUTS: Final = {Layout.FLAT: "2.1", Layout.WHOLE: "2.8", Layout.RAW: "2.9"}
_WITH_INPUTS: Final = "2.4"
# What these namespaces have is no operator: torch's Python, which programs call by name.
_PYTHON: Final = ("higher_order", "_operator", "math", "torch")

_BY_NAME: Final = "torch.export.pt2_archive.load_pt2, or tsarchive.load(..., model=...)"

NOTES: Final = (
    "fields that a newer minor version of the schema added are read over by older releases, "
    "which may then run something else: trust rows of releases before the one that wrote it less",
)


def compatibility(view: Pt2View, releases: Sequence[Release]) -> Compatibility:
    """Return what ``torch.export.load`` of each release does with an archive.

    Raises UnsupportedError or MissingRecordError where it has no program.
    """
    view.records.programs()
    reading = _Archive(view)
    rows = rows_of(releases, lambda release: Found([*reading.reasons(release)]))
    major, minor = reading.version
    facts = {"schema": f"{major}.{minor}", "layout": reading.records.layout.value}
    return Compatibility(rows, facts=facts, notes=NOTES)


class _Archive:
    def __init__(self, view: Pt2View) -> None:
        self.view = view
        self.records: Records = view.records

    @cached_property
    def version(self) -> tuple[int, int]:
        """The version of the schema, of the first model that has another than the rest."""
        found = [self.view.program(model).schema_version for model in self.view.models]
        return max((version.major, version.minor) for version in found)

    @cached_property
    def targets(self) -> Mapping[str, str]:
        """The operators that programs call, with overloads, and the record that does."""
        found: dict[str, str] = {}
        for model in self.view.models:
            record = self.records.program_record(model)
            for graph in graphs_in(self.view.program(model).graph_module.graph):
                found |= {node.target: record for node in graph.nodes if node.target not in found}
        return found

    def reasons(self, release: Release) -> Iterator[Reason]:
        """Yield what keeps a release from loading the archive."""
        if not release.is_since("2.1"):
            yield Reason("format", "it has no torch.export.load", "torch.export", since="2.1")
            return
        yield from self._format(release)
        for target, record in self.targets.items():
            found = _lacking(target, record, release)
            if found is not None:
                yield found

    def _format(self, release: Release) -> Iterator[Reason]:
        layout, (major, minor) = self.records.layout, self.version
        if not release.is_since(_LAYOUTS[layout]):
            text = "it does not read this layout of archives"
            yield Reason("format", text, "layout", "archive_format", since=_LAYOUTS[layout])
        ours = _schema_of(release)
        if ours[0] != major:
            text = f"it does not read schema {major}.{minor}, but {ours[0]}.x"
            since = next((r for r, v in _SCHEMAS.items() if v[0] == major), None)
            later = since if since is not None and not release.is_since(since) else None
            yield Reason("schema", text, "schema", since=later)
        if layout is not Layout.FLAT and USUAL_NAME not in self.view.models:
            text = f"no model is called {USUAL_NAME!r}, which is the one that it loads"
            yield Reason("format", text, "model name", hint=_BY_NAME)
        lacks_inputs = layout is Layout.FLAT and FLAT_INPUTS not in self.records.container.records
        if lacks_inputs and release.is_since(_WITH_INPUTS) and major == ours[0]:
            yield Reason("format", "there are no example inputs, which it needs", FLAT_INPUTS)


def _schema_of(release: Release) -> tuple[int, int]:
    return [version for first, version in _SCHEMAS.items() if release.is_since(first)][-1]


def _lacking(target: str, record: str, release: Release) -> Reason | None:
    """Return the reason for an operator that a release does not have, by its overload."""
    found = operator_and_overload(target)
    if found is None or found[0].partition("::")[0] in _PYTHON:
        return None
    name, overload = found[0], "" if found[1] == "default" else found[1]
    if not versions_of(name):
        if is_of_torch(name):
            return None  # registered by Python alone, such as those of aten that decompose
        text, hint = f"{name} comes with a library", what_registers(name)
        return Reason("library", text, name, record, hint=hint)
    full_name = f"{name}.{overload}" if overload else name
    texts = schema_texts(name, release.name)
    if not texts:
        return Reason("operator", f"there is no operator {name}", full_name, record)
    if full_name not in [text.partition("(")[0] for text in texts]:
        return Reason("overload", f"there is no overload {full_name}", full_name, record)
    return None
