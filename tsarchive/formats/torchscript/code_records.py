"""Code records, and the version that determines their meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsarchive.container import Container
from tsarchive.errors import ArchiveError, FormatError, MissingRecordError

# The versions of archives that torch has written since 1.0.
OLDEST_VERSION, NEWEST_VERSION = 1, 10
# If both are present, the first takes precedence.
VERSION_RECORDS = (".data/version", "version")

# Strings may hold bytes that are not UTF-8.
_ENCODING = ("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """Return the text of a code record as it is stored."""
    return text.encode(*_ENCODING)


def format_version(container: Container) -> int:
    """Return the number in the version record.

    Raises MissingRecordError when there is none, FormatError when it is not a number.
    """
    name = next((name for name in VERSION_RECORDS if name in container.records), None)
    if name is None:
        raise MissingRecordError(
            "the archive has no version", record="version", hint="The file may be incomplete"
        )
    text = container.read(name).strip()
    if not (text.isdigit() and len(text) < 10):
        raise FormatError(f"the version is {text[:20]!r}, not a number", record=name)
    return int(text)


def presumed_version(container: Container) -> int:
    """Return the format version, or the newest where none can be read."""
    try:
        return format_version(container)
    except ArchiveError:
        return NEWEST_VERSION


class CodeRecords(Mapping[str, str]):
    """The code records of a container, those in ``folders``, as text."""

    def __init__(self, container: Container, folders: tuple[str, ...] = ("code/",)) -> None:
        self._container = container
        self._names = dict.fromkeys(
            name for name in container.records if name.startswith(folders) and name.endswith(".py")
        )

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return self._container.read(name).decode(*_ENCODING)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __repr__(self) -> str:
        return f"<code: {', '.join(self._names) or 'none'}>"
