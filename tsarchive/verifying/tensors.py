"""Tensors that pickles describe against the records that their storages lie in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tsarchive.container import Container
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.pickler import PersistentId, Reduce
from tsarchive.torchscript.pickled import reachable
from tsarchive.torchscript.stored_tensors import TENSOR_MODULE, tensor_findings

from .pickles import Pickle

__all__ = ["Storages", "unreferenced"]

# Where the storages of a pickle lie, by its name: of several folders, the first that has one.
_FOLDERS = {
    "data.pkl": ("data/",),
    "constants.pkl": ("constants/",),
    "traced_inputs.pkl": ("traced_inputs/",),
    # Archives for mobiles share what both pickles refer to.
    "bytecode.pkl": ("bytecode/", "constants/", ""),
}
_STORAGE_FOLDERS = ("data/", "constants/", "traced_inputs/", "bytecode/", "tensors/")


class Storages:
    """Checks tensors, counts them, and remembers which records they lie in."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self.tensors = 0
        self.referenced: set[str] = set()

    def findings(self, pickle: Pickle) -> Iterator[Finding]:
        """What is wrong with the tensors of one pickle."""
        folders = _FOLDERS.get(pickle.record, ("",))
        return self.value_findings(pickle.value, pickle.record, folders, pickle.named.storages)

    def value_findings(
        self,
        value: Any,
        record: str,
        folders: tuple[str, ...],
        offsets: Mapping[str, int] = MappingProxyType({}),
    ) -> Iterator[Finding]:
        """The same for a value that ``record`` describes; keys are names in ``folders``.

        ``offsets`` has the places in ``record`` that refer to each storage.
        """
        for found in reachable(value):
            match found:
                case PersistentId(value=(_, _, str(key), *_)):
                    self.referenced.add(self._record(key, folders))
                case Reduce() if found.function.module == TENSOR_MODULE:
                    self.tensors += 1
        yield from tensor_findings(
            value,
            record=record,
            storage_size=lambda key: self._size(self._record(key, folders)),
            offset_of=offsets.get,
        )

    def _record(self, key: str, folders: Iterable[str]) -> str:
        names = [f"{folder}{key}" for folder in folders]
        return next((name for name in names if name in self._container.records), names[0])

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
