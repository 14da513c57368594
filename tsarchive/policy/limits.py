"""How far code of an archive may go before it is stopped."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NO_LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on each call from Python into the code of an archive; None means no bound.

    Code that goes beyond one ends with a LimitError.
    """

    steps: int | None = None
    """Operators run and functions called."""
    seconds: float | None = None
    """Time on the clock. It is looked at between operators: one that runs long is not cut off."""
    bytes: int | None = None
    """Bytes that operators take for tensors, lists and strings, freed again or not."""


NO_LIMITS = Limits()
