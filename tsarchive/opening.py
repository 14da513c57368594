"""Opening a file of any kind: a zip archive, or a file of ExecuTorch. Nothing in it is read yet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from tsarchive.container import Container
from tsarchive.container.source import open_source
from tsarchive.kinds import executorch_kind

if TYPE_CHECKING:
    from tsarchive.executorch.regions import Regions

__all__ = ["Opened", "opened_archive"]

Opened: TypeAlias = "Container | Regions"


def opened_archive(source: str | os.PathLike[str] | BinaryIO) -> Opened:
    """An archive of any kind, from a path or a binary file object.

    Raises FormatError when the file is neither a sound zip archive nor a sound file of ExecuTorch,
    OSError when it cannot be read.
    """
    opened = open_source(source)
    kind = executorch_kind(opened.data)
    if kind is None:
        return Container.of_source(opened)
    from tsarchive.executorch.regions import opened_regions

    return opened_regions(opened, kind)
