"""Calls that are recorded, and traced again with the values that decided them.

A tracer does not know the values of its tensors. So a call is made once as it is, and what code
took out of tensors is noted, operator by operator; while the same call is traced, code gets these
values again. The program asserts what was decided by them, so a call that would have been decided
otherwise fails.

A number out of a tensor goes along with the tensor: a comparison asserts its outcome alone, and
arithmetic stays in the program. Where an operator needs the number itself, its value is asserted.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.utils._pytree import tree_map

from tsarchive.errors import UnsupportedError
from tsarchive.run.natives.symbolic_shapes import held_number
from tsarchive.run.operators import find_native
from tsarchive.run.tracebacks import calling_place

if TYPE_CHECKING:
    from tsarchive.ir.schema import FunctionSchema
    from tsarchive.run.operators import Implementation as Run

_TAKING: Final = frozenset(
    {
        "aten::Bool.Tensor", "aten::Complex.Tensor", "aten::ComplexImplicit", "aten::Float.Tensor",
        "aten::FloatImplicit", "aten::Int.Tensor", "aten::IntImplicit", "aten::ScalarImplicit",
        "aten::_local_scalar_dense", "aten::allclose", "aten::equal", "aten::is_nonzero",
        "aten::item", "prim::tolist",
    }
)  # fmt: skip
"""Operators that take values out of tensors."""


class Decision(NamedTuple):
    """A value that was taken from a tensor, or a size that depends on values, and what for.

    ``place`` is the function of the archive and the line, where these are known.
    """

    operator: str
    what: str
    place: str | None

    def __str__(self) -> str:
        where = "" if self.place is None else f" in {self.place}"
        return f"{self.operator} gave {self.what}{where}"


class _Step(NamedTuple):
    """An operator that ran: its full name, the value it took, the sizes of tensors it gave."""

    operator: str
    value: Any
    sizes: tuple[tuple[int, ...], ...]


class Recording:
    """The layer that notes what a call takes out of tensors."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def __call__(self, schema: FunctionSchema, run: Run, *given: Any, **named: Any) -> Any:
        result = run(*given, **named)
        name = schema.full_name
        value = result if name in _TAKING else None
        # Lists belong to the code, which may change them.
        kept = tree_map(lambda item: item, value)
        self.steps.append(_Step(name, kept, tuple(tuple(t.size()) for t in _tensors(result))))
        return result


