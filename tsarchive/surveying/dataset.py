"""The rows of a survey in a folder: written as they come, and read in the order of roots and paths.

``survey.json`` names what counts: parts, which are whole tables below ``files/`` and ``findings/``,
and a journal, to which a line is added for each file that is done. A new ``survey.json`` takes the
place of the old one at once, so a process may end at any moment: all lines are kept but the one
that it was writing.
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeAlias

from tsarchive.container.source import Closing
from tsarchive.container.writer import replacing
from tsarchive.errors import CallError, FormatError

from .rows import ROWS, FileRow, FindingRow, Surveyed, document_of, plain, row_of, surveyed_of
from .tables import FORMATS, TableFormat, arrow_table, batches_of, default_format

Name: TypeAlias = Literal["files", "findings"]

_INDEX: Final = "survey.json"
_VERSION: Final = 1
# The journal is made a part when it has so many files; parts have as many.
_FILES_IN_PART: Final = 10_000


@dataclass(frozen=True, slots=True)
class Index:
    """What ``survey.json`` holds. ``aspects`` are what the rows tell of: those of one survey are
    all of the same. ``is_ordered`` tells that the parts follow each other in order, and that there
    is nothing in the journal.
    """

    format: str
    aspects: Mapping[str, Any]
    parts: Sequence[str] = ()
    journal: int = 0
    is_ordered: bool = False
    version: int = _VERSION

    @classmethod
    def of_folder(cls, folder: Path) -> Index:
        """Read the index of a folder. Raises OSError, FormatError for one that is none."""
        path = folder / _INDEX
        try:
            found = cls(**json.loads(path.read_bytes()))
        except (ValueError, TypeError):
            raise FormatError(f"{path} is not the index of a survey") from None
        if found.version != _VERSION or found.format not in FORMATS:
            hint = "Read it with the version of tsarchive that wrote it"
            raise FormatError(f"{path} is of another version of surveys", hint=hint)
        return found

    def write(self, folder: Path) -> None:
        """Put this index in the place of the one that the folder has."""
        with replacing(str(folder / _INDEX)) as stream:
            stream.write(json.dumps(asdict(self), indent=1).encode())


class Dataset:
    """The rows of a survey, also of one that was ended before its time.

    Raises OSError for a folder without a survey, FormatError for a damaged one.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.index = Index.of_folder(self.folder)

    @property
    def _format(self) -> TableFormat:
        return FORMATS[self.index.format]

    def files(self) -> Iterator[FileRow]:
        """Yield the row of each file, in the order of roots and paths."""
        return (each.file for each in self.surveyed())

    def findings(self) -> Iterator[FindingRow]:
        """Yield the rows of all findings, in the order of their files, each as verbs list them."""
        for each in self.surveyed():
            yield from each.findings

    def surveyed(self) -> Iterator[Surveyed]:
        """Yield all rows by file, in the order of roots and paths."""
        parts = [self._part(name) for name in self.index.parts]
        journal = sorted(self.journal(), key=_key)
        for _, same in groupby(heapq.merge(*parts, journal, key=_key), _key):
            *_, latest = same
            yield latest

    def parts(self, name: Name) -> Sequence[Path]:
        """Return the files of a table, in order. Raises CallError while the survey is not done."""
        if not self.index.is_ordered:
            hint = "Run the survey again with the same folder: it goes on where it ended"
            raise CallError(f"the survey in {self.folder} was not finished", hint=hint)
        return [self._path(name, part) for part in self.index.parts]

    def table(self, name: Name) -> Any:
        """Return a table as ``pyarrow.Table``. Raises UnsupportedError without pyarrow."""
        if self.index.is_ordered:
            return arrow_table(ROWS[name], self._format.arrow(self.parts(name), ROWS[name]))
        rows = self.files() if name == "files" else self.findings()
        return arrow_table(ROWS[name], batches_of(ROWS[name], map(plain, rows)))

    def _path(self, name: str, part: str) -> Path:
        return self.folder / name / f"{part}.{self.index.format}"

    def _part(self, part: str) -> Iterator[Surveyed]:
        findings = groupby(self._rows("findings", part), lambda row: (row["root"], row["path"]))
        key, found = next(findings, _NONE)
        for row in self._rows("files", part):
            own: list[FindingRow] = []
            if (row["root"], row["path"]) == key:
                own = [row_of(FindingRow, each) for each in found]
                key, found = next(findings, _NONE)
            yield Surveyed(row_of(FileRow, row), tuple(own))

    def _rows(self, name: Name, part: str) -> Iterator[dict[str, Any]]:
        return self._format.read(self._path(name, part))

    def journal(self) -> Iterator[Surveyed]:
        """Yield the rows that are in no part yet, in the order in which they came."""
        path = self.folder / f"journal-{self.index.journal}.jsonl"
        with suppress(FileNotFoundError), open(path, "rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last one may have been cut off
                    yield surveyed_of(json.loads(line))


_NONE: Final[tuple[Any, Any]] = (None, ())


def _key(rows: Surveyed) -> tuple[str, str]:
    return rows.key


class DatasetWriter(Closing):
    """Adds to the dataset of a folder, which is made where there is none.

    One process at a time writes to a folder.

    Raises CallError for a folder that holds something else, or rows of other aspects or in another
    format; OSError for one that cannot be written to.
    """

    def __init__(
        self, folder: str | os.PathLike[str], aspects: Mapping[str, Any], format: str | None = None
    ) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._index = self._begun(aspects, format)
        self._format = FORMATS[self._index.format]
        self._format.require()
        for name in ROWS:
            (self._folder / name).mkdir(exist_ok=True)
        self._journal: BinaryIO | None = None
        before = self._folder / _INDEX
        self._waiting = [*Dataset(self._folder).journal()] if before.exists() else []
        self._seal()

    @property
    def dataset(self) -> Dataset:
        """The rows that were added up to now."""
        return Dataset(self._folder)

    def add(self, rows: Iterable[Surveyed]) -> None:
        """Add the rows of files; from now on they are kept, in the place of earlier ones."""
        assert self._journal is not None
        for each in rows:
            self._journal.write(json.dumps(document_of(each)).encode() + b"\n")
            self._waiting.append(each)
        self._journal.flush()
        if len(self._waiting) >= _FILES_IN_PART:
            self._seal()

    def finish(self, is_kept: Callable[[FileRow], bool]) -> None:
        """Put all rows in order, without those of files that are not kept."""
        self._seal()
        if not (self._index.is_ordered and all(map(is_kept, self.dataset.files()))):
            kept = (each for each in self.dataset.surveyed() if is_kept(each.file))
            self._let_count([*self._written(kept)], is_ordered=True)
        self.close()

    def close(self) -> None:
        """Release the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _begun(self, aspects: Mapping[str, Any], format: str | None) -> Index:
        if not (self._folder / _INDEX).exists():
            if any(self._folder.iterdir()):
                hint = "Give a new folder, or that of an earlier survey"
                raise CallError(f"{self._folder} holds something else than a survey", hint=hint)
            return Index(format or default_format(), aspects)
        found = Index.of_folder(self._folder)
        for name, old, new in (
            ("format", found.format, format or found.format),
            *((name, found.aspects.get(name), value) for name, value in aspects.items()),
        ):
            if old != new:
                message = f"the survey in {self._folder} was begun with {name} {old}, not {new}"
                raise CallError(message, hint="Give another folder, or go on as it was begun")
        return found

    def _seal(self) -> None:
        """Make a part of what is in the journal, and begin another one."""
        latest = {each.key: each for each in self._waiting}
        written = self._written(iter(sorted(latest.values(), key=_key)))
        is_ordered = self._index.is_ordered and not latest
        self._let_count([*self._index.parts, *written], is_ordered=is_ordered)
        self._waiting = []

    def _written(self, rows: Iterator[Surveyed]) -> Iterator[str]:
        """Write rows, which are in order, as parts, and yield the name of each."""
        number = max(map(int, self._index.parts), default=0)
        while some := [*islice(rows, _FILES_IN_PART)]:
            number += 1
            part = f"{number:06}"
            self._write("files", part, (each.file for each in some))
            self._write("findings", part, (row for each in some for row in each.findings))
            yield part

    def _write(self, name: Name, part: str, rows: Iterable[FileRow | FindingRow]) -> None:
        with replacing(str(self._folder / name / f"{part}.{self._index.format}")) as stream:
            self._format.write(stream, ROWS[name], map(plain, rows))

    def _let_count(self, parts: Sequence[str], *, is_ordered: bool) -> None:
        """Let these parts be all that counts, with a new journal; remove what does not count."""
        self.close()
        journal = self._index.journal + 1
        self._journal = open(self._folder / f"journal-{journal}.jsonl", "wb")  # noqa: SIM115
        self._index = replace(self._index, parts=parts, journal=journal, is_ordered=is_ordered)
        self._index.write(self._folder)
        counting = {f"{part}.{self._index.format}" for part in parts}
        left = [each for name in ROWS for each in (self._folder / name).iterdir()]
        journals = self._folder.glob("journal-*.jsonl")
        gone = [each for each in left if each.name not in counting]
        gone += [each for each in journals if each.name != f"journal-{journal}.jsonl"]
        for each in gone:
            each.unlink()
