"""Which records belong to each kind of archive, and what they hold."""

from __future__ import annotations

import re
from typing import Final

from tsarchive.kinds import (
    LEGACY_TORCHSCRIPT,
    PT2,
    TORCH_PACKAGE,
    TORCH_SAVE,
    TORCHSCRIPT,
)

__all__ = ["CODE", "EXECUTORCH", "NATIVE", "OTHER", "PICKLES", "TENSORS", "group_of"]

CODE: Final = "code"
PICKLES: Final = "pickles"
TENSORS: Final = "tensors"
INPUTS: Final = "example inputs"
DEBUG: Final = "debug records"
NOTES: Final = "notes"
PROGRAMS: Final = "programs"
EXTRA: Final = "extra files"
PYTHON: Final = "Python source"
NATIVE: Final = "native code"
EXECUTORCH: Final = "programs of ExecuTorch"
OTHER: Final = "other"

_NOTES = (r"(\.data/)?version|byteorder|\.data/serialization_id|\.format_version"
          r"|\.storage_alignment|archive_format|archive_version")  # fmt: skip
_TABLE: Final = {
    TORCHSCRIPT: (
        (r"code/.*\.py", CODE),
        (r"code/.*\.debug_pkl|debug/.*\.pkl|[\w.]*debug[\w.]*\.pkl|delegated_backends\.debug_pkl",
         DEBUG),
        (r"(data|constants|attributes|bytecode|traced_inputs|mobile_debug_handles"
         r"|callstack_debug_map)\.pkl", PICKLES),
        (r"(data|constants|tensors|bytecode)/\d+(\.storage)?", TENSORS),
        (r"traced_inputs/\d+", INPUTS),
        (r"extra/.*", EXTRA),
    ),
    LEGACY_TORCHSCRIPT: (
        (r"(code|libs)/.*\.py", CODE),
        (r"(debug/.*|attributes)\.pkl", PICKLES),
        (r"model\.json", NOTES),
        (r"tensors/\d+", TENSORS),
        (r"extra/.*", EXTRA),
    ),
    PT2: (
        (r"code/.*\.py", CODE),
        (r"models/.*\.json|serialized_exported_program\.json", PROGRAMS),
        (r".*/?(data_)?(weights|constants)?[\w.]*config\.json", NOTES),
        (r"data/aotinductor/.*\.(cpp|json|h|txt)|serialized_[\w.]*\.json", NOTES),
        (r"data/aotinductor/.*\.(so|dll|pyd|dylib|o|a|cubin|fatbin|ptx|hsaco|spv|metallib)",
         NATIVE),
        (r"data/executorch/.*", EXECUTORCH),
        (r"data/sample_inputs/.*|serialized_example_inputs\.pt", INPUTS),
        (r"data/(weights|constants)/.*|serialized_[\w.]*\.pt", TENSORS),
        (r"extra/.*|extra_files/.*", EXTRA),
    ),
    TORCH_SAVE: (
        # With a constants.pkl beside them, torch.load takes the file for TorchScript.
        (r"code/.*\.py", CODE),
        (r"data\.pkl", PICKLES),
        (r"data/.*", TENSORS),
    ),
    TORCH_PACKAGE: (
        (r"\.data/ts_code/code/.*\.py", CODE),
        (r".*\.py", PYTHON),
        (r".*\.pkl", PICKLES),
        (r"\.data/(\d+\.storage|ts_code/.*)", TENSORS),
        (r"\.data/(extern_modules|python_version)", NOTES),
    ),
}  # fmt: skip
_COMPILED: Final = {
    kind: tuple((re.compile(pattern), group) for pattern, group in (*rows, (_NOTES, NOTES)))
    for kind, rows in _TABLE.items()
}


def group_of(kind: str, record: str) -> str:
    """What a record of an archive of this kind holds; ``other`` when it belongs to none."""
    for pattern, group in _COMPILED.get(kind, ()):
        if pattern.fullmatch(record):
            return group
    return OTHER
