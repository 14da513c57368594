"""The interface of formats: opened archives, their views, what loads, saves and verifies them.

``registry`` has all formats.
"""

from __future__ import annotations

import io
import os
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import cached_property
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    ClassVar,
    Final,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
)

from tsarchive.container import Container
from tsarchive.container.source import Closing
from tsarchive.errors import (
    INCOMPLETE,
    ArchiveError,
    MissingRecordError,
    SaveError,
    UnsupportedError,
)
from tsarchive.formats.records import GROUPS, RecordTable, Role
from tsarchive.garbage import collecting, not_collecting

if TYPE_CHECKING:
    import torch

    from tsarchive.comparing import GraphReport, JitterReport
    from tsarchive.container import NewRecord, Record
    from tsarchive.container.source import Source
    from tsarchive.container.traffic import Traffic
    from tsarchive.describing.contents import (
        Facts,
        ModuleInfo,
        Needs,
        TensorFacts,
        TensorInfo,
        TensorTotals,
    )
    from tsarchive.describing.written import WrittenBy
    from tsarchive.findings import Findings
    from tsarchive.formats.compatibility import Compatibility, Plan
    from tsarchive.formats.contents import Contents
    from tsarchive.formats.requests import Example, SaveOptions, VerifyReport, Written
    from tsarchive.frontend import CodeImporter
    from tsarchive.ir.source_ranges import TaggedRange
    from tsarchive.ir.types import Type
    from tsarchive.operators.releases import Release
    from tsarchive.pickler import Object
    from tsarchive.policy import Guard
    from tsarchive.run.classes import Classes
    from tsarchive.run.modules import ArchiveModule
    from tsarchive.scanning.collecting import Collected
    from tsarchive.steps import Step


def is_loaded(module: Any) -> TypeGuard[ArchiveModule]:
    """Return whether a module was loaded from an archive; what no one imported has loaded none."""
    modules = sys.modules.get("tsarchive.run.modules")
    return modules is not None and isinstance(module, modules.ArchiveModule)


class OtherContainer(Protocol):
    """An open file that is no zip archive: its parts are the records."""

    @property
    def kind(self) -> str: ...

    @property
    def records(self) -> Mapping[str, Record]: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def traffic(self) -> Traffic | None: ...

    def read(self, name: str) -> bytes: ...

    def close(self) -> None: ...


Opened: TypeAlias = Container | OtherContainer


