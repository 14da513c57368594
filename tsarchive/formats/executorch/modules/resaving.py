"""Saving of a loaded ExecuTorch program: its file, with the present state of its buffers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import torch

from tsarchive.errors import SaveError
from tsarchive.findings import require_whole
from tsarchive.formats.executorch.draft import Draft
from tsarchive.formats.executorch.values import Tensor
from tsarchive.formats.executorch.verification import content_findings

from .calling_convention import MEMORY
from .importer import PteImporter


def save_program(
    module: Any, f: str | os.PathLike[str] | BinaryIO, extra_files: Mapping[str, bytes]
) -> None:
    """Write the file that ``module`` was loaded from; byte for byte where nothing changed.

    Constants and initial values are the module's present ones. Memory without initial values in the
    file is not saved. Raises SaveError for extra files, which the format cannot hold, for a broken
    program, for a buffer of another shape or dtype, and for a changed buffer that is in a data
    file, which is not written.
    """
    if extra_files:
        raise SaveError("files of ExecuTorch have no place for extra files")
    regions = module.tsarchive_classes.container
    require_whole(content_findings(regions.content))
    draft = Draft.of(regions)
    importer = getattr(type(module), "tsarchive_importer", None)
    if importer is not None:  # programs with backends have no buffers
        with module.__dict__[MEMORY].lock:
            _update(draft, importer, module)
    draft.write(f)


def _update(draft: Draft, importer: PteImporter, module: Any) -> None:
    for place, tensor, buffer in _stored(importer):
        content = _content(buffer, tensor, module._buffers.get(buffer))
        is_lost = tensor.is_external and importer.is_written_to(buffer)
        if content == importer.bytes_of(tensor) and not is_lost:
            continue
        if tensor.is_external:
            raise SaveError(
                f"{buffer!r} changed, and its bytes are in a data file, which is not written",
                hint="tsarchive.executorch.Draft edits data files",
            )
        # Methods may each have their own bytes under one name; drafts name the others by place.
        name = place if place in draft.tensors else tensor.name
        draft.replace(str(name), content)


def _stored(importer: PteImporter) -> Iterator[tuple[str, Tensor, str]]:
    """Yield each value with initial bytes, its place, and the buffer that holds it."""
    layout = importer.layout
    planned = {found: name for name, found in layout.buffers.items() if isinstance(found, int)}
    for method in importer.program.reachable_methods:
        for number, value in method.stored_tensors:
            names = layout.methods[method.name]
            buffer = names.constants.get(number) or planned[names.planned[number]]
            yield f"{method.name}.{number}", value, buffer


def _content(name: str, described: Tensor, found: Any) -> bytes:
    """Return the bytes of a buffer in the file's element order."""
    dtype = getattr(torch, described.dtype)
    if not isinstance(found, torch.Tensor):
        raise SaveError(f"the buffer {name!r} is {type(found).__name__}, not a tensor")
    if tuple(found.shape) != described.sizes or found.dtype is not dtype:
        shape = tuple(found.shape)
        raise SaveError(
            f"{name!r} is now of shape {shape} and {found.dtype}; the program was made for "
            f"{described.sizes} and {dtype}",
            hint="Convert the changed model",
        )
    if not found.numel():
        return b""
    laid = torch.empty_strided(described.sizes, described.strides, dtype=dtype)
    laid.copy_(found.detach())
    flat = laid.as_strided((laid.numel(),), (1,)).view(torch.uint8)
    return flat.numpy().tobytes()
