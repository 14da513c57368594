"""Survey of a container: everything wrong with it, or unusual though readers may accept it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

from tsarchive.container.caps import inflated_cap
from tsarchive.container.contents import PIECE_BYTES, checked_pieces
from tsarchive.container.directory import ANY_REFUSED_FLAG, Entry
from tsarchive.container.faults import Collected, Faults, Place, Stopped
from tsarchive.container.layout import ALIGNMENT, DEFLATED, LOCAL_SIGNATURE, STORED
from tsarchive.container.members import (
    Members,
    check_descriptor,
    is_left_by_macos,
    locate_data,
    read_members,
)
from tsarchive.container.opening import open_source
from tsarchive.container.reader import Container
from tsarchive.container.source import Closing, FileChanged, Source
from tsarchive.findings import Finding
from tsarchive.steps import Measured, Step, no_step

# About so many bytes are asked for at a time; a longer record is one batch.
_BATCH_BYTES = 64 << 20
# The only records that torch deflates.
_DEFLATED_BY_TORCH = (".py", ".debug_pkl")


def report_gap(gap: memoryview, at: Place, faults: Faults) -> None:
    """Report bytes after a member's end that belong to no member."""
    if not gap:
        return
    if gap[: len(LOCAL_SIGNATURE)] == LOCAL_SIGNATURE:
        problem = f"{len(gap)} bytes hold a member that the directory leaves out"
        faults.report("zip-hidden-entry", problem, at)
        return
    pieces = range(0, len(gap), PIECE_BYTES)
    if any(bytes(gap[start : start + PIECE_BYTES]).strip(b"\0") for start in pieces):
        faults.report("zip-gap", f"{len(gap)} bytes follow the record and belong to none", at)
    else:
        faults.report("zip-padding", f"{len(gap)} zeros follow the record", at)


def report_unusual(members: Members, offsets: Mapping[str, int], faults: Faults) -> None:
    """Report, once each for the file, signs that an archive was packed by hand.

    ``offsets`` maps members with a sound local header to the offset of their data.
    """
    entries = members.directory.entries
    if not members.root:
        faults.report(
            "zip-no-root", "the records are in no folder, and torch.jit.load asks for one"
        )
    records = [entry for entry in entries if not (entry.is_folder or is_left_by_macos(entry))]
    noted = {
        "zip-folders": ("entries are for folders", [e for e in entries if e.is_folder]),
        "zip-order": (
            "entries stand in the file before the one named before",
            [
                after
                for before, after in pairwise(entries)
                if after.header_offset < before.header_offset
            ],
        ),
        "zip-compression": (
            "records are compressed that torch would store",
            [
                entry
                for entry in records
                if entry.method != STORED
                and not (entry.method == DEFLATED and entry.name.endswith(_DEFLATED_BY_TORCH))
            ],
        ),
        "zip-no-crc": (
            "records have no checksum: damage to their data is not seen",
            [entry for entry in records if not entry.has_checksum],
        ),
        "zip-alignment": (
            f"stored records do not begin at a multiple of {ALIGNMENT} bytes",
            [e for e in records if e.method == STORED and offsets.get(e.name, 0) % ALIGNMENT],
        ),
    }
    for rule, (problem, found) in noted.items():
        if found:
            at = found[0].place
            faults.report(rule, f"{len(found)} {problem}", Place(None, at.offset))


@dataclass(frozen=True, slots=True)
class ContainerSurvey(Closing):
    """The findings of a survey in the order of the checks; a context manager for the container.

    ``container`` is the opened container, or None when strict opening refuses the file. Records
    that have findings may still be refused when they are read. ``in_doubt`` are the names of
    records whose metadata contradicts itself or whose data is damaged.
    """

    findings: tuple[Finding, ...]
    container: Container | None
    in_doubt: frozenset[str] = frozenset()

    def close(self) -> None:
        """Close the container, if there is one."""
        if self.container is not None:
            self.container.close()


def survey(
    source: str | os.PathLike[str] | BinaryIO | Source,
    weights: Callable[[Container], Collection[str]] = lambda _: (),
    step: Step = no_step,
) -> ContainerSurvey:
    """List every finding about the container in a path, a binary file object or opened bytes.

    Applies the rules of ``Container.open`` without stopping at the first, and also what opening
    postpones: every local header and descriptor, and the data of every record, inflated and with
    its CRC-32 checked. Each byte of the file is read once, and no more than a piece of a record is
    in memory at a time. A rule ``zip-...`` concerns the container, ``file-...`` identifies a file
    that has none.

    Of a source that is sparing, the records that ``weights`` gives are left aside: their headers
    and data are not read, and the directory counts. ``step`` is called with the name of each record
    when it has been read.

    Raises OSError when the file cannot be read, CallError for anything but a file.
    """
    faults = Collected()
    try:
        opened = source if isinstance(source, Source) else open_source(source, faults)
    except Stopped:
        return ContainerSurvey(faults.findings(), None)
    container: Container | None = None
    in_doubt = frozenset[str]()
    try:
        with suppress(Stopped):
            members = read_members(opened, faults)
            is_refused = faults.refused
            found = Container(opened, members)
            left_out = frozenset(weights(found) if opened.is_sparing else ())
            walk = _Walk(opened, members, faults, left_out)
            walk.check_all(step)
            container = None if is_refused else found
            in_doubt = walk.in_doubt
            walk.explain()
    finally:
        if container is None:
            opened.close()
    return ContainerSurvey(faults.findings(), container, in_doubt)