class OpenedArchive(Closing):
    """The members of :class:`tsarchive.Archive` that files of every format have."""

    def __init__(
        self, opened: Opened, format_: Format, view: View | None = None, *, name: str = ""
    ) -> None:
        """``name`` is the path or URL of the file, where it is known."""
        self._opened = opened
        self._format = format_
        self._given_view = view
        self._name = name

    def __repr__(self) -> str:
        from tsarchive.describing.text import plural

        name = f" {self._name!r}" * bool(self._name)
        try:
            size = plural(self.nbytes, "byte")
        except ArchiveError:
            size = "closed"
        records = plural(len(self.records), "record")
        return f"<{type(self).__name__}{name}: {self.kind}, {size}, {records}>"

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:
        yield from self._facts()

    def _repr_html_(self) -> str:
        from tsarchive.notebook import table

        return table(self._name or "archive", self._facts())

    def _facts(self) -> Iterator[tuple[str, object]]:
        """Yield what notebooks and rich show of the archive, read from its directory alone."""
        yield "kind", self.kind
        with suppress(ArchiveError):
            yield "format_version", self.format_version
        with suppress(ArchiveError):
            yield "nbytes", self.nbytes
        yield "records", len(self.records)

    @property
    def kind(self) -> str:
        """``torchscript``, ``torchscript-legacy``, ``bytecode``, ``pt2``, ``torch.save``,
        ``torch.package`` or ``zip``, by the records present; ``pte``, ``ptd`` or ``bpte`` for files
        of ExecuTorch.
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

    @property
    def nbytes(self) -> int:
        """The size of the file in bytes."""
        return self._opened.nbytes

    @property
    def traffic(self) -> Traffic | None:
        """What the archive has cost so far in ranges that were asked for, and their bytes.

        None for a file on this machine, and for what was read into memory.
        """
        return self._opened.traffic

    def read(self, name: str) -> bytes:
        """Return the data of one record; its CRC is checked where it has one."""
        return self._opened.read(name)

    @cached_property
    def extra_files(self) -> Mapping[str, bytes]:
        """The extra files, by the names under which they were saved, read when they are looked at.

        Files of ExecuTorch and torch.save have none.
        """
        from .extra_files import ExtraFiles

        return ExtraFiles(self._opened, self._format.table(self._opened))

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

    @cached_property
    def written_by(self) -> WrittenBy | None:
        """Which releases of torch may have written the file, and the marks that tell it.

        None where nothing is known to tell it. Raises SourceError for code that does not parse.
        """
        return self.view.written_by(self)

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


def zip_facts(archive: OpenedArchive, file: str, nbytes: int, table: RecordTable) -> Facts:
    """Describe a zip archive of any kind, from a file of this name and size."""
    from tsarchive.describing.contents import Facts, GroupFacts
    from tsarchive.describing.text import method_name

    records = archive.records.values()
    version = None
    with suppress(MissingRecordError):
        version = archive.format_version
    groups = {name: GroupFacts() for name in GROUPS}
    for record in records:
        groups[table.role(record.name).described].add(record.size, record.stored_size)
    return Facts(
        file=file,
        nbytes=nbytes,
        kind=archive.kind,
        format_version=version,
        root=archive.container.root,
        byte_order=_text(archive, "byteorder"),
        serialization_id=_text(archive, _FINGERPRINT),
        compression=dict(Counter(method_name(record.method) for record in records)),
        groups={name: group for name, group in groups.items() if group.records},
        program=None,
        exported=None,
        tensors=None,
        written_by=archive.written_by,
        extra_files={
            record.name.partition("/")[2]: record.size
            for record in records
            if table.role(record.name) is Role.EXTRA
        },
    )


def _text(archive: OpenedArchive, name: str) -> str | None:
    if name not in archive.records:
        return None
    return archive.read(name).decode("ascii", "backslashreplace").strip()


def tensor_facts(archive: OpenedArchive) -> TensorFacts:
    """Count the tensors of an archive. Raises ArchiveError where it breaks a rule."""
    from tsarchive.describing.contents import TensorFacts

    infos = archive.tensors.values()
    parameters = [info for info in infos if info.is_parameter]
    return TensorFacts(
        **asdict(archive.totals),
        parameters=len(parameters),
        parameter_elements=sum(info.elements for info in parameters),
        dtypes=dict(Counter(info.dtype for info in infos)),
        devices=dict(Counter(info.device for info in infos if info.device is not None)),
    )


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

    def written_by(self, archive: OpenedArchive) -> WrittenBy | None:
        """Return which releases of torch may have written the archive that this is a view of."""
        return None

    def operators(self) -> Mapping[str, int]:
        """Return the number of places that call each operator."""
        return self.needs().operators

    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        """Return the storage of a tensor from its first element on, for ``info`` with a place.

        Raises UnsupportedError for tensors whose elements are not there as they are.
        """
        self.refuse()


_CONSTANTS: Final = "constants/"
CANONICAL_ROOT: Final = "archive"
_FINGERPRINT: Final = ".data/serialization_id"
NO_MODELS: Final = "the archive has no models by name"
_Error = TypeVar("_Error", bound=ArchiveError)


def leave_out(argument: str) -> str:
    """Return the hint for an argument that does not fit; commands say it of their option."""
    return f"Leave out the argument {argument}"


class NamedTypes(Protocol):
    """Types by their qualified names."""

    def find(self, qualified_name: str) -> Type | None: ...


class Importer(Protocol):
    """The loader of one archive."""

    container: Any
    classes: Classes

    @property
    def code(self) -> NamedTypes: ...

    def load(self) -> ArchiveModule: ...


class Check(Protocol):
    """The verifier of one archive, layer by layer."""

    @property
    def code_records(self) -> int:
        """The number of code records that were checked."""

    def run(self, step: Step) -> None:
        """Look at everything; ``step`` is told what comes next."""


class ProgramAudit(Protocol):
    """The findings of an audit about exported programs; ``unpickled`` are the records that torch
    unpickles for them."""

    unpickled: set[str]

    def add_to(self, found: Collected) -> None: ...


class Format(ABC):
    """A format of files. What needs other rooms imports them when it is asked for."""

    kind: str
    """As :attr:`tsarchive.Archive.kind`."""
    what_it_is: str
    """A description of a file of this format, in a few words."""
    what_to_do: str
    """Advice on such a file, without a full stop."""
    title: str
    """The name of the format."""

    @property
    def family(self) -> str:
        """The name of this format and those like it."""
        return self.title

    suffixes: tuple[str, ...] = ()
    """The suffixes of files that are converted to this format."""
    saved_kind: str
    """The kind of the file that a loaded module is saved as."""
    encoded: tuple[str, str] | None = None
    """Of files whose code is not printed: what is encoded in its place, and how that is said."""
    has_programs: ClassVar[bool] = False
    """True if archives hold programs of torch.export, of which each may have a name."""
    is_lowered: ClassVar[bool] = False
    """True if files are made by lowering programs of torch.export."""
    has_releases: ClassVar[bool] = False
    """True if files are written for a release of torch."""
    conversion: ClassVar[str] = ""
    """The description of a conversion to this format, for progress messages."""
    is_known: ClassVar[bool] = True
    """True if the records tell what made the archive."""
    has_code: ClassVar[bool] = False
    """True if there may be code; what is below ``code/`` in others is of broken TorchScript."""
    has_data_beside: ClassVar[bool] = False
    """True if programs read data from files beside them."""
    brings_calls: bool = False
    """True if files have calls with the results that are expected of them."""
    importer_moves_code: ClassVar[bool] = False
    """True if the container of an importer has code that is already for the device."""
    makes_classes_of_objects: ClassVar[bool] = False
    """True if classes are made of what modules hold, and so not before an archive is loaded."""
    loads_lazily: ClassVar[bool] = False
    """True if tensors can be fetched when modules first hand them out."""
    is_saved_again: ClassVar[bool] = True
    """True if a file that was read can be written again."""

    @abstractmethod
    def table(self, opened: Any) -> RecordTable:
        """Return the records that such an archive has."""

    @abstractmethod
    def view(self, opened: Any) -> View:
        """Make the view of an archive, which needs no torch."""

    def contents(self, opened: Any) -> Contents:
        """Return the parts that fingerprints digest, without torch.

        Raises UnsupportedError for files that are no models.
        """
        raise UnsupportedError(
            f"{self.what_it_is} has no fingerprint", hint="Fingerprints are of models"
        )

    def compatibility(self, opened: Any, releases: Sequence[Release]) -> Compatibility:
        """Return what releases of torch do with a file, without torch.

        Raises UnsupportedError for files that no release runs.
        """
        raise UnsupportedError(
            f"{self.what_it_is} holds no code of which it can be told which torch runs it",
            hint="Give a file that holds a model, or a module",
        )

    def plan(self, opened: Any, release: Release) -> Plan | None:
        """Return what a conversion of a file for a release would do; None where there is none."""
        return None

    @abstractmethod
    def container(self, opened: Any) -> Container:
        """Return the zip container. Raises UnsupportedError where there is none."""

    def moved(self, opened: Any, map_location: str) -> Container:
        """Return the archive with its code for another device.

        Raises MissingRecordError for what is not TorchScript.
        """
        reason = "only the code of TorchScript is shown as another device runs it"
        raise self.not_taken("map_location", reason, MissingRecordError)

    @abstractmethod
    def importer(self, opened: Any, options: LoadOptions) -> Importer:
        """Make the loader of an archive. Raises ArchiveError for one that cannot be loaded."""

    @abstractmethod
    def without_tensors(self, opened: Any) -> bytes:
        """Return the archive with what makes its classes alone, for pickles of loaded modules."""

    def holds(self, value: object) -> bool:
        """Return whether a value that was not loaded from an archive is saved in this format."""
        return False

    @abstractmethod
    def save(self, module: Any, f: str | os.PathLike[str] | BinaryIO, options: SaveOptions) -> None:
        """Write a module that was loaded from this format, or that it can hold."""

    def scripted_records(self, module: ArchiveModule) -> list[NewRecord]:
        """Return the records of a TorchScript archive of a module that was loaded from this format.

        Raises UnsupportedError for what TorchScript cannot hold.
        """
        raise UnsupportedError(f"{self.what_it_is} has no form in TorchScript")

    def convert(
        self,
        module: ArchiveModule,
        source: Format,
        dst: str | os.PathLike[str],
        example: Example,
        release: Release | None,
        options: SaveOptions,
    ) -> Written:
        """Write a module that was loaded from ``source`` in this format.

        ``example`` is a call that is traced; ``release`` is the torch to write for, where it is
        not the newest; ``options`` say in which form. Raises UnsupportedError for what this format
        cannot hold.
        """
        raise UnsupportedError(f"nothing is converted to {self.what_it_is}")

    @abstractmethod
    def describe(self, archive: OpenedArchive, file: str, nbytes: int) -> Facts:
        """Describe an archive from a file of this name and size. Raises ArchiveError."""

    def not_taken(self, argument: str, reason: str, error: type[_Error]) -> _Error:
        """Return the error that an argument was given which is not for files of this format."""
        return error(f"{reason}; this is {self.what_it_is}", hint=leave_out(argument))

    def not_torchscript(self, names: Collection[str]) -> MissingRecordError:
        """Return the error that TorchScript was asked for, which says what the file is instead.

        The missing record is named for files that no model is loaded from: others are whole
        without it.
        """
        needed = ("data.pkl", "constants.pkl")
        missing = next((name for name in needed if name not in names), None)
        message, hint = f"not a TorchScript archive: {missing} is not in it", self.what_to_do
        if not self.has_code and any(name.startswith("code/") for name in names):
            hint = INCOMPLETE
        elif self.is_known:
            message = f"not a TorchScript archive, but {self.what_it_is}"
        record = None if self.is_saved_again else missing
        return MissingRecordError(message, record=record, hint=hint)


class ZipFormat(Format):
    """A format whose files are zip archives, told apart by the records in them."""

    was_written_by_zipfile: ClassVar[bool] = False
    """True if torch wrote some with Python's zipfile: without a root folder, not aligned."""

    @abstractmethod
    def fits(self, names: Collection[str]) -> bool:
        """Return whether these are names of records of this format, if of none before it."""

    def container(self, opened: Container) -> Container:
        return opened

    def remaining_tensors(self, container: Container) -> Iterator[tuple[str, TensorInfo]]:
        """Yield tensors by name, as far as the records of such an archive that are left tell.

        Raises ArchiveError for what is left and cannot be read.
        """
        return iter(())

    @abstractmethod
    def makes_classes(self, name: str) -> bool:
        """Return whether loading needs this record for more than values of tensors and objects."""

    def in_place_of_objects(self) -> Iterable[NewRecord]:
        """Return the records that stand for those that make no classes."""
        return ()

    def without_tensors(self, opened: Container) -> bytes:
        from tsarchive.container import write_container

        names = [n for n in opened.records if n != _FINGERPRINT and self.makes_classes(n)]
        written = io.BytesIO()
        write_container(written, [*self.in_place_of_objects(), *as_read(opened, names)])
        return written.getvalue()

    @abstractmethod
    def records(self, module: Any, options: SaveOptions) -> list[NewRecord]:
        """Return the records of a module that was loaded from this format, or that it can hold."""

    def saved_records(self, module: Any, options: SaveOptions) -> list[NewRecord]:
        """Return the same; raise SaveError also where values or text prevent saving the module."""
        try:
            with not_collecting():
                return self.records(module, options)
        except RecursionError as error:
            raise SaveError("modules or values are nested too deeply to be saved") from error
        except UnicodeDecodeError as error:
            raise SaveError(
                "a string of the module is not UTF-8, so torch does not show it to Python",
                hint="Do not cut strings inside a character, or load the file with tsarchive",
            ) from error

    def save(self, module: Any, f: str | os.PathLike[str] | BinaryIO, options: SaveOptions) -> None:
        from tsarchive.container import write_container

        with not_collecting():
            records = self.saved_records(module, options)
            self.warn(module, records)
            # Code of the user may run for long.
            with nullcontext() if isinstance(f, str | os.PathLike) else collecting():
                write_container(f, records, root=CANONICAL_ROOT if options.canonical else None)
            del records  # before the collector visits them

    def warn(self, module: Any, records: list[NewRecord]) -> None:
        """Warn of what is about to be written, where it will not do."""

    def saved(self, container: Container) -> Collection[str]:
        """Return the records of elements that are files of ``torch.save``, which have a pickle."""
        return ()

    def models(self, container: Container) -> Sequence[str]:
        """Return the names of the models, where an archive may have several."""
        return ()

    def graph_report(
        self,
        saved: Container,
        read: Container | None,
        map_location: str | torch.device | None,
        guard: Guard,
        *,
        is_live: bool,
    ) -> GraphReport:
        """Compare a save with what is written from nothing but its graphs.

        ``read`` is the file that was loaded, if any; ``is_live`` tells that the module was not
        loaded. What is never saved in this format has nothing to compare.
        """
        from tsarchive.comparing import GraphReport

        return GraphReport()

    @abstractmethod
    def check(self, container: Container, findings: Findings, damaged: Collection[str]) -> Check:
        """Make a verifier that adds to the findings; ``damaged`` records are passed over."""

    def python_modules(self, names: Collection[str]) -> frozenset[str] | None:
        """Return the Python modules that an archive brings; None where it brings none."""
        return None

    def exported_audit(
        self, names: Collection[str], read: Callable[[str], bytes]
    ) -> ProgramAudit | None:
        """Audit the JSON of programs; None where there are no programs."""
        return None

    def old_operators(self) -> Mapping[str, str] | None:
        """Return the operators of today for those that archives of before torch 1.3 name."""
        return None


