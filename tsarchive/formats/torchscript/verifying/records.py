"""Which records an archive has, lacks, or has too many of, and the small ones' contents."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tsarchive.container import Container
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Nature, Severity, fault
from tsarchive.formats.records import RecordTable, Role
from tsarchive.formats.torchscript.code_records import (
    DEBUG_SUFFIX,
    NEWEST_VERSION,
    OLDEST_VERSION,
    format_version,
)

# What file managers put into the folders that they show.
_OF_DESKTOPS = re.compile(r"(\A|/)(\.DS_Store|\._[^/]*|Thumbs\.db|desktop\.ini)\Z")
_BYTE_ORDERS = (b"little", b"big")


def may_be_code(name: str, table: RecordTable) -> bool:
    """Whether a record has code, or is one of no name that is known: the name may be damaged."""
    return name.endswith(".py") or not table.has(name)


def record_findings(
    container: Container, table: RecordTable, *, has_debug: bool
) -> Iterator[Finding]:
    """What is wrong with the set of records of a TorchScript archive.

    ``has_debug`` tells that code has debug records beside it.
    """
    yield from unknown_records(container, table)
    yield from _version(container)
    yield from byte_order_findings(container)
    if has_debug:
        yield from _undocumented(container)
    yield from _notes(container, table)


def unknown_records(container: Container, table: RecordTable) -> Iterator[Finding]:
    """The findings of records that the format does not have."""
    return (_unknown(name) for name in container.records if not table.has(name))


def _unknown(name: str) -> Finding:
    by_desktop = _OF_DESKTOPS.search(name) is not None
    return Finding(
        "record-unknown",
        Severity.INFO if by_desktop else Severity.WARNING,
        Nature.UNUSUAL,
        "the format has no such record: nothing reads it",
        name,
        hint="See what it is before you pass the file on",
    )


def _version(container: Container) -> Iterator[Finding]:
    try:
        version = format_version(container)
    except ArchiveError as error:
        yield fault(error, "record-version")
        return
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        yield Finding(
            "record-version",
            Severity.ERROR,
            Nature.BROKEN,
            f"the format version is {version}; {OLDEST_VERSION} to {NEWEST_VERSION} are known",
            ".data/version" if ".data/version" in container.records else "version",
            hint="A newer torch wrote it, or it is damaged",
        )
    if {"version", ".data/version"} <= container.records.keys():
        yield Finding(
            "record-version",
            Severity.WARNING,
            Nature.UNUSUAL,
            "there are two version records; .data/version counts",
            "version",
        )


def byte_order_findings(container: Container) -> Iterator[Finding]:
    """What is wrong with the record that names the byte order."""
    if "byteorder" not in container.records:
        return
    try:
        order = container.read("byteorder")
    except ArchiveError:
        return  # which the check of its data has found
    if order not in _BYTE_ORDERS:
        yield Finding(
            "record-byteorder",
            Severity.WARNING,
            Nature.BROKEN,
            f"the byte order is {order[:20]!r}, neither little nor big",
            "byteorder",
        )
    elif order == b"big":
        yield Finding(
            "record-byteorder",
            Severity.WARNING,
            Nature.UNUSUAL,
            "a big-endian machine wrote the tensors; they are read as little-endian",
            "byteorder",
            hint="Save it again on the machine that wrote it, in little-endian byte order",
        )


def _undocumented(container: Container) -> Iterator[Finding]:
    """Code without a debug record, and debug records of no code."""
    for name in container.records:
        if not name.startswith("code/"):
            continue
        if name.endswith(".py") and name + DEBUG_SUFFIX not in container.records:
            rule = "record-no-debug"
            message = "it has no debug record: errors cannot name the lines of the original source"
        elif (
            name.endswith(f".py{DEBUG_SUFFIX}")
            and name.removesuffix(DEBUG_SUFFIX) not in container.records
        ):
            rule, message = "record-debug", "it is the debug record of code that is not there"
        else:
            continue
        yield Finding(rule, Severity.INFO, Nature.UNUSUAL, message, name)


def _notes(container: Container, table: RecordTable) -> Iterator[Finding]:
    for name, record in container.records.items():
        if table.role(name) is Role.EXTRA:
            message = f"an extra file of {record.size:,} bytes, which torch does not look into"
            yield Finding("record-extra", Severity.INFO, Nature.UNUSUAL, message, name)
    if "traced_inputs.pkl" in container.records:
        message = "the example inputs of torch.jit.trace, without their data"
        yield Finding("record-inputs", Severity.INFO, Nature.UNUSUAL, message, "traced_inputs.pkl")
