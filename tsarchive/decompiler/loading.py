"""Loads an archive to read it, on a machine that may lack its devices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

import torch

from tsarchive.container import Container
from tsarchive.formats.base import LoadOptions
from tsarchive.formats.registry import zip_format
from tsarchive.policy import Guard

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule


_HOST = torch.device("cpu")


def root_of(
    f: str | os.PathLike[str] | BinaryIO, device: torch.device | None, guard: Guard
) -> ArchiveModule:
    """The module of an archive with its tensors on the CPU and the code as it is for ``device``.

    By default the devices that code, constants and attributes name are those of the file.
    """
    container = Container.open(f)
    found = zip_format(container.records)
    if not found.has_code:
        raise found.not_torchscript(container.records)
    return found.importer(container, LoadOptions(device, guard, tensors_on=_HOST)).load()
