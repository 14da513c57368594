"""The operators that each torch registers, with their schemas. Torch is not needed to ask.

``schemas.txt`` names in its head the versions that were read and those that tsarchive was tried
with. Each other line is a schema as torch writes it, and behind a tab the versions that have it:
``1.4-1.9,2.1-`` are those from 1.4 to 1.9 and all since 2.1. Operators stand in the order of their
names, and the overloads of one in the order in which torch tries them. Behind the operators of
torch stand the methods of classes that it binds, by the qualified name of the class.
``nox -s registry`` writes the file.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from io import BytesIO
from itertools import groupby
from typing import Any, Final, NamedTuple

from tsarchive.errors import TorchVersionError

_CLASS: Final = "__torch__."
_HEAD_LINES: Final = 2
_SCHEMAS: Final = "schemas.txt"


class Entry(NamedTuple):
    """A schema, and the versions of torch that have it, oldest first."""

    text: str
    versions: tuple[str, ...]


def schema_texts(name: str, version: str | None = None) -> tuple[str, ...]:
    """Return the overloads of an operator ("aten::add") in the order in which torch tries them.

    ``version`` is one of :func:`listed_versions`; without one it is the newest that has the
    operator. Empty where there is none.
    """
    return _of_version(entries_of(name), version)


def method_texts(class_name: str, version: str | None = None) -> tuple[str, ...]:
    """Return the same for the methods of a class, ``__torch__.torch.classes.rnn.CellParamsBase``.

    Their names stand behind that of the class and a dot.
    """
    return _of_version(tuple(_entries(class_name, ".")), version)


@lru_cache(1024)
def versions_of_class(name: str) -> frozenset[str]:
    """Return the versions of torch that bind a class, those whose schemas name it.

    ``name`` is one of :func:`class_names`.
    """
    word = re.compile(rf"{re.escape(name)}(?!\w)")
    spans = (line.rpartition("\t")[2] for line in _lines() if name in line and word.search(line))
    return frozenset(version for span in spans for version in _versions_in(span))


def versions_of(name: str) -> tuple[str, ...]:
    """Return the versions of torch that have an operator, oldest first."""
    found = {version for entry in entries_of(name) for version in entry.versions}
    return tuple(sorted(found, key=_place))


def operator_names() -> Iterator[str]:
    """Yield the operators of all versions, in the order of their names."""
    heads = (line.partition("(")[0] for line in _lines()[_HEAD_LINES:])
    names = (head.partition(".")[0] for head in heads if not head.startswith(_CLASS))
    yield from (name for name, _ in groupby(names))


@cache
def class_names() -> frozenset[str]:
    """Return the qualified names of the classes that torch binds, all that schemas name."""
    return frozenset(re.findall(r"__torch__\.torch\.classes\.\w+\.\w+", "\n".join(_lines())))


@lru_cache(4096)  # archives give the names
def entries_of(name: str) -> tuple[Entry, ...]:
    """Return all schemas that versions of torch have had for an operator."""
    return tuple(_entries(name, ".(")) if "::" in name else ()


@cache
def listed_versions() -> tuple[str, ...]:
    """Return the versions of torch whose schemas are known, such as "2.13", oldest first."""
    return tuple(map(minor, _head()[0].split()[2:]))


@cache
def tried_versions() -> tuple[str, ...]:
    """Return the versions of torch that were tried, such as "2.13", oldest first."""
    return tuple(map(minor, _head()[1].split()[2:]))


def _of_version(entries: Sequence[Entry], version: str | None) -> tuple[str, ...]:
    wanted = version or max((e.versions[-1] for e in entries), key=_place, default="")
    return tuple(entry.text for entry in entries if wanted in entry.versions)


def _entries(beginning: str, ends: str) -> Iterator[Entry]:
    lines = _lines()
    at = bisect_left(lines, beginning, lo=_HEAD_LINES)
    while at < len(lines) and lines[at].startswith(beginning) and lines[at][len(beginning)] in ends:
        text, _, spans = lines[at].rpartition("\t")
        yield Entry(text, _versions_in(spans))
        at += 1


@cache
def _lines() -> list[str]:
    return table_text(_SCHEMAS).splitlines()


@cache
def _head() -> list[str]:
    """Return the first lines; to cut all of the text takes long, and is seldom needed."""
    stream = BytesIO(_table_data(_SCHEMAS))
    return [stream.readline().decode("ascii") for _ in range(_HEAD_LINES)]


def table_text(name: str) -> str:
    """Return the text of a table that lies beside the modules here."""
    return _table_data(name).decode("ascii")


def _table_data(name: str) -> bytes:
    # importlib.resources does the same, and imports seventy modules.
    loader: Any = sys.modules[__name__].__loader__
    data: bytes = loader.get_data(f"{os.path.dirname(__file__)}/{name}")
    return data


@cache
def _versions_in(spans: str) -> tuple[str, ...]:
    found: list[str] = []
    for span in spans.split(","):
        first, is_range, last = span.partition("-")
        end = _place(last) if last else len(listed_versions()) - 1 if is_range else _place(first)
        found += listed_versions()[_place(first) : end + 1]
    return tuple(found)


def _place(version: str) -> int:
    return listed_versions().index(version)


def minor(version: str) -> str:
    """Return the release of a version as tables here name it: ``2.13`` for ``2.13.0+cpu``."""
    return ".".join(version.split(".")[:2])


_NUMBERS: Final = r"(\d+)\.(\d+)"


class Span(NamedTuple):
    """The first and the last version, among those that were tried, with an operator."""

    first: str
    last: str


@cache
def known_operators() -> dict[str, Span]:
    """Return the operators of all versions that were tried."""
    spans = ((name, span_of(name)) for name in operator_names())
    return {name: span for name, span in spans if span is not None}


def span_of(name: str) -> Span | None:
    """Return the first and the last version that has an operator, by its name without overload."""
    tried = [version for version in versions_of(name) if version in tried_versions()]
    return Span(tried[0], tried[-1]) if tried else None


def versions_with(name: str) -> str | None:
    """Say which versions have the operator ``name`` ("aten::add"); None where none is known.

    Of those that were tried, if any of them has it.
    """
    listed = versions_of(name.partition(".")[0])
    span = [version for version in listed if version in tried_versions()] or listed
    return "torch " + " to ".join(dict.fromkeys((span[0], span[-1]))) if span else None


@cache
def installed_torch() -> str | None:
    """Return the version of torch that is installed, without importing it."""
    from importlib import metadata  # it imports forty modules, which most commands do not need

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def is_of_another_build(name: str) -> bool:
    """Return whether some build of the installed version of torch has the operator ``name``."""
    span = span_of(name.partition(".")[0])
    numbers = _numbers(installed_torch() or "")
    return span is not None and _numbers(span.first) <= numbers <= _numbers(span.last)


def untried_torch() -> str | None:
    """Say that the installed torch is newer or older than all that were tried; None if it is not.

    A version without numbers says nothing.
    """
    installed = installed_torch() or ""
    oldest, newest = tried_versions()[0], tried_versions()[-1]
    if _numbers(installed, newest) > _numbers(newest):
        return f"torch {installed} is newer than {newest}, the newest that tsarchive was tried with"
    if _numbers(installed, oldest) < _numbers(oldest):
        return _needed(installed)
    return None


def with_untried_torch(hint: str) -> str:
    """Add to a hint what ``untried_torch`` says, if it says anything."""
    return "; ".join(filter(None, (hint, untried_torch())))


def require_torch(version: str) -> None:
    """Raise TorchVersionError for a torch that is older than all that were tried."""
    oldest = tried_versions()[0]
    if _numbers(version, oldest) < _numbers(oldest):
        raise TorchVersionError(_needed(version), hint="pip install --upgrade torch")


def _needed(version: str) -> str:
    return f"tsarchive needs torch {tried_versions()[0]} or later; this is torch {version}"


def _numbers(version: str, otherwise: str = "") -> tuple[int, ...]:
    match = re.match(_NUMBERS, version) or re.match(_NUMBERS, otherwise)
    return tuple(map(int, match.groups())) if match else ()
