"""Loading, saving, copying and pickling of ExecuTorch programs as modules; data files beside them.

A pickle holds the bytes of the arenas and the constants; the planned tensors are created again.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import torch

import tsarchive.formats.executorch.modules.natives  # noqa: F401  # importing them enters them into the table
from tsarchive.container.opening import open_source
from tsarchive.errors import (
    ArchiveError,
    CallError,
    FormatError,
    MissingRecordError,
    PolicyError,
    SaveError,
    UnknownOperatorError,
    UnsupportedError,
)
from tsarchive.findings import require_whole
from tsarchive.formats.executorch.content import RECORD, DataFile, Entry, Program
from tsarchive.formats.executorch.draft import Draft
from tsarchive.formats.executorch.header import PTD, kind_of
from tsarchive.formats.executorch.methods import Method, Tensor
from tsarchive.formats.executorch.regions import Regions, opened_regions
from tsarchive.formats.executorch.schema import require_known
from tsarchive.formats.executorch.verification import content_findings
from tsarchive.ir.classes import Attribute, ClassType, Function
from tsarchive.ir.graph import Block
from tsarchive.ir.types import BOOL, NONE, TENSOR
from tsarchive.policy import Guard
from tsarchive.run.calls_from_python import public_by
from tsarchive.run.classes import Classes
from tsarchive.run.copying import ClassReference, deep_copy
from tsarchive.run.objects import new_object
from tsarchive.run.operators import operator_schemas
from tsarchive.run.slots import get_slot, set_slot

from .calling_convention import MEMORY, Convention, ProgramMethod, result_of, with_lock
from .memory import Layout, Memory, layout_of, load_from_state_dict, tensor_over
from .method_graphs import NUMBERS, MethodGraph, function_of

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule


def deepcopy_program(module: Any, memo: dict[int, Any]) -> Any:
    """Implement ``__deepcopy__`` of a program."""
    memory: Memory = module.__dict__[MEMORY]
    with memory.lock:
        memo[id(memory)] = memory.copied(memo)
        return deep_copy(module, memo)


def reduce_program(module: Any, _protocol: int) -> Any:
    """Implement ``__reduce_ex__`` of a program."""
    memory: Memory = module.__dict__[MEMORY]
    with memory.lock:
        planned = {id(tensor) for tensor in memory.tensors}
        buffers = {n: t for n, t in module._buffers.items() if id(t) not in planned}
        class_: Any = type(module)
        state = memory.contents(), buffers, class_.tsarchive_importer.kept(module)
        return _revived, (class_.tsarchive_reference, module.training, *state)


def _revived(
    reference: ClassReference | type,
    training: bool,
    contents: list[bytes],
    buffers: dict[str, Any],
    kept: dict[str, Any],
) -> Any:
    class_: Any = reference.class_ if isinstance(reference, ClassReference) else reference
    importer = class_.tsarchive_importer
    memory = Memory(importer.layout)
    memory.fill(contents)
    found = {
        name: memory.tensors[content] if isinstance(content, int) else None
        for name, content in importer.layout.buffers.items()
    }
    made = importer.built(memory, {**found, **buffers}, kept)
    made.training = training
    return made


CLASS: Final = "__torch__.executorch.Program"
TRAINING: Final = Attribute("training", BOOL)


class ProgramImporter(ABC):
    """Loads the program of a ``.pte`` or ``.bpte`` as a module of one class.

    Raises FormatError and LimitError where the file breaks a rule, UnsupportedError for data files.
    """

    def __init__(self, regions: Regions, guard: Guard, data: Data | None) -> None:
        self.container: Any = regions
        self.program: Program = regions.require_program()
        self.classes = Classes(regions, guard)
        self.code = self
        self._data = Data() if data is None else data
        self.type = self._class()

    def find(self, qualified_name: str) -> ClassType | None:
        """Return the only class."""
        return self.type if qualified_name == CLASS else None

    def _class(self) -> ClassType:
        """Return the class, the Python class of which takes arguments as programs do."""
        made = ClassType(CLASS, is_module=True)
        _add_attribute(made, TRAINING)
        self._fill(made)
        class_ = self.classes.table.python_class(made)
        for method in self.program.reachable_methods:
            if method.name in vars(class_):
                function = made.methods[method.name]
                build = partial(self._public, method, function)
                ProgramMethod(function, self.classes.compiler, build).place(class_, method.name)
        return made

    @abstractmethod
    def _fill(self, made: ClassType) -> None:
        """Add the attributes and methods of the program to its class."""

    @abstractmethod
    def _public(self, method: Method, function: Function) -> Callable[..., Any]:
        """Return a method for callers in Python."""

    @abstractmethod
    def load(self) -> ArchiveModule:
        """Return the module."""


class PteImporter(ProgramImporter):
    """Loads a program as graphs; its tensors are views of the mapped file."""

    def __init__(self, regions: Regions, guard: Guard, data: Data | None) -> None:
        self._graphs: dict[str, MethodGraph] = {}
        self._constants: dict[str, torch.Tensor] = {}
        super().__init__(regions, guard, data)

    @cached_property
    def layout(self) -> Layout:
        """The layout of all tensors of the program."""
        return layout_of(self.program)

    def _class(self) -> ClassType:
        made = super()._class()
        class_ = self.classes.table.python_class(made)
        class_.tsarchive_importer = self
        class_.__deepcopy__ = deepcopy_program
        class_.__reduce_ex__ = reduce_program
        class_._load_from_state_dict = load_from_state_dict
        return made

    def _fill(self, made: ClassType) -> None:
        for name in self.layout.buffers:
            _add_attribute(made, Attribute(name, TENSOR, is_buffer=True))
        for method in self.program.reachable_methods:
            self._add(made, method)

    def _add(self, made: ClassType, method: Method) -> None:
        names = self.layout.methods[method.name]
        try:
            graph = MethodGraph(
                method, names, made, operator_schemas, self.classes.enforcement.guard.policy
            )
        except (PolicyError, UnsupportedError, UnknownOperatorError) as error:
            made.methods[method.name] = failing_method(made, method, error)
            return
        self._graphs[method.name] = graph
        for found in graph.attributes():
            _add_attribute(made, found)
        made.methods[method.name] = graph.function()

    def _public(self, method: Method, function: Function) -> Callable[..., Any]:
        compiler = self.classes.compiler
        convention = Convention(method, function, compiler)
        call = public_by(function, compiler, convention, result_of(method))
        return with_lock(call, Memory.check_buffers)

    def load(self) -> ArchiveModule:
        """Return the module, its memory initialized from the file.

        Raises MissingRecordError for a tensor that is in no data file, LimitError for a plan that
        exceeds the available memory.
        """
        metering = self.classes.enforcement.metering
        if metering is not None:
            metering.budgets.allocate(sum(self.layout.arenas))
        memory = Memory(self.layout)
        buffers: dict[str, Any] = {}
        for name, content in self.layout.buffers.items():
            if isinstance(content, Tensor):
                buffers[name] = self._constants[name] = self._constant(content)
            else:
                buffers[name] = memory.tensors[content]
                planned = self.layout.places[content].tensor
                if planned.has_data:
                    buffers[name].copy_(self._constant(planned))
        return self.built(memory, buffers)  # type: ignore[no-any-return]

    def kept(self, module: Any) -> dict[str, Any]:
        """Return the numbers that calls left in a module for later ones."""
        slots = [found for graph in self._graphs.values() for found in graph.attributes()]
        return {slot.name: get_slot(module, slot) for slot in slots if slot.type in NUMBERS}

    def built(
        self, memory: Memory, buffers: Mapping[str, Any], kept: Mapping[str, Any] | None = None
    ) -> Any:
        """Build a module with this memory; ``kept`` are numbers that calls left in another one."""
        made = new_object(self.classes.table.python_class(self.type))
        made.__dict__[MEMORY] = memory
        slots = self.type.attributes
        set_slot(made, slots[TRAINING.name], False)
        for name, tensor in buffers.items():
            set_slot(made, slots[name], tensor)
        for graph in self._graphs.values():
            self._set_up(made, graph, memory, buffers)
        for name, value in (kept or {}).items():
            set_slot(made, slots[name], value)
        return made

    def _set_up(
        self, made: Any, graph: MethodGraph, memory: Memory, buffers: Mapping[str, Any]
    ) -> None:
        slots, names = self.type.attributes, self.layout.methods[graph.method.name]
        tensors = {index: memory.tensors[place] for index, place in names.planned.items()}
        set_slot(made, slots[names.tensors], list(tensors.values()))
        for index in graph.slots.kept:
            value: Any = graph.slots.initial(index)
            if isinstance(value, Tensor):
                constant = names.constants.get(index)
                value = tensors[index] if constant is None else buffers[constant]
            set_slot(made, slots[names.kept(index)], value)

    def _constant(self, tensor: Tensor) -> torch.Tensor:
        return tensor_over(self.bytes_of(tensor), tensor)

    def is_written_to(self, name: str) -> bool:
        """Return whether a constant was modified in the map of its file."""
        found = self._constants.get(name)
        return found is not None and found._version > 0

    def bytes_of(self, tensor: Tensor) -> memoryview:
        """Return the initial bytes of a tensor, from the file or a data file."""
        if tensor.is_external:
            return self._data.bytes_of(tensor)
        found = self.program.initial_data(tensor)
        return memoryview(b"") if found is None else found


def _add_attribute(owner: ClassType, attribute: Attribute) -> None:
    if attribute.name in owner.attributes:
        message = f"{attribute.name[:200]!r} stands for two things"
        raise FormatError(message, record=RECORD)
    owner.attributes[attribute.name] = attribute


def failing_method(owner: ClassType, method: Method, error: ArchiveError) -> Function:
    """Return a method that raises ``error`` when called."""

    def define() -> Block:
        raise error.with_traceback(None)

    return function_of(owner, method, NONE, define)


def save_program(
    module: Any, f: str | os.PathLike[str] | BinaryIO, extra_files: Mapping[str, bytes]
) -> None:
    """Write the file that ``module`` was loaded from; byte for byte where nothing changed.

    Constants and initial values are the module's present ones. Memory without initial values in the
    file is not saved. Raises SaveError for extra files, which the format cannot hold, for a broken
    program, for a buffer of another shape or dtype, and for a changed buffer that is in a data
    file, which is not written.
    """
    if extra_files:
        raise SaveError("files of ExecuTorch have no place for extra files")
    regions = module.tsarchive_classes.container
    require_whole(content_findings(regions.content))
    draft = Draft.of(regions)
    importer = getattr(type(module), "tsarchive_importer", None)
    if importer is not None:  # programs with backends have no buffers
        with module.__dict__[MEMORY].lock:
            _update(draft, importer, module)
    draft.write(f)


def _update(draft: Draft, importer: PteImporter, module: Any) -> None:
    for place, tensor, buffer in _stored(importer):
        content = _content(buffer, tensor, module._buffers.get(buffer))
        is_lost = tensor.is_external and importer.is_written_to(buffer)
        if content == importer.bytes_of(tensor) and not is_lost:
            continue
        if tensor.is_external:
            raise SaveError(
                f"{buffer!r} changed, and its bytes are in a data file, which is not written",
                hint="tsarchive.executorch.Draft edits data files",
            )
        # Methods may each have their own bytes under one name; drafts name the others by place.
        name = place if place in draft.tensors else tensor.name
        draft.replace(str(name), content)


def _stored(importer: PteImporter) -> Iterator[tuple[str, Tensor, str]]:
    """Yield each value with initial bytes, its place, and the buffer that holds it."""
    layout = importer.layout
    planned = {found: name for name, found in layout.buffers.items() if isinstance(found, int)}
    for method in importer.program.reachable_methods:
        for number, value in method.stored_tensors:
            names = layout.methods[method.name]
            buffer = names.constants.get(number) or planned[names.planned[number]]
            yield f"{method.name}.{number}", value, buffer


def _content(name: str, described: Tensor, found: Any) -> bytes:
    """Return the bytes of a buffer in the file's element order."""
    dtype = getattr(torch, described.dtype)
    if not isinstance(found, torch.Tensor):
        raise SaveError(f"the buffer {name!r} is {type(found).__name__}, not a tensor")
    if tuple(found.shape) != described.sizes or found.dtype is not dtype:
        shape = tuple(found.shape)
        raise SaveError(
            f"{name!r} is now of shape {shape} and {found.dtype}; the program was made for "
            f"{described.sizes} and {dtype}",
            hint="Convert the changed model",
        )
    if not found.numel():
        return b""
    laid = torch.empty_strided(described.sizes, described.strides, dtype=dtype)
    laid.copy_(found.detach())
    flat = laid.as_strided((laid.numel(),), (1,)).view(torch.uint8)
    return flat.numpy().tobytes()


