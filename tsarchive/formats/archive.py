"""An opened archive of any format, and the view of it that each format gives, without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from tsarchive.container.source import Closing
from tsarchive.errors import ArchiveError, UnsupportedError

if TYPE_CHECKING:
    from tsarchive.container import Container, Record
    from tsarchive.describing.contents import ModuleInfo, Needs, TensorInfo, TensorTotals
    from tsarchive.frontend import CodeImporter
    from tsarchive.ir.source_ranges import TaggedRange
    from tsarchive.pickler import Object


class OtherContainer(Protocol):
    """An open file that is no zip archive: its parts are the records."""

    @property
    def kind(self) -> str: ...

    @property
    def records(self) -> Mapping[str, Record]: ...

    def read(self, name: str) -> bytes: ...

    def close(self) -> None: ...


Opened: TypeAlias = "Container | OtherContainer"


class _Format(Protocol):
    """The part of :class:`tsarchive.formats.base.Format` that an open archive needs."""

    @property
    def kind(self) -> str: ...

    def view(self, opened: Any) -> View: ...

    def moved(self, opened: Any, map_location: str) -> Container: ...

    def container(self, opened: Any) -> Container: ...


class OpenedArchive(Closing):
    """The members of :class:`tsarchive.Archive` that files of every format have."""

    def __init__(self, opened: Opened, format_: _Format, view: View | None = None) -> None:
        self._opened = opened
        self._format = format_
        self._given_view = view

    @property
    def kind(self) -> str:
        """``torchscript``, ``torchscript-legacy``, ``pt2``, ``torch.save``, ``torch.package``
        or ``zip``, by the records present; ``pte``, ``ptd`` or ``bpte`` for files of ExecuTorch.
        """
        return self._format.kind

    @cached_property
    def view(self) -> View:
        """The view of the archive that its format gives."""
        return self._given_view or self._format.view(self._opened)

    @property
    def format_version(self) -> int:
        """The number in the version record, ``protoVersion`` of a model.json, or the version of
        the schema that a file of ExecuTorch tells.

        Raises MissingRecordError when there is none, FormatError when it is not a number.
        """
        return self.view.format_version

    @property
    def container(self) -> Container:
        """The zip container, for access to stored bytes.

        Raises UnsupportedError for files of ExecuTorch, which have none.
        """
        return self._format.container(self._opened)

    @property
    def records(self) -> Mapping[str, Record]:
        """Records by name without the root folder, in the order of the file."""
        return self._opened.records

    def read(self, name: str) -> bytes:
        """Return the data of one record; its CRC is checked where it has one."""
        return self._opened.read(name)

    @cached_property
    def code(self) -> Mapping[str, str]:
        """The text of each code record, read when it is looked at.

        Of a PT2 archive, a listing of each program, by the name of its record; of a program of
        ExecuTorch, of each method by its name.
        """
        return self.view.code

    @property
    def debug(self) -> Mapping[str, Sequence[TaggedRange]]:
        """From which user source the bytes of each code record come, read when it is looked at.

        Records that nothing is known of are not in it; listings of programs are no records.
        """
        return self.view.debug

    @property
    def classes(self) -> CodeImporter:
        """The classes that the code records define, found by qualified name.

        They serve for looking: methods have schemas, and graphs as far as they need no operator.
        """
        return self.view.classes

    @property
    def root(self) -> Object:
        """The root object as data.pkl describes it, or as it would describe a model.json."""
        return self.view.root

    @cached_property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Every tensor that the archive describes, by its fully qualified name.

        Those that modules hold go by their attributes, also inside of containers and of packed
        parameters (``fc._packed_params.__getstate__.0``); constants go by the name that code has
        for them (``CONSTANTS.c0``), those of bytecode by its functions. Example inputs of traces
        and of torch.export are none of the archive's tensors. Weights are not read.

        Of a PT2 archive with several models, names begin with that of the model; storages in a
        record that is a file of ``torch.save`` have a name behind that of the record. Of a program
        of ExecuTorch, those that begin with data, ``forward.3`` where they have no name.
        """
        from tsarchive.describing.contents import uniquely_named

        return MappingProxyType(dict(uniquely_named(self.view.tensors())))

    @property
    def totals(self) -> TensorTotals:
        """The numbers of tensors, of their storages, and of the bytes of those."""
        from tsarchive.describing.contents import totals_of

        return totals_of(self.tensors.values())

    @cached_property
    def needs(self) -> Needs:
        """The operators and torchbind classes that loading the archive takes.

        :func:`tsarchive.missing` compares them with those of this process. Raises SourceError
        for code that does not parse.
        """
        return self.view.needs()

    def tree(self) -> ModuleInfo:
        """Return the module tree: name, class, methods, parameters and bytes of each module.

        Of a program of ExecuTorch, its methods, and what each calls.
        """
        return self.view.tree()

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()


def known_totals(archive: OpenedArchive) -> TensorTotals | None:
    """:attr:`tsarchive.Archive.totals`, or None where its tensors cannot be listed."""
    try:
        return archive.totals
    except (ArchiveError, RecursionError):
        return None


class View(ABC):
    """The members of :class:`tsarchive.Archive` that depend on the format, which says there what
    they are. A format overrides those that it has; the others call :meth:`refuse`.
    """

    methods_record: str | None = None
    """The record with all methods, for formats whose ``code`` is by method, not by record."""
    has_listings = False
    """True if ``code`` are listings of programs, which have lines of user source between them."""

    def refuse(self) -> NoReturn:
        """Raise ArchiveError: files of the format have nothing of what was asked for."""
        raise UnsupportedError("files of this format have no such part")

    @property
    def has_modules(self) -> bool:
        """Return whether there are modules and tensors that can be listed."""
        return True

    @property
    def has_tensors(self) -> bool:
        """Return whether tensors can be listed, also those of no module."""
        return self.has_modules

    @property
    @abstractmethod
    def format_version(self) -> int: ...

    @property
    @abstractmethod
    def code(self) -> Mapping[str, str]: ...

    @property
    def source(self) -> Mapping[str, str]:
        """The same, with Python source that is no code of TorchScript."""
        return self.code

    @property
    def sourced_code(self) -> Mapping[str, str]:
        """Listings with lines of user source. Raises ArchiveError where code is no listing."""
        self.refuse()

    def require_code(self) -> None:
        """Raise ArchiveError, saying what the file is instead, if it is of no kind with code."""
        _ = self.code

    @property
    def debug(self) -> Mapping[str, Sequence[TaggedRange]]:
        return MappingProxyType({})

    @property
    def classes(self) -> CodeImporter:
        self.refuse()

    @property
    def root(self) -> Object:
        self.refuse()

    def tensors(self) -> Iterator[tuple[str, TensorInfo]]:
        self.refuse()

    def tree(self) -> ModuleInfo:
        self.refuse()

    def signed_tree(self) -> ModuleInfo:
        """Return the module tree with the signature of each method in place of its name."""
        return self.tree()

    def needs(self) -> Needs:
        self.refuse()

    def operators(self) -> Mapping[str, int]:
        """Return the number of places that call each operator."""
        return self.needs().operators

    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        """Return the storage of a tensor from its first element on, for ``info`` with a place.

        Raises UnsupportedError for tensors whose elements are not there as they are.
        """
        self.refuse()
