"""Which files there are in folders, buckets and lists, one after the other."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TextIO, TypeAlias

from tsarchive.formats.registry import FORMATS
from tsarchive.remote import is_url, located
from tsarchive.remote.failures import attempted
from tsarchive.remote.opening import filesystem_of, info_of, version_of
from tsarchive.remote.urls import Url, shown

# Those of torch.save and its users beside those that formats have, and of formats that are only
# looked at.
_OTHER_SUFFIXES: Final = (
    ".bin", ".bpte", ".ckpt", ".pickle", ".pkl", ".ptd", ".ptl", ".safetensors", ".zip",
)  # fmt: skip
SIGNATURES: Final = (".asc", ".minisig", ".sig", ".sigstore", ".sigstore.json")
"""The ends of names of signatures: that of ``model.pt`` may be ``model.pt.sig``."""
SIGNATURE: Final = "signature"
"""The kind of files that are called so, and are of no kind that is known."""
_OF_FORMATS: Final = tuple(suffix for each in FORMATS for suffix in each.suffixes)
SUFFIXES: Final = tuple(sorted({*_OTHER_SUFFIXES, *_OF_FORMATS, *SIGNATURES}))
"""The suffixes of files that are listed where nobody asks for all."""
# What is no UTF-8, and what looks like the escape of it.
_ESCAPED: Final = re.compile(r"[\ud800-\udfff]|\\ud[89a-f]")
_SCHEME: Final = "://"
_COMMENT: Final = "#"
_CHAIN: Final = "::"
_Entries: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """A file to survey, as :class:`FileRow` names it; ``place`` is the path or URL to open.

    ``nbytes`` and ``version`` are None where the listing does not tell. A file that was found
    below a URL has that as ``bucket``, and ``key`` as its path in the filesystem there: by these
    it is opened, since its name may hold what means something else in a URL.
    """

    root: str
    path: str
    place: str
    nbytes: int | None = None
    version: str | None = None
    bucket: str | None = None
    key: str | None = None


def text_of(name: str) -> str:
    """Return a name as it stands in rows: bytes that are no UTF-8 are escapes (``\\udcff``).

    No two names have the same text: with such bytes, or what looks so, backslashes are doubled.
    """
    if _ESCAPED.search(name):
        name = name.replace("\\", r"\\")
    return name.encode("utf-8", "backslashreplace").decode()


def name_of(root: str) -> str:
    """Return the name that a root has in rows, however many slashes it ends with."""
    if not is_elsewhere(root):
        return text_of(os.path.normpath(root))
    return text_of(shown(root if root.endswith(_SCHEME) else root.rstrip("/")))


class RootNames:
    """The names of roots in rows. A folder has one, that of its first spelling."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._of_folders: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the name for a root whose own one is ``name``."""
        if name not in self._names:
            is_path = bool(name) and "\0" not in name and not is_elsewhere(name)
            folder = os.path.realpath(name) if is_path else name
            self._names[name] = self._of_folders.setdefault(folder, name)
        return self._names[name]


def listed(root: str, *, all_files: bool = False) -> Iterator[Listed]:
    """Yield the files of a folder or bucket with all that is below, or one file by its name.

    Of folders, names that begin with a dot are left out and, without ``all_files``, those with a
    suffix other than ``SUFFIXES``. Links to folders are not followed, nor links to files outside
    of the root. The order is that of the filesystem.

    Raises OSError for a root that is not there or cannot be listed, which is a RemoteError for a
    URL, also where the package is missing that reads it.
    """
    is_wanted = _any if all_files else _has_suffix
    if is_elsewhere(root):
        yield from _elsewhere(root, is_wanted)
        return
    require_name(root)
    status = os.stat(root)
    if stat.S_ISDIR(status.st_mode):
        yield from _folder(root, is_wanted)
    else:
        yield _single(root, status)


def named_in(path: str, *, all_files: bool = False) -> Iterator[Listed]:
    """Yield the files of all roots that a text file lists, one a line; ``-`` is standard input.

    Lines that are empty, or begin with ``#``, name none.
    A root that cannot be listed is yielded as a file, which tells when it is read.
    """
    if path == "-":
        yield from _of_lines(sys.stdin, all_files=all_files)
        return
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as lines:
        yield from _of_lines(lines, all_files=all_files)


