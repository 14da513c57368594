"""What the rows of a survey tell together, as values: one pass over them, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tsarchive.describing.written import Span, all_releases
from tsarchive.findings import Severity

from .grouping import Count, Groups, Place, Tally, Top, Twins
from .rows import FileRow, FindingRow, Status

LARGEST: Final = 200
"""The default number of names, groups and files that a summary names of each kind."""

_FINE: Final = frozenset({"read", "foreign"})
_GRAVITY: Final[Mapping[Status, int]] = {"crashed": 4, "timeout": 3, "failed": 2, "refused": 1}
_SPARE: Final = 1_000
"""Files that are held before the mildest of them are given up."""


@dataclass(frozen=True, slots=True)
class KindCount:
    """Files of one kind and status; ``kind`` is None where it could not be told."""

    kind: str | None
    status: Status
    files: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class SizeCount:
    """Files of at least ``nbytes`` and less than twice that; 0 stands for empty files."""

    nbytes: int
    files: int


@dataclass(frozen=True, slots=True)
class RuleCount:
    """Findings of one rule, and the number of files that have any of them."""

    rule: str
    verb: str
    severity: str
    nature: str
    findings: int
    files: int


@dataclass(frozen=True, slots=True)
class WriterCount:
    """Files that a torch from release ``first`` to ``last`` has written."""

    first: str
    last: str
    files: int

    def __str__(self) -> str:
        return str(Span(self.first, self.last))


@dataclass(frozen=True, slots=True)
class ReleaseCount:
    """The number of files that a release of torch loads, and that it runs."""

    torch: str
    loads: int
    runs: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """A file that could not be read, or that has errors or warnings."""

    place: Place
    status: Status
    errors: int
    warnings: int
    problem: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What a survey has found.

    ``by_model`` are files that hold the same model, however packed, ``by_sha256`` those with the
    same bytes. ``operators``, ``effects``, ``libraries``, ``dtypes`` and ``devices`` count files
    that have them. ``severities`` counts findings, gravest first. ``loadable`` tells how many files
    any release of torch loads, and ``releases`` how many of these each does. Lists are as long as
    was asked for, and tell how long they would be; they begin with what concerns most files.

        >>> summary = tsarchive.survey("net.pt", "survey", workers=0, format="jsonl").summary()
        >>> summary.files, summary.loadable
        (1, 1)
    """

    files: int
    nbytes: int
    kinds: tuple[KindCount, ...]
    sizes: tuple[SizeCount, ...]
    by_model: Twins
    by_sha256: Twins
    operators: Top[Count]
    effects: Top[Count]
    libraries: Top[Count]
    dtypes: Top[Count]
    devices: Top[Count]
    rules: Top[RuleCount]
    severities: Mapping[str, int]
    writers: tuple[WriterCount, ...]
    loadable: int
    releases: tuple[ReleaseCount, ...]
    troubles: Top[Trouble]

    @property
    def statuses(self) -> dict[Status, int]:
        """The number of files of each status, most first."""
        found: Counter[Status] = Counter()
        for kind in self.kinds:
            found[kind.status] += kind.files
        return dict(found.most_common())

    @property
    def loads_all(self) -> tuple[str, ...]:
        """The releases of torch that load every file that any release loads, oldest first."""
        return tuple(r.torch for r in self.releases if r.loads == self.loadable)


def summarise(
    files: Iterable[FileRow], findings: Iterable[FindingRow] = (), *, largest: int = LARGEST
) -> Summary:
    """Summarise rows, each read once. Findings of one file follow each other.

    ``largest`` limits how many names, groups and files are listed of each kind. Memory does not
    grow with the number of rows: what is not listed is counted in temporary files.
    """
    adding = _Files(largest)
    for row in files:
        adding.add(row)
    rules = _Rules()
    for finding in findings:
        rules.add(finding)
    return Summary(rules=rules.largest(largest), severities=rules.severities(), **adding.found())


