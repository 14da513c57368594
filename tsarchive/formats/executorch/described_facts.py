"""The facts of a file of ExecuTorch."""

from __future__ import annotations

from collections import Counter

from tsarchive.describing.facts import ExecutorchFacts, Facts, GroupFacts, MethodFacts
from tsarchive.formats.archive import OpenedArchive
from tsarchive.formats.description import tensor_facts
from tsarchive.formats.records import RecordTable

from .bundled import BundledProgram
from .data_file import DataFile
from .listing import signature
from .looking import ExecutorchView, called
from .methods import Method
from .program import Program
from .values import Tensor


def executorch_facts(archive: OpenedArchive, file: str, nbytes: int, table: RecordTable) -> Facts:
    """Everything about a file of this name and size. Raises ArchiveError where it breaks a rule."""
    return Facts(
        file=file,
        bytes=nbytes,
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
    header = content.header if isinstance(content, DataFile) else program and program.header
    suites = content.test_suites if isinstance(content, BundledProgram) else ()
    entries = content.entries if isinstance(content, DataFile) else ()
    names = [data.key for data in program.named_data] if program else [e.key for e in entries]
    return ExecutorchFacts(
        header_bytes=header.length if header else None,
        is_data_of_06=isinstance(content, DataFile) and content.is_of_06,
        methods=tuple(_method(program, method) for method in program.methods) if program else (),
        named_data=tuple(names),
        external=_external(program),
        test_cases=dict(Counter({suite.method: len(suite.cases) for suite in suites})),
    )


def _method(program: Program, method: Method) -> MethodFacts:
    backends: Counter[str] = Counter()
    for delegate in method.delegates:
        backends[delegate.backend] += len(program.delegate_data(delegate))
    return MethodFacts(
        name=method.name,
        signature=signature(method),
        values=len(method.values),
        instructions=sum(len(chain.instructions) for chain in method.chains),
        operators=dict(Counter(called(method))),
        delegates=dict(backends),
        arenas=method.arenas[1:],
    )


def _external(program: Program | None) -> tuple[str, ...]:
    """The keys that a data file must have."""
    methods = () if program is None else program.methods
    names = (
        value.name or ""
        for method in methods
        for value in method.values
        if isinstance(value, Tensor) and value.is_external
    )
    return tuple(dict.fromkeys(names))


def _groups(archive: OpenedArchive, table: RecordTable) -> dict[str, GroupFacts]:
    sizes: dict[str, list[int]] = {}
    for name, record in archive.records.items():
        group = table.role(name).described
        if group:
            sizes.setdefault(group, []).append(record.size)
    return {group: GroupFacts(len(found), sum(found), sum(found)) for group, found in sizes.items()}
