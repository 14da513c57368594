"""Requirements of a file that this process lacks."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from typing import BinaryIO

from tsarchive.frontend.libraries import what_registers
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.run.operators import native_class, operator_schemas

from .archive import Archive
from .archive import open as open_archive


@dataclass(frozen=True, slots=True)
class Missing:
    """Names as in :class:`tsarchive.Needs`. It is true when anything is missing."""

    operators: tuple[str, ...]
    classes: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.operators or self.classes)

    @property
    def hints(self) -> dict[str, str]:
        """Advice on each name."""
        classes = {name: what_registers(f"{NATIVE_PREFIX}{name}") for name in self.classes}
        return {name: what_registers(name) for name in self.operators} | classes


def missing(source: str | os.PathLike[str] | BinaryIO | Archive) -> Missing:
    """Return the operators and torchbind classes that a file needs and this process lacks.

    ``source`` is a path, a binary file object or an opened archive. A library registers its
    operators when it is imported, so the answer may change. Operators count by name: an
    overload may still be missing where nothing is.

    Raises ArchiveError for a file that is neither TorchScript nor a PT2 archive or whose code does
    not parse, OSError when it cannot be read.
    """
    opened = nullcontext(source) if isinstance(source, Archive) else open_archive(source)
    with opened as archive:
        needs = archive.needs
    return Missing(
        tuple(sorted(name for name in needs.operators if not operator_schemas(name))),
        tuple(n for n in needs.classes if native_class(f"{NATIVE_PREFIX}{n}") is None),
    )
