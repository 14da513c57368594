"""Values that models take and give, taken apart: summaries, plain copies, comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_FIRST = 5
_SCALARS = (bool, int, float, complex, str, type(None))


def summary(value: Any) -> dict[str, Any]:
    """Describe a value as a document: nested like the value, with figures for tensors."""
    if isinstance(value, torch.Tensor):
        return {"type": "tensor", **_tensor_summary(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = dict(zip(value._fields, map(summary, value), strict=True))
        return {"type": "namedtuple", "name": type(value).__name__, "fields": fields}
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {"type": kind, "items": [summary(item) for item in value]}
    if isinstance(value, dict):
        items = [{"key": _scalar(key), "value": summary(item)} for key, item in value.items()]
        return {"type": "dict", "items": items}
    if isinstance(value, _SCALARS):
        return {"type": type(value).__name__, "value": _scalar(value)}
    return {"type": type(value).__name__, "text": str(value)[:200]}


def _scalar(value: Any) -> Any:
    """As JSON has it; a complex number and a tensor as key become text."""
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _tensor_summary(tensor: torch.Tensor) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "device": str(tensor.device),
        "min": None,
        "mean": None,
        "max": None,
        "first": [],
    }
    values = _plain_numbers(tensor)
    facts["first"] = [_scalar(item) for item in values[:_FIRST].tolist()]
    if values.numel() and not values.is_complex():
        wide = values.to(torch.float64)
        mean = wide.mean().item()
        facts.update(min=values.min().item(), mean=mean, max=values.max().item())
    return facts


def _plain_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as a dense vector on the CPU, in a dtype that has min and max."""
    tensor = tensor.detach().cpu()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    flat = tensor.resolve_conj().resolve_neg().reshape(-1)
    if flat.dtype.is_floating_point:
        return flat if flat.dtype is torch.float64 else flat.to(torch.float32)
    return flat if flat.is_complex() else flat.to(torch.int64)


def plain(value: Any) -> Any:
    """A copy of plain containers, scalars and tensors on the CPU, which torch.load reads safely.

    Named tuples become tuples; of other objects only the fact that there is one is left.
    """
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, (tuple, list)):
        items = [plain(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return value if isinstance(value, _SCALARS) else "<object>"


def leaves(value: Any, path: str = "output") -> Iterator[tuple[str, Any]]:
    """Tensors and scalars with a dotted path each: ``output.0.scores``."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = list(zip(value._fields, value, strict=True))
    elif isinstance(value, (tuple, list)):
        pairs = list(enumerate(value))
    elif isinstance(value, dict):
        pairs = list(value.items())
    else:
        yield path, value
        return
    for key, item in pairs:
        yield from leaves(item, f"{path}.{key}")
