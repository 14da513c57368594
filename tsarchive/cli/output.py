"""Output of commands: styled text and tables for people, one JSON document for programs.

The package writes to stdout and stderr as they are; everything else passes through a guard that
escapes control characters.
"""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO, TypeVar

import click

from tsarchive.describing.text import LAYOUT, as_json, visible
from tsarchive.errors import ArchiveWarning

from .lines import NARROWEST, cells, drawn, encodable, folded, hanging

if TYPE_CHECKING:
    from rich.console import Console

    from .bar import Bar


class Guarded:
    """Stands in for a stream, and escapes control characters in the text written to it.

    Models print and warn, errors and tracebacks quote them, and click repeats file names. The
    package itself writes to ``own``; the text of others goes to ``beneath``, nowhere if None.
    """

    def __init__(self, own: TextIO, beneath: TextIO | None) -> None:
        self.own = own
        self._beneath = beneath

    def write(self, text: str | bytes) -> int:
        """Write text; click gives some in bytes, which it has encoded as UTF-8."""
        shown = text if isinstance(text, str) else text.decode("utf-8", "backslashreplace")
        if self._beneath is not None:
            with _beside_bars():
                self._beneath.write(encodable(visible(shown, keep=LAYOUT), self._beneath))
        return len(text)

    @property
    def encoding(self) -> str:
        return self.own.encoding

    @property
    def errors(self) -> str | None:
        return self.own.errors

    def flush(self) -> None:
        for stream in (self._beneath, self.own):
            if stream is not None:
                stream.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.own.isatty()

    def fileno(self) -> int:
        return self.own.fileno()


def own_stream(*, stderr: bool = False) -> TextIO | None:
    """Return where the package writes its own styles and escapes; None if that is closed."""
    stream = sys.stderr if stderr else sys.stdout
    return stream.own if isinstance(stream, Guarded) else stream


@contextmanager
def guarded() -> Iterator[None]:
    """Put guards before stdout and stderr, where there is none."""
    with ExitStack() as stack:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if not isinstance(stream, Guarded):
                stack.enter_context(_replaced(name, stream, stream))
        yield


@contextmanager
def code_apart() -> Iterator[None]:
    """Let what code of files prints go to stderr, so that stdout has nothing else than results."""
    with _replaced("stdout", own_stream(), own_stream(stderr=True)):
        yield


@contextmanager
def _replaced(name: str, own: TextIO | None, beneath: TextIO | None) -> Iterator[None]:
    if own is None:
        yield
        return
    before, guard = getattr(sys, name), Guarded(own, beneath)
    setattr(sys, name, guard)
    try:
        yield
    finally:
        # click puts a stream that nobody reads to rest, which must stay so.
        if getattr(sys, name) is guard:
            setattr(sys, name, before)


