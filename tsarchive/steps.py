"""What long work is told to: a function that is called with the name of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Step = Callable[[str], None]


def no_step(told: object) -> None:
    """Ignore what is told."""


class Stage(str):
    """The name of a step that tells the ``share`` of all work, 0 to 1, that is done before it."""

    __slots__ = ("share",)

    share: float

    def __new__(cls, name: str, share: float) -> Stage:
        made = super().__new__(cls, name)
        made.share = share
        return made


def under(heading: str, step: Step) -> Step:
    """Return what tells of steps under a heading."""

    def tell(description: str) -> None:
        told = f"{heading}: {description}"
        step(Stage(told, description.share) if isinstance(description, Stage) else told)

    return tell


class Measured:
    """Tells of steps that are done with the shares that their amounts have of a total."""

    def __init__(self, step: Step, total: float) -> None:
        self._step = step
        self._total = total
        self._done = 0.0

    def add(self, name: str, amount: float) -> None:
        """Tell that a part is done, whose size is an amount such as bytes."""
        self._done += amount
        self._step(Stage(name, min(self._done / self._total, 1) if self._total else 1.0))


class Shares:
    """Tells of the steps of several pieces of work, one after the other, with their shares of all.

    A step that is the name of a piece begins it; before the first, shares are those of all.
    """

    def __init__(self, step: Step, amounts: Mapping[str, float]) -> None:
        self._step = step
        self._amounts = amounts
        self._total = sum(amounts.values()) or 1
        self._done: float = 0
        self._current: float | None = None

    def __call__(self, description: str) -> None:
        if description in self._amounts:
            self._done += self._current or 0
            self._current = self._amounts[description]
            description = Stage(description, 0)
        if isinstance(description, Stage) and self._current is not None:
            done = self._done + self._current * description.share
            description = Stage(description, done / self._total)
        self._step(description)
