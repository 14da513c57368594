"""The layers of an archive of before torch 1.3: model.json, pickles, tensors and code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tsarchive.errors import ArchiveError
from tsarchive.findings import fault
from tsarchive.formats.torchscript.verifying.checking import ArchiveCheck, record_findings
from tsarchive.formats.torchscript.verifying.pickles import (
    debug_findings,
    is_debug,
    unreferenced,
    use_findings,
)
from tsarchive.frontend import CodeImporter
from tsarchive.steps import Step

from .inspection import MODEL, LegacyView

_T = TypeVar("_T")


@dataclass
class LegacyCheck(ArchiveCheck):
    """Checks an archive from before torch 1.3."""

    code_records: int = 0

    @cached_property
    def _view(self) -> LegacyView:
        return LegacyView(self.container)

    def run(self, step: Step) -> None:
        """Look at everything; ``step`` is told what comes next."""
        step("records")
        self.findings.add(record_findings(self.container, self.table, has_debug=False))
        step("code")
        code = self._view.code
        # Each record is looked at, whatever is wrong with the others.
        is_code = self.is_short(code) and all([self._is_sound_code(name) for name in code])
        step("pickles")
        self._check_pickles(self._classes() if is_code else None)
        step("tensors")
        self._check_tensors()

    def _is_sound_code(self, name: str) -> bool:
        if name in self.damaged:
            return False
        text = self._tried(lambda: self._view.code[name], "zip-record")
        if text is None:
            return False
        self.code_records += 1
        return self.has_code_syntax(name, text)

    def _classes(self) -> CodeImporter | None:
        if self._tried(lambda: self._view.model, "record-model") is None:
            return None
        return self._tried(lambda: self._view.classes, "code-definition")

    def _check_pickles(self, code: CodeImporter | None) -> None:
        may_lack_code = MODEL in self.damaged or self.may_lack_code()
        for name, found in self.pickles():
            self.findings.add(use_findings(found, code, may_lack_code=may_lack_code))
            if is_debug(name):
                self.findings.add(debug_findings(self.container, name, None))

    def _check_tensors(self) -> None:
        if self.findings.has_errors:
            return  # the tree of modules, which holds the tensors, needs all of the others
        root = self._tried(lambda: self._view.root, "record-model")
        if root is None:
            return
        self.findings.add(self.storages.findings(root, MODEL))
        table = {tensor.record for tensor in self._view.model.tensors}
        self.findings.add(unreferenced(self.container, table | self.storages.referenced))

    def _tried(self, read: Callable[[], _T], rule: str) -> _T | None:
        """Read something; add a finding and return None where that fails."""
        try:
            return read()
        except ArchiveError as error:
            self.findings.add([fault(error, rule, record=MODEL)])
            return None
