"""Operators in ``bytecode.pkl``, by the functions that call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tsarchive.errors import ArchiveError
from tsarchive.formats.torchscript.bytecode import BYTECODE, tables_of
from tsarchive.pickler import loads
from tsarchive.scanning.operators import ordered, use_of
from tsarchive.scanning.report import OperatorUse, Place, When


def operators_in_bytecode(data: bytes) -> tuple[OperatorUse, ...]:
    """The operators that each function of the record lists; none when it cannot be read."""
    try:
        functions = loads(data, record=BYTECODE)
    except ArchiveError:
        return ()  # the walk over the pickle has told of it
    places: dict[str, list[Place]] = {}
    for function, operator in _operators(functions):
        when = When.LOAD if function.endswith(".__setstate__") else When.CALL
        places.setdefault(operator, []).append(Place(BYTECODE, None, function, (when,)))
    return ordered(use_of(name, tuple(found)) for name, found in places.items())


def _operators(functions: Any) -> Iterator[tuple[str, str]]:
    for function, table, rows in tables_of(functions):
        for row in rows if table == "operators" else ():
            match row:
                case (str(name), str(overload), *_):
                    yield function, f"{name}.{overload}" if overload else name
