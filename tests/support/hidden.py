"""Modules of which Python is shown only a part once torch.jit.load has made them."""

import enum
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


def scaled(x: Tensor, by: float = 0.1, times: int = 2, name: str = "é\n'\"", more: bool = True):
    return x * by * times + len(name) if more else x


class Pair(NamedTuple):
    left: Tensor
    right: int


def swapped(pair: Pair, others: list[Pair] | None = None) -> tuple[int, Tensor]:
    if others is not None:
        return others[0].right, pair.left
    return pair.right, pair.left


class Shade(enum.Enum):
    DARK = "é"
    LIGHT = "x"
    UNUSED = "y"


def shade_of(x: Tensor, shade: Shade = Shade.DARK):
    return x + 1 if shade == Shade.DARK else x


@torch.jit.interface
class Area:
    def area(self) -> Tensor:
        pass

    def grown(self, by: float) -> Tensor:
        pass


@torch.jit.script
class Square:
    def __init__(self, side: Tensor):
        self.side = side
        self.names = ["a", "b"]

    def area(self) -> Tensor:
        return self.side * self.side

    def grown(self, by: float) -> Tensor:
        return self.side + by


@torch.jit.script
class Disc:
    def __init__(self, radius: Tensor, name: str):
        self.radius = radius
        self.name = name

    def area(self) -> Tensor:
        return self.radius * self.radius * 3

    def grown(self, by: float) -> Tensor:
        return self.radius * by + len(self.name)


def area_of(shape: Area) -> Tensor:
    return shape.area() + shape.grown(0.5)


def total(sizes: list[int] | int, more: list[int | str | None]) -> int:
    count = sizes if isinstance(sizes, int) else len(sizes)
    return count + len(more)


class CallsWithUnions(nn.Module):
    def forward(self, x: Tensor):
        more: list[int | str | None] = [1, "b", None]
        return x + total(3, more) + total([1, 2], more)


class Calls(nn.Module):
    """Functions with defaults, of which some stand before parameters that have none."""

    def forward(self, x: Tensor):
        pair = Pair(scaled(x), 3)
        return swapped(pair, [pair]), scaled(x, times=4), scaled(x, 2.0, more=False)


class HoldsShades(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = Shade.LIGHT
        self.several = [Shade.DARK, Shade.LIGHT]
        self.named = {"a": Shade.DARK}

    def forward(self, x: Tensor):
        return shade_of(x, self.one), shade_of(x, self.several[0]), shade_of(x)


class HoldsObjects(nn.Module):
    several: list[Square]
    named: dict[int, tuple[str, Square]]
    maybe: Square | None
    none: Square | None

    def __init__(self):
        super().__init__()
        square = Square(torch.arange(3.0))
        self.several = [square, Square(torch.ones(3)), square]
        self.named = {3: ("three", square)}
        self.maybe = square
        self.none = None

    def forward(self, x: Tensor):
        x = x + self.several[1].area() + self.named[3][1].area()
        if self.maybe is self.several[2]:
            x = x * 2
        return x


class HoldsAreas(nn.Module):
    area: Area
    same: Area
    several: list[Area]
    named: dict[str, Area]
    pair: tuple[int, Area]
    maybe: Area | None
    anything: Any

    def __init__(self):
        super().__init__()
        square, disc = Square(torch.arange(3.0)), Disc(torch.ones(3), "disc")
        self.area, self.same = square, square
        self.several = [square, disc, square]
        self.named = {"a": disc, "b": square}
        self.pair = (1, disc)
        self.maybe = disc
        self.anything = square

    def forward(self, x: Tensor):
        for one in self.several:
            x = x + one.area()
        for one in self.named.values():
            x = x + one.grown(0.5)
        if self.area is self.same:
            x = x + 100
        return x + self.pair[1].area()


class AreaOfParameter(nn.Module):
    """The interface is the type of a parameter alone."""

    def __init__(self):
        super().__init__()
        self.disc = Disc(torch.ones(3), "disc")

    def forward(self, x: Tensor):
        return x + area_of(self.disc)


@torch.jit.interface
class Layer(nn.Module):
    def one(self, x: Tensor, y: Tensor) -> Tensor:
        pass

    def forward(self, x: Tensor) -> Tensor:
        pass


class Adds(nn.Module):
    def one(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x, x)


class Multiplies(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.full((3,), 2.0))

    def one(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y * self.by

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x, x + 1)


class HasLayers(nn.Module):
    first: Layer
    second: Layer

    def __init__(self):
        super().__init__()
        self.first, self.second = Adds(), Multiplies()

    def forward(self, x: Tensor) -> Tensor:
        return self.first.forward(x) + self.second.one(x, x)


class ChangesLayer(nn.Module):
    layer: Layer

    def __init__(self):
        super().__init__()
        self.layer, self.other = Adds(), Multiplies()

    @torch.jit.export
    def change(self, layer: Layer) -> None:
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.forward(x)


class ChangesArea(nn.Module):
    area: Area

    def __init__(self):
        super().__init__()
        self.area, self.disc = Square(torch.ones(3)), Disc(torch.ones(3), "disc")

    def forward(self, x: Tensor) -> Tensor:
        self.area = self.disc
        return self.area.area() + x


class Wraps(nn.Module):
    def __init__(self, *inner: nn.Module):
        super().__init__()
        self.inner = nn.ModuleList(inner)

    def forward(self, x: Tensor):
        return scaled(x), self.inner[0](x)


class Other(nn.Module):
    def forward(self, x: Tensor):
        return scaled(x)
