"""The facts of a PT2 archive, without torch and without unpickling."""

from __future__ import annotations

from dataclasses import replace

from tsarchive.describing.contents import ModuleInfo, TensorInfo
from tsarchive.describing.facts import ExportedFacts, Facts, ModelFacts, ObjectFacts
from tsarchive.describing.hints import advice
from tsarchive.errors import PickleError
from tsarchive.formats.archive import OpenedArchive
from tsarchive.formats.description import tensor_facts, zip_facts
from tsarchive.formats.records import RecordTable

from .compiled import compiled
from .formatting import expression
from .listing import range_text
from .looking import Pt2View
from .metadata import graphs_in
from .payloads import PickledPayload
from .records import EXECUTORCH, EXTRA, FLAT_EXTRA
from .samples import sample_inputs


def pt2_facts(archive: OpenedArchive, file: str, nbytes: int, table: RecordTable) -> Facts:
    """Everything about a PT2 archive. Raises ArchiveError where it breaks a rule."""
    return replace(
        zip_facts(archive, file, nbytes, table),
        exported=_exported_facts(archive),
        tensors=tensor_facts(archive) if archive.view.has_tensors else None,
    )


def _exported_facts(archive: OpenedArchive) -> ExportedFacts:
    door = archive.view
    assert isinstance(door, Pt2View)
    records = door.records
    return ExportedFacts(
        layout=records.layout.value,
        models=tuple(_model(door.only(name), name) for name in door.models),
        compiled=tuple(compiled(records, name) for name in records.compiled),
        executorch=_files(archive, EXECUTORCH),
        extra={**_files(archive, EXTRA), **_files(archive, FLAT_EXTRA)},
    )


def _files(archive: OpenedArchive, folder: str) -> dict[str, int]:
    return {
        name.removeprefix(folder): record.size
        for name, record in archive.records.items()
        if name.startswith(folder)
    }


def _model(door: Pt2View, name: str) -> ModelFacts:
    """The facts of the one model that is shown."""
    needs, tree = door.needs(), door.tree()
    program = door.program(name)
    infos = [info for _, info in door.tensors()]
    version = program.schema_version
    inputs, problem = _inputs(door, name)
    return ModelFacts(
        name=name,
        main_class=tree.qualified_class,
        schema_version=f"{version.major}.{version.minor}",
        torch_version=program.torch_version,
        opset=program.opset_version,
        verifiers=tuple(program.verifiers),
        signature=door.signature(name),
        modules=_count(tree),
        nodes=sum(len(graph.nodes) for graph in graphs_in(program.graph_module.graph)),
        graphs=sum(1 for _ in graphs_in(program.graph_module.graph)),
        operators=door.operators_of(name),
        needs={needed: advice(needed) for needed in needs.foreign},
        parameters=sum(info.is_parameter for info in infos),
        buffers=sum(info.is_buffer for info in infos),
        constants=sum(not _is_weight(info) for info in infos),
        ranges={
            expression(symbol): range_text(constraint)
            for symbol, constraint in program.range_constraints.items()
        },
        guards=tuple(program.guards_code),
        objects=tuple(_objects(door, name)),
        sample_inputs=inputs,
        sample_inputs_problem=problem,
    )


def _count(module: ModuleInfo) -> int:
    return 1 + sum(map(_count, module.children))


def _is_weight(info: TensorInfo) -> bool:
    return info.is_parameter or info.is_buffer


def _objects(door: Pt2View, model: str) -> list[ObjectFacts]:
    return [
        ObjectFacts(name, payload.kind.value, payload.class_name, payload.record)
        for name, payload in door.payloads(model).items()
        if isinstance(payload, PickledPayload)
    ]


def _inputs(door: Pt2View, model: str) -> tuple[str | None, str | None]:
    try:
        return sample_inputs(door.records, model), None
    except PickleError as error:
        return None, error.message
