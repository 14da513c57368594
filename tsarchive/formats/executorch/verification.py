"""Checks of ExecuTorch files: all that the runtime checks, and what it does not.

The runtime follows tables of a data file unchecked. When it loads a method, it checks indices
alone: it takes a jump to anywhere, ends an endless loop after ten million instructions, and lets an
operator overwrite its inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain as chained
from typing import Final, NamedTuple

from tsarchive.container.diagnosis import changed_on_the_way, file_at, two_in_one
from tsarchive.container.remains import Data
from tsarchive.container.source import Source, lent
from tsarchive.describing.contents import totals_of
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Findings, Nature, Severity, broken, fault
from tsarchive.formats.executorch.schema import version_problem
from tsarchive.formats.requests import VerifyReport
from tsarchive.ir.graph import closure
from tsarchive.steps import Step

from .content import BUNDLE, BundledProgram, Content, DataFile, Entry, Program, SegmentedFile, Suite
from .methods import (
    NO_TENSOR,
    DelegateCall,
    Free,
    IndexList,
    Instruction,
    IntList,
    JumpFalse,
    KernelCall,
    Method,
    Move,
    OptionalTensorList,
    Shape,
    Span,
    Tensor,
    TensorList,
    Value,
    item_at,
)
from .regions import Regions, find_unclaimed, opened_regions
from .view import ExecutorchView, type_text

_BOOL: Final = 11
_TABLE_RULE: Final = "executorch-table"
# How many pairs of tensors are compared; calls of real programs have few arguments.
_PAIRS_ALWAYS: Final = 1_000_000
_PAIRS_PER_CALL: Final = 100


class Fault(NamedTuple):
    rule: str
    message: str
    severity: Severity = Severity.ERROR


def flow_faults(method: Method) -> Iterator[Fault]:
    """Yield all that is wrong with the instructions of a method."""
    if not method.chains:
        yield Fault("executorch-chain", "it has no chain of instructions")
    fixed, given = _fixed_bools(method), frozenset(method.written_values)
    overlaps = _Overlaps(method)
    for number, chain in enumerate(method.chains):
        where = f"instruction {number}." if len(method.chains) > 1 else "instruction "
        for index, instruction in enumerate(chain.instructions):
            faults = _instruction(method, instruction, given, len(chain.instructions))
            for rule, message, severity in faults:
                yield Fault(rule, f"{where}{index} {message}", severity)
            for message in overlaps.of(instruction):
                text = f"{where}{index} {message}"
                yield Fault("executorch-overlap", text, Severity.WARNING)
        yield from _endless(chain.instructions, fixed, where)


def _instruction(
    method: Method, instruction: Instruction, given: frozenset[int], end: int
) -> Iterator[Fault]:
    """Yield what is wrong with an instruction of a chain of ``end`` instructions."""
    match instruction:
        case KernelCall(operator, args):
            yield from _in_range("operator", operator, len(method.operators))
            yield from _arguments(method, args)
        case DelegateCall(delegate, args):
            yield from _in_range("delegate", delegate, len(method.delegates))
            yield from _arguments(method, args)
        case Move(source, target):
            yield from _arguments(method, (source, target))
        case JumpFalse(condition, target):
            yield from _condition(method, condition, given)
            if not 0 <= target <= end:
                yield Fault("executorch-jump", f"jumps to {target}, behind the end of the chain")
        case Free(value):
            yield from _arguments(method, (value,))
            if not isinstance(item_at(method.values, value), Tensor):
                yield Fault("executorch-kind", f"frees value {value}, which is no tensor")


def _arguments(method: Method, args: tuple[int, ...]) -> Iterator[Fault]:
    for arg in args:
        yield from _in_range("value", arg, len(method.values))


def _in_range(what: str, index: int, count: int) -> Iterator[Fault]:
    if not 0 <= index < count:
        yield Fault("executorch-index", f"uses {what} {index}, which is not there")


def _condition(method: Method, index: int, given: frozenset[int]) -> Iterator[Fault]:
    yield from _arguments(method, (index,))
    value = item_at(method.values, index)
    is_condition = isinstance(value, Tensor) and value.scalar_type == _BOOL
    # Writers put an integer, or nothing, where a comparison of sizes will be.
    is_set = index in given and (value is None or isinstance(value, int))
    if not (is_condition or is_set or isinstance(value, bool)):
        yield Fault("executorch-kind", f"jumps by value {index}, which is {type_text(value)}")


class _Overlaps:
    """Finds outputs that partly overlap inputs. Those in the same place are meant to be there."""

    def __init__(self, method: Method) -> None:
        self._method = method
        calls = sum(1 for _ in method.instructions)
        self._left = _PAIRS_ALWAYS + _PAIRS_PER_CALL * calls

    def of(self, instruction: Instruction) -> Iterator[str]:
        """Yield the overlaps of a call. Lists that many calls name are checked in the first."""
        if not isinstance(instruction, KernelCall):
            return
        args, results = set(instruction.args[:-1]), instruction.args[-1:]
        self._left -= (self._count(results) + 1) * (self._count(args) + 1)
        if self._left >= 0:
            yield from self._pairs(args, results)

    def _pairs(self, args: Iterable[int], results: Iterable[int]) -> Iterator[str]:
        outputs = dict(self._planned(results))
        inputs = {i: span for i, span in self._planned(args) if i not in outputs}
        for index, written in outputs.items():
            for other, read in inputs.items():
                if written.meets(read) and written.start != read.start:
                    yield f"writes value {index} into the memory of value {other}, which it reads"

    def _count(self, indices: Iterable[int]) -> int:
        values = (item_at(self._method.values, index) for index in indices)
        return sum(len(v.items) if isinstance(v, TensorList) else 1 for v in values)

    def _planned(self, indices: Iterable[int]) -> Iterator[tuple[int, Span]]:
        """Yield the tensors among values, in lists as well, that have bytes in the memory plan."""
        for index in indices:
            value = item_at(self._method.values, index)
            for item in value.items if isinstance(value, TensorList) else (index,):
                tensor = item_at(self._method.values, item)
                span = tensor.span if isinstance(tensor, Tensor) else None
                if span is not None and span.start < span.end:
                    yield item, span


def _endless(
    instructions: tuple[Instruction, ...], fixed: dict[int, bool], where: str
) -> Iterator[Fault]:
    """Yield a fault where instructions can be reached from which no way leads to the end."""
    ways = [_ways(index, instruction, fixed) for index, instruction in enumerate(instructions)]
    end = len(instructions)
    back: list[list[int]] = [[] for _ in range(end + 1)]
    for index, targets in enumerate(ways):
        for target in targets:
            back[target if 0 <= target < end else end].append(index)
    ending = closure([end], back.__getitem__)

    def following(index: int) -> list[int]:
        return [target for target in ways[index] if target >= 0] if index < end else []

    stuck = sorted(i for i in closure([0], following) if i < end and i not in ending)
    if stuck:
        severity = Severity.ERROR if 0 in stuck else Severity.WARNING
        message = f"{where}{stuck[0]} never comes to an end"
        yield Fault("executorch-endless", message, severity)


def _ways(index: int, instruction: Instruction, fixed: dict[int, bool]) -> list[int]:
    """Return the instructions that may run after one."""
    if not isinstance(instruction, JumpFalse):
        return [index + 1]
    known = fixed.get(instruction.condition)
    if known is None:
        return [index + 1, instruction.destination]
    return [index + 1] if known else [instruction.destination]


def _fixed_bools(method: Method) -> dict[int, bool]:
    """Return bools that nothing can change: no input, and named by jumps alone."""
    named = set(method.inputs)
    for instruction in method.instructions:
        if isinstance(instruction, KernelCall | DelegateCall):
            named.update(instruction.args)
        elif isinstance(instruction, Move):
            named.add(instruction.target)
    values = enumerate(method.values)
    return {i: value for i, value in values if isinstance(value, bool) and i not in named}


_LONGEST_OPERATOR: Final = 99


def _method(program: Program, method: Method) -> Iterator[Finding]:
    """Yield all that is wrong with a method."""
    values = (_value(program, method, index, value) for index, value in enumerate(method.values))
    checks = (_plan(method), *values, _delegates(program, method), flow_faults(method))
    for rule, message, severity in chained.from_iterable(checks):
        shown = f"method {method.name!r}: {message}"
        yield Finding(rule, severity, Nature.BROKEN, shown, program.record)


def _plan(method: Method) -> Iterator[Fault]:
    for what, indices in (("input", method.inputs), ("output", method.outputs)):
        for index in indices:
            if not 0 <= index < len(method.values):
                yield Fault("executorch-index", f"its {what} is value {index}, which is not there")
    for number, size in enumerate(method.arenas):
        if size < 0:
            yield Fault("executorch-arena", f"arena {number} has {size} bytes")
    for arena, _, _ in method.arena_devices:
        if not 0 <= arena < len(method.arenas):
            yield Fault(
                "executorch-arena", f"a device is told of arena {arena}, which is not there"
            )
    for operator in method.operators:
        if len(operator.qualified_name.encode()) > _LONGEST_OPERATOR:
            shown = operator.qualified_name[:_LONGEST_OPERATOR]
            yield Fault("executorch-operator", f"the name of the operator {shown}... is too long")


def _value(program: Program, method: Method, index: int, value: Value) -> Iterator[Fault]:
    if isinstance(value, Tensor):
        for rule, problem in _tensor(program, method, value):
            yield Fault(rule, f"value {index}: {problem}")
    elif isinstance(value, IndexList):
        yield from _items(method, index, value)


def _items(method: Method, index: int, listed: IndexList) -> Iterator[Fault]:
    """Check the items of a list, which are numbers of other values, all of one kind."""
    what = "an integer" if isinstance(listed, IntList) else "a tensor"
    for item in listed.items:
        if item == NO_TENSOR and isinstance(listed, OptionalTensorList):
            continue
        if not 0 <= item < len(method.values):
            message = f"value {index} lists value {item}, which is not there"
            yield Fault("executorch-index", message)
        elif not _fits(listed, method.values[item]):
            shown = type_text(method.values[item])
            message = f"value {index} lists value {item}, which is {shown} and not {what}"
            yield Fault("executorch-item-kind", message)


def _fits(listed: IndexList, item: Value) -> bool:
    if not isinstance(listed, IntList):
        return isinstance(item, Tensor)
    # Symbolic values are None until an operator sets them.
    return item is None or (isinstance(item, int) and not isinstance(item, bool))


def _tensor(program: Program, method: Method, tensor: Tensor) -> Iterator[tuple[str, str]]:
    if tensor.problem is not None:
        yield "executorch-tensor", tensor.problem
        return
    if tensor.storage_offset:
        yield "executorch-tensor", f"the storage offset is {tensor.storage_offset}, not 0"
    if tensor.dynamism not in (Shape.STATIC, Shape.DYNAMIC_BOUND):
        yield "executorch-tensor", f"its sizes are not bound (shape dynamism {tensor.dynamism})"
    if tensor.is_external and not tensor.name:
        yield "executorch-constant", "its bytes are in a data file, and it has no name there"
    try:
        program.initial_place(tensor)
    except ArchiveError as error:
        yield "executorch-constant", error.message
    span = tensor.span
    problem = None if span is None else method.span_problem(span)
    if problem is not None:
        yield "executorch-allocation", problem


def _delegates(program: Program, method: Method) -> Iterator[Fault]:
    for number, delegate in enumerate(method.delegates):
        try:
            program.delegate_place(delegate)
        except ArchiveError as error:
            yield Fault("executorch-delegate", f"delegate {number}: {error.message}")


# Segments begin at multiples of a page at most.
_MOST_PADDING: Final = 1 << 16
_NOT_READ: Final = "Runtimes from 0.7 on crash on it: export the data again"


def verify_executorch(opened: Source, kind: str, step: Step) -> VerifyReport:
    """Check a file of this kind, and close it."""
    with closing(opened):
        return _verified(opened, kind, step)


def _verified(opened: Source, kind: str, step: Step) -> VerifyReport:
    findings = Findings()
    try:
        regions = opened_regions(lent(opened), kind)
    except ArchiveError as error:
        findings.add([fault(error, "executorch-head")])
        findings.add(_on_the_way(opened.data))
        return VerifyReport(kind, None, opened.size, 0, None, 0, findings.ordered())
    with regions:
        step("records")
        findings.add(_guarded("executorch-content", content_findings(regions.content)))
        if any(finding.rule == _TABLE_RULE for finding in findings):
            findings.add(_on_the_way(opened.data))
        step("tensors")
        return _report(regions, opened.size, findings)


def _on_the_way(data: Data) -> Iterator[Finding]:
    """Yield what may have happened to a broken file."""
    found = changed_on_the_way(data)
    if found is not None:
        yield broken(found.rule, found.message, None, found.hint, found.offset)


def _report(regions: Regions, size: int, findings: Findings) -> VerifyReport:
    methods = records = 0
    tensors = None
    try:
        view = ExecutorchView(regions)
        tensors = totals_of(info for _, info in view.tensors())
        records, methods = len(regions.records), len(view.code)
    except ArchiveError as error:
        if not findings.has_errors:
            findings.add([fault(error, "executorch-content")])
    version = regions.content.version
    return VerifyReport(regions.kind, version, size, records, tensors, methods, findings.ordered())


def content_findings(content: Content) -> Iterator[Finding]:
    """Yield what is wrong with an opened file. Raises ArchiveError where it cannot be read."""
    yield from _content(content)
    try:
        found = list(find_unclaimed(content))
    except ArchiveError:
        return  # the checks of tables and segments have found it
    for start, data, is_rest in found:
        where = "at the end" if is_rest else "in front of a segment"
        message = f"{len(data):,} bytes {where} belong to nothing"
        what = file_at(Source(data), 0)
        if what is not None and is_rest:
            yield _two_in_one(what, start)
            continue
        if what is not None:
            message += f"; another file begins at byte {start:,}: {what}"
        yield _unusual("executorch-rest", message, None, start)


def _two_in_one(what: str, start: int) -> Finding:
    """Return the finding that another file follows, which runtimes pass over."""
    told = two_in_one(what, start)
    warning, nature = Severity.WARNING, Nature.BROKEN
    return Finding(told.rule, warning, nature, told.message, None, start, hint=told.hint)


def _content(content: Content) -> Iterator[Finding]:
    problem = version_problem(content.version)
    if problem is not None and not isinstance(content, BundledProgram):
        yield broken("executorch-version", problem, content.record)
    try:
        _ = content.tables_end
    except ArchiveError as error:
        yield fault(error, _TABLE_RULE)
        return  # what is behind a broken table is what breaks everything else
    if isinstance(content, Program):
        yield from _program(content)
    elif isinstance(content, DataFile):
        yield from _data_file(content)
    else:
        yield from _bundle(content)


def _guarded(rule: str, checks: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of checks and, where an error ends them, one of this rule."""
    try:
        yield from checks
    except ArchiveError as error:
        yield fault(error, rule)


