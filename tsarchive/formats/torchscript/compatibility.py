"""Which releases of torch load an archive of TorchScript: format, code, classes and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from tsarchive.analyses.reading import Code, Mention
from tsarchive.container import Container
from tsarchive.formats.compatibility import Compatibility, Found, Reason, reasons_of, rows_of
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.types import BOOL, COMPLEX, FLOAT, INT, NONE, STRING, TENSOR, UNKNOWN, Type
from tsarchive.operators.releases import CONSTRUCTS, Release
from tsarchive.pickler import Object, Reduce, loads

from .code_records import CodeRecords, format_version
from .debug_records import DebugRecords
from .older_pickles import PICKLES, no_longer_read, unread
from .pickled import names_in, objects_of
from .stored_tensors import is_tensor
from .ties import ties_of

_DATA: Final = "data.pkl"
_CONSTANTS: Final = "constants.pkl"
_OURS: Final = "__torch__."
_PLAIN: Final[dict[type, Type]] = {
    type(None): NONE, bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STRING,
}  # fmt: skip
# Records that torch 1 does not write; torch 2.1 and later, and this library, write both.
SINCE_TORCH_2: Final = ("byteorder", ".data/serialization_id")


def compatibility(container: Container, releases: Sequence[Release]) -> Compatibility:
    """Return what each release does with an archive. Raises ArchiveError for a broken one."""
    reading = _Archive(container)
    newest = reading.code.code_of(releases[-1])
    ties = ties_of(newest, reading.pickles)
    rows = rows_of(releases, reading.found)
    kept = newest.reading.kept_meanings
    facts = {"file format": str(reading.version)}
    return Compatibility(rows, ties, facts=facts, kept_meanings=tuple(sorted(kept)))


class _Archive:
    def __init__(self, container: Container) -> None:
        self.container = container
        self.version = format_version(container)
        names = [name for name in container.records if name in PICKLES]
        self.pickles = {name: container.read(name) for name in names}
        self.unread = [(n, *each) for n, d in self.pickles.items() for each in unread(n, d)]
        self.gone = [(n, *each) for n, d in self.pickles.items() for each in no_longer_read(n, d)]

    @cached_property
    def code(self) -> Code:
        is_of_torch_2 = any(name in self.container.records for name in SINCE_TORCH_2)
        return Code(
            dict(CodeRecords(self.container)),
            self._roots(),
            self.version,
            self._constant,
            DebugRecords(self.container),
            may_be_of_torch_1=not is_of_torch_2,
        )

    def _roots(self) -> list[str]:
        """Return the classes that values name, also in the types of lists and dicts."""
        found: dict[str, None] = {}
        for record, data in self.pickles.items():
            root = loads(data, record=record)
            found |= dict.fromkeys(each.cls.qualified_name for each in objects_of(root))
            found |= dict.fromkeys(n for n in names_in(root) if n.startswith(_OURS))
        return [*found]

    @cached_property
    def _table(self) -> tuple[Any, ...]:
        found = loads(self.container.read(_CONSTANTS), record=_CONSTANTS)
        return found if isinstance(found, tuple) else (found,)

    def _constant(self, index: int) -> tuple[Any, Type | str]:
        value = self._table[index]
        if isinstance(value, Reduce) and is_tensor(value):
            return TableConstant(value), TENSOR
        if isinstance(value, Object):
            return TableConstant(value), value.cls.qualified_name
        return TableConstant(value), _PLAIN.get(type(value), UNKNOWN)

    def found(self, release: Release) -> Found:
        """Return why a release does not load the archive, or run it."""
        reading = self.code.read_by(release)
        reasons = [*self._format(release)]
        reasons += [
            _of_construct(mention)
            for name, mention in reading.constructs.items()
            if not release.is_since(CONSTRUCTS[name])
        ]
        reasons += self._values(release)
        reasons += reasons_of(fault for fault in reading.faults if not fault.is_run)
        return Found(reasons, reasons_of(fault for fault in reading.faults if fault.is_run))

    def _format(self, release: Release) -> Iterator[Reason]:
        if self.version > release.newest_format:
            text = f"the file has format {self.version}, and it reads {release.newest_format}"
            yield Reason("format", text, "file format", ".data/version")

    def _values(self, release: Release) -> Iterator[Reason]:
        for record, what, since in dict.fromkeys(self.unread):
            if not release.is_since(since):
                text = f"it does not read {what}"
                yield Reason("pickle", text, what, record, since=since)
        for record, what, last in dict.fromkeys(self.gone):
            if release > Release(last):
                text = f"torch {last} is the last that reads {what}"
                yield Reason("pickle", text, what, record)


def _of_construct(mention: Mention) -> Reason:
    text = f"it does not read {mention.construct}"
    place = (mention.record, mention.line, mention.code, mention.source)
    since = CONSTRUCTS[mention.construct]
    return Reason("construct", text, mention.construct, *place, since=since)
