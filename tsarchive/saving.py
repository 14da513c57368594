"""Saving: modules as TorchScript archives, exported programs as PT2 archives."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from tsarchive.adopt.torch_jit import (
    adopt_module,
    adopt_placeholder,
    adopt_traced,
    is_script_function,
    is_script_module,
)
from tsarchive.container import Container, NewRecord, write_container
from tsarchive.errors import SaveError, SourceError
from tsarchive.garbage import not_collecting
from tsarchive.ir.values import ObjectValue
from tsarchive.kinds import PT2, kind_of
from tsarchive.run.classes import ArchiveModule
from tsarchive.torchscript.constants import Constants
from tsarchive.torchscript.exporter import (
    Extras,
    archive_records,
    canonical_records,
    traced_input_records,
)
from tsarchive.torchscript.exporter import (
    extra_files as extra_file_records,
)
from tsarchive.torchscript.rereading import settled_text
from tsarchive.torchscript.resaving import canonical_loaded_records, loaded_records

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

_CANONICAL_ROOT = "archive"
_OPTIMIZED: Final = (
    "the module comes from torch.jit.optimize_for_inference: its code names operators of oneDNN, "
    "such as aten::to_mkldnn, which the default policy of tsarchive.load refuses to run. Save it "
    "before it is optimized, or allow them in the policy that you load the file with"
)


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
    """
    files = {name: _bytes(name, content) for name, content in (extra_files or {}).items()}
    if _is_of_executorch(module):
        from tsarchive.pte.resaving import save_program

        save_program(module, f, files)
        return
    if is_exported(module):
        records = program_records(module, files, debug and not canonical, source_paths)
    else:
        records = module_records(module, files, debug=debug, canonical=canonical)
        if not isinstance(module, ArchiveModule) and any(map(_is_optimized, records)):
            warnings.warn(_OPTIMIZED, stacklevel=2)
    write_container(f, records, root=_CANONICAL_ROOT if canonical else None)


def _is_optimized(record: NewRecord) -> bool:
    """Whether code makes oneDNN tensors of constants, which scripted code has no way to."""
    return record.name.startswith("code/") and b"torch.to_mkldnn(CONSTANTS." in bytes(record.data)


def module_records(
    module: Any, files: Mapping[str, bytes], *, debug: bool = True, canonical: bool = False
) -> list[NewRecord]:
    """The records that ``save`` writes, for extra files by name."""
    try:
        with not_collecting():
            if canonical:
                return _canonical_records(module, files)
            return _usual_records(module, files, debug=debug)
    except RecursionError as error:
        raise SaveError("modules or values are nested too deeply to be saved") from error
    except UnicodeDecodeError as error:
        raise SaveError(
            "a string of the module is not UTF-8, so torch does not show it to Python",
            hint="Do not cut strings inside a character, or load the file with tsarchive",
        ) from error


def _is_of_executorch(module: Any) -> bool:
    return isinstance(module, ArchiveModule) and not isinstance(
        module.tsarchive_classes.container, Container
    )


def is_exported(module: Any) -> bool:
    """Whether ``module`` is a program of torch.export, or a dict of programs by name."""
    export = sys.modules.get("torch.export")  # what nobody imported has made no program
    programs = list(module.values()) if isinstance(module, dict) else [module]
    return export is not None and all(
        isinstance(program, export.ExportedProgram) for program in programs or [None]
    )


def program_records(
    program: Any, files: Mapping[str, bytes], debug: bool, source_paths: bool = False
) -> list[NewRecord]:
    """The records of exported programs, as ``save`` writes them."""
    from tsarchive.pt2.exporter import exported_records

    programs = program if isinstance(program, dict) else {"model": program}
    return exported_records(programs, files, debug=debug, source_paths=source_paths)


def _bytes(name: str, content: str | bytes) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes):
        return content
    raise SaveError(f"the extra file {name!r} is neither str nor bytes")


def _usual_records(module: Any, files: Mapping[str, bytes], *, debug: bool) -> list[NewRecord]:
    if isinstance(module, ArchiveModule):
        if _is_program(module):
            return _resaved_program(module, files, debug=debug, keeps_extras=True)
        return loaded_records(module, files, debug=debug)
    if is_script_module(module):
        extras = Extras(extra_file_records(files), traced_input_records(adopt_traced(module)))
        return archive_records(adopt_module(module), code=None, extras=extras, debug=debug)
    if is_script_function(module):
        root = adopt_placeholder(module)
        return archive_records(
            root, code=None, extras=Extras(extra_file_records(files)), debug=debug
        )
    raise _no_code(module)


def _canonical_records(module: Any, files: Mapping[str, bytes]) -> list[NewRecord]:
    extras = extra_file_records(dict(sorted(files.items())))
    if isinstance(module, ArchiveModule):
        if _is_program(module):
            ordered = dict(sorted(files.items()))
            return _resaved_program(module, ordered, debug=False, keeps_extras=False)
        return canonical_loaded_records(module, extras)
    if is_script_module(module):
        return _records_read_back(adopt_module(module), extras)
    if is_script_function(module):
        return _records_read_back(adopt_placeholder(module), extras)
    raise _no_code(module)


def _is_program(module: ArchiveModule) -> bool:
    return kind_of(module.tsarchive_classes.container.records) == PT2


def _resaved_program(
    module: ArchiveModule, files: Mapping[str, bytes], *, debug: bool, keeps_extras: bool
) -> list[NewRecord]:
    from tsarchive.pt2.resaving import resaved_records
    from tsarchive.verifying.pt2.checking import pt2_findings
    from tsarchive.verifying.report import require_whole

    require_whole(pt2_findings(module.tsarchive_classes.container))
    return resaved_records(module, files, debug=debug, keeps_extras=keeps_extras)


def _records_read_back(root: ObjectValue, extras: tuple[NewRecord, ...]) -> list[NewRecord]:
    try:
        return canonical_records(settled_text(root, Constants()), extras)
    except SourceError as error:
        raise SaveError(
            f"code of the module does not read back, so it has no canonical form: {error}",
            hint="Save without canonical=True",
        ) from error


def _no_code(module: Any) -> SaveError:
    return SaveError(
        f"a {type(module).__name__} has no TorchScript code",
        hint="Script or trace the module with torch.jit first, or load an archive",
    )
