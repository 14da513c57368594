"""The code of an archive that is saved as it was read: its records, its constants and bytecode."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tsarchive.container import ChangedContainer, Container
from tsarchive.errors import ArchiveWarning
from tsarchive.pickler import loads

from .debug_records import DEBUG_SUFFIX
from .inspection import BYTECODE, storage_record
from .pickled import storages_of

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule

_TABLE: Final = "constants.pkl"


def kept_code(container: Container, *, debug: bool) -> list[str]:
    """Return the records of code that a save of a loaded module keeps, including constants."""
    names = [name for name in container.records if name.startswith("code/")]
    code = [name for name in names if debug or not name.endswith(DEBUG_SUFFIX)]
    return [*code, *_constants(container, debug=debug)]


def _constants(container: Container, *, debug: bool) -> list[str]:
    """Return the constant table, the program of bytecode beside it, and the storages of both."""
    tables = [_TABLE, BYTECODE] if _keeps_bytecode(container) else [_TABLE]
    pickles = {name for name in tables if name in container.records}
    storages = (name for pickle in pickles for name in _storages(container, pickle))
    kept = {*pickles, *storages, *(_DEBUG_OF_BYTECODE if BYTECODE in pickles and debug else ())}
    return [name for name in container.records if name in kept]


def _storages(container: Container, pickle: str) -> Iterator[str]:
    """Yield the records of the storages that a pickle refers to."""
    for key in storages_of(loads(container.read(pickle), record=pickle)):
        yield storage_record(pickle, key, container.records)


def bytecode_alone(container: Container) -> set[str]:
    """Return the records of the program of bytecode that the code beside it does not need."""
    if BYTECODE not in container.records:
        return set()
    tables = [name for name in (_TABLE, "data.pkl") if name in container.records]
    needed = {name for pickle in tables for name in _storages(container, pickle)}
    own = {BYTECODE, *_DEBUG_OF_BYTECODE, *_storages(container, BYTECODE)}
    return own - needed


_DEBUG_OF_BYTECODE: Final = (
    "mobile_debug_handles.pkl", "callstack_debug_map.pkl", "delegated_backends.debug_pkl",
)  # fmt: skip


def _keeps_bytecode(container: Container) -> bool:
    """Return whether a save keeps the program of bytecode that an archive has beside its code.

    It reads attributes by their places in the objects of ``data.pkl``, whatever these hold, and
    has the constants of the code for its own. So it is right as long as both are as they were.
    """
    return BYTECODE in container.records and not isinstance(container, ChangedContainer)


_WITHOUT_BYTECODE: Final = (
    "the program of bytecode, which the lite interpreter of torch runs on phones, is left out: it "
    "has constants on the devices that the archive named. Load the archive without map_location"
)


def warn_without_bytecode(module: ArchiveModule) -> None:
    """Warn who calls ``tsarchive.save`` of a module that was moved away from its bytecode."""
    container = module.tsarchive_classes.container
    if isinstance(container, ChangedContainer) and BYTECODE in container.records:
        warnings.warn(_WITHOUT_BYTECODE, ArchiveWarning, stacklevel=5)
