"""Attributes as constants, and what is known because of them.

An attribute stays one where code that may run sets it, or writes to its tensor. Which code may run
depends on the attributes that are constants: all are at first, and what is found to change is kept
in the next round. No first change can come from code that does not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, Final

import torch

from tsarchive.frontend.folding import fold
from tsarchive.ir.classes import Function
from tsarchive.ir.constants import Device, TableConstant
from tsarchive.ir.graph import CONSTANT, Block, Node, Value, walk
from tsarchive.ir.rewriting import remove, replace
from tsarchive.ir.types import NONE, TENSOR, ListType, TupleType
from tsarchive.ir.values import Builder
from tsarchive.operators.effects import is_pure, may_write
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.operators import find_native, implementation, operator_schemas
from tsarchive.run.passes.alias_analysis import OUTSIDE, Aliases, Place

from .graphs import Inserter, argument, each_node, sweep, tensor_of
from .inlining import Inlined, Slot, inlined

_MOST_ROUNDS: Final = 64
_OWNED: Final = "prim::CreateObject"  # its result is a place of its own
# More than its arguments have: what is computed anew need not be in the file.
_MAY_GROW: Final = frozenset(
    f"aten::{name}"
    for name in (
        "repeat", "repeat_interleave", "tile", "expand", "expand_as", "broadcast_to", "kron",
        "outer", "ger", "cartesian_prod", "combinations", "diag_embed", "one_hot", "unfold",
        "im2col", "constant_pad_nd", "pad", "new_zeros", "new_ones", "new_full", "new_empty",
        "block_diag", "meshgrid", "cdist", "upsample_nearest2d", "upsample_bilinear2d", "item",
    )
)  # fmt: skip
_MAKES: Final = frozenset({"aten::arange", "aten::full", "aten::ones", "aten::zeros"})
_IS_NONE: Final = {"aten::__is__": False, "aten::__isnot__": True}
_SMALL: Final = 1 << 14
_PLAIN: Final = (bool, int, float, str)
_KNOWN: Final = (*_PLAIN, type(None), Device)
_REFUSALS: Final = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


def frozen(
    root: ArchiveModule, methods: Sequence[Function]
) -> tuple[list[Inlined], frozenset[Slot]]:
    """Return the graphs of methods with attributes as constants, and those that change.

    Raises UnsupportedError for code that chooses between modules when it runs.
    """
    kept: frozenset[Slot] = frozenset()
    for _ in range(_MOST_ROUNDS):
        found = [inlined(root, method, kept) for method in methods]
        for each in found:
            simplify(each.graph)
        changed = kept.union(*(changed_slots(each) | _assigned(each) for each in found))
        changed |= _sharing(changed, {slot for each in found for slot in each.frozen.values()})
        if changed == kept:
            return found, kept
        kept = changed
    raise AssertionError("each round keeps an attribute more")


def _sharing(changed: Iterable[Slot], slots: Iterable[Slot]) -> set[Slot]:
    """Return the attributes that share memory, lists or dicts with those that change."""
    seen = {memory for slot in changed for memory in _memory(slot.value)}
    return {slot for slot in slots if not seen.isdisjoint(_memory(slot.value))}


def _memory(value: Any) -> Iterator[int]:
    """Yield what tells apart the memory of a value, and of what is in it."""
    match value:
        case torch.Tensor() if torch._C._has_storage(value):
            yield value.untyped_storage().data_ptr()
        case list() | tuple() | dict():
            yield id(value)
            for item in value.values() if isinstance(value, dict) else value:
                yield from _memory(item)


def simplify(graph: Block) -> None:
    """Fold what depends on constants alone, and take out what nothing needs."""
    each_node(graph, _answer_by_type)
    builder = Builder(graph, lambda: None, hoists_constants=True)
    fold(builder, find_native)
    builder.finish()
    while _fold_tensors(graph):
        again = Builder(graph, lambda: None, hoists_constants=True)
        fold(again, find_native)
        again.finish()
    sweep(graph)


def _answer_by_type(block: Block, node: Node) -> None:
    """Answer whether a value is None where its type tells."""
    if node.kind == "prim::unchecked_cast" and node.input.type == node.output.type:
        replace(node.output, node.input)
        remove(block, node)
    elif node.operator in _IS_NONE and {*map(_is_none, node.inputs)} == {True, False}:
        replace(node.output, Inserter(block, node).constant(_IS_NONE[node.operator]))
        remove(block, node)


def _is_none(value: Value) -> bool | None:
    """Return whether a value is None; None where its type does not tell."""
    if value.type == NONE:
        return True
    return False if value.type == TENSOR or isinstance(value.type, ListType | TupleType) else None


def _assigned(found: Inlined) -> set[Slot]:
    """Return the attributes that code sets, but for code that never runs."""
    left = [node for node in walk(found.graph.nodes) if node.kind == "prim::SetAttr"]
    if not left:
        return set()
    names = {node.name for node in left}
    return {slot for slot in found.assigned if slot.name in names}


def changed_slots(found: Inlined) -> set[Slot]:
    """Return the attributes that code may write to."""
    leaves = {value: slot for value, slot in found.frozen.items() if value.uses}
    writers = [node for node in walk(found.graph.nodes) if may_write(node)]
    if not writers or not leaves:
        return set()
    with _owned(leaves):
        written = Written(found.graph, writers)
        return {slot for value, slot in leaves.items() if written.may_be(value)} | {
            slot
            for value, slot in leaves.items()
            if value.type != TENSOR and written.has_unknown  # what is in a list is anywhere
        }


@contextmanager
def _owned(values: Any) -> Iterator[None]:
    """Let each value be a place of its own for the alias analysis."""
    before = [(value.node, value.node.kind) for value in values]
    try:
        for node, _ in before:
            node.kind = _OWNED
        yield
    finally:
        for node, kind in before:
            node.kind = kind


class Written:
    """The memory that nodes of a graph may write to."""

    def __init__(self, graph: Block, writers: list[Node] | None = None) -> None:
        if writers is None:
            writers = [node for node in walk(graph.nodes) if may_write(node)]
        self.aliases = Aliases(graph)
        self._places: set[Place] = set().union(*map(self.aliases.written, writers))
        self._outside = self.aliases.known_outside()

    @property
    def has_unknown(self) -> bool:
        """Whether nodes write to memory that the graph does not own."""
        return OUTSIDE in self._places

    def may_be(self, value: Value) -> bool:
        """Return whether a value may be written to."""
        places = self.aliases.places(value)
        if not self._places.isdisjoint(places):
            return True
        return OUTSIDE in self._places and not places.isdisjoint(self._outside)


def _fold_tensors(graph: Block) -> bool:
    """Compute what depends on constant tensors alone; true where there was anything."""
    changed = False
    fates: list[_Fates] = []

    def visit(block: Block, node: Node) -> None:
        nonlocal changed
        if not _may_fold(node):
            return
        if not fates:
            fates.append(_Fates(graph))
        if fates[0].is_held(node.output):
            return
        made = _folded(block, node)
        if made is not None:
            replace(node.output, made)
            remove(block, node)
            changed = True

    each_node(graph, visit)
    return changed


class _Fates:
    """What becomes of results: those that are written to, or that others get, stay their own."""

    def __init__(self, graph: Block) -> None:
        self._written = Written(graph)
        aliases = self._written.aliases
        self._given: set[Place] = aliases.known_outside().union(*map(aliases.places, graph.returns))

    def is_held(self, value: Value) -> bool:
        places = self._written.aliases.places(value)
        own = places - {OUTSIDE}
        return self._written.may_be(value) or not self._given.isdisjoint(own)


def _may_fold(node: Node) -> bool:
    schema = node.schema
    if schema is None or len(node.outputs) != 1 or node.kind in _MAY_GROW or not is_pure(node):
        return False
    if node.upgrader is not None or not all(map(_is_known, node.inputs)):
        return False
    if not _is_small(node) and all(tensor_of(value) is None for value in _leaves(node.inputs)):
        return False
    return _overload(node) is not None and not is_seeded(node)


def _is_small(node: Node) -> bool:
    """Return whether a node makes a small tensor, of a type that it says."""
    if node.kind not in _MAKES or argument(node, "dtype").constant is None:
        return node.operator == "aten::arange" and _counts(node.input.constant)
    if node.kind == "aten::arange":
        return all(_counts(value.constant) for value in node.inputs[:-4])
    sizes = value_of(node.input)
    return all(type(size) is int for size in sizes) and 0 <= prod(sizes) <= _SMALL


def _counts(number: Any) -> bool:
    return type(number) is int and abs(number) <= _SMALL


def _leaves(values: list[Value]) -> Iterator[Value]:
    for value in values:
        yield from value.node.inputs if value.node.kind == "prim::ListConstruct" else (value,)


def _is_known(value: Value) -> bool:
    if value.node.kind == "prim::ListConstruct":
        return len(value.uses) == 1 and all(map(_is_known, value.node.inputs))
    if value.node.kind != CONSTANT:
        return False
    return tensor_of(value) is not None or isinstance(value.constant, _KNOWN)


def _overload(node: Node) -> Any:
    name, _, overload = node.operator.partition("::")[2].partition(".")
    return getattr(getattr(torch.ops.aten, name, None), overload or "default", None)


def is_seeded(node: Node) -> bool:
    """Return whether an operator takes random numbers."""
    found = _overload(node) if node.schema is not None else None
    return found is not None and torch.Tag.nondeterministic_seeded in found.tags


def value_of(value: Value) -> Any:
    """Return what a constant, or a list of constants, is when it runs."""
    if value.node.kind == "prim::ListConstruct":
        return [value_of(item) for item in value.node.inputs]
    if isinstance(value.constant, Device):
        return torch.device(value.constant.text)
    tensor = tensor_of(value)
    return value.constant if tensor is None else tensor


def result_of(node: Node, given: Iterable[Any]) -> Any:
    """Run the operator of a node on values for its inputs, and return what it gives."""
    assert node.schema is not None
    pairs = list(zip(node.schema.arguments, given, strict=True))
    named = {argument.name: value for argument, value in pairs if argument.kwarg_only}
    run = implementation(node.schema)
    return run(*(value for argument, value in pairs if not argument.kwarg_only), **named)


def number_of(dtype: torch.dtype) -> int:
    """Return the number that TorchScript has for a type of numbers."""
    (schema,) = operator_schemas("prim::dtype")
    found: int = implementation(schema)(torch.empty(0, dtype=dtype))
    return found


def _folded(block: Block, node: Node) -> Value | None:
    try:
        with torch.no_grad():
            result = result_of(node, map(value_of, node.inputs))
    except _REFUSALS:
        return None  # it raises when it runs
    inserter = Inserter(block, node)
    if isinstance(result, torch.Tensor):
        return inserter.constant(TableConstant(result.detach()), TENSOR)
    if isinstance(result, list) and all(isinstance(item, _PLAIN) for item in result):
        type_ = node.output.type
        return inserter.list_of(result, type_.element) if isinstance(type_, ListType) else None
    return inserter.constant(result) if isinstance(result, _PLAIN) else None
