"""Mutants of archives differ in one place, which is named, and nothing else.

``fuzz/diff_mutants.py`` tries 10,000 of them.
"""

from __future__ import annotations

import pytest

import tsarchive
from tests.fingerprinting.mutants import KINDS, mutants
from tests.support.archives import ROOT
from tests.support.suite import examples

from .places import faults, has_rule
from .running import Compared

FILES = sorted(
    path.relative_to(ROOT / "fixtures").as_posix()
    for folder in ("archives", "old")
    for path in (ROOT / "fixtures" / folder).rglob("*.pt")
    if ".io" not in path.name
)


@pytest.mark.parametrize("name", FILES)
def test_each_change_is_named_where_it_is(name):
    compared = Compared((ROOT / "fixtures" / name).read_bytes())
    for mutant in mutants(compared.original, seed=name, count=examples(3)):
        try:
            report = compared.with_mutant(mutant)
        except tsarchive.SourceError:
            assert "code" in mutant.changed  # no program any more
            continue
        fault = faults(mutant, compared.original.records, report, compared.classes)
        assert fault == "", (mutant.kind, mutant.where, report.changes)


def test_there_is_a_rule_for_each_kind():
    assert [kind for kind in KINDS if not has_rule(kind)] == []
