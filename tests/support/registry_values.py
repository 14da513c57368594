"""Arguments for operators, drawn by the types of their schemas.

Nothing is known of an operator but its schema, so many draws are refused; the names of arguments
help. Numbers at the edges of their types go only to operators of numbers alone: elsewhere they
are sizes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tsarchive.ir.types import DictType, ListType, OptionalType, TupleType, Type, annotation

SHAPES = (
    (2, 3), (2, 3), (3,), (3, 3), (1, 2, 3), (1, 2, 4, 4), (1, 1, 3, 4, 4), (), (0,), (2, 0),
    (4,), (1,),
)  # fmt: skip
DTYPES = (
    *[torch.float32] * 8, *[torch.int64] * 3, torch.bool, torch.float64, torch.complex64,
    torch.uint8, torch.bfloat16, torch.int32,
)  # fmt: skip
INTS = (0, 1, 2, 3, 4, -1, -2, 1, 2, 1)
FLOATS = (0.0, 0.5, 1.0, -1.5, 2.0, 1e-5)
EDGE_INTS = (2**63 - 1, -(2**63), 2**31, 2**53 + 1, 63, -7)
EDGE_FLOATS = (math.inf, -math.inf, math.nan, -0.0, 1e308, 1e-308, -1e20, 2.0**63)
STRINGS = ("", "a", "abc", "b", "é", "x y", "A1", "mean", "\n", "12", " 7 ", "{} {}", "%s")
PLAIN = frozenset({"int", "float", "bool", "complex", "number"})
# What arguments of these names take, whatever the operator.
BY_NAME: dict[str, tuple[Any, ...]] = {
    "approximate": ("none", "tanh"),
    "dilation": (1,),
    "dtype": (6, 7, 4, 11, 9, 3, 0, 5),
    "equation": ("i,i", "ij->ji", "i,j->ij", "ij,jk"),
    "groups": (1,),
    "indexing": ("ij", "xy"),
    "interpolation": ("linear", "lower"),
    "layout": (0,),
    "memory_format": (0, 1, 2),
    "mode": ("constant", "reflect", "replicate", "reduced", "complete", 0, 1),
    "norm": ("ortho", "fro", "nuc"),
    "normalization": ("ortho", "forward"),
    "out_dtype": (6, 7, 4),
    "padding": (0, 1),
    "quant_max": (255, 127),
    "quant_min": (0, -128),
    "reduce": ("sum", "mean", "amax", "amin", "prod"),
    "reduction": (0, 1, 2),
    "rounding_mode": ("floor", "trunc", "x"),
    "scale": (0.1, 0.5),
    "side": ("left", "right"),
    "stride": (1, 2),
    "UPLO": ("U", "L"),
    "zero_point": (0, 3),
}
_SPATIAL = frozenset({"stride", "dilation", "padding", "output_padding", "kernel_size"})
_SIZES = frozenset({"size", "shape", "output_size"})


class NoValuesError(Exception):
    """There are no values of a type here, such as process groups."""


class Draw:
    """The arguments of one call. The same seed gives equal arguments again."""

    def __init__(self, seed: str, types: Sequence[Type], namespace: str) -> None:
        self.random = random.Random(seed)
        self.shape = self.random.choice(SHAPES)
        self.dtype = self.random.choice(DTYPES)
        self.is_quantized = "quantized" in namespace
        self.is_plain = all(annotation(type_) in PLAIN for type_ in types)

    def argument(self, type_: Type, name: str) -> Any:
        if isinstance(type_, OptionalType):
            return None if self.random.random() < 0.4 else self.argument(type_.element, name)
        known = [v for v in BY_NAME.get(name, ()) if type(v).__name__ == annotation(type_)]
        if known and self.random.random() < 0.8:
            return self.random.choice(known)
        match type_:
            case ListType(element):
                return self._list(element, name)
            case TupleType():
                return tuple(self.argument(part, "") for part in type_.elements)
            case DictType(key, value):
                count = self.random.choice((0, 1, 2, 3))
                return {self.argument(key, ""): self.argument(value, "") for _ in range(count)}
        make = _SIMPLE.get(annotation(type_)) or _PACKED.get(annotation(type_))
        if make is None:
            raise NoValuesError(annotation(type_))
        return make(self)

    def _list(self, element: Type, name: str) -> list[Any]:
        kind = annotation(element)
        if kind == "int" and name in _SPATIAL and self.random.random() < 0.8:
            return [self.random.choice(BY_NAME.get(name, (1, 2)))] * max(1, len(self.shape) - 2)
        if kind == "int" and name in _SIZES and self.random.random() < 0.7:
            return [self.random.choice((1, 2, 3, 0)) for _ in range(self.random.choice((1, 2, 3)))]
        count = self.random.choice((1, 2, 2, 3) if kind == "Tensor" else (0, 1, 2, 2, 3))
        if kind == "number":
            numbers = self.random.choice((INTS, FLOATS))
            return [self.random.choice(numbers) for _ in range(count)]
        return [self.argument(element, "") for _ in range(count)]

    def tensor(self) -> torch.Tensor:
        if self.is_quantized and self.random.random() < 0.5:
            return self.quantized(*self.random.choice(((2, 3), (1, 2, 4, 4), (3,))))
        is_alike = self.random.random() < 0.8
        shape = self.shape if is_alike else self.random.choice(SHAPES)
        dtype = self.dtype if is_alike else self.random.choice(DTYPES)
        made = self._values(shape, dtype)
        if dtype.is_floating_point and made.numel() and self.random.random() < 0.1:
            made.view(-1)[0] = self.random.choice((math.nan, math.inf, -0.0))
        if made.dim() == 2 and self.random.random() < 0.1:
            made = made.t().contiguous().t()
        if dtype.is_floating_point and self.random.random() < 0.05:
            made.requires_grad_()
        return made

    def _values(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        generator = self.generator()
        if dtype == torch.bool:
            return torch.rand(shape, generator=generator) > 0.5
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape, generator=generator).to(dtype)
        return torch.randint(0, 4, shape, generator=generator).to(dtype)

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.random.randrange(2**31))

    def quantized(self, *shape: int, dtype: torch.dtype = torch.qint8) -> torch.Tensor:
        return torch.quantize_per_tensor(
            torch.rand(shape, generator=self.generator()), 0.1, 0, dtype
        )

    def int(self) -> int:
        is_edge = self.is_plain and self.random.random() < 0.25
        return self.random.choice(EDGE_INTS if is_edge else INTS)

    def float(self) -> float:
        is_edge = self.random.random() < (0.3 if self.is_plain else 0.05)
        return self.random.choice(EDGE_FLOATS if is_edge else FLOATS)

    def complex(self) -> complex:
        return complex(self.random.choice(FLOATS), self.random.choice(FLOATS))

    def number(self) -> Any:
        return self.random.choice((*INTS, *FLOATS, 1 + 2j))

    def linear_weights(self) -> Any:
        bias = torch.rand(2, generator=self.generator())
        if self.random.random() < 0.7:
            return torch.ops.quantized.linear_prepack(self.quantized(2, 3), bias)
        weight = torch.rand(2, 3, generator=self.generator())
        return torch.ops.quantized.linear_prepack_fp16(weight, bias)

    def convolution_weights(self, dimensions: int) -> Any:
        prepack = getattr(torch.ops.quantized, f"conv{dimensions}d_prepack")
        weight = self.quantized(2, 2, *[1] * dimensions)
        return prepack(weight, None, [1] * dimensions, [0] * dimensions, [1] * dimensions, 1)

    def embedding_weights(self) -> Any:
        weight = torch.rand(3, 8, generator=self.generator())
        scales = torch.rand(3, generator=self.generator())
        packed = torch.quantize_per_channel(weight, scales, torch.zeros(3), 0, torch.quint8)
        return torch.ops.quantized.embedding_bag_prepack(packed)


_SIMPLE: dict[str, Callable[[Draw], Any]] = {
    "Tensor": Draw.tensor,
    "int": Draw.int,
    "float": Draw.float,
    "complex": Draw.complex,
    "number": Draw.number,
    "Generator": Draw.generator,
    "bool": lambda draw: draw.random.random() < 0.5,
    "str": lambda draw: draw.random.choice(STRINGS),
    "Device": lambda draw: torch.device(draw.random.choice(("cpu", "cpu", "cpu", "meta"))),
    "Any": lambda draw: draw.random.choice((1, 2.5, "a", True, [1, 2], torch.ones(2))),
}
_CLASSES = "__torch__.torch.classes.quantized"
_PACKED: dict[str, Callable[[Draw], Any]] = {
    f"{_CLASSES}.LinearPackedParamsBase": Draw.linear_weights,
    f"{_CLASSES}.Conv2dPackedParamsBase": lambda draw: draw.convolution_weights(2),
    f"{_CLASSES}.Conv3dPackedParamsBase": lambda draw: draw.convolution_weights(3),
    f"{_CLASSES}.EmbeddingPackedParamsBase": Draw.embedding_weights,
}
