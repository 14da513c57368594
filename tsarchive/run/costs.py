"""The bytes that an operator takes, found out before it runs.

The operator runs first on tensors without data (device ``meta``), where storages have sizes and
no memory. Operators whose result depends on data have rows here.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from tsarchive.errors import LimitError
from tsarchive.operators.effects import NUMBER, POINTER, WITH_EFFECTS, size_of_text

_PER_ELEMENT: Final = 24  # characters of a number in the text of a tensor


def text_sizes(values: Any) -> Iterator[int]:
    """Bytes of the text of values, part by part.

    A value that is held twice is shown twice, so that a few lists can have a text without end.
    """
    for value in _parts(values):
        if isinstance(value, str):
            yield size_of_text(value)
        elif isinstance(value, torch.Tensor):
            yield _PER_ELEMENT * (value.numel() + 2)
        else:
            yield NUMBER


def copied_sizes(value: Any) -> Iterator[int]:
    """The same for a copy that shares nothing."""
    return (POINTER for _ in _parts((value,)))


def _parts(values: Any) -> Iterator[Any]:
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, (list, tuple)):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(value.keys())
            pending.extend(value.values())
        yield value


Check = Callable[[int], None]
"""Raises LimitError where so many bytes are more than what is left."""

Given = tuple[Any, ...]
Named = dict[str, Any]

_META: Final = torch.device("meta")
_MOST_KNOWN: Final = 4096
_INDEX: Final = 8  # bytes of an int64
_PLAIN: Final = (
    type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.layout,
    torch.memory_format, torch.Generator,
)  # fmt: skip
_INDEXING: Final = frozenset(
    {"aten::index.Tensor", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
)
_WIDEST_QUANTIZED: Final = 4
# Stands for a quantized tensor where only sizes matter.
_PLAIN_DTYPES: Mapping[torch.dtype, torch.dtype] = {
    torch.quint8: torch.uint8,
    torch.qint8: torch.int8,
    torch.qint32: torch.int32,
}


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator as its schema and this process know it.

    ``takes_device`` says that a keyword ``device`` decides where its result is made.
    """

    name: str
    function: Callable[..., Any]
    takes_device: bool


class TensorCosts:
    """Bytes that calls take, found out once for equal calls."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._known: dict[Any, int | None] = {}

    def ahead(self, operator: Operator, given: Given, named: Named) -> int | None:
        """Bytes of the storages that a call is about to make; None where nothing tells."""
        name = operator.name
        tensors = _tensors((given, named))
        row = _ROWS.get(name)
        if row is not None or name in _INDEXING:
            self._check(excess_size(tensors))  # their data is looked through below
        if row is not None and not any(tensor.is_meta for tensor in tensors):
            return row(*given, **named)
        if not _is_repeatable(name) or not all(map(_has_shadow, tree_leaves((given, named)))):
            return None
        given = _without_masks(given) if name in _INDEXING else given
        if not tensors and not operator.takes_device:
            return None
        key = operator, _key(given), _key(named), torch.get_default_dtype()
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._on_shadows(operator, given, named)
        size = self._known[key]
        if size:
            # Operators that are no views may first make their arguments contiguous.
            self._check(excess_size(tensors))
        return size

    def _on_shadows(self, operator: Operator, given: Given, named: Named) -> int | None:
        tensors = _tensors((given, named))
        moved = _moved(tensors, (given, named))
        try:
            with _alone():
                given, named = tree_map_only(Tensor, _shadow, (given, named))
                given, named = tree_map_only(torch.device, lambda _: _META, (given, named))
                given, named = tree_map_only(torch.Generator, lambda _: None, (given, named))
                if operator.takes_device and not tensors:
                    named = {**named, "device": _META}
                with _Counting(self._check) as counting:
                    operator.function(*given, **named)
        except LimitError:
            raise
        # Kernels without data raise errors of many classes; the operator itself will tell why.
        except Exception:
            return None
        size: int = counting.size
        return size + moved


@cache
def prepare() -> None:
    """Let torch import what its modes need: that second is not of a model's time."""
    if not hasattr(TorchDispatchMode, "_should_skip_dynamo"):
        # Older modes import it when they first see an operator, where it cannot be imported.
        importlib.import_module("torch._dynamo")
    with _alone(), _Counting(lambda _: None):
        torch.neg(torch.empty(0, device=_META))


@contextmanager
def _alone() -> Iterator[None]:
    """Hide what runs inside from autograd, and from all that watches operators."""
    with (
        torch.no_grad(),
        torch._C._DisableFuncTorch(),
        torch._C.DisableTorchFunction(),
        _disable_current_modes(),
    ):
        yield


class PlainMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that does not concern torch.compile, which is then not imported for it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class _Counting(PlainMode):  # type: ignore[no-untyped-call]
    """Adds up the bytes of the storages that operators make."""

    def __init__(self, check: Check) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.size = 0
        self._check = check

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.is_view:
            return func(*args, **(kwargs or {}))
        before = storages((args, kwargs))
        result = func(*args, **(kwargs or {}))
        self.size += new_bytes(before, (result, args, kwargs))
        self._check(self.size)
        return result


