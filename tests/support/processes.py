"""Python in processes of its own, which find the tests and the fixtures of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.archives import ROOT

__all__ = ["output_of"]

_TIMEOUT = 1800  # seconds: no process hangs a suite for good


def output_of(*args: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> bytes:
    """What ``python ARGS`` prints; a failure raises with what it says to stderr on top."""
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        stdout=subprocess.PIPE,
        timeout=_TIMEOUT,
        check=True,
    )
    return done.stdout
