"""Loading: an archive as a module that runs without torch.jit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

import torch

from tsarchive.garbage import not_collecting
from tsarchive.opening import opened_archive
from tsarchive.policy import Guard, Limits, Policy
from tsarchive.reviving import importer_of
from tsarchive.torchscript.tensors import given_device

if TYPE_CHECKING:
    from tsarchive.pte.data import Data, DataSource
    from tsarchive.run.classes import ArchiveModule


def load(
    f: str | os.PathLike[str] | BinaryIO,
    *,
    map_location: str | torch.device | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    model: str | None = None,
    data: DataSource | Sequence[DataSource] | None = None,
) -> ArchiveModule:
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

    Raises ArchiveError where the file breaks a rule of the format, names a class or operator
    that this process lacks, or is of another kind; OSError when it cannot be read.
    """
    guard = Guard(
        Policy.default() if policy is None else policy, Limits() if limits is None else limits
    )
    with not_collecting():
        beside = None if data is None else _data(data)
        opened = opened_archive(f)
        importer = importer_of(opened, given_device(map_location), guard, model, beside)
        metering = importer.classes.enforcement.metering
        if metering is None:
            return importer.load()
        with metering.budgets.running():
            return importer.load()


def _data(data: DataSource | Sequence[DataSource]) -> Data:
    from tsarchive.pte.data import opened_data

    return opened_data(data)
