"""Blocks of code that become graphs of their own inside an exported program.

A graph takes as inputs the tensors from outside that its code reads, and may write to none of them:
it writes to a copy, which the program copies back. Its results do not share memory with its inputs,
so these are copies, too, and later writes to either are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map

from tsarchive.errors import ScriptError
from tsarchive.run.natives.symbolic_shapes import held_number, holding
from tsarchive.run.tracebacks import calling_place

from .affine import affine_of, marked
from .joining import MisfitError, RaisesError
from .state import Snapshot, containers_in
from .truths import Truth, as_tensor, from_tensor, kind_of
from .watching import Watch, is_in_order, storage_of, untraced


class Tried(NamedTuple):
    """What a block gave and did when it was tried. ``read`` are tensors from outside, by id."""

    results: Any
    read: Mapping[int, Tensor]
    written: frozenset[Any]


class Blocks:
    """The blocks of one export that are tried or traced, the outermost first.

    ``laid_anew`` is the place of the last results that the program lays out in another way than the
    code, empty without any.
    """

    def __init__(self, module: nn.Module) -> None:
        self.laid_anew = ""
        self._asks_layout = False
        self._module = module
        self._copied: dict[Any, tuple[Any, str]] = {}
        self._numbers: dict[int, tuple[Any, Tensor]] = {}
        self._scopes: list[dict[int, tuple[Tensor, Tensor]]] = []
        self._watches: list[Watch] = []

    @property
    def is_within(self) -> bool:
        """Return whether a block is tried or traced."""
        return bool(self._scopes or self._watches)

    def inside(self, value: Any, *, deep: bool = True) -> Any:
        """The value in the block that is traced: the input of its graph for a tensor."""
        if isinstance(value, Tensor):
            for scope in self._scopes:
                value = scope.get(id(value), (None, value))[1]
            return value
        if isinstance(value, Truth):
            return Truth(self.inside(value.tensor))
        if isinstance(value, _LENT) and self.is_within and id(value) in self._numbers:
            return from_tensor(self.inside(self._numbers[id(value)][1]), kind_of(value))
        if deep and self._scopes and type(value) in (list, tuple):
            return type(value)([self.inside(item) for item in value])
        return value

    def outside(self, value: Any) -> Any:
        """The tensor that the code names, for the input of a graph that stands for it."""
        if isinstance(value, Tensor):
            for scope in reversed(self._scopes):
                value = next((outer for outer, inner in scope.values() if inner is value), value)
        return value

    def inside_all(self, values: Any) -> Any:
        """The same for the leaves of containers."""
        return tree_map(self.inside, values) if self._scopes else values

    def lent(self, values: Sequence[Any]) -> Callable[[], list[Any]]:
        """A function that gives values inside of a block: tracers know floats and bools of tensors
        in one graph alone, so these go in as tensors. Those in lists do where they are used."""
        for leaf in tree_leaves([value for value in values if isinstance(value, _NESTING)]):
            if isinstance(leaf, _LENT) and id(leaf) not in self._numbers:
                self._numbers[id(leaf)] = leaf, as_tensor(leaf, kind_of(leaf))
        kinds = [kind_of(value) if isinstance(value, _LENT) else None for value in values]
        pairs = [*zip(values, kinds, strict=True)]
        held = [value if kind is None else as_tensor(value, kind) for value, kind in pairs]

        def give() -> list[Any]:
            return [
                value if kind is None else from_tensor(self.inside(value), kind)
                for value, kind in zip(held, kinds, strict=True)
            ]

        return give

    def attempt(
        self, block: Callable[[], Any], name: str, used: Sequence[Any], own: Iterable[Tensor] = ()
    ) -> Tried:
        """Run a block outside of the graph; ``own`` are tensors that are not from outside.

        Raises RaisesError for an exception of the code, MisfitError for what a graph cannot do, to
        what the block ``used`` as well, also before an exception.
        """
        raised: Exception | None = None
        results: Any = ()
        before = Snapshot(self._module, used)
        watch = Watch()
        watch.make([*own])
        self._watches.append(watch)
        try:
            with untraced(), watch:
                results = block()
        except Exception as error:  # after which the same is asked
            raised = error
        finally:
            self._watches.pop()
        changed = before.changed(Snapshot(self._module, used))
        if changed:
            raise MisfitError(f"{name} changes {', '.join(changed)}")
        if isinstance(raised, ScriptError):
            raise RaisesError(f"{name} raises an exception: {raised}") from raised
        if raised is not None:
            raise raised
        results = self.inside_all(results)
        for leaf in tree_leaves(results):
            watch.note(leaf.tensor if isinstance(leaf, Truth) else leaf)
        return Tried(results, watch.read, frozenset(watch.written))

    def take(self, made: Any, read: Any = None) -> None:
        """Tell the blocks that are tried of operators that they do not see."""
        for watch in self._watches:
            watch.note(read)
            watch.make(made)

    @contextmanager
    def scope(self, outside: Iterable[Tensor], inside: Iterable[Tensor]) -> Iterator[None]:
        """Let code meet the inputs of a graph where it names tensors from outside."""
        pairs = [*zip(outside, inside, strict=True)]
        for outer, inner in pairs:
            _keep_marks(outer, inner)
        self._scopes.append({id(outer): (outer, inner) for outer, inner in pairs})
        try:
            yield
        finally:
            self._scopes.pop()

    def note_copies(self, values: Iterable[Any]) -> None:
        """Remember tensors, lists and dicts that the program may have as copies where the code has
        one."""
        place = calling_place() or "a branch"
        self._copied |= {_memory_of(value): (value, place) for value in values}

    def copied_at(self, value: Any) -> str:
        """The place that decides which of its copies a value is, empty for one without copies."""
        return self._copied.get(_memory_of(value), (value, ""))[1]

    def note_containers(self, *values: Any) -> None:
        """The same for all lists and dicts in values."""
        self.note_copies(containers_in(values))

    def known(self, values: Sequence[Any]) -> set[int]:
        """The ids of the lists and dicts in values, and of those of the module."""
        return {*map(id, containers_in([*values, *self._module.modules()]))}

    def ask_layout(self) -> None:
        """Tell that the code asks how a tensor is laid out."""
        self._asks_layout = True

    def lay_anew(self, tensors: Iterable[Any]) -> None:
        """Tell of tensors of the code that the program lays out in order.

        Raises MisfitError where the code has asked for layouts.
        """
        if all(map(is_in_order, tensors)):
            return
        self.laid_anew = calling_place() or "a branch"
        if self._asks_layout:
            raise MisfitError("it gives a tensor in a layout of its own, and the code asks for one")


def _memory_of(value: Any) -> Any:
    return storage_of(value) if isinstance(value, Tensor) else id(value)


def _keep_marks(outer: Tensor, inner: Tensor) -> None:
    """Let the input of a graph be known for what the tensor from outside is known for."""
    affine, number = affine_of(outer), held_number(outer)
    if affine is not None:
        if isinstance(affine.scale, Tensor):
            raise MisfitError("it uses a tensor whose scales are tensors")
        marked(inner, affine)
    if number is not None:
        holding(inner, number)


def written_of(outside: Mapping[int, Tensor], written: Iterable[Any]) -> list[Tensor]:
    """The tensors from outside that blocks write to. Raises MisfitError where it is not clear
    which of them a graph would have to write back."""
    found: list[Tensor] = []
    keys = [storage_of(tensor) for tensor in outside.values()]
    for key, tensor in zip(keys, outside.values(), strict=True):
        if key in written:
            if keys.count(key) > 1:
                raise MisfitError("it writes to one of several tensors on the same memory")
            found.append(tensor)
    return found


def as_input(tensor: Tensor) -> Tensor:
    """A tensor as the input of a graph; constants of the code become tensors of the program."""
    return tensor if isinstance(tensor, FakeTensor) else tensor.clone()


def symbols_in(values: Sequence[Any], inputs: Iterable[Tensor]) -> list[torch.SymInt]:
    """The ints and sizes among values that a tracer does not know, without those that the sizes of
    ``inputs`` tell, each once."""
    known = {str(size) for tensor in inputs for size in tensor.size()}
    found: dict[str, torch.SymInt] = {}
    for leaf in tree_leaves([value for value in values if isinstance(value, _HOLDING)]):
        for size in leaf.size() if isinstance(leaf, Tensor) else (leaf,):
            if isinstance(size, torch.SymInt) and str(size) not in known:
                found[str(size)] = size
    return [*found.values()]


_LENT: Final = (torch.SymFloat, torch.SymBool)
_NESTING: Final = (list, tuple, dict)
_HOLDING: Final = (*_NESTING, Tensor, torch.SymInt)


def without_aliases(results: Sequence[Tensor], inputs: Iterable[Any]) -> tuple[Tensor, ...]:
    """Results of a graph, copied where they share memory with its inputs or with each other."""
    taken = {storage_of(given) for given in inputs if isinstance(given, Tensor)}
    found = []
    for result in results:
        is_shared = storage_of(result) in taken
        found.append(result.clone() if is_shared else result)
        taken.add(storage_of(found[-1]))
    return tuple(found)
