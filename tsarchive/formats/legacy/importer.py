"""Loading of an archive from before torch 1.3 as a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tsarchive.container import Container
from tsarchive.errors import FormatError
from tsarchive.formats.torchscript.debug_records import DebugRecords
from tsarchive.formats.torchscript.importer import (
    BaseImporter,
    Unpickling,
    check_set,
    check_slot,
    runnable_code,
    set_state,
)
from tsarchive.formats.torchscript.tensors import TensorReader
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.types import TENSOR, Type
from tsarchive.policy import FOR_STRANGERS, Guard
from tsarchive.run.objects import new_object
from tsarchive.run.slots import link_lists, set_slot

from .inspection import (
    ATTRIBUTES,
    CODE_FOLDERS,
    MODEL,
    OPERATOR_VERSION,
    Module,
    RunnableRecords,
    Values,
    debug_records,
    dialect_of,
    module_of,
    read_model,
)

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule


class LegacyImporter(BaseImporter):
    """Loads the main module of one archive; its container stays open while tensors live."""

    def __init__(
        self,
        container: Container,
        device: torch.device | None,
        guard: Guard = FOR_STRANGERS,
        tensors_on: torch.device | None = None,
    ) -> None:
        self.model = read_model(container.read(MODEL))
        named_devices = {tensor.device for tensor in self.model.tensors}
        super().__init__(container, device, guard, tensors_on, named_devices)
        self.records = RunnableRecords(self.container, CODE_FOLDERS)
        self.code = runnable_code(
            self.records,
            constant=self.constant,
            version=OPERATOR_VERSION,
            debug=DebugRecords(self.container, dict(debug_records(self.model.main))),
            dialect=dialect_of(self.model),
        )
        self._values = Values(self.container, self.model)
        tensors = TensorReader(self.container.view, self.device, MODEL)
        self._unpickling = Unpickling(self, tensors, ATTRIBUTES, self.moved)
        self._main = module_of(self.model.main, self.code, self.records)

    def load(self) -> ArchiveModule:
        """Return the main module.

        Raises ArchiveError where a record breaks a rule of the format.
        """
        self.container.prefetch(self.container.records)  # weights are most of such a file
        module = self._module(self._main)
        return module  # type: ignore[no-any-return]  # modules are of no other class here

    def constant(self, index: int) -> tuple[Any, Type]:
        """Return ``CONSTANTS.cN``: tensor N of the table."""
        return TableConstant(self._unpickling.value(self._values.tensor(index))), TENSOR

    def _module(self, module: Module) -> Any:
        built = new_object(self.classes.table.python_class(module.class_))
        slots = module.class_.attributes
        if "training" in slots:
            set_slot(built, slots["training"], True)
        for submodule in module.submodules:
            set_slot(built, slots[submodule.definition.name], self._module(submodule))
        for parameter in module.definition.parameters:
            tensor = self._unpickling.value(self._values.tensor(parameter.tensor))
            set_slot(built, slots[parameter.name], tensor)
        for attribute in module.definition.attributes:
            value = self._attribute(attribute.value)
            if attribute.value is not None:
                check_slot(module.class_, slots[attribute.name], value, MODEL)
            set_slot(built, slots[attribute.name], value)
        self._set_state(built, module)
        link_lists(built)
        return built

    def _attribute(self, place: int | None) -> Any:
        if place is None:
            return None
        return self._unpickling.value(self._values.attribute(place))

    def _set_state(self, built: Any, module: Module) -> None:
        state = module.definition.state
        if state is None:
            check_set(built, module.class_, MODEL)
            return
        setter = module.class_.methods.get("__setstate__")
        if setter is None:
            name = module.class_.qualified_name
            raise FormatError(f"{name} has a state and no __setstate__", record=MODEL)
        takes_state = len(setter.schema.arguments) > 1
        arguments = (self._attribute(state),) * takes_state
        set_state(self.classes, built, module.class_, arguments, MODEL)
