"""Functions of torch.nn.functional in the code of archives."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch.nn import functional

from tsarchive.errors import LimitError
from tsarchive.ir.classes import Function
from tsarchive.ir.names import unmangled
from tsarchive.ir.schema import Argument
from tsarchive.ir.types import (
    BOOL,
    FLOAT,
    INT,
    STRING,
    TENSOR,
    ListType,
    OptionalType,
    Type,
)
from tsarchive.run.calls_from_python import public_function
from tsarchive.run.classes import Classes
from tsarchive.run.natives.conversions import to_dtype
from tsarchive.run.tracebacks import without_origins

from .arguments import WORDS, likeliest_first
from .calls import agree, called
from .inputs import Form

_HOME: Final = "__torch__.torch.nn.functional."
_NAME: Final = "torch.nn.functional."
# They have no effect on results, stand for what code of archives has no values of, or chose in
# Python which function an archive calls.
_NOT_DRAWN: Final = frozenset({"_stacklevel", "out", "return_indices"})
_DTYPE: Final = "dtype"
_SEED: Final = 11
_MOST_CALLS: Final = 2500
_MOST_REFUSED: Final = 100
_ENOUGH: Final = 24
_FEWEST: Final = 3
_FORMS: Final = (
    Form((2, 4, 6, 6)), Form((2, 4)), Form((2, 4, 6)), Form((4,)), Form((6,)), Form((4, 4)),
    Form((2, 4), "probabilities"), Form((2,), 4), Form((2, 3), 4), Form((2, 4, 4, 6, 6)),
)  # fmt: skip
_PLAIN: Final[Mapping[Type, Sequence[Any]]] = {
    BOOL: (False, True),
    INT: (1, 2, -1, 0, 6),
    FLOAT: (0.25, 2.0, 1e-3),
    ListType(INT): ([2], [2, 2], [2, 2, 2], [6], [6, 6], [1], [1, 1], [0], [0, 0], [1, 1, 1, 1]),
    ListType(FLOAT): ([2.0], [2.0, 2.0], [2.0, 2.0, 2.0]),
    TENSOR: _FORMS,
}

_known: WeakKeyDictionary[Function, tuple[str | None]] = WeakKeyDictionary()


def recovered_function(function: Function) -> str | None:
    """Return the name of the function of a library that one of an archive is proven to be.

    It takes arguments by the names of the archive's, and gives the same with each argument drawn,
    among them words and flags, and with defaults. A ``dtype`` is a number in the archive.
    """
    if function not in _known:
        with warnings.catch_warnings(), without_origins():
            warnings.simplefilter("ignore")  # of arguments that nobody has given
            _known[function] = (_recovered(function),)
    return _known[function][0]


def _recovered(function: Function) -> str | None:
    qualified_name = unmangled(function.qualified_name)
    name = qualified_name.removeprefix(_HOME).lstrip("_")
    found = getattr(functional, name, None)
    if not qualified_name.startswith(_HOME) or not callable(found):
        return None
    arguments = function.schema.arguments
    is_same = _takes(found, arguments) and _Comparison(function, found).is_same()
    return _NAME + name if is_same else None


def _takes(found: Callable[..., Any], arguments: Sequence[Argument]) -> bool:
    """Return whether a function takes arguments of these names, with the same defaults."""
    try:
        parameters = inspect.signature(found).parameters
    except ValueError:
        return True  # calls of functions that are bound from C++ show it
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return True
    return all(
        argument.name in parameters and _has_default(parameters[argument.name], argument)
        for argument in arguments
    )


def _has_default(parameter: inspect.Parameter, argument: Argument) -> bool:
    if not argument.has_default:
        return True
    is_spread = isinstance(argument.default, list) and isinstance(parameter.default, int)
    spread = [parameter.default] * len(argument.default) if is_spread else parameter.default
    return bool(spread == argument.default)


class _Comparison:
    """Calls of two functions with the same arguments."""

    def __init__(self, function: Function, found: Callable[..., Any]) -> None:
        self._arguments = [a for a in function.schema.arguments if a.name not in _NOT_DRAWN]
        self._archived = public_function(function, Classes().compiler)
        self._found = found
        self._values = {argument.name: _values(argument) for argument in self._arguments}
        self._near: deque[dict[str, Any]] = deque()

    def is_same(self) -> bool:
        """Return whether all that the archive's takes gives the same.

        Every argument must be taken with another value than its default, in some call.
        """
        missing = {argument.name for argument in self._arguments}
        taken = refused = 0
        for choice in itertools.islice(self._choices(), _MOST_CALLS):
            if not self._may_take(choice):
                continue
            is_same = self._agree(choice)
            refused += is_same is None
            if is_same is False or refused > _MOST_REFUSED:
                return False
            if is_same:
                taken += 1
                missing -= self._changed(choice)
                self._around(choice, missing)
            if taken >= _ENOUGH and not missing:
                break
        return taken >= _FEWEST and not missing

    def _changed(self, choice: Mapping[str, Any]) -> set[str]:
        """Return the names of arguments that do not have their defaults."""
        return {
            argument.name
            for argument in self._arguments
            if not argument.has_default or choice[argument.name] != argument.default
        }

    def _choices(self) -> Iterator[dict[str, Any]]:
        """Yield arguments: those near to what was taken before others."""
        values = [self._values[argument.name] for argument in self._arguments]
        for row in likeliest_first(values):
            while self._near:
                yield self._near.popleft()
            yield dict(zip(self._values, row, strict=True))

    def _around(self, choice: Mapping[str, Any], names: Iterable[str]) -> None:
        """Let calls follow that differ from one in one argument, of these names."""
        self._near += [
            {**choice, name: value} for name in sorted(names) for value in self._values[name]
        ]

    def _may_take(self, choice: Mapping[str, Any]) -> bool:
        """Ask the library without memory, which is quick."""
        given = {
            name: value.zeros(torch.float32, "meta") if isinstance(value, Form) else value
            for name, value in choice.items()
        }
        try:
            self._found(**_as_python_has_it(given))
        except NotImplementedError:
            return True
        except Exception:  # kernels raise errors of any class
            return False
        return True

    def _agree(self, choice: Mapping[str, Any]) -> bool | None:
        """Return whether both do the same; None where the archive's refuses.

        It is asked first: its operators check what kernels trust.
        """
        generator = torch.Generator().manual_seed(_SEED)
        given = {
            name: value.drawn(torch.float32, generator) if isinstance(value, Form) else value
            for name, value in choice.items()
        }
        try:
            one = called(self._archived, given, with_gradients=True)
        except LimitError:
            return None
        if one.was_refused:
            return None
        other = called(self._found, _as_python_has_it(given), with_gradients=True)
        return agree(one, other)


def _as_python_has_it(given: Mapping[str, Any]) -> dict[str, Any]:
    is_number = isinstance(given.get(_DTYPE), int)
    return {**given, _DTYPE: to_dtype(given[_DTYPE])} if is_number else dict(given)


def _values(argument: Argument) -> list[Any]:
    """Return the values of an argument, its default first."""
    type_ = argument.type
    found = [argument.default] if argument.has_default else []
    if isinstance(type_, OptionalType):
        found, type_ = [None], type_.element
    plain = WORDS.get(argument.name, ()) if type_ == STRING else _PLAIN.get(type_, ())
    plain = (7,) if argument.name == _DTYPE else plain
    return [*found, *(value for value in plain if value not in found)]
