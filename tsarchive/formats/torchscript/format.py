"""TorchScript archives of torch 1.3 and later: pickles, and code as text."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tsarchive.formats.base import (
    CANONICAL_ROOT,
    Check,
    Format,
    Importer,
    LoadOptions,
    ZipFormat,
    is_loaded,
)
from tsarchive.formats.records import ZIP_NOTES, Reader, RecordTable, Role, Row
from tsarchive.garbage import not_collecting

if TYPE_CHECKING:
    import torch

    from tsarchive.comparing import GraphReport
    from tsarchive.container import Container, NewRecord
    from tsarchive.describing.contents import Facts, TensorInfo
    from tsarchive.findings import Findings
    from tsarchive.formats.base import OpenedArchive, View
    from tsarchive.formats.compatibility import Compatibility, Plan
    from tsarchive.formats.contents import Contents
    from tsarchive.formats.requests import Example, SaveOptions, Written
    from tsarchive.operators.releases import Release
    from tsarchive.policy import Guard
    from tsarchive.run.modules import ArchiveModule


_TABLE: Final = RecordTable(
    Row(r"(data|constants)\.pkl", Role.OBJECTS),
    Row(r"code/.*\.py", Role.CODE),
    Row(r"code/.*\.py\.debug_pkl|delegated_backends\.debug_pkl", Role.DEBUG),
    # torch wrote ``constants/0.storage`` once.
    Row(r"(data|constants|bytecode)/[0-9]+(\.storage)?", Role.TENSORS),
    Row(r"bytecode\.pkl", Role.BYTECODE),
    Row(r"(mobile_debug_handles|callstack_debug_map)\.pkl", Role.DEBUG),
    Row(r"traced_inputs\.pkl", Role.INPUT_PICKLE),
    Row(r"traced_inputs/[0-9]+", Role.INPUTS),
    ZIP_NOTES,
    Row(r"extra/.+", Role.EXTRA, Reader.USER),
)


class _TorchScript(ZipFormat):
    kind = saved_kind = "torchscript"
    title = "TorchScript"
    suffixes = (".pt", ".pth", ".ts")
    conversion = "printing TorchScript code"
    what_it_is = "a TorchScript archive"
    what_to_do = "tsarchive.load reads it"
    has_code = True
    has_releases = True
    importer_moves_code = True
    loads_lazily = True

    def fits(self, names: Collection[str]) -> bool:
        return "constants.pkl" in names and "data.pkl" in names

    def table(self, opened: object) -> RecordTable:
        return _TABLE

    def view(self, opened: Container) -> View:
        from .inspection import TorchScriptView

        return TorchScriptView(opened)

    def compatibility(self, opened: Container, releases: Sequence[Release]) -> Compatibility:
        from .compatibility import compatibility

        return compatibility(opened, releases)

    def plan(self, opened: Container, release: Release) -> Plan:
        from .compatibility import plan

        return plan(opened, release)

    def remaining_tensors(self, container: Container) -> Iterator[tuple[str, TensorInfo]]:
        from .inspection import tensors_of_pickles

        return tensors_of_pickles(container)

    def contents(self, opened: Container) -> Contents:
        from .contents import TorchScriptContents

        return TorchScriptContents(opened)

    def moved(self, opened: Container, map_location: str) -> Container:
        from .devices import moved_archive

        return moved_archive(opened, map_location).container

    def importer(self, opened: Container, options: LoadOptions) -> Importer:
        from .importer import Importer

        return Importer(
            opened, options.device, options.guard, options.tensors_on,
            infers_foreign=options.infers_foreign, lazy=options.lazy,
        )  # fmt: skip

    def makes_classes(self, name: str) -> bool:
        return name != "data.pkl" and not name.startswith("data/")

    def in_place_of_objects(self) -> Iterable[NewRecord]:
        from tsarchive.container import NewRecord
        from tsarchive.pickler import dumps

        return (NewRecord("data.pkl", dumps(None)),)

    def records(self, module: Any, options: SaveOptions) -> list[NewRecord]:
        if is_loaded(module):
            return self._loaded_records(module, options)
        from .saving import canonical_module_records, module_records  # without what runs code

        if options.canonical:
            return canonical_module_records(module, options.files)
        return module_records(module, options.files, debug=options.debug)

    def _loaded_records(self, module: ArchiveModule, options: SaveOptions) -> list[NewRecord]:
        from .saving_loaded import canonical_form, loaded_records

        if options.canonical:
            return canonical_form(module, options.files)
        return loaded_records(module, options.files, debug=options.debug)

    def warn(self, module: Any, records: list[NewRecord]) -> None:
        if is_loaded(module):
            from .kept_code import warn_without_bytecode

            warn_without_bytecode(module)
        else:
            from .saving import warn_if_optimized

            warn_if_optimized(records)

    def convert(
        self,
        module: ArchiveModule,
        source: Format,
        dst: str | os.PathLike[str],
        example: Example,
        release: Release | None,
        options: SaveOptions,
    ) -> Written:
        from tsarchive.container import write_container
        from tsarchive.formats.requests import Written
        from tsarchive.operators.releases import newest_release

        from .retargeting import retargeted, this_process

        classes = module.tsarchive_classes
        records, container = self._scripted(module, source, options)
        given = container or classes.container
        found = retargeted(
            given,
            records,
            release or newest_release(),
            keeps_unread=release is None,
            process=this_process(given, classes.enforcement.guard),
        )
        root = CANONICAL_ROOT if options.canonical else None
        write_container(dst, found.records, root=root)
        return Written(found.rewritten, found.left_out)

    def _scripted(
        self, module: ArchiveModule, source: Format, options: SaveOptions
    ) -> tuple[list[NewRecord], Container | None]:
        """Return the records of a module, and their code where the module is of other code."""
        from tsarchive.formats.requests import SaveOptions

        if source is self:
            records = self.saved_records(module, options)
            return records, _container_of(records) if options.canonical else None
        if isinstance(source, ZipFormat) and source.saved_kind == self.kind:
            records = source.saved_records(module, SaveOptions({}))
        else:
            with not_collecting():
                records = source.scripted_records(module)
        container = _container_of(records)
        if options == SaveOptions({}):
            return records, container
        guard = module.tsarchive_classes.enforcement.guard
        again = self.importer(container, LoadOptions(None, guard)).load()
        records = self.saved_records(again, options)
        return records, _container_of(records)

    def graph_report(
        self,
        saved: Container,
        read: Container | None,
        map_location: str | torch.device | None,
        guard: Guard,
        *,
        is_live: bool,
    ) -> GraphReport:
        from .reprinting import graph_report

        return graph_report(saved, map_location, guard, is_own=is_live or None)

    def check(self, container: Container, findings: Findings, damaged: Collection[str]) -> Check:
        from .verifying.checking import TorchScriptCheck

        return TorchScriptCheck(container, _TABLE, findings, damaged)

    def describe(self, archive: OpenedArchive, file: str, nbytes: int) -> Facts:
        from .inspection import torchscript_facts

        return torchscript_facts(archive, file, nbytes, _TABLE, has_unnamed_classes=False)


def _container_of(records: list[NewRecord]) -> Container:
    from tsarchive.container import Container, write_container

    stream = io.BytesIO()
    write_container(stream, records)
    stream.seek(0)
    return Container.open(stream)


TORCHSCRIPT: Final = _TorchScript()
