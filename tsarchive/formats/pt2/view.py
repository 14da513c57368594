"""A PT2 archive opened without torch: its signature, tensors, modules, operators, needs, facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, TypeVar

from tsarchive.container import Container as ZipContainer
from tsarchive.describing.contents import (
    Facts,
    ModuleInfo,
    Needs,
    Role,
    StorageInfo,
    TensorInfo,
)
from tsarchive.describing.exported import ExportedFacts, ModelFacts, ObjectFacts
from tsarchive.describing.text import advice
from tsarchive.describing.written import WrittenBy, as_told
from tsarchive.errors import (
    ArchiveError,
    FormatError,
    MissingRecordError,
    PickleError,
    UnsupportedError,
)
from tsarchive.formats.base import OpenedArchive, View, tensor_facts, zip_facts
from tsarchive.formats.records import RecordTable
from tsarchive.formats.torchscript.inspection import MAX_NAMES
from tsarchive.formats.torchscript.pickled import MAX_DEPTH
from tsarchive.formats.torchscript.stored_tensors import DenseTensor
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.pickler import Object, Reduce, Value

from .listing import Listings, expression, range_text, signature
from .metadata import ModulePlace, graphs_in, nodes_of, operator_name, places
from .payloads import (
    Configured,
    Payload,
    PickledPayload,
    Saved,
    StoredView,
    compiled,
    stored_payloads,
    stored_weights,
)
from .quantized_decomposed import FUNCTIONS
from .records import (
    CONSTANTS,
    EXECUTORCH,
    FLAT_STATES,
    MODELS,
    WEIGHTS,
    Records,
    config_name,
)
from .schema import DTYPES, ExportedProgram, TensorMeta, device_name

if TYPE_CHECKING:
    from tsarchive.frontend import CodeImporter

Item = TypeVar("Item")
# For modules of unknown class.
_UNKNOWN = "torch.nn.Module"


@dataclass(slots=True)
class _Module:
    children: dict[str, _Module] = field(default_factory=dict)
    class_name: str = _UNKNOWN
    parameters: int = 0
    nbytes: int = 0


class _Tree:
    def __init__(self, record: str) -> None:
        self.root = _Module()
        self.record = record
        self.count = 1

    def at(self, path: str) -> _Module:
        """Return the module of this dotted name, creating it and its parents where needed."""
        found = self.root
        parts = path.split(".") if path else []
        if len(parts) > MAX_DEPTH:
            raise FormatError("a name has too many parts", record=self.record, limit=MAX_DEPTH)
        for part in parts:
            if part not in found.children:
                self.count += 1
                if self.count > MAX_NAMES:
                    raise FormatError("too many modules", record=self.record, limit=MAX_NAMES)
                found.children[part] = _Module()
            found = found.children[part]
        return found


def module_tree(
    name: str, tensors: Mapping[str, TensorInfo], places: Iterable[ModulePlace], record: str
) -> ModuleInfo:
    """Return the tree below the root, which gets ``name``. ``record`` is that of the program.

    Raises FormatError where there are too many modules, or names have too many parts.
    """
    tree = _Tree(record)
    for tensor, info in tensors.items():
        module = tree.at(tensor.rpartition(".")[0])
        module.nbytes += info.nbytes
        module.parameters += prod(info.shape) if info.is_parameter else 0
    for place in places:
        tree.at(place.path).class_name = place.class_name
    return _info(name, tree.root, ("forward",))


def _info(name: str, module: _Module, methods: tuple[str, ...] = ()) -> ModuleInfo:
    children = tuple(_info(key, child) for key, child in module.children.items())
    return ModuleInfo(name, module.class_name, methods, module.parameters, module.nbytes, children)


# Namespaces outside operator libraries: Python's own operators, and higher-order ones.
_PYTHON = ("_operator", "math", "builtins")

_HIGHER_ORDER = "higher_order"
# Operators of a torch library that are implemented as code here.
_WRITTEN = frozenset(kind for kind, _ in FUNCTIONS)
# The first record present counts.
_VERSIONS = ("archive_version", "version")
_INCOMPLETE = "The file may be incomplete"


class Pt2View(View):
    """The parts of an open archive, each read on demand.

    With several models, each name is prefixed by that of its model.
    """

    has_listings = True

    def __init__(self, records: Records) -> None:
        self.records = records
        self.models: tuple[str, ...] = records.models
        self._container = records.container
        self._payloads: dict[str, dict[str, Payload]] = {}

    def only(self, model: str) -> Pt2View:
        """Restrict to one model. Raises MissingRecordError when there is none of this name."""
        if model not in self.models:
            raise self.records.missing(model)
        chosen = copy(self)
        chosen.models = (model,)
        return chosen

    @property
    def has_modules(self) -> bool:
        """Return whether there is a program."""
        return bool(self.models)

    @property
    def has_tensors(self) -> bool:
        """Return whether tensors can be listed, also those beside compiled code."""
        return bool(self.models or self.beside_code())

    @property
    def format_version(self) -> int:
        """The number in archive_version.

        For files before torch 2.8, the major version of the schema, from their version record.
        """
        name = next((name for name in _VERSIONS if name in self._container.records), None)
        if name is None:
            raise MissingRecordError(
                "the archive has no version", record=_VERSIONS[0], hint=_INCOMPLETE
            )
        text = self._container.read(name).strip().partition(b".")[0]
        if not (text.isdigit() and len(text) < 10):
            raise FormatError(f"the version is {text[:20]!r}, not a number", record=name)
        return int(text)

    @property
    def code(self) -> Listings:
        """A listing of each program."""
        return Listings(self.records, self.models, sources=False)

    @property
    def sourced_code(self) -> Listings:
        """Listings with lines of user source."""
        return Listings(self.records, self.models, sources=True)

    @property
    def classes(self) -> CodeImporter:
        raise _no_code()

    @property
    def root(self) -> Object:
        raise _no_code()

    def program(self, model: str) -> ExportedProgram:
        return self.records.program(model)

    def signature(self, model: str) -> str:
        """Return the signature: ``forward(x: float32[s77, 4]) -> float32[s77, 3]``."""
        return signature(self.program(model))

    def payloads(self, model: str) -> dict[str, Payload]:
        """Return weights and constants by name. Raises what ``stored_payloads`` raises."""
        found = self._payloads.get(model)
        if found is None:
            weights, constants = (
                stored_payloads(self.records, folder, model) for folder in FLAT_STATES
            )
            found = self._payloads[model] = weights | constants
        return found

    def tensors(self) -> Iterator[tuple[str, TensorInfo]]:
        """Yield every tensor by its dotted name, pickled ones as far as their configuration tells.

        Weights beside compiled code belong to no program. Raises MissingRecordError where there is
        neither a program nor such weights.
        """
        beside = self.beside_code()
        if not beside:
            self.require_models()
        found = [(model, self.tensors_of(model)) for model in self.models]
        found += [(model, _infos(self._container, payloads)) for model, payloads in beside.items()]
        return _prefixed(found)

    def named_payloads(self) -> Iterator[tuple[str, Payload]]:
        """Yield weights and constants of all models by the names that ``tensors`` uses."""
        found = [(model, self.payloads(model)) for model in self.models]
        found += self.beside_code().items()
        return _prefixed([(model, payloads.items()) for model, payloads in found])

    def beside_code(self) -> dict[str, dict[str, Payload]]:
        """Return the weights stored beside compiled code, by model and name.

        None where one program was chosen. Raises what ``stored_weights`` raises.
        """
        if self.models != self.records.models:
            return {}
        found = {model: stored_weights(self.records, model) for model in self.records.compiled}
        return {model: payloads for model, payloads in found.items() if payloads}

    def tensors_of(self, model: str) -> Iterator[tuple[str, TensorInfo]]:
        """Yield the tensors of one model, by their names in it."""
        specs = self.program(model).graph_module.signature.input_specs
        buffers = {spec.target for spec in specs if spec.tag == "buffer"}
        return _infos(self._container, self.payloads(model), buffers)

    def tree(self) -> ModuleInfo:
        """Return the modules of the model; of several models, below a common root.

        Raises MissingRecordError where there is no program.
        """
        self.require_models()
        trees = [self._tree(model) for model in self.models]
        return trees[0] if len(trees) == 1 else ModuleInfo("", "", (), 0, 0, tuple(trees))

    def signed_tree(self) -> ModuleInfo:
        """The same, where the root of each model has the signature of its method."""
        root = self.tree()
        if len(self.models) == 1:
            return replace(root, methods=(self.signature(self.models[0]),))
        signed = (replace(child, methods=(self.signature(child.name),)) for child in root.children)
        return replace(root, children=tuple(signed))

    def require_code(self) -> None:
        """Raise MissingRecordError if there is no program."""
        self.require_models()

    def require_models(self) -> None:
        """Raise MissingRecordError, saying what the archive has instead, if it has no program."""
        if self.models:
            return
        others = {
            "machine code of AOTInductor": self.records.compiled,
            "programs of ExecuTorch": tuple(self.records.under(EXECUTORCH)),
        }
        found = " and ".join(what for what, names in others.items() if names)
        raise MissingRecordError(
            "the archive has no exported program",
            record=MODELS,
            hint=f"It has {found}, which 'tsarchive info' lists" if found else _INCOMPLETE,
        )

    def _tree(self, model: str) -> ModuleInfo:
        name = model if len(self.models) > 1 else ""
        graph = self.program(model).graph_module.graph
        record = self.records.program_record(model)
        return module_tree(name, dict(self.tensors_of(model)), places(graph), record)

    def operators_of(self, model: str) -> dict[str, int]:
        """Count the nodes that call each operator, by qualified name without overload."""
        nodes = nodes_of(self.program(model).graph_module.graph)
        return dict(Counter(operator_name(node.target) for node in nodes))

    def operators(self) -> dict[str, int]:
        """Count the nodes of all models that call each operator."""
        return dict(sum((Counter(self.operators_of(m)) for m in self.models), Counter[str]()))

    def written_by(self, archive: OpenedArchive) -> WrittenBy | None:
        """Return the torch that the programs name, None where they name several or none."""
        told = {self.program(model).torch_version for model in self.models}
        return as_told(told.pop()) if len(told) == 1 else None

    def needs(self) -> Needs:
        """Return the operators of libraries and the torchbind classes that the models need."""
        operators = self.operators()
        classes = {name for model in self.models for name in _native_classes(self.program(model))}
        own = (f"{_HIGHER_ORDER}::", *(f"{name}." for name in _PYTHON), "torch.")
        needed = {
            name: n
            for name, n in operators.items()
            if not name.startswith(own) and name not in _WRITTEN
        }
        return Needs(needed, tuple(sorted(classes)))

    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        found = self._views.get(name)
        if found is None:
            raise UnsupportedError("its elements are pickled in a way of their own")
        if not found.has_data:
            raise UnsupportedError("it was saved without its elements")
        return found.storage.data()[info.offset :]

    @cached_property
    def _views(self) -> dict[str, StoredView]:
        named = self.named_payloads()
        return {name: payload for name, payload in named if isinstance(payload, StoredView)}


def _prefixed(
    found: Sequence[tuple[str, Iterable[tuple[str, Item]]]],
) -> Iterator[tuple[str, Item]]:
    """Yield what each model has, by names that begin with that of the model if there are others."""
    for model, named in found:
        prefix = f"{model}." if len(found) > 1 else ""
        for name, item in named:
            yield f"{prefix}{name}", item


def _no_code() -> UnsupportedError:
    return UnsupportedError(
        "a PT2 archive has no TorchScript classes and no pickled root",
        hint="'tsarchive code' lists its program, 'tsarchive tree' its modules",
    )


def _native_classes(program: ExportedProgram) -> Iterator[str]:
    """Yield the torchbind classes of a program's objects."""
    for spec in program.graph_module.signature.input_specs:
        if spec.tag == "custom_obj" and spec.value.arg.class_fqn.startswith(NATIVE_PREFIX):
            yield spec.value.arg.class_fqn.removeprefix(NATIVE_PREFIX)


