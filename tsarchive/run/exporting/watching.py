"""What code of an archive reads, writes and changes while torch.export tries it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the tensors from outside of a block that its operators read or write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.read: dict[int, Tensor] = {}
        self.written: set[Any] = set()
        self._made: dict[int, Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        for leaf in tree_leaves((args, named)):
            self.note(leaf)
        for argument, value in zip(func._schema.arguments, args, strict=False):
            self._note_write(argument, value)
        for argument in func._schema.arguments:
            if argument.name in named:
                self._note_write(argument, named[argument.name])
        result = func(*args, **named)
        self.make(result)
        return result

    def note(self, value: Any) -> None:
        """Note what is read."""
        if isinstance(value, Tensor) and id(value) not in self._made:
            self.read[id(value)] = value

    def make(self, values: Any) -> None:
        """Take tensors for those of the block."""
        for leaf in tree_leaves(values):
            if isinstance(leaf, Tensor) and id(leaf) not in self.read:
                self._made[id(leaf)] = leaf

    def _note_write(self, argument: Any, value: Any) -> None:
        if argument.alias_info is not None and argument.alias_info.is_write:
            self.written |= {storage_of(leaf) for leaf in tree_leaves(value) if _is_plain(leaf)}


def _is_plain(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided


def storage_of(tensor: Tensor) -> Any:
    """A key that tensors on the same memory share; a tensor without memory has its own."""
    reference: Any = StorageWeakRef
    return reference(tensor.untyped_storage()) if _is_plain(tensor) else id(tensor)


def is_in_order(value: Any) -> bool:
    """Return whether a value is no tensor, or one whose elements are known to lie in order."""
    if not _is_plain(value):
        return True
    with untraced():
        return str(torch.empty(value.size()).stride()) == str(value.stride())


@contextmanager
def untraced() -> Iterator[None]:
    """Run operators on the tensors of a tracer without putting them into its graph."""
    fakes: Any = detect_fake_mode()
    with disable_proxy_modes_tracing(), fakes.shape_env.ignore_fresh_unbacked_symbols():
        yield
