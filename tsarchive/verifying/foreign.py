"""Zip archives of formats that are not looked into: of which format they are, or what they lack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tsarchive.container import Container
from tsarchive.findings import Finding, Nature, Severity

from .report import OTHER_KIND, Findings, Step

# Records that only TorchScript has: a file with one was to become such an archive.
_TELLING: Final = re.compile(r"code/.+\.py|constants\.pkl|bytecode\.pkl", re.DOTALL)


class ForeignCheck:
    """``may_be_torchscript`` tells that what lacks a record of TorchScript has this format."""

    code_records = 0

    def __init__(
        self,
        container: Container,
        what_it_is: str,
        what_to_do: str,
        findings: Findings,
        *,
        may_be_torchscript: bool,
    ) -> None:
        self._container = container
        self._what_it_is = what_it_is
        self._what_to_do = what_to_do
        self._findings = findings
        self._may_be_torchscript = may_be_torchscript

    def run(self, step: Step) -> None:
        """Tell what the file is, or what it lacks to be TorchScript."""
        names = self._container.records
        if self._may_be_torchscript and any(map(_TELLING.fullmatch, names)):
            self._findings.add(self._missing())
        else:
            self._findings.add([self._other_kind()])

    def _missing(self) -> Iterator[Finding]:
        for name in ("data.pkl", "constants.pkl"):
            if name not in self._container.records:
                yield Finding(
                    "record-missing",
                    Severity.ERROR,
                    Nature.BROKEN,
                    "a TorchScript archive has this record, and it is not there",
                    name,
                    hint="The archive is incomplete: download or copy it again",
                )

    def _other_kind(self) -> Finding:
        return Finding(
            OTHER_KIND,
            Severity.WARNING,
            Nature.OTHER_KIND,
            f"it is {self._what_it_is}, not a TorchScript archive: only its container was checked",
            hint=self._what_to_do,
        )
