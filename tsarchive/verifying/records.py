"""Which records an archive has, lacks, or has too many of, and the small ones' contents."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tsarchive.container import Container
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.kinds import LEGACY_TORCHSCRIPT, TORCHSCRIPT
from tsarchive.torchscript.code_records import DEBUG_SUFFIX, format_version

from .report import fault

__all__ = [
    "NEWEST_VERSION", "OLDEST_VERSION", "byte_order_findings", "has_incomplete_name",
    "may_be_code", "record_findings", "unknown_record",
]  # fmt: skip

# The versions of archives that torch has written since 1.0.
OLDEST_VERSION, NEWEST_VERSION = 1, 10
_INCOMPLETE = "The archive is incomplete: download or copy it again"

# The names that records of each kind have.
_NAMES = {
    TORCHSCRIPT: re.compile(
        r"""(data|constants|traced_inputs|bytecode|mobile_debug_handles|callstack_debug_map)\.pkl
        | (data|constants|traced_inputs|bytecode)/[^/]+
        | code/.*\.py(\.debug_pkl)?
        | delegated_backends\.debug_pkl
        | (\.data/)?version | byteorder | \.data/serialization_id
        | extra/.+""",
        re.VERBOSE | re.DOTALL,
    ),
    LEGACY_TORCHSCRIPT: re.compile(
        r"model\.json|attributes\.pkl|version|tensors/[^/]+|(code|libs)/.*\.py|debug/.*\.pkl|extra/.+",
        re.DOTALL,
    ),
}
# Records that only archives of these kinds have: a file with one was to become such an archive.
_TELLING = re.compile(r"code/.+\.py|constants\.pkl|bytecode\.pkl", re.DOTALL)
# What file managers put into the folders that they show.
_OF_DESKTOPS = re.compile(r"(\A|/)(\.DS_Store|\._[^/]*|Thumbs\.db|desktop\.ini)\Z")
_BYTE_ORDERS = (b"little", b"big")


def has_incomplete_name(container: Container) -> bool:
    """Whether an archive of no kind that we know has records that only TorchScript has."""
    return any(_TELLING.fullmatch(name) for name in container.records)


def may_be_code(name: str, kind: str) -> bool:
    """Whether a record has code, or is one of no name that is known: the name may be damaged."""
    return name.endswith(".py") or not _NAMES[kind].fullmatch(name)


def record_findings(container: Container, kind: str) -> Iterator[Finding]:
    """What is wrong with the set of records of a TorchScript archive of one of its two kinds."""
    yield from _unknown(container, kind)
    yield from _version(container)
    yield from byte_order_findings(container)
    if kind == TORCHSCRIPT:
        yield from _undocumented(container)
    yield from _notes(container)


def _unknown(container: Container, kind: str) -> Iterator[Finding]:
    for name in container.records:
        if not _NAMES[kind].fullmatch(name):
            yield unknown_record(name)


def unknown_record(name: str) -> Finding:
    """The finding of a record that the format does not have."""
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


def _notes(container: Container) -> Iterator[Finding]:
    for name, record in container.records.items():
        if name.startswith("extra/"):
            message = f"an extra file of {record.size:,} bytes, which torch does not look into"
            yield Finding("record-extra", Severity.INFO, Nature.UNUSUAL, message, name)
    if "traced_inputs.pkl" in container.records:
        message = "the example inputs of torch.jit.trace, without their data"
        yield Finding("record-inputs", Severity.INFO, Nature.UNUSUAL, message, "traced_inputs.pkl")
