"""What ``tsarchive --version`` shows."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata

import tsarchive
from tsarchive.policy.versions import untried_torch


def version_lines() -> Iterator[str]:
    """The versions that a report of a defect needs; torch is not imported for that."""
    yield f"tsarchive, version {tsarchive.__version__}"
    try:
        torch = f"torch {metadata.version('torch')}"
    except metadata.PackageNotFoundError:
        torch = "no torch"
    yield f"Python {platform.python_version()}, {torch}"
    untried = untried_torch()
    if untried is not None:
        yield untried
