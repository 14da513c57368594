"""The layers of an archive of before torch 1.3: model.json, pickles, tensors and code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from tsarchive.container import Container
from tsarchive.errors import ArchiveError
from tsarchive.findings import Findings, fault
from tsarchive.formats.records import RecordTable
from tsarchive.formats.torchscript.verifying.checking import may_be_code, record_findings
from tsarchive.formats.torchscript.verifying.code import (
    MAX_CODE_BYTES,
    syntax_findings,
    too_much_code,
)
from tsarchive.formats.torchscript.verifying.pickles import (
    Pickle,
    Storages,
    debug_findings,
    is_debug,
    is_pickle,
    read_pickle,
    unreferenced,
    use_findings,
)
from tsarchive.formats.verification import Step
from tsarchive.frontend import CodeImporter

from .inspection import LegacyView
from .model import MODEL

_T = TypeVar("_T")


class LegacyCheck:
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
        self._storages = Storages(container, damaged)
        self._view = LegacyView(container)
        self.code_records = 0

    def run(self, step: Step) -> None:
        """Look at everything; ``step`` is told what comes next."""
        step("records")
        self._findings.add(record_findings(self._container, self._table, has_debug=False))
        step("code")
        is_code = self._is_code()
        step("pickles")
        self._check_pickles(self._classes() if is_code else None)
        step("tensors")
        self._check_tensors()

    def _is_code(self) -> bool:
        """Whether all of the code has the syntax of code."""
        sizes = (self._container.records[name].size for name in self._view.code)
        if sum(sizes) > MAX_CODE_BYTES:
            self._findings.add([too_much_code()])
            return False
        return all([self._has_code_syntax(name) for name in self._view.code])

    def _has_code_syntax(self, name: str) -> bool:
        if name in self._damaged:
            return False
        text = self._tried(lambda: self._view.code[name], "zip-record")
        if text is None:
            return False
        self.code_records += 1
        found = list(syntax_findings(name, text))
        self._findings.add(found)
        return not found

    def _classes(self) -> CodeImporter | None:
        if self._tried(lambda: self._view.model, "record-model") is None:
            return None
        return self._tried(lambda: self._view.classes, "code-definition")

    def _names(self) -> Iterator[str]:
        return (name for name in self._container.records if name not in self._damaged)

    def _check_pickles(self, code: CodeImporter | None) -> None:
        may_lack_code = MODEL in self._damaged or any(
            may_be_code(name, self._table) for name in self._damaged
        )
        for name in filter(is_pickle, self._names()):
            found = read_pickle(self._container, name)
            if not isinstance(found, Pickle):
                self._findings.add(found)
                continue
            self._findings.add(use_findings(found, code, may_lack_code=may_lack_code))
            if is_debug(name):
                self._findings.add(debug_findings(self._container, name, None))

    def _check_tensors(self) -> None:
        if self._findings.has_errors:
            return  # the tree of modules, which holds the tensors, needs all of the others
        root = self._tried(lambda: self._view.root, "record-model")
        if root is None:
            return
        self._findings.add(self._storages.value_findings(root, MODEL))
        table = {tensor.record for tensor in self._view.model.tensors}
        self._findings.add(unreferenced(self._container, table | self._storages.referenced))

    def _tried(self, read: Callable[[], _T], rule: str) -> _T | None:
        """What can be read; None, with a finding, where it cannot."""
        try:
            return read()
        except ArchiveError as error:
            self._findings.add([fault(error, rule, record=MODEL)])
            return None
