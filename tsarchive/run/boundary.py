"""Calls from Python into archive code: binding of arguments, conversion in and out.

The conversions are torch's: ints for floats, tensors of one element and numpy scalars for
numbers, dtypes for their numbers, any iterable for a list or tuple. Lists, dicts and tuples are
copied on the way in and out, so neither side sees what the other does to them.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from tsarchive.errors import CallError
from tsarchive.printer.schema import Argument, FunctionSchema
from tsarchive.printer.types import annotation

from .conversion import Mismatch, converter, exporter

__all__ = ["Signature", "public_function"]

_MISSING: Final = object()


class Signature:
    """The parameters of a function as Python callers see them, ``self`` left out."""

    def __init__(self, name: str, schema: FunctionSchema, *, is_method: bool) -> None:
        self.name = name
        self.arguments = schema.arguments[1:] if is_method else schema.arguments
        self._converters = [converter(argument.type) for argument in self.arguments]
        self._positions = {argument.name: i for i, argument in enumerate(self.arguments)}

    def bind(self, given: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """The arguments in order, converted.

        Raises CallError for missing, surplus and unknown arguments and for values of other types.
        """
        if keywords or len(given) != len(self.arguments):
            given = self._in_order(given, keywords)
        return [
            self._convert(position, value) if value is not _MISSING else self._default(position)
            for position, value in enumerate(given)
        ]

    def _in_order(self, given: Sequence[Any], keywords: dict[str, Any]) -> Sequence[Any]:
        if len(given) > len(self.arguments):
            raise CallError(
                f"{self.name}() takes {len(self.arguments)} arguments, {len(given)} were given"
            )
        found = [*given, *(_MISSING for _ in self.arguments[len(given) :])]
        for name, value in keywords.items():
            position = self._positions.get(name)
            if position is None:
                raise CallError(f"{self.name}() has no argument {name!r}")
            if position < len(given):
                raise CallError(f"{self.name}() was given the argument {name!r} twice")
            found[position] = value
        return found

    def _default(self, position: int) -> Any:
        argument = self.arguments[position]
        if not argument.has_default:
            raise CallError(f"{self.name}() misses the argument {argument.name!r}")
        return copy.deepcopy(argument.default)

    def _convert(self, position: int, value: Any) -> Any:
        try:
            return self._converters[position](value)
        except Mismatch:
            argument = self.arguments[position]
            raise CallError(
                f"{self.name}() expects a value of type {annotation(argument.type)!r} for the "
                f"argument {argument.name!r}, not {type(value).__name__!r}"
            ) from None

    def shown(self, *, is_method: bool) -> inspect.Signature:
        """The signature as ``inspect`` and ``help`` show it."""
        own = [_parameter("self", inspect.Parameter.empty)] if is_method else []
        shown = (
            _parameter(
                argument.name,
                argument.default if argument.has_default else inspect.Parameter.empty,
            )
            for argument in self.arguments
        )
        return inspect.Signature([*own, *shown])


def _parameter(name: str, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
