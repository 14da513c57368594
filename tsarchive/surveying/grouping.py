"""Counts and groups of a million names: beyond a bound they go to a temporary database on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

_CACHED_KIB: Final = 32 << 10
_HELD: Final = 1 << 16
_MEMBERS_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Top(Generic[Item]):
    """The first ``items`` of a list that has ``total``."""

    items: tuple[Item, ...]
    total: int

    @property
    def left_out(self) -> int:
        """The number of those that are not among ``items``."""
        return self.total - len(self.items)


@dataclass(frozen=True, slots=True)
class Count:
    """The number of files that have something in common, and their bytes."""

    name: str
    files: int
    nbytes: int


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A file, as its row names it: by its path, and the root that was surveyed."""

    root: str
    path: str

    def __str__(self) -> str:
        """Return the path or URL; the root may be a chain such as ``zip://::s3://...``."""
        first, chain, others = self.root.partition("::")
        between = "/" if first and not first.endswith("/") else ""
        return f"{first}{between}{self.path}{chain}{others}"


@dataclass(frozen=True, slots=True)
class TwinGroup:
    """Files with one digest. ``saved_nbytes`` are those of all but the smallest of them.

    ``places`` are the first of them, by root and path.
    """

    digest: str
    files: int
    nbytes: int
    saved_nbytes: int
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Twins:
    """Groups of files that share a digest, and what would be saved with one of each group."""

    largest: Top[TwinGroup]
    files: int
    saved_nbytes: int


def _opened(layout: str) -> sqlite3.Connection:
    """Return a new database that SQLite keeps in memory as long as it is small.

    Its file has no name, and goes with the connection.
    """
    database = sqlite3.connect("", isolation_level=None)
    database.executescript(
        f"PRAGMA cache_size = -{_CACHED_KIB}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
        f"{layout}; BEGIN"
    )
    return database


def _stored(text: str) -> bytes:
    """Encode text so that bytes have its order; names of files may hold any surrogate."""
    return text.encode("utf-8", "surrogatepass")


def _read(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


class Tally:
    """Counts files by name, however many names there are."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, int]] = {}
        self._database: sqlite3.Connection | None = None

    def add(self, name: str, nbytes: int) -> None:
        """Count one file of this name."""
        files, before = self._held.get(name, (0, 0))
        self._held[name] = files + 1, before + nbytes
        if len(self._held) >= _HELD:
            self._spill()

    def largest(self, most: int) -> Top[Count]:
        """Return the names with most files; names that have as many by the alphabet."""
        if self._database is None:
            ordered = sorted(self._held.items(), key=lambda item: (-item[1][0], item[0]))
            return Top(tuple(Count(n, *counts) for n, counts in ordered[:most]), len(ordered))
        database = self._spill()
        (total,) = database.execute("SELECT COUNT(*) FROM tally").fetchone()
        found = database.execute(
            "SELECT name, files, nbytes FROM tally ORDER BY files DESC, name LIMIT ?", (most,)
        )
        return Top(tuple(Count(_read(name), *counts) for name, *counts in found), total)

    def _spill(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = _opened("CREATE TABLE tally (name BLOB PRIMARY KEY, files, nbytes)")
        self._database.executemany(
            "INSERT INTO tally VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "files = files + excluded.files, nbytes = nbytes + excluded.nbytes",
            ((_stored(name), *counts) for name, counts in self._held.items()),
        )
        self._held.clear()
        return self._database


class Groups:
    """Files by a digest that they share."""

    def __init__(self) -> None:
        self._is_indexed = False
        self._database = _opened("CREATE TABLE member (digest, root, path, nbytes)")

    def add(self, digest: str, place: Place, nbytes: int) -> None:
        """Take in a file. All are added before any question is asked."""
        row = (*map(_stored, (digest, place.root, place.path)), nbytes)
        self._database.execute("INSERT INTO member VALUES (?, ?, ?, ?)", row)

    def twins(self, most: int) -> Twins:
        """Return the groups of two files or more, those first that waste most bytes."""
        self._index()
        groups = (
            "SELECT digest, COUNT(*) AS files, SUM(nbytes) AS nbytes, "
            "SUM(nbytes) - MIN(nbytes) AS saved FROM member GROUP BY digest HAVING files > 1"
        )
        total, files, saved = self._database.execute(
            f"SELECT COUNT(*), COALESCE(SUM(files), 0), COALESCE(SUM(saved), 0) FROM ({groups})"
        ).fetchone()
        rows = self._database.execute(
            f"{groups} ORDER BY saved DESC, files DESC, digest LIMIT ?", (most,)
        ).fetchall()
        return Twins(Top(tuple(self._group(*row) for row in rows), total), files, saved)

    def first(self, digest: str) -> Place | None:
        """Return the first file with this digest, by root and path."""
        return next(self._places(_stored(digest), 1), None)

    def _group(self, digest: bytes, files: int, nbytes: int, saved: int) -> TwinGroup:
        places = tuple(self._places(digest, _MEMBERS_NAMED))
        return TwinGroup(_read(digest), files, nbytes, saved, places)

    def _places(self, digest: bytes, most: int) -> Iterator[Place]:
        self._index()
        found = self._database.execute(
            "SELECT root, path FROM member WHERE digest = ? ORDER BY root, path LIMIT ?",
            (digest, most),
        )
        return (Place(*map(_read, row)) for row in found)

    def _index(self) -> None:
        if not self._is_indexed:
            self._database.execute("CREATE INDEX by_digest ON member (digest, root, path, nbytes)")
            self._is_indexed = True


class Notes:
    """The first text that each file has under each of several keys."""

    def __init__(self) -> None:
        self._database = _opened(
            "CREATE TABLE note (key, root, path, text, PRIMARY KEY (key, root, path)) WITHOUT ROWID"
        )

    def add(self, key: int, place: Place, text: str) -> None:
        """Note a text of a file, if there is none under this key."""
        row = (key, *map(_stored, (place.root, place.path, text)))
        self._database.execute("INSERT OR IGNORE INTO note VALUES (?, ?, ?, ?)", row)

    def get(self, key: int, place: Place) -> str | None:
        """Return the text of a file under a key."""
        found = self._database.execute(
            "SELECT text FROM note WHERE key = ? AND root = ? AND path = ?",
            (key, *map(_stored, (place.root, place.path))),
        ).fetchone()
        return None if found is None else _read(found[0])