class Replaying:
    """The layer that gives the values of a recording while its call is traced.

    ``decisions`` tells what the program asserts of the values of tensors.
    """

    def __init__(self, recording: Recording) -> None:
        self.decisions: dict[Decision, None] = {}
        self._steps: Iterator[_Step] = iter(recording.steps)

    def __call__(self, schema: FunctionSchema, run: Run, *given: Any, **named: Any) -> Any:
        if sys.exc_info()[1] is not None:  # the trace has failed, and code leaves its contexts
            return run(*given, **named)
        step = next(self._steps, None)
        name = schema.full_name
        if step is None or step.operator != name:
            raise UnsupportedError(
                f"the code ran {name} when it was traced, and "
                f"{'ended' if step is None else step.operator} when it was called before",
                hint="Only a call that is the same each time can be specialized",
            )
        if name in _TAKING:
            return self._taken(step, run, given, named)
        if any(map(_has_numbers, (*given, *named.values()))):
            return _on_numbers(schema, run, given, named)
        result = run(*given, **named)
        for tensor, sizes in zip(_tensors(result), step.sizes, strict=True):
            self._fix(name, tensor, sizes)
        return result

    def finish(self, _module: Any, _given: Any, result: Any) -> Any:
        """The result of the call, a forward hook: numbers in it are constants of the program."""
        return tree_map(_fixed, result)

    def decide(self, condition: torch.Tensor, what: str, operator: str) -> None:
        """Assert a condition in the program, and tell of it."""
        decision = Decision(operator, what, calling_place())
        self.decisions[decision] = None
        message = f"the program is specialized: {decision}, and here it does not"
        torch.ops.aten._assert_async.msg(condition, message)

    def _taken(self, step: _Step, run: Run, given: Any, named: Any) -> Any:
        tensor = given[0]
        if held_number(tensor) is not None:
            return run(*given, **named)
        value, name = step.value, step.operator
        if name in ("aten::equal", "aten::allclose"):
            self._decide_alike(name, given, named, value)
            return value
        if isinstance(value, bool):
            self.decide(tensor.ne(0) == value, str(value), name)
            return value
        if isinstance(value, list):
            wanted = torch.tensor(value, dtype=tensor.dtype, device=tensor.device)
            self.decide(_equals(tensor, wanted), str(value), name)
            return tree_map(lambda item: item, value)
        if isinstance(value, int | float):
            if isinstance(value, int):
                self._assert_fits(tensor, name)
            return Number(_as_number(tensor, value), value, self, name)
        self.decide(_equals(tensor, value), str(value), name)
        return value

    def _assert_fits(self, tensor: torch.Tensor, name: str) -> None:
        """Assert that a tensor of floats holds what an int of 64 bits can be."""
        if tensor.is_floating_point():
            message = f"{name} takes no NaN, and no number beyond 64 bits"
            torch.ops.aten._assert_async.msg(tensor.abs() < _INT_RANGE, message)

    def _decide_alike(self, name: str, given: Any, named: Any, value: bool) -> None:
        """Assert that two tensors are equal, or not; their sizes are those of the program."""
        one, two, *rest = given
        if tuple(one.size()) != tuple(two.size()):
            return
        alike = torch.isclose(one, two, *rest, **named) if rest or named else one == two
        self.decide(alike.all() == value, str(value), name)

    def _fix(self, name: str, tensor: torch.Tensor, known: tuple[int, ...]) -> None:
        """Assert the sizes of a tensor that depend on values."""
        open_ = [pair for pair in zip(tensor.size(), known, strict=True) if _is_unknown(pair[0])]
        for size, wanted in open_:
            _assert_size(size, wanted)
        if open_:
            what = f"a tensor of sizes {list(known)}"
            self.decisions[Decision(name, what, calling_place())] = None


def _is_unknown(size: Any) -> bool:
    if not isinstance(size, torch.SymInt):
        return False
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(size))


def _assert_size(size: Any, wanted: int) -> None:
    """Assert a size in the program, and let the tracer know it.

    Tracers take a size that they do not know for neither 0 nor 1, and would keep a symbol for it,
    with which torch writes the program and cannot read it.
    """
    size.node.shape_env.size_like -= size.node.expr.free_symbols
    check: Any = torch._check
    check(size == wanted)


