"""Loops whose end the values of tensors decide, as while_loop of torch.

What the loop carries becomes tensors. Which values it changes shows when its body is tried: values
that stay are constants of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from tsarchive.run.operators import UNSET, Loop, Operands

from .blocks import Blocks, Tried, as_input, symbols_in, without_aliases, written_of
from .joining import MisfitError, check_alike, described, is_same
from .truths import as_tensor, from_tensor, kind_of, zeros_like
from .watching import storage_of, untraced

_BODY = "its body"


def looped(blocks: Blocks, loop: Loop, turn: int) -> Operands:
    """The values that a loop carries after its last turn, from one turn on.

    Raises MisfitError for a loop that torch has no form for.
    """
    return _Looping(blocks, loop, turn).run()


class _Slot(NamedTuple):
    """A value that a loop carries, or its condition. ``kind`` is that of values that change, None
    for one that stays. ``is_kept`` marks a tensor that the body writes to. ``like`` is an example
    of a value that is not set at first."""

    first: Any
    kind: Any
    is_kept: bool = False
    like: Any = None

    @property
    def example(self) -> Any:
        return self.like if self.first is UNSET else self.first

    def tensor(self) -> Tensor:
        """The first value as a tensor."""
        if self.first is UNSET:
            return zeros_like(self.like, self.kind)
        return as_tensor(self.first, self.kind).contiguous()


class _Looping:
    def __init__(self, blocks: Blocks, loop: Loop, turn: int) -> None:
        self._blocks = blocks
        self._loop = loop
        self._turn = turn
        flat, self._spec = tree_flatten(blocks.inside_all([loop.condition, *loop.carried]))
        self._slots = [_Slot(value, _kind_at_first(value)) for value in flat]
        self._lent = blocks.lent(loop.free)
        self._counts = loop.count is not None or loop.shows_turn

    def run(self) -> Operands:
        tried, fresh = self._tried()
        while self._widen(tried.results, fresh, tried.written):
            tried, fresh = self._tried()
        own = {*map(id, fresh)}
        outside = {key: tensor for key, tensor in tried.read.items() if key not in own}
        written = written_of(outside, tried.written)
        self._check_memory(tried, fresh, outside, written)
        if get_proxy_mode() is None:
            with untraced():
                ends = [_fresh(slot) for slot in self._open]
            self._blocks.take(ends)
        else:
            ends = self._traced([*outside.values()], written)
        self._note_copies(tried, ends, outside)
        return self._ended(ends, written)

    def _check_memory(
        self,
        tried: Tried,
        fresh: Sequence[Tensor],
        outside: Mapping[int, Tensor],
        written: Sequence[Tensor],
    ) -> None:
        """Raise MisfitError where tensors share memory that a turn writes to: the tensors of the
        graph have their own."""
        kept = [slot.first for slot in self._slots if slot.is_kept]
        firsts = [slot.first for slot in self._open if isinstance(slot.first, Tensor)]
        before = [storage_of(tensor) for tensor in (*firsts, *outside.values())]
        after = [storage_of(leaf) for leaf in tried.results if isinstance(leaf, Tensor)]
        shared = {key for key in after if after.count(key) > 1 and (kept or written)}
        shared |= {storage_of(t) for t in (*kept, *written) if before.count(storage_of(t)) > 1}
        own = {*map(id, fresh)}
        changed = tried.written & {storage_of(tensor) for tensor in (*fresh, *outside.values())}
        others = (
            leaf for leaf in tried.results if isinstance(leaf, Tensor) and id(leaf) not in own
        )
        if shared or any(storage_of(leaf) in changed for leaf in others):
            raise MisfitError("its body writes to one of several tensors on the same memory")

    def _note_copies(
        self, tried: Tried, ends: Sequence[Tensor], outside: Mapping[int, Tensor]
    ) -> None:
        """Remember that what the loop ends with may be what it began with, or another tensor."""
        results = zip(self._slots, tried.results, strict=True)
        opened = [(slot, result) for slot, result in results if slot.kind is not None]
        changing = [
            (slot.first, result, end) for (slot, result), end in zip(opened, ends, strict=False)
            if slot.kind is Tensor and not slot.is_kept
        ]  # fmt: skip
        self._blocks.lay_anew(value for row in changing for value in row[:2])
        ended = {storage_of(value) for row in changing for value in row if value is not UNSET}
        others = [tensor for tensor in outside.values() if storage_of(tensor) in ended]
        self._blocks.note_copies([value for row in changing for value in row] + others)

    @property
    def _open(self) -> list[_Slot]:
        return [slot for slot in self._slots if slot.kind is not None]

    def _tried(self) -> tuple[Tried, list[Tensor]]:
        """Try the body with values of which only the kind is known; return these as well."""
        with untraced():
            fresh = [_fresh(slot) for slot in self._open]
            turn = torch.empty((), dtype=torch.int64)
            state = [turn, *fresh]
        used = (*self._loop.carried, *self._loop.free)
        tried = self._blocks.attempt(lambda: self._body(state), _BODY, used, state)
        return tried, state

    def _body(self, state: Sequence[Tensor]) -> list[Any]:
        """Run the body with tensors of the graph; return the leaves of what it gives."""
        turn, *given = state
        values = iter(given)
        flat = [
            slot.first if slot.kind is None else from_tensor(next(values), slot.kind)
            for slot in self._slots
        ]
        _, *carried = tree_unflatten(flat, self._spec)
        self._blocks.note_containers(*carried)
        number = _turn_number(turn) if self._loop.shows_turn else self._turn
        results = self._loop.body(number, *carried, *self._lent())
        self._blocks.note_containers(*results)
        return _flat([*results], self._spec, flat)

    def _widen(self, results: Sequence[Any], fresh: Sequence[Tensor], written: Any) -> bool:
        """Let the loop carry what its body has changed; return whether it carries more now."""
        before = list(self._slots)
        given = iter(fresh[1:])
        for at, (slot, result) in enumerate(zip(before, results, strict=True)):
            old = None if slot.kind is None else next(given)
            self._slots[at] = _widened(slot, old, result, written)
        return [*map(_key, before)] != [*map(_key, self._slots)]

    def _traced(self, outside: Sequence[Tensor], written: Sequence[Tensor]) -> list[Tensor]:
        """Put the loop into the graph; return the tensors that it ends with."""
        first = [torch.scalar_tensor(self._turn, dtype=torch.int64)] if self._counts else []
        first += [slot.tensor() for slot in self._open]
        first += [tensor.clone() for tensor in written]
        kept = {id(tensor) for tensor in written}
        rest = [tensor for tensor in outside if id(tensor) not in kept]
        count = self._loop.count
        counts = [] if count is None else [torch.scalar_tensor(count, dtype=torch.int64)]
        symbols = symbols_in((*self._loop.carried, *self._loop.free), (*rest, *first))
        more = (*counts, *map(as_input, rest), *symbols)
        size = len(first)

        def goes_on(*given: Any) -> Tensor:
            proceeds = given[int(self._counts)].clone() if self._slots[0].kind is not None else None
            if not counts:
                assert isinstance(proceeds, Tensor)
                return proceeds
            has_turns: Tensor = given[0] < given[size]
            return has_turns if proceeds is None else torch.logical_and(has_turns, proceeds)

        def body(*given: Any) -> tuple[Tensor, ...]:
            state, inputs = given[:size], given[size + len(counts) :]
            own = [*self._state(state)]
            ends = state[size - len(written) :]
            copies = [tensor.clone() for tensor in ends]
            with self._blocks.scope((*written, *rest), (*copies, *inputs[: len(rest)])):
                results = self._blocks.inside_all(self._body(own))
                opened = zip(self._slots, results, strict=True)
                after = [_after(slot, value) for slot, value in opened if slot.kind is not None]
                turn = [state[0] + 1] if self._counts else []
                return without_aliases([*turn, *after, *copies], given)

        loop: Any = while_loop_op
        ended = loop(goes_on, body, tuple(first), more)
        return [*ended[int(self._counts) :]]

    def _state(self, state: Sequence[Tensor]) -> list[Tensor]:
        """The number of the turn, and tensors for values that the body changes."""
        turn = state[0] if self._counts else torch.zeros((), dtype=torch.int64)
        given = zip(self._open, state[int(self._counts) :], strict=False)
        return [turn, *(tensor.clone() if slot.is_kept else tensor for slot, tensor in given)]

    def _ended(self, ends: Sequence[Tensor], written: Sequence[Tensor]) -> Operands:
        """The carried values at the end; what the body writes to is written back."""
        for tensor, end in zip(written, ends[len(self._open) :], strict=False):
            tensor.copy_(end)
        given = iter(ends)
        flat = [
            slot.first if slot.kind is None else _at_end(slot, next(given)) for slot in self._slots
        ]
        _, *carried = tree_unflatten(flat, self._spec)
        self._blocks.note_containers(*self._loop.carried, *carried)
        return tuple(carried)


def _kind_at_first(value: Any) -> Any:
    """The kind of a value that changes for certain; numbers of the code may stay."""
    return None if isinstance(value, (bool, int, float)) else kind_of(value)


def _key(slot: _Slot) -> tuple[Any, ...]:
    return id(slot.first), slot.kind, slot.is_kept


def _fresh(slot: _Slot) -> Tensor:
    """A tensor of which nothing but the kind is known."""
    return torch.empty_like(slot.tensor(), memory_format=torch.contiguous_format)


def _after(slot: _Slot, value: Any) -> Tensor:
    """The tensor that stands for a value after a turn."""
    if value is UNSET:
        return zeros_like(slot.example, slot.kind)
    return as_tensor(value, slot.kind).contiguous()


def _turn_number(turn: Tensor) -> Any:
    number = turn.item()
    check: Any = torch._check
    check(number >= 0)
    return number


def _flat(results: Sequence[Any], spec: TreeSpec, given: Sequence[Any]) -> list[Any]:
    """The leaves of results in a structure."""
    leaves, found = tree_flatten(list(results))
    if found != spec:
        raise MisfitError(
            f"it carries {len(given) - 1} values, which become {len(leaves) - 1} after a turn"
        )
    return leaves


def _widened(slot: _Slot, old: Tensor | None, result: Any, written: Any) -> _Slot:
    """The slot of a value that the body has changed to ``result``, whose tensor was ``old``."""
    if slot.kind is None:
        return _opened(slot, result)
    assert old is not None
    if slot.kind is not Tensor:
        _check_kind(slot, result)
        return slot
    is_written = storage_of(old) in written
    if result is old:
        return slot._replace(is_kept=True) if is_written else slot._replace(kind=None)
    if is_written:
        raise MisfitError("it writes to a tensor that it carries, and carries another one then")
    _check_kind(slot, result)
    if result is not UNSET and _sizes(slot.example) != _sizes(result):
        raise _changes(slot.example, result)
    return slot


def _sizes(tensor: Tensor) -> list[str]:
    return [*map(str, tensor.size())]


def _opened(slot: _Slot, result: Any) -> _Slot:
    if is_same(slot.first, result):
        return slot
    if slot.first is UNSET and kind_of(result) is not None:
        return slot._replace(kind=kind_of(result), like=result)
    opened = slot._replace(kind=kind_of(slot.first))
    if opened.kind is None or opened.kind is Tensor:
        raise _changes(slot.first, result)
    _check_kind(opened, result)
    return opened


def _check_kind(slot: _Slot, result: Any) -> None:
    if result is not UNSET:
        check_alike(slot.example, result, str(_changes(slot.example, result)))


def _changes(first: Any, result: Any) -> MisfitError:
    return MisfitError(f"it carries {described(first)}, which becomes {described(result)}")


def _at_end(slot: _Slot, end: Tensor) -> Any:
    if slot.is_kept:
        return slot.first.copy_(end)
    return from_tensor(end, slot.kind)
