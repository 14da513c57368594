"""Fresh Python processes that measure one side of ``tsarchive demo``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TypedDict

from tsarchive.cli.failures import Failure, failure
from tsarchive.cli.measuring import Reply, Request

TSARCHIVE = "tsarchive.cli.measure_tsarchive"
TORCH_JIT = "tsarchive.cli.measure_torch_jit"


class Answer(TypedDict, total=False):
    """Exactly one of the two."""

    reply: Reply
    error: Failure


def ask(module: str, request: Request, folder: str) -> Answer:
    """Run ``python -m module`` in ``folder`` and give its answer."""
    # -m looks for the package in the current folder first, which may be a checkout.
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=False,
    )
    if done.returncode == 0 and done.stdout:
        answer: Answer = json.loads(done.stdout)
        return answer
    last = (done.stderr.strip() or "no output").splitlines()[-1]
    return {"error": failure("ProcessError", f"the process ended with {done.returncode}: {last}")}
