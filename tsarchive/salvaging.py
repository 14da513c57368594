"""Salvaging: the tensors that a damaged file still has, as a safetensors file."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from tsarchive.container import Container, caps
from tsarchive.container.left_archives import LeftArchive, left_archives
from tsarchive.container.opening import open_source
from tsarchive.container.reader import RemainingContainer
from tsarchive.container.remains import Remains, Remnant
from tsarchive.container.source import Source
from tsarchive.container.writer import replacing
from tsarchive.describing.contents import uniquely_named
from tsarchive.describing.text import plural
from tsarchive.errors import AGAIN, ArchiveError, CallError, FormatError, MissingRecordError
from tsarchive.formats.base import FileFormat
from tsarchive.formats.contents import Elements, is_big_endian
from tsarchive.formats.diagnosing import legacy_records
from tsarchive.formats.records import Role
from tsarchive.formats.registry import ZIP_FORMATS, file_format, zip_format
from tsarchive.formats.safetensors import DTYPES, RAW, Tensor, write_safetensors
from tsarchive.garbage import not_collecting
from tsarchive.remote import is_url, located
from tsarchive.reports import Report
from tsarchive.steps import Measured, Step, no_step

if TYPE_CHECKING:
    from tsarchive.describing.contents import TensorInfo


class Found(NamedTuple):
    """A tensor; ``elements`` gives its bytes from the first element on, or raises ArchiveError."""

    name: str
    info: TensorInfo
    elements: Callable[[], memoryview]


_RESERVED: Final = "__metadata__"
# Names of records with elements alone, in any format.
_STORAGE: Final = re.compile(
    r"(data|constants|tensors)/[0-9]+(\.storage)?|data/weights/weight_[0-9]+"
    r"|data/constants/tensor_[0-9]+"
)
# Members that tell wrong sizes may overlap: so many times the file is read to check them.
_MOST_READ: Final = 4
_CHECKPOINT: Final = ".pt"
_PREFIX: Final = "archive {}/"
_SPARSE: Final = "it is sparse, and safetensors has dense tensors alone"
_DAMAGED: Final = "it is damaged or cut short"
_LOST: Final = "its record is damaged or not there"
_FOREIGN: Final = "what stands there is not what the directory tells: it is of another file"
# Few bytes may be expanded to many elements; more than so many times the file only fills the disk.
_MOST_TIMES: Final = 1 << 6
_MOST_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """A tensor that was saved. ``is_named`` is false for a record whose tensors nothing names.

    Such a record is saved as its bytes, of dtype ``uint8``, under its own name. Dtypes that
    safetensors lacks are saved as bytes, too; ``dtype`` and ``shape`` are those of the tensor, and
    stand in the metadata of the file.

        >>> saved = tsarchive.salvage("half.pt", "rest.safetensors", force=True).saved
        >>> [(tensor.name, tensor.dtype, tensor.shape) for tensor in saved]
        [('head.weight', 'float32', (2, 4)), ('head.bias', 'float32', (2,))]
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    is_named: bool