def _program(program: Program) -> Iterator[Finding]:
    yield from _guarded("executorch-segment", _segments(program))
    yield from _guarded("executorch-constant", _constants(program))
    yield from _guarded("executorch-named-data", _names(program))
    yield from _guarded("executorch-method", _methods(program))


def _segments(found: SegmentedFile) -> Iterator[Finding]:
    """Yield segments that overlap, and a header that counts more bytes than they have."""
    end, record = 0, f"{found.prefix}segments"
    for start, size in sorted({segment for segment in found.segments if segment.size}):
        if start < end:
            message = f"the segment at {start:,} begins inside of another"
            yield _unusual("executorch-segment", message, record, start)
        end = max(end, start + size)
    header = found.header
    known = header.segment_base + (header.segments_size or 0) if header is not None else 0
    if known > max(end, found.tables_end) + _MOST_PADDING:
        message = f"the header has segments end at {known:,}, and the last ends at {end:,}"
        yield _unusual("executorch-segment", message, record, end)


def _constants(program: Program) -> Iterator[Finding]:
    """Check the tables of constants, apart from the tensors that use them."""
    groups = [*program.mutable_data, *([program.constants] if program.constants else ())]
    for group in groups:
        if group.offsets and not 0 <= group.segment < max(len(program.segments), 1):
            message = f"constants are in segment {group.segment}, which is not there"
            yield broken("executorch-constant", message, program.record)
    has_inline = any(size for _, size in program.inline_constants)
    if program.constants and program.constants.offsets and has_inline:
        message = "constants are in the tables and in a segment: readers take one or the other"
        yield _inconsistent("executorch-constant", message, program.record)


