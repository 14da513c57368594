"""Which records a module is saved as, scripted, traced or loaded."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tsarchive.adopt.torch_jit import (
    adopt_module,
    adopt_placeholder,
    adopt_traced,
    is_script_function,
    is_script_module,
)
from tsarchive.container import NewRecord
from tsarchive.errors import SaveError, SourceError
from tsarchive.ir.values import ObjectValue
from tsarchive.run.modules import ArchiveModule

from .constants import Constants
from .exporter import Extras, archive_records, canonical_records, extra_files, traced_input_records
from .rereading import settled_text
from .resaving import canonical_loaded_records, loaded_records

_OPTIMIZED: Final = (
    "the module comes from torch.jit.optimize_for_inference: its code names operators of oneDNN, "
    "such as aten::to_mkldnn, which the default policy of tsarchive.load refuses to run. Save it "
    "before it is optimized, or allow them in the policy that you load the file with"
)


def module_records(module: Any, files: Mapping[str, bytes], *, debug: bool) -> list[NewRecord]:
    """The records of a module with extra files by name. Raises SaveError where it has no code."""
    if isinstance(module, ArchiveModule):
        return loaded_records(module, files, debug=debug)
    extras = extra_files(files)
    if is_script_module(module):
        traced = traced_input_records(adopt_traced(module))
        root = adopt_module(module)
        return archive_records(root, code=None, extras=Extras(extras, traced), debug=debug)
    if is_script_function(module):
        root = adopt_placeholder(module)
        return archive_records(root, code=None, extras=Extras(extras), debug=debug)
    raise _no_code(module)


def canonical_module_records(module: Any, files: Mapping[str, bytes]) -> list[NewRecord]:
    """The same in the canonical form."""
    extras = extra_files(dict(sorted(files.items())))
    if isinstance(module, ArchiveModule):
        return canonical_loaded_records(module, extras)
    if is_script_module(module):
        return _records_read_back(adopt_module(module), extras)
    if is_script_function(module):
        return _records_read_back(adopt_placeholder(module), extras)
    raise _no_code(module)


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


def warn_if_optimized(module: Any, records: Iterable[NewRecord]) -> None:
    """Warn who calls ``tsarchive.save`` of code that makes oneDNN tensors of constants, which
    scripted code has no way to."""
    if not isinstance(module, ArchiveModule) and any(map(_is_optimized, records)):
        warnings.warn(_OPTIMIZED, stacklevel=5)


def _is_optimized(record: NewRecord) -> bool:
    return record.name.startswith("code/") and b"torch.to_mkldnn(CONSTANTS." in bytes(record.data)
