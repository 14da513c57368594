"""Inspection of an archive from before torch 1.3, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tsarchive.container import Container
from tsarchive.describing.facts import ModuleInfo
from tsarchive.describing.tensors import TensorInfo
from tsarchive.errors import UnsupportedError
from tsarchive.formats.torchscript.code_records import CodeRecords
from tsarchive.formats.torchscript.debug import DebugRecords
from tsarchive.formats.torchscript.inspection import (
    Root,
    class_finder,
    constants_in,
    module_tree,
    named_tensors,
)
from tsarchive.formats.torchscript.pickled import reachable
from tsarchive.formats.view import View
from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import Type
from tsarchive.pickler import Global, Object, Value

from .classes import CODE_FOLDERS, DIALECT, OPERATOR_VERSION, Module, module_of
from .model import MODEL, Model, debug_records, read_model
from .values import Values

if TYPE_CHECKING:
    from tsarchive.describing.facts import Needs


class LegacyView(View):
    """The parts of an open archive, each read on demand."""

    def __init__(self, container: Container) -> None:
        self._container = container

    @cached_property
    def model(self) -> Model:
        return read_model(self._container.read(MODEL))

    @property
    def format_version(self) -> int:
        """The version of ``model.json``; the version record is 1 in all these archives."""
        return self.model.version

    @cached_property
    def code(self) -> CodeRecords:
        return CodeRecords(self._container, CODE_FOLDERS)

    @cached_property
    def debug(self) -> DebugRecords:
        return DebugRecords(self._container, dict(debug_records(self.model.main)))

    @property
    def classes(self) -> CodeImporter:
        return self._main[1]

    @cached_property
    def _main(self) -> tuple[Module, CodeImporter]:
        """Return the main module, and the importer that knows its class."""
        classes = CodeImporter(
            self.code,
            operators=lambda name: (),
            constant=_no_constant,
            version=OPERATOR_VERSION,
            native_class=lambda name: ClassType(name, is_native=True),
            evaluate=lambda schema: None,
            dialect=DIALECT,
            reads_bodies=False,
        )
        return module_of(self.model.main, classes, self.code), classes

    @cached_property
    def root(self) -> Object:
        """The main module as a pickle would describe it."""
        return _described(self._main[0], self._values)

    @cached_property
    def _values(self) -> Values:
        return Values(self._container, self.model)

    def tensors(self) -> Iterator[tuple[str, TensorInfo]]:
        """Yield every tensor by its dotted name: those of the root, and those that code names."""
        class_of = class_finder(self.classes)
        return named_tensors(self._roots(), class_of, self._container.records)

    def tree(self) -> ModuleInfo:
        """Return the modules below the root."""
        class_of = class_finder(self.classes)
        return module_tree(Root(MODEL, "", self.root), class_of, self._container.records)

    def needs(self) -> Needs:
        """What all of the code needs."""
        from tsarchive.formats.torchscript.needs import needs_of_all

        return needs_of_all(self.code, DIALECT.renamed)

    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        assert info.storage is not None
        return self._container.view(info.storage)[info.offset :]

    def _roots(self) -> Iterator[Root]:
        """Yield the root, and the rest of the tensor table, which holds the code's constants."""
        yield Root(MODEL, "", self.root)
        held = {id(value) for value in reachable(self.root)}
        for root in constants_in(self._values.table(), MODEL):
            if id(root.value) not in held:
                yield root


def _described(module: Module, values: Values) -> Object:
    definition = module.definition
    state: dict[Value, Value] = {}
    for submodule in module.submodules:
        state[submodule.definition.name] = _described(submodule, values)
    for parameter in definition.parameters:
        state[parameter.name] = values.tensor(parameter.tensor)
    for attribute in definition.attributes:
        if attribute.value is not None:
            state[attribute.name] = values.attribute(attribute.value)
    if definition.state is not None:
        state["__getstate__"] = values.attribute(definition.state)
    qualifier, _, name = module.class_.qualified_name.rpartition(".")
    return Object(Global(qualifier, name), state)


def _no_constant(index: int) -> tuple[Any, Type]:
    raise UnsupportedError("constants are not read while looking", record=MODEL)
