"""TorchScript archives without torch.jit: save, load, run, look inside, compare.

Importing this package does not import torch; the functions that need it do.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

# Before anything is imported that an older Python cannot read.
if sys.version_info < (3, 10):  # noqa: UP036
    raise ImportError(
        f"tsarchive needs Python 3.10 or later; this is Python {sys.version.split()[0]}"
    )

from tsarchive.errors import (
    ArchiveError,
    CallError,
    FormatError,
    LimitError,
    MissingRecordError,
    PickleError,
    PolicyError,
    RemoteError,
    SaveError,
    ScriptError,
    SourceError,
    TargetError,
    TorchVersionError,
    UnknownClassError,
    UnknownOperatorError,
    UnsupportedError,
)

from .lazy_members import lazy_member

if TYPE_CHECKING:
    from tsarchive.archive import Archive
    from tsarchive.auditing import AuditReport, audit
    from tsarchive.comparing import (
        GraphReport,
        JitterReport,
        ReadComparison,
        RecordDifference,
        SaveComparison,
        Unprinted,
    )
    from tsarchive.compatibility import CompatReport, compat
    from tsarchive.container.traffic import RemoteLimits, Traffic
    from tsarchive.converting import Conversion, convert, to_exported_program
    from tsarchive.decompiler import DecompileReport, WrittenFile, decompile
    from tsarchive.decompiler.checking import CodeCheck, MethodCheck
    from tsarchive.describing.contents import ModuleInfo, Needs, TensorInfo, TensorTotals
    from tsarchive.describing.written import WrittenBy
    from tsarchive.diffing import Change, DiffReport, diff
    from tsarchive.findings import Finding, Nature, Severity
    from tsarchive.fingerprinting import Fingerprint, fingerprint
    from tsarchive.formats.requests import Note
    from tsarchive.jitter import check_jitter
    from tsarchive.leaving import LeavingPlan, WayOut
    from tsarchive.leaving.trying import leave
    from tsarchive.loading import load
    from tsarchive.optimizing import OptimizeReport, optimize, optimize_report
    from tsarchive.policy import Limits, Policy
    from tsarchive.reporting import Page, SectionSize, report
    from tsarchive.salvaging import LostTensor, SalvageReport, SavedTensor, salvage
    from tsarchive.saving import save
    from tsarchive.stubs import stub
    from tsarchive.surveying.dataset import Dataset
    from tsarchive.surveying.gate import GateReport
    from tsarchive.surveying.results import Survey
    from tsarchive.surveying.rows import FileRow, FindingRow
    from tsarchive.surveying.rules import Gate
    from tsarchive.surveying.summary import Summary
    from tsarchive.surveying.surveys import survey
    from tsarchive.verifying import VerifyReport, verify

    from .archive import Missing, missing, open

__version__ = "1.0.0rc1"

__all__ = [
    "Archive",
    "ArchiveError",
    "AuditReport",
    "CallError",
    "Change",
    "CodeCheck",
    "CompatReport",
    "Conversion",
    "Dataset",
    "DecompileReport",
    "DiffReport",
    "FileRow",
    "Finding",
    "FindingRow",
    "Fingerprint",
    "FormatError",
    "Gate",
    "GateReport",
    "GraphReport",
    "JitterReport",
    "LeavingPlan",
    "LimitError",
    "Limits",
    "LostTensor",
    "MethodCheck",
    "Missing",
    "MissingRecordError",
    "ModuleInfo",
    "Nature",
    "Needs",
    "Note",
    "OptimizeReport",
    "Page",
    "PickleError",
    "Policy",
    "PolicyError",
    "ReadComparison",
    "RecordDifference",
    "RemoteError",
    "RemoteLimits",
    "SalvageReport",
    "SaveComparison",
    "SaveError",
    "SavedTensor",
    "ScriptError",
    "SectionSize",
    "Severity",
    "SourceError",
    "Summary",
    "Survey",
    "TargetError",
    "TensorInfo",
    "TensorTotals",
    "TorchVersionError",
    "Traffic",
    "UnknownClassError",
    "UnknownOperatorError",
    "Unprinted",
    "UnsupportedError",
    "VerifyReport",
    "WayOut",
    "WrittenBy",
    "WrittenFile",
    "audit",
    "check_jitter",
    "compat",
    "convert",
    "decompile",
    "diff",
    "fingerprint",
    "leave",
    "load",
    "missing",
    "open",
    "optimize",
    "optimize_report",
    "report",
    "salvage",
    "save",
    "stub",
    "survey",
    "to_exported_program",
    "verify",
]

_HOMES = {
    name: f"tsarchive.{module}"
    for module, names in {
        "archive": "Archive Missing missing open",
        "auditing": "AuditReport audit",
        "comparing": (
            "GraphReport JitterReport ReadComparison RecordDifference SaveComparison Unprinted"
        ),
        "compatibility": "CompatReport compat",
        "container.traffic": "RemoteLimits Traffic",
        "converting": "Conversion convert to_exported_program",
        "decompiler": "DecompileReport WrittenFile decompile",
        "decompiler.checking": "CodeCheck MethodCheck",
        "describing.contents": "ModuleInfo Needs TensorInfo TensorTotals",
        "describing.written": "WrittenBy",
        "diffing": "Change DiffReport diff",
        "findings": "Finding Nature Severity",
        "fingerprinting": "Fingerprint fingerprint",
        "formats.requests": "Note",
        "jitter": "check_jitter",
        "leaving": "LeavingPlan WayOut",
        "leaving.trying": "leave",
        "loading": "load",
        "optimizing": "OptimizeReport optimize optimize_report",
        "policy": "Limits Policy",
        "reporting": "Page SectionSize report",
        "salvaging": "LostTensor SalvageReport SavedTensor salvage",
        "saving": "save",
        "stubs": "stub",
        "surveying.dataset": "Dataset",
        "surveying.gate": "GateReport",
        "surveying.results": "Survey",
        "surveying.rows": "FileRow FindingRow",
        "surveying.rules": "Gate",
        "surveying.summary": "Summary",
        "surveying.surveys": "survey",
        "verifying": "VerifyReport verify",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    return lazy_member(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return __all__
