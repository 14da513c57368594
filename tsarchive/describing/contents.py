"""The contents of files as values, and the facts about them that commands show, also in words.

Contents are tensors and their totals, modules, and the needs of code. A fact in words is a line: a
label and a text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .text import listed, plural, size

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


@dataclass(slots=True)
class GroupFacts:
    """Records of one purpose: their number, their bytes, and their bytes in the file."""

    records: int = 0
    bytes: int = 0
    stored_bytes: int = 0

    def add(self, size: int, stored_size: int) -> None:
        """Count one more record."""
        self.records += 1
        self.bytes += size
        self.stored_bytes += stored_size


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
class MethodFacts:
    """A method of a program of ExecuTorch. ``operators`` counts calls, ``delegates`` bytes of the
    programs of each backend; ``arenas`` are the bytes of the memory plan."""

    name: str
    signature: str
    values: int
    instructions: int
    operators: Mapping[str, int]
    delegates: Mapping[str, int]
    arenas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExecutorchFacts:
    """A file of ExecuTorch. ``header_bytes`` is None where it has no extended header; ``external``
    are the keys that a data file must have; ``test_cases`` counts the calls of a bundle."""

    header_bytes: int | None
    is_data_of_06: bool
    methods: tuple[MethodFacts, ...]
    named_data: tuple[str, ...]
    external: tuple[str, ...]
    test_cases: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """A weight or constant that only a pickle describes. ``class_name`` is None where the
    restricted reader cannot tell."""

    name: str
    kind: str
    class_name: str | None
    record: str


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """An exported program. ``operators`` counts nodes; ``needs`` are what does not come with
    torch, each with what to do. ``sample_inputs`` are types, None where there are no inputs;
    ``sample_inputs_problem`` tells why they cannot be described."""

    name: str
    main_class: str
    schema_version: str
    torch_version: str
    opset: Mapping[str, int]
    verifiers: tuple[str, ...]
    signature: str
    modules: int
    nodes: int
    graphs: int
    operators: Mapping[str, int]
    needs: Mapping[str, str]
    parameters: int
    buffers: int
    constants: int
    ranges: Mapping[str, str]
    guards: tuple[str, ...]
    objects: tuple[ObjectFacts, ...]
    sample_inputs: str | None
    sample_inputs_problem: str | None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled model.

    ``files`` are its files with their bytes; ``metadata`` is their description of the machine and
    the device, ``weights`` the number of weights stored beside the code.
    """

    name: str
    files: Mapping[str, int]
    metadata: Mapping[str, str]
    weights: int


