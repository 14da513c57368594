"""Where the classes of a loaded archive come from, so that pickles of its modules can tell.

A pickle of a loaded module holds the archive without its tensors. Where it is read, the classes
are made from that again; in the process that wrote it they are the same classes as before.
"""

from __future__ import annotations

import io
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import torch

from tsarchive.container import Container
from tsarchive.errors import CallError
from tsarchive.ir.types import Type
from tsarchive.kinds import (
    EXECUTORCH,
    LEGACY_TORCHSCRIPT,
    PT2,
    TORCHSCRIPT,
    kind_of,
)
from tsarchive.opening import Opened, opened_archive
from tsarchive.policy import Guard
from tsarchive.run.classes import Classes
from tsarchive.torchscript.importer import Importer, NamedTypes

if TYPE_CHECKING:
    from tsarchive.container import NewRecord
    from tsarchive.pte.data import Data
    from tsarchive.run.classes import ArchiveModule

_FINGERPRINT = ".data/serialization_id"
_ROOT_OBJECT = "data.pkl"
_TENSORS = "data/"

_living: weakref.WeakValueDictionary[str, Classes] = weakref.WeakValueDictionary()
_lock = threading.RLock()


class AnyImporter(Protocol):
    """What loads an archive of some kind."""

    container: Any
    classes: Classes

    @property
    def code(self) -> NamedTypes: ...

    def load(self) -> ArchiveModule: ...


def importer_of(
    container: Opened,
    device: torch.device | None,
    guard: Guard,
    model: str | None = None,
    data: Data | None = None,
) -> AnyImporter:
    """What loads an archive; ``model`` is one of those in a PT2 archive, ``data`` that of a
    program of ExecuTorch.

    Raises CallError for the name of a model where an archive has one alone, and for data where an
    archive has its own.
    """
    return _importer(container, device, guard, uuid.uuid4().hex, model, data)


def _importer(
    container: Opened,
    device: torch.device | None,
    guard: Guard,
    key: str,
    model: str | None,
    data: Data | None = None,
) -> AnyImporter:
    made = _made(container, device, guard, model, data)
    made.classes.origin = _Origin(made, device, key, model)
    with _lock:
        _living[key] = made.classes
    return made


def _kind(opened: Opened) -> str:
    return kind_of(opened.records) if isinstance(opened, Container) else opened.kind


def _made(
    opened: Opened,
    device: torch.device | None,
    guard: Guard,
    model: str | None,
    data: Data | None,
) -> AnyImporter:
    kind = _kind(opened)
    if data is not None and kind not in EXECUTORCH:
        raise CallError(
            f"only programs of ExecuTorch have data beside them; this archive is {kind}",
            hint="Leave out the argument data",
        )
    if not isinstance(opened, Container):
        _require_no_model(model, kind)
        from tsarchive.pte.opening import importer_of_program

        return importer_of_program(opened, device, guard, data)
    return _of_container(opened, kind, device, guard, model)


def _require_no_model(model: str | None, kind: str) -> None:
    if model is not None:
        raise CallError(
            f"the archive has no models by name: it is of the kind {kind!r}",
            hint="Leave out the argument model",
        )


def _of_container(
    container: Container,
    kind: str,
    device: torch.device | None,
    guard: Guard,
    model: str | None,
) -> AnyImporter:
    if kind == PT2:
        from tsarchive.pt2.importer import Pt2Importer

        return Pt2Importer(container, device, guard, model)
    _require_no_model(model, kind)
    if kind == LEGACY_TORCHSCRIPT:
        from tsarchive.legacy.importer import LegacyImporter

        return LegacyImporter(container, device, guard)
    return Importer(container, device, guard)


class _Origin:
    """The archive that classes came from; ``key`` is the same in all processes."""

    def __init__(
        self,
        importer: AnyImporter,
        device: torch.device | None,
        key: str,
        model: str | None,
    ) -> None:
        self._importer = importer
        self._device = device
        self._key = key
        self._model = model

    def find(self, qualified_name: str) -> Type | None:
        return self._importer.code.find(qualified_name)

    def reduce(self) -> tuple[Callable[..., Classes], tuple[Any, ...]]:
        # Code and constants of the others are already for the device.
        container = self._importer.container
        keeps_device = self._device is not None and _kind(container) != TORCHSCRIPT
        device = str(self._device) if keeps_device else None
        guard = self._importer.classes.enforcement.guard
        return _revived, (self._key, device, guard, _without_tensors(container), self._model)


def _without_tensors(container: Opened) -> bytes:
    """The archive with what makes its classes alone; one of before torch 1.3 as it is."""
    if not isinstance(container, Container):
        return container.require_program().tables_alone()
    from tsarchive.container import NewRecord
    from tsarchive.pickler import dumps

    names = [name for name in container.records if name != _FINGERPRINT]
    kind = kind_of(container.records)
    roots: list[NewRecord] = []
    if kind == PT2:
        names = [name for name in names if _makes_classes(name)]
    elif kind != LEGACY_TORCHSCRIPT:
        names = [name for name in names if name != _ROOT_OBJECT and not name.startswith(_TENSORS)]
        roots = [NewRecord(_ROOT_OBJECT, dumps(None))]
    return _written(container, roots, names)


def _makes_classes(name: str) -> bool:
    """Whether a record of a PT2 archive is a program, or tells what the archive is."""
    from tsarchive.pt2.records import FLAT_PROGRAM, MODELS

    return name in (FLAT_PROGRAM, "archive_format") or name.startswith(MODELS)


def _written(container: Container, roots: Iterable[NewRecord], names: list[str]) -> bytes:
    from tsarchive.container import write_container
    from tsarchive.torchscript.resaving import as_read

    written = io.BytesIO()
    write_container(written, [*roots, *as_read(container, names)])
    return written.getvalue()


def _revived(
    key: str, device: str | None, guard: Guard, archive: bytes, model: str | None = None
) -> Classes:
    with _lock:
        found = _living.get(key)
        if found is not None:
            return found
        place = None if device is None else torch.device(device)
        container = opened_archive(io.BytesIO(archive))
        importer = _importer(container, place, guard, key, model)
        if _kind(container) == LEGACY_TORCHSCRIPT:
            importer.load()  # its classes are made of what its modules hold
        return importer.classes
