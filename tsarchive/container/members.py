"""The members of an archive: its single root folder, and the records in it by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tsarchive.container.directory import Directory, read_directory
from tsarchive.container.entries import Entry
from tsarchive.container.faults import Faults
from tsarchive.container.names import is_plain, quoted, start_problem

# Added by the Finder of macOS to the archives that it packs. torch ignores it too.
_MACOS_FOLDER = "__MACOSX/"
_MACOS_FILE = ".DS_Store"


class Members(NamedTuple):
    """The root folder, empty when there is none, and the entries of records by name without it."""

    directory: Directory
    root: str
    entries: Mapping[str, Entry]

    def without_root(self, name: str) -> str:
        """Strip the root folder from a member's name; the root folder itself keeps its name."""
        return (name.removeprefix(f"{self.root}/") or name) if self.root else name


def read_members(buffer: memoryview, faults: Faults) -> Members:
    """Read the directory of the archive in ``buffer`` and collect its records."""
    directory = read_directory(buffer, faults)
    root = _root(directory.entries)
    directory = directory._replace(entries=_without_checksums(directory.entries, root))
    return Members(directory, root, _entries_by_record(directory.entries, root, faults))


def _without_checksums(entries: tuple[Entry, ...], root: str) -> tuple[Entry, ...]:
    """Mark the entries whose CRC-32 torch was told not to compute.

    ``set_crc32_options(False)`` omits those of all records, ``skip_data()`` those of all storages.
    A single record of CRC-32 zero among others is damaged.
    """
    folder = f"{root}/{_STORAGES}" if root else _STORAGES
    held = [entry for entry in entries if entry.size]
    for agreeing in held, [entry for entry in held if entry.name.startswith(folder)]:
        if agreeing and not any(entry.crc for entry in agreeing):
            unknown = {entry.name for entry in agreeing}
            return tuple(e._replace(has_checksum=e.name not in unknown) for e in entries)
    return entries


def is_left_by_macos(entry: Entry) -> bool:
    """Return whether the entry stands beside the root folder because macOS put it there."""
    return entry.name.startswith(_MACOS_FOLDER) or entry.name == _MACOS_FILE


# Where torch.save puts storages.
_STORAGES = "data/"

# Every format has one of these directly in the root folder.
_TOP_RECORDS = ("version", "data.pkl", "model.json", "archive_format")


def _root(entries: Sequence[Entry]) -> str:
    """Return the folder of the first entry, as torch does, unless the records are in no folder."""
    first = next((entry for entry in entries if not is_left_by_macos(entry)), entries[0])
    root, slash, _ = first.name.partition("/")
    if not slash:
        return ""
    # torch looks up records case-insensitively.
    names = {entry.name.lower() for entry in entries}
    at_top = any(name in names for name in _TOP_RECORDS)
    below = {name for name in _TOP_RECORDS if f"{root.lower()}/{name}" in names}
    if root == "models" and "archive_format" in names:
        below.discard("model.json")  # a model of this name in a PT2 archive
    return "" if at_top and not below else root


def _entries_by_record(entries: Sequence[Entry], root: str, faults: Faults) -> dict[str, Entry]:
    prefix = f"{root}/" if root else ""
    found: dict[str, Entry] = {}
    for entry in entries:
        if not entry.name.startswith(prefix) or (not prefix and is_left_by_macos(entry)):
            _check_stray(entry, root, faults)
        elif entry.is_folder:
            _check_folder(entry, faults)
        else:
            name = entry.name[len(prefix) :]
            _check_record_name(name, entry, faults)
            found.setdefault(name, entry)
    return found


def _check_stray(entry: Entry, root: str, faults: Faults) -> None:
    if is_left_by_macos(entry):
        faults.report("zip-macos", "macOS added this entry", entry.place)
        return
    faults.report(
        "zip-several-roots",
        f"the entry is not in the folder {quoted(root)}, where the first one is",
        entry.place,
        hint="An archive has one root folder: pack the folder itself, not its contents",
    )


def _check_folder(entry: Entry, faults: Faults) -> None:
    if entry.size:
        problem = "the entry is named like a folder and holds data"
        faults.report("zip-folder-data", problem, entry.place)


def _check_record_name(name: str, entry: Entry, faults: Faults) -> None:
    """Reject names that are unsafe once the root is stripped, such as ``root//etc/hosts``."""
    problem = None if is_plain(name) else start_problem(name)
    if problem is not None:
        faults.report("zip-bad-name", f"the record name {quoted(name)} {problem}", entry.place)
