"""The operators that torch registers when it is imported, without those that tests add later."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

_PROGRAM = """
import torch
for schema in torch._C._jit_get_all_schemas():
    print(f"{schema.name}.{schema.overload_name}".removesuffix("."))
"""


@cache
def names_of_torch() -> frozenset[str]:
    """Names with overloads, of a process that has imported torch alone."""
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())
