"""Tensors that pickles describe against the records that their storages lie in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tsarchive.container import Container
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.formats.torchscript.inspection import storage_record
from tsarchive.formats.torchscript.pickled import reachable
from tsarchive.formats.torchscript.stored_tensors import tensor_findings
from tsarchive.pickler import PersistentId

from .pickles import Pickle

_STORAGE_FOLDERS = ("data/", "constants/", "traced_inputs/", "bytecode/", "tensors/")


class Storages:
    """Checks tensors, and remembers which records they lie in; some may be ``damaged``."""

    def __init__(self, container: Container, damaged: Collection[str]) -> None:
        self._container = container
        self._damaged = damaged
        self.referenced: set[str] = set()

    def findings(self, pickle: Pickle) -> Iterator[Finding]:
        """What is wrong with the tensors of one pickle."""
        return self.value_findings(pickle.value, pickle.record, pickle.named.storages)

    def value_findings(
        self, value: Any, record: str, offsets: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[Finding]:
        """The same for a value that ``record`` describes.

        ``offsets`` has the places in ``record`` that refer to each storage.
        """
        for found in reachable(value):
            match found:
                case PersistentId(value=(_, _, str(key), *_)):
                    self.referenced.add(self._name(record, key))
        yield from tensor_findings(
            value,
            record=record,
            storage_size=lambda key: self._size(self._name(record, key)),
            offset_of=offsets.get,
            in_doubt=lambda key: self._name(record, key) in self._damaged,
        )

    def _name(self, pickle: str, key: str) -> str:
        return storage_record(pickle, key, self._container.records)

    def _size(self, name: str) -> int | None:
        record = self._container.records.get(name)
        return None if record is None else record.size


def unreferenced(container: Container, referenced: set[str]) -> Iterator[Finding]:
    """A finding for each storage that no pickle refers to."""
    for name, record in container.records.items():
        if name.startswith(_STORAGE_FOLDERS) and name not in referenced:
            yield Finding(
                "record-unreferenced",
                Severity.WARNING,
                Nature.UNUSUAL,
                f"no tensor lies in these {record.size:,} bytes",
                name,
                hint="See what it is before you pass the file on",
            )
