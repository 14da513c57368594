"""Files of ExecuTorch: programs, data, and programs with calls. They are no zip archives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from tsarchive.errors import UnsupportedError
from tsarchive.formats.base import FileFormat, Importer
from tsarchive.formats.records import RecordTable, Role, Row

from .header import BPTE, HEAD_BYTES, PTD, PTE, TO_LOOK_AT, kind_of, no_zip, told_size

if TYPE_CHECKING:
    from tsarchive.comparing import JitterReport
    from tsarchive.container import Container
    from tsarchive.container.source import Source
    from tsarchive.describing.contents import Facts
    from tsarchive.formats.base import LoadOptions, OpenedArchive, View
    from tsarchive.formats.compatibility import Compatibility
    from tsarchive.formats.contents import Contents
    from tsarchive.formats.requests import SaveOptions, VerifyReport
    from tsarchive.operators.releases import Release
    from tsarchive.scanning.collecting import Collected
    from tsarchive.steps import Step

    from .regions import Regions


_TABLE: Final = RecordTable(
    Row(r"(program/)?header", Role.HEADER),
    Row(r"tables", Role.TABLES),
    Row(r"program(/program)?", Role.PROGRAM_TABLES),
    Row(r"(program/)?segments/.+", Role.SEGMENT),
    Row(r"(program/)?named_data/.*", Role.NAMED_DATA),
    Row(r"(program/)?constants/.+", Role.INLINE_CONSTANT),
    Row(r"(program/)?delegates/.+", Role.INLINE_DELEGATE),
    Row(r"test_suites/.+", Role.TEST_DATA),
    Row(r"bundle", Role.BUNDLE),
)


class _Executorch(FileFormat):
    what_to_do = TO_LOOK_AT
    encoded = ("tables", "tables are encoded")
    has_data_beside = True
    is_lowered = True
    family = "ExecuTorch"

    def __init__(self, kind: str, title: str, suffixes: tuple[str, ...] = ()) -> None:
        self.kind = self.saved_kind = kind
        self.title = title
        self.what_it_is = f"a {title}"
        self.suffixes = suffixes
        self.brings_calls = kind == BPTE

    def begins(self, head: memoryview) -> bool:
        return kind_of(head) == self.kind

    def opened(self, source: Source) -> Regions:
        from .regions import opened_regions

        return opened_regions(source, self.kind)

    def table(self, opened: object) -> RecordTable:
        return _TABLE

    def view(self, opened: Regions) -> View:
        from .view import ExecutorchView

        return ExecutorchView(opened)

    def contents(self, opened: Regions) -> Contents:
        from .contents import ExecutorchContents
        from .view import ExecutorchView

        return ExecutorchContents(ExecutorchView(opened))

    def compatibility(self, opened: Regions, releases: Sequence[Release]) -> Compatibility:
        from .compatibility import compatibility

        return compatibility(opened)

    def container(self, opened: Regions) -> Container:
        raise no_zip(self.kind)

    def importer(self, opened: Regions, options: LoadOptions) -> Importer:
        from .modules.delegates import importer_of_program

        return importer_of_program(opened, options.device, options.guard, options.data)

    def without_tensors(self, opened: Regions) -> bytes:
        return opened.require_program().tables_alone()

    def save(self, module: Any, f: str | os.PathLike[str] | BinaryIO, options: SaveOptions) -> None:
        from .modules.importer import save_program

        save_program(module, f, options.files)

    def verify(self, source: Source, step: Step) -> VerifyReport:
        from .verification import verify_executorch

        return verify_executorch(source, self.kind, step)

    def told_size(self, source: Source) -> int:
        return told_size(source.piece(0, HEAD_BYTES), self.kind)

    def audit(self, archive: OpenedArchive, found: Collected) -> None:
        from .capabilities import audit_executorch

        audit_executorch(archive, _TABLE, found)

    def check_jitter(self, source: Source, *, canonical: bool) -> JitterReport:
        from .draft import jitter_report

        if canonical:
            reason = "files of ExecuTorch have no canonical form"
            raise self.not_taken("canonical", reason, UnsupportedError)
        with self.opened(source) as regions:
            return jitter_report(regions)

    def describe(self, archive: OpenedArchive, file: str, nbytes: int) -> Facts:
        from .view import executorch_facts

        return executorch_facts(archive, file, nbytes, _TABLE)


EXECUTORCH: Final = (
    _Executorch(PTE, "program of ExecuTorch", (".pte",)),
    _Executorch(PTD, "data file of ExecuTorch"),
    _Executorch(BPTE, "bundled program of ExecuTorch"),
)
