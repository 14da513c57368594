"""The formats that tables of a survey may have: Parquet and JSON lines, of the same columns."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from tsarchive.errors import UnsupportedError

from .rows import RowType

_ROWS_AT_ONCE: Final = 256
"""So many rows of a part are held in memory: many parts are read at once."""


class TableFormat(ABC):
    """Writes and reads tables of rows, each a dict of values by column."""

    @abstractmethod
    def require(self) -> None:
        """Raise UnsupportedError where a package is missing that it takes."""

    @abstractmethod
    def write(self, stream: BinaryIO, kind: RowType, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write a table."""

    @abstractmethod
    def read(self, path: Path) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table."""

    @abstractmethod
    def arrow(self, paths: Iterable[Path], kind: RowType) -> Iterator[Any]:
        """Yield the tables as ``pyarrow.RecordBatch``."""


class _JsonLines(TableFormat):
    def require(self) -> None:
        """Take nothing: Python writes JSON."""

    def write(self, stream: BinaryIO, kind: RowType, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            stream.write(json.dumps(row).encode() + b"\n")

    def read(self, path: Path) -> Iterator[dict[str, Any]]:
        with open(path, "rb") as lines:
            yield from map(json.loads, lines)

    def arrow(self, paths: Iterable[Path], kind: RowType) -> Iterator[Any]:
        return batches_of(kind, (row for path in paths for row in self.read(path)))


class _Parquet(TableFormat):
    def require(self) -> None:
        if find_spec("pyarrow") is None:
            raise _without_pyarrow("Tables in Parquet")

    def write(self, stream: BinaryIO, kind: RowType, rows: Iterable[Mapping[str, Any]]) -> None:
        from pyarrow.parquet import ParquetWriter

        with ParquetWriter(stream, _schema(kind)) as writer:
            for batch in batches_of(kind, rows):
                writer.write_batch(batch)

    def read(self, path: Path) -> Iterator[dict[str, Any]]:
        for batch in self._batches(path):
            yield from batch.to_pylist()

    def arrow(self, paths: Iterable[Path], kind: RowType) -> Iterator[Any]:
        return (batch for path in paths for batch in self._batches(path))

    def _batches(self, path: Path) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            yield from file.iter_batches(_ROWS_AT_ONCE)


FORMATS: Final[Mapping[str, TableFormat]] = {"parquet": _Parquet(), "jsonl": _JsonLines()}


def default_format() -> str:
    """Return the format of tables where nobody names one: Parquet where pyarrow is installed."""
    return "jsonl" if find_spec("pyarrow") is None else "parquet"


def arrow_table(kind: RowType, batches: Iterable[Any]) -> Any:
    """Return batches of rows as a ``pyarrow.Table``. Raises UnsupportedError without pyarrow."""
    if find_spec("pyarrow") is None:
        raise _without_pyarrow("Tables of Arrow")
    import pyarrow

    return pyarrow.Table.from_batches(batches, _schema(kind))


def batches_of(kind: RowType, rows: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """Yield rows as ``pyarrow.RecordBatch``, each of as many as are held in memory at once."""
    import pyarrow

    waiting = iter(rows)
    while some := [*islice(waiting, _ROWS_AT_ONCE)]:
        yield pyarrow.RecordBatch.from_pylist(some, _schema(kind))


def _schema(kind: RowType) -> Any:
    """Return the columns of a table: texts, integers, and lists of texts."""
    import pyarrow

    types = {
        "int": pyarrow.int64(),
        "tuple[str, ...]": pyarrow.list_(pyarrow.string()),
    }
    return pyarrow.schema(
        [
            (field.name, types.get(str(field.type).partition(" | ")[0], pyarrow.string()))
            for field in fields(kind)
        ]
    )


def _without_pyarrow(what: str) -> UnsupportedError:
    hint = "pip install 'tsarchive[survey]', or write JSON lines"
    return UnsupportedError(f"{what} take pyarrow, which is not installed", hint=hint)