def storages(values: Any) -> dict[Any, int]:
    """The sizes of the storages of all tensors in ``values``, by what identifies them."""
    return dict(map(_storage, _tensors(values)))


def new_bytes(before: Mapping[Any, int], values: Any) -> int:
    """Bytes of the storages of ``values`` that were not there ``before``, or have grown."""
    after = storages(values)
    return sum(max(0, size - before.get(key, 0)) for key, size in after.items())


def excess_size(values: Any) -> int:
    """Bytes by which tensors have more elements than places: what laying them out would take."""
    return sum(
        max(0, _size(tensor) - _unwrapped(tensor).untyped_storage().nbytes())
        for tensor in _tensors(values)
        if _has_shadow(tensor)
    )


def _unwrapped(tensor: Tensor) -> Tensor:
    """The tensor that has the memory, inside of those that torch.func makes of it."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _storage(tensor: Tensor) -> tuple[Any, int]:
    tensor = _unwrapped(tensor)
    if tensor.layout is torch.strided and not tensor.is_nested:
        storage = tensor.untyped_storage()
        return storage._cdata, storage.nbytes()
    if tensor.layout is torch.sparse_coo:
        parts = (tensor._indices(), tensor._values())
        return ("sparse", id(tensor)), sum(part.nbytes for part in parts)
    return ("opaque", id(tensor)), _size(tensor)


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _is_repeatable(name: str) -> bool:
    """Return whether running an operator without data has no effect on anything else."""
    base = name.partition(".")[0]
    is_of_torch = base.startswith(("aten::", "prim::", "prims::"))
    return is_of_torch and base not in WITH_EFFECTS and base != "aten::from_file"


def _has_shadow(value: Any) -> bool:
    """Return whether nothing but the form of an argument decides over sizes."""
    if isinstance(value, Tensor):
        return value.layout is torch.strided and not value.is_nested
    return isinstance(value, _PLAIN)


def _without_masks(given: Given) -> Given:
    """Arguments of indexing, with masks replaced by indices without data."""
    tensor, indices, *rest = given
    found: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            found.append(index)
            continue
        count = int(torch.count_nonzero(index))
        found += [torch.empty(count, dtype=torch.int64, device=_META)] * index.dim()
    return tensor, found, *rest


def _shadow(tensor: Tensor) -> Tensor:
    """A tensor of the same form without data."""
    dtype = _PLAIN_DTYPES.get(tensor.dtype, tensor.dtype)
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device=_META)
    made = made.conj() if tensor.is_conj() else made
    return torch._neg_view(made) if tensor.is_neg() else made


def _key(value: Any) -> Any:
    """The properties of an argument that decide about sizes."""
    if isinstance(value, Tensor):
        bits = (value.is_conj(), value.is_neg())
        return value.shape, value.stride(), value.dtype, value.device, bits
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    return type(value), None if isinstance(value, torch.Generator) else value


def _moved(tensors: list[Tensor], arguments: Any) -> int:
    """Bytes of tensors that a call may copy to another device, which shadows do not tell."""
    wanted = {leaf.type for leaf in tree_leaves(arguments) if isinstance(leaf, torch.device)}
    return sum(_size(tensor) for tensor in tensors if wanted - {tensor.device.type})


def _repeat_interleave(repeats: Tensor, output_size: int | None = None) -> int:
    return _INDEX * (int(repeats.sum()) if output_size is None else output_size)


def _bincount(values: Tensor, weights: Tensor | None = None, minlength: int = 0) -> int:
    largest = int(values.max()) + 1 if values.numel() else 0
    return _INDEX * max(largest, minlength)


def _masked_select(tensor: Tensor, mask: Tensor, **_: Any) -> int:
    shape: Any = torch.broadcast_shapes(tensor.shape, mask.shape)  # type: ignore[no-untyped-call]
    size: int = math.prod(shape) * tensor.element_size()
    return size


def _bins(tensor: Tensor, bins: Tensor | int | list[int], *_: Any, **__: Any) -> int:
    """Counts, and the edges between them."""
    if isinstance(bins, Tensor):
        return 2 * _size(bins)
    counts = [bins] if isinstance(bins, int) else bins
    return tensor.element_size() * (math.prod(counts) + sum(counts) + len(counts))


def _quantized(sizes: Iterable[int], **_: Any) -> int:
    return _WIDEST_QUANTIZED * math.prod(sizes)


_ROWS: Mapping[str, Callable[..., int]] = {
    "aten::repeat_interleave.Tensor": _repeat_interleave,
    "aten::bincount": _bincount,
    "aten::nonzero": lambda x, **_: _INDEX * x.dim() * int(torch.count_nonzero(x)),
    "aten::masked_select": _masked_select,
    "aten::histogram.bin_ct": _bins,
    "aten::histogram.bins_tensor": _bins,
    "aten::_histogramdd_bin_edges": _bins,
    "aten::_histogramdd_from_bin_cts": _bins,
    "aten::_empty_affine_quantized": _quantized,
    "aten::_empty_per_channel_affine_quantized": _quantized,
    **dict.fromkeys(("aten::to_dense", "aten::_to_dense"), lambda tensor, *_, **__: _size(tensor)),
}
"""Operators whose results depend on data: their sizes, or bounds of them."""
