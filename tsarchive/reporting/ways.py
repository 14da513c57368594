"""The section about the ways out of the format of a file, of a plan that was made before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tsarchive.describing.text import duration, plural, size
from tsarchive.leaving.plan import LeavingPlan, WayOut

from .html import Html, Section, Subject, joined, tag

_STYLES: Final = {"untried": "badge warning"}


def ways(subject: Subject) -> Section | None:
    """Make the section; None without a plan."""
    plan = subject.plan
    if plan is None:
        return None
    body = joined((tag("p", _told(plan)), *map(_way, plan.ways)))
    return Section("ways", "Ways out", body, len(plan.ways), len(plan.ways))


def _told(plan: LeavingPlan) -> str:
    working = sum(way.works for way in plan.ways)
    inputs = f" Results were compared for {', '.join(plan.arguments)}." if plan.arguments else ""
    return f"{working} of {plural(len(plan.ways), 'way')} out of this format work.{inputs}"


def _way(way: WayOut) -> Html:
    style = _STYLES.get(way.outcome, f"badge {'good' if way.works else 'bad'}")
    heading = tag("h3", way.title, " ", tag("b", way.outcome, class_=style))
    facts = (joined((tag("dt", label), tag("dd", value))) for label, value in _facts(way))
    return joined((heading, tag("dl", *facts, class_="facts")))


def _facts(way: WayOut) -> Iterator[tuple[str, str | Html]]:
    yield "result", way.summary
    if way.origin is not None:
        yield "at", tag("code", way.origin)
    if way.hint is not None:
        yield "hint", way.hint
    if not way.works:
        return
    made = "" if way.nbytes is None else f"{size(way.nbytes)}, "
    yield "costs", f"{made}{duration(way.seconds or 0.0)} to make; needs {way.needs}"
    yield "keeps", "; ".join(way.keeps)
    if way.loses:
        yield "loses", "; ".join(way.loses)
    yield "command", tag("code", way.command)
