"""Branches and loops that the values of tensors decide, as torch.cond and while_loop.

A tracer does not know these values. So both sides of a branch are tried first, outside of the
graph: what they read and write, and what they give. Where that fits, each becomes a graph of the
program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from torch._guards import detect_fake_mode
from torch._higher_order_ops.cond import cond_op
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from tsarchive.errors import UnsupportedError
from tsarchive.run.operators import (
    BlockFunction,
    Branch,
    Loop,
    Operands,
    find_native,
    sym_not,
    without_modes,
)
from tsarchive.run.tracebacks import calling_origin, calling_place

from .blocks import Blocks, Tried, as_input, symbols_in, without_aliases, written_of
from .joining import Joint, MisfitError, RaisesError
from .loops import looped
from .truths import Truth, as_tensor, kind_of, on_truths, truth_of
from .watching import storage_of

if TYPE_CHECKING:
    from tsarchive.ir.schema import FunctionSchema
    from tsarchive.run.operators import Implementation as Run

_SIDES: Final = ("the branch for true", "the branch for false")
_HINT: Final = (
    "With the argument specialize, the program is that of the example, and asserts what the "
    "values of tensors decide"
)


class Branching:
    """The control flow of an export, and its layer of operators.

    ``bools`` are the positions of results that are bools of tensors, ``assertions`` the messages of
    exceptions that the program asserts not to be raised, and the places that decide it.
    """

    def __init__(self, module: nn.Module) -> None:
        self.bools: list[int] = []
        self.assertions: dict[tuple[str, str | None], None] = {}
        self._name = type(module).__name__
        self._blocks = Blocks(module)

    def __call__(self, schema: FunctionSchema, run: Run, *given: Any, **named: Any) -> Any:
        is_native = find_native(schema) is not None  # and may keep or change lists
        if not (is_native and any(isinstance(value, (list, dict)) for value in given[:1])):
            given = tuple(self._blocks.inside(value, deep=not is_native) for value in given)
            named = {k: self._blocks.inside(v, deep=not is_native) for k, v in named.items()}
        self._check_writes(schema, given, named)
        self._check_layout(schema)
        found = truth_of(schema, given, named)
        if found is not None:
            return found
        if any(isinstance(value, Truth) for value in (*given, *named.values())):
            return on_truths(schema, run, given, named)
        if schema.full_name in _OF_LISTS and self._blocks.is_within:
            return _of_items(run, given, named)
        result = run(*given, **named)
        if schema.name in _SHARING and self._blocks.laid_anew:
            self._blocks.note_copies((given[0], result))
        return self._blocks.outside(result)

    def finish(self, _module: Any, _given: Any, result: Any) -> Any:
        """The result of the call, a forward hook: bools of tensors are these tensors, as torch
        writes no others."""
        leaves, spec = tree_flatten(result)
        self.bools = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Truth)]
        found = [leaf.tensor if isinstance(leaf, Truth) else leaf for leaf in leaves]
        return tree_unflatten(found, spec)

    def _check_writes(self, schema: FunctionSchema, given: Sequence[Any], named: Any) -> None:
        """Refuse to write to what a branch has copied, or to its copy."""
        pairs = [*zip(schema.arguments, given, strict=False)]
        pairs += [(argument, named.get(argument.name)) for argument in schema.arguments]
        written = [value for argument, value in pairs if argument.is_write]
        for value in written if find_native(schema) is not None else tree_leaves(written):
            place = self._blocks.copied_at(value)
            if place:
                kind = "tensor" if isinstance(value, Tensor) else type(value).__name__
                raise self._refusal(
                    f"{schema.full_name} writes to a {kind} that is one or another, "
                    f"as the value of a tensor decides at {place}"
                )

    def _check_layout(self, schema: FunctionSchema) -> None:
        """Refuse to ask for the layout of tensors where a program may have another."""
        if schema.name not in _OF_LAYOUT:
            return
        self._blocks.ask_layout()
        if self._blocks.laid_anew:
            raise self._refusal(
                f"{schema.full_name} asks for a layout, which the value of a tensor decides at "
                f"{self._blocks.laid_anew}"
            )

    def choose(self, branch: Branch) -> Operands:
        """Return the results of one side where the tracer knows which, else of either.

        Raises UnsupportedError where a program cannot hold both.
        """
        known = self._known(branch.condition)
        branch = branch._replace(condition=known)
        if isinstance(known, bool):
            return branch.side(known)(*branch.operands)
        try:
            if branch.raising is not None:
                return self._other(branch, raising=branch.raising)
            return self._either(branch)
        except MisfitError as error:
            raise self._refusal(
                f"the branch is data-dependent, and torch.cond cannot hold both sides: {error}"
            ) from error

    def repeat(self, loop: Loop) -> Operands:
        """Run the turns of a loop that the tracer knows; the rest becomes a loop of the program.

        Raises UnsupportedError where a program cannot hold it.
        """
        count, condition, carried, turn = loop.count, loop.condition, [*loop.carried], 0
        if not isinstance(count, torch.SymInt) or not free_unbacked_symbols(count):
            count = None if count is None else int(count)
        while True:
            known = self._known(condition)
            if isinstance(count, torch.SymInt) or not isinstance(known, bool):
                left = loop._replace(count=count, condition=known, carried=tuple(carried))
                return self._looped(left, turn)
            if not known or (count is not None and turn >= count):
                return tuple(carried)
            condition, *carried = loop.body(turn, *carried, *loop.free)
            turn += 1

    def _looped(self, loop: Loop, turn: int) -> Operands:
        try:
            return looped(self._blocks, loop, turn)
        except MisfitError as error:
            raise self._refusal(
                f"the loop is data-dependent, and torch's while_loop cannot hold it: {error}"
            ) from error

    def _refusal(self, message: str) -> UnsupportedError:
        place = calling_place()
        where = f" at {place}".removesuffix(":") if place else ""
        refusal = UnsupportedError(
            f"torch.export cannot export {self._name}{where}: {message}", hint=_HINT
        )
        origin = calling_origin()
        refusal.origin = None if origin is None else str(origin)
        return refusal

    def _known(self, condition: Any) -> Any:
        """A condition as a bool; a Truth or a symbol where only the program will know it."""
        if isinstance(condition, Truth):
            return self._blocks.inside(condition)
        if not isinstance(condition, torch.SymBool) or not free_unbacked_symbols(condition):
            return bool(condition)
        if statically_known_true(condition):
            return True
        return False if statically_known_true(sym_not(condition)) else condition

    def _other(self, branch: Branch, *, raising: bool) -> Operands:
        """Assert that a condition is not the one with which a side raises; run the other side."""
        message = self._message(branch.side(raising), branch.operands)
        self.assertions[message, calling_place()] = None
        condition = branch.condition
        if isinstance(condition, Truth) or self._blocks.is_within:
            # What torch._check says of symbols holds for the whole program.
            truth = as_tensor(condition, bool)
            torch.ops.aten._assert_async.msg(truth.logical_not() if raising else truth, message)
        else:
            check: Any = torch._check
            check(sym_not(condition) if raising else condition, lambda: message)
        return branch.side(not raising)(*branch.operands)

    def _message(self, failing: BlockFunction, operands: Operands) -> str:
        """The message of the exception that a block raises."""
        try:
            self._blocks.attempt(lambda: failing(*operands), "the branch that raises", operands)
        except RaisesError as error:
            return str(error.__cause__)
        except MisfitError:
            raise
        except Exception:  # the message tells values that a tracer does not know
            return f"the code raises an exception at {calling_place()}"
        return "the code raises an exception"

    def _either(self, branch: Branch) -> Operands:
        condition, operands, sides = branch.condition, branch.operands, branch[1:3]
        tried: list[Tried] = []
        lent = self._blocks.lent(operands)
        for side, name in zip(sides, _SIDES, strict=True):
            try:
                tried.append(self._blocks.attempt(partial(_called, side, lent), name, operands))
            except RaisesError:
                return self._other(branch, raising=not tried)
        joint = Joint(*(found.results for found in tried))
        outside = {**tried[0].read, **tried[1].read}
        written = written_of(outside, tried[0].written | tried[1].written)
        if get_proxy_mode() is None:
            tensors = self._merged(condition, joint, tried, written)
        else:
            inputs = [*outside.values()]
            graphs = [
                self._graph(partial(_called, side, lent), inputs, joint, written) for side in sides
            ]
            given = (*map(as_input, inputs), *symbols_in(operands, inputs))
            operator: Any = cond_op
            tensors = operator(_predicate(condition), *graphs, given)
        ends = tensors[len(joint.open_leaves) :]
        for tensor, end in zip(written, ends, strict=True):
            tensor.copy_(end)
        results = joint.filled(tensors)
        for found in tried:
            self._note_copies(found, joint, tensors)
            self._note_containers(operands, found, joint, results)
        return results

    def _graph(
        self,
        side: BlockFunction,
        outside: Sequence[Tensor],
        joint: Joint,
        written: Sequence[Tensor],
    ) -> Callable[..., tuple[Tensor, ...]]:
        """A function of the inputs of a graph, which torch traces."""
        kept = {id(tensor) for tensor in written}

        def run(*inputs: Any) -> tuple[Tensor, ...]:
            given = zip(outside, inputs, strict=False)
            own = [inner.clone() if id(outer) in kept else inner for outer, inner in given]
            with self._blocks.scope(outside, own):
                results = self._blocks.inside_all(side())
                ends = map(self._blocks.inside, written)
                return without_aliases([*joint.tensors(results), *ends], inputs)

        return run

    def _merged(
        self, condition: Any, joint: Joint, tried: Sequence[Tried], written: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The tensors that torch.cond gives, outside of a graph."""
        predicate = _predicate(condition)
        sides = [(*joint.tensors(found.results), *written) for found in tried]
        fakes: Any = detect_fake_mode()
        with without_modes(), fakes:
            one, two = (lambda side=side: side for side in sides)
            merged: tuple[Tensor, ...] = cond_op(predicate, one, two, ())
        self._blocks.take(merged, predicate)
        return merged

    def _note_copies(self, found: Tried, joint: Joint, tensors: Sequence[Tensor]) -> None:
        """Remember which results of a program are copies of tensors that the code names."""
        values = joint.values(found.results)
        self._blocks.lay_anew(values)
        pairs = [pair for pair in zip(values, tensors, strict=False) if isinstance(pair[0], Tensor)]
        named = (*found.read.values(), *(value for value, _ in pairs))
        memory = [*map(storage_of, named)]
        for value, copy in pairs:
            if memory.count(storage_of(value)) > 1 or self._blocks.copied_at(value):
                self._blocks.note_copies((value, copy))

    def _note_containers(
        self, operands: Operands, found: Tried, joint: Joint, results: Operands
    ) -> None:
        """The same for lists and dicts that the code may know by another name."""
        containers = joint.containers(found.results)
        ids = [*map(id, containers)]
        is_known = not self._blocks.known(operands).isdisjoint(ids)
        if is_known or len({*ids}) < len(ids) or any(map(self._blocks.copied_at, containers)):
            self._blocks.note_copies((*containers, *joint.containers(results)))