@dataclass(frozen=True, slots=True)
class ExportedFacts:
    """``compiled`` is machine code, which is never loaded; ``executorch`` and ``extra`` are files
    with their bytes."""

    layout: str
    models: tuple[ModelFacts, ...]
    compiled: tuple[Compiled, ...]
    executorch: Mapping[str, int]
    extra: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything. ``program`` is None unless ``kind`` is torchscript, ``exported`` unless it is
    pt2, ``executorch`` unless it is of ExecuTorch, ``tensors`` unless it is one of these and has
    a program or data."""

    file: str
    bytes: int
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


Lines = Iterator[tuple[str, str]]

_LAYOUTS = {
    "raw": "a record for each storage, as torch 2.9 and later write it",
    "whole": "one record for all weights of a model, as torch 2.8 wrote it",
    "flat": "one program with its weights, as torch 2.3 to 2.7 wrote it",
}
_GUARDS_SHOWN = 5
_NAMES_SHOWN = 12
_OPERATORS_SHOWN = 12


def fact_lines(facts: Facts) -> Lines:
    """Yield all but the records; an empty label continues the line before."""
    version = "not recorded" if facts.format_version is None else str(facts.format_version)
    yield "file", facts.file
    yield "kind", f"{facts.kind}, format version {version}"
    yield "size", f"{size(facts.bytes)} ({facts.bytes:,} bytes)"
    if facts.executorch is None:
        yield "root folder", facts.root or "none"
        yield "byte order", facts.byte_order or "not recorded"
        yield "compression", _counts(facts.compression)
        yield "serialization id", facts.serialization_id or "not recorded"
    else:
        yield from _executorch_lines(facts.executorch)
    if facts.program is not None:
        yield from _program_lines(facts.program)
    if facts.exported is not None:
        yield from _exported_lines(facts.exported)
    if facts.tensors is not None:
        yield from _tensor_lines(facts.tensors, has_roles=facts.executorch is None)


def named(label: str, hints: Mapping[str, str], nothing: str) -> Lines:
    """Yield names under a label; those with the same hint together, and the hint below them."""
    if not hints:
        yield label, nothing
    for hint in dict.fromkeys(hints.values()):
        yield label, ", ".join(name for name, other in hints.items() if other == hint)
        yield "", hint
        label = ""


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
    yield "operators", _counts(program.operators, _OPERATORS_SHOWN)
    yield from named("needs", program.needs, "nothing beyond torch")
    yield from _removed_lines(program.removed)


def _removed_lines(removed: Mapping[str, str]) -> Lines:
    """Yield what torch has no more; names with the same advice together, and that below them."""
    for number, advice in enumerate(dict.fromkeys(removed.values())):
        names = [name for name, other in removed.items() if other == advice]
        yield "" if number else "removed", listed(names, _NAMES_SHOWN)
        yield "", f"{len(names):,} that torch has no more: {advice}"


def _exported_lines(facts: ExportedFacts) -> Lines:
    yield "layout", _LAYOUTS[facts.layout] if facts.models else "no exported program"
    for model in facts.models:
        yield from _model_lines(model)
    for machine in facts.compiled:
        yield from _compiled_lines(machine)
    if facts.executorch:
        yield "ExecuTorch", _files(facts.executorch)
    if facts.extra:
        yield "extra files", _files(facts.extra)
    for model in facts.models:
        suffix = f" of {model.name}" if len(facts.models) > 1 else ""
        yield f"operators{suffix}", _counts(model.operators, _OPERATORS_SHOWN)
        yield from named(f"needs{suffix}", model.needs, "nothing beyond torch")


def _model_lines(model: ModelFacts) -> Lines:
    opset = ", ".join(f"{name} {number}" for name, number in model.opset.items())
    yield "model", f"{model.name}, of class {model.main_class}"
    yield (
        "exported by",
        f"torch {model.torch_version}, schema {model.schema_version}, opset {opset or 'none'}, "
        f"{', '.join(model.verifiers) or 'no verifier'}",
    )
    yield "signature", model.signature
    yield (
        "graph",
        f"{plural(model.nodes, 'node')} in {plural(model.graphs, 'graph')}, "
        f"{plural(model.modules, 'module')}",
    )
    yield (
        "weights",
        f"{plural(model.parameters, 'parameter')}, {plural(model.buffers, 'buffer')}, "
        f"{plural(model.constants, 'constant')}",
    )
    yield from _symbol_lines(model)
    for held in model.objects:
        class_name = held.class_name or "unknown class"
        yield "pickled", f"{held.name}: {held.kind} of {class_name}, in {held.record}"
    problem = model.sample_inputs_problem
    inputs = model.sample_inputs or "none"
    yield "sample inputs", inputs if problem is None else f"not described: {problem}"


def _symbol_lines(model: ModelFacts) -> Lines:
    if model.ranges:
        yield "ranges", ", ".join(f"{symbol}: {text}" for symbol, text in model.ranges.items())
    for number, guard in enumerate(model.guards[:_GUARDS_SHOWN]):
        yield "" if number else "guards", guard
    if (more := len(model.guards) - _GUARDS_SHOWN) > 0:
        yield "", f"and {more:,} more: --json lists them"


def _compiled_lines(machine: Compiled) -> Lines:
    total = sum(machine.files.values())
    yield (
        "machine code",
        f"{machine.name}, by AOTInductor: {plural(len(machine.files), 'file')}, {size(total)}; "
        "it is never loaded",
    )
    if machine.metadata:
        yield "", ", ".join(f"{key} {value}" for key, value in machine.metadata.items())
    if machine.weights:
        yield "", f"{plural(machine.weights, 'weight')} beside the code"
    yield "", _files(machine.files)


def _files(files: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({size(nbytes)})" for name, nbytes in files.items())


def _executorch_lines(facts: ExecutorchFacts) -> Lines:
    bytes_text = "none" if facts.header_bytes is None else f"{facts.header_bytes} bytes"
    yield "header", bytes_text
    if facts.is_data_of_06:
        yield "layout", "of ExecuTorch 0.6, which later runtimes do not read"
    for method in facts.methods:
        yield from _method_lines(method)
    if facts.named_data:
        yield "named data", listed(facts.named_data, _NAMES_SHOWN)
    if facts.external:
        yield "needs data", f"{listed(facts.external, _NAMES_SHOWN)}: in a data file (.ptd)"
    for method_name, cases in facts.test_cases.items():
        yield "test suite", f"{method_name}: {plural(cases, 'call')} with expected results"


def _method_lines(method: MethodFacts) -> Lines:
    yield "method", method.signature
    yield "", f"{plural(method.values, 'value')}, {plural(method.instructions, 'instruction')}"
    if method.operators:
        yield "", _counts(method.operators, _OPERATORS_SHOWN)
    for backend, nbytes in method.delegates.items():
        yield "", f"delegate to {backend}: {size(nbytes)}"
    if any(method.arenas):
        yield "", f"memory plan: {', '.join(size(nbytes) for nbytes in method.arenas)}"


def _tensor_lines(tensors: TensorFacts, *, has_roles: bool) -> Lines:
    """Yield totals; files of ExecuTorch record neither parameters nor devices."""
    if has_roles:
        elements = plural(tensors.parameter_elements, "element")
        yield "parameters", f"{plural(tensors.parameters, 'tensor')}, {elements}"
    yield "tensors", totals_text(tensors)
    yield "dtypes", _counts(tensors.dtypes)
    if has_roles:
        yield "devices", _counts(tensors.devices)


def _counts(counts: Mapping[str, int], shown: int | None = None) -> str:
    """``aten::conv2d 20, aten::relu 17 and 3 more``, largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{name} {count:,}" for name, count in ordered]
    return listed(texts, len(texts) if shown is None else shown) or "none"
