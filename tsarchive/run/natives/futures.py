"""Results that come later: of a forked call, of a call put off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch

from tsarchive.run.natives.table import fault, native

T = TypeVar("T")


class Future(Generic[T]):
    """The outcome of a forked call: a value, or the exception that it raised.

    The call runs when it is forked, in the order of the program. ``wait`` returns the value or
    raises the exception, every time.
    """

    __slots__ = ("_error", "_value")

    def __init__(self, function: Callable[..., T], *arguments: Any) -> None:
        self._error: Exception | None = None
        self._value: T
        try:
            self._value = function(*arguments)
        except Exception as error:
            self._error = error

    def wait(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value

    def given(self, export: Callable[[T], Any]) -> torch.futures.Future[Any]:
        """The outcome as torch's Python code knows it, the value passed through ``export``."""
        made: torch.futures.Future[Any] = torch.futures.Future()
        if self._error is not None:
            made.set_exception(self._error)
        else:
            made.set_result(export(self._value))
        return made


class Awaitable(Generic[T]):
    """A call that runs when its value is first waited for; later waits return the same value."""

    __slots__ = ("_call", "_value")

    def __init__(self, function: Callable[..., T], *arguments: Any) -> None:
        self._call: tuple[Callable[..., T], tuple[Any, ...]] | None = (function, arguments)
        self._value: T

    def wait(self) -> T:
        if self._call is not None:
            function, arguments = self._call
            self._value = function(*arguments)
            self._call = None
        return self._value


@native("aten::wait")
def wait(future: Future[T]) -> T:
    """The value of a Future; code may take any value for one."""
    if type(future) is not Future:
        raise fault(TypeError, f"expected a Future, but found a {type(future).__name__}")
    return future.wait()


@native("prim::awaitable_wait")
def wait_for_awaitable(awaitable: Awaitable[T]) -> T:
    """The value of an Awaitable."""
    if type(awaitable) is not Awaitable:
        raise fault(TypeError, f"expected an Awaitable, but found a {type(awaitable).__name__}")
    return awaitable.wait()


native("prim::awaitable_nowait")(lambda value: Awaitable(lambda: value))
