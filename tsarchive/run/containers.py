"""Modules that stand for torch's containers: children by index, by key and one after the other.

Children can be replaced, not added or removed: code of the archive names each of them.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Final

from torch.nn import Module, ModuleList, Sequential

from tsarchive.ir.names import unmangled

from .modules import ArchiveModule


class _ListContainer(ArchiveModule):
    """Children by index, as torch.nn.ModuleList has them."""

    _of_slices: type[ModuleList | Sequential] = ModuleList

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module | None]:
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Module | None:
        """A child; a slice gives a container of torch's own with the same children."""
        children = list(self._modules.values())
        if not isinstance(index, slice):
            return children[index]
        made = self._of_slices()
        for position, child in enumerate(children[index]):
            made.add_module(str(position), child)
        return made

    def __setitem__(self, index: int, child: Module) -> None:
        setattr(self, list(self._modules)[index], child)


class _SequentialContainer(_ListContainer):
    """Children by index, as torch.nn.Sequential has them."""

    _of_slices = Sequential


class _DictContainer(ArchiveModule):
    """Children by key, as torch.nn.ModuleDict has them."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Module | None:
        return self._modules[key]

    def __setitem__(self, key: str, child: Module) -> None:
        if key not in self._modules:
            raise KeyError(key)
        setattr(self, key, child)

    def keys(self) -> KeysView[str]:
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module | None]:
        return self._modules.items()

    def values(self) -> ValuesView[Module | None]:
        return self._modules.values()


_CLASSES: Final[dict[str, type[ArchiveModule]]] = {
    "__torch__.torch.nn.modules.container.ModuleList": _ListContainer,
    "__torch__.torch.nn.modules.container.Sequential": _SequentialContainer,
    "__torch__.torch.nn.modules.container.ModuleDict": _DictContainer,
}


def container_class(qualified_name: str) -> type[ArchiveModule]:
    """The base class for a module, by the name of its class in the archive."""
    return _CLASSES.get(unmangled(qualified_name), ArchiveModule)
