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
from errno import ENOENT
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Literal, TypeAlias

from tsarchive.container.source import Closing
from tsarchive.container.writer import replacing
from tsarchive.errors import CallError, FormatError
from tsarchive.remote import is_url, located

from .rows import ROWS, FileRow, FindingRow, Surveyed, document_of, plain, row_of, surveyed_of
from .tables import FORMATS, TableFormat, arrow_table, batches_of, default_format

Name: TypeAlias = Literal["files", "findings"]

_INDEX: Final = "survey.json"
_LOCK: Final = "survey.lock"
_VERSION: Final = 1
# A part ends with the file that makes it have so many, or names and messages of so many characters.
_FILES_IN_PART: Final = 10_000
_CHARACTERS_IN_PART: Final = 64 << 20
# All parts that are not in order are open at once when rows are read.
_MOST_UNORDERED: Final = 100


@dataclass(frozen=True, slots=True)
class Index:
    """What ``survey.json`` holds. ``aspects`` are what the rows tell of: those of one survey are
    all of the same. The first ``ordered`` parts follow each other in order. ``is_finished`` tells
    that all parts do, and that there is nothing in the journal.
    """

    format: str
    aspects: Mapping[str, Any]
    parts: Sequence[str] = ()
    journal: int = 0
    ordered: int = 0
    is_finished: bool = False
    version: int = _VERSION

    @classmethod
    def of_folder(cls, folder: Path) -> Index:
        """Read the index of a folder. Raises OSError, FormatError for one that is none."""
        path = folder / _INDEX
        try:
            found = cls(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            raise FileNotFoundError(ENOENT, "there is no survey", str(folder)) from None
        except (ValueError, TypeError):
            raise FormatError(f"{path} is not the index of a survey") from None
        if found.version != _VERSION or found.format not in FORMATS:
            hint = "Read it with the version of tsarchive that wrote it"
            raise FormatError(f"{path} is of another version of surveys", hint=hint)
        return found

    def journal_in(self, folder: Path) -> Path:
        """Return the path of the journal."""
        return folder / f"journal-{self.journal}.jsonl"

    def write(self, folder: Path) -> None:
        """Put this index in the place of the one that the folder has."""
        with replacing(str(folder / _INDEX)) as stream:
            stream.write(json.dumps(asdict(self), indent=1).encode())


class Dataset:
    """The rows of a survey, also of one that was ended before its time.

    Raises OSError for a folder without a survey, FormatError for a damaged one, CallError for a
    URL.

        >>> _ = tsarchive.survey("net.pt", "survey", workers=0, format="jsonl")
        >>> [row.path for row in tsarchive.Dataset("survey").files()]
        ['net.pt']
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder: Path = _local(folder)
        self.index: Index = Index.of_folder(self.folder)

    @property
    def _format(self) -> TableFormat:
        return FORMATS[self.index.format]

    def files(self) -> Iterator[FileRow]:
        """Yield the row of each file, in the order of roots and paths."""
        return (each.file for each in self._merged(self._files_of))

    def findings(self) -> Iterator[FindingRow]:
        """Yield the rows of all findings, in the order of their files, each as verbs list them."""
        if self.index.is_finished:  # no file is in two parts, and the parts are in order
            for part in self.index.parts:
                yield from (row_of(FindingRow, row) for row in self._rows("findings", part))
            return
        for each in self.surveyed():
            yield from each.findings

    def surveyed(self) -> Iterator[Surveyed]:
        """Yield all rows by file, in the order of roots and paths."""
        return self._merged(self._part)

    def _merged(self, rows_of: Callable[[str], Iterator[Surveyed]]) -> Iterator[Surveyed]:
        """Yield the latest rows of each file, of the parts as ``rows_of`` reads them."""
        parts, ordered = self.index.parts, self.index.ordered
        first = chain.from_iterable(map(rows_of, parts[:ordered]))
        others = map(rows_of, parts[ordered:])
        journal = sorted(self.journal(), key=_key)
        for _, same in groupby(heapq.merge(first, *others, journal, key=_key), _key):
            *_, latest = same
            yield latest

    def parts(self, name: Name) -> Sequence[Path]:
        """Return the files of a table, in order. Raises CallError while the survey is not done."""
        if not self.index.is_finished:
            hint = "Run the survey again with the same folder: it goes on where it ended"
            raise CallError(f"the survey in {self.folder} was not finished", hint=hint)
        return [self._path(name, part) for part in self.index.parts]

    def table(self, name: Name) -> Any:
        """Return a table as ``pyarrow.Table``. Raises UnsupportedError without pyarrow."""
        if self.index.is_finished:
            return arrow_table(ROWS[name], self._format.arrow(self.parts(name), ROWS[name]))
        rows = self.files() if name == "files" else self.findings()
        return arrow_table(ROWS[name], batches_of(ROWS[name], map(plain, rows)))

    def _path(self, name: str, part: str) -> Path:
        return self.folder / name / f"{part}.{self.index.format}"

    def _files_of(self, part: str) -> Iterator[Surveyed]:
        """Yield the rows of the files of a part, without their findings."""
        return (Surveyed(row_of(FileRow, row)) for row in self._rows("files", part))

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
        path = self.index.journal_in(self.folder)
        with suppress(FileNotFoundError), open(path, "rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last one may have been cut off
                    yield surveyed_of(json.loads(line))


_NONE: Final[tuple[Any, Any]] = (None, ())


def _key(rows: Surveyed) -> tuple[str, str]:
    return rows.key


def _local(folder: str | os.PathLike[str]) -> Path:
    """Return a folder. Raises CallError for a URL."""
    place = located(folder)
    if is_url(place):
        hint = "Name a folder, and copy it when the survey is done"
        raise CallError("a survey is written to a folder, not to a URL", hint=hint)
    return Path(place)


def _locked(folder: Path) -> IO[bytes]:
    """Return a file that keeps other writers from a folder until it is closed, or they end."""
    import fcntl

    lock = open(folder / _LOCK, "ab")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        if not isinstance(error, BlockingIOError):
            raise
        hint = "Wait until it has ended, or give another folder"
        message = f"another survey is being written to {folder}"
        raise CallError(message, hint=hint) from None
    return lock


def _characters(rows: Surveyed) -> int:
    """Return the number of characters of what may be long in the rows of a file."""
    names = (
        each for value in plain(rows.file).values() if isinstance(value, tuple) for each in value
    )
    messages = (len(each.message) + len(each.hint) for each in rows.findings)
    return sum(map(len, names)) + sum(messages)


def _portions(rows: Iterable[Surveyed]) -> Iterator[Sequence[Surveyed]]:
    """Yield the rows of each part."""
    some: list[Surveyed] = []
    characters = 0
    for each in rows:
        some.append(each)
        characters += _characters(each)
        if _is_part(len(some), characters):
            yield some
            some, characters = [], 0
    if some:
        yield some


def _is_part(files: int, characters: int) -> bool:
    return files >= _FILES_IN_PART or characters >= _CHARACTERS_IN_PART


class DatasetWriter(Closing):
    """Adds to the dataset of a folder, which is made where there is none.

    One writer at a time writes to a folder.

    Raises CallError for a URL, for a folder that another writer has or that holds something else,
    or rows of other aspects or in another format; OSError for one that cannot be written to.
    """

    def __init__(
        self, folder: str | os.PathLike[str], aspects: Mapping[str, Any], format: str | None = None
    ) -> None:
        self._folder = _local(folder)
        self._is_folder_new = not self._folder.exists()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._require_own()
        self._is_survey_new = not (self._folder / _INDEX).exists()
        self._journal: BinaryIO | None = None
        self._lock = _locked(self._folder)
        try:
            self._begin(aspects, format)
        except BaseException:
            self.close()
            raise

    def _begin(self, aspects: Mapping[str, Any], format: str | None) -> None:
        self._index = self._begun(aspects, format)
        self._format = FORMATS[self._index.format]
        self._format.require()
        for name in ROWS:
            (self._folder / name).mkdir(exist_ok=True)
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
        if self._index.is_finished:
            self._index = replace(self._index, is_finished=False)
            self._index.write(self._folder)
        for each in rows:
            self._journal.write(json.dumps(document_of(each)).encode() + b"\n")
            self._waiting.append(each)
            self._characters += _characters(each)
        self._journal.flush()
        if _is_part(len(self._waiting), self._characters):
            self._seal()

    def finish(self, is_kept: Callable[[FileRow], bool]) -> None:
        """Put all rows in order, without those of files that are not kept."""
        self._seal()
        is_ordered = self._index.ordered == len(self._index.parts)
        if not (is_ordered and all(map(is_kept, self.dataset.files()))):
            self._put_in_order(is_kept)
        if not self._index.is_finished:
            self._let_count(self._index.parts, ordered=self._index.ordered, is_finished=True)
        self.close()

    def close(self) -> None:
        """Release the folder."""
        self._close_journal()
        self._lock.close()

    def withdraw(self) -> None:
        """Release the folder; a survey that was begun by this writer, and has no rows, is gone."""
        if self._is_survey_new and not (self._index.parts or self._waiting):
            self._remove()
        self.close()

    def _remove(self) -> None:
        (self._folder / _INDEX).unlink()
        self._index.journal_in(self._folder).unlink()
        for name in ROWS:
            (self._folder / name).rmdir()
        (self._folder / _LOCK).unlink()
        if self._is_folder_new:
            self._folder.rmdir()

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _require_own(self) -> None:
        """Raise CallError for a folder that holds something else than a survey."""
        is_own = any((self._folder / name).exists() for name in (_INDEX, _LOCK))
        if not is_own and any(self._folder.iterdir()):
            hint = "Give a new folder, or that of an earlier survey"
            raise CallError(f"{self._folder} holds something else than a survey", hint=hint)

    def _begun(self, aspects: Mapping[str, Any], format: str | None) -> Index:
        if not (self._folder / _INDEX).exists():
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
        written = self._written(sorted(latest.values(), key=_key))
        is_finished = self._index.is_finished and not latest
        parts = [*self._index.parts, *written]
        self._let_count(parts, ordered=self._index.ordered, is_finished=is_finished)
        self._waiting, self._characters = [], 0
        if len(parts) - self._index.ordered >= _MOST_UNORDERED:
            self._put_in_order()

    def _put_in_order(self, is_kept: Callable[[FileRow], bool] = lambda row: True) -> None:
        """Write all parts anew, without the rows of files that are not kept."""
        kept = (each for each in self.dataset.surveyed() if is_kept(each.file))
        parts = [*self._written(kept)]
        self._let_count(parts, ordered=len(parts))

    def _written(self, rows: Iterable[Surveyed]) -> Iterator[str]:
        """Write rows, which are in order, as parts, and yield the name of each."""
        first = 1 + max(map(int, self._index.parts), default=0)
        for number, some in enumerate(_portions(rows), first):
            part = f"{number:06}"
            self._write("files", part, (each.file for each in some))
            self._write("findings", part, (row for each in some for row in each.findings))
            yield part

    def _write(self, name: Name, part: str, rows: Iterable[FileRow | FindingRow]) -> None:
        with replacing(str(self._folder / name / f"{part}.{self._index.format}")) as stream:
            self._format.write(stream, ROWS[name], map(plain, rows))

    def _let_count(self, parts: Sequence[str], *, ordered: int, is_finished: bool = False) -> None:
        """Let these parts be all that counts, with a new journal; remove what does not count."""
        self._close_journal()
        self._index = replace(
            self._index,
            parts=parts,
            journal=self._index.journal + 1,
            ordered=ordered,
            is_finished=is_finished,
        )
        journal = self._index.journal_in(self._folder)
        self._journal = open(journal, "wb")  # noqa: SIM115
        self._index.write(self._folder)
        counting = {f"{part}.{self._index.format}" for part in parts}
        left = [each for name in ROWS for each in (self._folder / name).iterdir()]
        journals = self._folder.glob("journal-*.jsonl")
        gone = [each for each in left if each.name not in counting]
        gone += [each for each in journals if each != journal]
        for each in gone:
            each.unlink()
