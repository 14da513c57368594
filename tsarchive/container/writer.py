"""Writing a container byte for byte as torch's own archive writer does."""

# Annotations are types here, not their text: NamedTuple would compile each of them.
import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple

from tsarchive.container import layout
from tsarchive.container.contents import crc32
from tsarchive.container.deflating import deflated
from tsarchive.container.directory import zip64_field
from tsarchive.container.names import (
    MAX_NAME_BYTES,
    fold_name,
    is_plain,
    name_problem,
    root_of_path,
)
from tsarchive.container.serialization_id import RECORD_NAME, SerializationId
from tsarchive.errors import SaveError
from tsarchive.remote import is_url, located

_WORTH_IT = 1 << 20
_HAS_LARGE_OFFSETS = sys.platform == "linux" and sys.maxsize > 1 << 32
_fallocate = getattr(ctypes.CDLL(None), "fallocate", None) if _HAS_LARGE_OFFSETS else None
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def reserve(stream: BinaryIO, position: int, size: int) -> None:
    """Preallocate ``size`` bytes of a file from ``position`` on, where the system can.

    Writing to preallocated blocks takes a third less time. `os.posix_fallocate` would do the same,
    but on file systems without support it writes to every block instead.
    Failure, even for lack of space, is left for the following write to report.
    """
    if _fallocate is not None and size >= _WORTH_IT:
        _fallocate(stream.fileno(), 0, position, size)


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces ``path`` when the block ends without an error.

    It is written beside the target and renamed. The target's permissions are kept, a new file
    gets the usual ones, and a symbolic link keeps pointing where it did. After an error the
    target is as it was and nothing is left behind. A target that is no regular file, such as a
    pipe, is written to directly. A URL is uploaded to when the file is complete. Raises OSError as
    ``open`` does; RemoteError for a URL.
    """
    path = located(path)
    if is_url(path):
        from tsarchive.remote.opening import uploading

        with uploading(path) as stream:
            yield stream
        return
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as stream:
            yield stream
        return
    temporary = os.path.join(os.path.dirname(target), f".tsarchive-{os.urandom(8).hex()}")
    try:
        # Unlike tempfile's 0600, the mode that open() gives to a new file honours the umask.
        with open(temporary, "xb") as stream:
            yield stream
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path
        raise


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two paths or URLs lead to one file, as far as their names tell of URLs."""
    if is_url(located(one)) or is_url(located(other)):
        return located(one) == located(other)
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


# Root folder of an archive that is written to a file object.
_STREAM_ROOT = "archive"
# torch deflates a source or debug record when it is longer than this many bytes.
_DEFLATE_ABOVE = 200
# Data of this size or less is written together with what stands around it.
_COPIED_UP_TO = 1 << 12


class Packed(NamedTuple):
    """Data in its stored form. ``crc`` and ``size`` are those of the data itself."""

    method: int
    crc: int
    size: int
    payload: bytes | bytearray | memoryview


class NewRecord(NamedTuple):
    """One record to write; ``name`` is without the root folder.

    ``deflate`` asks for compression, which records of 200 bytes and less do not get. When
    ``packed`` is given, its payload is copied as it is, and ``data`` and ``deflate`` are ignored.
    """

    name: str
    data: bytes | bytearray | memoryview
    deflate: bool = False
    packed: Packed | None = None


def write_container(
    target: str | os.PathLike[str] | BinaryIO,
    records: Iterable[NewRecord],
    *,
    root: str | None = None,
) -> None:
    """Write records in the given order, then the record ``.data/serialization_id``.

    The root folder is named after the path, as torch does, or ``archive`` for a file object, unless
    ``root`` says otherwise. A path is replaced atomically once everything has been written; after
    an error the file there is as it was. A file object is written to from its current position on
    and needs only ``write``. Stored data is not copied.

    The same records give the same bytes. Stored records give the bytes that torch writes; deflated
    ones differ from torch's in the compressed form, and between builds of zlib.

    Raises SaveError for names that a reader would refuse, names used twice, and packed data that
    contradicts itself; OSError when the file cannot be written.
    """
    if not isinstance(target, (str, os.PathLike)):
        if not hasattr(target, "write"):
            raise SaveError(
                f"a {type(target).__name__} is neither a path nor a file object to write to",
                hint="Give a path as str or os.PathLike, or a binary file object",
            )
        write_records(target, records, _STREAM_ROOT if root is None else root)
        return
    path = located(os.fsdecode(target))
    root = root_of_path(path) if root is None else root
    check_root(root)
    with replacing(path) as stream:
        write_records(stream, records, root, reserves=True)


