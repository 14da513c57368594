"""Zip archives that are none of ours: of torch.save, of torch.package, for the lite interpreter
alone, and any others.

They are looked at and audited, and neither loaded nor saved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from tsarchive.errors import INCOMPLETE
from tsarchive.findings import Finding, Findings, Nature, Severity, broken
from tsarchive.formats.base import OTHER_KIND, Check, Importer, ZipFormat, zip_facts
from tsarchive.formats.records import ZIP_NOTES, Reader, RecordTable, Role, Row

from .base import View

if TYPE_CHECKING:
    from tsarchive.container import Container, NewRecord
    from tsarchive.describing.contents import Facts, TensorInfo
    from tsarchive.steps import Step

    from .base import LoadOptions, OpenedArchive
    from .contents import Contents
    from .requests import SaveOptions
    from .torchscript.code_records import CodeRecords
    from .torchscript.debug_records import DebugRecords


# Records that only TorchScript has: a file with one was to become such an archive.
_TELLING: Final = r"(?s:code/.+\.py|constants\.pkl|bytecode\.pkl)"


class _Foreign(ZipFormat):
    is_saved_again = False
    may_be_torchscript: ClassVar[bool] = False
    """True if TorchScript that lacks a record has this format."""
    record_table: ClassVar[RecordTable]

    def table(self, opened: object) -> RecordTable:
        return self.record_table

    def view(self, opened: Container) -> View:
        return _ForeignView(opened, self)

    def moved(self, opened: Container, map_location: str) -> Container:
        raise self.not_torchscript(opened.records)

    def importer(self, opened: Container, options: LoadOptions) -> Importer:
        raise self.not_torchscript(opened.records)

    def makes_classes(self, name: str) -> bool:
        return False

    def records(self, module: Any, options: SaveOptions) -> list[NewRecord]:
        raise self.not_torchscript(())

    def check(self, container: Container, findings: Findings, damaged: Collection[str]) -> Check:
        return _ForeignCheck(container, self, findings)

    def describe(self, archive: OpenedArchive, file: str, nbytes: int) -> Facts:
        return zip_facts(archive, file, nbytes, self.record_table)


class _ForeignCheck:
    """Tells what the file is, or what it lacks to be TorchScript."""

    code_records = 0

    def __init__(self, container: Container, format_: _Foreign, findings: Findings) -> None:
        self._names = container.records
        self._format = format_
        self._findings = findings

    def run(self, step: Step) -> None:
        if self._format.may_be_torchscript and any(
            re.fullmatch(_TELLING, name) for name in self._names
        ):
            message = "a TorchScript archive has this record, and it is not there"
            for name in ("data.pkl", "constants.pkl"):
                if name not in self._names:
                    self._findings.add([broken("record-missing", message, name, INCOMPLETE)])
            return
        what, hint = self._format.what_it_is, self._format.what_to_do
        message = f"it is {what}, not a TorchScript archive: only its container was checked"
        self._findings.add(
            [Finding(OTHER_KIND, Severity.WARNING, Nature.OTHER_KIND, message, hint=hint)]
        )


class _ForeignView(View):
    """Code records and a version, as far as there are any."""

    def __init__(self, container: Container, format_: ZipFormat) -> None:
        self._container = container
        self._format = format_

    @property
    def has_modules(self) -> bool:
        return False

    @property
    def format_version(self) -> int:
        from .torchscript.code_records import format_version

        return format_version(self._container)

    @property
    def code(self) -> CodeRecords:
        from .torchscript.code_records import CodeRecords

        return CodeRecords(self._container)

    @property
    def debug(self) -> DebugRecords:
        from .torchscript.debug_records import DebugRecords

        return DebugRecords(self._container)

    def require_code(self) -> None:
        if not self.code:
            self.refuse()

    def refuse(self) -> NoReturn:
        raise self._format.not_torchscript(self._container.records)


class _PackageView(_ForeignView):
    @property
    def source(self) -> CodeRecords:
        from .torchscript.code_records import CodeRecords

        return CodeRecords(self._container, ("",))


class _TorchPackage(_Foreign):
    kind = saved_kind = title = "torch.package"
    what_it_is = "a torch.package archive"
    what_to_do = (
        "torch.package.PackageImporter runs the Python source in it: look at it with "
        "'tsarchive audit' first"
    )
    record_table = RecordTable(
        Row(r"\.data/ts_code/code/.*\.py", Role.CODE),
        Row(r".*\.py", Role.PYTHON),
        Row(r".*\.pkl", Role.OBJECTS),
        Row(r"\.data/([0-9]+\.storage|ts_code/.*)", Role.TENSORS),
        Row(r"\.data/(extern_modules|python_version)", Role.NOTES),
        ZIP_NOTES,
    )

    def fits(self, names: Collection[str]) -> bool:
        has_code = any(name.startswith(".data/ts_code/") for name in names)
        return has_code or ".data/extern_modules" in names

    def view(self, opened: Container) -> View:
        return _PackageView(opened, self)

    def python_modules(self, names: Collection[str]) -> frozenset[str]:
        sources = [name for name in names if name.endswith(".py")]
        modules = (name.removesuffix(".py").removesuffix("/__init__") for name in sources)
        return frozenset(name.replace("/", ".") for name in modules)


class _TorchSave(_Foreign):
    kind = saved_kind = title = "torch.save"
    what_it_is = "a torch.save checkpoint"
    what_to_do = (
        "Load it with torch.load(weights_only=True); where that refuses it, 'tsarchive audit' "
        "tells why. To keep a module with its code, script it and save it with tsarchive.save"
    )
    may_be_torchscript = True
    record_table = RecordTable(
        # With a constants.pkl beside them, torch.load takes the file for TorchScript.
        Row(r"code/.*\.py", Role.CODE, Reader.FOREIGN),
        Row(r"data\.pkl", Role.OBJECTS),
        Row(r"data/.*", Role.TENSORS),
        Row(r"\.format_version|\.storage_alignment", Role.NOTES),
        ZIP_NOTES,
    )

    def fits(self, names: Collection[str]) -> bool:
        return "data.pkl" in names

    def contents(self, opened: Container) -> Contents:
        from .torchscript.checkpoint import CheckpointContents

        return CheckpointContents(opened)


class _BytecodeView(_ForeignView):
    @property
    def has_tensors(self) -> bool:
        return True

    def tensors(self) -> Iterator[tuple[str, TensorInfo]]:
        from .torchscript.inspection import tensors_without_code

        return tensors_without_code(self._container)


class _Bytecode(_Foreign):
    """An archive for phones without the code that stands beside its bytecode as torch saves it."""

    kind = saved_kind = "bytecode"
    title = "bytecode for the lite interpreter"
    what_it_is = "a program in bytecode for the lite interpreter of torch, without its code"
    what_to_do = (
        "Its bytecode is listed and audited here, not run. Use the TorchScript file that it was "
        "made from, or the file as _save_for_lite_interpreter wrote it, which also has the code"
    )
    record_table = RecordTable(
        Row(r"(data|constants)\.pkl", Role.OBJECTS),
        Row(r"(data|constants|bytecode)/[0-9]+(\.storage)?", Role.TENSORS),
        Row(r"bytecode\.pkl", Role.BYTECODE),
        Row(r"(mobile_debug_handles|callstack_debug_map)\.pkl", Role.DEBUG),
        ZIP_NOTES,
        Row(r"extra/.+", Role.EXTRA, Reader.USER),
    )

    def fits(self, names: Collection[str]) -> bool:
        has_code = any(name.startswith("code/") for name in names)
        return {"bytecode.pkl", "data.pkl"} <= set(names) and not has_code

    def view(self, opened: Container) -> View:
        return _BytecodeView(opened, self)


class _Unknown(_Foreign):
    kind = saved_kind = title = "zip"
    what_it_is = "a zip archive without a model of torch"
    what_to_do = "Check that this is the file you mean"
    may_be_torchscript = True
    is_known = False
    record_table = RecordTable(Row(r".*", Role.OTHER, Reader.USER))

    def fits(self, names: Collection[str]) -> bool:
        return True


BYTECODE: Final = _Bytecode()
TORCH_PACKAGE: Final = _TorchPackage()
TORCH_SAVE: Final = _TorchSave()
UNKNOWN: Final = _Unknown()
