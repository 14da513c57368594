"""Bytes that are the same on every torch, Python and machine."""

from __future__ import annotations

import json

from fixtures.digests import digests
from tests.support.archives import FIXTURES


def test_archives_have_the_bytes_that_they_have_everywhere():
    assert digests() == json.loads((FIXTURES / "digests.json").read_text())
