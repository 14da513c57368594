"""Findings of the three natures, in as few words as the checks need."""

from __future__ import annotations

from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Nature, Severity, fault


def broken(rule: str, message: str, record: str, hint: str | None = None) -> Finding:
    """Nothing can be done with the part that the rule is about."""
    return Finding(rule, Severity.ERROR, Nature.BROKEN, message, record, hint=hint)


def hostile(rule: str, message: str, record: str, hint: str | None = None) -> Finding:
    """Only intent explains it."""
    return Finding(rule, Severity.ERROR, Nature.HOSTILE, message, record, hint=hint)


def unusual(rule: str, message: str, record: str, hint: str | None = None) -> Finding:
    """No exporter writes it, and it does no harm."""
    return Finding(rule, Severity.WARNING, Nature.UNUSUAL, message, record, hint=hint)


def note(rule: str, message: str, record: str) -> Finding:
    """Worth knowing alone."""
    return Finding(rule, Severity.INFO, Nature.UNUSUAL, message, record)


def refused(error: ArchiveError, rule: str, record: str) -> Finding:
    """What a reader refuses; a limit is reached by intent alone."""
    return fault(error, rule, Nature.BROKEN if error.limit is None else Nature.HOSTILE, record)