class _Walk:
    """Visits the members in file order."""

    def __init__(
        self, source: Source, members: Members, faults: Collected, left_out: Collection[str]
    ) -> None:
        self._source = source
        self._members = members
        self._directory = members.directory
        self._faults = faults
        self._of_directory = faults.count
        self._left_out = {
            entry.name
            for entry in self._directory.entries
            if members.without_root(entry.name) in left_out
        }
        self._looked_at: set[str] = set()
        self._in_doubt: set[str] = set()
        self._offsets: dict[str, int] = {}
        packed = (entry for entry in self._directory.entries if entry.method != STORED)
        self._room = inflated_cap(sum(entry.stored_size for entry in packed))

    def check_all(self, step: Step) -> None:
        """Perform the checks that opening postpones, then report the merely unusual."""
        measured = Measured(step, sum(entry.stored_size for entry in self._directory.entries))
        try:
            for entries in self._batches():
                self._source.prefetch(map(self._directory.span, entries))
                for entry in entries:
                    self._check_apart(entry)
                    measured.add(entry.name, entry.stored_size)
        finally:
            names = (entry.name for entry in self._directory.entries)
            borne_out = (self._looked_at | self._left_out) - self._in_doubt
            self._faults.excuse_directory(self._of_directory, names, borne_out)
        report_unusual(self._members, self._offsets, self._faults)

    def explain(self) -> None:
        """Report what may have happened to the file, where members are damaged."""
        damaged = [e for e in self._directory.entries if e.name in self._in_doubt]
        if damaged and not self._source.is_sparing:
            from tsarchive.container.diagnosis import diagnose_records  # sound files need it not

            for found in diagnose_records(self._source.data, self._directory, damaged):
                place = Place(offset=found.offset)
                self._faults.report(found.rule, found.message, place, hint=found.hint)

    @property
    def in_doubt(self) -> frozenset[str]:
        """The names of records that are not borne out."""
        return frozenset(map(self._members.without_root, self._in_doubt))

    def _check_apart(self, entry: Entry) -> None:
        """Check a member, and whether it bears out the directory's entry under its name."""
        self._faults.begin_member()
        try:
            self._check(entry)
        except FileChanged:
            raise
        except Stopped:
            pass
        self._looked_at.add(entry.name)
        if not self._faults.end_member():
            self._in_doubt.add(entry.name)

    def _batches(self) -> Iterator[list[Entry]]:
        """Yield entries that are got at once where the file is elsewhere."""
        batch: list[Entry] = []
        room = _BATCH_BYTES
        for entry in self._apart():
            if entry.name in self._left_out:
                continue
            room -= self._directory.limit(entry) - entry.header_offset
            if room < 0 and batch:
                yield batch
                batch, room = [], _BATCH_BYTES
            batch.append(entry)
        if batch:
            yield batch

    def _apart(self) -> list[Entry]:
        """Return the entries at distinct places before the directory, so no byte is read twice."""
        by_place = {entry.header_offset: entry for entry in reversed(self._directory.entries)}
        return [by_place[start] for start in dict.fromkeys(self._directory.starts[:-1])]

    def _check(self, entry: Entry) -> None:
        self._require_unchanged()
        record = self._members.without_root(entry.name)
        limit = self._directory.limit(entry)
        data = locate_data(self._source, entry, limit, record, self._faults)
        self._offsets[entry.name] = data
        end = check_descriptor(self._source, entry, data, limit, record, self._faults)
        report_gap(self._source.piece(end, limit), Place(record, end), self._faults)
        self._read(entry, Place(record, data))

    def _read(self, entry: Entry, at: Place) -> None:
        """Inflate the data and compare its CRC-32, within the caps."""
        if entry.flags & ANY_REFUSED_FLAG:
            return
        if entry.method != STORED:
            if entry.size > self._room:
                return
            self._room -= entry.size
        assert at.offset is not None
        payload = self._source.piece(at.offset, at.offset + entry.stored_size)
        for _ in checked_pieces(entry, payload, at, self._faults):
            self._require_unchanged()

    def _require_unchanged(self) -> None:
        self._source.require_unchanged(self._faults, contents=True)
