"""Verifying: each layer of a file is looked at as far as the one before it allows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO

from tsarchive.archive import Archive
from tsarchive.container import Container, ContainerSurvey, survey
from tsarchive.container.extent import Extent
from tsarchive.container.faults import Collected, Stopped
from tsarchive.container.members import DAMAGED
from tsarchive.container.opening import open_source
from tsarchive.container.source import Source
from tsarchive.errors import AGAIN, ArchiveError
from tsarchive.findings import Finding, Findings, Nature, Severity, broken
from tsarchive.formats.base import FileFormat, known_totals
from tsarchive.formats.registry import damage_of, file_format, get_ahead, weights_of, zip_format
from tsarchive.formats.requests import Verdict, VerifyReport
from tsarchive.garbage import rarely_collecting
from tsarchive.steps import Step, no_step, under

__all__ = ["STEPS", "Verdict", "VerifyReport", "verify"]

STEPS = ("container", "records", "pickles", "code", "tensors")
"""The arguments of ``step`` of :func:`verify`, not always in this order."""

_OF_ZIPFILE = frozenset({"zip-no-root", "zip-alignment"})


@rarely_collecting()
def verify(f: str | os.PathLike[str] | BinaryIO, *, step: Step | None = None) -> VerifyReport:
    """Check the integrity of an archive: its zip container, records, pickles, tensors and code.

    ``f`` is a path, or a binary file object that gives a file from its position on. Nothing of
    the file is run, nothing that it names is imported, and torch is not needed; time and memory
    grow with the size of the file. What is wrong is in the report, whatever the file holds.

    Operators are not looked up, and what code can do is not judged: :func:`tsarchive.missing`
    and ``tsarchive audit`` do so. Of PT2 archives the programs, payloads and pickled records are
    checked, of files of ExecuTorch all tables, methods and segments, of archives of ``torch.save``
    and ``torch.package`` the container alone, and the report says so.

    ``step`` is called with the name of each part before it is looked at, one of ``STEPS``, and with
    ``container: NAME`` when a record has been read.

    All of a file is read; of one elsewhere, in few large ranges, one after another.

    Raises OSError when the file cannot be read, CallError when ``f`` is no file.

        >>> tsarchive.verify("net.pt").ok, tsarchive.verify("half.pt").ok
        (True, False)
    """
    step = step or no_step
    step(STEPS[0])
    faults = Collected()
    try:
        opened = open_source(f, faults)
    except Stopped:
        return VerifyReport(None, None, 0, 0, None, 0, faults.findings())
    opened.expect_all()
    return verify_source(opened, step)


def verify_source(opened: Source, step: Step = no_step) -> VerifyReport:
    """Check the bytes of a file, which are let go of.

    Where the source is sparing, checksums and headers of weights are left unread.
    """
    findings = Findings()
    get_ahead(opened)
    own = file_format(opened)
    if own is not None:
        extent = _told_extent(opened, own)  # before it is let go of
        return _with_extent(own.verify(opened, step), extent)
    damage = damage_of(opened)
    if damage is not None:
        size = opened.size
        opened.close()
        findings.add([broken(damage.rule, damage.message, None, damage.hint, damage.offset)])
        report = VerifyReport(None, None, size, 0, None, 0, findings.ordered())
        return _with_extent(report, damage.extent)
    with survey(opened, weights_of, under(STEPS[0], step)) as found:
        findings.add(_of_container(found))
        if found.container is None:
            return VerifyReport(None, None, 0, 0, None, 0, findings.ordered())
        records = found.container.records
        without_checksum = {name for name, record in records.items() if record.crc is None}
        findings.excuse(found.in_doubt | without_checksum)
        return _verified(found.container, found.in_doubt | findings.damaged(), findings, step)


def _with_extent(report: VerifyReport, extent: Extent | None) -> VerifyReport:
    if extent is None:
        return report
    return replace(report, expected_nbytes=extent.total, is_least=not extent.is_exact)


def _told_extent(opened: Source, own: FileFormat) -> Extent | None:
    """Return how much there is of a file whose head tells of more."""
    present = opened.size
    with suppress(ArchiveError):
        told = own.told_size(opened)
        return Extent(present, told, is_exact=False) if told > present else None
    return None


def _of_container(found: ContainerSurvey) -> Iterator[Finding]:
    """Return the findings but for what torch itself wrote, up to 2.7 with Python's zipfile."""
    container = found.container
    by_zipfile = (
        container is not None
        and not container.root
        and zip_format(container.records).was_written_by_zipfile
    )
    for finding in found.findings:
        if not (by_zipfile and finding.rule in _OF_ZIPFILE):
            # Verifying is what the other hint advises.
            yield replace(finding, hint=AGAIN) if finding.hint == DAMAGED else finding


def _verified(
    container: Container, damaged: Collection[str], findings: Findings, step: Step
) -> VerifyReport:
    found = zip_format(container.records)
    check = found.check(container, findings, damaged)
    try:
        check.run(step)
    except RecursionError:
        message = "what it holds is nested too deeply: not all of it was looked at"
        hint = "Python's recursion limit, which sys.setrecursionlimit raises, bounds the depth"
        findings.add([Finding("record-depth", Severity.ERROR, Nature.HOSTILE, message, hint=hint)])
    archive = Archive(container, found)
    version = None
    with suppress(ArchiveError):
        version = archive.format_version
    return VerifyReport(
        found.kind,
        version,
        container.nbytes,
        len(container.records),
        known_totals(archive),
        check.code_records,
        findings.ordered(),
    )
