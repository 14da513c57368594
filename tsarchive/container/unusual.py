"""Unusual features that no writer of archives produces, though every reader may accept them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tsarchive.container.entries import Entry
from tsarchive.container.faults import Faults, Place
from tsarchive.container.inflate import PIECE_BYTES
from tsarchive.container.layout import (
    ALIGNMENT,
    DEFLATED,
    LOCAL_SIGNATURE,
    STORED,
)
from tsarchive.container.members import Members, is_left_by_macos

# The only records that torch deflates.
_DEFLATED_BY_TORCH = (".py", ".debug_pkl")


def report_gap(gap: memoryview, at: Place, faults: Faults) -> None:
    """Report bytes after a member's end that belong to no member."""
    if not gap:
        return
    if gap[: len(LOCAL_SIGNATURE)] == LOCAL_SIGNATURE:
        problem = f"{len(gap)} bytes hold a member that the directory leaves out"
        faults.report("zip-hidden-entry", problem, at)
    elif _is_zero(gap):
        faults.report("zip-padding", f"{len(gap)} zeros follow the record", at)
    else:
        faults.report("zip-gap", f"{len(gap)} bytes follow the record and belong to none", at)


def _is_zero(gap: memoryview) -> bool:
    pieces = range(0, len(gap), PIECE_BYTES)
    return not any(bytes(gap[start : start + PIECE_BYTES]).strip(b"\0") for start in pieces)


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
        "zip-order": ("entries stand in the file before the one named before", _backward(entries)),
        "zip-compression": (
            "records are compressed that torch would store",
            [entry for entry in records if _is_oddly_packed(entry)],
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


def _backward(entries: Sequence[Entry]) -> list[Entry]:
    pairs = pairwise(entries)
    return [entry for before, entry in pairs if entry.header_offset < before.header_offset]


def _is_oddly_packed(entry: Entry) -> bool:
    if entry.method == DEFLATED:
        return not entry.name.endswith(_DEFLATED_BY_TORCH)
    return entry.method != STORED
