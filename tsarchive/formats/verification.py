"""The report of a verification: its findings, and one word for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from tsarchive.describing.contents import TensorTotals
from tsarchive.findings import Finding, is_fine

Step = Callable[[str], None]

Verdict = Literal["sound", "unusual", "another kind", "broken", "inconsistent", "hostile"]

# The rule of a finding that says: this is an archive of another kind.
OTHER_KIND = "file-kind"
# Rules that tell of parts which archives have as a matter of course.
_NOTES = frozenset({"record-extra", "record-inputs", "record-no-debug"})


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The extent and the findings of a verification.

    ``kind`` is that of :attr:`tsarchive.Archive.kind`, None where the file is no zip archive that
    can be opened; ``format_version`` is None where none can be read. ``bytes`` is the size of
    the file, 0 where it is not known. ``records`` and ``code_records`` count what was checked,
    ``tensors`` what :attr:`tsarchive.Archive.tensors` lists, and is None where it lists none:
    for archives of other kinds, and those that are too broken. ``findings`` stand in the order
    of severity, worst first, then of their place.
    """

    kind: str | None
    format_version: int | None
    bytes: int
    records: int
    tensors: TensorTotals | None
    code_records: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Return whether no finding is above ``Severity.INFO``."""
        return is_fine(self.findings)

    @property
    def verdict(self) -> Verdict:
        """The gravest nature among the findings, in a word; notes are left aside.

        ``hostile``: only intent explains it; ``inconsistent``: it contradicts itself, so it is
        damaged or forged; ``broken``: an accident explains it; ``another kind``: a file of another
        kind, nothing wrong with it; ``unusual``: no writer of archives does so, and it does no
        harm; ``sound``: nothing but notes.
        """
        natures = [finding.nature for finding in self.findings if finding.rule not in _NOTES]
        if not natures:
            return "sound"
        return cast(Verdict, max(natures, key=lambda nature: nature.rank).value)