@dataclass(frozen=True, slots=True)
class LostTensor:
    """A tensor, or a record of tensors, that was not saved, and why.

    For example:

        >>> tsarchive.LostTensor("head.bias", "its record is cut short").name
        'head.bias'
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class SalvageReport(Report):
    """What was saved of a file, and what is known to be lost.

    ``archives`` counts those that the file has parts of; names from the second on begin with
    ``archive 2/``. Without ``has_checksums``, as in a file of torch.save of before torch 1.6 or of
    ExecuTorch, nothing tells whether elements have been changed.

        >>> report = tsarchive.salvage("half.pt", "rest.safetensors", force=True)
        >>> [tensor.name for tensor in report.saved], report.lost
        (['head.weight', 'head.bias'], ())
    """

    _COLUMNS = "lost", "reason"

    saved: tuple[SavedTensor, ...]
    lost: tuple[LostTensor, ...]
    archives: int = 1
    has_checksums: bool = True

    @property
    def ok(self) -> bool:
        """Return whether everything was saved that is known of, of a single archive."""
        return not self.lost and self.archives == 1

    def _headline(self) -> str:
        return f"{plural(len(self.saved), 'tensor')} saved, {len(self.lost):,} lost"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [(tensor.name, tensor.reason) for tensor in self.lost]


def salvage(
    f: str | os.PathLike[str] | BinaryIO,
    out: str | os.PathLike[str] | BinaryIO,
    *,
    force: bool = False,
    step: Step | None = None,
) -> SalvageReport:
    """Save the tensors that a damaged file still has whole, as a safetensors file.

    ``f`` may be an archive of any kind, cut short or with damaged records; a file of torch.save of
    before torch 1.6; a program or data file of ExecuTorch. Records are found by their local
    headers, without the directory, and checked by their CRC-32. Tensors have the names that they
    have in the archive, where the records that tell them are whole; other records of tensors are
    saved under their own names as bytes. Of a file that is whole, all is saved.

    ``out`` is replaced when the new file is complete, and only with ``force``. ``step`` is called
    with what is looked at. Nothing of the file runs, and torch is not imported.

    Raises FormatError where nothing is left to save, CallError for an ``out`` that is there,
    OSError for files that cannot be read or written.

        >>> len(tsarchive.salvage("half.pt", "rest.safetensors", force=True).saved)
        2
    """
    step = step or no_step
    path = os.fspath(located(out)) if isinstance(out, str | os.PathLike) else None
    if path is not None and not force and _is_there(path):
        hint = "Give another name, or force=True"
        raise CallError(f"{path} is there already", hint=hint)
    source = open_source(f)
    with not_collecting(), closing(source):
        source.fetch_all()
        step("looking for whole records")
        tensors, report = _Sorting(source.size).result(_remaining(source))
        if not report.saved:
            raise _nothing(report.lost)
        metadata = _metadata(report.saved)
        target: Any = nullcontext(out) if path is None else replacing(path)
        with target as stream:
            write_safetensors(stream, _told(tensors, step), metadata)
    return report


def _is_there(path: str) -> bool:
    if not is_url(path):
        return os.path.exists(path)
    from tsarchive.remote.opening import exists

    return exists(path)


def _nothing(lost: Sequence[LostTensor]) -> FormatError:
    """Return the error for a file of which nothing can be saved."""
    if lost and all(each.reason == _SPARSE for each in lost):
        return FormatError(
            "all tensors are sparse, and safetensors has dense tensors alone",
            hint="Load the file, which may be whole ('tsarchive verify' tells), and save it again",
        )
    problem = "no tensor is whole" if lost else "no tensor is found in the file"
    return FormatError(f"{problem}: nothing can be saved", hint=AGAIN)


def _told(tensors: Sequence[Tensor], step: Step) -> list[Tensor]:
    """Return tensors that tell when their elements have been read."""
    measured = Measured(step, sum(tensor.nbytes for tensor in tensors))

    def pieces(tensor: Tensor) -> Iterator[Any]:
        yield from tensor.pieces()
        measured.add(tensor.name, tensor.nbytes)

    return [tensor._replace(pieces=partial(pieces, tensor)) for tensor in tensors]


def _metadata(saved: Sequence[SavedTensor]) -> dict[str, str]:
    """Return what the file says of tensors that are saved as bytes."""
    found = {
        tensor.name: {"dtype": tensor.dtype, "shape": tensor.shape}
        for tensor in saved
        if tensor.is_named and tensor.dtype not in DTYPES
    }
    return {"tsarchive": json.dumps(found)} if found else {}


class Remaining(NamedTuple):
    """What is left of an archive.

    ``named`` are tensors; ``records`` are those with tensors that are whole, by name, and ``lost``
    those that are not, with the reason.
    """

    named: Sequence[Found]
    records: Mapping[str, Callable[[], memoryview]]
    lost: Mapping[str, str]
    is_swapped: bool = False
    has_checksums: bool = True


def _remaining(source: Source) -> Iterator[Remaining]:
    """Yield what is left of each archive in a file."""
    own = file_format(source)
    if own is not None:
        try:
            yield _of_file(source, own)
        except ArchiveError as error:
            error.hint = error.hint or f"Nothing can be saved. {AGAIN}"
            raise
        return
    legacy = legacy_records(source)
    if legacy is not None:
        yield _of_archive(_packed(legacy), {})._replace(has_checksums=False)
        return
    sound: set[int] = set()
    left = _MOST_READ * source.size + caps.FREE_INFLATED_BYTES

    def is_sound(member: Remnant) -> bool:
        nonlocal left
        if member.is_in(source.size) and member.is_bounded:
            left -= max(member.entry.stored_size, member.entry.size)
        if left >= 0 and member.is_whole(source.data):
            sound.add(member.data)
        return member.data in sound

    remains = Remains(source.data, is_sound)
    if not remains.members:
        Container.of_source(source)  # it says what the file is instead
    for archive in left_archives(remains, lambda member: member.data in sound):
        container = RemainingContainer(source, archive.members, archive.root)
        yield _of_archive(container, {name: _reason(name, archive) for name in archive.lost})


def _reason(record: str, archive: LeftArchive) -> str:
    return _FOREIGN if record in archive.foreign else _DAMAGED


def _packed(records: Mapping[str, bytes | memoryview]) -> Container:
    """Return records as an archive."""
    from tsarchive.container import NewRecord, write_container

    stream = io.BytesIO()
    write_container(stream, [NewRecord(*record) for record in records.items()])
    stream.seek(0)
    return Container.open(stream)


# Archives


def _of_archive(container: Container, lost: Mapping[str, str]) -> Remaining:
    """Return what an archive has; records that are ``lost`` are none of its own."""
    table = zip_format({*container.records, *lost}).table(container)
    holders = [name for name in container.records if _holds_tensors(name, table.role(name))]
    named = [*_named(container)]
    used = {storage.record for each in named for storage in each.info.storages}
    for holder in [name for name in holders if name.endswith(_CHECKPOINT)]:
        if not any(record.startswith(holder) for record in used):
            inside = _inside(container, holder)
            named += inside or ()
            used |= set() if inside is None else {holder}
    with_folders = {record[:end] for record in used for end in (*_slashes(record), len(record))}
    records = {name: _viewer(container, name) for name in holders if name not in with_folders}
    gone = {name: why for name, why in lost.items() if _holds_tensors(name, table.role(name))}
    return Remaining(named, records, gone, is_big_endian(container.records, container.read))


def _slashes(name: str) -> list[int]:
    return [place for place, character in enumerate(name) if character == "/"]


def _holds_tensors(name: str, role: Role) -> bool:
    """Return whether a record has tensors, also where it is not known which format has it."""
    return role is Role.TENSORS or (role is Role.OTHER and bool(_STORAGE.fullmatch(name)))


def _viewer(container: Container, name: str) -> Callable[[], memoryview]:
    return lambda: container.view(name)


def _named(container: Container) -> Iterator[Found]:
    """Yield tensors by name."""
    with suppress(ArchiveError, RecursionError):
        view = zip_format(container.records).view(container)
        for name, info in [*uniquely_named(view.tensors())]:
            yield Found(name, info, partial(view.element_bytes, name, info))
        return
    found: list[tuple[str, TensorInfo]] = []
    for each in ZIP_FORMATS:
        with suppress(ArchiveError, RecursionError):
            for pair in each.remaining_tensors(container):
                found.append(pair)  # those before an error count
    for name, info in uniquely_named(iter(found)):
        yield Found(name, info, partial(_from_record, container, info))


def _from_record(container: Container, info: TensorInfo) -> memoryview:
    assert info.storage is not None
    return container.view(info.storage)[info.offset or 0 :]


def _inside(container: Container, record: str) -> Sequence[Found] | None:
    """Return the tensors of a record that is a file of torch.save; None where none has a name."""
    try:
        inner = container.inside(record)
    except ArchiveError:
        return None
    found = [*_named(inner)]
    has_storages = any(_STORAGE.fullmatch(name) for name in inner.records)
    return found if found or not has_storages else None


# Files of ExecuTorch


def _of_file(source: Source, own: FileFormat) -> Remaining:
    """Return the tensors of a file with a container of its own, as far as their bytes are there."""
    present = source.size
    with memoryview(source.data) as data:
        size = own.told_size(source)
        if size > present * _MOST_TIMES + _MOST_BYTES:
            raise FormatError("the header tells of more bytes than can be", limit=present)
        padded: Any = source.data
        if size > present:
            padded = bytearray(size)
            padded[:present] = data
    opened: Any = own.opened(Source(padded))
    view: Any = own.view(opened)

    def elements(name: str, info: TensorInfo) -> memoryview:
        assert info.storage is not None
        start = opened.records[info.storage].offset + (info.offset or 0)
        found: memoryview = view.element_bytes(name, info)
        return found[: max(0, present - start)]

    named = [
        Found(name, info, partial(elements, name, info))
        for name, info in uniquely_named(view.tensors())
        if info.storage in opened.records  # others are in data files beside this one
    ]
    return Remaining(named, {}, {}, has_checksums=False)


class _Sorting:
    """Sorts tensors into those that can be saved and those that are lost."""

    def __init__(self, size: int) -> None:
        self._room = size * _MOST_TIMES + _MOST_BYTES
        self._tensors: list[Tensor] = []
        self._saved: list[SavedTensor] = []
        self._lost: list[LostTensor] = []
        self._names = {_RESERVED}
        self._prefix = ""

    def result(self, archives: Iterable[Remaining]) -> tuple[list[Tensor], SalvageReport]:
        count, has_checksums = 0, True
        for remaining in archives:
            if not (remaining.named or remaining.records or remaining.lost):
                continue
            count += 1
            self._prefix = _PREFIX.format(count) if count > 1 else ""
            has_checksums = has_checksums and remaining.has_checksums
            self._add_all(remaining)
        report = SalvageReport(tuple(self._saved), tuple(self._lost), count, has_checksums)
        return self._tensors, report

    def _add_all(self, remaining: Remaining) -> None:
        for found in remaining.named:
            reason = self._add(found, remaining)
            if reason is not None:
                self._lost.append(LostTensor(self._prefix + found.name, reason))
        for name, view in remaining.records.items():
            self._add_record(name, view)
        told = {found.info.storage for found in remaining.named}
        for name, reason in remaining.lost.items():
            if name not in told:
                self._lost.append(LostTensor(self._prefix + name, reason))

    def _add(self, found: Found, remaining: Remaining) -> str | None:
        """Add a tensor; return why it is lost, or None."""
        name, info, _ = found
        if info.storage is None:
            return _SPARSE
        itemsize = info.nbytes // info.elements if info.elements else 1
        elements = _elements(found, itemsize, remaining)
        if isinstance(elements, str):
            return elements
        self._room -= info.nbytes
        if self._room < 0:
            return "its elements are the same again and again, more than can be written"
        dtype = DTYPES.get(info.dtype, RAW)
        shape = info.shape if info.dtype in DTYPES else (info.nbytes,)
        own = self._own_name(name)
        self._tensors.append(Tensor(own, dtype, shape, info.nbytes, elements.pieces))
        self._saved.append(SavedTensor(own, info.dtype, info.shape, info.nbytes, True))
        return None

    def _add_record(self, name: str, view: Callable[[], memoryview]) -> None:
        own = self._own_name(name)
        size = len(view())
        self._tensors.append(Tensor(own, RAW, (size,), size, lambda: [view()]))
        self._saved.append(SavedTensor(own, "uint8", (size,), size, False))

    def _own_name(self, name: str) -> str:
        name = self._prefix + name
        while name in self._names:
            name += "~"
        self._names.add(name)
        return name


def _elements(found: Found, itemsize: int, remaining: Remaining) -> Elements | str:
    """Return the elements of a tensor, or why they are lost."""
    info = found.info
    if not info.elements:
        return Elements(None, 0, info.shape, (), itemsize, itemsize)
    if len(info.strides) != len(info.shape):
        return "its elements lie in an order that is not known"
    try:
        data = found.elements()
    except MissingRecordError:
        return _FOREIGN if remaining.lost.get(info.storage or "") == _FOREIGN else _LOST
    except ArchiveError as error:
        return error.message
    if info.offset is None:
        return "where its elements lie is not known"
    strides = [step * itemsize for step in info.strides]
    end = sum((n - 1) * step for n, step in zip(info.shape, strides, strict=True)) + itemsize
    if end > len(data):
        return f"{end - len(data):,} bytes of it are missing"
    unit = itemsize // 2 if info.dtype.startswith("complex") else itemsize
    swapped = remaining.is_swapped and unit > 1
    return Elements(lambda: data, 0, info.shape, strides, itemsize, unit, swapped)
