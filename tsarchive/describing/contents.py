"""The contents of files as values, and the facts about them that commands show, also in words.

Contents are tensors and their totals, modules, and the needs of code. A fact in words is a line: a
label and a text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from tsarchive.renaming import renamed_fields

from .text import NAMES_SHOWN, OPERATORS_SHOWN, Lines, counts_text, listed, named, plural, size

if TYPE_CHECKING:
    from .executorch import ExecutorchFacts
    from .exported import ExportedFacts
    from .written import WrittenBy

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
TORCH_CLASSES: Final = frozenset({"c10d", "mkldnn", "quantized", "rnn", "sparse", "xnnpack"})


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

        >>> with tsarchive.open("net.pt") as archive:
        ...     weight = archive.tensors["head.weight"]
        >>> weight.dtype, weight.shape, weight.strides, weight.nbytes, weight.role
        ('float32', (2, 4), (4, 1), 32, 'parameter')
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


@renamed_fields(bytes="nbytes")
@dataclass(frozen=True, slots=True)
class TensorTotals:
    """Totals of tensors.

    Tensors are counted by name, so that one with two names counts twice, and so are their elements;
    storages and their bytes are counted once.

        >>> with tsarchive.open("net.pt") as archive:
        ...     print(archive.totals.count, archive.totals.elements)
        2 10
    """

    count: int
    elements: int
    storages: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module of the tree.

    ``parameters`` counts elements, ``nbytes`` the bytes of its own tensors; both exclude
    submodules.

        >>> with tsarchive.open("net.pt") as archive:
        ...     root = archive.tree()
        >>> root.methods, [(child.name, child.parameters) for child in root.children]
        (('forward',), [('head', 10)])
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

        >>> with tsarchive.open("net.pt") as archive:
        ...     print(archive.needs.operators["aten::linear"], archive.needs.classes)
        1 ()
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


_Named = TypeVar("_Named")


def uniquely_named(named: Iterable[tuple[str, _Named]]) -> Iterator[tuple[str, _Named]]:
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
    return f"{plural(totals.count, 'tensor')} in {storages}, {size(totals.nbytes)}"


def module_totals(module: ModuleInfo) -> tuple[int, int]:
    """Return parameter elements and bytes of a module with everything below it."""
    parameters, nbytes = module.parameters, module.nbytes
    for child in module.children:
        more_parameters, more_bytes = module_totals(child)
        parameters, nbytes = parameters + more_parameters, nbytes + more_bytes
    return parameters, nbytes


def tree_document(module: ModuleInfo, depth: int | None = None) -> dict[str, Any]:
    """Return a tree as JSON. ``parameters`` and ``bytes`` are the module's own, ``total_*`` not.

    ``children`` is null where the depth ends the listing.
    """
    total_parameters, total_bytes = module_totals(module)
    return {
        "name": module.name,
        "class": module.qualified_class,
        "methods": list(module.methods),
        "parameters": module.parameters,
        "nbytes": module.nbytes,
        "total_parameters": total_parameters,
        "total_nbytes": total_bytes,
        "children": None
        if depth == 0
        else [tree_document(child, level_below(depth)) for child in module.children],
    }


def level_below(depth: int | None) -> int | None:
    """Return how many levels are left below a module; None where there is no bound."""
    return None if depth is None else depth - 1


def tensor_document(name: str, info: TensorInfo) -> dict[str, Any]:
    """Return a tensor as JSON: as everywhere, sizes are ``bytes``."""
    return {
        "name": name,
        "dtype": info.dtype,
        "shape": info.shape,
        "strides": info.strides,
        "nbytes": info.nbytes,
        "record": info.storage,
        "storages": info.storages,
        "device": info.device,
        "role": info.role,
    }


@dataclass(slots=True)
class GroupFacts:
    """Records of one purpose: their number, their bytes, and their bytes in the file."""

    records: int = 0
    nbytes: int = 0
    stored_nbytes: int = 0

    def add(self, size: int, stored_size: int) -> None:
        """Count one more record."""
        self.records += 1
        self.nbytes += size
        self.stored_nbytes += stored_size


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """The facts about code. ``signatures`` are those of the main class.

    ``operators`` counts the places that call an operator, ``native_classes`` are torchbind
    classes. ``needs`` are those of both that do not come with torch, ``removed`` those that the
    newest torch does not have any more, each with what to do.
    ``has_traced_inputs``: torch.jit.trace made the module and left its example inputs. A traced
    module that was loaded and saved again has lost them.
    """

    main_class: str
    has_traced_inputs: bool
    modules: int
    classes: int
    methods: int
    functions: int
    signatures: tuple[str, ...]
    native_classes: tuple[str, ...]
    operators: Mapping[str, int]
    needs: Mapping[str, str]
    removed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TensorFacts(TensorTotals):
    """Totals, and what is known beside them; ``dtypes`` and ``devices`` count tensors, too."""

    parameters: int
    parameter_elements: int
    dtypes: Mapping[str, int]
    devices: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything. ``program`` is None unless ``kind`` is torchscript, ``exported`` unless it is
    pt2, ``executorch`` unless it is of ExecuTorch, ``tensors`` unless it is one of these and has
    a program or data. ``written_by`` is None where nothing tells which torch wrote the file.
    ``extra_files`` are the sizes of extra files, by name."""

    file: str
    nbytes: int
    kind: str
    format_version: int | None
    root: str
    byte_order: str | None
    serialization_id: str | None
    compression: Mapping[str, int]
    groups: Mapping[str, GroupFacts]
    program: ProgramFacts | None
    exported: ExportedFacts | None
    tensors: TensorFacts | None
    executorch: ExecutorchFacts | None = None
    written_by: WrittenBy | None = None
    extra_files: Mapping[str, int] = field(default_factory=dict)


