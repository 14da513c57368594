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
from .state import Snapshot
from .truths import Truth, as_tensor, from_tensor, kind_of
from .watching import Watch, storage_of, untraced


class Tried(NamedTuple):
    """What a block gave and did when it was tried. ``read`` are tensors from outside, by id."""

    results: Any
    read: Mapping[int, Tensor]
    written: frozenset[Any]


class Blocks:
    """The blocks of one export that are tried or traced, the outermost first.

    ``copied`` has the memory of tensors that may be copies of each other in the program alone, and
    the place that decides it.
    """

    def __init__(self, module: nn.Module) -> None:
        self.copied: dict[Any, str] = {}
        self._module = module
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
        if deep and self._scopes and type(value) in (list, tuple):
            return type(value)([self.inside(item) for item in value])
        return value

    def inside_all(self, values: Any) -> Any:
        """The same for the leaves of containers."""
        return tree_map(self.inside, values) if self._scopes else values

    def lent(self, values: Sequence[Any]) -> Callable[[], list[Any]]:
        """A function that gives values inside of a block: tracers know floats and bools of tensors
        in one graph alone, so these go in as tensors."""
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
        what the block ``used`` as well.
        """
        before = Snapshot(self._module, used)
        watch = Watch()
        watch.make([*own])
        self._watches.append(watch)
        try:
            with untraced(), watch:
                results = block()
        except ScriptError as error:
            raise RaisesError(f"{name} raises an exception: {error}") from error
        finally:
            self._watches.pop()
        changed = before.changed(Snapshot(self._module, used))
        if changed:
            raise MisfitError(f"{name} changes {', '.join(changed)}")
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

    def note_copies(self, tensors: Iterable[Tensor]) -> None:
        """Remember tensors that the program may have as copies where the code has one tensor."""
        self.copied |= dict.fromkeys(map(storage_of, tensors), calling_place() or "a branch")


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
_HOLDING: Final = (list, tuple, dict, Tensor, torch.SymInt)


def without_aliases(results: Sequence[Tensor], inputs: Iterable[Any]) -> tuple[Tensor, ...]:
    """Results of a graph, copied where they share memory with its inputs or with each other."""
    taken = {storage_of(given) for given in inputs if isinstance(given, Tensor)}
    found = []
    for result in results:
        is_shared = storage_of(result) in taken
        found.append(result.clone() if is_shared else result)
        taken.add(storage_of(found[-1]))
    return tuple(found)
