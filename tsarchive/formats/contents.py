"""The contents of a file, in forms that fingerprints digest and comparisons compare.

Elements of tensors are bytes in the order of their indices, little-endian, whatever the strides,
the sharing and the compression of their storage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from math import prod
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from tsarchive.analyses.encoding import Plain
from tsarchive.errors import FormatError
from tsarchive.ir.source_ranges import Location

from .strides import Piece, pieces_of

if TYPE_CHECKING:
    from tsarchive.container import Record

_BYTE_ORDER: Final = "byteorder"


class Checksum(NamedTuple):
    """The CRC-32 and the size of the bytes of a storage, as the directory of a file tells them."""

    crc: int
    nbytes: int


def told_checksum(records: Mapping[str, Record], name: str) -> Checksum | None:
    """Return the checksum of the data of a record; None where the file tells none."""
    record = records.get(name)
    if record is None or record.crc is None:
        return None
    return Checksum(record.crc, record.size)


class Elements(NamedTuple):
    """The elements of a tensor: those of ``storage`` at an offset and strides, all in bytes.

    ``storage`` gives the bytes when they are looked at; None where a tensor has no elements.
    ``unit`` is the size of the number that a byte order applies to. ``checksum`` gives that of the
    storage without reading it, where a file may tell one.
    """

    storage: Callable[[], memoryview] | None
    offset: int
    shape: Sequence[int]
    strides: Sequence[int]
    itemsize: int
    unit: int
    is_swapped: bool = False
    checksum: Callable[[], Checksum | None] | None = None

    @property
    def nbytes(self) -> int:
        """The number of bytes that :meth:`pieces` gives."""
        return 0 if self.storage is None else prod(self.shape) * self.itemsize

    def as_stored(self) -> Elements:
        """Return the elements with the longest strides first, which are read more quickly."""
        dimensions = sorted(zip(self.shape, self.strides, strict=True), key=itemgetter(1))
        shape, strides = ([each[place] for each in reversed(dimensions)] for place in (0, 1))
        return self._replace(shape=shape, strides=strides)

    def pieces(self) -> Iterator[Piece]:
        """Yield the elements in the order of their indices, in pieces.

        Raises FormatError where the storage is too short.
        """
        if self.storage is None or 0 in self.shape:
            return
        data = self.storage()
        dimensions = [*zip(self.shape, self.strides, strict=True)]
        end = self.offset + sum((n - 1) * step for n, step in dimensions) + self.itemsize
        if end > len(data):
            raise FormatError(f"a tensor ends at byte {end:,} of its storage", limit=len(data))
        pieces = pieces_of(data[self.offset : end], dimensions, self.itemsize)
        yield from map(self._swapped, pieces) if self.is_swapped else pieces

    def _swapped(self, piece: Piece) -> bytearray:
        swapped = bytearray(len(piece))
        for place in range(self.unit):
            swapped[place :: self.unit] = piece[self.unit - 1 - place :: self.unit]
        return swapped


class Whole(NamedTuple):
    """A tensor with others for its parts: a sparse one, or one that is quantized by channel."""

    name: str
    layout: str
    shape: Sequence[int]


def is_big_endian(records: Container[str], read: Callable[[str], bytes]) -> bool:
    """Return whether an archive says that its elements are stored big-endian."""
    return _BYTE_ORDER in records and read(_BYTE_ORDER).strip() == b"big"


class TensorContent(NamedTuple):
    """What a tensor holds: ``meaning`` tells how its elements are read (dtype, scale, ...).

    ``device``, ``requires_grad`` and ``role`` are None where the format stores none beside the
    tensor. They are no part of the digest: structure has them.
    """

    meaning: Plain
    elements: Elements
    device: str | None = None
    requires_grad: bool | None = None
    part_of: Whole | None = None
    role: str | None = None


class Operation(NamedTuple):
    """A node of a graph as plain data.

    ``inputs`` are numbers of values, or constants as ``[type, value]``. Values are counted in each
    function in the order in which they are made: parameters of a block, its operations, and what
    comes out of an operation behind what its blocks make. ``outputs`` are types. ``place`` is None
    where no text stands for the operation.
    """

    operator: str
    inputs: Sequence[Plain]
    attributes: Mapping[str, Plain]
    bodies: Sequence[Body]
    outputs: Sequence[Plain]
    place: Place | None = None


class Place(NamedTuple):
    """Where an operation stands: the line of text in the file, and the user's line, found when it
    is called for. ``line`` counts the lines of the text, which :attr:`Routine.lines` has.
    ``module`` is the path of the module, below that of the routine, that recorded the operation."""

    text: str
    origin: Callable[[], Location | None]
    line: int = 0
    module: str = ""


class Body(NamedTuple):
    """The operations of a function, or of a block inside of an operation.

    ``params`` are types, ``results`` numbers of values or constants.
    """

    params: Sequence[Plain]
    operations: Sequence[Operation]
    results: Sequence[Plain]


class Routine(NamedTuple):
    """A function or method: its arguments ``[name, type, [] or [default]]``, the types of its
    results, and what it does. ``lines`` gives its text, if it has any."""

    arguments: Sequence[Plain]
    returns: Sequence[Plain]
    body: Body
    lines: Callable[[], Sequence[Place]] = tuple


class Definition(NamedTuple):
    """A class, function or type: ``traits`` are what is neither attribute, constant nor code.

    An attribute is ``[type, ...]``, a constant ``[type, value]``. The routine of a function has the
    name "".
    """

    name: str
    traits: Mapping[str, Plain]
    attributes: Mapping[str, Plain]
    constants: Mapping[str, Plain]
    routines: Mapping[str, Routine]


class ModuleContent(NamedTuple):
    """A module at a path: its class, and its attributes, those that are modules aside.

    ``order`` has the names of all attributes, where their order means something.
    """

    definition: Definition
    attributes: Mapping[str, Plain]
    order: Sequence[str] = ()


class Outline(NamedTuple):
    """What two files are compared by: modules by path, and definitions that no module has.

    Names have no numbers of mangling. A module that is met again is an attribute of the other
    module, ``{"object": path}``. ``constants`` are those that code names ``{"constant": name}``.
    """

    modules: Mapping[str, ModuleContent]
    definitions: Sequence[Definition]
    constants: Mapping[str, Plain] = MappingProxyType({})


class Contents(ABC):
    """The parts of a file, each made when it is looked at."""

    may_have_extra_files: ClassVar[bool] = True
    """True if files of the format can have extra files."""
    language: ClassVar[str]
    """The language of the program: those of one language can be compared. "" for none."""

    @property
    @abstractmethod
    def code(self) -> Plain:
        """The graphs of all methods, and what they refer to; places in source are no part."""

    @property
    @abstractmethod
    def structure(self) -> Plain:
        """Classes and attributes: values that are no tensors, and of tensors all but elements."""

    @property
    @abstractmethod
    def tensors(self) -> Mapping[str, TensorContent]:
        """Tensors by name."""

    @property
    @abstractmethod
    def extra_files(self) -> Mapping[str, bytes]:
        """Extra files by name."""

    @property
    @abstractmethod
    def outline(self) -> Outline:
        """The parts that are compared with those of another file."""
