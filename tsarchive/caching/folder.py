"""The folder of cached code, and its entries on disk.

An entry is a file: a mark, the key that it was written for, a digest over key and content, and the
content. It is read whole, and nothing in it is looked at before the digest and the key fit. That
finds accidents. It is no signature: whoever may write in the folder decides what its owner runs, so
a folder, or an entry, that others may write to is not used at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

VARIABLE: Final = "TSARCHIVE_CACHE"
"""The environment variable that names the folder; ``0``, ``off``, ``no``, ``false`` or nothing for
no cache, and ``1``, ``on``, ``yes`` or ``true`` for the folder that is used without it."""

MOST_BYTES: Final = 256 << 20
"""The size of the folder beyond which the entries that were not used for longest go."""

_MARK: Final = b"tsarchive code 1"
_DIGEST: Final = 32
_START: Final = len(_MARK) + 2 * _DIGEST
_NAME: Final = r"[0-9a-f]{64}\.code"
_TEMPORARY: Final = r"tmp\w+\.part"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
# Once more than the bound is there, this part of it is left.
_KEPT: Final = 0.75
_LONGEST_WRITE: Final = 3600.0
_BINARY: Final = getattr(os, "O_BINARY", 0)
_OFF: Final = frozenset({"", "0", "false", "no", "off"})
_ON: Final = frozenset({"1", "true", "yes", "on"})

logger = logging.getLogger("tsarchive.cache")


class State(Enum):
    """Whether a folder can be used; the values are what to say of it."""

    READY = "ready"
    ABSENT = "not there yet"
    IMPOSSIBLE = "it is not there, and cannot be made"
    LINK = "a link stands in its place"
    NO_FOLDER = "a file stands in its place"
    FOREIGN = "it belongs to another user"
    OPEN = "other users may write to it"
    UNREADABLE = "it cannot be read"


class Entry(NamedTuple):
    """A file of the folder: its size in bytes, and when it was last used, in seconds."""

    path: Path
    size: int
    used: float


def cache_folder() -> CacheFolder | None:
    """Return the folder of this user, or the one that the environment names; None for none."""
    if is_turned_off():
        return None
    named = os.environ.get(VARIABLE)
    if named is not None and named.lower() not in _ON:
        return CacheFolder(Path(os.path.abspath(os.path.expanduser(named))))
    try:
        from platformdirs import user_cache_dir

        return CacheFolder(Path(user_cache_dir("tsarchive", appauthor=False)))
    except (ImportError, RuntimeError, KeyError):  # a user without a home
        return None


def is_turned_off() -> bool:
    """Return whether the environment says that nothing is kept."""
    named = os.environ.get(VARIABLE)
    return named is not None and named.lower() in _OFF


class CacheFolder:
    """Reads and writes entries. Nothing that fails here may disturb who asks: it is logged."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def state(self) -> State:
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return State.ABSENT if _can_be_made(self.path) else State.IMPOSSIBLE
        except OSError:
            return State.UNREADABLE
        if stat.S_ISLNK(found.st_mode):
            return State.LINK
        if not stat.S_ISDIR(found.st_mode):
            return State.NO_FOLDER
        if not _is_own(found):
            return State.FOREIGN
        return State.OPEN if _is_open(found) else State.READY

    def read(self, key: bytes) -> bytes | None:
        """Return what was written for a key of 32 bytes; None where nothing whole is there."""
        try:
            if self.state() is not State.READY:
                return None
            data = self._file(self._path(key))
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.debug("the entry %s cannot be read: %s", key.hex(), error)
            return None
        content = None if data is None else _content(data, key)
        if content is None:
            logger.debug("the entry %s is not used: it is damaged, or not this user's", key.hex())
        return content

    def write(self, key: bytes, content: bytes) -> bool:
        """Put an entry in its place, whole; false where that is impossible."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.state() is not State.READY:
                return False
            self._put(self._path(key), b"".join((_MARK, key, _digest(key, content), content)))
            self.trim(MOST_BYTES)
        except OSError as error:
            logger.debug("the entry %s cannot be written: %s", key.hex(), error)
            return False
        return True

    def entries(self) -> list[Entry]:
        """Return the entries, those that were used last first."""
        found = [_entry(path) for path in self._files(_NAME)]
        return sorted((entry for entry in found if entry), key=lambda one: (-one.used, one.path))

    def trim(self, most: int) -> list[Entry]:
        """Remove the entries that were not used for longest where there are more bytes.

        Returns what is gone. What writers have left behind that were killed goes, too.
        """
        for path in self._files(_TEMPORARY):
            with contextlib.suppress(OSError):
                if time.time() - path.lstat().st_mtime > _LONGEST_WRITE:
                    _remove(path)
        entries = self.entries()
        left = sum(entry.size for entry in entries)
        if left <= most:
            return []
        gone: list[Entry] = []
        while entries and left > most * _KEPT:
            gone.append(entries.pop())
            left -= gone[-1].size
            _remove(gone[-1].path)
        return gone

    def empty(self) -> list[Entry]:
        """Remove all entries, and what writers have left behind that were killed."""
        gone = self.entries()
        for path in (*(entry.path for entry in gone), *self._files(_TEMPORARY)):
            _remove(path)
        return gone

    def _path(self, key: bytes) -> Path:
        return self.path / f"{key.hex()}.code"

    def _files(self, names: str) -> Iterator[Path]:
        if self.state() is not State.READY:
            return
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path):
                if re.fullmatch(names, name):
                    yield self.path / name

    def _file(self, path: Path) -> bytes | None:
        """Return the bytes of a file that is this user's alone, and note that it was used."""
        # A link is not followed, and a pipe in the place of a file not waited for.
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, os.O_RDONLY | _BINARY | flags)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            is_file = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if not is_file or _is_open(found) or not _is_own(found) or found.st_size > MOST_BYTES:
                return None
            with contextlib.suppress(OSError):
                os.utime(path)
            return file.read()

    def _put(self, path: Path, data: bytes) -> None:
        # Not by tempfile, whose lock may be held: this may run while garbage is collected.
        temporary = self.path / f"tmp{os.getpid()}_{os.urandom(8).hex()}.part"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise


def _can_be_made(path: Path) -> bool:
    """Return whether this user may write where the first missing folder of a path belongs."""
    return os.access(next(filter(os.path.exists, path.parents), path.anchor), os.W_OK | os.X_OK)


def _is_own(found: os.stat_result) -> bool:
    """Return whether a file belongs to this user, where systems tell."""
    user = getattr(os, "geteuid", None)
    return user is None or found.st_uid == user()


def _is_open(found: os.stat_result) -> bool:
    return os.name == "posix" and bool(found.st_mode & _OTHERS_WRITE)


def _digest(key: bytes, content: bytes) -> bytes:
    digest = hashlib.sha256(_MARK + key)
    digest.update(content)
    return digest.digest()


def _content(data: bytes, key: bytes) -> bytes | None:
    """Return the content of an entry; None where it is damaged, or of another key."""
    mark, content = data[: len(_MARK)], data[_START:]
    own, digest = data[len(_MARK) : _START - _DIGEST], data[_START - _DIGEST : _START]
    is_whole = mark == _MARK and own == key and digest == _digest(key, content)
    return content if is_whole else None


def _entry(path: Path) -> Entry | None:
    try:
        found = path.lstat()
    except OSError:
        return None  # another process has removed it
    return Entry(path, found.st_size, found.st_mtime)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
