"""Makes operators pay from the budgets of an archive with limits, before they run.

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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

from torch._guards import TracingContext

from tsarchive.errors import LimitError
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import TENSOR
from tsarchive.operators.effects import MADE, READ, SHOWN
from tsarchive.policy import Limits

from .costs import (
    Operator,
    PlainMode,
    TensorCosts,
    copied_sizes,
    excess_size,
    new_bytes,
    prepare,
    storages,
    text_sizes,
)
from .operators import Implementation, called_by_tracers, find_native, implementation
from .passes.liveness import holds_memory
from .tracebacks import PLACES, place_of_frame

_STEP_BYTES: Final = 1024


class Budget:
    """The rest of each limit; once one is exceeded, every request is refused."""

    __slots__ = ("_bytes", "_deadline", "_error", "_limits", "_steps")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._steps = math.inf if limits.steps is None else limits.steps
        self._bytes = math.inf if limits.nbytes is None else limits.nbytes
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
            self._end("nbytes")
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
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and PLACES not in frame.f_globals:
                frame = frame.f_back
            # The innermost function of the archive that runs.
            where = "" if frame is None else f" in {place_of_frame(frame)}"
            self._error = LimitError(
                f"code of the archive goes beyond its budget of {name}{where}",
                limit=getattr(self._limits, name),
                hint=f"Limits({name}=...) sets another",
            )
        raise self._error


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

    def spend_traced(self, steps: int) -> None:
        """``spend`` while torch.compile or torch.export traces: one trace has one budget."""
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        # torch 2.6 sets no context while it exports.
        trace = TracingContext.try_get() or get_proxy_mode()
        if self._running is not None or trace is None:
            self.spend(steps)
            return
        self._traced.setdefault(trace, Budget(self.limits)).spend(steps)


_known: weakref.WeakValueDictionary[Limits, Budgets] = weakref.WeakValueDictionary()
_lock = threading.Lock()


# Natives that make tensors, though their schemas do not say so.
_MAKING_TENSORS = frozenset({"aten::dequantize.any"})
_PAID_AT_ONCE = 1 << 16


def metering_of(limits: Limits) -> Metering:
    """The metering for some limits. Archives with equal limits share their budgets."""
    if limits.nbytes is not None:
        prepare()
    with _lock:
        return Metering(_known.setdefault(limits, Budgets(limits)))


class Metering:
    """Wraps operators so that they spend from the budgets of an archive.

    ``spend_traced`` is what generated code spends by while torch.compile or torch.export traces it.
    """

    def __init__(self, budgets: Budgets) -> None:
        self.budgets = budgets
        self.bounded: Callable[[Callable[..., Any]], Callable[..., Any]] = budgets.bounded
        self._costs = TensorCosts(lambda size: budgets.current.check_bytes(size))
        self._known: dict[tuple[str, Implementation], Implementation] = {}

        # No method: tracers of torch 2.8 and before take no ``self`` for a constant.
        @called_by_tracers
        def spend_traced(steps: int, size: int = 0) -> None:
            budgets.spend_traced(steps)

        self.spend_traced = spend_traced

    def public(self, function: Implementation, *, is_copied: bool) -> Implementation:
        """A function of the archive for Python callers; ``is_copied`` if they get copies."""

        @self.bounded
        def call(*arguments: Any) -> Any:
            result = function(*arguments)
            if is_copied:
                self._walk(copied_sizes(result))
            return result

        return call

    def implementation(self, schema: FunctionSchema) -> Implementation:
        """The function that runs an operator, and pays for it."""
        return self.metered(schema, implementation(schema))

    def metered(self, schema: FunctionSchema, function: Implementation) -> Implementation:
        """``function``, which stands for the operator of this schema, so that it pays."""
        key = schema.full_name, function
        if key not in self._known:
            self._known[key] = self._wrapped(schema, function)
        return self._known[key]

    def _wrapped(self, schema: FunctionSchema, function: Implementation) -> Implementation:
        name = schema.full_name
        if name in MADE:
            return self._paying(function, MADE[name], self.budgets.make)
        if name in READ:
            return self._paying(function, READ[name], self.budgets.read)
        if name in SHOWN:
            return self._paying(function, lambda *given: text_sizes(given), self._walk)
        if find_native(schema) is function:
            takes = name in _MAKING_TENSORS or any(r.type == TENSOR for r in schema.returns)
        else:
            takes = any(holds_memory(a.type) for a in (*schema.arguments, *schema.returns))
        if not takes:
            return function
        if self.budgets.limits.nbytes is not None:
            return self._on_tensors(Operator(name, function, _takes_device(schema.arguments)))
        if self.budgets.limits.seconds is not None:
            return self._timed(function)
        return function

    def _paying(
        self, function: Implementation, cost: Callable[..., Any], pay: Callable[[Any], None]
    ) -> Implementation:
        def call(*arguments: Any, **keywords: Any) -> Any:
            pay(cost(*arguments, **keywords))
            return function(*arguments, **keywords)

        return call

    def _walk(self, sizes: Iterator[int]) -> None:
        """Pay for a walk through values and all that they hold."""
        size = 0
        for part in sizes:
            size += part
            if size >= _PAID_AT_ONCE:
                self.budgets.make(size)
                size = 0
        self.budgets.make(size)

    def _timed(self, function: Implementation) -> Implementation:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.budgets.spend(0)
            return function(*arguments, **keywords)

        return call

    def _on_tensors(self, operator: Operator) -> Implementation:
        budgets, costs, function = self.budgets, self._costs, operator.function

        def call(*arguments: Any, **keywords: Any) -> Any:
            size = costs.ahead(operator, arguments, keywords)
            if size is not None:
                budgets.allocate(size)
                return function(*arguments, **keywords)
            with _Paying(budgets, costs):
                return function(*arguments, **keywords)

        return call


def _takes_device(arguments: Iterable[Any]) -> bool:
    return any(argument.name == "device" and argument.kwarg_only for argument in arguments)


class _Paying(PlainMode):  # type: ignore[no-untyped-call]
    """Lets the parts of an operator pay, one by one: before they run where that is possible."""

    def __init__(self, budgets: Budgets, costs: TensorCosts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._budgets = budgets
        self._costs = costs

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        operator = Operator(func.name(), func, _takes_device(func._schema.arguments))
        size = self._costs.ahead(operator, args, named)
        if size is not None:
            self._budgets.allocate(size)
            return func(*args, **named)
        self._budgets.current.check_bytes(excess_size((args, named)))
        before = storages((args, named))
        result = func(*args, **named)
        self._budgets.allocate(new_bytes(before, (result, args, named)))
        return result
