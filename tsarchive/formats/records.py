"""The table of records that a format has: how they are named, what they are, who reads them."""

from __future__ import annotations

import re
from enum import Enum
from functools import cached_property
from typing import Final, NamedTuple


class Role(Enum):
    """The purpose of a record, as the groups that audit and info count it in."""

    CODE = "code", "code"
    BYTECODE = "pickles", "bytecode"
    PROGRAM = "programs", "code"
    PYTHON = "Python source", "code"
    OBJECTS = "pickles", "objects"
    CONFIGURATION = "notes", "objects"
    DEBUG = "debug records", "debug"
    DEBUG_PICKLE = "pickles", "debug"
    TENSORS = "tensors", "tensors"
    INPUTS = "example inputs", "inputs"
    INPUT_PICKLE = "pickles", "inputs"
    NATIVE = "native code", "machine code"
    BESIDE_NATIVE = "notes", "machine code"
    UNKNOWN_BESIDE_NATIVE = "other", "machine code"
    EXECUTORCH = "programs of ExecuTorch", "machine code"
    EXTRA = "extra files", "extra"
    NOTES = "notes", "other"
    OTHER = "other", "other"
    # Parts of files of ExecuTorch. Some are seen elsewhere, so facts do not count them.
    HEADER = "header", "header"
    TABLES = "tables", "tables"
    PROGRAM_TABLES = "program", "tables"
    SEGMENT = "segments", "segments"
    NAMED_DATA = "named_data", ""
    INLINE_CONSTANT = "constants", "inline data"
    INLINE_DELEGATE = "delegates", "inline data"
    TEST_DATA = "test_suites", "test data"
    BUNDLE = "bundle", ""

    @property
    def audited(self) -> str:
        """The group in reports of audit."""
        return self.value[0]

    @property
    def described(self) -> str:
        """The group in facts of info; empty for what they count elsewhere."""
        return self.value[1]

    @property
    def is_of_elements(self) -> bool:
        """True for elements of weights, of constants and of example inputs."""
        return self in (Role.TENSORS, Role.INPUTS)

    @property
    def is_bulk(self) -> bool:
        """True for what nothing needs that lists, reads code or checks it: above all weights."""
        return self in _BULK


_BULK: Final = frozenset({
    Role.TENSORS, Role.INPUTS, Role.NATIVE, Role.UNKNOWN_BESIDE_NATIVE, Role.EXECUTORCH,
    Role.EXTRA, Role.OTHER,
})  # fmt: skip

GROUPS: Final = (
    "extra", "machine code", "inputs", "debug", "code", "bytecode", "tensors", "objects",
    "other",
)  # fmt: skip
"""The groups of facts of zip archives, in the order in which they are shown."""


class Reader(Enum):
    """The reader of a record."""

    FORMAT = "what loads files of the format"
    USER = "the user who put it there"
    FOREIGN = "what reads files of another format, if anything"


class Row(NamedTuple):
    """The records whose whole name matches ``pattern``."""

    pattern: str
    role: Role
    reader: Reader = Reader.FORMAT


ZIP_NOTES: Final = Row(r"(\.data/)?version|byteorder|\.data/serialization_id", Role.NOTES)
"""The notes of torch's writer of zip archives."""
_UNKNOWN: Final = Row("", Role.OTHER, Reader.FOREIGN)


class RecordTable:
    """The rows of one format, of which the first that matches counts."""

    def __init__(self, *rows: Row) -> None:
        self.rows = rows

    @cached_property
    def _compiled(self) -> tuple[tuple[re.Pattern[str], Row], ...]:
        return tuple((re.compile(row.pattern, re.DOTALL), row) for row in self.rows)

    def row(self, name: str) -> Row:
        """Return the row of a record; one for foreign readers where the table has none."""
        return next((row for pattern, row in self._compiled if pattern.fullmatch(name)), _UNKNOWN)

    def role(self, name: str) -> Role:
        """Return the role of the record of this name."""
        return self.row(name).role

    def has(self, name: str) -> bool:
        """Return whether the format has a record of this name."""
        return self.row(name).reader is not Reader.FOREIGN
