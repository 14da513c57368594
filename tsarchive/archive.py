"""An opened archive: its records, code, tensors and module tree, without torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import Any, BinaryIO

from tsarchive.container import Container, Record
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.kinds import kind_of, require_torchscript
from tsarchive.pickler import Object, loads
from tsarchive.printer.types import ClassType, Type
from tsarchive.torchscript.code_records import CodeRecords, format_version
from tsarchive.torchscript.frontend import CodeImporter
from tsarchive.torchscript.inspection import ModuleInfo, TensorInfo, module_tree, named_tensors


class Archive:
    """An archive opened for looking at. Also a context manager that closes itself.

    Opening reads the directory of the file; everything else is read when it is asked for.
    """

    def __init__(self, container: Container) -> None:
        self._container = container

    @cached_property
    def kind(self) -> str:
        """``torchscript``, ``torchscript-legacy``, ``pt2``, ``torch.save``, ``torch.package``
        or ``zip``, by the records present."""
        return kind_of(self.records)

    @cached_property
    def format_version(self) -> int:
        """The number in the version record.

        Raises MissingRecordError when there is none, FormatError when it is not a number.
        """
        return format_version(self._container)

    @property
    def container(self) -> Container:
        """The zip container, for access to stored bytes."""
        return self._container

    @property
    def records(self) -> Mapping[str, Record]:
        """Records by name without the root folder, in the order of the file."""
        return self._container.records

    def read(self, name: str) -> bytes:
        """The data of one record; its CRC is checked."""
        return self._container.read(name)

    @cached_property
    def code(self) -> Mapping[str, str]:
        """The text of each code record, read when it is looked at."""
        return CodeRecords(self._container)

    @cached_property
    def classes(self) -> CodeImporter:
        """The classes that the code records define, found by qualified name.

        They serve for looking: methods have schemas, and graphs as far as they need no operator.
        """
        require_torchscript(self.kind, self.records)
        return CodeImporter(
            self.code,
            operators=lambda name: (),
            constant=_no_constant,
            version=self.format_version,
            native_class=lambda name: ClassType(name, is_native=True),
            evaluate=lambda schema: None,
        )

    @cached_property
    def root(self) -> Object:
        """The root object as data.pkl describes it."""
        require_torchscript(self.kind, self.records)
        found = loads(self._container.read("data.pkl"), record="data.pkl")
        if not isinstance(found, Object):
            raise FormatError("the root of the archive is not an object", record="data.pkl")
        return found

    @cached_property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Every tensor that a module attribute holds, by its fully qualified name."""
        return MappingProxyType(dict(named_tensors(self.root, self.class_of)))

    def tree(self) -> ModuleInfo:
        """The module tree: name, class, methods, parameters and bytes of each module."""
        return module_tree(self.root, self.class_of)

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
        self._container.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open(source: str | os.PathLike[str] | BinaryIO) -> Archive:  # the verb of the public interface
    """Open an archive (a path or a binary file object) for looking at; torch is not imported.

    Raises FormatError when the file is not a sound zip archive, OSError when it cannot be read.
    """
    return Archive(Container.open(source))


def _no_constant(index: int) -> tuple[Any, Type]:
    raise UnsupportedError("constants are not read while looking", record="constants.pkl")
