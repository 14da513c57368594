"""Facts established by checks of sizes; conditions that they imply are omitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from .symbols import Expression, Number, Operation, Symbol

# Whether bounds imply a comparison with a number: ``x > 5`` holds from 6 on.
_BOUNDED: Mapping[str, Callable[[float, float, int], bool]] = {
    "Gt": lambda least, most, number: least > number,
    "Ge": lambda least, most, number: least >= number,
    "Lt": lambda least, most, number: most < number,
    "Le": lambda least, most, number: most <= number,
    "Ne": lambda least, most, number: not least <= number <= most,
}


class SizeFacts:
    """Known equalities and bounds of sources, which are texts such as ``x.size()[0]``."""

    def __init__(self) -> None:
        self._equal: set[frozenset[str | int]] = set()
        self._bounds: dict[str, tuple[float, float]] = {}

    def add_equal(self, source: str, other: str | int) -> None:
        self._equal.add(frozenset((source, other)))
        if isinstance(other, int):
            self._bounds[source] = other, other

    def add_bounds(self, source: str, least: int | None, most: int | None) -> None:
        low, high = self._bounds.get(source, (-inf, inf))
        self._bounds[source] = (
            low if least is None else max(low, least),
            high if most is None else min(high, most),
        )

    def implies(self, condition: Expression, sources: Mapping[str, str]) -> bool:
        """Return whether a condition is known to hold; ``sources`` are those of its symbols."""
        if not isinstance(condition, Operation) or len(condition.arguments) != 2:
            return False
        one, other = (_term(argument, sources) for argument in condition.arguments)
        if one is None or other is None:
            return False
        if condition.function == "Eq":
            return one == other or frozenset((one, other)) in self._equal
        bounded = _BOUNDED.get(condition.function)
        if bounded is None or not (isinstance(one, str) and isinstance(other, int)):
            return False
        return one in self._bounds and bounded(*self._bounds[one], other)


def _term(expression: Expression, sources: Mapping[str, str]) -> str | int | None:
    if isinstance(expression, Symbol):
        return sources[expression.name]
    if isinstance(expression, Number) and type(expression.value) is int:
        return expression.value
    return None
