"""The pytest plugin, which provides a fixture without an import."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .assertions import assert_no_jitter as check


@pytest.fixture(scope="session", name="assert_no_jitter")
def _assert_no_jitter() -> Callable[..., None]:
    """Fails unless a module has one archive: see ``tsarchive.testing.assert_no_jitter``."""
    return check
