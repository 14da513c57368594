"""The contents of an archive of before torch 1.3, in the forms of those since, without torch."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tsarchive.formats.torchscript.contents import TorchScriptContents
from tsarchive.formats.torchscript.debug_records import DebugRecords
from tsarchive.frontend import CodeImporter
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.types import TENSOR, Type
from tsarchive.operators.overloads import class_of, overloads_of
from tsarchive.pickler import Object

from .inspection import (
    CODE_FOLDERS,
    MODEL,
    OPERATOR_VERSION,
    Module,
    RunnableRecords,
    Values,
    debug_records,
    described,
    dialect_of,
    module_of,
    read_model,
)


class LegacyContents(TorchScriptContents):
    """The contents of an archive with a model.json: as if a data.pkl described its modules."""

    values_record = constants_record = MODEL

    def root(self) -> Object:
        return described(self._main, self._values)

    @cached_property
    def _values(self) -> Values:
        return Values(self._container, read_model(self._container.read(MODEL)))

    @cached_property
    def _records(self) -> RunnableRecords:
        return RunnableRecords(self._container, CODE_FOLDERS)

    @cached_property
    def importer(self) -> CodeImporter:
        return CodeImporter(
            self._records,
            operators=overloads_of,
            constant=self._entry,
            version=OPERATOR_VERSION,
            native_class=class_of,
            evaluate=lambda schema: None,
            dialect=dialect_of(self._values.model),
            open_world=True,
        )

    @property
    def debug(self) -> DebugRecords:
        """The debug records by the names of their code records."""
        return DebugRecords(self._container, dict(debug_records(self._values.model.main)))

    def _entry(self, index: int) -> tuple[Any, Type]:
        return TableConstant(self._values.tensor(index)), TENSOR

    @cached_property
    def _main(self) -> Module:
        return module_of(self._values.model.main, self.importer, self._records)
