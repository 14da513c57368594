"""Which releases run the bytecode of an archive, which phones run in the place of its code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tsarchive.container import Container
from tsarchive.errors import FormatError
from tsarchive.formats.compatibility import Found, Reason, Row, rows_of
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.operators.registry import (
    class_names,
    schema_texts,
    versions_of,
    versions_of_class,
)
from tsarchive.operators.releases import Release
from tsarchive.pickler import loads

from .inspection import BYTECODE, tables_of

# ``kMinSupportedBytecodeVersion`` and ``kMaxSupportedBytecodeVersion`` in the sources of each
# release since the first of these; those of earlier ones are not told here.
_FIRST: Final = "2.0"
_OLDEST, _NEWEST = 4, 9
_CLASS: Final = re.compile(rf"{re.escape(NATIVE_PREFIX)}\w+\.\w+")

MOBILE_NOTES: Final = (
    f"what interpreters of bytecode before torch {_FIRST} read is not known here",
    "an app may be built with a selection of operators: these rows are of one that has all",
)


class Bytecode(NamedTuple):
    """The version of bytecode, and the operators that it calls, with overloads, in their order;
    ``classes`` are those of libraries that its types name."""

    version: int
    operators: tuple[str, ...]
    classes: tuple[str, ...]


def bytecode_of(container: Container) -> Bytecode | None:
    """Return what an archive has in bytecode, if it has any. Raises ArchiveError."""
    if BYTECODE not in container.records:
        return None
    functions = loads(container.read(BYTECODE), record=BYTECODE)
    if not isinstance(functions, tuple) or not functions or type(functions[0]) is not int:
        raise FormatError("the bytecode has no version", record=BYTECODE)
    operators, classes = (dict.fromkeys(find(functions)) for find in (_operators, _classes))
    return Bytecode(functions[0], tuple(operators), tuple(classes))


def _operators(functions: object) -> Iterator[str]:
    for _, table, rows in tables_of(functions):
        for row in rows if table == "operators" else ():
            match row:
                case (str(name), str(overload), *_):
                    yield f"{name}.{overload}" if overload else name


def _classes(functions: object) -> Iterator[str]:
    for _, table, rows in tables_of(functions):
        for row in rows if table == "types" else ():
            if isinstance(row, str):
                yield from _CLASS.findall(row)


def mobile_rows(bytecode: Bytecode, releases: Sequence[Release]) -> tuple[Row, ...]:
    """Return what the interpreter of each release, as far as it is known, does with bytecode."""
    known = [release for release in releases if release.is_since(_FIRST)]
    return rows_of(known, lambda release: Found([*_reasons(bytecode, release)]))


def _reasons(bytecode: Bytecode, release: Release) -> Iterator[Reason]:
    if not _OLDEST <= bytecode.version <= _NEWEST:
        text = f"the bytecode has version {bytecode.version}, and it reads {_OLDEST} to {_NEWEST}"
        yield Reason("format", text, "bytecode", BYTECODE)
    for name in bytecode.classes:
        if name not in class_names():
            yield Reason("library", f"{name} comes with a library", name, BYTECODE)
        elif release.name not in versions_of_class(name):
            yield Reason("class", f"there is no class {name}", name, BYTECODE)
    for operator in bytecode.operators:
        name = operator.partition(".")[0]
        heads = [text.partition("(")[0] for text in schema_texts(name, release.name)]
        if operator in heads:
            continue
        if not versions_of(name):
            yield Reason("library", f"{name} comes with a library", name, BYTECODE)
        else:
            yield Reason("operator", f"there is no operator {operator}", operator, BYTECODE)
