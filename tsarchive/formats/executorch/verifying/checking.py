"""Files of ExecuTorch: what its runtime checks at both of its levels, and what it forgets.

The runtime looks at no table of a data file before it follows it, and at no target of a jump.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from tsarchive.container.source import Source
from tsarchive.describing.contents import totals_of
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Findings, Nature, Severity, fault
from tsarchive.formats.executorch.bundled import BundledProgram, BundledTensor, BundledValue, Suite
from tsarchive.formats.executorch.data_file import DataFile, Entry
from tsarchive.formats.executorch.looking import ExecutorchView
from tsarchive.formats.executorch.program import Program
from tsarchive.formats.executorch.regions import Regions, opened_regions
from tsarchive.formats.executorch.schema import version_problem
from tsarchive.formats.executorch.unclaimed import find_unclaimed
from tsarchive.formats.executorch.values import layout_problem
from tsarchive.formats.verification import Step, VerifyReport

from .methods import broken, method_findings

_BUNDLE_RECORD: Final = "bundle"
# Segments begin at multiples of a page at most.
_MOST_PADDING: Final = 1 << 16
_NOT_READ: Final = "Runtimes from 0.7 on crash on it: export the data again"


def verify_executorch(opened: Source, kind: str, step: Step) -> VerifyReport:
    """Check a file of this kind, and let go of it."""
    findings = Findings()
    size = len(opened.data)
    try:
        regions = opened_regions(opened, kind)
    except ArchiveError as error:
        findings.add([fault(error, "executorch-head")])
        return VerifyReport(kind, None, size, 0, None, 0, findings.ordered())
    with regions:
        step("records")
        findings.add(_guarded("executorch-content", content_findings(regions.content)))
        step("tensors")
        return _report(regions, size, findings)


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


def content_findings(content: Program | DataFile | BundledProgram) -> Iterator[Finding]:
    """What is wrong with an opened file. Raises ArchiveError where it cannot be looked at."""
    yield from _content(content)
    yield from _unclaimed(content)


def _content(content: Program | DataFile | BundledProgram) -> Iterator[Finding]:
    if isinstance(content, Program):
        yield from _program(content)
    elif isinstance(content, DataFile):
        yield from _data_file(content)
    else:
        yield from _bundle(content)


def _unclaimed(content: Program | DataFile | BundledProgram) -> Iterator[Finding]:
    """Bytes that belong to nothing, in front of segments and behind the last."""
    try:
        found = list(find_unclaimed(content))
    except ArchiveError:
        return  # the checks of tables and segments have found it
    for start, data, is_rest in found:
        where = "at the end" if is_rest else "in front of a segment"
        message = f"{len(data):,} bytes {where} belong to nothing"
        yield _unusual("executorch-rest", message, None, start)


def _guarded(rule: str, checks: Iterable[Finding]) -> Iterator[Finding]:
    """The findings of checks and, where the file stops them, one of this rule."""
    try:
        yield from checks
    except ArchiveError as error:
        yield fault(error, rule)


def _tables(found: Program | DataFile | BundledProgram) -> Iterator[Finding]:
    """Every table, vector and text that the schema leads to, as FlatBuffers' verifier does."""
    _ = found.tables_end
    yield from ()


def _version(version: int, record: str) -> Iterator[Finding]:
    problem = version_problem(version)
    if problem is not None:
        yield broken("executorch-version", problem, record)


def _program(program: Program) -> Iterator[Finding]:
    record = f"{program.prefix}program"
    yield from _version(program.version, record)
    tables = list(_guarded("executorch-table", _tables(program)))
    yield from tables
    if tables:
        return  # what is behind a broken table is what breaks everything else
    for rule, check in _PROGRAM_CHECKS:
        yield from _guarded(rule, check(program, record))


def _segments(found: Program | DataFile, prefix: str) -> Iterator[Finding]:
    """Segments that share bytes without being the same, or of fewer bytes than the header says."""
    end = 0
    for start, size in sorted({segment for segment in found.segments if segment.size}):
        if start < end:
            message = f"the segment at {start:,} begins inside of another"
            yield _unusual("executorch-segment", message, f"{prefix}segments", start)
        end = max(end, start + size)
    header = found.header
    known = header.segment_base + (header.segments_size or 0) if header is not None else 0
    if known > max(end, found.tables_end) + _MOST_PADDING:
        message = f"the header has segments end at {known:,}, and the last ends at {end:,}"
        yield _unusual("executorch-segment", message, f"{prefix}segments", end)


def _program_segments(program: Program, _record: str) -> Iterator[Finding]:
    yield from _segments(program, program.prefix)


