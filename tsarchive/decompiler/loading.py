"""Loads an archive to read it, on a machine that may lack its devices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

import torch

from tsarchive.container import Container
from tsarchive.kinds import LEGACY_TORCHSCRIPT, kind_of
from tsarchive.legacy.importer import LegacyImporter
from tsarchive.legacy.model import MODEL
from tsarchive.legacy.values import ATTRIBUTES
from tsarchive.policy import Guard
from tsarchive.torchscript.importer import Importer, Unpickling
from tsarchive.torchscript.tensors import TensorReader

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule

__all__ = ["root_of"]

_HOST = torch.device("cpu")


class _Importer(Importer):
    """Loads tensors to the CPU, while code is for ``device``, or as it is in the file."""

    def __init__(self, container: Container, device: torch.device | None, guard: Guard) -> None:
        super().__init__(container, device, guard)
        # Constants that are moved to a device without data would have none.
        self.container = container
        self.device = _HOST


class _LegacyImporter(LegacyImporter):
    """The same for archives of before torch 1.3."""

    def __init__(self, container: Container, device: torch.device | None, guard: Guard) -> None:
        super().__init__(container, device, guard)
        tensors = TensorReader(container.view, _HOST, MODEL)
        self._unpickling = Unpickling(self, tensors, ATTRIBUTES)


def root_of(
    f: str | os.PathLike[str] | BinaryIO, device: torch.device | None, guard: Guard
) -> ArchiveModule:
    """The module of an archive with its tensors on the CPU and the code as it is for ``device``.

    By default the devices that code, constants and attributes name are those of the file.
    """
    container = Container.open(f)
    is_legacy = kind_of(container.records) == LEGACY_TORCHSCRIPT
    return (_LegacyImporter if is_legacy else _Importer)(container, device, guard).load()