def tensors_of_configurations(container: ZipContainer) -> Iterator[tuple[str, TensorInfo]]:
    """Yield the tensors that configurations name, also where their records are lost."""
    for folder in (WEIGHTS, CONSTANTS):
        suffix = config_name(folder, "").removeprefix(folder)
        for record in [name for name in container.records if name.endswith(suffix)]:
            described = Records(container).payload_config(record).config
            reader = Configured(container, folder, record)
            for name, meta in described.items():
                try:
                    yield from _infos(container, {name: reader.payload(name, meta)})
                except MissingRecordError:
                    lost = StorageInfo(f"{folder}{meta.path_name}", 0, 0)
                    yield from _lost_tensor(name, lost, meta.tensor_meta)
                except ArchiveError:
                    continue


def _lost_tensor(
    name: str, storage: StorageInfo, meta: TensorMeta | None
) -> Iterator[tuple[str, TensorInfo]]:
    found = None if meta is None else _pickled_info(storage, meta, "attribute")
    if found is not None:
        yield name, found


def _infos(
    container: ZipContainer, payloads: Mapping[str, Payload], buffers: Container[str | None] = ()
) -> Iterator[tuple[str, TensorInfo]]:
    """Yield tensors, without payloads that only a pickle describes."""
    for name, payload in payloads.items():
        role: Role = "buffer" if name in buffers else "attribute"
        if payload.is_parameter:
            role = "parameter"
        if isinstance(payload, StoredView):
            yield name, _dense_info(payload, role)
        elif payload.meta is not None:
            size = container.size(payload.record) or 0
            info = _pickled_info(StorageInfo(payload.record, 0, size), payload.meta, role)
            if info is not None:
                yield name, info


