"""Saving: modules as TorchScript archives, exported programs as PT2 archives."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from tsarchive.errors import SaveError
from tsarchive.formats.base import Format, ZipFormat, is_loaded
from tsarchive.formats.registry import FORMATS, format_of
from tsarchive.formats.requests import SaveOptions
from tsarchive.formats.torchscript.format import TORCHSCRIPT

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from tsarchive.container import NewRecord


def save(
    module: torch.nn.Module | Callable[..., Any] | ExportedProgram | dict[str, ExportedProgram],
    f: str | os.PathLike[str] | BinaryIO,
    *,
    extra_files: Mapping[str, str | bytes] | None = None,
    debug: bool = True,
    canonical: bool = False,
    source_paths: bool = False,
) -> None:
    """Write ``module`` as a TorchScript archive that torch.jit and libtorch load.

    ``module`` is scripted or traced, a scripted function, or what :func:`tsarchive.load` gave;
    the last is written back with its code as it was read. ``f`` is a path or a binary file
    object. A path is replaced only when the new file is complete. ``extra_files`` are stored
    under `extra/`; ``debug=False`` leaves out where code came from.

    A program of ``torch.export``, or a dict of them by name, is written as a PT2 archive that
    torch.export loads. What the file says of its nodes is the same in each process: no
    addresses, no counters, and paths of source files only as Python finds their modules, unless
    ``source_paths=True`` asks for whole ones. A module that was loaded from a PT2 archive is
    written back as one, each record as it was read unless its data changed.

    A module that was loaded from a file of ExecuTorch is written back as one, byte for byte unless
    its buffers changed. What calls left in memory that the file has no initial values for is not
    in it, and data files are not written.

    With ``canonical=True`` the bytes depend on the model and ``extra_files`` alone: not on the
    process, its hash seed, the file name, or places and comments in source files. This form has
    class names without the numbers that torch gives them, sorted constants and methods, nothing
    compressed, and no debug records, traced inputs, or extra files of an archive that was
    loaded. torch reads and runs it like the other.

    A module that torch.jit.optimize_for_inference made is written as code that converts to the
    form of oneDNN, which the default policy refuses to run; a UserWarning says so.

    Raises SaveError where the module has no form that reads back as itself; SourceError where
    the canonical form needs code of a loaded archive that cannot be read, such as an operator
    that this process lacks; OSError when the file cannot be written.

        >>> tsarchive.save(net, "copy.pt", extra_files={"LICENSE": "Apache-2.0"})
        >>> torch.equal(torch.jit.load("copy.pt")(x), net(x))
        True
    """
    files = {name: _bytes(name, content) for name, content in (extra_files or {}).items()}
    options = SaveOptions(files, debug, canonical, source_paths)
    format_of_module(module).save(module, f, options)


def format_of_module(module: Any) -> Format:
    """Return the format to save a module in: that it was loaded from, or that holds such values."""
    if is_loaded(module):
        return format_of(module.tsarchive_classes.container)
    return next((found for found in FORMATS if found.holds(module)), TORCHSCRIPT)


def saved_records(module: Any) -> list[NewRecord]:
    """Return the records that ``save`` writes by default.

    Raises what ``save`` raises; SaveError for a format that has no records.
    """
    found = format_of_module(module)
    if not isinstance(found, ZipFormat):
        raise SaveError(
            f"a {found.kind} file has no records that are written one by one",
            hint="Save it to a file, and look at that",
        )
    return found.saved_records(module, SaveOptions({}))


def _bytes(name: str, content: str | bytes) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes):
        return content
    raise SaveError(f"the extra file {name!r} is neither str nor bytes")
