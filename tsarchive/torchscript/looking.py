"""What an archive with a data.pkl shows without torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from tsarchive.container import Container
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.kinds import kind_of, require_torchscript
from tsarchive.pickler import Object, Reduce, loads
from tsarchive.printer.types import TENSOR, ClassType, Type
from tsarchive.torchscript.code_records import CodeRecords, format_version
from tsarchive.torchscript.debug import DebugRecords
from tsarchive.torchscript.frontend import CodeImporter
from tsarchive.torchscript.inspection import ClassOf, TensorInfo, named_tensors


class TorchScriptDoor:
    """The parts of an open archive, each read when it is asked for.

    Archives of other kinds have code records and a version at most: asked for more, it raises
    MissingRecordError.
    """

    def __init__(self, container: Container) -> None:
        self._container = container

    @property
    def format_version(self) -> int:
        """The number in the version record."""
        return format_version(self._container)

    @cached_property
    def code(self) -> CodeRecords:
        return CodeRecords(self._container)

    @cached_property
    def debug(self) -> DebugRecords:
        return DebugRecords(self._container)

    @cached_property
    def classes(self) -> CodeImporter:
        self._require_torchscript()
        return CodeImporter(
            self.code,
            operators=lambda name: (),
            constant=self._constant,
            version=self.format_version,
            native_class=lambda name: ClassType(name, is_native=True),
            evaluate=lambda schema: None,
            reads_bodies=False,
        )

    @cached_property
    def root(self) -> Object:
        """The root object as data.pkl describes it."""
        self._require_torchscript()
        found = loads(self._container.read("data.pkl"), record="data.pkl")
        if not isinstance(found, Object):
            raise FormatError("the root of the archive is not an object", record="data.pkl")
        return found

    def tensors(self, class_of: ClassOf) -> Iterator[tuple[str, TensorInfo]]:
        """Every tensor by its dotted name."""
        return named_tensors(self.root, class_of)

    @cached_property
    def _constants(self) -> Any:
        return loads(self._container.read("constants.pkl"), record="constants.pkl")

    def _constant(self, index: int) -> tuple[Any, Type]:
        """A constant tensor as the pickle describes it, for defaults of parameters."""
        table = self._constants
        found = table[index] if isinstance(table, tuple) and 0 <= index < len(table) else None
        if isinstance(found, Reduce) and found.function.module == "torch._utils":
            from tsarchive.printer.values import TableConstant

            return TableConstant(found), TENSOR
        raise UnsupportedError(
            f"constant {index} is no tensor: others are not read while looking",
            record="constants.pkl",
            hint="Load the archive to see it",
        )

    def _require_torchscript(self) -> None:
        records = self._container.records
        require_torchscript(kind_of(records), records)
