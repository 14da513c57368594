"""Makes operators pay from the budgets of an archive with limits, before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import TENSOR
from tsarchive.operators.costs import MADE, READ, SHOWN, Cost
from tsarchive.policy import Limits

from .budgets import Budgets, budgets_of
from .costs import copied_sizes, text_sizes
from .operators import Implementation, find_native, implementation
from .passes.last_uses import holds_memory
from .tensor_costs import (
    Operator,
    PlainMode,
    TensorCosts,
    excess_size,
    new_bytes,
    prepare,
    storages,
)
from .tracing import called_by_tracers

# Natives that make tensors, though their schemas do not say so.
_MAKING_TENSORS = frozenset({"aten::dequantize.any"})
_PAID_AT_ONCE = 1 << 16


def metering_of(limits: Limits) -> Metering:
    """The metering for some limits. Archives with equal limits share their budgets."""
    if limits.bytes is not None:
        prepare()
    return Metering(budgets_of(limits))


def _spending_in_traces(budgets: Budgets) -> Callable[..., None]:
    """The function that generated code spends by while torch.compile or torch.export traces it.

    It is a function, because tracers of torch 2.8 and before take no ``self`` for a constant.
    """

    @called_by_tracers
    def spend(steps: int, size: int = 0) -> None:
        budgets.spend_traced(steps)

    return spend


class Metering:
    """Wraps operators so that they spend from the budgets of an archive."""

    def __init__(self, budgets: Budgets) -> None:
        self.budgets = budgets
        self.bounded = budgets.bounded
        self._costs = TensorCosts(budgets.check_bytes)
        self._known: dict[tuple[str, Implementation], Implementation] = {}
        self.spend_traced = _spending_in_traces(budgets)

    def public(self, function: Implementation, *, is_copied: bool) -> Implementation:
        """A function of the archive for calls from Python; ``is_copied`` tells of its result."""

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
            return self._making(function, MADE[name], self.budgets.make)
        if name in READ:
            return self._making(function, READ[name], self.budgets.read)
        if name in SHOWN:
            return self._showing(function)
        is_native = find_native(schema) is function
        if not (_makes_tensors(schema) if is_native else _has_tensors(schema)):
            return function
        if self.budgets.limits.bytes is not None:
            return self._on_tensors(Operator(name, function, _takes_device(schema.arguments)))
        if self.budgets.limits.seconds is not None:
            return self._timed(function)
        return function

    def _making(
        self, function: Implementation, cost: Cost, pay: Callable[[int], None]
    ) -> Implementation:
        def call(*arguments: Any, **keywords: Any) -> Any:
            pay(cost(*arguments, **keywords))
            return function(*arguments, **keywords)

        return call

    def _showing(self, function: Implementation) -> Implementation:
        def call(*arguments: Any) -> Any:
            self._walk(text_sizes(arguments))
            return function(*arguments)

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


def _makes_tensors(schema: FunctionSchema) -> bool:
    return schema.full_name in _MAKING_TENSORS or any(r.type == TENSOR for r in schema.returns)


def _has_tensors(schema: FunctionSchema) -> bool:
    types = [argument.type for argument in (*schema.arguments, *schema.returns)]
    return any(map(holds_memory, types))


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
        self._budgets.check_bytes(excess_size((args, named)))
        before = storages((args, named))
        result = func(*args, **named)
        self._budgets.allocate(new_bytes(before, (result, args, named)))
        return result
