"""Parts of torch's Python library that programs use, as TorchScript classes and functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.schema import FunctionSchema

from . import contexts, quantized_decomposed
from .operators import Target

# The operator version of the texts.
_VERSION: Final = 10


class Library:
    """Parses the texts; each class and function on first use."""

    def __init__(self, operators: Callable[[str], Sequence[FunctionSchema]]) -> None:
        self._code = CodeImporter(
            {**contexts.FILES, **quantized_decomposed.FILES},
            operators=operators,
            constant=_no_constant,
            version=_VERSION,
            native_class=_no_class,
            evaluate=_no_evaluation,
        )

    def class_of(self, qualified_name: str) -> ClassType:
        found = self._code.find_class(qualified_name)
        assert isinstance(found, ClassType)
        return found

    def function(self, target: Target) -> Function | None:
        """Return the implementation of an operator that torch has in Python; None for others."""
        name = quantized_decomposed.FUNCTIONS.get(target)
        if name is None:
            return None
        found = self._code.find(name)
        assert isinstance(found, FunctionType)
        return found.function


def _no_constant(index: int) -> tuple[object, ClassType]:
    raise IndexError(index)


def _no_class(name: str) -> None:
    return None


def _no_evaluation(schema: FunctionSchema) -> None:
    return None
