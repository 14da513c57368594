"""Bytes that are the same on every torch, Python and machine."""

from __future__ import annotations

import json

from fixtures.digests import digest_of_batch_norm, digests
from tests.support.archives import FIXTURES, TORCH


def test_archives_have_the_bytes_that_they_have_everywhere():
    assert digests() == json.loads((FIXTURES / "digests.json").read_text())


def test_live_modules_change_with_the_source_of_torch_alone():
    by_torch = json.loads((FIXTURES / "digests_by_torch.json").read_text())
    versions = {tuple(map(int, version.split("."))): found for version, found in by_torch.items()}
    assert digest_of_batch_norm() == versions[max(v for v in versions if v <= TORCH)]
