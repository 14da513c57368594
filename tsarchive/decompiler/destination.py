"""Where a package is written, and under which names other code can import it."""

from __future__ import annotations

import keyword
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tsarchive.errors import CallError

SHADOWING = frozenset({"numpy", "torch"} | sys.stdlib_module_names)
"""Modules that the package or torch imports: a file or folder of such a name would hide them."""

_NAME_HINT = "Name a directory as an import statement can, such as my_model"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the package: its path inside of it, and its size in bytes."""

    name: str
    size: int


def destination(directory: str | os.PathLike[str], *, force: bool) -> Path:
    """The directory of the package.

    Raises CallError for a file, for a directory that is not empty unless ``force``, and for a
    name that no import statement can have or that hides a module which the package imports.
    """
    shown = os.fspath(directory)
    if not shown:
        raise CallError("the directory of the package has no name", hint=_NAME_HINT)
    target = Path(shown)
    for folder in (target, *target.parents):
        if folder.exists() and not folder.is_dir():
            raise CallError(
                f"{str(folder)!r} is a file, not a directory",
                hint="Name another directory, or move the file away",
            )
    _check_name(Path(os.path.abspath(target)).name, shown)
    if not force and target.exists() and any(target.iterdir()):
        raise CallError(
            f"{shown!r} exists and is not an empty directory",
            hint="Name another one, or write into it with force=True",
        )
    return target


def _check_name(name: str, shown: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise CallError(f"Python cannot import a package named {name!r}", hint=_NAME_HINT)
    if name in SHADOWING:
        raise CallError(
            f"a package in {shown!r} would hide the module {name!r} of Python or torch",
            hint="Name a directory that no other module is named after, such as my_model",
        )


def write(target: Path, files: Mapping[str, bytes]) -> tuple[WrittenFile, ...]:
    return tuple(_write(target, name, content) for name, content in sorted(files.items()))


def _write(target: Path, name: str, content: bytes) -> WrittenFile:
    path = target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return WrittenFile(name, len(content))