def fact_lines(facts: Facts) -> Lines:
    """Yield all but the records; an empty label continues the line before."""
    version = "not recorded" if facts.format_version is None else str(facts.format_version)
    yield "file", facts.file
    yield "kind", f"{facts.kind}, format version {version}"
    yield "size", f"{size(facts.nbytes)} ({facts.nbytes:,} bytes)"
    if facts.executorch is None:
        yield "root folder", facts.root or "none"
        yield "byte order", facts.byte_order or "not recorded"
        yield "compression", counts_text(facts.compression)
        yield "serialization id", facts.serialization_id or "not recorded"
    else:
        from .executorch import executorch_lines

        yield from executorch_lines(facts.executorch)
    if facts.written_by is not None:
        from .written import written_lines

        yield from written_lines(facts.written_by)
    if facts.program is not None:
        yield from _program_lines(facts.program)
    if facts.exported is not None:
        from .exported import exported_lines

        yield from exported_lines(facts.exported)
    if facts.tensors is not None:
        yield from _tensor_lines(facts.tensors, has_roles=facts.executorch is None)
    for number, (name, nbytes) in enumerate(facts.extra_files.items()):
        yield "" if number else "extra files", f"{name}: {plural(nbytes, 'byte')}"


def _program_lines(program: ProgramFacts) -> Lines:
    yield "main class", program.main_class
    yield "origin", "traced" if program.has_traced_inputs else "not recorded"
    yield "modules", f"{plural(program.modules, 'module')} of {plural(program.classes, 'class')}"
    yield (
        "code",
        f"{plural(program.methods, 'method')}, {plural(program.functions, 'free function')}",
    )
    for number, text in enumerate(program.signatures):
        yield "" if number else "methods", text
    if program.native_classes:
        yield "torchbind classes", ", ".join(program.native_classes)
    yield "operators", counts_text(program.operators, OPERATORS_SHOWN)
    # What torch removed stands below.
    nothing = "no library beyond torch" if program.removed else "nothing beyond torch"
    yield from named("needs", program.needs, nothing)
    yield from _removed_lines(program.removed)


def _removed_lines(removed: Mapping[str, str]) -> Lines:
    """Yield what torch has no more; names with the same advice together, and that below them."""
    for number, advice in enumerate(dict.fromkeys(removed.values())):
        names = [name for name, other in removed.items() if other == advice]
        yield "" if number else "removed", listed(names, NAMES_SHOWN)
        yield "", f"{len(names):,} that torch has no more: {advice}"


def _tensor_lines(tensors: TensorFacts, *, has_roles: bool) -> Lines:
    """Yield totals; files of ExecuTorch record neither parameters nor devices."""
    if has_roles:
        elements = plural(tensors.parameter_elements, "element")
        yield "parameters", f"{plural(tensors.parameters, 'tensor')}, {elements}"
    yield "tensors", totals_text(tensors)
    yield "dtypes", counts_text(tensors.dtypes)
    if has_roles:
        yield "devices", counts_text(tensors.devices)
