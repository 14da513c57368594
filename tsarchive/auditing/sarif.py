"""Reports in SARIF 2.1.0, the form in which code scanners report, and the rules of an audit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final, Protocol
from urllib.parse import quote

from tsarchive.findings import Finding, Severity
from tsarchive.operators.risks import Risk
from tsarchive.scanning.report import AuditReport, operator_rule

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_IN_URLS: Final = "/:@!$&'()*+,;=%"
_LEVELS: Final = {Severity.INFO: "note", Severity.WARNING: "warning", Severity.ERROR: "error"}


def sarif_document(file: str, report: AuditReport, version: str) -> dict[str, Any]:
    """Describe one run of the tool over one file.

    The artifact is the file; records and functions inside of it are logical locations, and the
    region is the line in the record where there is one, else the offset in bytes.
    """
    rules = sorted({finding.rule for finding in report.findings})
    described = {rule: RULES.get(rule, _OF_VERIFY.format(rule)) for rule in rules}
    results = (
        sarif_result(
            rules.index(finding.rule),
            finding,
            _location(file, finding),
            nature=finding.nature.value,
        )
        for finding in report.findings
    )
    return sarif_log(described, results, version)


def sarif_log(
    rules: Mapping[str, str], results: Iterable[Mapping[str, Any]], version: str
) -> dict[str, Any]:
    """Describe one run of the tool; ``rules`` describes each rule by its name."""
    driver = {
        "name": "tsarchive",
        "semanticVersion": version,
        "informationUri": "https://pypi.org/project/tsarchive/",
        "rules": [{"id": rule, "shortDescription": {"text": text}} for rule, text in rules.items()],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*results]}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


class Told(Protocol):
    """What a scanner tells of a file by one of its rules."""

    @property
    def rule(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def message(self) -> str: ...
    @property
    def hint(self) -> str | None: ...


def sarif_result(
    rule_index: int, told: Told, location: Mapping[str, Any], **properties: str
) -> dict[str, Any]:
    """Describe a result; ``rule_index`` is the place of its rule in the log."""
    text = told.message if told.hint is None else f"{told.message}. {told.hint}"
    return {
        "ruleId": told.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[told.severity],
        "message": {"text": text},
        "locations": [location],
        "properties": properties,
    }


def sarif_place(file: str) -> dict[str, Any]:
    """Describe the place of a whole file, a path or a URL."""
    is_url = "://" in file
    uri = quote(file, _IN_URLS) if is_url else quote(os.fsencode(PurePath(file).as_posix()))
    return {"artifactLocation": {"uri": uri}}


def _location(file: str, finding: Finding) -> dict[str, Any]:
    physical = sarif_place(file)
    if finding.line is not None:
        physical["region"] = {"startLine": finding.line}
    elif finding.offset is not None:
        physical["region"] = {"byteOffset": finding.offset, "byteLength": 0}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.record is not None:
        record = {"fullyQualifiedName": finding.record, "kind": "resource"}
        location["logicalLocations"] = [record]
    return location


RULES: Final = {
    **{operator_rule(risk): f"The code names an operator of the class '{risk.value}'."
       for risk in Risk if risk is not Risk.COMPUTE},
    "code-native-class": "The code or a pickle names a class that is bound from C++.",
    "code-unknown-name": "Code uses a name that is neither of the archive nor of TorchScript.",
    "code-unreadable": "Code does not parse, so that what it can do is unknown.",
    "pickle-name": "A pickle names a global that is not known to be harmless.",
    "pickle-call": "A pickle calls a global that is not known to be harmless.",
    "pickle-make": "A pickle makes an object of a class that is not known to be harmless.",
    "pickle-change": "A pickle changes a global: attributes or items of it.",
    "pickle-computed-call": "A pickle calls what another call gave it.",
    "pickle-extension": "A pickle names a global by a number of the process's own registry.",
    "pickle-hidden": "A pickle is hidden behind other data, or spelled in text.",
    "pickle-broken": "A pickle breaks off; what stands before the break would run.",
    "pickle-unfinished": "A pickle is too long, or has too many beginnings, to look at all of it.",
    "record-unknown": "A record does not belong to the format of the archive.",
    "record-unread": "A record, or a file, could not be looked into as a whole.",
    "record-native": "There is native code or another program in the file.",
    "record-nested": "Archives are nested more deeply than is looked into.",
    "code-expression": "A size is text that is no arithmetic, which torch evaluates at load.",
    "code-guard": "A condition is text that is no arithmetic, which torch runs at a call.",
    "program-target": "An exported program calls something that is no operator.",
    "program-delegate": "A program hands bytes to a backend of the machine it runs on.",
    "program-data": "A program reads tensors from another file.",
    "program-paths": "A program tells paths of the machine that it was exported on.",
    "program-import": "A reader imports a module that the file names.",
    "record-unpickled": "torch unpickles a record that names what is not known to be harmless.",
    "record-use-pickle": "A record tells the reader to unpickle another.",
    "record-python": "There is Python source that runs when the archive is opened.",
    "file-hidden": "There is another file in the file, which other readers find.",
    "file-kind": "The file is of a kind that is not looked into.",
}  # fmt: skip

# Rules of ``tsarchive verify`` keep their names.
_OF_VERIFY: Final = "The file is not sound: 'tsarchive verify' finds {}."
