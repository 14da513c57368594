"""Saves compared: the first byte in which each record differs, and reports made of that."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tsarchive.container import Container
from tsarchive.describing.text import plural
from tsarchive.reports import Report

_SHOWN = 32


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """The first byte in which a record of the two sides differs.

    ``first`` and ``second`` show up to 32 bytes from there on; None when the record is missing.

        >>> tsarchive.RecordDifference("data.pkl", 2, b"one", b"two").offset
        2
    """

    record: str
    offset: int
    first: bytes | None
    second: bytes | None


@dataclass(frozen=True, slots=True)
class SaveComparison:
    """Saves that should be equal byte for byte, and the records in which they are not.

    They may differ outside of all records: ``records`` is empty then.

        >>> tsarchive.check_jitter("net.pt").twice.same
        True
    """

    same: bool = True
    records: tuple[RecordDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadComparison:
    """The first save beside the file that was read: its records, and the file as a whole.

    A file of torch's own first save has pickles and debug records that torch itself writes
    otherwise once it has read them, so ``records`` may name those.

        >>> tsarchive.check_jitter("net.pt").as_read.same_file
        True
    """

    same_file: bool
    records: tuple[RecordDifference, ...]


@dataclass(frozen=True, slots=True)
class Unprinted:
    """A code or debug record that cannot be compared with what the graphs say, and why.

    For example:

        >>> tsarchive.check_jitter("net.pt").graph.unprinted
        ()
    """

    record: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class GraphReport(Report):
    """The code of the first save, and what is printed from nothing but its graphs.

    Of PT2 archives, ``code`` are programs and configurations of the file that was read whose JSON
    is otherwise when it is decoded and encoded again: other versions of torch have other fields.
    Of files of ExecuTorch, it is the part whose tables are otherwise when they are encoded anew:
    an unknown writer has laid them out.

    ``code`` are code records that print otherwise: an older torch wrote them, or they are of a
    first save that torch changes, too, when it saves again. ``records`` are those that change
    once more when what was printed is read and printed again; there should be none.

    ``debug`` are debug records that a loader would write otherwise: those of torch's own first
    save are in a form that changes once. They are compared when all code prints the same.
    ``unprinted`` is what this process cannot print or compare.

    ``is_own`` tells that tsarchive was the first to save the code: that of a live module, or
    compressed as this process compresses it. Small records are compressed alike everywhere.

        >>> tsarchive.check_jitter("net.pt").graph.records
        ()
    """

    _COLUMNS = "", "record", "offset"

    code: tuple[RecordDifference, ...] = ()
    records: tuple[RecordDifference, ...] = ()
    debug: tuple[RecordDifference, ...] = ()
    unprinted: tuple[Unprinted, ...] = ()
    is_own: bool = field(default=False, compare=False)

    @property
    def stable(self) -> bool:
        """Return True if code and debug records are what their graphs say.

        Those that another writer saved first may change once, to a form that stays.
        """
        return not (self.records or (self.is_own and (self.code or self.debug)))

    @property
    def ok(self) -> bool:
        """The same as ``stable``."""
        return self.stable

    def _headline(self) -> str:
        return "stable" if self.stable else "not stable"

    def _rows(self) -> Sequence[Sequence[object]]:
        otherwise = {"code": self.code, "changes again": self.records, "debug": self.debug}
        return [(what, one.record, one.offset) for what, all_ in otherwise.items() for one in all_]


@dataclass(frozen=True, slots=True, repr=False)
class JitterReport(Report):
    """``stable`` when all usual saves are equal byte for byte: saved twice, and after loading.

    ``twice`` compares the saves of one object; ``records`` says where the save of what was
    loaded differs from the first. Saves may differ outside of all records (headers, padding,
    order): ``records`` is then empty. ``nbytes`` is the size of the first save.

    ``as_read`` is None for a live module, which was not read from a file; ``graph`` is the depth
    below the text; ``canonical`` compares the canonical form of this process with those of two
    others, None when that was not asked for. ``kind`` is that of the saves: ``torchscript``, or
    ``pt2``, where ``graph`` is about JSON.

        >>> report = tsarchive.check_jitter("net.pt")
        >>> report.stable, report.as_read.same_file
        (True, True)
    """

    _COLUMNS = "differs", "record", "offset"

    stable: bool
    nbytes: int
    records: tuple[RecordDifference, ...]
    as_read: ReadComparison | None = None
    graph: GraphReport = GraphReport()
    twice: SaveComparison = SaveComparison()
    canonical: SaveComparison | None = None
    kind: str = "torchscript"

    @property
    def ok(self) -> bool:
        """Whether saves, graphs and, where it was asked for, the canonical form are stable."""
        is_canonical = self.canonical is None or self.canonical.same
        return self.stable and self.graph.stable and is_canonical

    def _headline(self) -> str:
        return (
            f"{'stable' if self.ok else 'not stable'}, {self.kind}, {plural(self.nbytes, 'byte')}"
        )

    def _rows(self) -> Sequence[Sequence[object]]:
        canonical = SaveComparison() if self.canonical is None else self.canonical
        differing = {
            "saved twice": self.twice.records, "saved, loaded, saved": self.records,
            "printed twice": self.graph.records, "canonical": canonical.records,
        }  # fmt: skip
        return [(what, one.record, one.offset) for what, all_ in differing.items() for one in all_]


def differences(first: bytes, second: bytes) -> Iterator[RecordDifference]:
    """Yield the records in which two archives differ, in the order of the first."""
    if first == second:
        return
    with Container.open(io.BytesIO(first)) as one, Container.open(io.BytesIO(second)) as two:
        yield from container_differences(one, two)


def container_differences(one: Container, two: Container) -> Iterator[RecordDifference]:
    """Yield the same for open archives."""
    for name in dict.fromkeys([*one.records, *two.records]):
        left = one.read(name) if name in one.records else None
        right = two.read(name) if name in two.records else None
        if left != right:
            yield _difference(name, left, right)


def _difference(name: str, left: bytes | None, right: bytes | None) -> RecordDifference:
    if left is None or right is None:
        return RecordDifference(name, 0, left and left[:_SHOWN], right and right[:_SHOWN])
    pairs = enumerate(zip(left, right, strict=False))
    shorter = min(len(left), len(right))
    at = next((index for index, (a, b) in pairs if a != b), shorter)
    return RecordDifference(name, at, left[at : at + _SHOWN], right[at : at + _SHOWN])


def changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[RecordDifference]:
    """Yield the texts of records that are otherwise, or not there, in ``after``."""
    for name, content in before.items():
        if content != after.get(name):
            yield _difference(name, content, after.get(name))
