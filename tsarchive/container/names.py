"""Which names a record may have, and which root folder an archive gets from its path."""

from __future__ import annotations

import re

__all__ = ["MAX_NAME_BYTES", "name_problem", "root_of_path"]

# No file system takes a longer path, and no writer of archives makes one.
MAX_NAME_BYTES = 4096

# Names that leave the folder they are joined to, on any system, or that tools cut or hide.
_FORBIDDEN = (
    (re.compile(r"[\x00-\x1f\x7f]"), "holds a control character"),
    (re.compile(r"\A[/\\]"), "is an absolute path"),
    (re.compile(r"\A[A-Za-z]:"), "begins with a drive letter"),
    (re.compile(r"(?:\A|[/\\])\.\.(?:[/\\]|\Z)"), "steps out of its folder with '..'"),
)


def name_problem(name: str) -> str | None:
    """Say what is wrong with a name, as the predicate of a sentence, or give None."""
    for pattern, problem in _FORBIDDEN:
        if pattern.search(name):
            return problem
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode text"
    return f"is longer than {MAX_NAME_BYTES} bytes" if size > MAX_NAME_BYTES else None


def root_of_path(path: str) -> str:
    """Give the root folder of an archive saved to ``path``, as torch derives it.

    The last component, ``/`` and ``\\`` both being separators, without the part after its
    last dot: ``out/net.v2.pt`` has the root ``net.v2``. May be empty (``.hidden``).
    """
    base = re.split(r"[/\\]", path)[-1]
    return base.rpartition(".")[0] if "." in base else base