def _called(block: BlockFunction, lent: Callable[[], list[Any]]) -> Operands:
    return block(*lent())


def _of_items(run: Run, given: Sequence[Any], named: Any) -> Tensor:
    """The tensor of a list, made of one for each item: inner graphs hold no constants."""
    data, *rest = given
    items = tree_leaves(data)
    plain = tree_map(lambda item: item if isinstance(item, _PLAIN) else 0, data)
    with without_modes():
        like: Tensor = run(plain, *rest, **named)
        values = like.reshape(-1).tolist()
    made = [
        as_tensor(value if isinstance(item, _PLAIN) else item, kind_of(item)).to(like.dtype)
        for item, value in zip(items, values, strict=True)
    ]
    found = torch.stack(made) if made else torch.zeros(0, dtype=like.dtype)
    return found.to(like.device).reshape(like.size()).requires_grad_(like.requires_grad)


_OF_LISTS: Final = frozenset({"aten::tensor", "aten::as_tensor.list"})
_PLAIN: Final = (bool, int, float)
_OF_LAYOUT: Final = frozenset(
    {"aten::stride", "aten::is_contiguous", "aten::storage_offset", "aten::as_strided"}
)
# What gives the same memory or a copy, as the layout has it.
_SHARING: Final = frozenset({"aten::contiguous", "aten::reshape", "aten::flatten", "aten::ravel"})


def _predicate(condition: Any) -> Any:
    return condition.tensor if isinstance(condition, Truth) else condition
