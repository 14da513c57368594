"""PT2 archives as they are written: programs of torch.export, and modules that were loaded.

torch converts its graph to JSON; process-dependent parts of that JSON are removed. Weights are
written directly from memory: a record holds a whole storage, and tensors of one dtype that share
it share the record. Of a loaded module, data are new, and everything else is as it was read;
archives of layouts before torch 2.9 are written in the current layout. A loaded program is written
as a TorchScript archive, too.

torch's own loader unpickles what a file tells it to, so for torch.export it is given records that
were read and checked here, of one model, with nothing pickled among them.
"""

from __future__ import annotations

import importlib
import inspect
import io
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeGuard

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram

from tsarchive.container import Container, NewRecord, write_container
from tsarchive.errors import SaveError, UnsupportedError
from tsarchive.formats.base import as_read
from tsarchive.formats.torchscript.tensors import storage_bytes
from tsarchive.ir.graph import Block, Node, walk
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import ANY, COMPOSITE, DictType, ListType, TupleType, Type
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.natives.conversions import LAYOUTS
from tsarchive.run.operators import operator_schemas
from tsarchive.run.packed import refuse_packed
from tsarchive.run.passes.alias_analysis import Aliases
from tsarchive.run.slots import get_slot

from . import schema
from .importer import Tensors
from .metadata import make_stable
from .payloads import Payload, StoredView, stored_payloads
from .program import Forward
from .pytrees import Kind
from .records import (
    CONSTANTS,
    EXTRA,
    FLAT_STATES,
    MODELS,
    SAMPLE_INPUTS,
    USUAL_NAME,
    WEIGHTS,
    Records,
    config_name,
)
from .records import Layout as ArchiveLayout
from .signature import TypedTree

_PICKLE_PROTOCOL = 2
_FORMAT = "archive_format"
_SCALAR_TYPES: dict[torch.dtype, schema.ScalarType] = {
    getattr(torch, name): number
    for name, number in schema.SCALAR_TYPES.items()
    if hasattr(torch, name)
}
_LAYOUTS: dict[torch.layout, schema.Layout] = {
    theirs: layout
    for layout in schema.Layout
    for theirs, number in LAYOUTS.items()
    if number == layout.number
}


class PayloadWriter:
    """Collects records of one folder, numbered across models.

    ``taken`` are names of records there that must not be used.
    """

    def __init__(self, folder: str, taken: Collection[str] = ()) -> None:
        self.folder = folder
        self.records: list[NewRecord] = []
        self._taken = taken
        self._numbers: dict[str, Iterator[int]] = {}
        self._used: set[str] = set()

    def take(self) -> list[NewRecord]:
        """Return the records of one model, and start collecting those of the next."""
        taken, self.records = self.records, []
        return taken

    def payloads(
        self,
        values: Mapping[str, Any],
        prefix: str,
        known: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, schema.PayloadMeta]:
        """Store the values of one model; return their metadata in torch's order.

        ``prefix`` is for records of tensors. ``known`` are names of the records that values had
        before, and keep. Raises SaveError for a value that is neither a tensor nor an object that
        torch stores, and for a tensor that oneDNN packed.
        """
        tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        found: dict[str, schema.PayloadMeta] = {}
        for name, tensor in tensors.items():
            refuse_packed(name, tensor, SaveError, "Convert")
            if not _is_fake(tensor) and type(tensor.data) is not torch.Tensor:
                record = self._add(prefix, _saved(tensor), known.get(name))
                found[name] = schema.PayloadMeta(
                    record, _is_parameter(tensor), True, tensor_meta(tensor)
                )
        raw = {name: tensor for name, tensor in tensors.items() if name not in found}
        for group in _groups(raw):
            before = (known[name] for name in group if name in known)
            again = next((record for record in before if record not in self._used), None)
            first = raw[group[0]]
            content = memoryview(b"") if _is_fake(first) else storage_bytes(first)
            record = self._add(prefix, content, again)
            for name in group:
                meta = tensor_meta(raw[name])
                found[name] = schema.PayloadMeta(record, _is_parameter(raw[name]), False, meta)
        for name, value in values.items():
            if name not in tensors:
                record = self._add(*_object(name, value), known.get(name))
                found[name] = schema.PayloadMeta(record, False, True, None)
        return found

    def _add(self, prefix: str, data: bytes | memoryview, name: str | None) -> str:
        if not name:
            numbers = self._numbers.setdefault(prefix, count())
            names = (f"{prefix}{number}" for number in numbers)
            name = next(free for free in names if free not in self._taken)
        self._used.add(name)
        self.records.append(NewRecord(f"{self.folder}{name}", data))
        return name


