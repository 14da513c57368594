"""A module as the records of a TorchScript archive, in torch's order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tsarchive.container import NewRecord, unordered_map_order
from tsarchive.ir.names import TypeNames
from tsarchive.ir.types import ANY, STRING, DictType, ListType
from tsarchive.ir.values import ObjectValue
from tsarchive.pickler import Memo, Reduce, dumps
from tsarchive.printer.program import Program
from tsarchive.printer.range_fixpoint import fixpoint_ranges
from tsarchive.printer.versions import version_record

from .code_records import DEBUG_SUFFIX, encoded
from .constants import Constants
from .debug_writing import DebugWriter
from .pickling import Pickling
from .rereading import CanonicalText
from .tensors import storage_bytes


@dataclass(frozen=True, slots=True)
class Code:
    """The code of an archive: its records in order, including constants, and its version."""

    records: tuple[NewRecord, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Extras:
    """The contents of an archive besides the module: extra files by name, and traced inputs."""

    files: tuple[NewRecord, ...] = ()
    traced_inputs: tuple[NewRecord, ...] = ()


def archive_records(
    root: ObjectValue, *, code: Code | None, extras: Extras, debug: bool
) -> list[NewRecord]:
    """Return every record except the serialization id, which the container adds.

    ``code`` is given when a loaded module is saved, and is then written as it was read. Raises
    SaveError where the module has no form that reads back as itself.
    """
    names = TypeNames()
    pickling = Pickling(names)
    data = dumps(pickling.held(root, root.type))
    if code is None:
        code = print_code(pickling, names, debug=debug)
    return _in_order(pickling, data, code, extras)


def canonical_records(
    text: CanonicalText, files: tuple[NewRecord, ...], *, debug: bool = False
) -> list[NewRecord]:
    """Return the records of the canonical form, which depends on the model alone.

    Nothing is compressed, since builds of zlib differ. ``debug`` adds debug records, which depend
    on where the model was written.
    """
    sources = _canonical_sources(text, debug=debug)
    code = Code((*sources, *_constant_records(text.constants, text.names)), text.version)
    return _in_order(text.pickling, dumps(text.data), code, Extras(files))


def _canonical_sources(text: CanonicalText, *, debug: bool) -> Iterator[NewRecord]:
    writer = DebugWriter()
    for name, source in text.files.items():
        yield NewRecord(name, encoded(source))
        if debug:
            yield NewRecord(f"{name}{DEBUG_SUFFIX}", writer.record(text.places[name]))


def _in_order(pickling: Pickling, data: bytes, code: Code, extras: Extras) -> list[NewRecord]:
    return [
        *extras.files,
        *storage_records("data", pickling),
        NewRecord("data.pkl", data),
        *code.records,
        *extras.traced_inputs,
        NewRecord(version_record(code.version), b"%d\n" % code.version),
        NewRecord("byteorder", sys.byteorder.encode()),
    ]


def extra_files(files: Mapping[str, bytes]) -> tuple[NewRecord, ...]:
    """Return extra files as records, in the order in which torch writes a dict of them."""
    order = unordered_map_order(list(files), len(files))
    return tuple(NewRecord(f"extra/{name}", files[name]) for name in order)


def storage_records(folder: str, pickling: Pickling) -> Iterator[NewRecord]:
    for number, tensor in enumerate(pickling.tensors.storages):
        yield NewRecord(f"{folder}/{number}", storage_bytes(tensor))


def print_code(pickling: Pickling, names: TypeNames, *, debug: bool) -> Code:
    """Print the classes that ``pickling`` encountered, and the constants that their code mentions.

    Consumes their graphs.
    """
    constants = Constants()
    program = Program(names, constants)
    program.print_classes(pickling.classes)
    records = [*_code_records(program, debug=debug), *_constant_records(constants, names)]
    program.close()
    return Code(tuple(records), program.version)


def _code_records(program: Program, *, debug: bool) -> Iterator[NewRecord]:
    files = program.files()
    ranges = fixpoint_ranges([file.body for file in files]) if debug else []
    debug_writer = DebugWriter()
    for number, file in enumerate(files):
        yield NewRecord(f"code/{file.name}", encoded(file.text), deflate=True)
        if debug:
            record = debug_writer.record(ranges[number])
            yield NewRecord(f"code/{file.name}{DEBUG_SUFFIX}", record, deflate=True)


def _constant_records(constants: Constants, names: TypeNames) -> Iterable[NewRecord]:
    pickling = Pickling(names)
    table = tuple(pickling.held(entry.value, entry.type) for entry in constants.entries)
    data = dumps(table)
    return [*storage_records("constants", pickling), NewRecord("constants.pkl", data)]


def traced_input_records(inputs: Mapping[str, list[Any]]) -> tuple[NewRecord, ...]:
    """Return the example inputs recorded by tracing, by method; their storages are left empty."""
    if not inputs:
        return ()
    pickling = _TracedInputs(TypeNames())
    data = dumps(pickling.held(dict(inputs), _TRACED_TYPE))
    empty = (
        NewRecord(f"traced_inputs/{number}", b"")
        for number in range(len(pickling.tensors.storages))
    )
    return (*empty, NewRecord("traced_inputs.pkl", data))


_TRACED_TYPE = DictType(STRING, ListType(ANY))


class _TracedInputs(Pickling):
    def tensor(self, tensor: torch.Tensor) -> Reduce:
        described = self.tensors.reduce(tensor)
        described.memo = Memo.ALWAYS
        return described
