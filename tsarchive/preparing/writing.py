"""Writing of an ExecuTorch program and, optionally, its data file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tsarchive.container.writer import replacing
from tsarchive.errors import CallError

from .agreement import Agreement, measure_agreement
from .lowering import Prepared, lower
from .sources import Source

_SUFFIX = ".ptd"


def data_name(data: str | os.PathLike[str]) -> str:
    """Return the package's name of a data file. Raises CallError where its suffix is wrong."""
    path = Path(os.fsdecode(data))
    if path.suffix != _SUFFIX or not path.stem:
        raise CallError(f"the name {path.name!r} of the data file does not end in {_SUFFIX}")
    return path.stem


def write(
    source: Source,
    dst: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    *,
    backends: Sequence[str] = (),
    step: Callable[[str], None] = lambda description: None,
) -> bool:
    """Lower programs and write them, with their constants in the file ``data`` if given.

    Returns whether a data file was written: none is where backends took all constants. Either both
    files are replaced, or none. Raises what ``lower`` raises, and OSError.
    """
    name = None if data is None else data_name(data)
    step("lowering")
    prepared = lower(source.methods, backends=backends, data_name=name)
    step(f"writing {os.fspath(dst)}")
    _write(prepared, dst, data if prepared.has_data else None)
    return prepared.has_data


def _write(
    prepared: Prepared, dst: str | os.PathLike[str], data: str | os.PathLike[str] | None
) -> None:
    with ExitStack() as files:
        prepared.write(files.enter_context(replacing(os.fsdecode(dst))))
        if data is not None:
            prepared.write_data(files.enter_context(replacing(os.fsdecode(data))))


def check(
    source: Source, dst: str | os.PathLike[str], data: str | os.PathLike[str] | None
) -> tuple[Agreement, ...]:
    """Compare the written program with its source, for methods with examples."""
    if not source.examples:
        return ()
    content = None if data is None else Path(data).read_bytes()
    return measure_agreement(Path(dst).read_bytes(), content, source.methods, source.examples)