class _Files:
    """Adds up rows of files."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kinds: dict[tuple[str | None, Status], list[int]] = {}
        self._sizes: Counter[int] = Counter()
        self._by = {name: Groups() for name in ("model", "sha256")}
        self._tallies = {
            name: Tally() for name in ("operators", "effects", "libraries", "dtypes", "devices")
        }
        self._writers: Counter[tuple[str, str]] = Counter()
        self._loadable = 0
        self._loads: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._troubles = _Troubles(most)

    def add(self, row: FileRow) -> None:
        """Take in the row of a file."""
        nbytes = row.nbytes or 0
        counts = self._kinds.setdefault((row.kind, row.status), [0, 0])
        counts[0] += 1
        counts[1] += nbytes
        if row.nbytes is not None:
            self._sizes[nbytes.bit_length()] += 1
        self._add_names(row, nbytes)
        self._add_releases(row)
        self._troubles.add(row)

    def _add_names(self, row: FileRow, nbytes: int) -> None:
        for column, groups in self._by.items():
            if digest := getattr(row, column):
                groups.add(digest, Place(row.root, row.path), nbytes)
        for column, tally in self._tallies.items():
            for name in set(getattr(row, column)):
                tally.add(name, nbytes)

    def _add_releases(self, row: FileRow) -> None:
        if row.torch_first is not None and row.torch_last is not None:
            self._writers[row.torch_first, row.torch_last] += 1
        self._loadable += bool(row.loads_on)
        self._loads.update(set(row.loads_on))
        self._runs.update(set(row.runs_on))

    def found(self) -> dict[str, Any]:
        """Return the fields of a summary but those of findings."""
        kinds = [KindCount(*key, *counts) for key, counts in self._kinds.items()]
        ordered = sorted(kinds, key=lambda k: (-k.files, k.kind or "", k.status))
        return {
            "files": sum(kind.files for kind in kinds),
            "nbytes": sum(kind.nbytes for kind in kinds),
            "kinds": tuple(ordered),
            "sizes": tuple(_size(*item) for item in sorted(self._sizes.items())),
            **{f"by_{name}": groups.twins(self._most) for name, groups in self._by.items()},
            **{name: tally.largest(self._most) for name, tally in self._tallies.items()},
            "writers": self._spans(),
            "loadable": self._loadable,
            "releases": self._releases(),
            "troubles": self._troubles.worst(),
        }

    def _spans(self) -> tuple[WriterCount, ...]:
        order = _release_order()
        spans = (WriterCount(*span, files) for span, files in self._writers.items())
        return tuple(sorted(spans, key=lambda s: (order(s.first), order(s.last))))

    def _releases(self) -> tuple[ReleaseCount, ...]:
        names = sorted(self._loads.keys() | self._runs.keys(), key=_release_order())
        return tuple(ReleaseCount(name, self._loads[name], self._runs[name]) for name in names)


def _size(bits: int, files: int) -> SizeCount:
    """Return the files whose sizes have so many bits."""
    return SizeCount(1 << (bits - 1) if bits else 0, files)


def _release_order() -> Callable[[str], tuple[int, str]]:
    """Return a sort key for releases: oldest first, and unknown ones after all that are known."""
    known = {name: place for place, name in enumerate(all_releases())}
    return lambda name: (known.get(name, len(known)), name)


class _Troubles:
    """Keeps the worst files: those that were not read first, then those with most errors."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._held: list[Trouble] = []

    def add(self, row: FileRow) -> None:
        """Take in a file, if anything is wrong with it."""
        if row.status in _FINE and not (row.errors or row.warnings):
            return
        place = Place(row.root, row.path)
        self._total += 1
        self._held.append(Trouble(place, row.status, row.errors, row.warnings, row.problem))
        if len(self._held) >= 2 * self._most + _SPARE:
            self._cut()

    def worst(self) -> Top[Trouble]:
        """Return them in order."""
        self._cut()
        return Top(tuple(self._held), self._total)

    def _cut(self) -> None:
        self._held = sorted(self._held, key=_mildness)[: self._most]


def _mildness(trouble: Trouble) -> tuple[int, int, int, Place]:
    gravity = _GRAVITY.get(trouble.status, 0)
    return -gravity, -trouble.errors, -trouble.warnings, trouble.place


class _Rules:
    """Counts findings by rule, and the files that have them."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str, str], list[int]] = {}
        self._place: Place | None = None
        self._seen: set[tuple[str, str, str, str]] = set()

    def add(self, row: FindingRow) -> None:
        """Take in a finding."""
        place, rule = Place(row.root, row.path), (row.rule, row.verb, row.severity, row.nature)
        if place != self._place:
            self._place = place
            self._seen.clear()
        counts = self._counts.setdefault(rule, [0, 0])
        counts[0] += 1
        counts[1] += rule not in self._seen
        self._seen.add(rule)

    def largest(self, most: int) -> Top[RuleCount]:
        """Return the rules, gravest first, then those of most files."""
        found = [RuleCount(*rule, *counts) for rule, counts in self._counts.items()]
        found.sort(key=lambda r: (-Severity(r.severity).rank, -r.files, r.rule, r.verb, r.nature))
        return Top(tuple(found[:most]), len(found))

    def severities(self) -> Mapping[str, int]:
        """Return the number of findings of each severity that there is, gravest first."""
        found: Counter[str] = Counter()
        for (_, _, severity, _), (findings, _) in self._counts.items():
            found[severity] += findings
        return {s.value: found[s.value] for s in reversed(Severity) if found[s.value]}
