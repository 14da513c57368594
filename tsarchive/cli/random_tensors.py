"""Random tensors from a short description: ``1x3x64x64``, ``2x5:int64<100``, ``scalar``."""

from __future__ import annotations

import re

import click
import torch

# Of integers when the description gives no bound: small enough for most tables of embeddings.
DEFAULT_HIGH = 10

_SPEC = re.compile(
    r"(?P<shape>scalar|\d+(?:x\d+)*)(?::(?P<dtype>\w+))?(?:<(?P<high>\d+(?:\.\d+)?))?", re.ASCII
)
_GRAMMAR = "SHAPE[:DTYPE][<HIGH], such as 1x3x64x64, 2x5:int64<100 or scalar:bool"


def random_tensor(spec: str, generator: torch.Generator) -> torch.Tensor:
    """Make the tensor that ``SHAPE[:DTYPE][<HIGH]`` describes.

    Floating point (float32 unless DTYPE says otherwise) and complex numbers are of the standard
    normal distribution or, with HIGH, uniform in [0, HIGH); integers are uniform in [0, HIGH),
    HIGH being 10 unless given; bool is even odds. Raises click.BadParameter.
    """
    parts = _SPEC.fullmatch(spec.strip())
    if parts is None:
        raise _bad(f"{spec!r} is not {_GRAMMAR}.")
    shape = [] if parts["shape"] == "scalar" else [int(size) for size in parts["shape"].split("x")]
    dtype = _dtype(parts["dtype"] or "float32")
    try:
        return _fill(shape, dtype, parts["high"], generator)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise _bad(f"torch cannot make {spec!r}: {reason}") from error


def _fill(
    shape: list[int], dtype: torch.dtype, high: str | None, generator: torch.Generator
) -> torch.Tensor:
    if dtype is torch.bool:
        if high is not None:
            raise ValueError("bool takes no bound")
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        # Narrow types have no generator of their own, so all are converted.
        wide = torch.complex64 if dtype.is_complex else torch.float32
        wide = dtype if dtype in (torch.float64, torch.complex128) else wide
        if high is None:
            return torch.randn(shape, generator=generator, dtype=wide).to(dtype)
        return (torch.rand(shape, generator=generator, dtype=wide) * float(high)).to(dtype)
    bound = DEFAULT_HIGH if high is None else int(high)
    if bound - 1 > torch.iinfo(dtype).max:
        raise ValueError(f"{bound - 1} does not fit into {dtype}")
    return torch.randint(0, bound, shape, generator=generator, dtype=torch.int64).to(dtype)


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise _bad(f"torch has no dtype {name!r}.")
    return found


def _bad(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="--random")
