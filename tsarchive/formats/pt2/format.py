"""PT2 archives of torch.export: programs as JSON, weights as records beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tsarchive.formats.base import Check, Format, Importer, ProgramAudit, ZipFormat
from tsarchive.formats.records import ZIP_NOTES, Reader, RecordTable, Role, Row

if TYPE_CHECKING:
    import torch

    from tsarchive.comparing import GraphReport
    from tsarchive.container import Container, NewRecord
    from tsarchive.describing.contents import Facts, TensorInfo
    from tsarchive.findings import Findings
    from tsarchive.formats.base import LoadOptions, OpenedArchive, View
    from tsarchive.formats.compatibility import Compatibility
    from tsarchive.formats.contents import Contents
    from tsarchive.formats.requests import Example, SaveOptions, Written
    from tsarchive.operators.releases import Release
    from tsarchive.policy import Guard
    from tsarchive.run.modules import ArchiveModule


_EXTRA: Final = "extra/"
_PROGRAM: Final = "serialized_exported_program.json"
# torch.jit reads it, where the archive is one of TorchScript as well.
_CODE: Final = Row(r"code/.*\.py", Role.CODE, Reader.FOREIGN)
_FLAT: Final = RecordTable(
    Row(r"serialized_exported_program\.json", Role.PROGRAM),
    Row(r"serialized_(state_dict|constants)\.pt", Role.TENSORS),
    # Of torch 2.1 and 2.2, in spite of their names.
    Row(r"serialized_(state_dict|constants)\.json", Role.TENSORS),
    Row(r"serialized_example_inputs\.pt", Role.INPUTS),
    Row(r"version", Role.NOTES),
    Row(r"extra_files/.+", Role.EXTRA, Reader.USER),
    _CODE,
)
_OF_MODELS: Final = (
    Row(r"models/[^/]+\.json", Role.PROGRAM),
    Row(r"data/sample_inputs/[^/]+\.pt", Role.INPUTS),
    Row(
        r"data/aotinductor/.+\.(so|dll|pyd|dylib|o|a|cubin|fatbin|ptx|hsaco|spv|metallib)",
        Role.NATIVE,
    ),
    Row(r"data/aotinductor/.*\.(cpp|json|h|txt)", Role.BESIDE_NATIVE),
    Row(r"data/aotinductor/.+", Role.UNKNOWN_BESIDE_NATIVE),
    Row(r"data/executorch/.+", Role.EXECUTORCH),
    Row(r"archive_format|archive_version", Role.NOTES),
    ZIP_NOTES,
    Row(r"extra/.+", Role.EXTRA, Reader.USER),
    _CODE,
)
_WHOLE: Final = RecordTable(Row(r"data/(weights|constants)/[^/]+\.pt", Role.TENSORS), *_OF_MODELS)
_RAW: Final = RecordTable(
    Row(r"data/weights/weight_[0-9]+|data/constants/tensor_[0-9]+", Role.TENSORS),
    Row(r"data/constants/(custom_obj|opaque_obj)_[0-9]+", Role.OBJECTS),
    Row(
        r"data/weights/[^/]+_weights_config\.json|data/constants/[^/]+_constants_config\.json",
        Role.CONFIGURATION,
    ),
    *_OF_MODELS,
)


class _Pt2(ZipFormat):
    kind = saved_kind = "pt2"
    title = "PT2"
    suffixes = (".pt2",)
    encoded = ("programs", "JSON is encoded")
    conversion = "exporting"
    has_programs = True
    loads_lazily = True
    what_it_is = "a PT2 archive of torch.export"
    what_to_do = (
        "tsarchive.load reads it, 'tsarchive code' lists its program, and 'tsarchive convert' "
        "writes it as TorchScript"
    )
    was_written_by_zipfile = True

    def fits(self, names: Collection[str]) -> bool:
        return (
            "archive_format" in names
            or any(name.startswith("models/") for name in names)
            or _PROGRAM in names
        )

    def table(self, opened: Container) -> RecordTable:
        from .records import Layout, Records

        tables = {Layout.FLAT: _FLAT, Layout.WHOLE: _WHOLE, Layout.RAW: _RAW}
        return tables[Records(opened).layout]

    def contents(self, opened: Container) -> Contents:
        from .contents import Pt2Contents
        from .records import Records
        from .view import Pt2View

        return Pt2Contents(Pt2View(Records(opened)))

    def compatibility(self, opened: Container, releases: Sequence[Release]) -> Compatibility:
        from .compatibility import compatibility
        from .records import Records
        from .view import Pt2View

        return compatibility(Pt2View(Records(opened)), releases)

    def remaining_tensors(self, container: Container) -> Iterator[tuple[str, TensorInfo]]:
        from .view import tensors_of_configurations

        return tensors_of_configurations(container)

    def view(self, opened: Container) -> View:
        from .records import Records
        from .view import Pt2View

        return Pt2View(Records(opened))

    def importer(self, opened: Container, options: LoadOptions) -> Importer:
        from .importer import Pt2Importer

        return Pt2Importer(opened, options.device, options.guard, options.model, lazy=options.lazy)

    def makes_classes(self, name: str) -> bool:
        return name in (_PROGRAM, "archive_format") or name.startswith("models/")

    def holds(self, value: object) -> bool:
        export = sys.modules.get("torch.export")  # what nobody imported has made no program
        programs = list(value.values()) if isinstance(value, dict) else [value]
        return export is not None and all(
            isinstance(program, export.ExportedProgram) for program in programs or [None]
        )

    def records(self, module: Any, options: SaveOptions) -> list[NewRecord]:
        debug = options.debug and not options.canonical
        if not self.holds(module):
            return _loaded_records(module, options, debug=debug)
        from .exporter import exported_records

        programs = module if isinstance(module, dict) else {"model": module}
        return exported_records(
            programs, options.files, debug=debug, source_paths=options.source_paths
        )

    def scripted_records(self, module: ArchiveModule) -> list[NewRecord]:
        from .exporter import scripted_records

        return scripted_records(module)

    def convert(
        self,
        module: ArchiveModule,
        source: Format,
        dst: str | os.PathLike[str],
        example: Example,
        release: Release | None,
        options: SaveOptions,
    ) -> Written:
        from tsarchive.formats.requests import Written

        from .tracing import traced_program

        traced = traced_program(module, example)
        container = module.tsarchive_classes.container
        extras = {
            name.removeprefix(_EXTRA): container.read(name)
            for name in container.records
            if name.startswith(_EXTRA) and not options.canonical
        }
        self.save(traced.program, dst, replace(options, files=extras))
        return Written(notes=traced.notes)

    def models(self, container: Container) -> Sequence[str]:
        from .records import Records

        return Records(container).models

    def graph_report(
        self,
        saved: Container,
        read: Container | None,
        map_location: str | torch.device | None,
        guard: Guard,
        *,
        is_live: bool,
    ) -> GraphReport:
        from .records import graph_report

        return graph_report(saved if read is None else read)

    def saved(self, container: Container) -> Collection[str]:
        from .records import Layout, Records

        table = self.table(container)
        is_raw = Records(container).layout is Layout.RAW
        saved = (Role.INPUTS,) if is_raw else (Role.INPUTS, Role.TENSORS)
        return [name for name in container.records if table.role(name) in saved]

    def check(self, container: Container, findings: Findings, damaged: Collection[str]) -> Check:
        from .verifying import Pt2Check

        return Pt2Check(container, self.table(container), findings, damaged)

    def exported_audit(self, names: Collection[str], read: Callable[[str], bytes]) -> ProgramAudit:
        from .audit import Exported

        return Exported(names, read)

    def describe(self, archive: OpenedArchive, file: str, nbytes: int) -> Facts:
        from .view import pt2_facts

        return pt2_facts(archive, file, nbytes, self.table(archive.container))


def _loaded_records(module: Any, options: SaveOptions, *, debug: bool) -> list[NewRecord]:
    from tsarchive.findings import require_whole

    from .exporter import resaved_records
    from .verifying import pt2_findings

    container = module.tsarchive_classes.container
    require_whole(pt2_findings(container, PT2.table(container)))
    files = dict(sorted(options.files.items())) if options.canonical else options.files
    return resaved_records(module, files, debug=debug, keeps_extras=not options.canonical)


PT2: Final = _Pt2()
