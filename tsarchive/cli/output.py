"""Output of commands: styled text and tables for people, one JSON document for programs.

The package writes to stdout and stderr as they are; everything else passes through a guard that
escapes control characters.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO
from unicodedata import category, east_asian_width

import click

from tsarchive.describing.text import LAYOUT, as_json, visible
from tsarchive.errors import ArchiveWarning

if TYPE_CHECKING:
    from rich.console import Console


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


def encodable(text: str, stream: TextIO | None) -> str:
    """Return the text with escapes in place of characters that the encoding of the stream lacks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


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


_WEIGHTS = ("bold", "dim")
_WITHOUT_STYLES = ("dumb", "unknown")
# Marks that take no place of their own; some of them are of no combining class.
_ON_THE_CHARACTER_BEFORE = ("Mn", "Me")
_AS_ASCII = str.maketrans("─│├└", "-|+`")


def has_styles(*, stderr: bool = False) -> bool:
    """Return whether stdout is a terminal, or FORCE_COLOR asks to act as if it were."""
    forced = os.environ.get("FORCE_COLOR")
    stream = own_stream(stderr=stderr)
    is_terminal = stream is not None and stream.isatty() if forced is None else forced
    return bool(is_terminal) and os.environ.get("TERM", "").lower() not in _WITHOUT_STYLES


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
    colour = next((word for word in words if word not in _WEIGHTS), None)
    return click.style(text, colour, bold="bold" in words or None, dim="dim" in words or None)


def drawn(lines: str) -> str:
    """Return lines of a box or a tree, in ASCII where stdout cannot show others."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return lines if is_unicode else lines.translate(_AS_ASCII)


def width() -> int | None:
    """Return the columns of the terminal, or COLUMNS; None for a file or a pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal():
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def cells(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if category(char) in _ON_THE_CHARACTER_BEFORE:
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def folded(text: str, limit: int) -> list[str]:
    """Return pieces of at most ``limit`` cells, broken at spaces where there are any."""
    if cells(text) <= limit:
        return [text]
    pieces: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cells(joined) <= limit:
            line = joined
            continue
        if line:
            pieces.append(line)
        *whole, line = _cut(word, limit)
        pieces += whole
    return [*pieces, line]


def _cut(word: str, limit: int) -> list[str]:
    pieces, room = [""], limit
    for char in word:
        taken = _cells_of(char)
        if taken > room and pieces[-1]:
            pieces.append("")
            room = limit
        pieces[-1] += char
        room -= taken
    return pieces


# No column is made narrower, however narrow the terminal is.
_NARROWEST = 8


class Column(NamedTuple):
    """The form of the texts of a column; ``heading`` is empty where there is none.

    Texts that are ``whole`` are never folded: names are copied from where they are shown.
    """

    heading: str = ""
    is_right: bool = False
    style: str = ""
    is_whole: bool = False

    def aligned(self, text: str, room: int, style: str) -> str:
        """Return a line of a text, padded with spaces to the width of the column."""
        padding = " " * (room - cells(text))
        shown = styled(text, style)
        return padding + shown if self.is_right else shown + padding


class Table:
    """Rows below headings, if there are any; ``gap`` spaces are between columns."""

    def __init__(self, columns: Sequence[Column], *, gap: int = 3) -> None:
        self._columns = columns
        self._gap = " " * gap
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *texts: str) -> None:
        """Add a text for each column; it may have several lines, and come from a file."""
        self._rows.append(tuple(map(visible, texts)))

    def lines(self) -> Iterator[str]:
        """Yield the table for stdout."""
        headings = tuple(column.heading for column in self._columns)
        heads = [headings] if any(headings) else []
        widths = self._widths([*heads, *self._rows])
        for row in heads:
            yield from self._drawn(row, widths, ["bold"] * len(widths))
            yield drawn("─" * self._whole(widths))
        styles = [column.style for column in self._columns]
        for row in self._rows:
            yield from self._drawn(row, widths, styles)

    def _whole(self, widths: Sequence[int]) -> int:
        return sum(widths) + len(self._gap) * (len(widths) - 1)

    def _widths(self, rows: Sequence[tuple[str, ...]]) -> list[int]:
        """Return the widths of columns: the widest give way until the terminal holds all."""
        widths = [
            max(cells(line) for text in texts for line in text.split("\n"))
            for texts in zip(*rows, strict=True)
        ]
        limit = width()
        excess = 0 if limit is None else self._whole(widths) - limit
        giving = [index for index, column in enumerate(self._columns) if not column.is_whole]
        while excess > 0 and max([0, *(widths[index] for index in giving)]) > _NARROWEST:
            *_, second, widest = sorted([_NARROWEST, *(widths[index] for index in giving)])
            less = min(excess, max(1, widest - second))
            widths[next(index for index in giving if widths[index] == widest)] -= less
            excess -= less
        return widths

    def _drawn(
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


def say(text: str, style: str = "", *, stderr: bool = False, keep: str = "") -> None:
    """Print a line in a style such as ``bold red``, where styles are shown.

    What of the text is not printable, such as escapes from a file, is shown as escapes, but for
    the characters to ``keep``.
    """
    _print(styled(visible(text, keep=keep), style, stderr=stderr) + "\n", stderr=stderr)


def print_source(source: bytes) -> None:
    """Print bytes as they are to stdout, whatever its encoding is."""
    click.echo(source, file=own_stream(), nl=False)


def _print(text: str, *, stderr: bool = False) -> None:
    stream = own_stream(stderr=stderr)
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


# Smaller files are done before a bar is seen.
_BAR_FROM = 100 << 20


@contextmanager
def progress_of(*files: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step of work on files, where these are large."""
    from tsarchive.steps import no_step

    sizes = (os.stat(file).st_size for file in files if os.path.isfile(file))
    with progress(None) if sum(sizes) >= _BAR_FROM else nullcontext(no_step) as step:
        yield step


@contextmanager
def progress(steps: int | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step; without a terminal it does nothing.

    None stands for a number of steps that nobody knows yet.
    """
    if not sys.stderr.isatty():
        yield lambda description: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    err = console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}", markup=False))
    shown = Progress(*columns, console=err, transient=True, redirect_stdout=False)
    with shown as bar, guarded():
        task = bar.add_task("", total=steps)
        started = -1

        def step(description: str) -> None:
            nonlocal started
            started += 1
            bar.update(task, completed=started, description=visible(description, keep=""))

        yield step
