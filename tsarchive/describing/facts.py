"""The facts about a file that the commands show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .contents import TensorTotals


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
    classes. ``needs`` are those of both that do not come with torch, each with what to do.
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
