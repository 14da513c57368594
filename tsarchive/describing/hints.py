"""Hints of the library, which names what Python code would do, as options of commands."""

from __future__ import annotations

import re
from shlex import quote
from typing import Final

_NAME = r"'[^']*'|\"[^\"]*\""
# What the library says, and what stands for it; "\1" is the name or number in it.
_WORDS: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"run 'import ([\w.]+)' first", r"give --import \1"),
        (
            r"import that library first, or load its file with torch\.ops\.load_library",
            "give --import with its name, or with the path of its file",
        ),
        (
            r"load the library of that backend with torch\.ops\.load_library",
            "give --import with the path of the library of that backend",
        ),
        (r"policy=Policy\.trusted\(\)", "--trust"),
        (rf"model=({_NAME})", r"--model \1"),
        (rf"map_location=({_NAME})", r"--map-location \1"),
        (r"force=True", "--force"),
        (r"canonical=True", "--canonical"),
        (r"Limits\((\w+)=\.\.\.\)", r"--max-\1"),
        (r"them as args and kwargs", "INPUTS, --arg or --random, as to 'tsarchive run'"),
        (r"the argument backends", "--backend"),
        (r"the argument dynamic_shapes", "--dynamic"),
        (r"the argument map_location", "--map-location"),
        (r"the argument (\w+)", r"--\1"),
        (r"args, kwargs and dynamic_shapes", "INPUTS, --arg, --random and --dynamic"),
    )
)
_ALLOWING: Final = re.compile(r"policy=Policy\.default\(\)\.allow\(([^)]*)\)")
_ALLOWED: Final = re.compile(r'"([^"]*)"')


def in_commands(hint: str) -> str:
    """Translate a hint for the command line."""
    for pattern, words in _WORDS:
        hint = pattern.sub(words, hint)
    return _ALLOWING.sub(_options, hint)


def _options(allowing: re.Match[str]) -> str:
    return " ".join(f"--allow {quote(name)}" for name in _ALLOWED.findall(allowing[1]))


def advice(name: str) -> str:
    """Advise on an operator or torchbind class that does not come with torch."""
    from tsarchive.frontend.libraries import what_registers
    from tsarchive.ir.names import NATIVE_PREFIX

    hint = what_registers(name if "::" in name else f"{NATIVE_PREFIX}{name}")
    return in_commands(hint)
