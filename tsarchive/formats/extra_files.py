"""Extra files: what users store in an archive beside the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tsarchive.errors import CallError

from .records import RecordTable, Role


class _Opened(Protocol):
    """An open file."""

    @property
    def records(self) -> Mapping[str, Any]: ...

    def read(self, name: str) -> bytes: ...


class ExtraFiles(Mapping[str, bytes]):
    """The records that a table calls extra files, without the folder that they are in."""

    def __init__(self, opened: _Opened, table: RecordTable) -> None:
        self._opened = opened
        self._records = {
            record.partition("/")[2]: record
            for record in opened.records
            if table.role(record) is Role.EXTRA
        }

    def __getitem__(self, name: str) -> bytes:
        return self._opened.read(self._records[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, name: object) -> bool:
        return name in self._records

    def __repr__(self) -> str:
        return f"<extra files: {', '.join(self._records) or 'none'}>"

    def fill(self, wanted: dict[str, Any]) -> None:
        """Fill a dict as torch.jit.load fills its ``_extra_files``; an empty one with all files.

        Names that no file has get empty bytes; upper and lower case count as the same.
        """
        if not isinstance(wanted, dict):
            raise CallError(
                f"extra_files is a dict that is filled, not {type(wanted).__name__}",
                hint='Give {"name": ""}, or an empty dict for all files',
            )
        for name in wanted:
            if not isinstance(name, str):
                raise CallError(f"names of extra files are strings, not {type(name).__name__}")
        alike = {name.lower(): name for name in reversed(self._records)}
        names = {name: alike.get(name.lower()) for name in wanted or self._records}
        wanted |= {name: b"" if own is None else self[own] for name, own in names.items()}