def check_root(root: str) -> None:
    """Raise SaveError unless ``root`` may be the root folder of an archive."""
    problem = "is empty" if not root else "holds a '/'" if "/" in root else name_problem(root)
    if problem is not None:
        raise SaveError(
            f"the root folder {root!r}, which is the file name up to its last dot, {problem}",
            hint="Choose another file name",
        )


def write_records(
    stream: BinaryIO,
    records: Iterable[NewRecord],
    root: str,
    zip64_from: int = layout.MAX32,
    *,
    reserves: bool = False,
) -> None:
    """Write a whole archive to ``stream``.

    ``reserves`` preallocates space, which requires that the file is written from its beginning.
    ``zip64_from`` is the size or offset from which a member takes ZIP64 form; tests lower it.
    """
    check_root(root)
    writer = _Writer(stream, root, zip64_from, reserves)
    for record in records:
        writer.add(record.name, _pack(record))
    writer.finish()


class _Writer:
    """Writes members one after another and records their directory entries."""

    def __init__(self, stream: BinaryIO, root: str, zip64_from: int, reserves: bool) -> None:
        self._stream = stream
        self._reserves = reserves
        self._root = root
        self._most = MAX_NAME_BYTES - len(root) - 1 if is_plain(f"{root}/_") else 0
        self._zip64_from = zip64_from
        self._position = 0
        self._directory: list[bytes] = []
        self._names: dict[str, str] = {}
        self._id = SerializationId()

    def add(self, name: str, packed: Packed) -> None:
        """Write a member; refuse the name reserved for ``finish``."""
        if name == RECORD_NAME:
            raise SaveError("the writer makes this record itself", record=name)
        payload = _bytes_view(packed.payload, name)
        self._id.add(name, packed.method, packed.crc, payload)
        self._write_member(name, packed, payload)

    def finish(self) -> None:
        """Write the id, the directory and the end records."""
        packed = _stored(memoryview(self._id.digits().encode()))
        self._write_member(RECORD_NAME, packed, memoryview(packed.payload))
        place, directory = self._position, b"".join(self._directory)
        self._write(directory)
        self._write(_end_records(place, len(directory), len(self._directory)))

    def _write_member(self, name: str, packed: Packed, payload: memoryview) -> None:
        self._check_name(name)
        _check_packed(packed, len(payload), name)
        member = f"{self._root}/{name}".encode()
        offset = self._position
        large = packed.size >= self._zip64_from
        far = offset >= self._zip64_from
        header = _local_header(member, packed, offset, large, far)
        descriptor = _descriptor(packed, len(payload), large or far)
        if len(payload) <= _COPIED_UP_TO:
            self._write(b"".join((header, payload, descriptor)))
        else:
            self._write(header)
            if self._reserves:
                reserve(self._stream, self._position, len(payload))
            self._write(payload)
            self._write(descriptor)
        self._directory.append(_central_header(member, packed, len(payload), offset, large, far))

    def _check_name(self, name: str) -> None:
        problem, key = None, name.lower()
        if not (is_plain(name) and len(name) <= self._most):
            problem, key = self._name_problem(name), fold_name(name)
        first = self._names.get(key)
        if first is not None:
            taken = f"is the same as {first!r} for some readers, torch's among them"
            problem = "is used twice" if first == name else taken
        if problem is not None:
            raise SaveError(f"the record name {name!r} {problem}")
        self._names[key] = name

    def _name_problem(self, name: str) -> str | None:
        if name.endswith("/"):
            return "is that of a folder"
        problem = "is empty" if not name else name_problem(name)
        return problem or name_problem(f"{self._root}/{name}")

    def _write(self, data: bytes | memoryview) -> None:
        left = data
        while len(left):
            written = self._stream.write(left)
            # An unbuffered file may take only a part; other objects need not report a count.
            if written is None or written == len(left):
                break
            if written == 0:
                raise SaveError("the file object takes no more bytes", offset=self._position)
            left = memoryview(left)[written:]
        self._position += len(data)


