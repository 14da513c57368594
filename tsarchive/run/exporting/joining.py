"""The results of the two sides of a branch, as tensors that a program has of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from tsarchive.run.operators import UNSET

from .affine import Affine, affine_of, marked
from .state import containers_in
from .truths import as_tensor, from_tensor, kind_of, zeros_like


class MisfitError(Exception):
    """A branch or a loop that torch has no form for; the message says why."""


class RaisesError(MisfitError):
    """A block that raises an exception of the code."""


class _Leaf(NamedTuple):
    """One value of the results: what both sides give, or a kind of value that each gives.

    ``like`` is an example. ``is_dense`` tells whether tensors are laid out anew.
    """

    kind: Any
    like: Any
    is_dense: bool = False

    def tensor(self, value: Any) -> Tensor:
        """The value of a side as a tensor."""
        if value is UNSET:
            return zeros_like(self.like, self.kind)
        found = as_tensor(value, self.kind)
        return found.clone(memory_format=torch.contiguous_format) if self.is_dense else found

    def value(self, tensor: Tensor) -> Any:
        """The value that a tensor of the program stands for."""
        found = from_tensor(tensor, self.kind)
        affine = affine_of(self.like)
        return found if affine is None else marked(found, affine)


class Joint:
    """The results of two sides that fit each other, tuples of the same length.

    Raises MisfitError where they do not.
    """

    def __init__(self, one: Sequence[Any], two: Sequence[Any]) -> None:
        self._specs: list[TreeSpec | None] = []
        self._leaves: list[_Leaf] = []
        for pair in zip(one, two, strict=True):
            self._add(*pair)

    @property
    def open_leaves(self) -> list[_Leaf]:
        """The leaves that are tensors of the program."""
        return [leaf for leaf in self._leaves if leaf.kind is not None]

    def tensors(self, results: Sequence[Any]) -> list[Tensor]:
        """The tensors that the program has of the results of one side."""
        return [leaf.tensor(value) for leaf, value in self._opened(results)]

    def values(self, results: Sequence[Any]) -> list[Any]:
        """The values of one side that these tensors stand for."""
        return [value for _, value in self._opened(results)]

    def containers(self, results: Sequence[Any]) -> list[Any]:
        """The lists and dicts that the program makes anew."""
        pairs = zip(results, self._specs, strict=True)
        return [*containers_in(value for value, spec in pairs if spec is not None)]

    def _opened(self, results: Sequence[Any]) -> list[tuple[_Leaf, Any]]:
        flat: list[Any] = []
        for value, spec in zip(results, self._specs, strict=True):
            flat += _flat(value, spec)
        pairs = zip(self._leaves, flat, strict=True)
        return [(leaf, value) for leaf, value in pairs if leaf.kind is not None]

    def filled(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """The results that such tensors stand for."""
        given = iter(tensors)
        flat = iter(
            [
                leaf.like if leaf.kind is None else leaf.value(next(given))
                for leaf in self._leaves
            ]
        )  # fmt: skip
        return tuple(
            next(flat) if spec is None
            else tree_unflatten([next(flat) for _ in range(spec.num_leaves)], spec)
            for spec in self._specs
        )  # fmt: skip

    def _add(self, one: Any, two: Any) -> None:
        if is_same(one, two):
            self._specs.append(None)
            self._leaves.append(_Leaf(None, one))
            return
        spec = tree_flatten(two if one is UNSET else one)[1]
        self._specs.append(spec)
        pairs = zip(_flat(one, spec), _flat(two, spec), strict=True)
        self._leaves += [_joined(*pair) for pair in pairs]


def _flat(value: Any, spec: TreeSpec | None) -> list[Any]:
    if spec is None:
        return [value]
    if value is UNSET:
        return [UNSET] * spec.num_leaves
    leaves, found = tree_flatten(value)
    if found != spec:
        raise MisfitError(f"one side gives {described(value)}, the other no such structure")
    return leaves


def is_same(one: Any, two: Any) -> bool:
    """Return whether two values are known to be one."""
    if one is two:
        return True
    plain = (bool, int, float, complex, str, torch.device, torch.dtype)
    return type(one) is type(two) and isinstance(one, plain) and repr(one) == repr(two)


def _joined(one: Any, two: Any) -> _Leaf:
    if is_same(one, two):
        return _Leaf(None, one)
    if one is UNSET or two is UNSET:
        like = two if one is UNSET else one
        if kind_of(like) is None:
            raise MisfitError(f"only one side gives {described(like)}")
        return _Leaf(kind_of(like), like, is_dense=isinstance(like, Tensor))
    check_alike(one, two, f"for true it gives {described(one)}, for false {described(two)}")
    is_dense = isinstance(one, Tensor) and _layout(one) != _layout(two)
    return _Leaf(kind_of(one), one, is_dense)


def _layout(tensor: Tensor) -> str:
    return f"{tensor.stride()} {tensor.storage_offset()}"


_ALIKE: Final[Sequence[Callable[[Tensor], Any]]] = (
    lambda t: t.dtype, lambda t: t.device, lambda t: t.layout, lambda t: t.dim(),
)  # fmt: skip


def check_alike(one: Any, two: Any, message: str) -> None:
    """Raise MisfitError for values that are not of one kind, dtype, device and rank."""
    kind = kind_of(one)
    if kind is None or kind is not kind_of(two):
        raise MisfitError(message)
    if kind is Tensor:
        first, second = affine_of(one), affine_of(two)
        if any(ask(one) != ask(two) for ask in _ALIKE) or first != second or _is_open(first):
            raise MisfitError(message)


def _is_open(affine: Affine | None) -> bool:
    return affine is not None and isinstance(affine.scale, Tensor)


def described(value: Any) -> str:
    """A value as an error names it."""
    if isinstance(value, Tensor):
        sizes = ", ".join(map(str, value.size()))
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
    kind = kind_of(value)
    if kind is not None and type(value) is not kind:
        return f"one {kind.__name__}"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)[:60]
