"""Directory entries, and the checks of their names and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from tsarchive.container import caps
from tsarchive.container.faults import Faults, Place
from tsarchive.container.layout import DESCRIPTOR, FLAG_DESCRIPTOR, LOCAL, STORED
from tsarchive.container.names import fold_name, is_plain, name_problem, quoted


class Entry(NamedTuple):
    """The directory's entry for one member. ``name`` includes the root folder.

    Without ``has_checksum`` the CRC-32 is 0 because the writer of the archive did not compute it.
    """

    name: str
    flags: int
    method: int
    crc: int
    stored_size: int
    size: int
    header_offset: int
    has_checksum: bool = True

    @property
    def place(self) -> Place:
        return Place(self.name, self.header_offset)

    @property
    def raw_name(self) -> bytes:
        """The bytes of the name as stored in the file."""
        return self.name.encode("utf-8", "surrogateescape")

    @property
    def least_length(self) -> int:
        """The minimum number of bytes that the member takes up in the file."""
        # The signature of a descriptor is optional.
        descriptor = DESCRIPTOR.size - 4 if self.flags & FLAG_DESCRIPTOR and self.size else 0
        length = len(self.name) if self.name.isascii() else len(self.raw_name)
        return LOCAL.size + length + self.stored_size + descriptor

    @property
    def is_folder(self) -> bool:
        return self.name.endswith("/")


def check_names(entries: Sequence[Entry], faults: Faults) -> None:
    """Check each name against the rules for names, and all of them against each other."""
    different = set()
    for entry in entries:
        if is_plain(entry.name):
            different.add(entry.name.lower())
            continue
        different.add(fold_name(entry.name))
        problem = name_problem(entry.name)
        if problem is not None:
            faults.report("zip-bad-name", f"the name {quoted(entry.name)} {problem}", entry.place)
    if len(different) < len(entries):
        _report_alike(entries, faults)


def _report_alike(entries: Sequence[Entry], faults: Faults) -> None:
    firsts: dict[str, Entry] = {}
    for entry in entries:
        first = firsts.setdefault(fold_name(entry.name), entry)
        if first is entry:
            continue
        if first.name == entry.name:
            problem = "two records have this name, and readers disagree on which one counts"
            faults.report("zip-duplicate-name", problem, entry.place)
        else:
            problem = f"some readers take this name and {quoted(first.name)} for the same"
            faults.report("zip-alike-names", problem, entry.place)


def check_sizes(entries: Sequence[Entry], faults: Faults) -> None:
    """Check inflated sizes against the caps before anything is inflated."""
    for entry in entries:
        if entry.size > caps.SMALLEST_CAP:
            _check_size(entry, faults)
    packed = [entry for entry in entries if entry.method != STORED]
    _check_inflated(packed, caps.inflated_cap(sum(e.stored_size for e in packed)), faults)
    if sum(entry.size for entry in packed) > caps.FREE_PARSED_BYTES:
        parsed = [entry for entry in packed if caps.size_cap(entry.name) is not None]
        blown_up = [e for e in parsed if caps.exceeds_ratio(e.size, e.stored_size)]
        _check_inflated(blown_up, caps.FREE_PARSED_BYTES, faults)


def _check_inflated(packed: list[Entry], limit: int, faults: Faults) -> None:
    inflated = sum(entry.size for entry in packed)
    if inflated > limit:
        stored = sum(entry.stored_size for entry in packed)
        largest = max(packed, key=attrgetter("size"))
        problem = f"{stored} bytes of compressed records inflate to {inflated}"
        faults.report("zip-bomb", problem, largest.place, limit=limit, hint=_REPACK)


_REPACK = "If the file is known to be good, pack it again without compression"


def _check_size(entry: Entry, faults: Faults) -> None:
    cap = caps.size_cap(entry.name)
    if cap is not None and entry.size > cap:
        problem = f"a record of this name has {entry.size} bytes"
        faults.report("zip-large-record", problem, entry.place, limit=cap)