def _dense_info(view: StoredView, role: Role) -> TensorInfo:
    storage = view.storage
    return TensorInfo(
        dtype=DTYPES[view.dtype].dtype,
        shape=view.shape,
        strides=view.strides,
        storage=storage.name,
        nbytes=view.nbytes,
        role=role,
        storages=(StorageInfo(storage.name, 0, storage.nbytes),),
        device=view.device,
        offset=view.offset * DTYPES[view.dtype].itemsize,
    )


def _pickled_info(storage: StorageInfo, meta: TensorMeta, role: Role) -> TensorInfo | None:
    """Describe a pickled tensor by its configuration; None where that has no sizes."""
    sizes = [*meta.sizes, *meta.strides]
    if meta.dtype not in DTYPES or any(size.tag != "as_int" for size in sizes):
        return None
    dtype, shape = DTYPES[meta.dtype], tuple(size.value for size in meta.sizes)
    return TensorInfo(
        dtype=dtype.dtype,
        shape=shape,
        strides=tuple(stride.value for stride in meta.strides),
        storage=storage.record,
        nbytes=prod(shape) * dtype.itemsize,
        role=role,
        storages=(storage,),
        device=device_name(meta.device),
    )


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
    inputs = problem = None
    try:
        inputs = sample_inputs(view.records, name)
    except PickleError as error:
        problem = error.message
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
        objects=tuple(
            ObjectFacts(one, payload.kind.value, payload.class_name, payload.record)
            for one, payload in view.payloads(name).items()
            if isinstance(payload, PickledPayload)
        ),
        sample_inputs=inputs,
        sample_inputs_problem=problem,
    )


def _count(module: ModuleInfo) -> int:
    return 1 + sum(map(_count, module.children))
