"""The facts of a PT2 archive, without torch and without unpickling."""

from __future__ import annotations

from tsarchive.archive import Archive
from tsarchive.describing.advice import advice
from tsarchive.describing.facts import ExportedFacts, ModelFacts, ObjectFacts
from tsarchive.errors import PickleError
from tsarchive.pt2.compiled import compiled
from tsarchive.pt2.formatting import expression
from tsarchive.pt2.listing import range_text
from tsarchive.pt2.looking import Pt2Door
from tsarchive.pt2.metadata import graphs_in
from tsarchive.pt2.payloads import PickledPayload
from tsarchive.pt2.records import EXECUTORCH, EXTRA, FLAT_EXTRA
from tsarchive.pt2.samples import sample_inputs
from tsarchive.torchscript.inspection import ModuleInfo
from tsarchive.torchscript.tensor_infos import TensorInfo


def exported_facts(archive: Archive) -> ExportedFacts:
    """Everything but tensors. Raises ArchiveError where the archive breaks a rule."""
    door = archive.exported
    records = door.records
    return ExportedFacts(
        layout=records.layout.value,
        models=tuple(_model(archive.only(name), name) for name in door.models),
        compiled=tuple(compiled(records, name) for name in records.compiled),
        executorch=_files(archive, EXECUTORCH),
        extra={**_files(archive, EXTRA), **_files(archive, FLAT_EXTRA)},
    )


def _files(archive: Archive, folder: str) -> dict[str, int]:
    return {
        name.removeprefix(folder): record.size
        for name, record in archive.records.items()
        if name.startswith(folder)
    }


def _model(archive: Archive, name: str) -> ModelFacts:
    """The facts of the one model that the archive shows."""
    door, needs, tree = archive.exported, archive.needs, archive.tree()
    program = door.program(name)
    infos = archive.tensors.values()
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
        operators=door.operators(name),
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


def _objects(door: Pt2Door, model: str) -> list[ObjectFacts]:
    return [
        ObjectFacts(name, payload.kind.value, payload.class_name, payload.record)
        for name, payload in door.payloads(model).items()
        if isinstance(payload, PickledPayload)
    ]


def _inputs(door: Pt2Door, model: str) -> tuple[str | None, str | None]:
    try:
        return sample_inputs(door.records, model), None
    except PickleError as error:
        return None, error.message
