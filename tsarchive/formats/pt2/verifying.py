"""Verification of a PT2 archive layer by layer: records, programs, payloads, pickles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from tsarchive.container import Container, ContainerSurvey, survey
from tsarchive.errors import (
    INCOMPLETE,
    ArchiveError,
    MissingRecordError,
    PickleError,
    UnsupportedError,
)
from tsarchive.findings import (
    Finding,
    Findings,
    Nature,
    Severity,
    broken,
    excused,
    fault,
    hostile,
    note,
    refused,
    unusual,
)
from tsarchive.formats.records import RecordTable, Role
from tsarchive.formats.torchscript.code_records import NEWEST_VERSION, OLDEST_VERSION
from tsarchive.formats.torchscript.pickled import MAX_DEPTH
from tsarchive.formats.torchscript.stored_tensors import tensor_findings
from tsarchive.formats.torchscript.verifying.checking import byte_order_findings, unknown_records
from tsarchive.formats.torchscript.verifying.pickles import (
    PickleNames,
    is_deeper_than,
    is_foreign,
    names_in_pickle,
)
from tsarchive.pickler import loads
from tsarchive.steps import Step

from .payloads import Configured, Payload, Saved, StoredView, saved_payload, weight_records
from .program_checks import (
    Stored,
    container_classes,
    convention_findings,
    expression_fault,
    expressions_of_payloads,
    field_findings,
    graph_findings,
    signature_findings,
    state_findings,
    text_findings,
)
from .records import (
    AOTINDUCTOR,
    CONSTANTS,
    FLAT_STATES,
    OBJECTS,
    OPAQUE_OBJECT,
    SAMPLE_INPUTS,
    WEIGHTS,
    Layout,
    Records,
    config_name,
)
from .schema import DTYPES, ExportedProgram, PayloadMeta

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
        if whole is None and self._records.layout is Layout.FLAT:
            return _NOTHING  # torch 2.1 has no record for constants
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
        for place, text in expressions_of_payloads(config):
            # No size that is stored is an expression; torch evaluates one that is there.
            message = f"{place[:_SHOWN]} has the expression {text[:_SHOWN]!r} as a size"
            finding = broken if expression_fault(text) is None else hostile
            self._findings.add([finding("program-expression", message, record)])
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
        owner = self._owners.setdefault(path, model)
        if owner != model:
            message = f"{path}: the record is of the model {owner!r} as well: torch shares none"
            self._findings.add([unusual(_RULE, message, reader.record)])
        try:
            payload = reader.payload(name, meta)
        except MissingRecordError as error:
            self._findings.add([broken("record-missing", error.message, path, error.hint)])
            return None
        except ArchiveError as error:
            self._findings.add([refused(error, _RULE, reader.record)])
            return None
        if meta.path_name.startswith(OPAQUE_OBJECT):
            self.opaque[path] = None
        elif meta.use_pickle or meta.path_name.startswith(OBJECTS):
            self.pickled[path] = None
        self._findings.add(self._unusual(name, path, meta, payload, reader.record))
        return payload

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
            # The check of the container finds records that are damaged.
            with suppress(ArchiveError):
                if payload.storage.begins_with(_ZIP):
                    message = f"{shown!r} has no use_pickle, and its record is a zip archive"
                    yield unusual(_RULE, message, config)


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
    """Check a file of ``torch.save`` in a record: its zip, its pickle, its tensors.

    ``containers`` are the names, without modules, of classes whose instances hold arguments of
    the program. Its example inputs name them as well, which is worth a note.
    """
    try:
        found = survey(container.part(record), _storages)
    except ArchiveError as error:
        yield refused(error, "zip-record", record)
        return
    with found:
        for finding in found.findings:
            # Offsets are in the record around it.
            inside = record if finding.record is None else f"{record}/{finding.record}"
            rule = _NO_ARCHIVE if finding.rule.startswith("file-") else finding.rule
            yield replace(finding, rule=rule, record=inside)
        if found.container is not None:
            of_pickle = _of_pickle(container, found, record, frozenset(containers))
            is_checked = _has_checksum(container, record)
            is_checked = is_checked and _has_checksum(found.container, _PICKLE)
            yield from of_pickle if is_checked else map(excused, of_pickle)


def _storages(saved: Container) -> frozenset[str]:
    return frozenset(name for name in saved.records if name.startswith("data/"))


def _has_checksum(container: Container, record: str) -> bool:
    """Return whether damage to a record, where it is there, would be seen."""
    return record not in container.records or container.records[record].crc is not None


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
    for finding in findings:
        if finding.rule == _UNKNOWN_FUNCTION:
            # Subclasses of tensors have functions of their own, which nothing here calls.
            finding = replace(finding, severity=Severity.WARNING, nature=Nature.UNUSUAL)
        yield finding


def pickle_findings(container: Container, record: str) -> Iterator[Finding]:
    """Check a record that is one pickle, of a Python object."""
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
    """Check the set of records, without what programs and payloads say of it."""
    yield from unknown_records(container, table)
    yield from _versions(container, records)
    yield from byte_order_findings(container)
    yield from _missing(records)
    yield from _of_no_model(records)
    yield from _notes(container, table)


_NUMBERED: Final = rb"\d{1,3}\.\d{1,3}"
_FIRST: Final = rb"\d"  # of torch 2.1 and 2.2


def _versions(container: Container, records: Records) -> Iterator[Finding]:
    if records.layout is Layout.FLAT:
        text = _content(container, "version")
        if text is None:
            yield broken("record-missing", "the record is not there", "version", INCOMPLETE)
        elif not re.fullmatch(_FIRST if records.is_first else _NUMBERED, text):
            message = f"the version is {text[:20]!r}, not two numbers with a dot between"
            yield broken("record-version", message, "version")
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


def _missing(records: Records) -> Iterator[Finding]:
    """Find records that torch reads with every program and that are missing."""
    for model in records.models:
        states = {
            Layout.FLAT: records.flat_states.values(),
            Layout.WHOLE: [f"{folder}{model}.pt" for folder in FLAT_STATES],
            Layout.RAW: [config_name(folder, model) for folder in FLAT_STATES],
        }
        inputs = records.inputs_record(model)
        for record in (*states[records.layout], *(() if records.is_first else (inputs,))):
            if not records.has(record):
                message = f"the model {model!r} has this record, and it is not there"
                yield broken("record-missing", message, record, INCOMPLETE)


def _of_no_model(records: Records) -> Iterator[Finding]:
    for folder, end in _OF_A_MODEL:
        for name in records.under(folder):
            model = name[len(folder) : -len(end)]
            if name.endswith(end) and "/" not in model and model not in records.models:
                message = f"it is of the model {model!r}, which the archive does not have"
                yield unusual("record-unreferenced", message, name)


def _notes(container: Container, table: RecordTable) -> Iterator[Finding]:
    for name, record in container.records.items():
        role = table.role(name)
        if role in _NOTES and (role is not Role.NATIVE or name.endswith(".so")):
            what, why = _NOTES[role]
            yield note("record-extra", f"{what} of {record.size:,} bytes, which {why}", name)


_NOTES: Final = {
    Role.EXTRA: ("an extra file", "torch does not look into"),
    Role.EXECUTORCH: ("a program or data of ExecuTorch", "torch does not read"),
    Role.NATIVE: ("machine code of AOTInductor", "is not looked into"),
}


_CONFIGS: Final = ("_weights_config.json", "_constants_config.json", ".pt")

# A storage in a file of torch.save.
_DATA_INSIDE: Final = re.compile(r"\.pt/data/[0-9]+\Z")


@dataclass
class Pt2Check:
    """Checks layer by layer. Records that are ``damaged`` cannot be read and are passed over."""

    _container: Container
    _table: RecordTable
    _findings: Findings
    _damaged: Collection[str]
    code_records: int = 0

    def __post_init__(self) -> None:
        self._records = Records(self._container)
        self._payloads = Payloads(self._records, self._findings)

    def run(self, step: Step) -> None:
        """Look at everything; ``step`` is told what comes next."""
        step("records")
        self._findings.add(record_findings(self._container, self._records, self._table))
        step("code")
        programs = dict(self._programs())
        step("tensors")
        for model in self._records.models:
            weights, constants = (self._payloads.stored(model, one) for one in FLAT_STATES)
            if program := programs.get(model):
                record = self._records.program_record(model)
                self._findings.add(state_findings(program, weights, constants, record))
                graph = program.graph_module.graph
                self._findings.add(graph_findings(graph, record, constants[1]))
        self._check_compiled()
        step("pickles")
        self._check_pickles(programs)
        self._findings.add(self._unreferenced())

    def _programs(self) -> Iterator[tuple[str, ExportedProgram]]:
        for model in self._records.models:
            record = self._records.program_record(model)
            if record in self._damaged:
                continue
            try:
                program = self._records.program(model)
            except ArchiveError as error:
                found = refused(error, "program-malformed", record)
                if isinstance(error, UnsupportedError):
                    found = fault(error, "program-version", Nature.OTHER_KIND, record)
                self._findings.add([found])
                continue
            self.code_records += 1
            self._findings.add(field_findings(program, record))
            self._findings.add(text_findings(program, record))
            self._findings.add(convention_findings(program, record))
            self._findings.add(signature_findings(program, record))
            yield model, program

    def _check_compiled(self) -> None:
        """Check what AOTInductor says of the machine, and of weights beside its code."""
        for name in self._records.under(AOTINDUCTOR):
            if not name.endswith(".json") or name in self._damaged:
                continue
            try:
                found = weight_records(self._records, name)
            except ArchiveError as error:
                self._findings.add([refused(error, "record-compiled", name)])
                continue
            self._payloads.referenced |= found
            self._payloads.pickled |= dict.fromkeys(found)

    def _check_pickles(self, programs: Mapping[str, ExportedProgram]) -> None:
        records: dict[str, frozenset[str]] = dict.fromkeys(self._payloads.pickled, frozenset())
        for model in self._records.models:
            records[self._records.inputs_record(model)] = container_classes(programs.get(model))
        for record, containers in records.items():
            if self._container.size(record) and record not in self._damaged:
                self._findings.add(saved_findings(self._container, record, containers))
        for record in self._payloads.opaque:
            if record not in self._damaged:
                self._findings.add(pickle_findings(self._container, record))

    def _unreferenced(self) -> Iterator[Finding]:
        for folder in FLAT_STATES:
            for name in self._records.under(folder):
                if name in self._payloads.referenced or name.endswith(_CONFIGS):
                    continue
                size = self._container.records[name].size
                message = f"no tensor and no object lies in these {size:,} bytes"
                hint = "See what it is before you pass the file on"
                yield unusual("record-unreferenced", message, name, hint)


def pt2_findings(container: Container, table: RecordTable) -> Findings:
    """Return the findings about an opened archive, whose container is sound.

    Loaded tensors are views of its data, so what was written to them is no damage.
    """
    findings = Findings()
    Pt2Check(container, table, findings, ()).run(lambda _: None)
    kept = Findings()
    kept.add(
        finding
        for finding in findings
        if finding.rule != "zip-crc" or not _DATA_INSIDE.search(finding.record or "")
    )
    return kept
