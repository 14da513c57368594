"""The code of an archive as program graphs, without torch; its definitions and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from tsarchive.analyses.program import Program
from tsarchive.container import Container
from tsarchive.errors import ArchiveError, SaveError
from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import TENSOR, UNKNOWN, NamedType, Type, annotation
from tsarchive.operators.overloads import native_class, overloads_of
from tsarchive.pickler import Object, Reduce, loads
from tsarchive.printer.literals import ConstantTable

from .code_records import presumed_version
from .stored_tensors import TENSOR_MODULE

_CONSTANTS: Final = "constants.pkl"


def program_of(
    code: Mapping[str, bytes],
    container: Container,
    *,
    knows_objects: bool = False,
    foreign: Mapping[str, Sequence[FunctionSchema]] = MappingProxyType({}),
) -> Program:
    """Return the code of an archive; what only its constants tell is not known without them.

    With ``knows_objects``, constants that are objects of libraries, such as packed weights, are of
    their classes; otherwise their types are unknown, and so is what operators make of them, and
    what operators give that are neither torch's nor ``foreign``.
    """

    def operators(name: str) -> Sequence[FunctionSchema]:
        return foreign.get(name) or overloads_of(name)

    @cache
    def table() -> Any:
        try:
            return loads(container.read(_CONSTANTS), record=_CONSTANTS)
        except ArchiveError:
            return None  # the walk over the pickle has told of it

    def constant(index: int) -> tuple[Any, Type]:
        values = table()
        found = values[index] if isinstance(values, tuple) and 0 <= index < len(values) else None
        is_tensor = isinstance(found, Reduce) and found.function.module == TENSOR_MODULE
        if knows_objects and isinstance(found, Object):
            name = found.cls.qualified_name
            if name.startswith(NATIVE_PREFIX):
                return TableConstant(found), native_class(name)
        return TableConstant(found), TENSOR if is_tensor else UNKNOWN

    return Program(code, constant, presumed_version(container), operators)


def definition(code: CodeImporter, name: str) -> NamedType:
    """Return what a record defines; a class's own hook for the copy that stands beside it."""
    owner = code.find(name.rpartition(".")[0])
    if isinstance(owner, ClassType):
        for hook in owner.hooks():
            if hook.qualified_name == name:
                return hook.type
    found = code.find(name)
    assert found is not None, name
    return found


class ConstantNumbers(ConstantTable):
    """The constant table as it was read: entries keep their numbers."""

    def __init__(self, constant: Callable[[int], tuple[Any, Type]]) -> None:
        self._constant = constant
        self._entries: dict[int, tuple[TableConstant, Type]] = {}
        self._numbers: dict[int, int] = {}

    def constant(self, number: int) -> tuple[TableConstant, Type]:
        entry = self._entries.get(number)
        if entry is None:
            value, type_ = self._constant(number)
            # An entry of its own even for equal values, such as two equal strings.
            entry = self._entries[number] = (TableConstant(value), type_)
            self._numbers[id(entry[0])] = number
        return entry

    def index(self, value: Any, type_: Type) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            raise SaveError(f"a constant of type {annotation(type_)} cannot be written as text")
        return number