@contextmanager
def own_warnings_said() -> Iterator[None]:
    """Say each warning of the package in a line of stderr; Python shows those of others."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ArchiveWarning)
        warnings.showwarning = partial(_show_warning, warnings.showwarning)
        yield


def _show_warning(
    others: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any
) -> None:
    if issubclass(category, ArchiveWarning):
        say(f"warning: {message}", STYLES["warning"], stderr=True)
    else:
        others(message, category, *place)


COLOURS: Final = {"red": 160, "green": 28, "yellow": 130, "cyan": 30}
"""Of the table of 256 that all terminals share: each can be read on black and on white."""

_WEIGHTS = ("bold", "dim")
_WITHOUT_STYLES = ("dumb", "unknown")


def has_styles(*, stderr: bool = False) -> bool:
    """Return whether styles are shown on stdout: on terminals that have some."""
    return _is_terminal(stderr=stderr) and _has_cursor()


def _is_terminal(*, stderr: bool) -> bool:
    """Return whether stdout is a terminal, or FORCE_COLOR asks to act as if it were."""
    forced = os.environ.get("FORCE_COLOR")
    stream = own_stream(stderr=stderr)
    return bool(stream is not None and stream.isatty() if forced is None else forced)


def _has_cursor() -> bool:
    return os.environ.get("TERM", "").lower() not in _WITHOUT_STYLES


def styled(text: str, style: str, *, stderr: bool = False) -> str:
    """Return the text in a style such as ``bold red``, without the colour when NO_COLOR is set.

    The text as it is where no styles are shown.
    """
    if not text or not style or not has_styles(stderr=stderr):
        return text
    words = style.split()
    if os.environ.get("NO_COLOR"):
        words = [word for word in words if word in _WEIGHTS]
    if not words:
        return text
    colour = next((COLOURS[word] for word in words if word in COLOURS), None)
    return click.style(text, colour, bold="bold" in words or None, dim="dim" in words or None)


def rich_style(style: str) -> str:
    """Return a style such as ``bold red`` in the words of Rich."""
    return " ".join(
        f"color({COLOURS[word]})" if word in COLOURS else word for word in style.split()
    )


def width(*, stderr: bool = False) -> int | None:
    """Return the columns of the terminal, or COLUMNS; None for a file or a pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal():
        return int(given) or None
    stream = own_stream(stderr=stderr)
    try:
        return None if stream is None else os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def flowing(parts: Iterable[tuple[str, str]], limit: int, gap: str = "  ") -> list[str]:
    """Return lines of at most ``limit`` cells of texts in their styles, with gaps between them."""
    lines: list[str] = []
    room = 0
    for text, style in parts:
        for piece in folded(text, limit):
            taken = len(gap) + cells(piece)
            if lines and taken <= room:
                lines[-1] += gap + styled(piece, style)
            else:
                lines.append(styled(piece, style))
                room, taken = limit, cells(piece)
            room -= taken
    return lines


class Column(NamedTuple):
    """The form of the texts of a column; ``heading`` is empty where there is none.

    Texts that are ``whole`` are never folded: names are copied from where they are shown.
    """

    heading: str = ""
    is_right: bool = False
    style: str = ""
    is_whole: bool = False

    @property
    def may_be_folded(self) -> bool:
        """Return whether texts may be folded: names and figures are not."""
        return not (self.is_whole or self.is_right)

    def aligned(self, text: str, room: int, style: str) -> str:
        """Return a line of a text, padded with spaces to the width of the column."""
        padding = " " * (room - cells(text))
        shown = styled(text, style)
        return padding + shown if self.is_right else shown + padding


# Longer words may be cut where the columns have no room otherwise.
_LONGEST_WHOLE = 16
_NARROW_GAP = 2
_T = TypeVar("_T")


def _without(index: int, items: Sequence[_T]) -> tuple[_T, ...]:
    return (*items[:index], *items[index + 1 :])


