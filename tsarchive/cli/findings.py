"""Findings on the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tsarchive import Finding

__all__ = ["STYLES", "finding_document"]

STYLES: Final = {"info": "cyan", "warning": "yellow", "error": "bold red"}
"""The colour of each severity."""


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding as JSON; parts that it does not have are null."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "nature": finding.nature.value,
        "message": finding.message,
        "record": finding.record,
        "offset": finding.offset,
        "line": finding.line,
        "hint": finding.hint,
    }
