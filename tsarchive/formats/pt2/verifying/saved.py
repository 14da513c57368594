"""Records that are files of ``torch.save``, or pickles: sound, and of names of the format."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from tsarchive.container import Container, ContainerSurvey, survey_inside
from tsarchive.errors import ArchiveError, PickleError
from tsarchive.findings import Finding, Nature, Severity, excused, hostile, refused, unusual
from tsarchive.formats.pt2.torch_save import Saved
from tsarchive.formats.torchscript.stored_tensors import MAX_DEPTH, tensor_findings
from tsarchive.formats.torchscript.verifying.pickles import (
    PickleNames,
    is_deeper_than,
    is_foreign,
    names_in_pickle,
)
from tsarchive.pickler import loads

_PICKLE: Final = "data.pkl"
_SHOWN: Final = 120
# What ``file-...`` says of a file by itself.
_NO_ARCHIVE: Final = "record-saved"
_UNKNOWN_FUNCTION: Final = "tensor-function"
# What torch.save names beside tensors, which TorchScript does not: values, and classes of tensors.
_SAVED: Final = re.compile(
    r"torch\.(Tensor|Size|device|strided|(u?int|float|bfloat|complex)\d+(_e\dm\d\w*)?|bool)"
    r"|torch\.nn\.parameter\.(Parameter|Buffer)|torch\.serialization\._get_layout"
    r"|torch\._export\.serde\.serialize\._reconstruct_fake_tensor|_codecs\.encode"
)
_AUDIT: Final = "See with 'tsarchive audit' what it can do; nothing of it is run here"


def saved_findings(
    container: Container, record: str, containers: Collection[str] = ()
) -> Iterator[Finding]:
    """What is wrong with a file of ``torch.save`` in a record: its zip, its pickle, its tensors.

    ``containers`` are the names, without modules, of classes whose instances hold arguments of
    the program. Its example inputs name them as well, which is worth a note.
    """
    try:
        found = survey_inside(container, record)
    except ArchiveError as error:
        yield refused(error, "zip-record", record)
        return
    with found:
        yield from (_inside(finding, record) for finding in found.findings)
        if found.container is not None:
            of_pickle = _of_pickle(container, found, record, frozenset(containers))
            is_checked = _has_checksum(container, record)
            is_checked = is_checked and _has_checksum(found.container, _PICKLE)
            yield from of_pickle if is_checked else map(excused, of_pickle)


def _has_checksum(container: Container, record: str) -> bool:
    """Whether damage to a record, where it is there, would be seen."""
    return record not in container.records or container.records[record].crc is not None


def _inside(finding: Finding, record: str) -> Finding:
    """The finding of a record inside; offsets are in the record around it."""
    inside = record if finding.record is None else f"{record}/{finding.record}"
    rule = _NO_ARCHIVE if finding.rule.startswith("file-") else finding.rule
    return replace(finding, rule=rule, record=inside)


def _of_pickle(
    container: Container, found: ContainerSurvey, record: str, containers: frozenset[str]
) -> Iterator[Finding]:
    place, inner = f"{record}/{_PICKLE}", found.container
    assert inner is not None
    try:
        data = inner.read(_PICKLE)
    except ArchiveError as error:
        yield refused(error, "record-missing", place)
        return
    named = names_in_pickle(data)
    yield from _names(named, place, containers)
    try:
        root = Saved(container, record).root
    except PickleError as error:
        yield _unreadable(error, named, place, containers)
        return
    except ArchiveError as error:
        yield refused(error, "pickle-malformed", place)
        return
    if is_deeper_than(MAX_DEPTH, root):
        yield hostile("pickle-depth", f"more than {MAX_DEPTH} values are nested", place)
    findings = tensor_findings(
        root,
        record=place,
        storage_size=lambda key: inner.size(f"data/{key}"),
        offset_of=named.storages.get,
        in_doubt=lambda key: f"data/{key}" in found.in_doubt,
    )
    yield from map(_of_tensor, findings)


def _of_tensor(finding: Finding) -> Finding:
    """Subclasses of tensors have functions of their own, which nothing here calls."""
    if finding.rule != _UNKNOWN_FUNCTION:
        return finding
    return replace(finding, severity=Severity.WARNING, nature=Nature.UNUSUAL)


def pickle_findings(container: Container, record: str) -> Iterator[Finding]:
    """What is wrong with a record that is one pickle, of a Python object."""
    try:
        data = container.read(record)
    except ArchiveError as error:
        yield refused(error, "zip-record", record)
        return
    named = names_in_pickle(data)
    yield from _names(named, record)
    try:
        loads(data, record=record)
    except PickleError as error:
        yield _unreadable(error, named, record)


def _unreadable(
    error: PickleError, named: PickleNames, record: str, containers: frozenset[str] = frozenset()
) -> Finding:
    """Python's pickle has opcodes that the restricted reader does not take: those of objects."""
    foreign = _foreign(named.names)
    if error.limit is not None or not foreign:
        return refused(error, "pickle-malformed", record)
    message = f"only an unpickler that imports what it names could read it: {error.message}"
    finding = unusual("pickle-malformed", message, record, _AUDIT)
    is_container = all(_is_one_of(name, containers) for name in foreign)
    return replace(_noted(finding) if is_container else finding, offset=error.offset)


def _names(
    named: PickleNames, record: str, containers: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    for name in _foreign(named.names):
        shown = "a name that it computes" if name is None else repr(name[:_SHOWN])
        message = f"the pickle names {shown}, which is not of the format"
        finding = unusual("pickle-global", message, record, _AUDIT)
        is_container = _is_one_of(name, containers)
        yield replace(_noted(finding) if is_container else finding, offset=named.names[name])


def _is_one_of(name: str | None, containers: frozenset[str]) -> bool:
    return name is not None and name.rpartition(".")[2] in containers


def _noted(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.INFO)


def _foreign(names: Collection[str | None]) -> list[str | None]:
    return [
        name
        for name in names
        if is_foreign(name) and not (name is not None and _SAVED.fullmatch(name))
    ]
