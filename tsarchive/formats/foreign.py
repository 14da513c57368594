"""Zip archives that are none of ours: of torch.save, of torch.package, and any others.

They are looked at and audited, and neither loaded nor saved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from tsarchive.formats.base import Check, Importer, ZipFormat
from tsarchive.formats.records import ZIP_NOTES, Reader, RecordTable, Role, Row
from tsarchive.formats.view import View

if TYPE_CHECKING:
    from tsarchive.archive import Archive
    from tsarchive.container import Container, NewRecord
    from tsarchive.describing.facts import Facts
    from tsarchive.formats.options import LoadOptions, SaveOptions
    from tsarchive.frontend import CodeImporter
    from tsarchive.pickler import Object
    from tsarchive.verifying.report import Findings

    from .torchscript.code_records import CodeRecords
    from .torchscript.debug import DebugRecords
    from .torchscript.inspection import ModuleInfo
    from .torchscript.needs import Needs
    from .torchscript.tensor_infos import TensorInfo


class _Foreign(ZipFormat):
    is_saved_again = False
    may_be_torchscript: ClassVar[bool] = False
    """Whether TorchScript that lacks a record has this format."""

    def __init__(
        self,
        kind: str,
        what_it_is: str,
        what_to_do: str,
        table: RecordTable,
        fits: Callable[[Collection[str]], bool],
    ) -> None:
        self.kind = self.saved_kind = self.title = kind
        self.what_it_is = what_it_is
        self.what_to_do = what_to_do
        self._table = table
        self._fits = fits

    def fits(self, names: Collection[str]) -> bool:
        return self._fits(names)

    def table(self, opened: object) -> RecordTable:
        return self._table

    def view(self, opened: Container) -> View:
        return _ForeignView(opened, self)

    def importer(self, opened: Container, options: LoadOptions) -> Importer:
        raise self.not_torchscript(opened.records)

    def makes_classes(self, name: str) -> bool:
        return False

    def records(self, module: Any, options: SaveOptions) -> list[NewRecord]:
        raise self.not_torchscript(())

    def check(self, container: Container, findings: Findings, damaged: Collection[str]) -> Check:
        from tsarchive.verifying.foreign import ForeignCheck

        return ForeignCheck(
            container,
            self.what_it_is,
            self.what_to_do,
            findings,
            may_be_torchscript=self.may_be_torchscript,
        )

    def describe(self, archive: Archive, file: str, nbytes: int) -> Facts:
        from tsarchive.describing.collecting import zip_facts

        return zip_facts(archive, file, nbytes, self._table)

    def signed_tree(self, archive: Archive) -> ModuleInfo:
        return archive.tree()


class _Lacking(_Foreign):
    may_be_torchscript = True


class _Unknown(_Lacking):
    is_known = False


class _Package(_Foreign):
    def view(self, opened: Container) -> View:
        return _PackageView(opened, self)

    def python_modules(self, names: Collection[str]) -> frozenset[str]:
        sources = [name for name in names if name.endswith(".py")]
        modules = (name.removesuffix(".py").removesuffix("/__init__") for name in sources)
        return frozenset(name.replace("/", ".") for name in modules)


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
        from .torchscript.debug import DebugRecords

        return DebugRecords(self._container)

    @property
    def classes(self) -> CodeImporter:
        self._refuse()

    @property
    def root(self) -> Object:
        self._refuse()

    def tensors(self) -> Iterator[tuple[str, TensorInfo]]:
        self._refuse()

    def tree(self) -> ModuleInfo:
        self._refuse()

    def needs(self) -> Needs:
        self._refuse()

    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        self._refuse()

    def require_code(self) -> None:
        if not self.code:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._format.not_torchscript(self._container.records)


class _PackageView(_ForeignView):
    @property
    def source(self) -> CodeRecords:
        from .torchscript.code_records import CodeRecords

        return CodeRecords(self._container, ("",))


TORCH_PACKAGE: Final = _Package(
    "torch.package",
    "a torch.package archive",
    "torch.package.PackageImporter runs the Python source in it: look at it with 'tsarchive audit' "
    "first",
    RecordTable(
        Row(r"\.data/ts_code/code/.*\.py", Role.CODE),
        Row(r".*\.py", Role.PYTHON),
        Row(r".*\.pkl", Role.OBJECTS),
        Row(r"\.data/([0-9]+\.storage|ts_code/.*)", Role.TENSORS),
        Row(r"\.data/(extern_modules|python_version)", Role.NOTES),
        ZIP_NOTES,
    ),
    lambda names: (
        any(name.startswith(".data/ts_code/") for name in names) or ".data/extern_modules" in names
    ),
)
TORCH_SAVE: Final = _Lacking(
    "torch.save",
    "a torch.save checkpoint",
    "Load it with torch.load(weights_only=True); where that refuses it, 'tsarchive audit' tells "
    "why. To keep a module with its code, script it and save it with tsarchive.save",
    RecordTable(
        # With a constants.pkl beside them, torch.load takes the file for TorchScript.
        Row(r"code/.*\.py", Role.CODE, Reader.FOREIGN),
        Row(r"data\.pkl", Role.OBJECTS),
        Row(r"data/.*", Role.TENSORS),
        Row(r"\.format_version|\.storage_alignment", Role.NOTES),
        ZIP_NOTES,
    ),
    lambda names: "data.pkl" in names,
)


UNKNOWN: Final = _Unknown(
    "zip",
    "a zip archive without a model of torch",
    "Check that this is the file you mean",
    RecordTable(Row(r".*", Role.OTHER, Reader.USER)),
    lambda names: True,
)
