"""Operators in ``bytecode.pkl``, which runtimes for phones run in place of the code records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tsarchive.auditing.operators import ordered, use_of
from tsarchive.auditing.values import OperatorUse, Place, When
from tsarchive.errors import ArchiveError
from tsarchive.pickler import loads

__all__ = ["BYTECODE", "operators_in_bytecode"]

BYTECODE: Final = "bytecode.pkl"


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
    for entry in functions if isinstance(functions, tuple) else ():
        match entry:
            case (str(function), tuple(tables), *_):
                for table in tables:
                    yield from ((function, operator) for operator in _in_table(table))


def _in_table(table: Any) -> Iterator[str]:
    match table:
        case ("operators", tuple(rows)):
            for row in rows:
                match row:
                    case (str(name), str(overload), *_):
                        yield f"{name}.{overload}" if overload else name
