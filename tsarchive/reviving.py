"""Where the classes of a loaded archive come from, so that pickles of its modules can tell.

A pickle of a loaded module holds the archive without its tensors. Where it is read, the classes
are made from that again; in the process that wrote it they are the same classes as before.
"""

from __future__ import annotations

import io
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from tsarchive.container import Container
from tsarchive.kinds import LEGACY_TORCHSCRIPT, kind_of
from tsarchive.policy import Guard
from tsarchive.printer.types import Type
from tsarchive.run.classes import Classes
from tsarchive.torchscript.importer import Importer

if TYPE_CHECKING:
    from tsarchive.legacy.importer import LegacyImporter

_FINGERPRINT = ".data/serialization_id"
_ROOT_OBJECT = "data.pkl"
_TENSORS = "data/"

_living: weakref.WeakValueDictionary[str, Classes] = weakref.WeakValueDictionary()
_lock = threading.RLock()


def importer_of(
    container: Container, device: torch.device | None, guard: Guard
) -> Importer | LegacyImporter:
    """What loads an archive of any age."""
    return _importer(container, device, guard, uuid.uuid4().hex)


def _importer(
    container: Container, device: torch.device | None, guard: Guard, key: str
) -> Importer | LegacyImporter:
    made: Importer | LegacyImporter
    if _is_legacy(container):
        from tsarchive.legacy.importer import LegacyImporter

        made = LegacyImporter(container, device, guard)
    else:
        made = Importer(container, device, guard)
    made.classes.origin = _Origin(made, device, key)
    with _lock:
        _living[key] = made.classes
    return made


def _is_legacy(container: Container) -> bool:
    return kind_of(container.records) == LEGACY_TORCHSCRIPT


class _Origin:
    """The archive that classes came from; ``key`` is the same in all processes."""

    def __init__(
        self, importer: Importer | LegacyImporter, device: torch.device | None, key: str
    ) -> None:
        self._importer = importer
        self._device = device
        self._key = key

    def find(self, qualified_name: str) -> Type | None:
        return self._importer.code.find(qualified_name)

    def reduce(self) -> tuple[Callable[..., Classes], tuple[Any, ...]]:
        # Code and constants of the others are already for the device.
        container = self._importer.container
        keeps_device = self._device is not None and _is_legacy(container)
        device = str(self._device) if keeps_device else None
        guard = self._importer.classes.guard
        return _revived, (self._key, device, guard, _without_tensors(container))


def _without_tensors(container: Container) -> bytes:
    """The archive with an empty root object; one of before torch 1.3 as it is."""
    from tsarchive.container import NewRecord, write_container
    from tsarchive.pickler import dumps
    from tsarchive.torchscript.resaving import as_read

    names = [name for name in container.records if name != _FINGERPRINT]
    roots: list[NewRecord] = []
    if not _is_legacy(container):
        names = [name for name in names if name != _ROOT_OBJECT and not name.startswith(_TENSORS)]
        roots = [NewRecord(_ROOT_OBJECT, dumps(None))]
    written = io.BytesIO()
    write_container(written, [*roots, *as_read(container, names)])
    return written.getvalue()


def _revived(key: str, device: str | None, guard: Guard, archive: bytes) -> Classes:
    with _lock:
        found = _living.get(key)
        if found is not None:
            return found
        place = None if device is None else torch.device(device)
        container = Container.open(io.BytesIO(archive))
        importer = _importer(container, place, guard, key)
        if _is_legacy(container):
            importer.load()  # its classes are made of what its modules hold
        return importer.classes