DataSource: TypeAlias = str | os.PathLike[str] | BinaryIO


class Data:
    """The data files of a program, searched in order."""

    def __init__(self, files: Iterable[DataFile] = ()) -> None:
        self.files = tuple(files)

    def bytes_of(self, tensor: Tensor) -> memoryview:
        """Return the bytes of a tensor, not copied.

        Raises MissingRecordError when no file has its name, FormatError for one of another layout.
        """
        key = tensor.name or ""
        file, entry = self._find(key)
        found = entry.layout
        wanted = tensor.scalar_type, tensor.sizes, tensor.dim_order
        if found is None or (found.scalar_type, found.sizes, found.dim_order) != wanted:
            shown = "bytes" if found is None else f"{found.dtype}{list(found.sizes)}"
            raise FormatError(
                f"{key!r} is {shown} in the data file, and {tensor.dtype}{list(tensor.sizes)} "
                "in the program", record=f"named_data/{key}",
            )  # fmt: skip
        return file.data_of(entry)

    def bytes_by_name(self, key: str) -> memoryview:
        """Return the bytes under a key. Raises MissingRecordError if there are none."""
        file, entry = self._find(key)
        return file.data_of(entry)

    def _find(self, key: str) -> tuple[DataFile, Entry]:
        for file in self.files:
            if key in file.by_key:
                return file, file.by_key[key]
        if self.files:
            message = f"the tensor {key!r} of the program is in none of the data files"
            hint = "The file that was written beside this program has it"
        else:
            message = f"the tensor {key!r} of the program is in a data file"
            hint = 'Give the file: load("model.pte", data="model.ptd"), --data model.ptd'
        raise MissingRecordError(message, record=f"named_data/{key}", hint=hint)


def opened_data(data: DataSource | Sequence[DataSource] | None) -> Data:
    """Open one or several data files.

    Raises CallError for anything else, UnsupportedError for a later version, and what opening
    raises.
    """
    if data is None:
        return Data()
    sources = data if isinstance(data, (list, tuple)) else (data,)
    return Data(map(_opened, sources))


def _opened(source: DataSource) -> DataFile:
    opened = open_source(source)
    opened.fetch_all()
    kind = kind_of(opened.piece(0, 8))
    if kind != PTD:
        opened.close()
        what = "another file" if kind is None else f"a {kind} file"
        raise CallError(f"data should be a data file of ExecuTorch (.ptd), and is {what}")
    content = opened_regions(opened, kind).content
    assert isinstance(content, DataFile)
    require_known(content.version, "tables")
    return content
