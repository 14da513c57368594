"""Which records a PT2 archive has, lacks, or has for nothing, and what the small ones say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tsarchive.container import Container
from tsarchive.errors import INCOMPLETE, ArchiveError
from tsarchive.findings import Finding, broken, note, unusual
from tsarchive.formats.pt2.records import (
    CONSTANTS,
    FLAT_CONSTANTS,
    FLAT_INPUTS,
    FLAT_WEIGHTS,
    SAMPLE_INPUTS,
    WEIGHTS,
    Layout,
    Records,
)
from tsarchive.formats.records import RecordTable, Role
from tsarchive.formats.torchscript.code_records import NEWEST_VERSION, OLDEST_VERSION
from tsarchive.formats.torchscript.verifying.checking import byte_order_findings, unknown_records

_FORMAT, _ARCHIVE_VERSION = "archive_format", "archive_version"
_FORMAT_NAME, _KNOWN_ARCHIVE_VERSION = b"pt2", b"0"
# Records of one model each: the folder and what follows the name of the model.
_OF_A_MODEL: Final = (
    (WEIGHTS, "_weights_config.json"),
    (CONSTANTS, "_constants_config.json"),
    (WEIGHTS, ".pt"),
    (CONSTANTS, ".pt"),
    (SAMPLE_INPUTS, ".pt"),
)


def record_findings(
    container: Container, records: Records, table: RecordTable
) -> Iterator[Finding]:
    """What is wrong with the set of records, without what programs and payloads say of it."""
    yield from unknown_records(container, table)
    yield from _versions(container, records)
    yield from byte_order_findings(container)
    yield from _missing(records)
    yield from _of_no_model(records)
    yield from _notes(container, table)


def _versions(container: Container, records: Records) -> Iterator[Finding]:
    if records.layout is Layout.FLAT:
        yield from _schema_version(container)
        return
    if not records.has(_FORMAT):
        message = "a PT2 archive has this record, and it is not there: torch refuses the file"
        yield broken("record-missing", message, _FORMAT, INCOMPLETE)
    yield from _differing(
        container, _FORMAT, _FORMAT_NAME, "the format is {}, not pt2: torch refuses the file"
    )
    yield from _differing(
        container, _ARCHIVE_VERSION, _KNOWN_ARCHIVE_VERSION,
        "the version of the archive is {}; 0 is known",
    )  # fmt: skip
    yield from _container_version(container)


def _differing(container: Container, record: str, wanted: bytes, message: str) -> Iterator[Finding]:
    content = _content(container, record)
    if content is not None and content != wanted:
        yield broken("record-version", message.format(repr(content[:20])), record)


def _content(container: Container, record: str) -> bytes | None:
    if record not in container.records:
        return None
    try:
        return container.read(record)
    except ArchiveError:
        return None  # which the check of its data has found


def _container_version(container: Container) -> Iterator[Finding]:
    """PyTorch's writer of zip files adds it; older ones called it ``version``."""
    for record, oldest in ((".data/version", OLDEST_VERSION), ("version", 0)):
        text = _content(container, record)
        if text is None:
            continue
        number = text.strip()
        known = number.isdigit() and len(number) < 4 and oldest <= int(number) <= NEWEST_VERSION
        if not known:
            message = f"the version of the container is {text[:20]!r}; up to {NEWEST_VERSION} known"
            yield broken("record-version", message, record)


def _schema_version(container: Container) -> Iterator[Finding]:
    text = _content(container, "version")
    if text is None:
        yield broken("record-missing", "the record is not there", "version", INCOMPLETE)
    elif not re.fullmatch(rb"\d{1,3}\.\d{1,3}", text):
        message = f"the version is {text[:20]!r}, not two numbers with a dot between"
        yield broken("record-version", message, "version")


def _missing(records: Records) -> Iterator[Finding]:
    """Records that torch reads with every program."""
    for model in records.models:
        for record in _required(records, model):
            if not records.has(record):
                message = f"the model {model!r} has this record, and it is not there"
                yield broken("record-missing", message, record, INCOMPLETE)


def _required(records: Records, model: str) -> tuple[str, ...]:
    if records.layout is Layout.FLAT:
        return (FLAT_WEIGHTS, FLAT_CONSTANTS, FLAT_INPUTS)
    if records.layout is Layout.WHOLE:
        return tuple(f"{folder}{model}.pt" for folder in (WEIGHTS, CONSTANTS, SAMPLE_INPUTS))
    return (
        f"{WEIGHTS}{model}_weights_config.json",
        f"{CONSTANTS}{model}_constants_config.json",
        f"{SAMPLE_INPUTS}{model}.pt",
    )


def _of_no_model(records: Records) -> Iterator[Finding]:
    for folder, end in _OF_A_MODEL:
        for name in records.under(folder):
            model = name[len(folder) : -len(end)]
            if name.endswith(end) and "/" not in model and model not in records.models:
                message = f"it is of the model {model!r}, which the archive does not have"
                yield unusual("record-unreferenced", message, name)


def _notes(container: Container, table: RecordTable) -> Iterator[Finding]:
    for name, record in container.records.items():
        role, size = table.role(name), f"{record.size:,} bytes"
        if role is Role.EXTRA:
            message = f"an extra file of {size}, which torch does not look into"
            yield note("record-extra", message, name)
        elif role is Role.EXECUTORCH:
            message = f"a program or data of ExecuTorch of {size}, which torch does not read"
            yield note("record-extra", message, name)
        elif role is Role.NATIVE and name.endswith(".so"):
            message = f"machine code of AOTInductor of {size}, which is not looked into"
            yield note("record-extra", message, name)
