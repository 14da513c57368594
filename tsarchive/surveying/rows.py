"""The rows of a survey: one for each file, and one for each finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

Status: TypeAlias = Literal["read", "foreign", "refused", "failed", "crashed", "timeout"]
"""How it went: ``read``, of a format that is known; ``foreign``, no model file at all; ``refused``,
a file of such a format that is damaged or breaks its rules; ``failed``, bytes could not be had;
``crashed`` and ``timeout``, the process that read it died or was stopped."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """What a survey tells of one file. What is not known, or was not asked for, is None or empty.

    ``path`` is relative to its ``root`` where that is a folder or bucket. ``version`` is the ETag,
    generation or modification time that the file had. ``sha256`` is that of the whole file, in hex.
    ``code``, ``structure``, ``weights``, ``extra_files`` and ``model`` are the digests of
    :func:`tsarchive.fingerprint`. ``parameters`` counts elements. ``effects`` are what operators do
    beside computing, such as ``files`` or ``randomness``. ``errors``, ``warnings`` and ``notes``
    count the findings of ``verify`` and ``audit``, which are rows of their own. ``torch_first`` and
    ``torch_last`` are the releases that may have written it, ``loads_on`` and ``runs_on`` those
    that load and run it. Sizes are in bytes.

    Names are sorted, at most 10,000 of a kind; texts have at most 4,000 characters, and escapes in
    the place of what is no UTF-8.

        >>> survey = tsarchive.survey("net.pt", "survey", workers=0, format="jsonl")
        >>> [(row.kind, row.parameters, row.dtypes) for row in survey.dataset.files()]
        [('torchscript', 10, ('float32',))]
    """

    root: str
    path: str
    status: Status
    nbytes: int | None = None
    version: str | None = None
    problem: str = ""
    kind: str | None = None
    format_version: int | None = None
    sha256: str | None = None
    code: str | None = None
    structure: str | None = None
    weights: str | None = None
    extra_files: str | None = None
    model: str | None = None
    records: int | None = None
    tensors: int | None = None
    parameters: int | None = None
    tensor_nbytes: int | None = None
    code_nbytes: int | None = None
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    extra_names: tuple[str, ...] = ()
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    torch_first: str | None = None
    torch_last: str | None = None
    loads_on: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingRow:
    """One finding of ``verify`` or ``audit`` in a file, as :class:`tsarchive.Finding` has it.

    For example:

        >>> survey = tsarchive.survey("net.pt", "survey", workers=0, format="jsonl")
        >>> [(row.verb, row.rule) for row in survey.dataset.findings()]
        [('verify', 'record-extra')]
    """

    root: str
    path: str
    verb: Literal["verify", "audit"]
    rule: str
    severity: str
    nature: str
    message: str
    record: str | None = None
    offset: int | None = None
    line: int | None = None
    hint: str = ""


class Surveyed(NamedTuple):
    """All rows of one file."""

    file: FileRow
    findings: Sequence[FindingRow] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What the rows of a survey are ordered by: no two files have the same."""
        return self.file.root, self.file.path


RowType: TypeAlias = type[FileRow] | type[FindingRow]
ROWS: Final[Mapping[str, RowType]] = {"files": FileRow, "findings": FindingRow}
"""The tables of a survey, and what a row of each is."""
_Row = TypeVar("_Row", FileRow, FindingRow)
_TUPLES: Final = frozenset(field.name for field in fields(FileRow) if field.default == ())


def plain(row: FileRow | FindingRow) -> dict[str, Any]:
    """Return a row as values by column, in the order of the columns."""
    return {field.name: getattr(row, field.name) for field in fields(row)}


def row_of(kind: type[_Row], values: Mapping[str, Any]) -> _Row:
    """Return the row with these values by column, lists in the place of tuples."""
    columns: dict[str, Any] = {k: tuple(v) if k in _TUPLES else v for k, v in values.items()}
    return kind(**columns)


def surveyed_of(document: Mapping[str, Any]) -> Surveyed:
    """Return the rows that :func:`document_of` made a document of."""
    findings = (row_of(FindingRow, each) for each in document["findings"])
    return Surveyed(row_of(FileRow, document["file"]), tuple(findings))


def document_of(rows: Surveyed) -> dict[str, Any]:
    """Return the rows of a file as a JSON document."""
    return {"file": plain(rows.file), "findings": [*map(plain, rows.findings)]}
