"""An opened archive: its records, code, tensors and module tree, without torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, cast

from tsarchive.container import Container, Record
from tsarchive.container.closing import Closing
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.kinds import (
    EXECUTORCH,
    LEGACY_TORCHSCRIPT,
    PT2,
    kind_of,
    require_torchscript,
)
from tsarchive.opening import opened_archive
from tsarchive.pickler import Object, loads
from tsarchive.torchscript.inspection import ModuleInfo
from tsarchive.torchscript.looking import TorchScriptDoor
from tsarchive.torchscript.tensor_infos import (
    TensorInfo,
    TensorTotals,
    totals_of,
    uniquely_named,
)

from .frontend import CodeImporter

if TYPE_CHECKING:
    from tsarchive.executorch.looking import ExecutorchDoor
    from tsarchive.executorch.regions import Regions
    from tsarchive.ir.source_ranges import TaggedRange
    from tsarchive.legacy.looking import LegacyDoor
    from tsarchive.needs import Needs
    from tsarchive.pt2.looking import Pt2Door


class Archive(Closing):
    """An archive opened for looking at. Also a context manager that closes itself.

    Opening reads the directory of the file; everything else is read when it is asked for.
    """

    def __init__(self, container: Container | Regions, exported: Pt2Door | None = None) -> None:
        self._opened = container
        self._exported = exported

    @cached_property
    def kind(self) -> str:
        """``torchscript``, ``torchscript-legacy``, ``pt2``, ``torch.save``, ``torch.package``
        or ``zip``, by the records present; ``pte``, ``ptd`` or ``bpte`` for files of ExecuTorch.
        """
        return kind_of(self.records) if isinstance(self._opened, Container) else self._opened.kind

    @cached_property
    def format_version(self) -> int:
        """The number in the version record, ``protoVersion`` of a model.json, or the version of
        the schema that a file of ExecuTorch tells.

        Raises MissingRecordError when there is none, FormatError when it is not a number.
        """
        return self._door.format_version if self._is_zip else self.executorch.format_version

    @cached_property
    def _door(self) -> TorchScriptDoor | LegacyDoor | Pt2Door:
        if self.kind == LEGACY_TORCHSCRIPT:
            from tsarchive.legacy.looking import LegacyDoor

            return LegacyDoor(self._container)
        if self.kind == PT2:
            from tsarchive.pt2.looking import Pt2Door
            from tsarchive.pt2.records import Records

            return self._exported or Pt2Door(Records(self._container))
        return TorchScriptDoor(self._container)

    @property
    def exported(self) -> Pt2Door:
        """What a PT2 archive has beyond other archives: several models, their signatures.

        Raises UnsupportedError for archives of another kind.
        """
        door = self._door
        if self.kind != PT2:
            raise UnsupportedError(
                f"only PT2 archives hold exported programs; this one is {self.kind}"
            )
        return cast("Pt2Door", door)

    def only(self, model: str) -> Archive:
        """This archive as if it had one model, whose names then stand without that of the model.

        It shares the file with this archive. Raises MissingRecordError when a PT2 archive has no
        model of this name, UnsupportedError for archives of another kind.
        """
        return Archive(self._container, self.exported.only(model))

    @cached_property
    def executorch(self) -> ExecutorchDoor:
        """What files of ExecuTorch have beyond other archives: programs, segments, data by name.

        Raises UnsupportedError for archives of another kind.
        """
        if isinstance(self._opened, Container):
            raise UnsupportedError(f"this archive is {self.kind}, not a file of ExecuTorch")
        from tsarchive.executorch.looking import ExecutorchDoor

        return ExecutorchDoor(self._opened)

    @property
    def container(self) -> Container:
        """The zip container, for access to stored bytes.

        Raises UnsupportedError for files of ExecuTorch, which have none.
        """
        return self._container

    @property
    def _container(self) -> Container:
        if isinstance(self._opened, Container):
            return self._opened
        raise UnsupportedError(
            f"a {self.kind} file is no zip archive: it has no models by name and no TorchScript",
            hint="'tsarchive info', 'code', 'tensors', 'tree' and 'verify' show what it holds",
        )

    @property
    def _is_zip(self) -> bool:
        return isinstance(self._opened, Container)

    @property
    def records(self) -> Mapping[str, Record]:
        """Records by name without the root folder, in the order of the file."""
        return self._opened.records

    def read(self, name: str) -> bytes:
        """The data of one record; its CRC is checked where it has one."""
        return self._opened.read(name)

    @cached_property
    def code(self) -> Mapping[str, str]:
        """The text of each code record, read when it is looked at.

        Of a PT2 archive, a listing of each program, by the name of its record; of a program of
        ExecuTorch, of each method by its name.
        """
        return self._door.code if self._is_zip else self.executorch.code

    @property
    def debug(self) -> Mapping[str, Sequence[TaggedRange]]:
        """From which user source the bytes of each code record come, read when it is looked at.

        Records that nothing is known of are not in it; listings of programs are no records.
        """
        if self.kind in (PT2, *EXECUTORCH):
            return MappingProxyType({})
        return cast("TorchScriptDoor | LegacyDoor", self._door).debug

    @cached_property
    def classes(self) -> CodeImporter:
        """The classes that the code records define, found by qualified name.

        They serve for looking: methods have schemas, and graphs as far as they need no operator.
        """
        return self._door.classes

    def moved(self, map_location: str) -> Archive:
        """The archive as :func:`tsarchive.load` reads it with this ``map_location``.

        Devices in its code and constants are changed; data.pkl is shown as it is. It shares the
        file with this archive. Raises CallError when ``map_location`` has not the form of a
        device (extensions of torch name types of their own), SourceError for code that names
        devices and does not parse.
        """
        from tsarchive.torchscript.devices import moved_archive

        if self.kind == LEGACY_TORCHSCRIPT:
            door = cast("LegacyDoor", self._door)
            tensors_on = {tensor.device for tensor in door.model.tensors}
        else:
            require_torchscript(self.kind, self.records)
            tensors_on = set()
        return Archive(moved_archive(self._container, map_location, tensors_on).container)

    @cached_property
    def root(self) -> Object:
        """The root object as data.pkl describes it, or as it would describe a model.json."""
        return self._door.root

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
        found = self._door.tensors(self.class_of) if self._is_zip else self.executorch.tensors()
        return MappingProxyType(dict(uniquely_named(found)))

    @property
    def totals(self) -> TensorTotals:
        """How many tensors there are, in how many storages of how many bytes."""
        return totals_of(self.tensors.values())

    @cached_property
    def needs(self) -> Needs:
        """The operators and torchbind classes that loading the archive takes.

        :func:`tsarchive.missing` compares them with those of this process. Raises SourceError
        for code that does not parse.
        """
        from tsarchive.needs import Needs, needs_of, needs_of_all

        if not self._is_zip:
            return Needs(self.executorch.needed(), ())
        if self.kind == PT2:
            operators, classes = self.exported.needed()
            return Needs(operators, classes)
        if self.kind == LEGACY_TORCHSCRIPT:
            from tsarchive.legacy.classes import DIALECT

            return needs_of_all(self.code, DIALECT.renamed)
        root = self.root
        constants = loads(self.read("constants.pkl"), record="constants.pkl")
        return needs_of(self.code, (root, constants))

    def tree(self) -> ModuleInfo:
        """The module tree: name, class, methods, parameters and bytes of each module.

        Of a program of ExecuTorch, its methods, and what each calls.
        """
        if not self._is_zip:
            return self.executorch.tree()
        if self.kind == PT2:
            return self.exported.tree()
        return cast("TorchScriptDoor | LegacyDoor", self._door).tree(self.class_of)

    def class_of(self, value: Object) -> ClassType:
        """The class of a pickled object.

        Raises UnknownClassError when it is not defined, FormatError when it is not a class.
        """
        found = self.classes.find_class(value.cls.qualified_name)
        if not isinstance(found, ClassType):
            raise FormatError(f"{value.cls.qualified_name} is not a class", record="data.pkl")
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()


def open(source: str | os.PathLike[str] | BinaryIO) -> Archive:  # the verb of the public interface
    """Open an archive (a path or a binary file object) for looking at; torch is not imported.

    Raises FormatError when the file is neither a sound zip archive nor a sound file of ExecuTorch,
    OSError when it cannot be read.
    """
    return Archive(opened_archive(source))
