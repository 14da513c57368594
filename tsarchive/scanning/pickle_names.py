"""The globals that pickles of models may name and call, each with the reason why it is harmless.

What is not in the table is not known to be harmless. Budgets bound the work on a file's pickles.
"""

from __future__ import annotations

import sys
from _compat_pickle import IMPORT_MAPPING
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Final

from tsarchive.pickler.values import STORAGE_TYPES


class Use(Enum):
    """The most that a pickle may do with a global."""

    NAME = auto()
    """It may stand as a value, and not be called."""
    MAKE = auto()
    """An object of the class may be made without arguments of its own (NEWOBJ)."""
    CALL = auto()
    """It may be called with whatever arguments the pickle gives."""


@dataclass(frozen=True, slots=True)
class NameRow:
    """``is_code`` tells of names that stand for Python code of torch.nn, which the reader runs."""

    use: Use
    reason: str
    is_code: bool = False


_STORAGE = "the element type of a storage, which stands in its persistent id"
_CONSTANT = "a constant of torch"
_REBUILD = "puts a tensor together from a storage, sizes and strides"
_CONTAINER = "a container of values of the pickle"
_NUMBER = "a number or text"
_ARRAY = "puts a NumPy array or scalar together from bytes"
_VALUE = "a value that holds nothing but itself"
_TAG = "tells the type of a list or dict in TorchScript's pickles"

# Use, reason, names; "{builtins}" stands for the module under both of its names.
_TABLE: Final = (
    (Use.NAME, _STORAGE, tuple(f"torch.{name}" for name in STORAGE_TYPES)),
    (Use.NAME, _STORAGE, (
        "torch.storage.UntypedStorage", "torch.storage.TypedStorage", "torch.UntypedStorage",
        "torch.TypedStorage", "torch.ComplexHalfStorage",
    )),
    (Use.NAME, _CONSTANT, tuple(
        f"torch.{name}" for name in (
            "float16", "float32", "float64", "half", "float", "double", "bfloat16", "uint8",
            "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "short", "int",
            "long", "bool", "complex32", "complex64", "complex128", "cfloat", "cdouble",
            "qint8", "quint8", "qint32", "quint4x2", "quint2x4", "float8_e5m2", "float8_e4m3fn",
            "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
            "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc",
            "jagged", "per_tensor_affine", "per_channel_affine", "per_tensor_symmetric",
            "per_channel_symmetric", "per_channel_affine_float_qparams", "preserve_format",
            "contiguous_format", "channels_last", "channels_last_3d",
        )
    )),
    (Use.NAME, "the class of tensors or parameters", (
        "torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter",
        "torch.nn.parameter.Buffer", "torch.nn.Parameter",
    )),
    (Use.CALL, _REBUILD, tuple(
        f"torch._utils.{name}" for name in (
            "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor",
            "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_sparse_tensor",
            "_rebuild_sparse_csr_tensor", "_rebuild_nested_tensor",
            "_rebuild_meta_tensor_no_storage", "_rebuild_device_tensor_from_numpy",
            "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_wrapper_subclass",
        )
    )),
    (Use.CALL, "puts a tensor of a subclass together by a function that it is given", (
        "torch._tensor._rebuild_from_type_v2", "torch._tensor._rebuild_from_type",
    )),
    (Use.CALL, _VALUE, ("torch.Size", "torch.device", "torch.serialization._get_layout")),
    (Use.MAKE, "an object bound from C++, made by torch from what the pickle says of it",
     ("torch._C.ScriptObject",)),
    (Use.CALL, _TAG, tuple(
        f"torch.jit._pickle.{name}" for name in (
            "build_intlist", "build_tensorlist", "build_doublelist", "build_boollist",
            "build_complexlist", "build_tensor_from_id", "restore_type_tag",
        )
    )),
    (Use.CALL, _CONTAINER, (
        "collections.OrderedDict", "collections.defaultdict", "collections.deque",
        "collections.Counter", "argparse.Namespace", "types.SimpleNamespace",
        *(f"{module}.{name}" for module in ("builtins", "__builtin__")
          for name in ("set", "frozenset", "dict", "list", "tuple", "slice", "range")),
    )),
    (Use.CALL, _NUMBER, (
        *(f"{module}.{name}" for module in ("builtins", "__builtin__")
          for name in ("bool", "int", "long", "float", "complex", "str", "unicode", "bytes",
                       "bytearray")),
        "_codecs.encode", "decimal.Decimal", "fractions.Fraction",
    )),
    (Use.CALL, _VALUE, (
        "datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta",
        "datetime.timezone", "uuid.UUID", "pathlib.PosixPath", "pathlib.PurePosixPath",
        "pathlib.WindowsPath", "pathlib.PureWindowsPath", "pathlib._local.PosixPath",
        "pathlib._local.WindowsPath",
    )),
    (Use.MAKE, "the class that all others have as a base",
     ("builtins.object", "__builtin__.object")),
    (Use.CALL, "makes an object of a class that it is given",
     ("copyreg._reconstructor", "copy_reg._reconstructor")),
    (Use.CALL, _ARRAY, tuple(
        f"{module}.{name}" for module in ("numpy.core", "numpy._core")
        for name in ("multiarray._reconstruct", "multiarray.scalar", "numeric._frombuffer")
    )),
    (Use.CALL, _VALUE, ("numpy.dtype",)),
    (Use.NAME, "the class of NumPy arrays, or of their elements", (
        "numpy.ndarray", *(f"numpy.{name}" for name in (
            "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "float16", "float32", "float64", "complex64", "complex128", "str_", "bytes_",
        )),
    )),
)  # fmt: skip

