"""The ways out of a format: what was tried, what came out, and the command for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from tsarchive.describing.text import plural
from tsarchive.reports import Report

Outcome = Literal["equal", "close", "differs", "written", "fails", "untried"]
"""``equal``: results are the same numbers; ``close``: within the tolerance; ``differs``: they are
not; ``written``: there were no results to compare; ``fails``: it cannot be made, or what was made
cannot be run; ``untried``: something is missing here, which ``hint`` names."""
InputsOrigin = Literal["given", "stored", "drawn", "needless", "none"]
"""Where the arguments of the compared call come from: the caller; the file; random tensors of the
shapes that the file has; ``forward`` needs none; none are known."""

CALL: Final = "INPUTS"
"""Stands in commands for the arguments of the call, where they are values of Python."""

SCHEMA: Final = "tsarchive.leaving-plan"
VERSION: Final = 1
"""Of the JSON document: it changes where older readers would misread it."""

_WORKS = frozenset({"equal", "close", "written"})


@dataclass(frozen=True, slots=True)
class WayOut:
    """One way out, and what became of it for a file.

    ``keeps`` and ``loses`` tell what the result has of the file and what it has not. ``seconds`` is
    the time that making it took, ``nbytes`` the size of what was made, None where nothing was.
    ``max_difference`` is the maximum over all elements of the results, None where none were
    compared. ``problem`` tells why it does not work, with ``origin``, the line of the user's source
    where the error has it apart; ``hint`` what to do. ``needs`` is what has to be installed to run
    the result. In ``command``, ``INPUTS`` stands for arguments that were given as values.

        >>> [way] = tsarchive.leave("net.pt", args=(x,), only=["safetensors"]).ways
        >>> way.name, way.outcome
        ('safetensors', ...)
    """

    name: str
    title: str
    command: str
    needs: str
    keeps: tuple[str, ...]
    loses: tuple[str, ...]
    outcome: Outcome
    seconds: float | None = None
    nbytes: int | None = None
    max_difference: float | None = None
    problem: str | None = None
    origin: str | None = None
    hint: str | None = None

    @property
    def works(self) -> bool:
        """Return whether the result was made, and is not known to differ."""
        return self.outcome in _WORKS

    @property
    def summary(self) -> str:
        """What became of it, in a few words."""
        match self.outcome:
            case "equal":
                return "works: equal results"
            case "close":
                return f"works: results are up to {self.max_difference:.3g} apart"
            case "written":
                return "works; nothing was compared"
            case "untried":
                return f"not tried: {self.problem}"
            case "differs":
                return f"gives other results: {self.problem}"
        return f"does not work: {self.problem}"


@dataclass(frozen=True, slots=True, repr=False)
class LeavingPlan(Report):
    """The ways out of the format of a file, those that keep most first.

    ``kind`` is that of :attr:`tsarchive.Archive.kind`; ``inputs`` tells where the arguments of the
    compared call come from, and ``arguments`` shows them.

        >>> plan = tsarchive.leave("net.pt", args=(x,), only=["safetensors"])
        >>> plan.kind, [way.name for way in plan.ways]
        ('torchscript', ['safetensors'])
    """

    _COLUMNS = "way", "outcome", "command"

    file: str
    kind: str
    inputs: InputsOrigin
    arguments: tuple[str, ...]
    ways: tuple[WayOut, ...]

    @property
    def ok(self) -> bool:
        """Return whether any way works."""
        return any(way.works for way in self.ways)

    def document(self) -> dict[str, Any]:
        """Return the plan as a JSON document."""
        return {"schema": SCHEMA, "version": VERSION, **asdict(self)}

    def _headline(self) -> str:
        working = sum(way.works for way in self.ways)
        return f"{self.file}: {working} of {plural(len(self.ways), 'way')} out"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [(way.name, way.summary, way.command) for way in self.ways]