def _of_lines(lines: TextIO, *, all_files: bool) -> Iterator[Listed]:
    for root in map(str.strip, lines):
        if not root or root.startswith(_COMMENT):
            continue
        try:
            yield from listed(root, all_files=all_files)
        except OSError:
            yield Listed("", name_of(root), root)


def require_name(path: str) -> None:
    """Raise FileNotFoundError for a path that no file can have."""
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def is_elsewhere(place: str) -> bool:
    """Return whether a place is a URL, and no path."""
    return is_url(located(place))


def _any(name: str) -> bool:
    return not name.startswith(".")


def _has_suffix(name: str) -> bool:
    return _any(name) and name.lower().endswith(SUFFIXES)


def _single(path: str, status: os.stat_result) -> Listed:
    return Listed("", name_of(path), path, status.st_size, str(status.st_mtime_ns))


def _folder(root: str, is_wanted: Callable[[str], bool]) -> Iterator[Listed]:
    """Yield the files below a folder, and each folder in it that cannot be listed as if a file."""
    name, real_root = name_of(root), os.path.realpath(root)
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            for entry in _entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] * _any(entry.name)
                elif is_wanted(entry.name) and _is_inside(entry, real_root):
                    yield _found(entry, root, name)
        except OSError:
            if folder == root:
                raise
            yield Listed(name, text_of(os.path.relpath(folder, root)), folder)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _found(entry: os.DirEntry[str], root: str, name: str) -> Listed:
    path = text_of(os.path.relpath(entry.path, root))
    try:
        status = entry.stat()
    except OSError:  # it has gone, which is told where it is read
        return Listed(name, path, entry.path)
    return Listed(name, path, entry.path, status.st_size, str(status.st_mtime_ns))


def _is_inside(entry: os.DirEntry[str], real_root: str) -> bool:
    """Return whether an entry is a regular file and, if it is a link, one to a file of the root.

    A link that cannot be followed counts as one: where it is read, the reason is told.
    """
    try:
        if not entry.is_file():
            return False
    except OSError:
        return True
    if not entry.is_symlink():
        return True
    return os.path.commonpath([real_root, os.path.realpath(entry.path)]) == real_root


def _elsewhere(root: str, is_wanted: Callable[[str], bool]) -> Iterator[Listed]:
    told = info_of(root)
    if told["type"] == "directory":
        yield from _bucket(root, is_wanted)
    else:
        yield Listed("", name_of(root), root, told.get("size"), version_of(told))


def _bucket(root: str, is_wanted: Callable[[str], bool]) -> Iterator[Listed]:
    name = name_of(root)
    filesystem, path = filesystem_of(root)
    for folder, files in _walked(Url(root), filesystem, path):
        for file in filter(is_wanted, files):
            within = "/".join(filter(None, (folder[len(path) :].strip("/"), file)))
            told, place = files[file], _joined(root, within)
            yield Listed(
                name, text_of(within), place, told.get("size"), version_of(told), root, told["name"]
            )


def _walked(url: Url, filesystem: Any, path: str) -> Iterator[tuple[str, _Entries]]:
    """Yield folders with the files in them by name, as they are now. Raises RemoteError."""
    filesystem.invalidate_cache()
    walk = filesystem.walk(path, detail=True, on_error="raise")
    while (found := attempted(url, lambda: next(walk, None))) is not None:
        folder, folders, files = found
        for hidden in [each for each in folders if not _any(each)]:
            del folders[hidden]  # walk goes into those that are left
        if files.get("", {}).get("type") == "directory":
            del files[""]
            files |= attempted(url, partial(_nameless, filesystem, folder))
        yield folder, files
        filesystem.invalidate_cache(folder)  # the listings of all would fill memory


def _nameless(filesystem: Any, folder: str) -> _Entries:
    """Return what is below a folder without a name, which walks do not go into: ``/b.pt``."""
    found = filesystem.find(folder, detail=True)
    filesystem.invalidate_cache()  # of listings that lack such folders
    below = {name.removeprefix(f"{folder}/"): told for name, told in found.items()}
    return {
        name: told
        for name, told in below.items()
        if name.startswith("/") and all(map(_any, name.split("/")))
    }


def _joined(root: str, within: str) -> str:
    """Return the URL of a file below a root, which may be a chain such as ``zip://::s3://...``."""
    first, chain, others = root.partition(_CHAIN)
    slash = "" if first.endswith("/") else "/"
    return f"{first}{slash}{within}{chain}{others}"