def _names(program: Program) -> Iterator[Finding]:
    for key, segment, _, _ in program.named_data:
        if not 0 <= segment < len(program.segments):
            message = f"the data {key!r} is in segment {segment}, which is not there"
            yield broken("executorch-named-data", message, program.record)
    keys = (entry.key for entry in program.named_data)
    yield from _repeated("executorch-named-data", "data", keys, program.record)


def _repeated(rule: str, what: str, names: Iterable[str], record: str) -> Iterator[Finding]:
    for name, count in Counter(names).items():
        if count > 1:
            message = f"there are {count:,} {what} of the name {name!r}: only one is found"
            yield _inconsistent(rule, message, record)


def _methods(program: Program) -> Iterator[Finding]:
    yield from _repeated("executorch-method", "methods", program.method_names, program.record)
    if not program.method_names:
        message = "the program has no methods: there is nothing to run"
        severity, nature = Severity.WARNING, Nature.BROKEN
        yield Finding("executorch-method", severity, nature, message, program.record)
    for method in program.methods:
        yield from _method(program, method)


def _data_file(found: DataFile) -> Iterator[Finding]:
    if found.is_of_06:
        message = "it has the layout of ExecuTorch 0.6"
        yield Finding("executorch-old-layout", Severity.INFO, Nature.UNUSUAL, message,
                      found.record, hint=_NOT_READ)  # fmt: skip
    elif not found.is_complete:
        message = "it lacks the table of segments or of names"
        yield broken("executorch-table", message, found.record)
    yield from _guarded("executorch-segment", _segments(found))
    keys = (entry.key for entry in found.entries)
    yield from _repeated("executorch-named-data", "data", keys, found.record)
    for entry in found.entries:
        yield from _guarded("executorch-named-data", _entry(found, entry))


