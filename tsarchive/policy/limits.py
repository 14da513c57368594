"""How far code of an archive may go before it is stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tsarchive.errors import CallError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on each call from Python into the code of an archive; None means no bound.

    A call that is made while another one runs in the same thread shares the budget of that one;
    so does all code that runs while an archive is loaded. Code that goes beyond a bound ends with
    a LimitError, which it cannot catch. Raises CallError for a bound that is no number, negative
    or not finite.
    """

    steps: int | None = None
    """Nodes of the code that run. Each turn of a loop counts one more, and so does every full
    1024 bytes of the strings and lists that an operator reads or makes."""
    seconds: float | None = None
    """Time on the clock. It is looked at between operators: one that runs long is not cut off."""
    bytes: int | None = None
    """Bytes that operators take for tensors, lists and strings, freed again or not.

    They are counted before they are taken, where arguments tell how many there will be."""

    def __post_init__(self) -> None:
        for name in ("steps", "bytes"):
            _check(name, getattr(self, name), int)
        _check("seconds", self.seconds, (int, float))


def _check(name: str, bound: object, kinds: type | tuple[type, ...]) -> None:
    if bound is None:
        return
    if not isinstance(bound, kinds) or isinstance(bound, bool):
        raise CallError(f"the limit {name} is a {type(bound).__name__}, not a number")
    assert isinstance(bound, (int, float))
    if not math.isfinite(bound) or bound < 0:
        raise CallError(
            f"the limit {name} is {bound}, not zero or more", hint="None stands for no limit"
        )


NO_LIMITS = Limits()
