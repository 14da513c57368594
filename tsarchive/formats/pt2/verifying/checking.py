"""Verification of a PT2 archive layer by layer: records, programs, payloads, pickles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tsarchive.container import Container
from tsarchive.errors import INCOMPLETE, ArchiveError
from tsarchive.findings import Finding, Findings, broken, note, refused, unusual
from tsarchive.formats.pt2.payloads import weight_records
from tsarchive.formats.pt2.records import (
    AOTINDUCTOR,
    CONSTANTS,
    FLAT_STATES,
    SAMPLE_INPUTS,
    WEIGHTS,
    Layout,
    Records,
    config_name,
)
from tsarchive.formats.pt2.schema import ExportedProgram
from tsarchive.formats.pt2.verifying.payloads import Payloads, pickle_findings, saved_findings
from tsarchive.formats.pt2.verifying.programs import (
    container_classes,
    convention_findings,
    field_findings,
    graph_findings,
    signature_findings,
    state_findings,
)
from tsarchive.formats.pt2.verifying.texts import text_findings
from tsarchive.formats.records import RecordTable, Role
from tsarchive.formats.torchscript.code_records import NEWEST_VERSION, OLDEST_VERSION
from tsarchive.formats.torchscript.verifying.checking import byte_order_findings, unknown_records
from tsarchive.formats.verification import Step

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
    states = {
        Layout.FLAT: FLAT_STATES.values(),
        Layout.WHOLE: [f"{folder}{model}.pt" for folder in FLAT_STATES],
        Layout.RAW: [config_name(folder, model) for folder in FLAT_STATES],
    }
    return (*states[records.layout], records.inputs_record(model))


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


class Pt2Check:
    """Goes through the layers. Records that are ``damaged`` cannot be read and are passed over."""

    def __init__(
        self,
        container: Container,
        table: RecordTable,
        findings: Findings,
        damaged: Collection[str],
    ) -> None:
        self._container = container
        self._table = table
        self._findings = findings
        self._damaged = damaged
        self._records = Records(container)
        self._payloads = Payloads(self._records, findings)
        self.code_records = 0

    def run(self, step: Step) -> None:
        """Look at everything; ``step`` is told what comes next."""
        step("records")
        self._findings.add(record_findings(self._container, self._records, self._table))
        step("code")
        programs = dict(self._programs())
        step("tensors")
        for model in self._records.models:
            self._check_model(model, programs.get(model))
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
                self._findings.add([refused(error, "program-malformed", record)])
                continue
            self.code_records += 1
            self._findings.add(field_findings(program, record))
            self._findings.add(text_findings(program, record))
            self._findings.add(convention_findings(program, record))
            self._findings.add(signature_findings(program, record))
            yield model, program

    def _check_model(self, model: str, program: ExportedProgram | None) -> None:
        weights, constants = (self._payloads.stored(model, folder) for folder in FLAT_STATES)
        if program is not None:
            record = self._records.program_record(model)
            self._findings.add(state_findings(program, weights, constants, record))
            graph = program.graph_module.graph
            self._findings.add(graph_findings(graph, record, constants[1]))

    def _check_compiled(self) -> None:
        """What AOTInductor says of the machine, and of weights beside its code."""
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
    """What is wrong with an opened archive, whose container is sound.

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