def _entry(found: DataFile, entry: Entry) -> Iterator[Finding]:
    if entry.layout is not None and entry.layout.problem is not None:
        message = f"{entry.key!r}: {entry.layout.problem}"
        yield broken("executorch-tensor", message, found.record)
    found.entry_place(entry)


def _bundle(found: BundledProgram) -> Iterator[Finding]:
    yield from _content(found.program)
    methods = (suite.method for suite in found.test_suites)
    yield from _repeated("executorch-test-suite", "test suites", methods, BUNDLE)
    for suite in found.test_suites:
        for message in _suite(found.program, suite):
            yield broken("executorch-test-suite", message, BUNDLE)
    for name, tensor in found.tensors():
        problem = tensor.problem
        if problem is None and len(tensor.data) != tensor.nbytes:
            problem = f"it has {len(tensor.data):,} bytes in the place of {tensor.nbytes:,}"
        if problem is not None:
            yield broken("executorch-tensor", f"{name}: {problem}", name)


def _suite(program: Program, suite: Suite) -> Iterator[str]:
    if suite.method not in program.indices:
        yield f"there are calls of {suite.method!r}, and there is no such method"
        return
    method = program.method(suite.method)
    for number, case in enumerate(suite.cases):
        call = f"call {number} of {suite.method!r} has"
        given, results = len(case.inputs), len(case.expected_outputs)
        if given != len(method.inputs):
            yield f"{call} {given} inputs, the method {len(method.inputs)}"
        if results not in (0, len(method.outputs)):
            yield f"{call} {results} expected outputs, the method {len(method.outputs)}"


def _inconsistent(rule: str, message: str, record: str) -> Finding:
    return Finding(rule, Severity.ERROR, Nature.INCONSISTENT, message, record)


def _unusual(rule: str, message: str, record: str | None, offset: int | None = None) -> Finding:
    return Finding(rule, Severity.WARNING, Nature.UNUSUAL, message, record, offset)