# Functions that call what stands at these places among their arguments.
CALLS_ITS_ARGUMENT: Final = {
    "torch._tensor._rebuild_from_type_v2": (0,),
    "torch._tensor._rebuild_from_type": (0,),
    "copyreg._reconstructor": (0, 1),
    "copy_reg._reconstructor": (0, 1),
    "collections.defaultdict": (0,),
}
_NN = "torch.nn.modules."
_NN_ROW = NameRow(Use.MAKE, "a module of torch.nn, whose Python code the reader runs", is_code=True)


def row_of_name(name: str) -> NameRow | None:
    """Return the row of a global; None when it is not known to be harmless."""
    found = _rows().get(name)
    if found is None and name.startswith(_NN):
        return _NN_ROW
    return found


@lru_cache(maxsize=1024)
def is_importable(name: str) -> bool:
    """Return whether a qualified name is one that Python's import and attributes may have."""
    return all(part.isidentifier() for part in name.split("."))


def is_widespread(name: str) -> bool:
    """Return whether a name is in a module that is found wherever models are: one of Python, also
    under its old name, or of the libraries in the table."""
    return name.partition(".")[0] in _widespread_modules()


@cache
def _widespread_modules() -> frozenset[str]:
    libraries = {name.partition(".")[0] for name in _rows()}
    return frozenset(libraries | sys.stdlib_module_names | IMPORT_MAPPING.keys())


@cache
def _rows() -> dict[str, NameRow]:
    return {name: NameRow(use, reason) for use, reason, names in _TABLE for name in names}


# A step is the time of one opcode, half a microsecond. Small files may take so many in any case:
# lists of words have many beginnings.
_FREE: Final = 1 << 22
_FREE_SEARCH: Final = 1 << 23
# A file has at least a byte for each opcode, so that what is stored plainly is read to its end.
_MOST_READING: Final = 1 << 26
# Pickles may begin anywhere. In random bytes, a search takes a step for some 600 of them, in lists
# of words for some 7.
_BYTES_OF_SEARCH: Final = 1 << 6
_BYTES_OF_SEARCH_IN_WORDS: Final = 1 << 2
_MOST_SEARCH_IN_WORDS: Final = 1 << 25


@dataclass(slots=True)
class Budget:
    """Steps that are left, negative where more were taken."""

    left: int

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


@dataclass(frozen=True, slots=True)
class Budgets:
    """``reading`` is for pickles where pickles stand, ``searching`` for those that hide."""

    reading: Budget
    searching: Budget

    @classmethod
    def of_file(cls, size: int) -> Budgets:
        """Return the budgets for a file of so many bytes."""
        reading = max(_FREE, min(size, _MOST_READING))
        in_words = min(size // _BYTES_OF_SEARCH_IN_WORDS, _MOST_SEARCH_IN_WORDS)
        searching = max(_FREE_SEARCH, in_words, size // _BYTES_OF_SEARCH)
        return cls(Budget(reading), Budget(searching))
