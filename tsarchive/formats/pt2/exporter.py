"""Programs of torch.export as the records of a PT2 archive, in torch's order.

torch converts its graph to JSON; process-dependent parts of that JSON are removed. Weights are
written directly from memory: a record holds a whole storage, and tensors of one dtype that share
it share the record.
"""

from __future__ import annotations

import inspect
import io
import pickle
from collections.abc import Container, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import Any, TypeGuard

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram

from tsarchive.container import NewRecord
from tsarchive.errors import SaveError
from tsarchive.formats.torchscript.tensors import storage_bytes
from tsarchive.run.natives.conversions import LAYOUTS

from . import schema
from .json_codec import Fields, read_json, write_json
from .metadata import make_stable
from .records import CONSTANTS, EXTRA, MODELS, SAMPLE_INPUTS, WEIGHTS, config_name
from .schema import (
    SCALAR_TYPES,
    Device,
    Layout,
    PayloadConfig,
    PayloadMeta,
    ScalarType,
    SymInt,
    TensorMeta,
)
from .schema import ExportedProgram as Program

_PICKLE_PROTOCOL = 2
_SCALAR_TYPES: dict[torch.dtype, ScalarType] = {
    getattr(torch, name): number for name, number in SCALAR_TYPES.items() if hasattr(torch, name)
}
_LAYOUTS: dict[torch.layout, Layout] = {
    theirs: layout
    for layout in Layout
    for theirs, number in LAYOUTS.items()
    if number == layout.number
}


class PayloadWriter:
    """Collects records of one folder, numbered across models.

    ``taken`` are names of records there that must not be used.
    """

    def __init__(self, folder: str, taken: Container[str] = ()) -> None:
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
    ) -> dict[str, PayloadMeta]:
        """Store the values of one model; return their metadata in torch's order.

        ``prefix`` is for records of tensors. ``known`` are names of the records that values had
        before, and keep. Raises SaveError for a value that is neither a tensor nor an object that
        torch stores.
        """
        tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        found: dict[str, PayloadMeta] = {}
        for name, tensor in tensors.items():
            if not _is_fake(tensor) and type(tensor.data) is not torch.Tensor:
                record = self._add(prefix, _saved(tensor), known.get(name))
                found[name] = PayloadMeta(record, _is_parameter(tensor), True, tensor_meta(tensor))
        raw = {name: tensor for name, tensor in tensors.items() if name not in found}
        for group in _groups(raw):
            before = (known[name] for name in group if name in known)
            again = next((record for record in before if record not in self._used), None)
            first = raw[group[0]]
            content = memoryview(b"") if _is_fake(first) else storage_bytes(first)
            record = self._add(prefix, content, again)
            for name in group:
                meta = tensor_meta(raw[name])
                found[name] = PayloadMeta(record, _is_parameter(raw[name]), False, meta)
        for name, value in values.items():
            if name not in tensors:
                record = self._add(*_object(name, value), known.get(name))
                found[name] = PayloadMeta(record, False, True, None)
        return found

    def _add(self, prefix: str, data: bytes | memoryview, name: str | None) -> str:
        name = name or self._free_name(prefix)
        self._used.add(name)
        self.records.append(NewRecord(f"{self.folder}{name}", data))
        return name

    def _free_name(self, prefix: str) -> str:
        numbers = self._numbers.setdefault(prefix, count())
        names = (f"{prefix}{number}" for number in numbers)
        return next(name for name in names if name not in self._taken)


def tensor_meta(tensor: torch.Tensor) -> TensorMeta:
    """Return the metadata of a tensor.

    Raises SaveError for a dtype without a number in the format.
    """
    dtype = _SCALAR_TYPES.get(tensor.dtype)
    if dtype is None:
        raise SaveError(f"the format has no number for {tensor.dtype}")
    is_strided = tensor.layout == torch.strided
    return TensorMeta(
        dtype,
        _numbers(tensor.shape),
        tensor.requires_grad,
        Device(tensor.device.type, tensor.device.index),
        _numbers(tensor.stride() if is_strided else ()),
        SymInt("as_int", tensor.storage_offset() if is_strided else 0),
        _LAYOUTS[tensor.layout],
    )


def _numbers(sizes: Any) -> list[SymInt]:
    return [SymInt("as_int", size) for size in sizes]


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


_FORMAT, _ARCHIVE_VERSION, _CONTAINER_VERSION = b"pt2", b"0", b"6\n"


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
        found = read_json(Program, text, f"{MODELS}{name}.json")
        make_stable(found.graph_module.graph, origins=debug, paths=source_paths)
        _check_objects(found, stored)
        records.append(NewRecord(f"{MODELS}{name}.json", write_json(found, unknown_fields())))
        records.append(NewRecord(f"{SAMPLE_INPUTS}{name}.pt", inputs))
    return [*records, *extra_records(files), *end_records()]


def config_record(folder: str, model: str, payloads: dict[str, PayloadMeta]) -> NewRecord:
    return NewRecord(config_name(folder, model), write_json(PayloadConfig(payloads)))


def extra_records(files: Mapping[str, bytes]) -> Iterator[NewRecord]:
    """Yield extra files in the given order."""
    return (NewRecord(f"{EXTRA}{name}", data) for name, data in files.items())


def end_records() -> list[NewRecord]:
    """Return the records that identify the file as a PT2 archive."""
    return [
        NewRecord("archive_format", _FORMAT),
        NewRecord("archive_version", _ARCHIVE_VERSION),
        NewRecord(".data/version", _CONTAINER_VERSION),
        NewRecord("byteorder", b"little"),
    ]


@cache
def unknown_fields() -> Fields:
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

    known = inspect.signature(serialize).parameters
    without = {name: False for name in ("serialize_state_dict", "serialize_constants")}
    options: Any = {name: value for name, value in without.items() if name in known}
    try:
        found = serialize(program, **options)
    except (SerializeError, AssertionError, NotImplementedError, TypeError) as error:
        # It asserts on values without a JSON form; json and pickle raise TypeError.
        raise SaveError(f"torch cannot write the program: {error}") from error
    return found.exported_program, found.example_inputs


def _check_objects(program: Program, stored: Mapping[str, PayloadMeta]) -> None:
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
