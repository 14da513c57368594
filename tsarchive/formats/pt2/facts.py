"""The facts of a PT2 archive, without torch; its example inputs are described, not unpickled."""

from __future__ import annotations

from dataclasses import replace

from tsarchive.describing.contents import ModuleInfo
from tsarchive.describing.facts import ExportedFacts, Facts, ModelFacts, ObjectFacts
from tsarchive.describing.hints import advice
from tsarchive.errors import PickleError
from tsarchive.formats.archive import OpenedArchive
from tsarchive.formats.description import tensor_facts, zip_facts
from tsarchive.formats.records import RecordTable
from tsarchive.formats.torchscript.pickled import MAX_DEPTH
from tsarchive.formats.torchscript.stored_tensors import DenseTensor
from tsarchive.pickler import Object, Reduce, Value

from .formatting import expression
from .listing import range_text
from .metadata import graphs_in
from .payloads import PickledPayload, Saved, compiled
from .records import EXECUTORCH, Records
from .view import Pt2View

_MOST_LETTERS = 10_000


def sample_inputs(records: Records, model: str) -> str | None:
    """Return the types of the arguments: ``(float32[2, 4], scale=float)``.

    None where there are none. Raises PickleError for pickles that the restricted reader refuses,
    and FormatError and MissingRecordError where the record is damaged.
    """
    record = records.inputs_record(model)
    if not records.container.size(record):
        return None
    saved = Saved(records.container, record)
    match saved.root:
        case (tuple() | list() as args, dict() as kwargs):
            shown = [_shown(saved, value, 0) for value in args]
            shown += [f"{_key(key)}={_shown(saved, value, 0)}" for key, value in kwargs.items()]
            return _short(f"({', '.join(shown)})")
        case value:
            return _short(_shown(saved, value, 0))


def _shown(saved: Saved, value: Value, depth: int) -> str:
    """Return a value's type as text: shapes of tensors, items of containers."""
    if depth > MAX_DEPTH:
        raise PickleError("values are nested too deeply", record=saved.record, limit=MAX_DEPTH)
    match value:
        case Reduce():
            return _call(saved, value)
        case Object(cls):
            return cls.qualified_name
        case tuple() | list():
            inside = ", ".join(_shown(saved, item, depth + 1) for item in value)
            return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
        case dict():
            pairs = ((_key(key), _shown(saved, item, depth + 1)) for key, item in value.items())
            return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
    return "None" if value is None else type(value).__name__


def _call(saved: Saved, value: Reduce) -> str:
    """Return a tensor as type and shape; another object as the function that makes it."""
    try:
        found = saved.tensor(value)
    except PickleError:
        return value.function.qualified_name
    if not isinstance(found, DenseTensor):
        return value.function.qualified_name
    return f"{found.view.storage.dtype}[{', '.join(map(str, found.view.size)) or '()'}]"


def _key(key: Value) -> str:
    return str(key) if isinstance(key, str | int | float) else type(key).__name__


def _short(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."


def pt2_facts(archive: OpenedArchive, file: str, nbytes: int, table: RecordTable) -> Facts:
    """Everything about a PT2 archive. Raises ArchiveError where it breaks a rule."""
    return replace(
        zip_facts(archive, file, nbytes, table),
        exported=_exported_facts(archive),
        tensors=tensor_facts(archive) if archive.view.has_tensors else None,
    )


def _exported_facts(archive: OpenedArchive) -> ExportedFacts:
    view = archive.view
    assert isinstance(view, Pt2View)
    records = view.records
    return ExportedFacts(
        layout=records.layout.value,
        models=tuple(_model(view.only(name), name) for name in view.models),
        compiled=tuple(compiled(records, name) for name in records.compiled),
        executorch={
            name.removeprefix(EXECUTORCH): archive.records[name].size
            for name in records.under(EXECUTORCH)
        },
        extra={
            name: archive.records[record].size for name, record in records.extra_files().items()
        },
    )


def _model(view: Pt2View, name: str) -> ModelFacts:
    """The facts of the one model that is shown."""
    needs, tree = view.needs(), view.tree()
    program = view.program(name)
    infos = [info for _, info in view.tensors()]
    version = program.schema_version
    inputs, problem = _inputs(view, name)
    return ModelFacts(
        name=name,
        main_class=tree.qualified_class,
        schema_version=f"{version.major}.{version.minor}",
        torch_version=program.torch_version,
        opset=program.opset_version,
        verifiers=tuple(program.verifiers),
        signature=view.signature(name),
        modules=_count(tree),
        nodes=sum(len(graph.nodes) for graph in graphs_in(program.graph_module.graph)),
        graphs=sum(1 for _ in graphs_in(program.graph_module.graph)),
        operators=view.operators_of(name),
        needs={needed: advice(needed) for needed in needs.foreign},
        parameters=sum(info.is_parameter for info in infos),
        buffers=sum(info.is_buffer for info in infos),
        constants=sum(not (info.is_parameter or info.is_buffer) for info in infos),
        ranges={
            expression(symbol): range_text(constraint)
            for symbol, constraint in program.range_constraints.items()
        },
        guards=tuple(program.guards_code),
        objects=tuple(_objects(view, name)),
        sample_inputs=inputs,
        sample_inputs_problem=problem,
    )


def _count(module: ModuleInfo) -> int:
    return 1 + sum(map(_count, module.children))


def _objects(view: Pt2View, model: str) -> list[ObjectFacts]:
    return [
        ObjectFacts(name, payload.kind.value, payload.class_name, payload.record)
        for name, payload in view.payloads(model).items()
        if isinstance(payload, PickledPayload)
    ]


def _inputs(view: Pt2View, model: str) -> tuple[str | None, str | None]:
    try:
        return sample_inputs(view.records, model), None
    except PickleError as error:
        return None, error.message
