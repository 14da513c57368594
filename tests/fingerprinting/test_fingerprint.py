"""Fingerprints: equal for one model however it is kept, and another for every change."""

from __future__ import annotations

import io
from dataclasses import asdict

import pytest

import tsarchive
from tests.support.archives import ARCHIVES, loaded, records_of, saved, torch_loaded, torch_saved
from tests.support.verifying import METHODS, packed, zipped

from .mutants import Original, mutants

ARCHIVE_NAMES = sorted(path.name for path in ARCHIVES.glob("*.pt") if ".io" not in path.name)
PARTS = ("code", "structure", "weights", "extra_files", "model")


def of(data: bytes, **options):
    return tsarchive.fingerprint(io.BytesIO(data), **options)


def test_one_model_has_one_fingerprint(case):
    module = case.build()
    data = torch_saved(module)
    expected = of(data)
    forms = {
        "live": tsarchive.fingerprint(module),
        "saved": of(saved(module)),
        "canonical": of(saved(module, canonical=True)),
        "without debug records": of(saved(module, debug=False)),
        "loaded": tsarchive.fingerprint(loaded(data)),
        "saved again": of(saved(loaded(data))),
        "saved again by torch": of(torch_saved(torch_loaded(data))),
    }
    assert {name: asdict(found) for name, found in forms.items()} == dict.fromkeys(
        forms, asdict(expected)
    )


@pytest.mark.parametrize("method", METHODS)
def test_packing_means_nothing(method):
    data = (ARCHIVES / "sequential.pt").read_bytes()
    assert of(zipped(records_of(data), root="other", method=METHODS[method])) == of(data)


@pytest.mark.parametrize("name", ARCHIVE_NAMES)
def test_each_change_is_seen_where_it_is(name):
    data = (ARCHIVES / name).read_bytes()
    with tsarchive.open(io.BytesIO(data)) as archive:
        original = Original(records_of(data), dict(archive.tensors))
    before = of(data)
    for mutant in mutants(original, seed=ARCHIVE_NAMES.index(name), count=4):
        after = of(packed(mutant.records))
        differing = {part for part in PARTS if getattr(after, part) != getattr(before, part)}
        expected = (
            mutant.changed if mutant.changed == {"extra_files"} else mutant.changed | {"model"}
        )
        assert differing == expected, mutant.where
        if mutant.tensor is not None:
            assert after.tensors[mutant.tensor] != before.tensors[mutant.tensor]
