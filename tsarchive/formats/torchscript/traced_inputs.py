"""The example inputs that torch.jit.trace leaves in an archive: shapes and dtypes without data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import torch

from tsarchive.container import Container
from tsarchive.errors import UnsupportedError
from tsarchive.pickler import Reduce, loads

from .pickled import Conversion
from .stored_tensors import DenseTensor, StoredTensors, is_tensor

RECORD: Final = "traced_inputs.pkl"
_JIT: Final = "torch.jit._pickle"
# Of integers, whose bounds are not recorded: small enough for most tables of embeddings.
_HIGH: Final = 10
# More than this is no example input.
_MOST_BYTES: Final = 4 << 30


def drawn_inputs(
    container: Container, generator: torch.Generator, method: str = "forward"
) -> tuple[Any, ...] | None:
    """Return arguments like those that ``method`` was traced with, with random tensors in them.

    Floating-point and complex numbers are of the standard normal distribution, integers below 10.
    None where the archive has no such inputs. Raises PickleError for a malformed record,
    UnsupportedError for tensors that cannot be drawn.
    """
    if RECORD not in container.records:
        return None
    found = _Drawn(generator).value(loads(container.read(RECORD), record=RECORD))
    inputs = found.get(method) if isinstance(found, dict) else None
    return tuple(inputs) if isinstance(inputs, list) else None


class _Drawn(Conversion):
    """Takes values out of their type tags, and draws tensors."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__(RECORD)
        self._generator = generator
        self._tensors = StoredTensors(RECORD)

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {key: self.value(item) for key, item in value.items()}

    def _reduce(self, value: Reduce) -> Any:
        if is_tensor(value):
            return self._tensor(value)
        match value.argument:
            case (list() | dict() as content, *_) if value.function.module == _JIT:
                return self.value(content)
        raise self.error(f"{value.function.qualified_name[:100]} is no example input")

    def _tensor(self, value: Reduce) -> torch.Tensor:
        stored = self._tensors.tensor(value)
        dtype = stored.view.storage.dtype if isinstance(stored, DenseTensor) else "quantized"
        found = getattr(torch, dtype, None)
        if not isinstance(stored, DenseTensor) or not isinstance(found, torch.dtype):
            raise UnsupportedError(f"a {dtype} tensor cannot be drawn", record=RECORD)
        if stored.view.elements * found.itemsize > _MOST_BYTES:
            raise UnsupportedError("an example input is too large", record=RECORD)
        return random_tensor(stored.view.size, found, self._generator)

    builders: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        dict: _dict, list: Conversion.list_of, tuple: Conversion.tuple_of, Reduce: _reduce,
    }  # fmt: skip


def random_tensor(
    size: Sequence[int], dtype: torch.dtype, generator: torch.Generator, most: int = _HIGH
) -> torch.Tensor:
    """Draw a tensor: normally distributed numbers, integers below ``most``, even odds for bool."""
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(size, dtype=wide, generator=generator).to(dtype)
    high = 2 if dtype is torch.bool else most
    return torch.randint(high, size, generator=generator).to(dtype)
