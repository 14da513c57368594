"""What the reports of all verbs have in common: their truth, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar


class Report:
    """The base of reports. A report is true unless it says that something is wrong.

    That is what its command exits with: 0 where the report is true, 1 where it is not. ``repr`` is
    one line, ``str`` tells in lines what was found, and notebooks show the same as a table.
    """

    __slots__ = ()

    _COLUMNS: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        @property
        def ok(self) -> bool | None:
            """Whether nothing is wrong, None where that is not known."""

    def _headline(self) -> str:
        """Return what the report says, in one line."""
        raise NotImplementedError

    def _rows(self) -> Sequence[Sequence[object]]:
        """Return what it is made of, in cells for ``_COLUMNS``, the most important first."""
        return ()

    def __bool__(self) -> bool:
        return self.ok is not False

    def __repr__(self) -> str:
        from tsarchive.notebook import printable

        return f"<{type(self).__name__}: {printable(self._headline())}>"

    def __str__(self) -> str:
        from tsarchive.notebook import lines, printable

        return "\n".join([printable(self._headline()), *lines(self._rows())])

    def __rich_repr__(self) -> Iterable[object]:
        yield self._headline()

    def _repr_html_(self) -> str:
        from tsarchive.notebook import table

        rows = self._rows()
        return table(self._headline(), rows, self._COLUMNS, len(rows))
