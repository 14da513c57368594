"""Tensors of a file elsewhere whose bytes are fetched when a module first hands one of them out."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any, Final, NamedTuple, TypeAlias

import torch

from tsarchive.container import Container
from tsarchive.errors import ArchiveError
from tsarchive.run.slots import SlotKind

TABLES: Final = (SlotKind.PARAMETER, SlotKind.BUFFER)
"""The tables of modules that fetch what they hand out."""
# As much as any element type needs: tensors over memory that lies otherwise are copies.
_ALIGNMENT: Final = 16


class AwaitedStorages:
    """Storages whose bytes may be elsewhere, known by the address of their memory."""

    def __init__(self) -> None:
        self._records: dict[int, tuple[Container, str]] = {}
        self._deferred: list[_ModuleTensors] = []

    def memory(self, container: Container, record: str) -> memoryview | None:
        """Return where the data of a record is going to be; None where it has to be read now."""
        found = container.awaited(record) if container.is_elsewhere else None
        if not found:
            return None
        address = torch.frombuffer(found, dtype=torch.uint8).data_ptr()
        if address % _ALIGNMENT:
            return None
        self._records[address] = container, record
        return found

    def defer(self, module: torch.nn.Module) -> None:
        """Let a module fetch its parameters and buffers when one of them is first looked at.

        Tensors over the memory that ``memory`` gave must stand in tables of modules alone.
        """
        tables = {kind.value: _Table(module.__dict__[kind.value]) for kind in TABLES}
        found = {
            id(tensor): _Awaited(name, tensor, *record)
            for table in tables.values()
            for name, tensor in table.plain.items()
            if (record := self._record_of(tensor)) is not None
        }
        if found:
            self._deferred.append(_ModuleTensors(module, tables, found))

    def name_after(self, root: torch.nn.Module) -> None:
        """Let errors call tensors by their names in the whole model."""
        paths = {id(module): path for path, module in root.named_modules()}
        for tensors in self._deferred:
            tensors.path = paths.get(id(tensors.module()), "")
        self._deferred.clear()

    def _record_of(self, tensor: object) -> tuple[Container, str] | None:
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            return None
        return self._records.get(tensor.untyped_storage().data_ptr())


class _Awaited(NamedTuple):
    """A tensor that is not there yet, and the record that it is fetched from."""

    name: str
    tensor: torch.Tensor
    container: Container
    record: str


class _ModuleTensors:
    """The tensors of one module that are not there yet, fetched together.

    Then plain dicts stand in the place of its tables, which cost nothing. Where fetching fails all
    is as before, and is tried again at the next look.
    """

    def __init__(
        self, module: torch.nn.Module, tables: dict[str, _Table], awaited: dict[int, _Awaited]
    ) -> None:
        self.module = weakref.ref(module)
        self.path = ""
        self._tables = tables
        self._awaited = awaited
        for kind, table in tables.items():
            table.awaited = self
            module.__dict__[kind] = table

    def still_awaited(self) -> Iterator[_Awaited]:
        """Yield those that nobody has replaced meanwhile."""
        awaited = self._awaited  # another thread may empty the field
        for table in self._tables.values():
            found = (awaited.get(id(tensor)) for tensor in table.plain.values())
            yield from filter(None, found)

    def require(self, value: object) -> None:
        """Fetch the tensors if ``value`` is one of them. Raises what ``arrive`` raises."""
        awaited = self._awaited.get(id(value))
        if awaited is not None:
            self.arrive(awaited)

    def arrive(self, first: _Awaited | None = None) -> None:
        """Fetch the tensors; an error names ``first``, or the first of all.

        Raises RemoteError where they cannot be fetched, FormatError where the file is damaged.
        """
        awaited = [*self.still_awaited()]
        try:
            places = ((one.container, one.record) for one in awaited)
            for container, records in _by_container(places).items():
                container.arrive(records)
        except ArchiveError as error:
            name = (first or awaited[0]).name
            shown = f"{self.path}.{name}" if self.path else name
            error.message = f"the tensor {shown!r} is not there: {error.message}"
            raise
        self._awaited = {}
        self._put_back()

    def _put_back(self) -> None:
        module = self.module()
        for kind, table in self._tables.items():
            if module is not None and module.__dict__.get(kind) is table:
                module.__dict__[kind] = table.plain


Places: TypeAlias = Iterable[tuple[Container, str]]
"""Records, each in its container."""


def fetch(places: Places) -> None:
    """Fetch records in parallel. Raises RemoteError where they cannot be fetched."""
    for container, records in _by_container(places).items():
        container.prefetch(records)


def _by_container(places: Places) -> dict[Container, list[str]]:
    found: dict[Container, list[str]] = defaultdict(list)
    for container, record in places:
        found[container].append(record)
    return found


class _Table(MutableMapping[str, Any]):
    """A table of a module, which fetches tensors before it hands them out.

    It is no dict, since C code would look into that without asking. ``plain`` is the dict that it
    stands for; who has kept this object sees it, whatever the module has by now.
    """

    awaited: _ModuleTensors

    def __init__(self, plain: dict[str, Any]) -> None:
        self.plain = plain

    def __getitem__(self, name: str) -> Any:
        value = self.plain[name]
        self.awaited.require(value)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        self.plain[name] = value

    def __delitem__(self, name: str) -> None:
        del self.plain[name]

    def __contains__(self, name: object) -> bool:
        return name in self.plain

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain)

    def __len__(self) -> int:
        return len(self.plain)

    def keys(self) -> KeysView[str]:
        return self.plain.keys()

    def items(self) -> ItemsView[str, Any]:
        return self._fetched().items()

    def values(self) -> ValuesView[Any]:
        return self._fetched().values()

    def copy(self) -> dict[str, Any]:
        """Return a dict, as the copy of one is."""
        return self._fetched().copy()

    def __or__(self, other: Any) -> dict[str, Any]:
        return self._fetched() | dict(other)

    def __ror__(self, other: Any) -> dict[str, Any]:
        return dict(other) | self._fetched()

    def __repr__(self) -> str:
        return repr(self._fetched())

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        return dict, (self._fetched(),)

    def _fetched(self) -> dict[str, Any]:
        if any(self.awaited.still_awaited()):
            self.awaited.arrive()
        return self.plain
