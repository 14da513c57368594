"""A container with some records replaced in memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from tsarchive.container.checksum import crc32
from tsarchive.container.layout import STORED
from tsarchive.container.reader import Container, Record
from tsarchive.errors import ArchiveError


class ChangedContainer(Container):
    """``container`` with the records in ``changed`` in place of its own, as if they were stored.

    The file is left as it is. This object owns ``container`` and closes it.
    """

    def __init__(self, container: Container, changed: Mapping[str, bytes]) -> None:
        self._container = container
        self.root = container.root
        self._changed = {name: bytearray(data) for name, data in changed.items()}
        self.records = MappingProxyType(
            {
                name: _stored(name, changed[name]) if name in changed else record
                for name, record in container.records.items()
            }
        )

    def size(self, name: str) -> int | None:
        changed = self._changed.get(name)
        return self._container.size(name) if changed is None else len(changed)

    def read(self, name: str) -> bytes:
        changed = self._changed.get(name)
        return self._container.read(name) if changed is None else bytes(changed)

    def view(self, name: str) -> memoryview:
        changed = self._changed.get(name)
        return self._container.view(name) if changed is None else memoryview(changed)

    def payload(self, name: str) -> memoryview:
        changed = self._changed.get(name)
        return self._container.payload(name) if changed is None else memoryview(changed)

    def buffer(self) -> memoryview:
        return self._container.buffer()

    def close(self) -> None:
        self._container.close()


def _stored(name: str, data: bytes) -> Record:
    return Record(name, len(data), len(data), STORED, crc32(data), _nowhere)


def _nowhere(name: str) -> NoReturn:
    raise ArchiveError("the record was changed in memory and is nowhere in the file", record=name)
