"""Budgets of running code: the steps, memory and time that limits leave it.

A budget begins with a call from Python and is shared by all calls inside it. Generated code
spends the steps of a block when it enters the block, operators spend what they are about to take.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

from torch._guards import TracingContext

from tsarchive.errors import LimitError
from tsarchive.policy import Limits

from .tracebacks import PLACES, place_of_frame

_STEP_BYTES: Final = 1024


class Budget:
    """The rest of each limit; once one is exceeded, every request is refused."""

    __slots__ = ("_bytes", "_deadline", "_error", "_limits", "_steps")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._steps = math.inf if limits.steps is None else limits.steps
        self._bytes = math.inf if limits.bytes is None else limits.bytes
        self._deadline = math.inf
        if limits.seconds is not None:
            self._deadline = time.monotonic() + limits.seconds
        self._error: LimitError | None = None

    def spend(self, steps: int, size: int = 0) -> None:
        """Raise LimitError unless ``steps`` and ``size`` bytes are left, and time is."""
        self._steps -= steps
        self._bytes -= size
        if self._steps < 0:
            self._end("steps")
        if self._bytes < 0:
            self._end("bytes")
        if self._deadline is not math.inf and time.monotonic() >= self._deadline:
            self._end("seconds")

    def check_bytes(self, size: int) -> None:
        """Raise LimitError where ``size`` bytes are more than what is left; take nothing."""
        if size > self._bytes:
            self.spend(0, size)
        self.spend(0)

    def check(self) -> None:
        """Raise the error that ended the budget again, in case code has swallowed it."""
        if self._error is not None:
            raise self._error

    def _end(self, name: str) -> NoReturn:
        self._steps = -1
        if self._error is None:
            bound = getattr(self._limits, name)
            unit = name.removesuffix("s") if bound == 1 else name
            self._error = LimitError(
                f"code of the archive goes beyond its budget of {bound} {unit}{_running_place()}",
                limit=bound,
                hint=f"Limits({name}=...) sets the budget at load",
            )
        raise self._error


def _running_place() -> str:
    """The innermost function of the archive that runs, and its line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and PLACES not in frame.f_globals:
        frame = frame.f_back
    return "" if frame is None else f" in {place_of_frame(frame)}"


class Budgets(threading.local):
    """The budgets of one set of limits: in each thread the one that is running, if any."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._running: Budget | None = None
        self._traced: weakref.WeakKeyDictionary[Any, Budget] = weakref.WeakKeyDictionary()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Begin a budget for what runs inside, unless one is running."""
        if self._running is not None:
            yield
            return
        budget = self._running = Budget(self.limits)
        try:
            yield
        finally:
            self._running = None
        budget.check()

    def bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` with a budget for each call."""

        @functools.wraps(function, updated=())
        def call(*arguments: Any, **keywords: Any) -> Any:
            with self.running():
                return function(*arguments, **keywords)

        return call

    @property
    def current(self) -> Budget:
        """The running budget. Raises LimitError where none is running."""
        if self._running is None:
            raise LimitError("code of an archive with limits runs outside of a call")
        return self._running

    def spend(self, steps: int, size: int = 0) -> None:
        """Take from the running budget. Raises LimitError where it does not suffice."""
        self.current.spend(steps, size)

    def make(self, size: int) -> None:
        """Take bytes that Python is about to fill, and the steps that this takes.

        Never gives any back: sizes are asked of values that code of an archive may have made up.
        """
        size = max(size, 0)
        self.current.spend(size // _STEP_BYTES, size)

    def read(self, size: int) -> None:
        """Take the steps in which Python goes through ``size`` bytes."""
        self.current.spend(max(size, 0) // _STEP_BYTES)

    def allocate(self, size: int) -> None:
        """Take the bytes of tensors."""
        self.current.spend(0, max(size, 0))

    def check_bytes(self, size: int) -> None:
        """Raise LimitError where ``size`` bytes are more than what is left; take nothing."""
        self.current.check_bytes(size)

    def spend_traced(self, steps: int) -> None:
        """``spend`` while torch.compile or torch.export traces: one trace has one budget."""
        trace = TracingContext.try_get() or _proxy_mode()
        if self._running is not None or trace is None:
            self.spend(steps)
            return
        self._traced.setdefault(trace, Budget(self.limits)).spend(steps)


def _proxy_mode() -> Any:
    """The proxy mode of an export: torch 2.6 sets no context. None where nothing is exported."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode()


_known: weakref.WeakValueDictionary[Limits, Budgets] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def budgets_of(limits: Limits) -> Budgets:
    """The budgets of these limits, the same for all archives."""
    with _lock:
        return _known.setdefault(limits, Budgets(limits))
