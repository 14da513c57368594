"""Differences between two files beside their models: extra files, and how they are packed."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from functools import cached_property
from itertools import islice
from math import gcd
from typing import Final

from tsarchive.analyses.encoding import Plain
from tsarchive.container import Container
from tsarchive.describing.contents import StorageInfo, TensorInfo
from tsarchive.describing.text import method_name
from tsarchive.describing.written import WrittenBy, surely_differ, written_lines
from tsarchive.diffing.report import Change
from tsarchive.errors import ArchiveError, MissingRecordError
from tsarchive.formats.base import Opened, OpenedArchive
from tsarchive.formats.records import RecordTable, Role
from tsarchive.formats.registry import format_of

# Longer texts are told by their size and digest.
_LONGEST_TEXT: Final = 200
# Records are aligned to this at most.
_PAGE: Final = 4096
# So many records tell the alignment of all.
_SAMPLE: Final = 8
_BYTE_ORDER: Final = "byteorder"
_WRITTEN_BY: Final = "written by"
# Records of these roles are told by what is in them, or by their number; names of others count.
_TOLD_OTHERWISE: Final = frozenset(
    {Role.CODE, Role.DEBUG, Role.DEBUG_PICKLE, Role.TENSORS, Role.EXTRA, Role.BYTECODE, Role.NOTES}
)


def extra_file_changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Change]:
    """Yield the differences of extra files, by name: short texts as they are."""
    for name in sorted({*before, *after}):
        own, other = before.get(name), after.get(name)
        if own != other:
            are_texts = all(content is None or _is_short(content) for content in (own, other))
            tell = bytes.decode if are_texts else _described
            sides = (None if content is None else tell(content) for content in (own, other))
            yield Change("extra file", name, next(sides), next(sides), "extra files")


def _is_short(content: bytes) -> bool:
    """Return whether content is a text that is shown as it is."""
    if len(content) > _LONGEST_TEXT:
        return False
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\r\n\t" for char in text)


def _described(content: bytes) -> str:
    return f"{len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}"


def packing_changes(before: Opened, after: Opened) -> Iterator[Change]:
    """Yield what differs beside the models: format, version, records, what wrote the files.

    What one side does not tell is no difference, nor is a writer that may be the same.

    ``where`` is the name of a record that one side alone has, "" for what is of the whole file.
    """
    one, other = _Packing(before), _Packing(after)
    facts, others = one.facts(), other.facts()
    for kind in dict.fromkeys([*facts, *others]):
        own, its = facts.get(kind), others.get(kind)
        if kind == _WRITTEN_BY and not _surely_differ(one.writer, other.writer):
            continue
        if own != its and None not in (own, its):
            yield Change(kind, "", own, its, None)
    yield from _sharing_changes(one.tensors, other.tensors)
    if one.title == other.title:
        for name in sorted(one.named_records ^ other.named_records):
            is_gone = name in one.named_records
            own, its = (name, None) if is_gone else (None, name)
            yield Change("record", name, own, its, None)


def _surely_differ(own: WrittenBy | None, other: WrittenBy | None) -> bool:
    return own is not None and other is not None and surely_differ(own, other)


def _sharing_changes(
    before: Mapping[str, TensorInfo], after: Mapping[str, TensorInfo]
) -> Iterator[Change]:
    """Yield which tensors, of those on both sides, are kept in one storage, as tied weights are."""
    common = before.keys() & after.keys()
    own, its = (_shared(tensors, common) for tensors in (before, after))
    if own != its:
        yield Change("tensors in one storage", "", own or "none", its or "none", None)


def _shared(tensors: Mapping[str, TensorInfo], names: Set[str]) -> str:
    """Return ``first.weight = second.weight``, for each storage of several tensors."""
    groups = defaultdict[StorageInfo, list[str]](list)
    for name, info in tensors.items():
        if name in names and info.nbytes and len(info.storages) == 1:
            groups[info.storages[0]].append(name)
    return ", ".join(" = ".join(group) for group in groups.values() if len(group) > 1)


class _Packing:
    """How a file is packed."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._format = format_of(opened)
        self._archive = OpenedArchive(opened, self._format)
        self.title = self._format.title

    def facts(self) -> dict[str, Plain]:
        """Return what is told of the file, by kind; what is not known is left out."""
        found: dict[str, Plain] = {"format": self.title, _WRITTEN_BY: self._written_by()}
        with suppress(MissingRecordError):
            found["format version"] = self._archive.format_version
        if isinstance(self._opened, Container):
            found |= self._facts_of_zip(self._opened)
        return found

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Tensors by name, where they can be listed."""
        try:
            return self._archive.tensors if self._archive.view.has_tensors else {}
        except (ArchiveError, RecursionError):
            return {}

    def _facts_of_zip(self, container: Container) -> dict[str, Plain]:
        methods = {method_name(record.method) for record in container.records.values()}
        order = container.read(_BYTE_ORDER) if _BYTE_ORDER in container.records else b""
        return {
            "debug records": self._number(Role.DEBUG),
            "mobile bytecode": bool(self._number(Role.BYTECODE)),
            "byte order": order.decode("ascii", "backslashreplace").strip() or "not recorded",
            "compression": ", ".join(sorted(methods)),
            "alignment": self._alignment(container),
        }

    def _alignment(self, container: Container) -> int | None:
        """Return the power of two that the data of the first tensors begin at.

        Each look at a record maps pages of the file around it, which are memory until it is closed,
        or is a request: None for a file elsewhere.
        """
        if container.is_elsewhere:
            return None
        records = container.records
        held = (name for name in records if self._table.role(name) is Role.TENSORS)
        names = [*islice((name for name in held if records[name].size), _SAMPLE)]
        return gcd(_PAGE, *(records[name].offset for name in names))

    @cached_property
    def writer(self) -> WrittenBy | None:
        """What wrote the file, None where nothing tells."""
        try:
            return self._archive.written_by
        except (ArchiveError, RecursionError):
            return None

    def _written_by(self) -> str | None:
        found = self.writer
        return None if found is None else next(text for _, text in written_lines(found))

    @property
    def _table(self) -> RecordTable:
        return self._format.table(self._opened)

    def _number(self, role: Role) -> int:
        return sum(self._table.role(name) is role for name in self._opened.records)

    @property
    def named_records(self) -> set[str]:
        """The names of the records of a zip archive that nothing else tells of."""
        records = self._opened.records if isinstance(self._opened, Container) else ()
        return {name for name in records if self._table.role(name) not in _TOLD_OTHERWISE}
