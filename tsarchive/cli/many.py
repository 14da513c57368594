"""Commands that look at several files and folders: one file after the other, and a summary."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import click

import tsarchive
from tsarchive.container.recognise import HEAD_BYTES, begins_as_pickle
from tsarchive.describing.text import plural
from tsarchive.errors import ArchiveError, CallError
from tsarchive.formats.registry import FORMATS, format_beginning, format_named
from tsarchive.remote import is_url
from tsarchive.steps import Step, under

from .command import FINDINGS, UNUSABLE, FilePath, code_of, describe, report
from .output import labelled, print_json, print_json_line, progress_of, say

files_argument = click.argument(
    "files", nargs=-1, required=True, type=FilePath(), metavar="FILE..."
)
jsonl_option = click.option(
    "--jsonl", "as_lines", is_flag=True, help="Print one JSON document a line, for each file."
)

# The first record of an archive of torch, as its zip header names it.
_FIRST_RECORD: Final = re.compile(
    rb"PK\x03\x04.{26}[^/]+/(?:data/|models/|data\.pkl|code/|constants|extra/|version|byteorder|\.)",
    re.DOTALL,
)


class Found(NamedTuple):
    """What a command tells of one file: makes a document of it, shows it, and its exit code."""

    document: Callable[[], Any]
    show: Callable[[], None]
    code: int = 0


Look: TypeAlias = Callable[[str, Step], Found]
Layout: TypeAlias = Literal["lines", "blocks", "titled"]
"""How text about several files is set apart: not at all, by empty lines, or also by their names."""


class Wanted(NamedTuple):
    """A file to look at, which was named or stands in a folder that was."""

    path: str
    is_named: bool = True


def is_folder(path: str) -> bool:
    """Return whether a path or URL stands for what is below it."""
    return path.endswith("/") if is_url(path) else os.path.isdir(path)


def wanted(files: Sequence[str]) -> list[Wanted]:
    """Return the files, and for folders those below that are named like models, in order.

    Raises OSError for a folder that cannot be listed, CallError where there is no file at all.
    """
    every = [*chain.from_iterable(map(_files_of, files))]
    if not every:
        hint = "Name the files, or a folder that has files such as net.pt, net.pt2 or net.pte"
        raise CallError(f"{', '.join(files)}: no file below is named like a model", hint=hint)
    return every


def _files_of(file: str) -> Iterator[Wanted]:
    if not is_folder(file):
        yield Wanted(file)
        return
    from tsarchive.surveying.listing import SIGNATURES, listed

    for path in sorted(each.place for each in listed(file)):
        if not path.endswith(SIGNATURES):
            yield Wanted(path, is_named=False)


def _is_or_should_be_a_model(path: str) -> bool:
    """Return whether a file begins like an archive or a program, or has the name of one.

    A pickle has not, whatever its name: weights are called ``.pt``, too. What is called so and is
    neither may be a pointer of Git LFS, a web page, or empty: nobody would want it passed over.
    """
    with Path(path).open("rb") as file:
        head = file.read(HEAD_BYTES)
    if _FIRST_RECORD.match(head) or format_beginning(head):
        return True
    suffixes = tuple(chain.from_iterable(found.suffixes for found in FORMATS))
    return path.lower().endswith(suffixes) and not (
        head and begins_as_pickle(head, is_whole=len(head) < HEAD_BYTES)
    )


def reason_to_skip(path: str) -> str | None:
    """Return why a file in a folder holds no model; None where it does, or should.

    TorchScript and PT2 archives and files of ExecuTorch do. A file that begins like one of them,
    is called so, or cannot be read, is not skipped: looking at it gives the error.
    """
    if os.path.basename(path).startswith("."):
        return "a hidden file"
    if os.path.isdir(path):
        return "a link to a folder, which is not followed"
    if not os.path.isfile(path):
        return "no regular file" if os.path.exists(path) else "a link to nothing"
    try:
        with tsarchive.open(path) as archive:
            found = format_named(archive.kind)
            return None if found.is_saved_again else found.what_it_is
    except ArchiveError as error:
        with suppress(OSError):  # it may be gone by now, which is for the error to say
            return None if _is_or_should_be_a_model(path) else error.message
    except OSError:
        pass
    return None


def left_out(file: Wanted, error: Exception) -> str | None:
    """Return why a file in a folder is passed over after an error; None where the error stands."""
    if file.is_named or is_url(file.path) or not isinstance(error, ArchiveError):
        return None
    return reason_to_skip(file.path)


@dataclass(slots=True)
class Tally:
    """How many files came to what; ``worst`` is the gravest exit code of errors."""

    counts: Counter[str] = field(default_factory=Counter)
    worst: int = 0

    def note(self, outcome: Literal["fine", "with findings", "skipped"]) -> None:
        self.counts[outcome] += 1

    def fail(self, error: Exception) -> None:
        self.counts["not read"] += 1
        self.worst = max(self.worst, code_of(error))

    def summary(self) -> str:
        """Return ``3 files: 2 fine, 0 with findings, 1 not read; 5 skipped``."""
        counts = self.counts
        told = ", ".join(
            f"{counts[name]:,} {name}" for name in ("fine", "with findings", "not read")
        )
        skipped = f"; {counts['skipped']:,} skipped" if counts["skipped"] else ""
        return f"{plural(counts.total() - counts['skipped'], 'file')}: {told}{skipped}"

    def exit_code(self) -> int:
        if self.worst or self.counts.total() == self.counts["skipped"]:
            return self.worst or UNUSABLE
        return FINDINGS if self.counts["with findings"] else 0


def look_at(
    files: Sequence[str], look: Look, *, as_json: bool, as_lines: bool, layout: Layout = "lines"
) -> int:
    """Print what ``look`` finds of each file, and return the exit code.

    One file is printed as it is, and errors of it raised. Of several, errors are reported and the
    others go on, and a line on stderr sums up.
    """
    require_one_form(as_json=as_json, as_lines=as_lines)
    if len(files) == 1 and not as_lines and not is_folder(files[0]):
        with progress_of(files[0]) as step:
            found = look(files[0], step)
        print_json(found.document()) if as_json else found.show()
        return found.code
    sink = _Documents() if as_json else _Lines() if as_lines else _Text(layout)
    tally = Tally()
    every = wanted(files)
    with progress_of(*(file.path for file in every)) as step:
        for file in every:
            step(file.path)
            _look_at_one(file, look, step, sink, tally)
    sink.end(tally)
    return tally.exit_code()


def require_one_form(*, as_json: bool, as_lines: bool) -> None:
    if as_json and as_lines:
        raise click.UsageError("--json and --jsonl are two forms of one output: give one.")


def _look_at_one(file: Wanted, look: Look, step: Step, sink: _Sink, tally: Tally) -> None:
    try:
        found = look(file.path, under(file.path, step))
    except Exception as error:  # also a defect: the other files are looked at all the same
        reason = left_out(file, error)
        if reason is not None:
            tally.note("skipped")
            sink.skip(file.path, reason)
        else:
            tally.fail(error)
            sink.fail(file.path, error)
    else:
        tally.note("with findings" if found.code else "fine")
        sink.add(file.path, found)


def say_skipped(path: str, reason: str) -> None:
    """Say that a file in a folder is passed over, and why."""
    say(f"{path}: skipped: {reason}", stderr=True)


class _Sink(ABC):
    """Where results go."""

    @abstractmethod
    def add(self, path: str, found: Found) -> None:
        """Take what was found of a file."""

    @abstractmethod
    def fail(self, path: str, error: Exception) -> None:
        """Take why a file could not be read."""

    def skip(self, path: str, reason: str) -> None:
        """Take why a file was passed over."""
        say_skipped(path, reason)

    def end(self, tally: Tally) -> None:
        say(tally.summary(), stderr=True)


class _Text(_Sink):
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._is_first = True

    def add(self, path: str, found: Found) -> None:
        if self._layout != "lines" and not self._is_first:
            say("")
        self._is_first = False
        if self._layout == "titled":
            say(path, "bold")
        found.show()

    def fail(self, path: str, error: Exception) -> None:
        report(describe(error), as_json=False, file=path)


def _failed(path: str, error: Exception) -> dict[str, Any]:
    return labelled({"error": {**describe(error), "file": path}}, "error")


class _Lines(_Sink):
    def add(self, path: str, found: Found) -> None:
        print_json_line(labelled(found.document()))

    def fail(self, path: str, error: Exception) -> None:
        print_json_line(_failed(path, error))


class _Documents(_Sink):
    """Gathers what is one document in the end."""

    def __init__(self) -> None:
        self._files: list[Any] = []
        self._skipped: list[dict[str, str]] = []

    def add(self, path: str, found: Found) -> None:
        self._files.append(labelled(found.document()))

    def fail(self, path: str, error: Exception) -> None:
        self._files.append(_failed(path, error))

    def skip(self, path: str, reason: str) -> None:
        self._skipped.append({"file": path, "reason": reason})

    def end(self, tally: Tally) -> None:
        print_json({"files": self._files, "skipped": self._skipped}, "files")
