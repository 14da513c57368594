"""Corner-case arguments of operators: mostly valid ones, with a few that are not."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from tests.support.registry_values import BY_NAME, Draw, NoValuesError
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import DictType, ListType, OptionalType, TupleType, Type, annotation

__all__ = ["Arguments", "NoValuesError", "tensors_in"]

_KEPT: Final = 24
_LARGEST: Final = 1 << 16  # maximum elements of a tensor that is passed to later calls
_SHAPES: Final = (
    (), (0,), (1,), (2,), (3,), (17,), (2, 3), (3, 3), (0, 3), (2, 0), (1, 1), (4, 4), (5, 33),
    (3, 1, 2), (2, 0, 3), (2, 3, 3), (1, 2, 4, 4), (2, 1, 5, 3), (1, 1, 3, 4, 4), (0, 2, 4, 4),
    (1, 1, 1, 1, 1, 1),
)  # fmt: skip
_DTYPES: Final = (
    torch.float32, torch.float32, torch.int64, torch.int64, torch.float64, torch.int32,
    torch.uint8, torch.int8, torch.int16, torch.bool, torch.float16, torch.bfloat16,
    torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32,
)  # fmt: skip
_SMALL: Final = (0, 1, 2, 3, -1, 4, 5, -2, 7, 8, 16, 33)
_WIDE: Final = (
    100, 127, 128, 255, 256, -128, -129, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, -(2**31),
    2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, 2**61, 10**6,
)  # fmt: skip
_FLOATS: Final = (
    0.0, -0.0, 1.0, 0.5, -1.0, 2.0, 1e-30, 1e30, 1e300, -1e300, math.nan, math.inf, -math.inf,
    2.0**31, 2.0**63, -(2.0**63), 1e-310, 255.5,
)  # fmt: skip
_STRINGS: Final = ("", "x", "sum", "mean", "prod", "amax", "amin", "nearest", "bilinear", "ij,jk")
_QUANTIZED: Final = (torch.qint8, torch.quint8, torch.qint32)


class Arguments:
    """Arguments for the calls of one stretch; results are passed to later calls."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.kept: deque[Tensor] = deque(maxlen=_KEPT)

    def draw(self, schema: FunctionSchema, types: Sequence[Type]) -> list[Any]:
        """Draw valid arguments of one call, then replace some of them."""
        sound = Draw(str(self.random.random()), types, schema.name.partition("::")[0])
        given = [
            sound.argument(type_, argument.name)
            for type_, argument in zip(types, schema.arguments, strict=True)
        ]
        for _ in range(self.random.choice((0, 1, 1, 2, 3)) if given else 0):
            at = self.random.randrange(len(given))
            given[at] = self._corner(types[at], schema.arguments[at].name)
        return given

    def keep(self, values: Any) -> None:
        """Keep the tensors of a result for later calls."""
        for tensor in tensors_in(values):
            if tensor.is_sparse or tensor.numel() <= _LARGEST:
                self.kept.append(tensor)

    def _corner(self, type_: Type, name: str) -> Any:
        match type_:
            case OptionalType(element):
                return None if self._luck(0.3) else self._corner(element, name)
            case ListType(element):
                count = self.random.choice((0, 1, 2, 2, 3, 3, 4, 5, 6))
                return [self._corner(element, name) for _ in range(count)]
            case TupleType():
                return tuple(self._corner(part, name) for part in type_.elements)
            case DictType(key, value):
                return {self._corner(key, ""): self._corner(value, "")}
        known = [v for v in BY_NAME.get(name, ()) if type(v).__name__ == annotation(type_)]
        if known and self._luck(0.4):
            return self.random.choice(known)
        make = _CORNERS.get(annotation(type_))
        if make is None:
            return Draw(str(self.random.random()), [type_], "quantized").argument(type_, name)
        return make(self)

    def _luck(self, chance: float) -> bool:
        return self.random.random() < chance

    def _int(self) -> int:
        return self.random.choice(_SMALL if self._luck(0.7) else _WIDE)

    def _float(self) -> float:
        return self.random.choice(_FLOATS)

    def _number(self) -> Any:
        return self.random.choice((self._int(), self._int(), self._float(), True, 1 + 2j))

    def _tensor(self) -> Tensor:
        if self.kept and self._luck(0.5):
            return self.random.choice(self.kept)
        made = self._dense()
        for change in self.random.choice(_CHANGES):
            try:
                made = change(self, made)
            except (RuntimeError, NotImplementedError, IndexError, ValueError):
                break
        return made

    def _dense(self) -> Tensor:
        shape = self.random.choice(_SHAPES)
        count = math.prod(shape)
        kind = self.random.choice((self._few, self._few, self._int, self._float))
        numbers = torch.tensor([kind() for _ in range(min(count, 64))] or [0.0])
        dense = numbers.repeat(count // numbers.numel() + 1)[:count].reshape(shape)
        return dense.to(self.random.choice(_DTYPES)).clone()

    def _few(self) -> int:
        return self.random.choice((0, 1, 2, 3, 1, 0))

    def _viewed(self, made: Tensor) -> Tensor:
        kind = self.random.randrange(6)
        if kind == 0:
            return made.transpose(0, -1)
        if kind == 1:
            return made.unsqueeze(0).expand(3, *made.shape)
        if kind == 2:
            size = [self.random.choice((1, 2, 3)) for _ in range(self.random.choice((1, 2, 4)))]
            return made.as_strided(size, [self.random.choice((0, 1)) for _ in size])
        if kind == 3:
            return made[..., 1:]
        if kind == 4:
            return made[..., ::2]
        return made.to(memory_format=torch.channels_last)

    def _sparse(self, made: Tensor) -> Tensor:
        kind = self.random.randrange(6)
        if kind == 0:
            return made.to_sparse()
        if kind == 1:
            return made.to_sparse(self.random.choice((0, 1, 2)))
        if kind == 2:
            both = made.to_sparse()
            return torch.cat([both, both])  # not coalesced
        if kind == 3:
            return made.to_sparse_bsr((1, 1)) if self._luck(0.5) else made.to_sparse_bsc((2, 3))
        return made.to_sparse_csr() if kind == 4 else made.to_sparse_csc()

    def _quantized(self, made: Tensor) -> Tensor:
        made, dtype = made.float(), self.random.choice(_QUANTIZED)
        if self._luck(0.5):
            return torch.quantize_per_tensor(made, 0.1, 0, dtype)
        axis = self.random.randrange(max(made.dim(), 1))
        scales = torch.full((made.size(axis),), 0.1)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        return torch.quantize_per_channel(made, scales, zeros, axis, dtype)

    def _lazy(self, made: Tensor) -> Tensor:
        return made.conj() if self._luck(0.5) else made.conj().imag

    def _meta(self, made: Tensor) -> Tensor:
        return made.to("meta")

    def _trained(self, made: Tensor) -> Tensor:
        return made.requires_grad_()


_Change = Callable[[Arguments, Tensor], Tensor]
_CHANGES: Final[tuple[tuple[_Change, ...], ...]] = (
    *[()] * 6,
    *[(Arguments._viewed,)] * 4,
    (Arguments._viewed, Arguments._viewed),
    *[(Arguments._sparse,)] * 3,
    *[(Arguments._quantized,)] * 2,
    (Arguments._quantized, Arguments._viewed),
    (Arguments._lazy,),
    (Arguments._meta,),
    (Arguments._trained,),
    (Arguments._trained, Arguments._viewed),
)
_CORNERS: Final[dict[str, Callable[[Arguments], Any]]] = {
    "Tensor": Arguments._tensor,
    "int": Arguments._int,
    "float": Arguments._float,
    "number": Arguments._number,
    "bool": lambda arguments: arguments._luck(0.5),
    "complex": lambda arguments: complex(arguments._float(), arguments._float()),
    "str": lambda arguments: arguments.random.choice(_STRINGS),
    "Device": lambda arguments: torch.device(arguments.random.choice(("cpu", "cpu", "meta"))),
    "Generator": lambda _: torch.Generator(),
}


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors of a value, alone or in lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return tensors_in(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
