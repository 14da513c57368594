"""What a call does, and whether two calls do the same."""

from __future__ import annotations

import copy
import dis
import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch

from tsarchive.errors import LimitError

_SEED: Final = 7
_ROUNDING: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call did; nothing else counts where it ``was_refused``.

    It ``was_checked`` where a ``raise`` or ``assert`` of Python refused it, not an operator.
    ``given`` are the arguments after the call, ``random`` the state of the generator. Gradients
    are those of the result with respect to the arguments and what else was asked for.
    """

    was_refused: bool
    result: Any
    given: Any
    random: torch.Tensor
    gradients: Sequence[torch.Tensor | None]
    was_checked: bool = False


def called(
    function: Callable[..., Any],
    given: Sequence[Any] | Mapping[str, Any],
    parameters: Sequence[torch.Tensor] = (),
    *,
    with_gradients: bool = False,
) -> Outcome:
    """Call a function with copies of arguments, which may have names, and a seed of its own.

    Any error counts as a refusal, as kernels raise errors of all classes; but LimitError is raised.
    """
    leaves, own = _own(given, with_gradients)
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(_SEED)
    try:
        with torch.set_grad_enabled(with_gradients), _repeatable(with_gradients):
            result = function(**own) if isinstance(own, Mapping) else function(*own)
            random = generator.get_state()
            gradients = _gradients(result, [*leaves, *parameters]) if with_gradients else ()
    except LimitError:
        raise
    except Exception as error:
        return Outcome(True, None, own, before, (), _is_raised(error))
    finally:
        generator.set_state(before)
    return Outcome(False, result, own, random, gradients)


def _repeatable(with_gradients: bool) -> AbstractContextManager[None]:
    """Keep oneDNN from gradients: those of some weights are what was in memory before."""
    if not with_gradients:
        return nullcontext()
    return torch.backends.mkldnn.flags(enabled=False)


def _is_raised(error: Exception) -> bool:
    """Return whether a statement of Python raised an error."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap["RAISE_VARARGS"]


def agree(one: Outcome, other: Outcome) -> bool:
    """Return whether two calls that were not refused did the same.

    Numbers are equal to the bit, but those of gradients up to rounding.
    """
    return (
        not other.was_refused
        and torch.equal(one.random, other.random)
        and is_equal(one.result, other.result)
        and is_equal([*tensors_in(one.given)], [*tensors_in(other.given)])
        and _returned(one) == _returned(other)
        and len(one.gradients) == len(other.gradients)
        and all(map(_is_near, one.gradients, other.gradients))
    )


def is_equal(one: Any, other: Any) -> bool:
    """Return whether values are equal to the bit, but for the bits of what is no number.

    Tensors are so in the same order of memory.
    """
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.dtype != other.dtype or one.shape != other.shape or _order(one) != _order(other):
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(is_equal(one[key], other.get(key)) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return type(one) is type(other) and bool(one == other)


def _order(tensor: torch.Tensor) -> tuple[torch.layout, Sequence[int]]:
    """Return the layout, and the steps between the numbers along dimensions of several."""
    if tensor.layout != torch.strided or not tensor.numel():
        return tensor.layout, ()
    rows = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.layout, [step for size, step in rows if size > 1]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        items = value.values() if isinstance(value, Mapping) else value
        yield from itertools.chain.from_iterable(map(tensors_in, items))


def _own(given: Any, with_gradients: bool) -> tuple[list[torch.Tensor], Any]:
    """Copy arguments; also return the leaves that gradients lead to."""
    leaves: list[torch.Tensor] = []
    memo: dict[int, Any] = {}
    for tensor in tensors_in(given):
        own = tensor.clone()
        if with_gradients and tensor.is_floating_point():
            leaves.append(own.requires_grad_())
            own = own.clone()  # leaves cannot be written to
        memo[id(tensor)] = own
    return leaves, copy.deepcopy(given, memo)


def _gradients(result: Any, of: Sequence[torch.Tensor]) -> Sequence[torch.Tensor | None]:
    outputs = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
    inputs = [tensor for tensor in of if tensor.requires_grad]
    if not outputs or not inputs:
        return ()
    weighted: Any = sum(map(_weighted, outputs))
    return torch.autograd.grad(weighted, inputs, allow_unused=True)


def _weighted(output: torch.Tensor) -> torch.Tensor:
    """Return a sum in which each number counts otherwise."""
    weights = torch.linspace(1, 2, output.numel(), dtype=output.dtype).view(output.shape)
    found = (output * weights).sum()
    return found.real if found.is_complex() else found


def _returned(outcome: Outcome) -> list[int]:
    """Return the arguments whose memory the result has."""
    given = [each.data_ptr() for each in tensors_in(outcome.given) if each.numel()]
    found = (each.data_ptr() for each in tensors_in(outcome.result))
    return [given.index(pointer) for pointer in found if pointer in given]


def _is_near(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Return whether gradients differ by little of the largest number in them."""
    if one is None or other is None or one.layout != other.layout or one.shape != other.shape:
        return one is other
    if one.layout == torch.strided and torch.equal(one, other):
        return True
    ours, theirs = one.to_dense(), other.to_dense()
    finite = ours[ours.isfinite()].abs()
    room = _ROUNDING * float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(ours, theirs, rtol=0, atol=room, equal_nan=True)
