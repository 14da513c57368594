"""What long work is told to: a function that is called with the name of each step."""

from __future__ import annotations

from collections.abc import Callable

Step = Callable[[str], None]


def no_step(told: object) -> None:
    """Tell nobody of it."""
