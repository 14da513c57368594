"""The records of a PT2 archive, in each layout that torch has written.

=============  ==============================================================================
torch          layout
=============  ==============================================================================
2.1, 2.2       ``FLAT``, where the files of torch.save end in ``.json``; 2.1 has no constants
2.3 to 2.7     ``FLAT``: one program, and its state, constants and inputs as ``torch.save`` each
2.8            ``WHOLE``: models by name; weights and constants as one ``torch.save`` each
2.9 and later  ``RAW``: models by name; a record for each storage, and what they are as JSON
=============  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Any

from tsarchive.comparing import GraphReport, changes
from tsarchive.container import Container
from tsarchive.errors import MissingRecordError, UnsupportedError

from . import first_schema
from .schema import ExportedProgram, PayloadConfig, decoded, parse_json, read_json, write_json

FLAT_PROGRAM = "serialized_exported_program.json"
FLAT_WEIGHTS = "serialized_state_dict.pt"
FIRST_WEIGHTS = "serialized_state_dict.json"
FIRST_CONSTANTS = "serialized_constants.json"
FLAT_CONSTANTS = "serialized_constants.pt"
FLAT_INPUTS = "serialized_example_inputs.pt"
MODELS = "models/"
WEIGHTS = "data/weights/"
CONSTANTS = "data/constants/"
SAMPLE_INPUTS = "data/sample_inputs/"
# Names of objects begin so; those of opaque ones are pickles without a zip around.
OPAQUE_OBJECT = "opaque_obj_"
OBJECTS = ("custom_obj_", OPAQUE_OBJECT)
AOTINDUCTOR = "data/aotinductor/"
EXECUTORCH = "data/executorch/"
EXTRA = "extra/"
FLAT_EXTRA = "extra_files/"
# Folders of the state of models, and the file of ``torch.save`` that stands for each in ``FLAT``.
FLAT_STATES = {WEIGHTS: FLAT_WEIGHTS, CONSTANTS: FLAT_CONSTANTS}
# The name that torch.export.save gives to its single model.
USUAL_NAME = "model"
# Programs before version 5 have other fields; of later major versions torch reads only 8.
OLDEST_SCHEMA, NEWEST_SCHEMA = 5, 8


class Layout(Enum):
    FLAT = "flat"
    WHOLE = "whole"
    RAW = "raw"


def config_name(folder: str, model: str) -> str:
    """Return the record that describes the weights or constants of a model in layout ``RAW``."""
    kind = "weights" if folder == WEIGHTS else "constants"
    return f"{folder}{model}_{kind}_config.json"


class Records:
    """The parts of a PT2 archive, each read on demand."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self._programs: dict[str, ExportedProgram] = {}

    @cached_property
    def layout(self) -> Layout:
        if FLAT_PROGRAM in self.container.records:
            return Layout.FLAT
        whole = (f"{folder}{name}.pt" for name in self.models for folder in (WEIGHTS, CONSTANTS))
        return Layout.WHOLE if any(map(self.has, whole)) else Layout.RAW

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The names of the exported programs, in file order."""
        if self.has(FLAT_PROGRAM):
            return (USUAL_NAME,)
        return tuple(
            name[len(MODELS) : -len(".json")]
            for name in self.under(MODELS)
            if name.endswith(".json")
        )

    def programs(self) -> tuple[str, ...]:
        """Return ``models``, of which there is at least one.

        Raises UnsupportedError where the archive has compiled code alone, MissingRecordError where
        it has nothing that runs.
        """
        if not self.models and self.compiled:
            raise UnsupportedError(
                f"the archive holds code that AOTInductor compiled ({', '.join(self.compiled)}), "
                "and no program that it was compiled from",
                hint="Where you trust the file as you trust code, "
                "torch._inductor.aoti_load_package loads it as a library of this process",
            )
        if not self.models:
            raise MissingRecordError("the archive has no program", record="models/")
        return self.models

    @cached_property
    def compiled(self) -> tuple[str, ...]:
        """The names of the models that AOTInductor compiled."""
        names = (name[len(AOTINDUCTOR) :].partition("/")[0] for name in self.under(AOTINDUCTOR))
        return tuple(dict.fromkeys(names))

    @property
    def is_first(self) -> bool:
        """Return whether torch 2.1 or 2.2 wrote the archive."""
        return self.has(FIRST_WEIGHTS)

    @cached_property
    def flat_states(self) -> Mapping[str, str]:
        """The files of ``torch.save`` by what they hold, in layout ``FLAT``."""
        if not self.is_first:
            return FLAT_STATES
        first = {WEIGHTS: FIRST_WEIGHTS, CONSTANTS: FIRST_CONSTANTS}
        return {folder: record for folder, record in first.items() if self.has(record)}

    def has(self, record: str) -> bool:
        return record in self.container.records

    def under(self, folder: str) -> Iterator[str]:
        return (name for name in self.container.records if name.startswith(folder))

    def extra_files(self) -> dict[str, str]:
        """The record of each extra file, by the user's name for it."""
        return {
            record.removeprefix(folder): record
            for folder in (FLAT_EXTRA, EXTRA)
            for record in self.under(folder)
        }

    def program_record(self, model: str) -> str:
        return FLAT_PROGRAM if self.has(FLAT_PROGRAM) else f"{MODELS}{model}.json"

    def model_of(self, record: str) -> str:
        """Return the model whose program a record is."""
        return next(name for name in self.models if self.program_record(name) == record)

    def inputs_record(self, model: str) -> str:
        return FLAT_INPUTS if self.has(FLAT_PROGRAM) else f"{SAMPLE_INPUTS}{model}.pt"

    def whole_record(self, folder: str, model: str) -> str | None:
        """Return the file of ``torch.save`` that holds weights or constants; None in ``RAW``."""
        if self.layout is Layout.FLAT:
            return self.flat_states.get(folder)
        record = f"{folder}{model}.pt"
        return record if self.has(record) else None

    def program(self, model: str) -> ExportedProgram:
        """Return the program of a model.

        Raises MissingRecordError when there is none, FormatError where it breaks a rule,
        UnsupportedError for a schema of another major version.
        """
        if model in self._programs:
            return self._programs[model]
        record = self.program_record(model)
        if not self.has(record):
            raise self.missing(model)
        values = self._values(record)
        # torch 2.4 wrote a single verifier, under the name dialect.
        if "verifiers" not in values and "dialect" in values:
            values["verifiers"] = [values["dialect"]]
        found = decoded(ExportedProgram, values, record)
        self._programs[model] = found
        return found

    def _values(self, record: str) -> dict[str, Any]:
        """Return the JSON of a program, as torch 2.4 and later have it."""
        values = parse_json(self.container.read(record), record)
        version = values.get("schema_version")
        if version in first_schema.VERSIONS:
            return first_schema.of_today(values, record)
        major = version.get("major") if isinstance(version, dict) else version
        if isinstance(major, int) and not OLDEST_SCHEMA <= major <= NEWEST_SCHEMA:
            known = f"1, 2, and {OLDEST_SCHEMA} to {NEWEST_SCHEMA}"
            raise UnsupportedError(
                f"the program has schema version {major}; {known} are known",
                record=record,
                hint="Export the model again with torch 2.4 or later",
            )
        return values

    def missing(self, model: str) -> MissingRecordError:
        """Return the error for a model that the archive does not have."""
        return MissingRecordError(
            f"the archive has no model {model!r}",
            record=self.program_record(model),
            hint=f"It has: {', '.join(self.models) or 'none'}",
        )

    def payload_config(self, record: str) -> PayloadConfig:
        """Return the payloads that a record describes.

        Raises MissingRecordError and FormatError.
        """
        return read_json(PayloadConfig, self.container.read(record), record)


def graph_report(container: Container) -> GraphReport:
    """Return what changes in an archive's JSON when it is decoded and encoded again.

    Raises FormatError where a record breaks a rule.
    """
    schemas = dict(_schemas(Records(container)))
    texts = {name: container.read(name) for name in schemas}
    once = _encoded_again(texts, schemas)
    twice = _encoded_again(once, schemas)
    return GraphReport(tuple(changes(texts, once)), tuple(changes(once, twice)))


def _encoded_again(
    texts: Mapping[str, bytes], schemas: Mapping[str, type[Any]]
) -> dict[str, bytes]:
    return {name: write_json(read_json(schemas[name], text, name)) for name, text in texts.items()}


def _schemas(records: Records) -> Iterator[tuple[str, type[Any]]]:
    """Yield the records of JSON, each with the class that it encodes an instance of."""
    for model in records.models:
        yield records.program_record(model), ExportedProgram
        for folder in FLAT_STATES:
            if records.has(name := config_name(folder, model)):
                yield name, PayloadConfig
