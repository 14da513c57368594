"""Programs of torch.export as the records of a PT2 archive, in torch's order.

torch converts its graph to JSON; process-dependent parts of that JSON are removed. Weights are
written directly from memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from torch.export import ExportedProgram

from tsarchive.container import NewRecord
from tsarchive.errors import SaveError

from . import schema
from .decoding import read_json
from .encoding import Fields, write_json
from .payload_writer import PayloadWriter
from .records import CONSTANTS, EXTRA, MODELS, SAMPLE_INPUTS, WEIGHTS
from .schema import ExportedProgram as Program
from .schema import PayloadConfig, PayloadMeta
from .stable_metadata import make_stable

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
        _check_name(name)
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
    kind = "weights" if folder == WEIGHTS else "constants"
    return NewRecord(f"{folder}{model}_{kind}_config.json", write_json(PayloadConfig(payloads)))


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


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name or "/" in name:
        raise SaveError(f"{name!r} cannot be the name of a model: it is part of names of records")


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
    given = {
        spec.value.custom_obj_name
        for spec in program.graph_module.signature.input_specs
        if spec.tag == "custom_obj"
    }
    values = program.graph_module.graph.custom_obj_values
    inputs = {
        spec.value.arg.name
        for spec in program.graph_module.signature.input_specs
        if spec.tag == "custom_obj"
    }
    lost = sorted((given - stored.keys()) | (values.keys() - inputs - stored.keys()))
    if lost:
        raise SaveError(
            f"the object {lost[0]!r} is an argument in the graph, which PT2 archives do not store",
            hint="Make it an attribute of the module that is exported",
        )
