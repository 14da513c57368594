"""The contents of archives: tensors and their totals, modules, and the needs of their code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .text import plural, size

Role: TypeAlias = Literal["parameter", "buffer", "attribute", "constant"]


# The namespaces of operators and of classes that torch registers when it is imported.
TORCH_OPERATORS: Final = frozenset(
    {
        "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "_native_aot",
        "_quantized", "_test", "aten", "c10d", "coor", "cuda", "debug_mode_ops", "debugprims",
        "export", "flex_gemm", "fsdp", "inductor", "inductor_prims", "mkl", "mkldnn",
        "mkldnn_prepacked", "onednn", "onnx", "prepacked", "prim", "prims", "profiler",
        "quantization", "quantized", "rngprims", "sparse", "static_runtime", "symm_mem",
    }
)  # fmt: skip
TORCH_CLASSES: Final = frozenset({"c10d", "mkldnn", "quantized", "rnn", "sparse"})


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """Bytes that tensors occupy, and may share: ``nbytes`` of a record, from ``start`` on.

    Storages without bytes in the file, as of meta tensors, have 0. Equal ones are the same storage.
    """

    record: str
    start: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The description of a tensor in an archive.

    ``dtype`` is torch's name without ``torch.``; ``strides`` count elements and are empty for
    sparse tensors; ``storage`` is the record of its bytes, None for sparse tensors; ``nbytes`` is
    the size of the elements that the tensor shows, not of the storage; ``offset`` is the offset in
    bytes of the first of them in the record, None where unknown. ``storages`` are all of its
    storages: that of its elements, those of per-channel scales and zero points, or those of the
    indices and values of a sparse tensor. ``device`` is None where the format stores none. A tensor
    is a constant where code names it; one that is neither parameter, buffer nor constant is an
    attribute, or inside one.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage: str | None
    nbytes: int
    role: Role
    storages: tuple[StorageInfo, ...]
    device: str | None = None
    offset: int | None = None

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_parameter(self) -> bool:
        """Return whether the tensor is a parameter of a module."""
        return self.role == "parameter"

    @property
    def is_buffer(self) -> bool:
        """Return whether the tensor is a buffer of a module."""
        return self.role == "buffer"


@dataclass(frozen=True, slots=True)
class TensorTotals:
    """Totals of tensors.

    Tensors are counted by name, so that one with two names counts twice, and so are their elements;
    storages and their bytes are counted once.
    """

    count: int
    elements: int
    storages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module of the tree.

    ``parameters`` counts elements, ``nbytes`` the bytes of its own tensors; both exclude
    submodules.
    """

    name: str
    qualified_class: str
    methods: tuple[str, ...]
    parameters: int
    nbytes: int
    children: tuple[ModuleInfo, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """``operators`` are qualified names without overload (``aten::conv2d``), with the number of
    places that call each; ``classes`` are torchbind classes (``quantized.Conv2dPackedParamsBase``).

    TorchScript's own functions, such as ``int`` and ``annotate``, are no operators.
    """

    operators: Mapping[str, int]
    classes: tuple[str, ...]

    @property
    def foreign(self) -> tuple[str, ...]:
        """Operators and classes of namespaces that are not those of torch, by name."""
        operators = (n for n in self.operators if n.partition("::")[0] not in TORCH_OPERATORS)
        classes = (n for n in self.classes if n.partition(".")[0] not in TORCH_CLASSES)
        return (*sorted(operators), *classes)


def totals_of(infos: Iterable[TensorInfo]) -> TensorTotals:
    """Count tensors; all commands use this definition."""
    count = elements = 0
    storages: set[StorageInfo] = set()
    for info in infos:
        count, elements = count + 1, elements + info.elements
        storages.update(info.storages)
    nbytes = sum(storage.nbytes for storage in storages)
    return TensorTotals(count, elements, len(storages), nbytes)


def uniquely_named(
    named: Iterable[tuple[str, TensorInfo]],
) -> Iterator[tuple[str, TensorInfo]]:
    """Make names unique; the second of a name, as of the keys 1 and ``"1"``, is ``name (2)``."""
    known: set[str] = set()
    repeated: dict[str, int] = {}
    for name, info in named:
        shown = name
        while shown in known:
            repeated[name] = repeated.get(name, 1) + 1
            shown = f"{name} ({repeated[name]})"
        known.add(shown)
        yield shown, info


def totals_text(totals: TensorTotals) -> str:
    """``19 tensors in 5 storages, 654.6 KiB``"""
    storages = plural(totals.storages, "storage")
    return f"{plural(totals.count, 'tensor')} in {storages}, {size(totals.bytes)}"
