"""The last line of a terminal while work goes on: how far it is, and how long it takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, NamedTuple, TextIO

from tsarchive.describing.text import visible
from tsarchive.steps import Stage, under

from .lines import cells, drawn, encodable, shortened

# In seconds: shorter work is done before anything is shown, and then the line follows the clock.
_PATIENCE: Final = 0.5
_BETWEEN: Final = 0.25
# A smaller share says little about the rest.
_LEAST_SHARE: Final = 0.05
# Of the columns.
_BAR_PART: Final = 6


class Moment(NamedTuple):
    """A step, the seconds before it, and the share of all work that was done in them, if known."""

    description: str
    before: float
    share: float | None

    def line(self, seconds: float, columns: int) -> str:
        """Return the line to show when so many seconds have gone by since work began."""
        told = _clock_text(seconds)
        if self.share is not None:
            room = columns // _BAR_PART
            done = round(self.share * room)
            bar = "━" * done + "─" * (room - done)
            told = f"{bar} {self.share:4.0%}  {told}{self._left(seconds)}"
        return shortened(f"{told}  {self.description}", columns)

    def _left(self, seconds: float) -> str:
        """Return the time that is left if the rest goes on as before, as far as that tells any."""
        if self.share is None or self.share < _LEAST_SHARE:
            return ""
        left = self.before / self.share - seconds
        return f", {_clock_text(left)} left" if left > 0 else ""


def _clock_text(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


class Bar:
    """Shows the current step, of so many ``steps`` where that is known, until it is closed.

    Steps that tell their share of the work, as :class:`tsarchive.steps.Stage` do, are shown with a
    bar and the time that is left if the rest goes on as before.
    """

    def __init__(self, stream: TextIO, columns: int, steps: int | None = None) -> None:
        self._stream = stream
        self._columns = columns
        self._steps = steps
        self._begun = time.monotonic()
        self._count = 0
        self._shown = ""
        self._moment: Moment | None = None
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._clock = threading.Thread(target=self._follow_clock, daemon=True)
        self._clock.start()

    def step(self, description: str) -> None:
        """Begin a step."""
        self._count += 1
        is_counted = self._steps is not None and self._steps > 1
        show = under(f"{self._count} of {self._steps}", self.show) if is_counted else self.show
        show(description)

    def show(self, description: str) -> None:
        """Show what goes on in a step."""
        share = description.share if isinstance(description, Stage) else None
        self._moment = Moment(visible(description, keep=""), self._seconds(), share)

    def close(self) -> None:
        """Take the line away."""
        self._closed.set()
        self._clock.join()
        self._show("")

    def _encodable(self, text: str) -> str:
        return encodable(drawn(text, self._stream), self._stream)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Take the line away while something else is printed; it comes back by itself."""
        with self._lock:
            self._show("")
            yield

    def _follow_clock(self) -> None:
        wait = _PATIENCE
        while not self._closed.wait(wait):
            wait = _BETWEEN
            if self._moment is not None:
                # What reaches the last column would begin another line.
                self._show(self._moment.line(self._seconds(), self._columns - 1))

    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _show(self, line: str) -> None:
        """Show a line in place of the one before, and of what keys have written over that."""
        with self._lock:
            if line or self._shown:
                blank = " " * max(cells(self._shown) - cells(line), 0)
                self._stream.write(self._encodable(f"\r{line}{blank}\r"))
                self._stream.flush()
            self._shown = line
