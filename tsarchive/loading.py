"""Loading: an archive as a module that runs without torch.jit.

A pickle of a loaded module holds the archive without its tensors. Where it is read, the classes
are made from that again; in the process that wrote it they are the same classes as before.
"""

from __future__ import annotations

import io
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, overload

import torch

from tsarchive.errors import CallError
from tsarchive.formats.base import NO_MODELS, Format, Importer, LoadOptions, Opened
from tsarchive.formats.registry import format_of, opened_file

# A plain load takes it: who asks for ``load`` waits for it then, not with the first file.
from tsarchive.formats.torchscript import importer as _  # noqa: F401
from tsarchive.formats.torchscript.tensors import given_device
from tsarchive.garbage import not_collecting
from tsarchive.policy import Guard, Limits, Policy

if TYPE_CHECKING:
    from tsarchive.formats.executorch.modules.importer import DataSource
    from tsarchive.ir.types import Type
    from tsarchive.run.classes import Classes
    from tsarchive.run.modules import ArchiveModule

_living: weakref.WeakValueDictionary[str, Classes] = weakref.WeakValueDictionary()
_lock = threading.RLock()


@overload
def load(
    f: str | os.PathLike[str] | BinaryIO,
    *,
    modules: Literal["archive"] = "archive",
    map_location: str | torch.device | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    model: str | None = None,
    data: DataSource | Sequence[DataSource] | None = None,
    extra_files: dict[str, Any] | None = None,
    lazy: bool = False,
) -> ArchiveModule: ...


@overload
def load(
    f: str | os.PathLike[str] | BinaryIO,
    *,
    modules: Literal["torch"],
    map_location: str | torch.device | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    extra_files: dict[str, Any] | None = None,
) -> torch.nn.Module: ...


def load(
    f: str | os.PathLike[str] | BinaryIO,
    *,
    modules: Literal["archive", "torch"] = "archive",
    map_location: str | torch.device | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    model: str | None = None,
    data: DataSource | Sequence[DataSource] | None = None,
    extra_files: dict[str, Any] | None = None,
    lazy: bool = False,
) -> torch.nn.Module:
    """Load a TorchScript or PT2 archive, or a program of ExecuTorch, from a path or file object.

    The result is an ``nn.Module``: parameters, buffers, submodules and methods of the archive.
    Tensors are views of the mapped file, private to this process; what is never touched is
    never read. Methods are compiled when they are first called.

    Of a PT2 archive, ``model`` says which of its programs is meant; by default the only one, or
    the one of that name. Arguments must have the structure, and sizes the program allows, that
    it was exported with. It has one graph, for training or for evaluation as it was exported:
    ``train()`` and ``eval()`` set the flag ``training`` and change nothing else.

    Of a program of ExecuTorch, ``data`` is the data file beside it, or a list of them. Methods
    take arguments nested as the user's module had them, or all inputs in a row, and change the
    memory that they share: what one leaves in a buffer, the next call sees. One of them runs at a
    time; copies of the module have memory of their own.

    ``map_location`` is the device for all tensors; by default each goes to the device it was
    saved from. Unlike torch.jit, it is also the device for what the code makes: devices that
    code, its constants and attributes name, and strings that they turn into devices, move with
    the tensors, so that a model that was traced on a GPU runs on the CPU. ``meta`` stays. In an
    archive that names another device, or has tensors there, ``cpu`` in code means the CPU and
    stays; where nothing else is named it is where the tensors were, and moves. Lengths of packed
    sequences stay on the CPU. Questions about the type of a device stay, since they get true
    answers: ``x.is_cuda``, ``x.device.type == "cuda"``, ``torch.autocast("cuda")``. Saving writes
    the code as it runs.

    ``policy`` says which operators the archive's code may reach, at load and in all calls of what
    is loaded; by default :meth:`Policy.default`. ``limits`` bounds the code that the load runs,
    in all, and each call later; by default nothing does.

    With ``modules="torch"``, modules of a TorchScript archive whose behaviour is that of a class
    of torch.nn, or of one that was registered with :func:`tsarchive.library.register`, become
    objects of that class, with the same tensors: ``nn.Linear`` where the archive has a copy of its
    code. That is proven by running both, in training and in evaluation, on inputs that are drawn;
    so code of the archive runs while it is loaded, under ``policy``, and ``limits`` bounds each
    run. What is not proven stays; :func:`tsarchive.library.outcomes` says why. The network can be
    called, trained, copied and pickled, and is not saved as an archive again.

    ``extra_files`` is a dict that is filled, as torch.jit.load fills its ``_extra_files``: each of
    its names gets the bytes of the extra file of that name, empty ones where there is none. Other
    than there, an empty dict gets all extra files.

    Of a file elsewhere, all that the model needs is fetched in parallel, into memory that its
    tensors are views of. With ``lazy``, parameters and buffers of TorchScript and PT2 archives are
    fetched when they are first looked at, those of one module together; a layer that never runs is
    never fetched. Other tensors, and those that are moved to another device, are fetched at once.
    Where that fails, the look raises RemoteError and the module stays as it was: look again. The
    connection is released when all of the file is there, or with the module. Of a file on disk,
    which is mapped, ``lazy`` changes nothing.

    Raises ArchiveError where the file breaks a rule of the format, names a class or operator
    that this process lacks, or is of another kind; OSError when it cannot be read; CallError for
    ``lazy`` and a file of another format, for ``modules="torch"`` with one, or with ``lazy``, and
    for other ``modules``.

        >>> net = tsarchive.load("net.pt")
        >>> net(x).shape, net.head.weight.shape
        (torch.Size([3, 2]), torch.Size([2, 4]))
        >>> type(tsarchive.load("net.pt", modules="torch").head)
        <class 'torch.nn.modules.linear.Linear'>
    """
    guard = Guard(
        Policy.default() if policy is None else policy, Limits() if limits is None else limits
    )
    if modules not in ("archive", "torch"):
        raise CallError(
            f"there are no modules of {modules!r}", hint='modules is "archive" or "torch"'
        )
    with not_collecting():
        beside = None
        if data is not None:
            from tsarchive.formats.executorch.modules.importer import opened_data

            beside = opened_data(data)
        options = LoadOptions(given_device(map_location), guard, model, beside, lazy=lazy)
        opened = opened_file(f, whole=True)
        if extra_files is not None:
            from tsarchive.formats.extra_files import ExtraFiles

            ExtraFiles(opened, format_of(opened).table(opened)).fill(extra_files)
        loaded = load_opened(opened, options)
    return loaded if modules == "archive" else _with_library_modules(loaded, opened, options)