def tensor_meta(tensor: torch.Tensor) -> schema.TensorMeta:
    """Return the metadata of a tensor.

    Raises SaveError for a dtype without a number in the format.
    """
    dtype = _SCALAR_TYPES.get(tensor.dtype)
    if dtype is None:
        raise SaveError(f"the format has no number for {tensor.dtype}")
    is_strided = tensor.layout == torch.strided
    return schema.TensorMeta(
        dtype,
        _numbers(tensor.shape),
        tensor.requires_grad,
        schema.Device(tensor.device.type, tensor.device.index),
        _numbers(tensor.stride() if is_strided else ()),
        schema.SymInt("as_int", tensor.storage_offset() if is_strided else 0),
        _LAYOUTS[tensor.layout],
    )


def _numbers(sizes: Any) -> list[schema.SymInt]:
    return [schema.SymInt("as_int", size) for size in sizes]


def _groups(tensors: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """Group names of tensors that share a record; all fake ones of a dtype do."""
    groups: dict[tuple[int | None, torch.dtype], list[str]] = {}
    for name, tensor in tensors.items():
        storage = None if _is_fake(tensor) else tensor.untyped_storage().data_ptr()
        groups.setdefault((storage, tensor.dtype), []).append(name)
    return list(groups.values())


def _object(name: str, value: Any) -> tuple[str, bytes]:
    """Return the kind of record for an object, and its content."""
    if isinstance(value, torch.ScriptObject):
        return "custom_obj_", torch._C._pickle_save(value)
    from torch._library.opaque_object import is_opaque_value

    if not is_opaque_value(value):
        raise SaveError(f"the constant {name!r} is a {type(value).__name__}, which has no record")
    return "opaque_obj_", pickle.dumps(value, protocol=_PICKLE_PROTOCOL)


def _saved(tensor: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    torch.save(tensor, buffer, pickle_protocol=_PICKLE_PROTOCOL)
    return buffer.getvalue()


def _is_parameter(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch.nn.Parameter)


def _is_fake(tensor: torch.Tensor) -> TypeGuard[FakeTensor]:
    return isinstance(tensor, FakeTensor)


def exported_records(
    programs: Mapping[str, ExportedProgram],
    files: Mapping[str, bytes],
    *,
    debug: bool,
    source_paths: bool,
) -> list[NewRecord]:
    """Return every record except the serialization id, which the container adds.

    Raises SaveError for a program that torch cannot write, or could not load again.
    """
    weights, constants = PayloadWriter(WEIGHTS), PayloadWriter(CONSTANTS)
    records: list[NewRecord] = []
    for name, program in programs.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise SaveError(
                f"{name!r} cannot be the name of a model: it is part of names of records"
            )
        stored = weights.payloads(program.state_dict, "weight_")
        records += [*weights.take(), config_record(WEIGHTS, name, stored)]
        stored = constants.payloads(program.constants, "tensor_")
        records += [*constants.take(), config_record(CONSTANTS, name, stored)]
        text, inputs = _serialized(program)
        found = schema.read_json(schema.ExportedProgram, text, f"{MODELS}{name}.json")
        make_stable(found.graph_module.graph, origins=debug, paths=source_paths)
        _check_objects(found, stored)
        _check_results(found.graph_module.graph)
        records.append(
            NewRecord(f"{MODELS}{name}.json", schema.write_json(found, unknown_fields()))
        )
        records.append(NewRecord(f"{SAMPLE_INPUTS}{name}.pt", inputs))
    return [*records, *extra_records(files), *end_records()]


def config_record(folder: str, model: str, payloads: dict[str, schema.PayloadMeta]) -> NewRecord:
    return NewRecord(config_name(folder, model), schema.write_json(schema.PayloadConfig(payloads)))


def extra_records(files: Mapping[str, bytes]) -> Iterator[NewRecord]:
    """Yield extra files in the given order."""
    return (NewRecord(f"{EXTRA}{name}", data) for name, data in files.items())


def end_records() -> list[NewRecord]:
    """Return the records that identify the file as a PT2 archive."""
    return [
        NewRecord(_FORMAT, b"pt2"),
        NewRecord("archive_version", b"0"),
        NewRecord(".data/version", b"6\n"),
        NewRecord("byteorder", b"little"),
    ]


@cache
def unknown_fields() -> schema.Fields:
    """Return the fields of the schema that the installed torch is too old to write."""
    from torch._export.serde import schema as theirs

    classes = [value for value in vars(schema).values() if isinstance(value, type)]
    return {
        ours.__name__: {field.name for field in fields(ours)}
        - {field.name for field in fields(getattr(theirs, ours.__name__))}
        for ours in filter(is_dataclass, classes)
        if not issubclass(ours, schema.Tagged)
        and is_dataclass(getattr(theirs, ours.__name__, None))
    }


def _serialized(program: ExportedProgram) -> tuple[bytes, bytes]:
    """Return a program as JSON, and its example inputs as torch stores them."""
    from torch._export.serde.serialize import SerializeError, serialize

    if not program.graph_signature.output_specs:
        raise SaveError("torch writes no program without results")
    known = inspect.signature(serialize).parameters
    without = {name: False for name in ("serialize_state_dict", "serialize_constants")}
    options: Any = {name: value for name, value in without.items() if name in known}
    try:
        found = serialize(program, **options)
    except (SerializeError, AssertionError, NotImplementedError, TypeError) as error:
        # It asserts on values without a JSON form; json and pickle raise TypeError.
        raise SaveError(f"torch cannot write the program: {error}") from error
    return found.exported_program, found.example_inputs


def _check_objects(
    program: schema.ExportedProgram, stored: Mapping[str, schema.PayloadMeta]
) -> None:
    """Raise SaveError for objects that only the graph names: torch writes them nowhere."""
    specs = program.graph_module.signature.input_specs
    objects = [spec.value for spec in specs if spec.tag == "custom_obj"]
    given = {one.custom_obj_name for one in objects}
    inputs = {one.arg.name for one in objects}
    values = program.graph_module.graph.custom_obj_values
    lost = sorted((given - stored.keys()) | (values.keys() - inputs - stored.keys()))
    if lost:
        raise SaveError(
            f"the object {lost[0]!r} is an argument in the graph, which PT2 archives do not store",
            hint="Make it an attribute of the module that is exported",
        )


def _check_results(graph: schema.Graph) -> None:
    """Raise SaveError for constants as results that torch.export.load does not read."""
    for output in graph.outputs:
        if output.tag == "as_string":
            raise SaveError(
                f"the program always gives the text {output.value!r}: torch.export writes such a "
                "result, and does not read it",
                hint="Leave it out of what forward returns",
            )


_NEWEST = schema.SchemaVersion(8, 20)
_FINGERPRINT = ".data/serialization_id"
_PREFIXES = {WEIGHTS: "weight_", CONSTANTS: "tensor_"}

State = dict[str, dict[str, Any]]


def resaved_records(
    module: ArchiveModule, files: Mapping[str, bytes], *, debug: bool, keeps_extras: bool = True
) -> list[NewRecord]:
    """Return every record except the serialization id.

    With ``keeps_extras``, extra files are kept unless replaced. Other models of the archive are
    written as they are. Raises SaveError for a part of a program, and for a tensor that differs in
    type or shape from the exported one.
    """
    forward = forward_of(module)
    records = Records(module.tsarchive_classes.container)
    model = records.model_of(forward.record)
    saving = _Saving(records, model, forward, debug)
    state = _state(module, forward, saving)
    written = saving.in_place if records.layout is ArchiveLayout.RAW else saving.converted
    extras = saving.kept_extras(files) if keeps_extras else ()
    return list(written(state, [*extras, *extra_records(files)]))


def forward_of(module: ArchiveModule) -> Forward:
    """Return the program of a module. Raises SaveError for a part of one."""
    forward: Forward | None = vars(type(module)).get("tsarchive_program")
    if forward is None:
        raise SaveError(
            f"{type(module).__name__} is a part of an exported program, which has one graph",
            hint="Save the module that tsarchive.load gave",
        )
    return forward


class _Saving:
    def __init__(self, records: Records, model: str, forward: Forward, debug: bool) -> None:
        self.records = records
        self.model = model
        self._forward = forward
        self._debug = debug

    @property
    def container(self) -> Container:
        return self.records.container

    def stored(self, model: str) -> dict[str, dict[str, Payload]]:
        return {folder: stored_payloads(self.records, folder, model) for folder in FLAT_STATES}

    def in_place(self, state: State, extras: list[NewRecord]) -> Iterator[NewRecord]:
        """Yield the records of the archive in their order, with the model's present state."""
        programs = {self.records.program_record(model): model for model in self.records.models}
        new: dict[str, list[NewRecord]] = {}
        dropped = {_FINGERPRINT, *self.records.under(EXTRA)}
        for folder in FLAT_STATES:
            config, written, replaced = self._folder(folder, state[folder])
            dropped |= replaced - {record.name for record in written}
            for record in written:
                place = record.name if record.name in replaced else config.name
                new.setdefault(place, []).append(record)
            new.setdefault(config.name, []).append(config)
        for name in self.container.records:
            if name == _FORMAT or name.startswith(EXTRA):
                yield from extras
                extras = []
            if name in new:
                yield from new[name]
            elif name in programs:
                yield NewRecord(name, self._text(programs[name]))
            elif name not in dropped:
                yield from as_read(self.container, [name])
        yield from extras

    def _folder(
        self, folder: str, values: dict[str, Any]
    ) -> tuple[NewRecord, list[NewRecord], set[str]]:
        """Return the configuration and records of a folder, and the names of those they replace."""
        configs = {
            name: self.records.payload_config(config_name(folder, name))
            for name in self.records.models
        }
        own = {name: meta.path_name for name, meta in configs.pop(self.model).config.items()}
        others = {meta.path_name for found in configs.values() for meta in found.config.values()}
        known = {name: path for name, path in own.items() if path not in others}
        names = {name.removeprefix(folder) for name in self.records.under(folder)}
        writer = PayloadWriter(folder, names)
        payloads = writer.payloads(values, _PREFIXES[folder], known)
        config = config_record(folder, self.model, payloads)
        return config, writer.records, {f"{folder}{path}" for path in known.values()}

    def converted(self, state: State, extras: list[NewRecord]) -> Iterator[NewRecord]:
        """Yield the archive in the current layout."""
        writers = {folder: PayloadWriter(folder) for folder in _PREFIXES}
        for model in self.records.models:
            values = state
            if model != self.model:
                values = {name: read_values(held) for name, held in self.stored(model).items()}
            for folder, writer in writers.items():
                payloads = writer.payloads(values[folder], _PREFIXES[folder])
                yield from writer.take()
                yield config_record(folder, model, payloads)
            yield NewRecord(f"{MODELS}{model}.json", self._text(model))
            inputs = self.records.inputs_record(model)
            data = self.container.read(inputs) if self.records.has(inputs) else b""
            yield NewRecord(f"{SAMPLE_INPUTS}{model}.pt", data)
        yield from extras
        yield from end_records()

    def kept_extras(self, files: Mapping[str, bytes]) -> Iterator[NewRecord]:
        """Yield the extra files of the archive that ``files`` do not replace."""
        for name, record in self.records.extra_files().items():
            if name not in files:
                yield NewRecord(f"{EXTRA}{name}", self.container.read(record))

    def _text(self, model: str) -> bytes:
        """Return a program as read, or encoded anew if it was moved, is old, or loses origins."""
        read = self.records.program(model)
        program = self._forward.program if model == self.model else read
        is_old = program.schema_version.major < _NEWEST.major
        if self._debug and program == read and not is_old:
            return self.container.read(self.records.program_record(model))
        text = schema.write_json(replace(program, schema_version=_NEWEST) if is_old else program)
        if self._debug:
            return text
        copied = schema.read_json(schema.ExportedProgram, text, MODELS)
        make_stable(copied.graph_module.graph, origins=False, paths=True)
        return schema.write_json(copied)


def read_values(payloads: Mapping[str, Payload]) -> dict[str, Any]:
    """Return stored tensors by name. Raises SaveError for what only a pickle describes."""
    views = {name: view for name, view in payloads.items() if isinstance(view, StoredView)}
    for name in payloads.keys() - views.keys():
        raise SaveError(
            f"{name!r} is pickled, so it cannot be moved to a record of its own",
            hint="torch.export.load and torch.export.save write it where you trust the file",
        )
    tensors = Tensors(views.values(), None)
    return {name: tensors.build(view) for name, view in views.items()}


def _state(module: ArchiveModule, forward: Forward, saving: _Saving) -> State:
    """Return the present state of the module, by folder and dotted name, in archive order."""
    stored = saving.stored(saving.model)
    held: State = {folder: {} for folder in FLAT_STATES}
    for state in forward.signature.states:
        value = _value_at(module, state.target)
        _check(state.target, value, stored[state.folder].get(state.target))
        held[state.folder][state.target] = value
    for folder, values in held.items():
        # The archive may hold what its program does not use.
        names = (*stored[folder], *(values.keys() - stored[folder].keys()))
        unused = {name: stored[folder][name] for name in stored[folder] if name not in values}
        values |= read_values(unused)
        held[folder] = {name: values[name] for name in names}
    return held


def _value_at(module: ArchiveModule, target: str) -> Any:
    *path, name = target.split(".")
    owner: Any = module
    try:
        for part in path:
            owner = get_slot(owner, type(owner).tsarchive_class.attributes[part])
        return get_slot(owner, type(owner).tsarchive_class.attributes[name])
    except (KeyError, AttributeError, AssertionError):
        raise SaveError(
            f"the attribute {target!r} is gone, or a module on the way to it was replaced",
            hint="A loaded module is saved with all that it was loaded with",
        ) from None


def _check(target: str, value: Any, payload: Payload | None) -> None:
    """Raise SaveError for a tensor of another shape or type than the program was exported for."""
    if not isinstance(payload, StoredView):
        return
    expected = schema.DTYPES[payload.dtype].dtype
    if not isinstance(value, torch.Tensor):
        raise SaveError(f"{target!r} is a {type(value).__name__}, not a tensor")
    if tuple(value.shape) != payload.shape or str(value.dtype) != f"torch.{expected}":
        raise SaveError(
            f"{target!r} is now of shape {tuple(value.shape)} and {value.dtype}; the program was "
            f"exported for {payload.shape} and torch.{expected}",
            hint="Export the changed model with torch.export",
        )


# TorchScript's ``view`` takes only sizes, so views as another dtype become copies, which are
# equivalent as long as neither the view nor its base is written to.
_VIEW, _OVERLOAD = "aten::view", "dtype"
_COPY = "aten::view_copy"


@contextmanager
def retyped_views_copied(graph: Block) -> Iterator[None]:
    """Have copies in the place of such views, and the graph as it was afterwards.

    Raises UnsupportedError where a view or its base may be written to after the view is made.
    """
    before: list[tuple[Node, str, FunctionSchema | None, Sequence[str]]] = []
    try:
        # Each becomes a copy before the next is looked for: a copy shares nothing with its base.
        for node in _copyable(graph):
            before.append((node, node.kind, node.schema, node.lost))
            schemas = operator_schemas(_COPY)
            node.kind, node.lost = _COPY, ()
            node.schema = next(found for found in schemas if found.overload == _OVERLOAD)
        yield
    finally:
        for node, kind, named, lost in before:
            node.kind, node.schema, node.lost = kind, named, lost


def _copyable(graph: Block) -> Iterator[Node]:
    for index, top in enumerate(graph.nodes):
        for node in walk([top]):
            overload = None if node.schema is None else node.schema.overload
            if (node.kind, overload) != (_VIEW, _OVERLOAD):
                continue
            aliases = Aliases(graph)
            seen = aliases.places(node.output)
            # In a loop, everything beside a view also runs after it.
            if any(seen & aliases.written(later) for later in walk(graph.nodes[index:])):
                raise UnsupportedError(
                    "the program has no form in TorchScript: it writes to a tensor of which it "
                    "has a view of another dtype",
                    hint="Write to a clone of it in the model, and export that",
                )
            yield node


# Implemented by torch in Python, so a process without it, such as one of libtorch, lacks them.
_IN_PYTHON: Final[Mapping[str, str]] = {
    "prims": "Export it again without decompositions, or with those of torch's default",
    "torch_nn": "Export a model that computes the loss without chunks",
}


def scripted_records(module: ArchiveModule) -> list[NewRecord]:
    """Return every record except the serialization id, in canonical form; extra files are kept.

    Debug records name the lines of user source from the program's metadata.

    Raises UnsupportedError for arguments and results that TorchScript has no values for, or whose
    type torch.jit cannot infer, and for operators written in Python; SaveError for a part of a
    program.
    """
    from tsarchive.formats.torchscript.saving import extra_files
    from tsarchive.formats.torchscript.saving_loaded import canonical_loaded_records

    forward = forward_of(module)
    for parameter, typed in zip(forward.signature.parameters, forward.parameters, strict=True):
        _require_values(forward, typed, f"the argument {parameter.name}")
        _require_known_types(forward, typed, f"the argument {parameter.name}", is_item=False)
    _require_values(forward, forward.result, "the result")
    graph = forward.module.type.methods["forward"].graph
    for node in walk(graph.nodes):
        name = "" if node.schema is None else node.schema.full_name
        if hint := _IN_PYTHON.get(name.partition("::")[0]):
            message = f"the program has no form in TorchScript: {name} is written in Python"
            raise UnsupportedError(message, record=forward.record, hint=hint)
    records = Records(module.tsarchive_classes.container)
    files = {name: records.container.read(one) for name, one in records.extra_files().items()}
    with retyped_views_copied(graph):
        return canonical_loaded_records(module, extra_files(files), debug=True)


def _require_values(forward: Forward, typed: TypedTree, place: str) -> None:
    """Refuse objects of classes that torch's pytrees know and TorchScript does not."""
    if typed.tree.kind is Kind.REGISTERED:
        _refuse(forward, f"{place} is an object of {typed.tree.name}, which has no type there")
    if isinstance(typed.type, TupleType) and typed.type.qualified_name and _holds_any(typed.type):
        message = f"{place} is a named tuple with a field that has items of several types"
        _refuse(forward, message)
    for step, child in typed.places(place):
        _require_values(forward, child, step)


def _holds_any(type_: Type) -> bool:
    return type_ == ANY or (isinstance(type_, COMPOSITE) and any(map(_holds_any, type_.parts())))


def _require_known_types(forward: Forward, typed: TypedTree, place: str, *, is_item: bool) -> None:
    """Refuse heterogeneous lists and dicts among items of several types.

    Such items are of the type Any; torch.jit infers the type of an item, and fails for a container
    that is empty or itself heterogeneous.
    """
    items = None
    if isinstance(typed.type, ListType | DictType):
        items = typed.type.element if isinstance(typed.type, ListType) else typed.type.value
    if is_item and items is not None and (items == ANY or not typed.children):
        has = "items of several types" if typed.children else "no items"
        among = "and is itself among items of several types"
        _refuse(forward, f"{place} is {typed.tree.kind.value} that has {has}, {among}")
    for step, child in typed.places(place):
        _require_known_types(forward, child, step, is_item=is_item or items == ANY)


def _refuse(forward: Forward, message: str) -> NoReturn:
    raise UnsupportedError(
        f"the program has no form in TorchScript: {message}",
        record=forward.record,
        hint="Export a forward that takes and gives tuples in its place",
    )


_ARCHIVE_NAME = "model"
_MOST_LETTERS = 300


def exported_program(module: ArchiveModule) -> ExportedProgram:
    """Return the program of a module from a PT2 archive, with the module's present state.

    It has no example inputs, and holds a copy of the weights. Raises SaveError for a part of a
    program and for weights that only a pickle describes; UnsupportedError for pickled objects, and
    for what torch itself cannot read, such as unregistered operators, or the layout before torch
    2.9.
    """
    load_pt2 = _loader()
    forward = forward_of(module)
    records = Records(module.tsarchive_classes.container)
    model = records.model_of(forward.record)
    written = {
        record.name: record
        for record in resaved_records(module, {}, debug=True, keeps_extras=False)
    }
    stream = io.BytesIO()
    write_container(stream, _of_model(written, model), root=_ARCHIVE_NAME)
    stream.seek(0)
    try:
        program: ExportedProgram = load_pt2(stream).exported_programs[USUAL_NAME]
        return program
    except Exception as error:  # torch raises errors of many unrelated classes
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        raise UnsupportedError(
            f"torch.export cannot read the program: {lines[-1][:_MOST_LETTERS]}",
            record=forward.record,
            hint="Import what registers its operators and named tuples",
        ) from error


def _loader() -> Callable[[io.BytesIO], Any]:
    """Return torch's loader of archives whose weights are records of their own."""
    try:
        constants = importlib.import_module("torch.export.pt2_archive.constants")
        package: Any = importlib.import_module("torch.export.pt2_archive._package")
    except ModuleNotFoundError:
        constants = None
    if not hasattr(constants, "WEIGHTS_CONFIG_FILENAME_FORMAT"):
        raise UnsupportedError(
            "this torch does not read the layout in which programs are handed to torch.export",
            hint="torch 2.9 and later read it",
        )
    loader: Callable[[io.BytesIO], Any] = package.load_pt2
    return loader


def _of_model(written: Mapping[str, NewRecord], model: str) -> Iterator[NewRecord]:
    """Yield the records of one model, under the name that torch expects."""
    for folder in FLAT_STATES:
        name = config_name(folder, model)
        found = schema.read_json(schema.PayloadConfig, bytes(written[name].data), name)
        pickled = next((one for one, meta in found.config.items() if meta.use_pickle), None)
        if pickled is not None:
            raise UnsupportedError(
                f"{pickled!r} is pickled, and torch would run what its pickle names",
                record=name,
                hint="Export the model again from its source, or save it where you trust the file",
            )
        paths = dict.fromkeys(meta.path_name for meta in found.config.values())
        names = (f"{folder}{path}" for path in paths)
        yield from (written[name] for name in names if name in written)
        yield config_record(folder, USUAL_NAME, found.config)
    program = written[f"{MODELS}{model}.json"]
    yield program._replace(name=f"{MODELS}{USUAL_NAME}.json")
    yield NewRecord(f"{SAMPLE_INPUTS}{USUAL_NAME}.pt", b"")
    yield from end_records()
