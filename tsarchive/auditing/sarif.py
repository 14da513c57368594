"""Reports in SARIF 2.1.0, the form in which code scanners hand over their results."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote

from tsarchive.auditing.rules import describe_rule
from tsarchive.findings import Finding, Severity
from tsarchive.scanning.report import AuditReport

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS: Final = {Severity.INFO: "note", Severity.WARNING: "warning", Severity.ERROR: "error"}


def sarif_document(file: str, report: AuditReport, version: str) -> dict[str, Any]:
    """One run of the tool over one file.

    The artifact is the file; records and functions inside of it are logical locations, and the
    region is the line in the record where there is one, else the offset in bytes.
    """
    rules = sorted({finding.rule for finding in report.findings})
    driver = {
        "name": "tsarchive",
        "semanticVersion": version,
        "informationUri": "https://pypi.org/project/tsarchive/",
        "rules": [_rule(rule) for rule in rules],
    }
    results = [_result(file, finding, rules) for finding in report.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str) -> dict[str, Any]:
    return {"id": rule, "shortDescription": {"text": describe_rule(rule)}}


def _result(file: str, finding: Finding, rules: list[str]) -> dict[str, Any]:
    text = finding.message if finding.hint is None else f"{finding.message}. {finding.hint}"
    return {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(file, finding)],
        "properties": {"nature": finding.nature.value},
    }


def _location(file: str, finding: Finding) -> dict[str, Any]:
    uri = quote(os.fsencode(PurePath(file).as_posix()))
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    region = _region(finding)
    if region:
        physical["region"] = region
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.record is not None:
        record = {"fullyQualifiedName": finding.record, "kind": "resource"}
        location["logicalLocations"] = [record]
    return location


def _region(finding: Finding) -> dict[str, int]:
    if finding.line is not None:
        return {"startLine": finding.line}
    return {} if finding.offset is None else {"byteOffset": finding.offset, "byteLength": 0}
