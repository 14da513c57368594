"""Decoding and reencoding of JSON records, which reveals what the schema here would lose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tsarchive.comparing import GraphReport, changes
from tsarchive.container import Container

from .decoding import read_json
from .encoding import write_json
from .records import CONSTANTS, WEIGHTS, Records
from .schema import ExportedProgram, PayloadConfig


def graph_report(container: Container) -> GraphReport:
    """What of an archive's JSON is otherwise when it is decoded and encoded again."""
    texts = json_records(container)
    once = encoded_again(container, texts)
    code = tuple(changes(texts, once))
    return GraphReport(code, tuple(changes(once, encoded_again(container, once))))


def json_records(container: Container) -> dict[str, bytes]:
    """Return the programs of an archive, and the configurations of their payloads."""
    return {name: container.read(name) for name, _ in _schemas(container)}


def encoded_again(container: Container, texts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Decode and encode the records. Raises FormatError where one breaks a rule."""
    found = _schemas(container)
    return {name: write_json(read_json(schema, texts[name], name)) for name, schema in found}


def _schemas(container: Container) -> Iterator[tuple[str, type[Any]]]:
    records = Records(container)
    for model in records.models:
        yield records.program_record(model), ExportedProgram
        for name in (
            f"{WEIGHTS}{model}_weights_config.json",
            f"{CONSTANTS}{model}_constants_config.json",
        ):
            if records.has(name):
                yield name, PayloadConfig
