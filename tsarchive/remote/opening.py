"""Files elsewhere by their URLs: what reads them, and what writes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from tsarchive.errors import RemoteError
from tsarchive.remote.failures import attempted
from tsarchive.remote.urls import Url

if TYPE_CHECKING:
    from tsarchive.remote.http import HttpRanges
    from tsarchive.remote.ranges import Ranges

_WEB: Final = ("http://", "https://")
_CHAIN: Final = "::"
_BY_HAND: Final = "Write it to a path, and put it there with tools of that place"
_STORED: Final = 0  # as zip files call it
# What is put there is there whole or not at all. Elsewhere a file may be seen while it grows.
_PUT_WHOLE: Final = {
    "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hf", "oss", "oci", "ocilake", "b2",
    "r2", "tos", "obs", "swift",
}  # fmt: skip


def ranges_of(url: str) -> Ranges:
    """Return what reads the file of a URL, through fsspec.

    Raises RemoteError where a package is missing, fsspec does not know what the URL says, or it
    leads into a packed file that cannot be read.
    """
    place = Url(url)
    return attempted(place, lambda: _ranges(place))


def ranges_within(root: str, path: str, name: str) -> Ranges:
    """Return what reads the file of this path in the filesystem of a root, both URLs given whole.

    No part of the path is taken for a URL, whatever it holds. ``name`` is the URL that errors call
    the file by. Raises RemoteError as ``ranges_of`` does.
    """
    place = Url(name)
    return attempted(place, lambda: _of_filesystem(place, _found(Url(root))[0], path))


def info_of(url: str) -> Mapping[str, Any]:
    """Return what is told of a file or folder now, by the names of fsspec's ``info``.

    These are ``type``, ``size``, which is None where it is not told, and what tells versions apart.
    Raises RemoteError where nothing is told.
    """
    place = Url(url)
    return attempted(place, lambda: _info(place))


def version_of(info: Mapping[str, Any]) -> str | None:
    """Return what tells one version of a file from others; None where ``info`` does not."""
    from tsarchive.remote.filesystems import OF_A_VERSION

    return next((str(info[key]) for key in OF_A_VERSION if info.get(key) is not None), None)


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return the filesystem of a URL, and the path in it. Raises RemoteError where none is."""
    place = Url(url)
    return attempted(place, lambda: _found(place))


def _info(url: Url) -> Mapping[str, Any]:
    if url.full.lower().startswith(_WEB):
        return _on_the_web(url).info()
    filesystem, path = _found(url)
    filesystem.invalidate_cache(path)
    found: Mapping[str, Any] = filesystem.info(path)
    return found


def _ranges(url: Url) -> Ranges:
    if url.full.lower().startswith(_WEB):
        return _on_the_web(url)
    filesystem, path = _found(url)
    return _of_filesystem(url, filesystem, path)


def _of_filesystem(url: Url, filesystem: Any, path: str) -> Ranges:
    from fsspec.archive import AbstractArchiveFileSystem
    from fsspec.implementations.chained import ChainedFileSystem

    from tsarchive.remote import filesystems as kinds

    if isinstance(filesystem, AbstractArchiveFileSystem):
        is_stored = filesystem.info(path).get("compress_type") == _STORED
        made = kinds.OpenedRanges if is_stored else kinds.UnpackedRanges
        return made(url, filesystem, path)
    if isinstance(filesystem, ChainedFileSystem):
        return kinds.OpenedRanges(url, filesystem, path)
    # Classes of packages that may not be installed go by their names.
    own = {"S3FileSystem": kinds.ObjectRanges, "SFTPFileSystem": kinds.SftpRanges}
    names = [class_.__name__ for class_ in type(filesystem).__mro__]
    found = next((own[name] for name in names if name in own), kinds.FileRanges)
    return found(url, filesystem, path)


def _on_the_web(url: Url) -> HttpRanges:
    import fsspec

    from tsarchive.remote.http import HttpRanges

    return HttpRanges(url, fsspec.filesystem("https"))


def _found(url: Url) -> tuple[Any, str]:
    """Return the filesystem of a URL, and the path in it."""
    from fsspec.core import url_to_fs

    filesystem, path = url_to_fs(url.full)
    return filesystem, path


@contextmanager
def uploaded(url: str) -> Iterator[str]:
    """Yield a path of the same name, whose file is uploaded if there is one when the block ends.

    The file at the URL is replaced as a whole or, after an error, stays as it is. Raises
    RemoteError for places that have no way to do so, and where the file cannot be written.
    """
    place = Url(url)
    filesystem, path = attempted(place, lambda: _writable(place))
    with tempfile.TemporaryDirectory(prefix="tsarchive-") as folder:
        written = os.path.join(folder, path.rpartition("/")[2])
        yield written
        if os.path.exists(written):
            attempted(place, lambda: _upload(filesystem, written, path))


@contextmanager
def uploading(url: str) -> Iterator[BinaryIO]:
    """Yield a temporary file in place of the path that ``uploaded`` yields."""
    with uploaded(url) as path, open(path, "wb") as stream:
        yield stream


def exists(url: str) -> bool:
    """Return whether there is a file at a URL. Raises RemoteError where that is not told."""
    place = Url(url)

    def found() -> bool:
        filesystem, path = _found(place)
        return bool(filesystem.exists(path))

    return attempted(place, found)


def _writable(url: Url) -> tuple[Any, str]:
    if url.full.lower().startswith(_WEB):
        hint = "Write it to a path, and upload that as the server wants it"
        raise RemoteError(f"{url}: files are not written over HTTP", hint=hint)
    if url.endswith("/"):
        raise RemoteError(f"{url}: this names a folder", hint="Add the name of the file to write")
    if _CHAIN in url.full:
        raise RemoteError(f"{url}: chains of URLs are for reading", hint=_BY_HAND)
    filesystem, path = _found(url)
    if not (_puts_whole(filesystem) or _renames(filesystem)):
        problem = f"{url}: a file of this filesystem is not replaced at once, but copied over"
        raise RemoteError(problem, hint=_BY_HAND)
    return filesystem, path


def _puts_whole(filesystem: Any) -> bool:
    return not _PUT_WHOLE.isdisjoint(_protocols(filesystem))


def _renames(filesystem: Any) -> bool:
    """Return whether a file takes the place of another in one step.

    What filesystems inherit copies it, and a part of it may stay if that breaks off.
    """
    from fsspec import AbstractFileSystem

    is_own: bool = type(filesystem).mv is not AbstractFileSystem.mv
    return is_own or "memory" in _protocols(filesystem)  # whose copies are assignments


def _protocols(filesystem: Any) -> Sequence[str]:
    found: str | Sequence[str] = filesystem.protocol
    return (found,) if isinstance(found, str) else found


def _upload(filesystem: Any, local: str, path: str) -> None:
    if _puts_whole(filesystem):
        filesystem.put_file(local, path)
        return
    folder, _, name = path.rpartition("/")
    beside = f"{folder}/.tsarchive-{os.urandom(8).hex()}-{name}"
    try:
        filesystem.put_file(local, beside)
        if _size(filesystem, beside) != os.path.getsize(local):
            raise OSError("it did not arrive whole")
        filesystem.mv(beside, path)
        if _size(filesystem, path) != os.path.getsize(local) or filesystem.exists(beside):
            raise OSError("it was not put in its place")
    except BaseException:
        with suppress(Exception):
            filesystem.rm_file(beside)
        raise


def _size(filesystem: Any, path: str) -> int | None:
    """Return how long a file is by now."""
    filesystem.invalidate_cache()
    found: int | None = filesystem.info(path)["size"]
    return found