class Table:
    """Rows below headings, if there are any; ``gap`` spaces are between columns.

    Where the terminal has no room for all columns, the texts of a whole one have lines of their
    own, and the other columns stand below them.
    """

    def __init__(self, columns: Sequence[Column], *, gap: int = 3) -> None:
        self._columns = columns
        self._gap = " " * gap
        headings = tuple(column.heading for column in columns)
        self._heads = [headings] if any(headings) else []
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *texts: str) -> None:
        """Add a text for each column; it may have several lines, and come from a file."""
        self._rows.append(tuple(map(visible, texts)))

    def lines(self) -> Iterator[str]:
        """Yield the table for stdout."""
        rows, columns = self._drawn(width())
        for number, lines in enumerate(rows, 1):
            yield from lines
            if number == len(self._heads):
                yield drawn("─" * columns)

    def _drawn(self, limit: int | None) -> tuple[list[list[str]], int]:
        """Return the lines of each row, first those of the headings, and the width of all."""
        rows = [*self._heads, *self._rows]
        widths = self._widest(rows, str.splitlines)
        if limit is not None:
            words = [
                max(NARROWEST, min(word, _LONGEST_WHOLE)) for word in self._widest(rows, str.split)
            ]
            widths = self._narrowed(widths, words, limit)
            whole = [index for index, column in enumerate(self._columns) if column.is_whole]
            if whole and self._whole(widths) > limit:
                return self._stacked(whole[0], limit)
            widths = self._narrowed(widths, [NARROWEST] * len(widths), limit)
        return [
            [*self._row_lines(row, widths, styles)]
            for row, styles in zip(rows, self._styles(), strict=True)
        ], self._whole(widths)

    def _styles(self) -> list[list[str]]:
        of_rows = [column.style for column in self._columns]
        return [["bold"] * len(of_rows) for _ in self._heads] + [of_rows] * len(self._rows)

    def _stacked(self, lead: int, limit: int) -> tuple[list[list[str]], int]:
        below = Table(_without(lead, self._columns), gap=_NARROW_GAP)
        below._heads = [_without(lead, head) for head in self._heads]
        below._rows = [_without(lead, row) for row in self._rows]
        rows, columns = below._drawn(limit - _NARROW_GAP)
        names = [row[lead] for row in (*self._heads, *self._rows)]
        return [
            [styled(name, styles[lead]), *(" " * _NARROW_GAP + line for line in lines)]
            for name, styles, lines in zip(names, self._styles(), rows, strict=True)
        ], columns + _NARROW_GAP

    def _whole(self, widths: Sequence[int]) -> int:
        return sum(widths) + len(self._gap) * (len(widths) - 1)

    def _widest(
        self, rows: Sequence[tuple[str, ...]], parts: Callable[[str], list[str]]
    ) -> list[int]:
        """Return the cells of the widest part of the texts of each column."""
        return [
            max((cells(part) for row in rows for part in parts(row[index])), default=0)
            for index in range(len(self._columns))
        ]

    def _narrowed(self, widths: Sequence[int], least: Sequence[int], limit: int) -> list[int]:
        """Return widths of which the widest give way, to their least, while there is no room."""
        found = [*widths]
        excess = self._whole(found) - limit
        giving = [i for i, column in enumerate(self._columns) if column.may_be_folded]
        while excess > 0 and (giving := [i for i in giving if found[i] > least[i]]):
            # Of columns that are as wide, the one that texts are folded in already.
            widest = max(giving, key=lambda i: (found[i], found[i] < widths[i]))
            second = max((found[i] for i in giving if i != widest), default=0)
            less = min(excess, max(1, found[widest] - max(second, least[widest])))
            found[widest] -= less
            excess -= less
        return found

    def _row_lines(
        self, row: Sequence[str], widths: Sequence[int], styles: Sequence[str]
    ) -> Iterator[str]:
        folds = [
            [piece for line in text.split("\n") for piece in folded(line, room)]
            for text, room in zip(row, widths, strict=True)
        ]
        for pieces in zip_longest(*folds, fillvalue=""):
            aligned = map(Column.aligned, self._columns, pieces, widths, styles)
            yield self._gap.join(aligned).rstrip(" ")


# Wide enough that no table is cut when the output is a file or a pipe.
_UNBOUNDED = 10_000


def console(*, stderr: bool = False) -> Console:
    """Return a console that colours on a terminal only, and never when NO_COLOR is set.

    Text is printed as it is: square brackets and emoji names have no meaning, and what a file
    says is escaped by the caller.
    """
    from rich.console import Console

    stream = own_stream(stderr=stderr)
    fixed = (stream is not None and stream.isatty()) or "COLUMNS" in os.environ
    return Console(
        file=stream,
        color_system="256" if has_styles(stderr=stderr) else None,  # as COLOURS are
        width=None if fixed else _UNBOUNDED,
        markup=False,
        emoji=False,
        highlight=False,
    )


