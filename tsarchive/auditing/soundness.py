"""The worst of what verifying a file finds, as a finding of its audit."""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO, Final

from tsarchive.findings import Nature, Severity
from tsarchive.formats.verification import OTHER_KIND
from tsarchive.scanning.collecting import Collected
from tsarchive.verifying import verify

_UNUSUAL: Final = {Nature.UNUSUAL: Severity.WARNING}
_VERIFY: Final = "'tsarchive verify' lists all that is wrong with the file"


def add_soundness(source: str | BinaryIO, found: Collected) -> None:
    """The worst of what verifying finds: a file that is no sound archive is not known to be
    harmless, whatever its code can do."""
    findings = [f for f in verify(from_start(source)).findings if f.rule != OTHER_KIND]
    grave = [finding for finding in findings if finding.severity > Severity.INFO]
    if not grave:
        return
    # What is unusual keeps the file from being loaded, and harms nobody.
    severities = {f: min(f.severity, _UNUSUAL.get(f.nature, Severity.ERROR)) for f in grave}
    worst = max(grave, key=lambda f: (severities[f], f.nature.rank))
    others = f" ({len(grave) - 1} more)" if len(grave) > 1 else ""
    message, severity = worst.message + others, severities[worst]
    found.findings.add([replace(worst, message=message, severity=severity, hint=_VERIFY)])


def from_start(source: str | BinaryIO) -> str | BinaryIO:
    """The source; the container in a file object is what follows its position."""
    if not isinstance(source, str):
        source.seek(0)
    return source
