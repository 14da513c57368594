"""Inspection of an archive with a data.pkl, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tsarchive.container import Container
from tsarchive.describing.facts import ModuleInfo
from tsarchive.describing.tensors import TensorInfo
from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.view import View
from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import TENSOR, Type
from tsarchive.pickler import Object, Reduce, loads

from .bytecode import BYTECODE, tables_of
from .code_records import CodeRecords, format_version
from .debug import DebugRecords
from .inspection import Root, class_finder, constants_in, module_tree, named_tensors

if TYPE_CHECKING:
    from tsarchive.describing.facts import Needs

_DATA = "data.pkl"
_CONSTANTS = "constants.pkl"


class TorchScriptView(View):
    """The parts of an open archive, each read on demand."""

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
        found = loads(self._container.read(_DATA), record=_DATA)
        if not isinstance(found, Object):
            raise FormatError("the root of the archive is not an object", record=_DATA)
        return found

    def tensors(self) -> Iterator[tuple[str, TensorInfo]]:
        """Yield every tensor by its dotted name: those of the root, and those that code names."""
        class_of = class_finder(self.classes)
        return named_tensors(self._roots(), class_of, self._container.records)

    def tree(self) -> ModuleInfo:
        """Return the modules below the root."""
        class_of = class_finder(self.classes)
        return module_tree(Root(_DATA, "", self.root), class_of, self._container.records)

    def needs(self) -> Needs:
        """What the code needs that is reached from the root and the constants."""
        from .needs import needs_of

        return needs_of(self.code, (self.root, self._constants))

    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        assert info.storage is not None
        return self._container.view(info.storage)[info.offset :]

    def _roots(self) -> Iterator[Root]:
        """Yield the roots of tensors.

        Example inputs of a trace are stored without their elements.
        """
        yield Root(_DATA, "", self.root)
        yield from constants_in(self._constants, _CONSTANTS)
        if BYTECODE in self._container.records:
            yield from _bytecode_constants(loads(self._container.read(BYTECODE), record=BYTECODE))

    @cached_property
    def _constants(self) -> Any:
        return loads(self._container.read(_CONSTANTS), record=_CONSTANTS)

    def _constant(self, index: int) -> tuple[Any, Type]:
        """Return a constant tensor as the pickle describes it, for defaults of parameters."""
        table = self._constants
        found = table[index] if isinstance(table, tuple) and 0 <= index < len(table) else None
        if isinstance(found, Reduce) and found.function.module == "torch._utils":
            from tsarchive.ir.values import TableConstant

            return TableConstant(found), TENSOR
        raise UnsupportedError(
            f"constant {index} is no tensor: others are not read while looking",
            record=_CONSTANTS,
            hint="Load the archive to see it",
        )


def _bytecode_constants(functions: Any) -> Iterator[Root]:
    """Yield the constants of each function of ``bytecode.pkl``."""
    for function, table, rows in tables_of(functions):
        if table == "constants":
            for index, value in enumerate(rows):
                name = f"bytecode.{function}.constants.{index}"
                yield Root(BYTECODE, name, value, "constant")
