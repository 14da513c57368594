"""Which releases of torch load an archive of TorchScript: format, code, classes and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from tsarchive.analyses.reading import Code, Mention
from tsarchive.container import Container, NewRecord
from tsarchive.errors import INCOMPLETE, ArchiveError, TargetError
from tsarchive.formats.compatibility import (
    Compatibility,
    Found,
    Plan,
    Reason,
    Row,
    library_of,
    reasons_of,
    rows_of,
)
from tsarchive.frontend.importer import revived_class
from tsarchive.ir.classes import ClassType
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import BOOL, COMPLEX, FLOAT, INT, NONE, STRING, TENSOR, UNKNOWN, Type
from tsarchive.operators.libraries import is_registered_by_python
from tsarchive.operators.overloads import class_of, native_class, overloads_of
from tsarchive.operators.registry import listed_versions
from tsarchive.operators.releases import CONSTRUCTS, Release
from tsarchive.operators.removed import defined_classes, removed
from tsarchive.pickler import Object, Reduce, loads

from .bytecode import MOBILE_NOTES, bytecode_of, mobile_rows
from .code_records import CodeRecords, format_version
from .debug_records import DEBUG_SUFFIX, FORMAT, DebugRecords
from .inspection import storage_record
from .older_pickles import PICKLES, no_longer_read, unread
from .pickled import names_in, objects_of, storages_of
from .retargeting import SINCE_TORCH_2, Process, retargeted
from .stored_tensors import is_tensor
from .ties import ties_of

_DATA: Final = "data.pkl"
_CONSTANTS: Final = "constants.pkl"
_TAG: Final = b"restore_type_tag"
_OURS: Final = "__torch__."
_PLAIN: Final[dict[type, Type]] = {
    type(None): NONE, bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STRING,
}  # fmt: skip
_TEXT_TABLE: Final = (
    "torch before 1.11 ends the process where it reads debug records of this form, as it does to "
    "tell the line of an error: tsarchive.save with debug=False leaves them out"
)
# What releases do not read in the text that torch writes today, and which do.
_SPELLINGS: Final[tuple[tuple[str, re.Pattern[str], Callable[[Release], bool]], ...]] = (
    (
        "the types NoneType and Tuple[()]",
        re.compile(r"\bNoneType\b|Tuple\[\(\)\]"),
        lambda release: release.names_empty_types,
    ),
    (
        "the list __buffers__",
        re.compile(r"^  __buffers__ = ", re.MULTILINE),
        lambda release: release.lists_buffers,
    ),
    (
        "constants of classes",
        re.compile(r"^  \w+ : Final\[", re.MULTILINE),
        lambda release: release.has_class_constants,
    ),
)


def compatibility(container: Container, releases: Sequence[Release]) -> Compatibility:
    """Return what each release does with an archive. Raises ArchiveError for a broken one."""
    reading = _Archive(container)
    newest = reading.code.code_of(releases[-1])
    ties = ties_of(newest, reading.pickles)
    rows = rows_of(releases, reading.found)
    kept = tuple(sorted(newest.reading.kept_meanings))
    facts = {"file format": str(reading.version)}
    bytecode = bytecode_of(container)
    notes, needs = reading.notes(releases), libtorch_needs(rows)
    if bytecode is None:
        return Compatibility(rows, ties, needs, (), facts, notes, kept)
    facts["bytecode"] = str(bytecode.version)
    mobile = mobile_rows(bytecode, releases)
    return Compatibility(rows, ties, needs, mobile, facts, (*notes, *MOBILE_NOTES), kept)


def libtorch_needs(rows: Sequence[Row]) -> tuple[Reason, ...]:
    """Return the libraries that a program in C++ has to link besides libtorch."""
    reasons = rows[-1].reasons if rows else ()
    return tuple(replace(r, hint=_in_cpp(r.about)) for r in reasons if r.kind == "library")


def _in_cpp(name: str) -> str:
    namespace = library_of(name)
    if is_registered_by_python(name):
        return f"Python alone registers {namespace}: libtorch cannot run it"
    return f"Link the C++ library of {namespace} into the program, or load it by dlopen"


def plan(container: Container, release: Release) -> Plan:
    """Return what a conversion of an archive for a release would do. Nothing is written.

    It is planned with the operators of the newest torch, and without libraries.
    """
    reading = _Archive(container)
    records = [NewRecord(name, container.read(name)) for name in container.records]
    process = Process(_schemas, _schemas, class_of, any_class, lambda schema: None, reading.typed)
    try:
        found = retargeted(container, records, release, keeps_unread=False, process=process)
    except TargetError as error:
        return Plan(False, refusals=tuple(map(str, error.obstacles)))
    except ArchiveError as error:
        return Plan(False, refusals=(str(error),))
    return Plan(True, found.rewritten, found.left_out)


def _schemas(name: str) -> tuple[FunctionSchema, ...]:
    """Return the overloads that the newest torch has, or that no function of ours stands for."""
    newest = overloads_of(name, listed_versions()[-1])
    gone = [candidate.schema for candidate in removed(name)]
    return newest or tuple(schema for schema in overloads_of(name) if schema not in gone)


def any_class(name: str) -> ClassType | None:
    """Return a class that torch binds or bound once, or that a library may."""
    if name in defined_classes():
        return revived_class(name)
    return class_of(name) or (native_class(name) if name.startswith(NATIVE_PREFIX) else None)


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

    def typed(self, index: int) -> tuple[Any, Type]:
        """Return a constant with its type, that of a class by its name."""
        held, type_ = self._constant(index)
        if isinstance(type_, str):
            found = any_class(type_)
            return held.value, UNKNOWN if found is None else found
        return held.value, type_

    def found(self, release: Release) -> Found:
        """Return why a release does not load the archive, or run it."""
        reading = self.code.read_by(release)
        reasons = [*self._format(release)]
        reasons += [
            _of_construct(mention)
            for name, mention in reading.constructs.items()
            if not release.is_since(CONSTRUCTS[name])
        ]
        reasons += self._spelling(release)
        reasons += self._values(release)
        reasons += reasons_of(fault for fault in reading.faults if not fault.is_run)
        return Found(reasons, reasons_of(fault for fault in reading.faults if fault.is_run))

    def _spelling(self, release: Release) -> Iterator[Reason]:
        """Yield what of the text that torch writes today a release does not read."""
        for what, pattern, reads in _SPELLINGS:
            if not reads(release):
                yield from self._first(what, pattern)

    def _first(self, what: str, pattern: re.Pattern[str]) -> Iterator[Reason]:
        for record, text in self.code.texts.items():
            match = pattern.search(text)
            if match is not None:
                line = text.count("\n", 0, match.start()) + 1
                code = text.split("\n")[line - 1].strip()
                yield Reason("construct", f"it does not read {what}", what, record, line, code)
                return

    def notes(self, releases: Sequence[Release]) -> tuple[str, ...]:
        """Return what keeps no release from loading the archive, and is good to know."""
        if all(release.reads_text_tables for release in releases):
            return ()
        names = [name for name in self.container.records if name.endswith(DEBUG_SUFFIX)]
        has_table = any(FORMAT.encode() in self.container.read(name) for name in names)
        return (_TEXT_TABLE,) if has_table else ()

    def _format(self, release: Release) -> Iterator[Reason]:
        if self.version > release.newest_format:
            text = f"it does not read file format {self.version}"
            yield Reason("format", text, "file format", ".data/version")

    @cached_property
    def _missing(self) -> tuple[Reason, ...]:
        """The storages that no release finds."""
        names = (
            (pickle, storage_record(pickle, key, self.container.records))
            for pickle, data in self.pickles.items()
            for key in _stored_in(loads(data, record=pickle))
        )
        return tuple(
            Reason("record", f"there is no record {name}", name, pickle, hint=INCOMPLETE)
            for pickle, name in names
            if name not in self.container.records
        )

    def _values(self, release: Release) -> Iterator[Reason]:
        yield from self._missing
        for record, what, since in dict.fromkeys(self.unread):
            if not release.is_since(since):
                text = f"it does not read {what}"
                yield Reason("pickle", text, what, record, since=since)
        if not release.reads_type_tags and any(_TAG in data for data in self.pickles.values()):
            text = "it does not read values that tell the types of lists and dicts"
            yield Reason("pickle", text, "type tags", _DATA)
        for record, what, last in dict.fromkeys(self.gone):
            if release > Release(last):
                text = f"torch {last} is the last that reads {what}"
                yield Reason("pickle", text, what, record)


def _stored_in(root: Any) -> Iterator[str]:
    """Yield the keys of storages that hold elements: those on the device meta hold none."""
    for key, device in storages_of(root).items():
        if device != "meta":
            yield key


def _of_construct(mention: Mention) -> Reason:
    text = f"it does not read {mention.construct}"
    place = (mention.record, mention.line, mention.code, mention.source)
    since = CONSTRUCTS[mention.construct]
    return Reason("construct", text, mention.construct, *place, since=since)
