"""The layers of a PT2 archive: records, programs, payloads, and what is pickled."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tsarchive.container import Container
from tsarchive.errors import ArchiveError
from tsarchive.findings import Finding, Findings, refused, unusual
from tsarchive.formats.pt2.compiled import weight_records
from tsarchive.formats.pt2.records import AOTINDUCTOR, CONSTANTS, WEIGHTS, Records
from tsarchive.formats.pt2.schema import ExportedProgram
from tsarchive.formats.records import RecordTable
from tsarchive.formats.verification import Step

from .conventions import container_classes, convention_findings, field_findings
from .graphs import graph_findings
from .payloads import Payloads
from .records import record_findings
from .saved import pickle_findings, saved_findings
from .signatures import signature_findings, state_findings
from .texts import text_findings

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
        weights, constants = self._payloads.weights(model), self._payloads.constants(model)
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
        for folder in (WEIGHTS, CONSTANTS):
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
    kept.add(finding for finding in findings if not _is_of_data(finding))
    return kept


def _is_of_data(finding: Finding) -> bool:
    is_data = _DATA_INSIDE.search(finding.record or "") is not None
    return is_data and finding.rule == "zip-crc"
