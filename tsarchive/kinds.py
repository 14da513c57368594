"""Which format an archive is, by the records it holds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from mmap import mmap

from tsarchive.errors import MissingRecordError

TORCHSCRIPT = "torchscript"
LEGACY_TORCHSCRIPT = "torchscript-legacy"
PT2 = "pt2"
TORCH_SAVE = "torch.save"
TORCH_PACKAGE = "torch.package"
UNKNOWN = "zip"
# Files of ExecuTorch, which are no zip archives: programs, data, programs with calls.
PTE = "pte"
PTD = "ptd"
BPTE = "bpte"
EXECUTORCH = (PTE, PTD, BPTE)

_MAGIC = slice(4, 8)
HEAD_BYTES = 8
"""How much of a file ``executorch_kind`` looks at."""
_EXECUTORCH_MAGIC = {b"ET": PTE, b"FT": PTD, b"BP": BPTE}


def _has_prefix(prefix: str) -> Callable[[Collection[str]], bool]:
    return lambda names: any(name.startswith(prefix) for name in names)


def _has(*wanted: str) -> Callable[[Collection[str]], bool]:
    return lambda names: all(name in names for name in wanted)


# The first row that fits counts.
_RULES: tuple[tuple[str, Callable[[Collection[str]], bool]], ...] = (
    (TORCHSCRIPT, _has("constants.pkl", "data.pkl")),
    (LEGACY_TORCHSCRIPT, _has("model.json")),
    (PT2, _has("archive_format")),
    (PT2, _has_prefix("models/")),
    (PT2, _has("serialized_exported_program.json")),
    (TORCH_PACKAGE, _has_prefix(".data/ts_code/")),
    (TORCH_PACKAGE, _has(".data/extern_modules")),
    (TORCH_SAVE, _has("data.pkl")),
)


def kind_of(names: Collection[str]) -> str:
    """The kind of an archive with these record names; ``zip`` when it is none that we know."""
    return next((kind for kind, fits in _RULES if fits(names)), UNKNOWN)


def executorch_kind(data: bytes | bytearray | memoryview | mmap) -> str | None:
    """Which file of ExecuTorch begins so, of whatever version; None for others."""
    magic = bytes(memoryview(data)[_MAGIC])
    is_magic = len(magic) == 4 and magic[2:].isdigit()
    return _EXECUTORCH_MAGIC.get(magic[:2]) if is_magic else None


_WHAT_IT_IS = {
    PTE: "a program of ExecuTorch",
    PTD: "a data file of ExecuTorch",
    BPTE: "a bundled program of ExecuTorch",
    LEGACY_TORCHSCRIPT: "TorchScript of before torch 1.3",
    PT2: "a PT2 archive of torch.export",
    TORCH_SAVE: "a torch.save checkpoint",
    TORCH_PACKAGE: "a torch.package archive",
    UNKNOWN: "a zip archive without a model of torch",
}
_TO_BE_LOOKED_AT = "'tsarchive info', 'code', 'tensors', 'tree' and 'verify' show what it holds"
_WHAT_TO_DO = {
    PTE: _TO_BE_LOOKED_AT,
    PTD: _TO_BE_LOOKED_AT,
    BPTE: _TO_BE_LOOKED_AT,
    LEGACY_TORCHSCRIPT: "tsarchive.load reads it, and tsarchive.save writes it in the form of "
    "today",
    PT2: "tsarchive.load reads it, 'tsarchive code' lists its program, and 'tsarchive convert' "
    "writes it as TorchScript",
    TORCH_SAVE: "Load it with torch.load(weights_only=True); where that refuses it, 'tsarchive "
    "audit' tells why. To keep a module with its code, script it and save it with tsarchive.save",
    TORCH_PACKAGE: "torch.package.PackageImporter runs the Python source in it: look at it with "
    "'tsarchive audit' first",
    UNKNOWN: "Check that this is the file you mean",
}


def what_it_is(kind: str) -> str:
    """What an archive of a kind that is not TorchScript of today is, in a few words."""
    return _WHAT_IT_IS[kind]


def what_to_do(kind: str) -> str:
    """What reads an archive of a kind that is not TorchScript of today, without a full stop."""
    return _WHAT_TO_DO[kind]


def require_torchscript(kind: str, names: Collection[str]) -> None:
    """Raise MissingRecordError, saying what the file is instead, unless it is TorchScript."""
    if kind == TORCHSCRIPT:
        return
    missing = "constants.pkl" if "data.pkl" in names else "data.pkl"
    message, hint = f"not a TorchScript archive: {missing} is not in it", _WHAT_TO_DO[kind]
    if kind != LEGACY_TORCHSCRIPT and any(name.startswith("code/") for name in names):
        hint = "The archive is incomplete: download or copy it again"
    elif kind != UNKNOWN:
        message = f"not a TorchScript archive, but {_WHAT_IT_IS[kind]}"
    raise MissingRecordError(message, record=missing, hint=hint)
