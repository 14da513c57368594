"""Verifying: each layer of a file is looked at as far as the one before it allows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import BinaryIO

from tsarchive.archive import Archive
from tsarchive.container import Container, ContainerSurvey, survey
from tsarchive.container.faults import Collected, Stopped
from tsarchive.container.source import open_source
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.kinds import (
    LEGACY_TORCHSCRIPT,
    PT2,
    TORCH_SAVE,
    TORCHSCRIPT,
    UNKNOWN,
    executorch_kind,
    kind_of,
    what_it_is,
    what_to_do,
)

from .executorch import verify_executorch
from .legacy import LegacyCheck
from .pt2 import Pt2Check
from .records import has_incomplete_name
from .report import OTHER_KIND, Findings, Step, VerifyReport
from .torchscript import TorchScriptCheck
from .totals import known_totals

__all__ = ["STEPS", "verify"]

STEPS = ("container", "records", "pickles", "code", "tensors")
"""What ``step`` of :func:`verify` is called with, not always in this order."""

_CHECKS: dict[str, type[TorchScriptCheck | LegacyCheck | Pt2Check]] = {
    TORCHSCRIPT: TorchScriptCheck,
    LEGACY_TORCHSCRIPT: LegacyCheck,
    PT2: Pt2Check,
}

_OF_ZIPFILE = frozenset({"zip-no-root", "zip-alignment"})


def _nothing(step: str) -> None:
    """For who does not want to be told."""


def verify(f: str | os.PathLike[str] | BinaryIO, *, step: Step = _nothing) -> VerifyReport:
    """Check the integrity of an archive: its zip container, records, pickles, tensors and code.

    ``f`` is a path, or a binary file object that gives a file from its position on. Nothing of
    the file is run, nothing that it names is imported, and torch is not needed; time and memory
    grow with the size of the file. What is wrong is in the report, whatever the file holds.

    Operators are not looked up, and what code can do is not judged: :func:`tsarchive.missing`
    and ``tsarchive audit`` do so. Of PT2 archives the programs, payloads and pickled records are
    checked, of files of ExecuTorch all tables, methods and segments, of archives of ``torch.save``
    and ``torch.package`` the container alone, and the report says so.

    ``step`` is called with the name of each part before it is looked at, one of ``STEPS``.

    Raises OSError when the file cannot be read, CallError when ``f`` is no file.
    """
    step(STEPS[0])
    findings = Findings()
    faults = Collected()
    try:
        opened = open_source(f, faults)
    except Stopped:
        return VerifyReport(None, None, 0, 0, None, 0, faults.findings())
    if kind := executorch_kind(opened.data):
        return verify_executorch(opened, kind, step)
    with survey(opened) as found:
        findings.add(_of_container(found))
        if found.container is None:
            return VerifyReport(None, None, 0, 0, None, 0, findings.ordered())
        findings.excuse(found.in_doubt | _without_checksum(found.container))
        return _verified(found.container, found.in_doubt | findings.damaged(), findings, step)


def _without_checksum(container: Container) -> frozenset[str]:
    """The records whose damage nothing would show."""
    return frozenset(name for name, record in container.records.items() if record.crc is None)


def _of_container(found: ContainerSurvey) -> Iterator[Finding]:
    """Findings but for what torch wrote itself, up to version 2.7 with Python's zipfile."""
    container = found.container
    is_old = container is not None and not container.root and kind_of(container.records) == PT2
    return (f for f in found.findings if not (is_old and f.rule in _OF_ZIPFILE))


def _verified(
    container: Container, damaged: Collection[str], findings: Findings, step: Step
) -> VerifyReport:
    kind = kind_of(container.records)
    code_records = 0
    if kind in _CHECKS:
        check = _CHECKS[kind](container, findings, damaged)
        try:
            check.run(step)
        except RecursionError:
            findings.add([_too_deep()])
        code_records = check.code_records
    else:
        findings.add(_other_kind(container, kind))
    with container.buffer() as buffer:
        size = buffer.nbytes
    return VerifyReport(
        kind,
        _format_version(container),
        size,
        len(container.records),
        known_totals(Archive(container)),
        code_records,
        findings.ordered(),
    )


def _other_kind(container: Container, kind: str) -> Iterator[Finding]:
    """It is no TorchScript archive: say what it is, or what it lacks to be one."""
    if kind in (UNKNOWN, TORCH_SAVE) and has_incomplete_name(container):
        lacking = [name for name in ("data.pkl", "constants.pkl") if name not in container.records]
        for name in lacking:
            yield Finding(
                "record-missing",
                Severity.ERROR,
                Nature.BROKEN,
                "a TorchScript archive has this record, and it is not there",
                name,
                hint="The archive is incomplete: download or copy it again",
            )
        return
    yield Finding(
        OTHER_KIND,
        Severity.WARNING,
        Nature.OTHER_KIND,
        f"it is {what_it_is(kind)}, not a TorchScript archive: only its container was checked",
        hint=what_to_do(kind),
    )


def _too_deep() -> Finding:
    return Finding(
        "record-depth",
        Severity.ERROR,
        Nature.HOSTILE,
        "what it holds is nested too deeply: not all of it was looked at",
        hint="Python's recursion limit, which sys.setrecursionlimit raises, bounds the depth",
    )


def _format_version(container: Container) -> int | None:
    try:
        return Archive(container).format_version
    except ArchiveError:
        return None