def as_read(container: Container, names: list[str]) -> Iterator[NewRecord]:
    """Yield records copied without inflating them.

    Stored tensors of the constant table are mapped into memory, where code may have written to
    them.
    """
    from tsarchive.container import NewRecord, Packed
    from tsarchive.container.layout import STORED

    for name in names:
        record = container.records[name]
        if name.startswith(_CONSTANTS) and record.method == STORED:
            yield NewRecord(name, container.payload(name))
            continue
        if record.crc is None:
            yield NewRecord(name, container.read(name), deflate=record.method != STORED)
            continue
        packed = Packed(record.method, record.crc, record.size, container.payload(name))
        yield NewRecord(name, b"", packed=packed)


class FileFormat(Format):
    """A format with a container of its own, told apart by how files begin."""

    @abstractmethod
    def begins(self, head: memoryview) -> bool:
        """Return whether a file of this format, of whatever version, begins so."""

    @abstractmethod
    def opened(self, source: Source) -> OtherContainer:
        """Open the file in these bytes, which are released when it cannot be opened."""

    @abstractmethod
    def verify(self, source: Source, step: Step) -> VerifyReport:
        """Check a file, and let go of it."""

    @abstractmethod
    def told_size(self, source: Source) -> int:
        """Return the size that a file had when it was whole, 0 where nothing tells.

        Raises FormatError for a malformed header.
        """

    @abstractmethod
    def audit(self, archive: OpenedArchive, found: Collected) -> None:
        """Add what a file can do, and let go of it."""

    @abstractmethod
    def check_jitter(self, source: Source, *, canonical: bool) -> JitterReport:
        """Write a file as it is, and once more with its tables encoded anew; let go of it."""


class LoadOptions(NamedTuple):
    """The arguments of ``load``.

    ``model`` is one of several in an archive; ``data`` is what a program reads from files beside
    it; ``tensors_on`` is where tensors of TorchScript go if not to the ``device`` of its code;
    ``infers_foreign`` lets code that calls libraries that are not here be read; ``lazy`` leaves
    tensors of a file elsewhere there until modules hand them out.
    """

    device: torch.device | None
    guard: Guard
    model: str | None = None
    data: Any = None
    tensors_on: torch.device | None = None
    infers_foreign: bool = False
    lazy: bool = False


# The rule of a finding that says: this is an archive of another kind.
OTHER_KIND = "file-kind"
