"""The tables of ``bytecode.pkl``, which mobile runtimes execute instead of the code records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tsarchive.errors import ArchiveError
from tsarchive.pickler import loads

if TYPE_CHECKING:
    from tsarchive.scanning.report import OperatorUse

BYTECODE: Final = "bytecode.pkl"


def tables_of(functions: Any) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield (function, table, rows) for each table of each function.

    Entries of another form are skipped.
    """
    for entry in functions if isinstance(functions, tuple) else ():
        match entry:
            case (str(function), tuple(tables), *_):
                for table in tables:
                    match table:
                        case (str(name), tuple(rows)):
                            yield function, name, rows


def operators_in_bytecode(data: bytes) -> tuple[OperatorUse, ...]:
    """The operators that each function of the record lists; none when it cannot be read."""
    from tsarchive.scanning.report import Place, When, ordered, use_of

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
