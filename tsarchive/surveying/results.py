"""A survey as a value: its rows as lazy frames, what they tell, and whether they pass a gate."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from tsarchive.errors import CallError, UnsupportedError

from .dataset import Dataset, DatasetWriter, Name
from .listing import RootNames, name_of
from .rows import FileRow
from .summary import LARGEST, Summary, summarise

if TYPE_CHECKING:
    from tsarchive.reporting import Page

    from .gate import GateReport
    from .rules import Gate

_DASK: Final = "dask.dataframe"
_ARROW: Final = "pyarrow"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a survey has come: files that were ``found``, that are ``unchanged`` since an earlier
    run, and that this run has ``done``; ``is_listed`` once there are no more to be found.
    """

    found: int = 0
    unchanged: int = 0
    done: int = 0
    is_listed: bool = False

    @property
    def left(self) -> int:
        """The number of files that are still to be read, of those that were found."""
        return self.found - self.unchanged - self.done


@dataclass(frozen=True, slots=True)
class Survey:
    """The survey in a folder, which :func:`tsarchive.survey` has made.

    ``dataset`` gives its rows one after the other; ``progress`` tells what the run did that gave
    this survey.

        >>> survey = tsarchive.survey("net.pt", "survey", workers=0, format="jsonl")
        >>> survey.progress.found
        1
    """

    dataset: Dataset
    progress: Progress = Progress()

    @staticmethod
    def of(folder: str | os.PathLike[str]) -> Survey:
        """Return the survey in a folder, also one that was ended before its time.

        Raises OSError for a folder without a survey, FormatError for a damaged one.
        """
        return Survey(Dataset(folder))

    def __repr__(self) -> str:
        return f"<Survey in {str(self.dataset.folder)!r}>"

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.dataset.folder.resolve().name

    @property
    def files(self) -> Any:
        """One row for each file, as ``dask.dataframe.DataFrame`` with the types of Arrow.

        Tables in Parquet are read when something is computed of them; others are read now. Raises
        UnsupportedError where Dask is not installed with its frames, CallError for a survey that
        was not finished.
        """
        return self._frame("files")

    @property
    def findings(self) -> Any:
        """One row for each finding, as :attr:`files` has those of files."""
        return self._frame("findings")

    def arrow(self, table: Name) -> Any:
        """Return a table, ``files`` or ``findings``, as ``pyarrow.dataset.Dataset``.

        Raises as :attr:`files` does, where pyarrow is not installed.
        """
        _require(_ARROW, "Tables of Arrow")
        from pyarrow import dataset

        return dataset.dataset(self._parquet(table) or self.dataset.table(table))

    def forget(self, *roots: str | os.PathLike[str]) -> Survey:
        """Drop the rows of roots, folders and single files, and return the survey without them.

        Raises CallError for a root that the survey does not have.
        """
        names = RootNames()

        def root_of(row: FileRow) -> str:
            return names.of(row.root) or row.path

        known = set(map(root_of, self.dataset.files()))
        dropped = {names.of(name_of(os.fspath(root))) for root in roots}
        if unknown := sorted(dropped - known):
            hint = "Name roots as the column root has them, or path where that is empty"
            raise CallError(f"the survey has no root {unknown[0]!r}", hint=hint)
        with DatasetWriter(self.dataset.folder, self.dataset.index.aspects) as writer:
            writer.finish(lambda row: root_of(row) not in dropped)
            return Survey(writer.dataset)

    def summary(self, *, largest: int = LARGEST) -> Summary:
        """Return what the rows tell together; ``largest`` limits how much of each kind is named."""
        return summarise(self.dataset.files(), self.dataset.findings(), largest=largest)

    def check(
        self, policy: Gate | str | os.PathLike[str], *, today: date | None = None
    ) -> GateReport:
        """Check the files by a policy, or by the policy in a file.

        ``today`` is the day for which exemptions count. Raises FormatError for a policy that is not
        valid, CallError for one with a rule about what the survey has not asked of files, or where
        there is no file to check, OSError for one that cannot be read.
        """
        from .gate import check, require_asked
        from .rules import Gate

        gate = policy if isinstance(policy, Gate) else Gate.read(policy)
        require_asked(gate, self.dataset.index.aspects)
        report = check(gate, self.dataset, today=today)
        if not report.checked:
            hint = "Name roots that have files, or --all for files of every suffix"
            raise CallError("the survey has no file that the gate could check", hint=hint)
        return report

    def page(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        name: str | None = None,
        gate: GateReport | None = None,
        summary: Summary | None = None,
        largest: int = LARGEST,
    ) -> Page:
        """Make one HTML page about the survey, and write it to ``out`` if given.

        It is headed by ``name``, else by that of the survey. With ``gate`` it shows what violates
        that. ``summary`` is that of the survey where it is known: otherwise all rows are read, and
        ``largest`` is as in :meth:`summary`. Raises OSError where ``out`` cannot be written.
        """
        from .page import page

        found = self.summary(largest=largest) if summary is None else summary
        return page(found, name or self.name, out, gate=gate)

    def _frame(self, table: Name) -> Any:
        _require(_DASK, "Frames")
        import pandas
        from dask import dataframe

        parts = self._parquet(table)
        if parts:
            return dataframe.read_parquet(parts, dtype_backend=_ARROW)
        rows = self.dataset.table(table).to_pandas(types_mapper=pandas.ArrowDtype)
        return dataframe.from_pandas(rows, npartitions=1)

    def _parquet(self, table: Name) -> list[str]:
        """Return the files of a table in Parquet; none for other tables, and for empty ones."""
        parts = [str(path) for path in self.dataset.parts(table)]
        return parts if self.dataset.index.format == "parquet" else []


def _require(package: str, what: str) -> None:
    """Raise UnsupportedError where a package is missing."""
    try:
        is_there = find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it is in
        is_there = False
    if not is_there:
        hint = "pip install 'tsarchive[survey]'"
        raise UnsupportedError(f"{what} take {package}, which is not installed", hint=hint)