def table(*headings: str, right: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the columns named in ``right`` are aligned to the right.

    Those named in ``whole`` are never folded, however narrow the terminal is.
    """
    return Table(
        [
            Column(heading, is_right=heading in right, is_whole=heading in whole)
            for heading in headings
        ]
    )


def show(lines: Iterable[str]) -> None:
    """Print lines, which have their styles already, to stdout."""
    _print("".join(f"{line}\n" for line in lines))


def say(
    text: str,
    style: str = "",
    *,
    stderr: bool = False,
    keep: str = "",
    is_data: bool = False,
) -> None:
    """Print a line in a style such as ``bold red``, where styles are shown.

    What of the text is not printable, such as escapes from a file, is shown as escapes, but for
    the characters to ``keep``. On a terminal it is folded as by :func:`hanging`, unless it
    ``is_data`` that stays in one line.
    """
    shown = visible(text, keep=keep)
    limit = width(stderr=stderr) if _is_terminal(stderr=stderr) and not is_data else None
    if limit is not None:
        lines = [folds for line in shown.split("\n") for folds in hanging(line, limit)]
        shown = "\n".join(lines)
    _print(styled(shown, style, stderr=stderr) + "\n", stderr=stderr)


def print_source(source: bytes) -> None:
    """Print bytes as they are to stdout, whatever its encoding is."""
    click.echo(source, file=own_stream(), nl=False)


def _print(text: str, *, stderr: bool = False) -> None:
    stream = own_stream(stderr=stderr)
    with _beside_bars():
        click.echo(encodable(text, stream), file=stream, nl=False, err=stderr, color=True)


JSON_VERSION: Final = 1
"""Of the documents of all commands: it grows when a key goes, or changes its meaning."""


def print_json(document: Any, schema: str | None = None) -> None:
    """Print an object of plain values, dataclasses, members of enumerations, and bytes.

    They take the forms of :func:`as_json`. Its first keys say what it is: ``schema``, by default
    the name of the running command, and ``version``.
    """
    print_foreign_json(labelled(document, schema))


def labelled(document: Any, schema: str | None = None) -> dict[str, Any]:
    """Return a document as JSON has it, with ``schema`` and ``version``."""
    name = schema or click.get_current_context().info_name
    return {"schema": f"tsarchive.{name}", "version": JSON_VERSION, **as_json(document)}


def print_json_line(document: Any) -> None:
    """Print a document in one line, at once."""
    import json

    _print(json.dumps(as_json(document), allow_nan=False) + "\n")


def print_foreign_json(document: Any) -> None:
    """Print a document whose form is that of another project, such as SARIF."""
    import json

    _print(json.dumps(as_json(document), indent=2, allow_nan=False) + "\n")


STYLES: Final = {"info": "cyan", "warning": "yellow", "error": "bold red"}
"""The colour of each severity."""


@contextmanager
def progress_of(*files: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step of work on files.

    A step that is the name of a file begins the work on it.
    """
    from tsarchive.steps import Shares

    with progress(None) as step:
        yield Shares(step, {file: _size_of(file) for file in files})


def _size_of(path: str) -> int:
    """Return the size of a file on this machine, and 0 for all else."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


# The bars that are shown now: a process that is forked has none of the threads that draw them.
_bars: list[Bar] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_bars.clear)


@contextmanager
def progress(steps: int | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step; without a terminal it does nothing.

    None stands for a number of steps that nobody knows yet.
    """
    stream = own_stream(stderr=True)
    columns = width(stderr=True)
    if stream is None or not stream.isatty() or columns is None or not _has_cursor():
        yield lambda description: None
        return
    from tsarchive.container.traffic import watched_by

    from .bar import Bar

    bar = Bar(stream, columns, steps)
    _bars.append(bar)
    try:
        with guarded(), watched_by(bar.show):
            yield bar.step
    finally:
        if bar in _bars:
            _bars.remove(bar)
            bar.close()


@contextmanager
def _beside_bars() -> Iterator[None]:
    """Take bars away while something is printed."""
    with ExitStack() as stack:
        for bar in _bars:
            stack.enter_context(bar.away())
        yield
