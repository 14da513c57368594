"""The collection of everything that an audit finds in a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from tsarchive.describing.contents import TensorTotals
from tsarchive.describing.facts import GroupFacts
from tsarchive.findings import Finding, Findings, Nature, Severity

from .contents import native_format
from .pickle_names import Budgets
from .pickle_streams import begins_pickle, pickles_in
from .pickles import PickleAudit, Surroundings, audit_pickles
from .report import AuditReport, EntryPoint, OperatorUse, Payload, PickledName

_PICKLE_NAMES: Final = (".pkl", ".pickle", "_pkl", ".p")


@dataclass
class Collected:
    """``prefix`` stands before the names of records: that of the archive they are in."""

    budgets: Budgets
    prefix: str = ""
    findings: Findings = field(default_factory=Findings)
    operators: list[OperatorUse] = field(default_factory=list)
    entry_points: list[EntryPoint] = field(default_factory=list)
    pickled_names: list[PickledName] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    payloads: list[Payload] = field(default_factory=list)
    groups: dict[str, GroupFacts] = field(default_factory=dict)
    tensors: TensorTotals | None = None

    def name(self, record: str | None) -> str | None:
        """Return the name of a record with that of the archive it is in."""
        return self.prefix.removesuffix("/") or None if record is None else self.prefix + record

    def find(
        self,
        rule: str,
        severity: Severity,
        nature: Nature,
        message: str,
        record: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Add a finding about a record, or about the whole."""
        self.findings.add([Finding(rule, severity, nature, message, record, hint=hint)])

    def count(self, group: str, size: int, stored_size: int) -> None:
        """Count a record."""
        self.groups.setdefault(group, GroupFacts()).add(size, stored_size)

    def look_at(
        self,
        data: bytes,
        record: str | None,
        around: Surroundings,
        *,
        is_unpickled: bool = False,
        starts: Iterable[int] = (),
    ) -> PickleAudit:
        """Look for pickles and for programs in bytes of any kind. ``is_unpickled`` tells of bytes
        that a reader takes for a pickle, however they begin; ``starts`` are where else readers
        begin than at the first byte."""
        named = begins_pickle(data) if record is None else record.endswith(_PICKLE_NAMES)
        named = named or is_unpickled
        streams = pickles_in(data, self.budgets, is_named_pickle=named, starts=starts)
        audit = audit_pickles(streams, record, around)
        self.findings.add(audit.findings)
        self.pickled_names += audit.names
        found = native_format(record or "", data)
        if found is not None:
            self.payloads.append(Payload(record, found, len(data)))
        return audit

    def take(self, inner: Collected) -> None:
        """Take over what was found in an archive inside of this one."""
        self.findings.add(replace(f, record=inner.name(f.record)) for f in inner.findings)
        self.operators += inner.operators
        self.entry_points += inner.entry_points
        names = (replace(n, record=inner.name(n.record)) for n in inner.pickled_names)
        self.pickled_names += names
        self.payloads += [replace(p, record=inner.name(p.record)) for p in inner.payloads]
        self.classes |= inner.classes

    def report(self, kind: str, size: int) -> AuditReport:
        """Return the report; the worst findings first, otherwise in the order they were made."""
        findings = sorted(self.findings, key=attrgetter("severity"), reverse=True)
        return AuditReport(
            kind, size, tuple(findings), tuple(self.operators),
            tuple(self.entry_points), tuple(self.pickled_names), tuple(sorted(self.classes)),
            tuple(self.payloads), self.groups, self.tensors,
        )  # fmt: skip