def _with_library_modules(
    module: ArchiveModule, opened: Opened, options: LoadOptions
) -> torch.nn.Module:
    found = format_of(opened)
    if not found.has_code:
        raise found.not_taken("modules", "only TorchScript has code of modules", CallError)
    if options.lazy:
        raise CallError(
            "all tensors are needed to compare modules with those of torch.nn",
            hint="Leave out lazy",
        )
    from tsarchive.library import with_library_modules

    return with_library_modules(module)


def load_opened(opened: Opened, options: LoadOptions) -> ArchiveModule:
    """Load a file that was opened."""
    with not_collecting():
        importer = _importer(opened, options, uuid.uuid4().hex)
        metering = importer.classes.enforcement.metering
        if metering is None:
            return importer.load()
        with metering.budgets.running():
            return importer.load()


def _importer(opened: Opened, options: LoadOptions, key: str) -> Importer:
    found = format_of(opened)
    if options.data is not None and not found.has_data_beside:
        reason = "only programs of ExecuTorch have data beside them"
        raise found.not_taken("data", reason, CallError)
    if options.model is not None and not found.has_programs:
        raise found.not_taken("model", NO_MODELS, CallError)
    if options.lazy and not found.loads_lazily:
        reason = "only tensors of TorchScript and PT2 archives are fetched when they are looked at"
        raise found.not_taken("lazy", reason, CallError)
    importer = found.importer(opened, options)
    importer.classes.origin = _Origin(importer, found, options.device, options.model, key)
    with _lock:
        _living[key] = importer.classes
    return importer


class _Origin(NamedTuple):
    """The archive that classes came from; ``key`` is the same in all processes."""

    importer: Importer
    format: Format
    device: torch.device | None
    model: str | None
    key: str

    def find(self, qualified_name: str) -> Type | None:
        return self.importer.code.find(qualified_name)

    def reduce(self) -> tuple[Callable[..., Classes], tuple[Any, ...]]:
        is_moved = self.device is not None and not self.format.importer_moves_code
        device = str(self.device) if is_moved else None
        archive = self.format.without_tensors(self.importer.container)
        guard = self.importer.classes.enforcement.guard
        return classes_of_pickle, (self.key, device, guard, archive, self.model)


def classes_of_pickle(
    key: str, device: str | None, guard: Guard, archive: bytes, model: str | None = None
) -> Classes:
    """Return the classes of a pickled module; pickles name this function."""
    with _lock:
        found = _living.get(key)
        if found is not None:
            return found
        place = None if device is None else torch.device(device)
        opened = opened_file(io.BytesIO(archive))
        importer = _importer(opened, LoadOptions(place, guard, model), key)
        if format_of(opened).makes_classes_of_objects:
            importer.load()
        return importer.classes