_EMPTY = Packed(layout.STORED, 0, 0, b"")


def _pack(record: NewRecord) -> Packed:
    if record.packed is not None:
        # An empty record has no descriptor, so it cannot have a payload either.
        return record.packed if record.packed.size else _EMPTY
    data = _bytes_view(record.data, record.name)
    if not record.deflate or len(data) <= _DEFLATE_ABOVE:
        return _stored(data)
    return Packed(layout.DEFLATED, crc32(data), len(data), deflated(data))


def _stored(data: memoryview) -> Packed:
    return Packed(layout.STORED, crc32(data), len(data), data)


def _bytes_view(data: bytes | bytearray | memoryview, name: str) -> memoryview:
    """View data of any item type as bytes."""
    view = memoryview(data)
    if not view.contiguous:
        raise SaveError("the data of the record is not contiguous in memory", record=name)
    # A view with a zero in its shape cannot be cast.
    return view.cast("B") if view.nbytes else memoryview(b"")


def _check_packed(packed: Packed, stored_size: int, name: str) -> None:
    problem = None
    if packed.method not in layout.VERSION_NEEDED:
        kind = layout.METHOD_NAMES.get(packed.method, "unknown")
        problem = f"the packed data has method {packed.method} ({kind}), which is not supported"
    elif packed.method == layout.STORED and stored_size != packed.size:
        problem = f"the data is stored in {stored_size} bytes, but its size is {packed.size}"
    elif packed.size and not stored_size:
        problem = f"data of {packed.size} bytes cannot be packed into none"
    if problem is not None:
        raise SaveError(problem, record=name)


def _flags(packed: Packed) -> int:
    return layout.FLAG_UTF8 | layout.FLAG_DESCRIPTOR if packed.size else layout.FLAG_UTF8


def _local_header(member: bytes, packed: Packed, offset: int, large: bool, far: bool) -> bytes:
    # torch does not know the stored size yet when it writes this, so its ZIP64 field has a zero.
    extra = zip64_field(*([packed.size, 0] if large else []), *([offset] if far else []))
    # Another extra field aligns the data, which follows it.
    start = offset + layout.LOCAL.size + len(member) + len(extra)
    length = -(start + 4) % layout.ALIGNMENT
    extra += layout.PADDING_FIELD + length.to_bytes(2, "little") + b"Z" * length
    header = layout.LocalHeader(
        version_needed=layout.VERSION_NEEDED[packed.method],
        flags=_flags(packed),
        method=packed.method,
        name_length=len(member),
        extra_length=len(extra),
    )
    return layout.LOCAL.pack(*header) + member + extra


def _descriptor(packed: Packed, stored_size: int, is_wide: bool) -> bytes:
    if not packed.size:
        return b""
    form = layout.DESCRIPTOR64 if is_wide else layout.DESCRIPTOR
    return form.pack(layout.DESCRIPTOR_SIGNATURE, packed.crc, stored_size, packed.size)


def _central_header(
    member: bytes, packed: Packed, stored_size: int, offset: int, large: bool, far: bool
) -> bytes:
    extra = zip64_field(*([packed.size, stored_size] if large else []), *([offset] if far else []))
    header = layout.CentralHeader(
        version_needed=layout.VERSION_NEEDED[packed.method],
        flags=_flags(packed),
        method=packed.method,
        crc=packed.crc,
        stored_size=layout.MAX32 if large else stored_size,
        size=layout.MAX32 if large else packed.size,
        name_length=len(member),
        extra_length=len(extra),
        header_offset=layout.MAX32 if far else offset,
    )
    return layout.CENTRAL.pack(*header) + member + extra


def _end_records(place: int, size: int, entries: int) -> bytes:
    """Return the three structures at the end; torch writes the ZIP64 ones in small archives too."""
    wide = layout.End64Record(
        disk_entries=entries, entries=entries, directory_size=size, directory_offset=place
    )
    end = layout.EndRecord(
        disk_entries=min(entries, layout.MAX16),
        entries=min(entries, layout.MAX16),
        directory_size=min(size, layout.MAX32),
        directory_offset=min(place, layout.MAX32),
    )
    return (
        layout.END64.pack(*wide)
        + layout.LOCATOR64.pack(*layout.Locator64(end_offset=place + size))
        + layout.END.pack(*end)
    )
