"""The code of an archive as a program graph, lowered in an open world."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from tsarchive.analyses.program import Program
from tsarchive.container import Container
from tsarchive.errors import ArchiveError
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.types import TENSOR, UNKNOWN, Type
from tsarchive.pickler import Reduce, loads

from .code_records import presumed_version
from .stored_tensors import TENSOR_MODULE

_CONSTANTS: Final = "constants.pkl"


def program_of(code: Mapping[str, bytes], container: Container) -> Program:
    """Return the code of an archive; what only its constants tell is not known without them."""

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
        return TableConstant(found), TENSOR if is_tensor else UNKNOWN

    return Program(code, constant, presumed_version(container))
