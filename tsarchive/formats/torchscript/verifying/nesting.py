"""How deeply the values of a pickle are nested, counted as loading counts."""

from __future__ import annotations

from typing import Any

from tsarchive.pickler import Object, Reduce

_BUILT = (Object, Reduce, list, tuple, dict)


def is_deeper_than(limit: int, root: Any) -> bool:
    """Whether more than ``limit`` values stand inside each other, each where it is first met."""
    seen: set[int] = set()
    pending = [(root, 1)]
    while pending:
        value, depth = pending.pop()
        if id(value) in seen or not isinstance(value, _BUILT):
            continue
        if depth > limit:
            return True
        seen.add(id(value))
        pending += [(part, depth + 1) for part in reversed(_inside(value))]
    return False


def _inside(value: Any) -> list[Any]:
    """The parts that are values of their own: a state and an argument belong to what has them."""
    match value:
        case Object(state=dict() as state):
            return list(state.values())
        case Object():
            return [value.state]
        case Reduce(argument=tuple(arguments)):
            return [part for argument in arguments for part in _argument_parts(argument)]
        case Reduce():
            return [value.argument]
        case dict():
            return [*value.keys(), *value.values()]
    return list(value)


def _argument_parts(argument: Any) -> list[Any]:
    match argument:
        case list():
            return argument
        case dict():
            return [*argument.keys(), *argument.values()]
    return [argument]
