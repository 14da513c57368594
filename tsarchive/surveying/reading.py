"""What a survey tells of one file: everything that the verbs find, as rows."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from tsarchive.archive import archive_of
from tsarchive.auditing.files import audit_source
from tsarchive.container.faults import STRICT
from tsarchive.container.opening import open_source
from tsarchive.container.ranges import RangedSource, copy_whole
from tsarchive.container.source import Source, lent
from tsarchive.errors import ArchiveError, MissingRecordError, RemoteError, UnsupportedError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.fingerprinting import fingerprint_of
from tsarchive.formats.base import Opened, OpenedArchive, tensor_facts
from tsarchive.formats.reading import Reading
from tsarchive.formats.registry import file_format, format_of, opened_source
from tsarchive.garbage import rarely_collecting
from tsarchive.operators.risks import Risk, row_of
from tsarchive.remote.opening import ranges_of, ranges_within
from tsarchive.remote.ranges import Ranges
from tsarchive.scanning.collecting import UNKNOWN, ZIP, ends_of, form_of
from tsarchive.verifying import VerifyReport, verify_source

from .alike import releases_of
from .listing import SIGNATURE, SIGNATURES, Listed, is_elsewhere, require_name, text_of
from .rows import FileRow, FindingRow, Surveyed

Columns: TypeAlias = dict[str, Any]

_HASHED_BYTES: Final = 1 << 20
# A file can name a million things, in names of any length: rows stay within bounds.
_MOST_NAMES: Final = 10_000
_LONGEST: Final = 4_000
_TOO_DEEP: Final = "the program is nested too deeply"


@dataclass(frozen=True, slots=True)
class Aspects:
    """What is asked of each file; ``weights`` goes with ``fingerprint``."""

    digest: bool = True
    fingerprint: bool = True
    weights: bool = True
    verify: bool = True
    audit: bool = True
    compat: bool = True

    @property
    def take_all(self) -> bool:
        """Whether all bytes of a file are read."""
        return self.digest or self.verify or (self.fingerprint and self.weights)


def surveyed(file: Listed, aspects: Aspects) -> Surveyed:
    """Return the rows of a file, whatever it holds, and also where it cannot be read.

    Nothing of the file runs, and torch is not imported.
    """
    found = _File(file, aspects)
    try:
        with rarely_collecting(), _at_hand(file, aspects) as source:
            found.read(source)
    except (ArchiveError, OSError) as error:
        found.fail(getattr(error, "strerror", None) or str(error))
    return found.rows()


@contextmanager
def _at_hand(file: Listed, aspects: Aspects) -> Iterator[Source]:
    """Open a file once for all verbs; one elsewhere is copied where all of it is read."""
    with ExitStack() as stack:
        source = stack.enter_context(closing(_opened(file, aspects, stack)))
        yield source
        source.require_unchanged(STRICT, contents=True)


def _opened(file: Listed, aspects: Aspects, stack: ExitStack) -> Source:
    if not is_elsewhere(file.place):
        require_name(file.place)
        return open_source(file.place)
    ranges = _ranges(file)
    if not aspects.take_all:
        return RangedSource(ranges)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tsarchive-"))
    copy = os.path.join(folder, "file")
    with closing(ranges):
        copy_whole(ranges, copy)
    return open_source(copy)


def _ranges(file: Listed) -> Ranges:
    if file.bucket is None or file.key is None:
        return ranges_of(file.place)
    return ranges_within(file.bucket, file.key, file.place)


class _File:
    """Asks the verbs about one file, and keeps what they tell as columns and findings."""

    def __init__(self, file: Listed, aspects: Aspects) -> None:
        self._row = FileRow(file.root, file.path, "read", file.nbytes, file.version)
        self._aspects = aspects
        self._findings: list[FindingRow] = []
        self._problems: dict[str, None] = {}
        self._effects: set[Risk] = set()
        self._verified: VerifyReport | None = None
        self._is_damaged = False

    def rows(self) -> Surveyed:
        row = self._row
        if self._is_damaged and row.status == "read":
            row = replace(row, status="refused")
        if (row.status, row.kind) == ("foreign", None) and row.path.endswith(SIGNATURES):
            return Surveyed(replace(row, kind=SIGNATURE))  # that it is no model is no finding
        severities = Counter(finding.severity for finding in self._findings)
        row = replace(
            row,
            problem=_text("; ".join(self._problems)),
            effects=_names(risk.value for risk in self._effects - {Risk.COMPUTE}),
            errors=severities[Severity.ERROR.value],
            warnings=severities[Severity.WARNING.value],
            notes=severities[Severity.INFO.value],
        )
        return Surveyed(row, tuple(self._findings))

    def fail(self, problem: str) -> None:
        """Note that the bytes of the file could not be had."""
        self._problems[problem] = None
        self._set(status="failed")

    def read(self, source: Source) -> None:
        """Ask about the bytes of the file. Raises OSError where they cannot be read."""
        self._set(nbytes=source.size)
        if self._aspects.digest:
            self._set(sha256=_sha256_of(source))
        if self._aspects.verify:
            with self._noting():
                self._verified = verify_source(lent(source))
                self._find("verify", self._verified.findings)
        if self._aspects.audit:
            with self._noting():
                report = audit_source(source, self._verified)
                self._find("audit", report.findings)
                self._effects |= {use.risk for use in report.operators}
        self._look_into(source)

    def _look_into(self, source: Source) -> None:
        form, own = form_of(*ends_of(source)), file_format(source)
        if form is not ZIP and own is None:
            is_model = form.is_inert
            kind = None if form is UNKNOWN else form.kind
            self._set(kind=kind, status="read" if is_model else "foreign")
            return
        if own is not None:
            self._set(kind=own.kind)
        if self._verified is not None:
            self._set(kind=self._row.kind or self._verified.kind)
            self._is_damaged = any(map(_is_damage, self._verified.findings))
        with self._noting(), closing(opened_source(lent(source))) as opened:
            self._describe(opened, source)

    def _describe(self, opened: Opened, source: Source) -> None:
        format_, archive = format_of(opened), archive_of(opened)
        self._set(kind=format_.kind, status="read" if format_.is_known else "foreign")
        with self._noting():
            self._set(**_of_records(opened))
        for columns in (_of_version, _of_tensors, self._of_needs, _of_writer):
            with self._noting():
                self._set(**columns(archive))
        is_damaged = self._is_damaged  # what follows may be impossible for sound files, too
        if self._aspects.fingerprint:
            with self._noting():
                self._set(**_digests(opened, source, weights=self._aspects.weights))
        if self._aspects.compat:
            with self._noting():
                found = releases_of(opened)
                self._set(loads_on=found.loads, runs_on=found.runs)
        self._is_damaged = is_damaged

    def _of_needs(self, archive: OpenedArchive) -> Columns:
        if not archive.view.has_modules:
            return {}
        needs = archive.needs
        self._effects |= {row_of(name).risk for name in needs.operators}
        return {
            "operators": _names(needs.operators),
            "classes": _names(needs.classes),
            "libraries": _names(re.split(r"::|\.", name)[0] for name in needs.foreign),
        }

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note what stands in the way, and go on; what files of a kind do not have does not."""
        try:
            yield
        except RemoteError:
            raise
        except UnsupportedError:
            pass
        except (ArchiveError, RecursionError) as error:
            self._problems[_TOO_DEEP if isinstance(error, RecursionError) else str(error)] = None
            self._is_damaged = True

    def _find(self, verb: Literal["verify", "audit"], findings: Iterable[Finding]) -> None:
        root, path = self._row.root, self._row.path
        self._findings += (_finding_row(root, path, verb, each) for each in findings)

    def _set(self, **columns: Any) -> None:
        self._row = replace(self._row, **columns)


