"""What two models are called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """A method, its arguments, and the seed of random numbers before it.

    ``model`` is one of several in an archive of torch.export.
    """

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    method: str = "forward"
    seed: int = 0
    model: str | None = None

    @classmethod
    def of(cls, given: Any) -> Call:
        """Return the call that is given as a tuple of arguments, a mapping of keyword arguments,
        one argument, or itself."""
        if isinstance(given, Call):
            return given
        if isinstance(given, Mapping):
            return cls(kwargs=given)
        return cls(given if isinstance(given, tuple) else (given,))
