"""Formats the modules of a package: ruff sorts their imports and breaks their lines.

ruff also drops parentheses that ``ast.unparse`` writes twice. What is written is what ``ruff
format`` leaves alone, with the settings that it has by default.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from ruff.__main__ import find_ruff_bin

from tsarchive.errors import UnsupportedError

_SETTINGS = ("--isolated", "--no-cache", "--quiet")
# What TorchScript has no other form for: defaults that are lists, the classes of a ``with``,
# ``keys`` of objects; what operators mean of futures and of numbers that are nan; and expressions,
# loops and ``if`` that the program has as they are.
_MEANT = (
    "B002,B006,BLE001,FLY002,FURB136,PERF402,PLC0206,PLR0124,PLR1730,"
    "PYI034,PYI036,PYI041,SIM118,SIM201,SIM401"
)
_STEPS = (
    ("check", "--fix-only", "--select", "I,UP032,UP034"),
    ("format",),
    ("check", "--select", _MEANT, "--add-noqa"),
)


def formatted(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the modules, by name, as ruff formats them.

    Raises UnsupportedError with what ruff says where it does not take the text.
    """
    with TemporaryDirectory() as folder:
        # Names of an archive are not for the file system of this machine, nor for ruff's settings.
        files = {name: Path(folder, f"_{number}.py") for number, name in enumerate(texts)}
        for name, file in files.items():
            file.write_text(texts[name], encoding="utf-8", newline="\n")
        for command in _STEPS:
            _run([*command, *_SETTINGS, folder])
        return {name: file.read_text(encoding="utf-8") for name, file in files.items()}


def _run(arguments: list[str]) -> None:
    command = [os.fspath(find_ruff_bin()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise UnsupportedError(f"ruff refuses the code of the package: {done.stderr.strip()}")