def _sha256_of(source: Source) -> str:
    digest = sha256()
    for start in range(0, source.size, _HASHED_BYTES):
        source.require_unchanged(STRICT, contents=True)
        digest.update(source.piece(start, start + _HASHED_BYTES))
    return digest.hexdigest()


def _is_damage(finding: Finding) -> bool:
    is_grave = finding.nature.rank >= Nature.BROKEN.rank
    return is_grave and finding.severity is Severity.ERROR


def _finding_row(
    root: str, path: str, verb: Literal["verify", "audit"], finding: Finding
) -> FindingRow:
    return FindingRow(
        root,
        path,
        verb,
        finding.rule,
        finding.severity.value,
        finding.nature.value,
        _text(finding.message),
        None if finding.record is None else _text(finding.record),
        finding.offset,
        finding.line,
        _text(finding.hint or ""),
    )


def _of_version(archive: OpenedArchive) -> Columns:
    with suppress(MissingRecordError):
        return {"format_version": archive.format_version}
    return {}


def _of_records(opened: Opened) -> Columns:
    archive = archive_of(opened)
    records = archive.records
    table = format_of(opened).table(opened)
    code = (each.size for name, each in records.items() if table.role(name).described == "code")
    return {
        "records": len(records),
        "code_nbytes": sum(code),
        "extra_names": _names(archive.extra_files),
    }


def _of_tensors(archive: OpenedArchive) -> Columns:
    if not archive.view.has_tensors:
        return {}
    facts = tensor_facts(archive)
    return {
        "tensors": facts.count,
        "parameters": facts.parameter_elements,
        "tensor_nbytes": facts.nbytes,
        "dtypes": _names(facts.dtypes),
        "devices": _names(facts.devices),
    }


def _of_writer(archive: OpenedArchive) -> Columns:
    written = archive.written_by
    return {"torch_first": written.first, "torch_last": written.last} if written else {}


def _digests(opened: Opened, source: Source, *, weights: bool) -> Columns:
    contents = format_of(opened).contents(opened)
    found = fingerprint_of(contents, Reading(source), weights=weights)
    names = ("code", "structure", "weights", "extra_files", "model")
    return {name: getattr(found, name) or None for name in names}


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(map(_text, set(names)))[:_MOST_NAMES])


def _text(text: str) -> str:
    """Return a text as it stands in rows: of bounded length, and without what is no UTF-8."""
    shown = text_of(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
