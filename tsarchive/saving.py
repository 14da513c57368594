"""Saving: a scripted, traced or loaded module as a TorchScript archive."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from tsarchive.container import NewRecord, write_container
from tsarchive.errors import SaveError
from tsarchive.printer.adopt import (
    adopt_module,
    adopt_placeholder,
    adopt_traced,
    is_script_function,
    is_script_module,
)
from tsarchive.run.classes import ArchiveModule
from tsarchive.torchscript.exporter import (
    Extras,
    archive_records,
    traced_input_records,
)
from tsarchive.torchscript.exporter import (
    extra_files as extra_file_records,
)
from tsarchive.torchscript.resaving import loaded_records

if TYPE_CHECKING:
    import torch


def save(
    module: torch.nn.Module | Callable[..., Any],
    f: str | os.PathLike[str] | BinaryIO,
    *,
    extra_files: Mapping[str, str | bytes] | None = None,
    debug: bool = True,
) -> None:
    """Write ``module`` as a TorchScript archive that torch.jit and libtorch load.

    ``module`` is scripted or traced, a scripted function, or what :func:`tsarchive.load` gave;
    the last is written back with its code as it was read. ``f`` is a path or a binary file
    object. A path is replaced only when the new file is complete. ``extra_files`` are stored
    under `extra/`; ``debug=False`` leaves out where code came from.

    Raises SaveError where the module has no form that reads back as itself; OSError when the
    file cannot be written.
    """
    files = {name: _bytes(name, content) for name, content in (extra_files or {}).items()}
    try:
        records = _records(module, files, debug=debug)
    except RecursionError as error:
        raise SaveError("modules or values are nested too deeply to be saved") from error
    write_container(f, records)


def _bytes(name: str, content: str | bytes) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes):
        return content
    raise SaveError(f"the extra file {name!r} is neither str nor bytes")


def _records(module: Any, files: dict[str, bytes], *, debug: bool) -> list[NewRecord]:
    if isinstance(module, ArchiveModule):
        return loaded_records(module, files, debug=debug)
    if is_script_module(module):
        extras = Extras(extra_file_records(files), traced_input_records(adopt_traced(module)))
        return archive_records(adopt_module(module), code=None, extras=extras, debug=debug)
    if is_script_function(module):
        root = adopt_placeholder(module)
        return archive_records(
            root, code=None, extras=Extras(extra_file_records(files)), debug=debug
        )
    raise SaveError(
        f"a {type(module).__name__} has no TorchScript code",
        hint="Script or trace the module with torch.jit first, or load an archive",
    )