def _tensors(result: Any) -> list[torch.Tensor]:
    """The tensors among the results of an operator."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [item for item in results if isinstance(item, torch.Tensor)]


_INT_RANGE: Final = 2.0**63


def _as_number(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """A tensor without dimensions that holds what Python holds: 64 bits."""
    kind = torch.int64 if isinstance(value, int) else torch.float64
    return tensor.detach().reshape(()).to(kind)


def _equals(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    if isinstance(value, float) and math.isnan(value):
        return tensor.isnan().all()
    return tensor.eq(value).all()


def _comparing(compare: Callable[[Any, Any], Any], sign: str) -> Callable[[Any, Any], Any]:
    """A comparison whose outcome the program asserts."""

    def method(self: Number, other: Any) -> Any:
        if not isinstance(other, (Number, int, float)):
            return NotImplemented
        outcome = bool(compare(self.value, _value(other)))
        is_float = any(isinstance(_value(one), float) for one in (self, other))
        holds = compare(*_operands((self, other), as_floats=is_float)).eq(outcome)
        shown = f"a number {sign} {_value(other)}"
        self.decisions.decide(holds, shown if outcome else f"not {shown}", self.operator)
        return outcome

    return method


class Number:
    """A number out of a tensor, whose value in the recording is known.

    A comparison asserts its outcome, and what needs the number itself its value.
    """

    def __init__(
        self, tensor: torch.Tensor, value: float, decisions: Replaying, operator: str
    ) -> None:
        self.tensor = tensor
        self.value = value
        self.decisions = decisions
        self.operator = operator

    def fixed(self) -> Any:
        """The value, which the program asserts."""
        self.decisions.decide(_equals(self.tensor, self.value), str(self.value), self.operator)
        return self.value

    def followed_by(self, tensor: torch.Tensor, value: float) -> Number:
        """A number that was computed from this one."""
        return Number(tensor, value, self.decisions, self.operator)

    __lt__ = _comparing(operator.lt, "<")
    __le__ = _comparing(operator.le, "<=")
    __gt__ = _comparing(operator.gt, ">")
    __ge__ = _comparing(operator.ge, ">=")
    __eq__ = _comparing(operator.eq, "==")
    __ne__ = _comparing(operator.ne, "!=")

    def __hash__(self) -> int:
        return hash(self.fixed())

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __int__(self) -> int:
        return int(self.fixed())

    def __float__(self) -> float:
        return float(self.fixed())

    def __index__(self) -> int:
        return operator.index(self.fixed())


def _value(operand: Any) -> Any:
    return operand.value if isinstance(operand, Number) else operand


def _operand(operand: Any) -> Any:
    return operand.tensor if isinstance(operand, Number) else operand


def _operands(given: Iterable[Any], *, as_floats: bool) -> list[Any]:
    """The operands as tensors and numbers of Python, all with 64 bits: ints beside floats would
    make float32 in torch."""
    operands = map(_operand, given)
    return [_as_float(operand) for operand in operands] if as_floats else [*operands]


def _fixed(operand: Any) -> Any:
    """An operand with the values of numbers, also of those in a list."""
    if isinstance(operand, list):
        return [_fixed(item) for item in operand]
    return operand.fixed() if isinstance(operand, Number) else operand


def _has_numbers(operand: Any) -> bool:
    items = operand if isinstance(operand, list) else (operand,)
    return any(isinstance(item, Number) for item in items)


_COMPARING: Final = {
    f"aten::{name}": getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
_COMPUTING: Final[dict[str, Callable[..., Any]]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::div": operator.truediv,
    "aten::neg": operator.neg,
}
# Of a tensor and a number.
_WITH_TENSORS: Final = frozenset({"aten::add", "aten::div", "aten::mul", "aten::sub"})


def _on_numbers(schema: FunctionSchema, run: Run, given: Any, named: Any) -> Any:
    """An operator with numbers out of tensors among its arguments."""
    name = schema.name
    if not named and not any(isinstance(operand, (torch.Tensor, list)) for operand in given):
        if name in _COMPARING:
            return _COMPARING[name](*given)
        if name in _COMPUTING:
            return _computed(name, run, given)
    is_pair = len(given) == _PAIR and isinstance(given[0], torch.Tensor) and not named
    if name in _WITH_TENSORS and is_pair:
        return _with_tensor(getattr(torch, name.removeprefix("aten::")), *given)
    if find_native(schema) is not None:  # lists stay those of the code
        given = [operand if isinstance(operand, list) else _fixed(operand) for operand in given]
        return run(*given, **named)
    return run(*map(_fixed, given), **{key: _fixed(value) for key, value in named.items()})


_PAIR: Final = 2


def _with_tensor(
    compute: Callable[[Any, Any], torch.Tensor], tensor: torch.Tensor, number: Number
) -> torch.Tensor:
    """Compute with a tensor and a number, which never decides the type of the result alone.

    A tensor without dimensions stands for the number. Beside one that has dimensions it promotes
    as a number does, once it has the type that the number gives.
    """
    wanted = torch.result_type(tensor, number.value)
    kept = number.tensor.to(tensor.device)
    if wanted != tensor.dtype:
        kept = kept.to(wanted)
    return (
        compute(tensor.reshape(1), kept).reshape(()) if tensor.dim() == 0 else compute(tensor, kept)
    )


def _computed(name: str, run: Run, given: Any) -> Any:
    number = next(operand for operand in given if isinstance(operand, Number))
    value = run(*map(_value, given))
    operands = _operands(given, as_floats=isinstance(value, float))
    return number.followed_by(_as_number(_COMPUTING[name](*operands), value), value)


def _as_float(operand: Any) -> Any:
    return operand.double() if isinstance(operand, torch.Tensor) else float(operand)
