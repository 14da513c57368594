"""The tables of ``bytecode.pkl``, which mobile runtimes execute instead of the code records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

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
