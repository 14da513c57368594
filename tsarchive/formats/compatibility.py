"""What tells which releases read a file, and what ties it to one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tsarchive.analyses.reading import Fault
from tsarchive.formats.requests import RewrittenCalls
from tsarchive.ir.source_ranges import Location
from tsarchive.operators.releases import Release


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a release does not load a file, or loads it and does not run all of it.

    ``kind`` is ``format`` (the version of the file), ``operator`` (there is none of this name),
    ``overload`` (none takes these arguments), ``class`` (bound from C++), ``library`` (an operator
    or class that torch alone never has), ``construct`` (of the language), ``pickle`` (a value),
    ``record`` (one that is missing), ``code`` or ``schema``. ``about`` is the operator, class or
    construct.

    The place is the first of ``places``: ``record``, ``line`` (0 where it is no line), its
    text as ``code``, and ``source``, that line as the user wrote it, where the file tells it.
    ``since`` is the first later release without this reason, None where there is none.
    """

    kind: str
    text: str
    about: str = ""
    record: str = ""
    line: int = 0
    code: str = ""
    source: Location | None = None
    places: int = 1
    since: str | None = None
    hint: str = ""

    @property
    def where(self) -> str:
        """The place as text: the user's line where it is known, else that of the record."""
        if self.source is not None:
            return str(self.source).partition(": ")[0]
        return f"{self.record}:{self.line}" if self.line else self.record

    def __str__(self) -> str:
        return f"{self.text}, {self.where}" if self.where else self.text


@dataclass(frozen=True, slots=True)
class Plan:
    """What ``tsarchive.convert`` would do ``for_torch``, a release that does not load a file.

    ``rewritten`` are the calls that it would write otherwise, ``left_out`` the records that it
    would leave out; ``refusals`` say why it refuses, if it does.
    """

    works: bool
    rewritten: tuple[RewrittenCalls, ...] = ()
    left_out: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """What one release does with a file.

    ``loads`` tells whether ``torch.jit.load`` (``torch.export.load`` for PT2) takes it with this
    torch alone, on any machine that has the memory, tensors moved to the CPU; ``runs`` whether all
    of its code does there what it says. ``reasons`` say why not. ``needs`` are the libraries to
    import before, if those are all that is missing. ``plan`` is what a conversion for this torch
    would do, where it was asked for and does not load the file.
    """

    torch: str
    loads: bool
    runs: bool
    reasons: tuple[Reason, ...] = ()
    needs: tuple[str, ...] = ()
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Tie:
    """What ties code to one machine, size or run: ``kind`` is ``device``, ``size``, ``random``,
    ``path`` or ``dtype``; ``remedy`` says what to do. The rest is as in :class:`Reason`.
    """

    kind: str
    text: str
    remedy: str
    record: str = ""
    line: int = 0
    code: str = ""
    source: Location | None = None
    places: int = 1


@dataclass(frozen=True, slots=True)
class Compatibility:
    """What a format tells of one file. ``libtorch`` is what C++ lacks beside the reasons of a
    row; ``mobile`` are rows for the interpreter of bytecode, or of the runtime of ExecuTorch.
    ``facts`` are the versions in the file, by what they are of; ``notes`` what is not known.
    ``kept_meanings`` are operators that mean, in this file, what they meant before they changed.
    """

    rows: tuple[Row, ...]
    ties: tuple[Tie, ...] = ()
    libtorch: tuple[Reason, ...] = ()
    mobile: tuple[Row, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    kept_meanings: tuple[str, ...] = ()


class Found(NamedTuple):
    """The reasons of a release; those in ``at_run`` do not keep it from loading."""

    reasons: Sequence[Reason]
    at_run: Sequence[Reason] = ()


def reasons_of(faults: Iterable[Fault]) -> list[Reason]:
    """Return the reasons for faults: the first of each operator, class or text, and a count."""
    listed = [*faults]
    counts = Counter((fault.kind, fault.text, fault.about) for fault in listed)
    first: dict[tuple[str, str, str], Fault] = {}
    for fault in listed:
        first.setdefault((fault.kind, fault.text, fault.about), fault)
    return [_reason(fault, counts[key]) for key, fault in first.items()]


def _reason(fault: Fault, places: int) -> Reason:
    place = (fault.record, fault.line, fault.code, fault.source)
    return Reason(fault.kind, fault.text, fault.about, *place, places, hint=fault.hint)


def rows_of(releases: Sequence[Release], found: Callable[[Release], Found]) -> tuple[Row, ...]:
    """Return a row for each release, oldest first, with the release that ends each reason."""
    all_found = [found(release) for release in releases]
    names = [release.name for release in releases]
    left: list[set[tuple[str, str]]] = [
        {(reason.kind, reason.about) for reason in (*each.reasons, *each.at_run)}
        for each in all_found
    ]

    def ended(place: int, reason: Reason) -> Reason:
        key = reason.kind, reason.about
        later = range(place + 1, len(names))
        since = next((names[i] for i in later if key not in left[i]), None)
        return replace(reason, since=reason.since or since)

    return tuple(
        _row(name, each, [ended(place, r) for r in (*each.reasons, *each.at_run)])
        for place, (name, each) in enumerate(zip(names, all_found, strict=True))
    )


def _row(name: str, found: Found, reasons: Sequence[Reason]) -> Row:
    loads = not found.reasons
    is_library = not loads and all(reason.kind == "library" for reason in found.reasons)
    needs = dict.fromkeys(library_of(r.about) for r in found.reasons) if is_library else {}
    return Row(name, loads, loads and not found.at_run, tuple(reasons), tuple(needs))


def library_of(name: str) -> str:
    """Return the namespace of an operator or class: ``torchvision`` for ``torchvision::nms``."""
    namespace, separator, _ = name.partition("::")
    return namespace if separator else name.split(".")[-2]
