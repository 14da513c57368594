"""An archive that is compared with several others, and read once."""

from __future__ import annotations

import io
from contextlib import ExitStack

import tsarchive
from tests.fingerprinting.mutants import Mutant, Original
from tests.support.archives import records_of
from tests.support.verifying import packed
from tsarchive.diffing import DiffReport
from tsarchive.diffing.comparison import compared
from tsarchive.fingerprinting import fingerprint_of, readable_contents


class Compared:
    """An archive before, and what it holds."""

    def __init__(self, data: bytes) -> None:
        with tsarchive.open(io.BytesIO(data)) as archive:
            self.original = Original(records_of(data), dict(archive.tensors))
            self.classes = dict(_classes(archive.tree(), ""))
        self._stack = ExitStack()
        source = io.BytesIO(packed(self.original.records))
        self._before = self._stack.enter_context(readable_contents(source))

    def with_mutant(self, mutant: Mutant) -> DiffReport:
        """Compare with a mutant; changes are there where fingerprints differ, and only there."""
        with ExitStack() as stack:
            before = self._before
            if mutant.base is not None:
                base = io.BytesIO(packed(mutant.base))
                before = stack.enter_context(readable_contents(base))
            source = io.BytesIO(packed(mutant.records))
            after = stack.enter_context(readable_contents(source))
            report = compared(before, after)
            prints = [fingerprint_of(side.contents, side.reading) for side in (before, after)]
        own, other = ((found.model, found.extra_files) for found in prints)
        assert report.same == (own == other), (mutant.kind, mutant.where)
        return report


def _classes(module, path):
    yield path, module.qualified_class
    for inner in module.children:
        yield from _classes(inner, f"{path}.{inner.name}" if path else inner.name)
