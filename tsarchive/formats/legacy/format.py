"""TorchScript archives of torch 1.0 to 1.2: one JSON record describes all modules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tsarchive.formats.base import Check, Importer, ZipFormat
from tsarchive.formats.records import Reader, RecordTable, Role, Row

if TYPE_CHECKING:
    from tsarchive.container import Container, NewRecord
    from tsarchive.describing.contents import Facts
    from tsarchive.findings import Findings
    from tsarchive.formats.base import LoadOptions, OpenedArchive, View
    from tsarchive.formats.compatibility import Compatibility
    from tsarchive.formats.contents import Contents
    from tsarchive.formats.requests import SaveOptions
    from tsarchive.operators.releases import Release


_TABLE: Final = RecordTable(
    Row(r"model\.json", Role.CONFIGURATION),
    Row(r"attributes\.pkl", Role.OBJECTS),
    Row(r"(code|libs)/.*\.py", Role.CODE),
    Row(r"debug/.*\.pkl", Role.DEBUG_PICKLE),
    Row(r"tensors/[0-9]+", Role.TENSORS),
    Row(r"version", Role.NOTES),
    Row(r"extra/.+", Role.EXTRA, Reader.USER),
)

_NOT_READ: Final = "archives with a model.json, as torch wrote them before 1.3, are not read"
_NOT_COMPARED: Final = (
    "code of archives from before torch 1.3 is not compared with the operators of each release"
)
_SAVE: Final = "tsarchive.save(tsarchive.load(file), ...) writes it in the form of today"


class _LegacyTorchScript(ZipFormat):
    kind = "torchscript-legacy"
    saved_kind = "torchscript"
    title = "TorchScript of before torch 1.3"
    what_it_is = "TorchScript of before torch 1.3"
    what_to_do = "tsarchive.load reads it, and tsarchive.save writes it in the form of today"
    has_code = True
    makes_classes_of_objects = True

    def fits(self, names: Collection[str]) -> bool:
        return "model.json" in names

    def table(self, opened: object) -> RecordTable:
        return _TABLE

    def view(self, opened: Container) -> View:
        from .inspection import LegacyView

        return LegacyView(opened)

    def compatibility(self, opened: Container, releases: Sequence[Release]) -> Compatibility:
        from tsarchive.formats.compatibility import Compatibility, Found, Reason, rows_of

        def found(release: Release) -> Found:
            return Found([] if release.reads_model_json else [reason])

        reason = Reason("format", _NOT_READ, "model.json", "model.json", hint=_SAVE)
        facts = {"file format": "model.json"}
        return Compatibility(rows_of(releases, found), facts=facts, notes=(_NOT_COMPARED,))

    def contents(self, opened: Container) -> Contents:
        from .contents import LegacyContents

        return LegacyContents(opened)

    def moved(self, opened: Container, map_location: str) -> Container:
        from tsarchive.formats.torchscript.devices import moved_archive

        from .inspection import LegacyView

        tensors_on = {tensor.device for tensor in LegacyView(opened).model.tensors}
        return moved_archive(opened, map_location, tensors_on).container

    def importer(self, opened: Container, options: LoadOptions) -> Importer:
        from .importer import LegacyImporter

        return LegacyImporter(opened, options.device, options.guard, options.tensors_on)

    def makes_classes(self, name: str) -> bool:
        return True

    def records(self, module: Any, options: SaveOptions) -> list[NewRecord]:
        from tsarchive.formats.torchscript.saving_loaded import canonical_form, legacy_records

        if options.canonical:
            return canonical_form(module, options.files)
        return legacy_records(module, options.files)

    def check(self, container: Container, findings: Findings, damaged: Collection[str]) -> Check:
        from .verifying import LegacyCheck

        return LegacyCheck(container, _TABLE, findings, damaged)

    def old_operators(self) -> Mapping[str, str]:
        from .inspection import OLD_NAMES

        return OLD_NAMES

    def describe(self, archive: OpenedArchive, file: str, nbytes: int) -> Facts:
        from tsarchive.formats.torchscript.inspection import torchscript_facts

        return torchscript_facts(archive, file, nbytes, _TABLE, has_unnamed_classes=True)


LEGACY_TORCHSCRIPT: Final = _LegacyTorchScript()
