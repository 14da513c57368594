"""Inspection of a file of ExecuTorch: listings of methods, tensors, a tree, required operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from types import MappingProxyType
from typing import Final, NoReturn

from tsarchive.describing.contents import (
    Facts,
    GroupFacts,
    ModuleInfo,
    Needs,
    StorageInfo,
    TensorInfo,
)
from tsarchive.describing.executorch import ExecutorchFacts, MethodFacts
from tsarchive.describing.text import plural
from tsarchive.errors import UnsupportedError
from tsarchive.formats.base import OpenedArchive, View, tensor_facts
from tsarchive.formats.records import RecordTable

from .content import RECORD, BundledProgram, BundledTensor, DataFile, Entry, Program, Suite
from .header import no_zip
from .methods import (
    MAX_RANK,
    BoolList,
    Chain,
    DelegateCall,
    DoubleList,
    Free,
    IndexList,
    Instruction,
    IntList,
    JumpFalse,
    KernelCall,
    Layout,
    Method,
    Move,
    OptionalTensorList,
    Shape,
    Tensor,
    TensorList,
    Value,
    item_at,
)
from .regions import Regions

_LONGEST_TEXT: Final = 200


class Listings(Mapping[str, str]):
    """A listing of each method, made on access.

    ``program`` is called each time: it ensures that the file is still the one that was opened.
    """

    def __init__(self, program: Callable[[], Program], *, sources: bool) -> None:
        self._program = program
        self._sources = sources

    def __getitem__(self, name: str) -> str:
        program = self._program()
        if name not in program.indices:
            raise KeyError(name)
        return listing(program, program.method(name), sources=self._sources)

    def __iter__(self) -> Iterator[str]:
        return iter(self._program().indices)

    def __len__(self) -> int:
        return len(self._program().indices)


def listing(program: Program, method: Method, *, sources: bool = False) -> str:
    """List a method, one item a line, including malformed ones as they are.

    ``%3`` is value number 3. With ``sources``, lines of user source precede the instructions that
    come from them.
    """
    lines = [*_head(method), *_values(program, method), *_chains(method, sources)]
    return "".join(f"{line}\n" for line in lines)


def plain(text: str) -> str:
    """Escape what is not printable, so that a text of the file takes one line."""
    return text if text.isprintable() else ascii(text)[1:-1]


def signature(method: Method) -> str:
    """Return the signature: ``forward(float32[2, 4]) -> float32[2, 3]``."""
    inputs, outputs = (_types(method, indices) for indices in (method.inputs, method.outputs))
    result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return f"{plain(method.name)}({', '.join(inputs)}) -> {result}"


def _types(method: Method, indices: Iterable[int]) -> list[str]:
    known = range(len(method.values))
    return [type_text(method.values[index]) if index in known else "?" for index in indices]


def type_text(value: Value) -> str:
    """Return the type as text: ``float32[<=16, 4]`` (the first size is a bound), ``int``."""
    match value:
        case None:
            return "None"
        case Tensor():
            return f"{value.dtype}[{', '.join(_sizes(value))}]"
        case bool() | int() | float() | str():
            return type(value).__name__
    return _LIST_TYPES[type(value)]


_LIST_TYPES: Final[Mapping[type, str]] = {
    IntList: "int[]", DoubleList: "float[]", BoolList: "bool[]", TensorList: "Tensor[]",
    OptionalTensorList: "Tensor?[]",
}  # fmt: skip


def _sizes(tensor: Tensor) -> Iterator[str]:
    """Yield sizes; those of a dynamic tensor are all bounds."""
    if len(tensor.sizes) > MAX_RANK:
        return iter((f"{len(tensor.sizes):,} sizes",))
    if tensor.dynamism == Shape.DYNAMIC_UNBOUND:
        return ("?" for _ in tensor.sizes)
    bound = "<=" if tensor.dynamism == Shape.DYNAMIC_BOUND else ""
    return (f"{bound}{size}" for size in tensor.sizes)


def _head(method: Method) -> Iterator[str]:
    yield f"method {signature(method)}"
    if method.input_nesting:
        yield f"  nested inputs: {plain(method.input_nesting)}"
    if method.output_nesting:
        yield f"  nested outputs: {plain(method.output_nesting)}"
    for number, size in enumerate(method.arenas[1:], 1):
        yield f"  arena {number}: {size:,} bytes"
    for number, delegate in enumerate(method.delegates):
        where = "delegates" if delegate.is_inline else "segments"
        yield f"  delegate {number}: {plain(delegate.backend)}, program in {where}/{delegate.index}"
        yield from (f"    {plain(key)}: {len(value):,} bytes" for key, value in delegate.options)
    yield f"  inputs: {_references(method.inputs)}"
    yield f"  outputs: {_references(method.outputs)}"


def _references(indices: Iterable[int]) -> str:
    return ", ".join(f"%{index}" for index in indices) or "none"


def _values(program: Program, method: Method) -> Iterator[str]:
    yield "values:"
    for index, value in enumerate(method.values):
        yield f"  %{index}: {type_text(value)}{_content(program, value)}"


def _content(program: Program, value: Value) -> str:
    match value:
        case None:
            return ""
        case Tensor():
            return "".join(f", {part}" for part in _tensor_parts(program, value))
        case str():
            shown = value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}..."
            return f" = {shown!r}"
        case bool() | int() | float():
            return f" = {value!r}"
        case IndexList():
            return f" = [{', '.join(_reference(index) for index in value.items)}]"
    return f" = {list(value.items)!r}"


def _reference(index: int) -> str:
    return "None" if index < 0 else f"%{index}"


def _tensor_parts(program: Program, tensor: Tensor) -> Iterator[str]:
    if tensor.name is not None:
        yield repr(tensor.name)
    if len(tensor.dim_order) <= MAX_RANK and list(tensor.dim_order) != sorted(tensor.dim_order):
        yield f"order of dimensions {list(tensor.dim_order)}"
    if tensor.is_external:
        yield "in a data file"
    elif tensor.data_index:
        yield f"{_place(program, tensor)}, {tensor.nbytes:,} bytes"
    if tensor.allocation is not None:
        arena, offset = tensor.allocation.arena, tensor.allocation.offset
        yield f"arena {arena} at {offset:,}, {tensor.nbytes:,} bytes"
    elif not tensor.has_data:
        yield "given when it is run"


def _place(program: Program, tensor: Tensor) -> str:
    """Return the location of the initial bytes of a tensor: ``segments/0 at 16``."""
    record, offset = program.place_of(tensor)
    if record == "data":
        return f"data {tensor.data_index}, which is nowhere"
    if record.startswith("constants/"):
        return record
    return f"{record} at an unknown place" if offset is None else f"{record} at {offset:,}"


def _chains(method: Method, sources: bool) -> Iterator[str]:
    for number, chain in enumerate(method.chains):
        suffix = f" of chain {number}" if len(method.chains) > 1 else ""
        yield f"instructions{suffix}:"
        for index, instruction in enumerate(chain.instructions):
            if sources:
                yield from _frames(chain, index)
            yield f"  {index}: {instruction_text(method, instruction)}"


def _frames(chain: Chain, index: int) -> Iterator[str]:
    if index < len(chain.frames):
        for frame in chain.frames[index]:
            place = f"{frame.file}:{frame.line} in {frame.function}: {frame.context.strip()}"
            yield f"  # {plain(place)}"


def instruction_text(method: Method, instruction: Instruction) -> str:
    """Return an instruction as text: ``aten::add.out(%0, %1, %2, %3, %3)``."""
    match instruction:
        case KernelCall(number, args):
            operator = item_at(method.operators, number)
            name = f"operator {number}, not listed"
            if operator is not None:
                name = plain(operator.qualified_name)
            return f"{name}({_references(args) if args else ''})"
        case DelegateCall(number, args):
            delegate = item_at(method.delegates, number)
            backend = "not listed" if delegate is None else plain(delegate.backend)
            return f"delegate {number} ({backend})({_references(args) if args else ''})"
        case Move(source, target):
            return f"%{target} = %{source}"
        case JumpFalse(condition, destination):
            return f"if not %{condition}: go to {destination}"
        case Free(value):
            return f"free %{value}"


EXTERNAL: Final = "external:"
"""Precedes the key of a tensor whose bytes are in a data file, in place of a record name."""
OPERATOR: Final = "operator"
DELEGATE: Final = "delegate"
METHOD: Final = "method"
SUITE: Final = "test suite"

OWN_NAMESPACES: Final = frozenset({"dim_order_ops", "executorch_prim"})
"""Namespaces of operators that belong to the runtime itself."""

_Named = tuple[str, TensorInfo]


class ExecutorchView(View):
    """The parts of an opened file, each read on demand.

    All of them raise FormatError and LimitError where the file breaks a rule.
    """

    has_listings = True
    methods_record: str | None = RECORD

    def __init__(self, regions: Regions) -> None:
        self.regions = regions

    @property
    def program(self) -> Program | None:
        """The program, also that in a bundle; None for data files."""
        return self.regions.program

    @property
    def format_version(self) -> int:
        """The version in the root table: 0 in every program and data file so far."""
        return self.regions.content.version

    @property
    def code(self) -> Mapping[str, str]:
        """A listing of each method by its name; empty for data files."""
        return self._listings(sources=False)

    @property
    def sourced_code(self) -> Mapping[str, str]:
        """Listings with lines of user source, where the file has them."""
        return self._listings(sources=True)

    def require_code(self) -> None:
        """Raise UnsupportedError for data files."""
        if self.program is None:
            raise UnsupportedError(
                "a data file has no code", hint="'tsarchive tensors' lists its data"
            )

    def _listings(self, *, sources: bool) -> Mapping[str, str]:
        if self.program is None:
            return MappingProxyType({})
        return Listings(self.regions.require_program, sources=sources)

    def operators(self) -> dict[str, int]:
        """Return the number of calls of each operator, by name with overload."""
        methods = () if self.program is None else self.program.methods
        return dict(Counter(name for method in methods for name in called(method)))

    def needs(self) -> Needs:
        """Return the operators, without overload, that not every runtime has built in."""
        found: Counter[str] = Counter()
        for name, count in self.operators().items():
            if name.partition("::")[0] not in OWN_NAMESPACES:
                found[name.partition(".")[0]] += count
        return Needs(dict(found), ())

    def refuse(self) -> NoReturn:
        raise no_zip(self.regions.kind)

    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        assert info.storage is not None
        return self.regions.view(info.storage)[info.offset :]

    def tensors(self) -> Iterator[_Named]:
        """Yield every tensor that has bytes in the file or in a data file, by its name.

        Unnamed ones are named after their method and value number: ``forward.3``.
        """
        content = self.regions.content
        if isinstance(content, DataFile):
            for key, entry in content.by_key.items():
                if entry.layout is not None:
                    yield key, _info(entry.layout, f"segments/{entry.segment}", entry.offset)
            return
        program = self.program
        if program is not None:
            yield from _of_program(program)
        if isinstance(content, BundledProgram):
            for name, tensor in content.tensors():
                yield name, _info(tensor, name, 0)

    def tree(self) -> ModuleInfo:
        """Return methods, with the operators and delegates that each calls, and calls of a bundle.

        Of a data file, its entries.
        """
        content = self.regions.content
        if isinstance(content, DataFile):
            children = tuple(_entry(content, entry) for entry in content.by_key.values())
            return ModuleInfo("", "data file", (), 0, 0, children)
        program = self.program
        assert program is not None
        methods = tuple(_method(program, method) for method in program.methods)
        if isinstance(content, BundledProgram):
            suites = tuple(map(_suite, content.test_suites))
            return ModuleInfo("", "bundled program", (), 0, 0, methods + suites)
        return ModuleInfo("", "program", (), 0, 0, methods)


def called(method: Method) -> Iterator[str]:
    """Yield the operator of each kernel call, by name with overload."""
    names = [operator.qualified_name for operator in method.operators]
    for instruction in method.instructions:
        if isinstance(instruction, KernelCall) and 0 <= instruction.operator < len(names):
            yield names[instruction.operator]


def _of_program(program: Program) -> Iterator[_Named]:
    """Yield tensors; a named one appears once even if methods share it."""
    named: dict[str, TensorInfo] = {}
    for method in program.methods:
        for index, tensor in method.stored_tensors:
            info = _stored(program, tensor)
            name = tensor.name or f"{method.name}.{index}"
            if named.setdefault(name, info) != info:
                name = f"{method.name}.{index}"
                named[name] = info
    yield from named.items()


def _stored(program: Program, tensor: Tensor) -> TensorInfo:
    is_buffer = tensor.allocation is not None
    if tensor.is_external:
        return _info(tensor, f"{EXTERNAL}{tensor.name or ''}", None, is_buffer=is_buffer)
    record, offset = program.place_of(tensor)
    return _info(tensor, f"{program.prefix}{record}", offset, is_buffer=is_buffer)


def _info(
    found: Layout, storage: str, offset: int | None, *, is_buffer: bool = False
) -> TensorInfo:
    """Describe a tensor; ``offset`` is None for one whose bytes are in a data file."""
    nbytes = 0 if offset is None else found.nbytes
    return TensorInfo(
        dtype=found.dtype,
        shape=found.sizes,
        strides=found.strides,
        storage=storage,
        nbytes=found.nbytes,
        role="buffer" if is_buffer else "attribute",
        storages=(StorageInfo(storage, offset or 0, nbytes),),
        offset=offset,
    )


def _entry(found: DataFile, entry: Entry) -> ModuleInfo:
    nbytes, layout = found.entry_place(entry).size, entry.layout
    if layout is None:
        return ModuleInfo(entry.key, "bytes", (), 0, nbytes, ())
    text = f"{layout.dtype}[{', '.join(map(str, layout.sizes))}]"
    return ModuleInfo(entry.key, text, (), prod(layout.sizes), nbytes, ())


def _method(program: Program, method: Method) -> ModuleInfo:
    stored = [tensor for _, tensor in method.stored_tensors]
    return ModuleInfo(
        method.name,
        METHOD,
        (signature(method),),
        sum(prod(tensor.sizes) for tensor in stored if tensor.nbytes),
        sum(tensor.nbytes for tensor in stored),
        (*_operators(method), *_delegates(program, method)),
    )


def _operators(method: Method) -> Iterator[ModuleInfo]:
    for name, count in Counter(called(method)).items():
        yield ModuleInfo(name, OPERATOR, (plural(count, "call"),), 0, 0, ())


def _delegates(program: Program, method: Method) -> Iterator[ModuleInfo]:
    calls = Counter(
        instruction.delegate
        for instruction in method.instructions
        if isinstance(instruction, DelegateCall)
    )
    for number, delegate in enumerate(method.delegates):
        nbytes = program.delegate_place(delegate).size
        yield ModuleInfo(
            delegate.backend, DELEGATE, (plural(calls[number], "call"),), 0, nbytes, ()
        )


def _suite(suite: Suite) -> ModuleInfo:
    tensors = [
        value
        for case in suite.cases
        for value in (*case.inputs, *case.expected_outputs)
        if isinstance(value, BundledTensor)
    ]
    nbytes = sum(len(tensor.data) for tensor in tensors)
    return ModuleInfo(suite.method, SUITE, (plural(len(suite.cases), "call"),), 0, nbytes, ())


def executorch_facts(archive: OpenedArchive, file: str, nbytes: int, table: RecordTable) -> Facts:
    """Describe a file of this name and size. Raises ArchiveError where it breaks a rule."""
    return Facts(
        file=file,
        nbytes=nbytes,
        kind=archive.kind,
        format_version=archive.format_version,
        root="",
        byte_order="little",
        serialization_id=None,
        compression={},
        groups=_groups(archive, table),
        program=None,
        exported=None,
        tensors=tensor_facts(archive),
        executorch=_facts(archive),
    )


def _facts(archive: OpenedArchive) -> ExecutorchFacts:
    view = archive.view
    assert isinstance(view, ExecutorchView)
    content, program = view.regions.content, view.program
    found = content.program if isinstance(content, BundledProgram) else content
    suites = content.test_suites if isinstance(content, BundledProgram) else ()
    methods = tuple(_method_facts(program, one) for one in program.methods) if program else ()
    return ExecutorchFacts(
        header_nbytes=found.header.length if found.header else None,
        is_data_of_06=isinstance(content, DataFile) and content.is_of_06,
        methods=methods,
        named_data=tuple(entry.key for entry in found.entries),
        external=program.external_names if program else (),
        test_cases=dict(Counter({suite.method: len(suite.cases) for suite in suites})),
    )


def _method_facts(program: Program, method: Method) -> MethodFacts:
    backends: Counter[str] = Counter()
    for delegate in method.delegates:
        backends[delegate.backend] += program.delegate_place(delegate).size
    return MethodFacts(
        name=method.name,
        signature=signature(method),
        values=len(method.values),
        instructions=sum(len(chain.instructions) for chain in method.chains),
        operators=dict(Counter(called(method))),
        delegates=dict(backends),
        arenas=method.arenas[1:],
    )


def _groups(archive: OpenedArchive, table: RecordTable) -> dict[str, GroupFacts]:
    groups: dict[str, GroupFacts] = {}
    for name, record in archive.records.items():
        group = table.role(name).described
        if group:
            groups.setdefault(group, GroupFacts()).add(record.size, record.size)
    return groups