def _constants(program: Program, record: str) -> Iterator[Finding]:
    """The tables of constants, apart from the tensors that use them."""
    groups = [*program.mutable_data, *([program.constants] if program.constants else ())]
    for group in groups:
        if group.offsets and not 0 <= group.segment < max(len(program.segments), 1):
            message = f"constants are in segment {group.segment}, which is not there"
            yield broken("executorch-constant", message, record)
    if program.constants and program.constants.offsets and any(map(len, program.inline_constants)):
        message = "constants are in the tables and in a segment: readers take one or the other"
        yield broken("executorch-constant", message, record, Nature.INCONSISTENT)


def _names(program: Program, record: str) -> Iterator[Finding]:
    counts = Counter(key for key, _ in program.named_data)
    for key, segment in program.named_data:
        if not 0 <= segment < len(program.segments):
            message = f"the data {key!r} is in segment {segment}, which is not there"
            yield broken("executorch-named-data", message, record)
    yield from _repeated("executorch-named-data", "data", counts, record)


def _repeated(rule: str, what: str, counts: Counter[str], record: str) -> Iterator[Finding]:
    for name, count in counts.items():
        if count > 1:
            message = f"there are {count:,} {what} of the name {name!r}: only one is found"
            yield broken(rule, message, record, Nature.INCONSISTENT)


def _methods(program: Program, record: str) -> Iterator[Finding]:
    counts = Counter(program.method_names)
    yield from _repeated("executorch-method", "methods", counts, record)
    if not counts:
        message = "the program has no methods: there is nothing to run"
        yield broken("executorch-method", message, record, severity=Severity.WARNING)
    for method in program.methods:
        yield from method_findings(program, method, record)


_PROGRAM_CHECKS: Final = (
    ("executorch-segment", _program_segments),
    ("executorch-constant", _constants),
    ("executorch-named-data", _names),
    ("executorch-method", _methods),
)


def _data_file(found: DataFile) -> Iterator[Finding]:
    yield from _version(found.version, "tables")
    tables = list(_guarded("executorch-table", _tables(found)))
    yield from tables
    if tables:
        return
    if found.is_of_06:
        message = "it has the layout of ExecuTorch 0.6"
        yield Finding("executorch-old-layout", Severity.INFO, Nature.UNUSUAL, message,
                      "tables", hint=_NOT_READ)  # fmt: skip
    elif not found.is_complete:
        yield broken("executorch-table", "it lacks the table of segments or of names", "tables")
    yield from _guarded("executorch-segment", _segments(found, ""))
    yield from _repeated(
        "executorch-named-data", "data", Counter(entry.key for entry in found.entries), "tables"
    )
    for entry in found.entries:
        yield from _guarded("executorch-named-data", _entry(found, entry))


def _entry(found: DataFile, entry: Entry) -> Iterator[Finding]:
    layout = entry.layout
    if layout is not None:
        problem = layout_problem(layout.scalar_type, layout.sizes, layout.dim_order)
        if problem is not None:
            yield broken("executorch-tensor", f"{entry.key!r}: {problem}", "tables")
    found.data_of(entry)


def _bundle(found: BundledProgram) -> Iterator[Finding]:
    tables = list(_guarded("executorch-table", _tables(found)))
    yield from tables
    if tables:
        return
    yield from _program(found.program)
    counts = Counter(suite.method for suite in found.test_suites)
    yield from _repeated("executorch-test-suite", "test suites", counts, _BUNDLE_RECORD)
    for suite in found.test_suites:
        yield from _suite(found.program, suite)
    for name, tensor in found.tensors():
        yield from _bundled_tensor(name, tensor)


def _suite(program: Program, suite: Suite) -> Iterator[Finding]:
    if suite.method not in program.indices:
        message = f"there are calls of {suite.method!r}, and there is no such method"
        yield broken("executorch-test-suite", message, _BUNDLE_RECORD)
        return
    method = program.method(suite.method)
    for number, case in enumerate(suite.cases):
        yield from _count(suite, number, "inputs", case.inputs, len(method.inputs))
        outputs = case.expected_outputs
        if outputs:
            yield from _count(suite, number, "expected outputs", outputs, len(method.outputs))


def _count(
    suite: Suite, number: int, what: str, values: tuple[BundledValue, ...], expected: int
) -> Iterator[Finding]:
    if len(values) != expected:
        message = (
            f"call {number} of {suite.method!r} has {len(values)} {what}, the method {expected}"
        )
        yield broken("executorch-test-suite", message, _BUNDLE_RECORD)


def _bundled_tensor(name: str, tensor: BundledTensor) -> Iterator[Finding]:
    problem = layout_problem(tensor.scalar_type, tensor.sizes, tensor.dim_order)
    if problem is None and len(tensor.data) != tensor.nbytes:
        problem = f"it has {len(tensor.data):,} bytes in the place of {tensor.nbytes:,}"
    if problem is not None:
        yield broken("executorch-tensor", f"{name}: {problem}", name)


def _unusual(rule: str, message: str, record: str | None, offset: int | None = None) -> Finding:
    return Finding(rule, Severity.WARNING, Nature.UNUSUAL, message, record, offset)
