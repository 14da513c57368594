"""Checks of weights and constants: configurations, their records, and what is pickled."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from tsarchive.container import Container, ContainerSurvey, survey_inside
from tsarchive.errors import ArchiveError, MissingRecordError, PickleError
from tsarchive.findings import (
    Finding,
    Findings,
    Nature,
    Severity,
    broken,
    excused,
    hostile,
    refused,
    unusual,
)
from tsarchive.formats.pt2.payloads import (
    Configured,
    Payload,
    Saved,
    Storage,
    StoredView,
    saved_payload,
)
from tsarchive.formats.pt2.records import OBJECTS, OPAQUE_OBJECT, Records, config_name
from tsarchive.formats.pt2.schema import DTYPES, PayloadConfig, PayloadMeta
from tsarchive.formats.pt2.verifying.programs import Stored
from tsarchive.formats.pt2.verifying.texts import expression_fault, expressions_of_payloads
from tsarchive.formats.torchscript.pickled import MAX_DEPTH
from tsarchive.formats.torchscript.stored_tensors import tensor_findings
from tsarchive.formats.torchscript.verifying.pickles import (
    PickleNames,
    is_deeper_than,
    is_foreign,
    names_in_pickle,
)
from tsarchive.pickler import loads

_RULE: Final = "payload"
_FILE_NAME: Final = re.compile(r"[^/\\\0]+")
_ZIP: Final = b"PK\x03\x04"
_SHOWN: Final = 80
_NOTHING: Final[Stored] = ({}, frozenset())


class Payloads:
    """Checks payloads, and remembers which records something refers to.

    ``pickled`` are the records among them that are files of ``torch.save``, ``opaque`` those
    that are pickles without a zip around.
    """

    def __init__(self, records: Records, findings: Findings) -> None:
        self._records = records
        self._findings = findings
        self._owners: dict[str, str] = {}
        self.referenced: set[str] = set()
        self.pickled: dict[str, None] = {}
        self.opaque: dict[str, None] = {}

    def stored(self, model: str, folder: str) -> Stored:
        """Check the weights or the constants of a model."""
        whole = self._records.whole_record(folder, model)
        record = whole or config_name(folder, model)
        if not self._records.has(record):
            return _NOTHING  # the check of the set of records has found it
        return self._configured(model, folder, record) if whole is None else self._whole(whole)

    # One file of torch.save

    def _whole(self, record: str) -> Stored:
        self.referenced.add(record)
        self.pickled[record] = None
        try:
            saved = Saved(self._records.container, record)
            root = saved.root
        except ArchiveError:
            return _NOTHING  # which the check of the pickle finds
        if not isinstance(root, dict):
            self._findings.add([broken(_RULE, "the record does not hold a dict", record)])
            return _NOTHING
        found: dict[str, Payload] = {}
        for name, value in root.items():
            try:
                found[str(name)] = saved_payload(saved, value)
            except ArchiveError as error:
                self._findings.add([refused(error, _RULE, record)])
        return found, frozenset(map(str, root))

    # A configuration and a record for each storage

    def _configured(self, model: str, folder: str, record: str) -> Stored:
        try:
            config = self._records.payload_config(record)
        except ArchiveError as error:
            self._findings.add([refused(error, "payload-config", record)])
            return _NOTHING
        self._findings.add(_texts(config, record))
        reader = Configured(self._records.container, folder, record)
        found: dict[str, Payload] = {}
        for name, meta in config.config.items():
            payload = self._payload(reader, name, meta, model)
            if payload is not None:
                found[name] = payload
        return found, frozenset(config.config)

    def _payload(
        self, reader: Configured, name: str, meta: PayloadMeta, model: str
    ) -> Payload | None:
        if not _FILE_NAME.fullmatch(meta.path_name) or meta.path_name in (".", ".."):
            message = f"{name[:_SHOWN]!r} has the path {meta.path_name[:_SHOWN]!r}, no file name"
            self._findings.add([hostile(_RULE, message, reader.record)])
            return None
        path = f"{reader.folder}{meta.path_name}"
        self.referenced.add(path)
        self._findings.add(self._owner(path, model, reader.record))
        try:
            payload = reader.payload(name, meta)
        except MissingRecordError as error:
            self._findings.add([broken("record-missing", error.message, path, error.hint)])
            return None
        except ArchiveError as error:
            self._findings.add([refused(error, _RULE, reader.record)])
            return None
        self._note(path, meta)
        self._findings.add(self._unusual(name, path, meta, payload, reader.record))
        return payload

    def _owner(self, path: str, model: str, config: str) -> Iterator[Finding]:
        owner = self._owners.setdefault(path, model)
        if owner != model:
            message = f"the record is of the model {owner!r} as well: torch shares none"
            yield unusual(_RULE, f"{path}: {message}", config)

    def _note(self, path: str, meta: PayloadMeta) -> None:
        """Remember what a record is: a tensor, a file of ``torch.save``, a pickle."""
        if meta.path_name.startswith(OPAQUE_OBJECT):
            self.opaque[path] = None
        elif meta.use_pickle or meta.path_name.startswith(OBJECTS):
            self.pickled[path] = None

    def _unusual(
        self, name: str, path: str, meta: PayloadMeta, payload: Payload, config: str
    ) -> Iterator[Finding]:
        shown = name[:_SHOWN]
        if meta.path_name.startswith(OBJECTS):
            if not meta.use_pickle:
                yield unusual(_RULE, f"{shown!r} is an object without use_pickle", config)
        elif isinstance(payload, StoredView) and not meta.use_pickle:
            size, itemsize = payload.storage.nbytes, DTYPES[payload.dtype].itemsize
            if size % itemsize:
                message = f"{shown!r} has elements of {itemsize} bytes in a record of {size:,}"
                yield unusual(_RULE, message, config)
            if _begins(payload.storage) == _ZIP:
                message = f"{shown!r} has no use_pickle, and its record is a zip archive"
                yield unusual(_RULE, message, config)


def _begins(storage: Storage) -> bytes:
    """The first bytes of a storage; none of one that the check of the container found damaged."""
    try:
        return bytes(storage.data()[:4])
    except ArchiveError:
        return b""


def _texts(config: PayloadConfig, record: str) -> Iterable[Finding]:
    """No size that is stored is an expression; torch evaluates one that is there."""
    for place, text in expressions_of_payloads(config):
        message = f"{place[:_SHOWN]} has the expression {text[:_SHOWN]!r} as a size"
        is_sound = expression_fault(text) is None
        yield (broken if is_sound else hostile)("program-expression", message, record)


_PICKLE: Final = "data.pkl"
_SHOWN_NAME: Final = 120
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
        shown = "a name that it computes" if name is None else repr(name[:_SHOWN_NAME])
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
