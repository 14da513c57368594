"""The first screen of a page: what a file is, who wrote it, whether it is safe, runs, its size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tsarchive.describing.contents import fact_lines
from tsarchive.describing.text import size
from tsarchive.errors import ArchiveError
from tsarchive.findings import Severity
from tsarchive.formats.compatibility import Row
from tsarchive.formats.registry import format_named, title_of
from tsarchive.operators.registry import installed_torch, minor

from .html import Html, Subject, joined, tag

# The facts that tell most, of which those that a kind of file has are shown.
_WHAT = ("main class", "model", "methods", "signature", "method")
_WHO = ("written by", "exported by")
_HOW_BIG = ("parameters", "tensors")
_UNKNOWN = "not recorded"


def at_a_glance(subject: Subject) -> Html:
    """Return answers to the five questions that come first; what was not looked at is left out."""
    return tag("dl", *_answers(subject), class_="glance")


def _answers(subject: Subject) -> Iterator[Html]:
    facts = _facts(subject)
    what, who, how_big = ([facts[label] for label in labels if label in facts]
                          for labels in (_WHAT, _WHO, _HOW_BIG))  # fmt: skip
    yield _answer("What it is", title_of(subject.kind or "unknown"), *what[:2])
    yield _answer("Who wrote it", *(who[:1] or [_UNKNOWN]))
    if subject.verified is not None:
        yield _safety(subject)
    if subject.compatibility is not None and subject.compatibility.rows:
        yield _running(subject.compatibility.rows[0])
    yield _answer("How big it is", size(subject.nbytes), *how_big)


def _answer(question: str, *answers: str, style: str | None = None) -> Html:
    shown = joined(tag("dd", answer) for answer in answers)
    return tag("div", tag("dt", question), shown, class_=style)


def _facts(subject: Subject) -> dict[str, str]:
    """Return the first line of each fact of a file by its label."""
    if subject.archive is None:
        return {}
    format_ = format_named(subject.archive.kind)
    with suppress(ArchiveError, RecursionError):
        lines = fact_lines(format_.describe(subject.archive, subject.name, subject.nbytes))
        return {label: value for label, value in reversed([*lines]) if label}
    return {}


def _safety(subject: Subject) -> Html:
    assert subject.verified is not None
    worst = max((finding.severity for finding in subject.findings), key=lambda s: s.rank,
                default=Severity.INFO)  # fmt: skip
    style = {Severity.ERROR: "bad", Severity.WARNING: "warning"}.get(worst, "good")
    worse = [f for f in subject.findings if f.severity is not Severity.INFO]
    told = worse[0].message if worse else "Nothing was found that it can do beyond computing."
    verdict = f"The file is {subject.verified.verdict}."
    return _answer("Is it safe", verdict, told, style=style)


def _running(row: Row) -> Html:
    here = minor(installed_torch() or "") == row.torch
    torch = f"torch {row.torch}{', which is installed,' if here else ''}"
    if row.loads and row.runs:
        return _answer("Does it run here", f"{torch} loads and runs it.", style="good")
    what = "loads it; not all of its code runs" if row.loads else "does not load it"
    why = [row.reasons[0].text] if row.reasons else []
    return _answer("Does it run here", f"{torch} {what}.", *why, style="warning")
