"""What a model returned: summaries, lines of text, plain copies, and files .npy, .npz and .pt."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tsarchive.describing.text import shape

if TYPE_CHECKING:
    import torch

_FIRST = 5
_ENDINGS = (".npy", ".npz", ".pt")
_SCALARS = (bool, int, float, complex, str, type(None))


def summary(value: Any) -> dict[str, Any]:
    """Describe a value as a document: nested like the value, with figures for tensors."""
    import torch

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
    import torch

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
    """Return the elements as a dense vector on the CPU, in a dtype that has min and max."""
    import torch

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
    """Copy plain containers, scalars and tensors to the CPU, so that torch.load reads them safely.

    Named tuples become tuples; of other objects only the fact that there is one is left.
    """
    import torch

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


def lines(label: str, document: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of a document of ``summary``: one per tensor, scalar and container."""
    kind = document["type"]
    if kind == "tensor":
        yield f"{indent}{label}: {_tensor(document)}"
        return
    parts = _parts(document)
    if parts is None:
        shown = repr(document["value"]) if "value" in document else document["text"]
        yield f"{indent}{label}: {kind} {shown}" if kind != "NoneType" else f"{indent}{label}: None"
        return
    yield f"{indent}{label}: {document.get('name', kind)} of {len(parts)}"
    for name, part in parts:
        yield from lines(name, part, indent + "  ")


def _parts(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the named parts of a container; None when it is none."""
    if "fields" in document:
        return list(document["fields"].items())
    if "items" not in document:
        return None
    if document["type"] == "dict":
        return [(repr(item["key"]), item["value"]) for item in document["items"]]
    return [(str(index), item) for index, item in enumerate(document["items"])]


def _tensor(document: dict[str, Any]) -> str:
    text = f"{document['dtype']} {shape(document['shape'])}"
    if document["device"] != "cpu":
        text += f" on {document['device']}"
    if document["mean"] is not None:
        text += f", min {_number(document['min'])}, mean {_number(document['mean'])}"
        text += f", max {_number(document['max'])}"
    first = ", ".join(map(_number, document["first"]))
    more = ", ..." if prod(document["shape"]) > len(document["first"]) else ""
    return f"{text}, values [{first}{more}]"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def check_path(path: str) -> None:
    """Raise click.BadParameter when nothing can be written under this name."""
    if Path(path).suffix not in _ENDINGS:
        raise _bad(f"{path!r} has none of the endings {', '.join(_ENDINGS)}.")
    if not Path(path).absolute().parent.is_dir():
        raise _bad(f"the folder of {path!r} does not exist.")


def write_output(output: Any, path: str) -> None:
    """Write the output; the ending of the name says how.

    ``.npy``: one tensor. ``.npz``: every tensor and number under its place, such as
    ``output.0.scores``. ``.pt``: plain containers of tensors, for ``torch.load``.
    """
    import numpy
    import torch

    match Path(path).suffix:
        case ".npy":
            if not isinstance(output, torch.Tensor):
                raise _bad(f"the output is a {type(output).__name__}, no tensor: use .npz or .pt.")
            numpy.save(path, _array(output), allow_pickle=False)
        case ".npz":
            arrays = {name: _array(value) for name, value in leaves(output) if value is not None}
            with Path(path).open("wb") as file:
                numpy.savez(file, **arrays)
        case ".pt":
            torch.save(plain(output), path)


def _array(value: Any) -> Any:
    import numpy
    import torch

    if isinstance(value, (bool, int, float, complex, str)):
        return numpy.asarray(value)
    try:
        if isinstance(value, torch.Tensor):
            return value.detach().cpu().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise _bad(f"NumPy has no array of dtype {value.dtype}: use .pt.") from error
    raise _bad(f"a {type(value).__name__} cannot be written to it: use .pt.")


def _bad(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="--out")
