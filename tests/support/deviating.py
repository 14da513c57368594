"""Modules with names and types that torch does not read back, or shows to Python in part."""

import enum
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Shift(nn.Module):
    def __init__(self, by: float):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(by))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


class Children(nn.Module):
    def __init__(self, *names: str):
        super().__init__()
        self.parts = nn.ModuleDict({name: Shift(float(n)) for n, name in enumerate(names)})

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts.values():
            x = part(x) * 2
        return x


class Data(nn.Module):
    """A parameter, a buffer and an attribute whose names begin with ``name``."""

    def __init__(self, name: str, read: bool = False):
        super().__init__()
        self.register_parameter(name, nn.Parameter(torch.ones(2)))
        self._buffers[f"{name}_"] = torch.zeros(2)
        setattr(self, f"{name}__", 3)

    def forward(self):
        return 1


class ReadsReturn(nn.Module):
    def __init__(self):
        super().__init__()
        setattr(self, "a\rb", 3)

    def forward(self):
        return getattr(self, "a\rb")


class ChildNamed(nn.Module):
    def __init__(self, name: str):
        super().__init__()
        self.add_module(name, Shift(2.0))

    def forward(self):
        return 1


class AssignsKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.NoneType = 1

    def forward(self):
        self.NoneType = 2
        return self.NoneType


class AssignsAccent(nn.Module):
    def __init__(self):
        super().__init__()
        self.é = 1

    def forward(self):
        self.é = 2
        return self.é


class ConstantNamed(nn.Module):
    def __init__(self, name: str):
        super().__init__()
        self.__constants__ = [name]
        setattr(self, name, 3)

    def forward(self):
        return 1


class MethodKeyword(nn.Module):
    def forward(self, x: int = 2):
        return self.NoneType(x)

    def NoneType(self, x: int):
        return x + 1


class MethodAccent(nn.Module):
    def forward(self, x: int = 2):
        return self.é(x)

    def é(self, x: int):
        return x + 1


def größe(x: int):
    if x > 5:
        raise ValueError("too large")
    return x + 1


class FunctionAccent(nn.Module):
    def forward(self, x: int = 2):
        return größe(x)


class Member(enum.Enum):
    A = 1
    Ü = 2


class MemberAccent(nn.Module):
    def forward(self, x: int = 2):
        found = Member.A if x > 3 else Member.Ü
        return found.value


class PropertyAccent(nn.Module):
    @property
    def ä(self) -> int:
        return 3

    def forward(self):
        return self.ä


class Ünit(nn.Module):
    def forward(self, x: int = 2):
        return x


class Holder(nn.Module):
    def __init__(self, child: nn.Module):
        super().__init__()
        self.child = child

    def forward(self, x: Tensor):
        return self.child(x)


def of_module(path: str) -> nn.Module:
    """A module with a child whose class belongs to the Python module ``path``."""
    return Holder(type("Somewhere", (nn.Tanh,), {"__module__": path})())


class Total:
    __module__ = "my-model"

    def __init__(self, start: int):
        self.value = start


class MakesTotal(nn.Module):
    def forward(self, x: int = 1):
        return Total(x).value


class OddParameters(nn.Module):
    def forward(self, NoneType: int, é: int):
        return NoneType + é * 2


class HidesTorch(nn.Module):
    def forward(self, torch: Tensor, x: Tensor):
        return torch + x


class HidesRange(nn.Module):
    def forward(self, values: list[int]):
        range = values[0] * 2
        for value in values:
            range = range + value
        return range


class HidesAnnotate(nn.Module):
    def forward(self, x: int):
        annotate = x * 2
        empty: list[int] = []
        empty.append(annotate + annotate)
        return empty, annotate


class LateRange(nn.Module):
    def forward(self, values: list[int]):
        total = 0
        for value in values:
            total += value
        range = total * 2
        return range + range


def annotate(x: int) -> list[int]:
    found: list[int] = []
    for _ in [1, 2]:
        found.append(x)
    return found


class CallsAnnotate(nn.Module):
    def forward(self, x: int = 2):
        return annotate(x)


class NumbersOrText(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept: int | float | complex | str = "kept"

    def forward(self, x: int | float | complex | str):
        both: dict[str, int | float | complex | Tensor] = {}
        if isinstance(x, str):
            return x, both
        return self.kept, both


class UnitedByUnion(nn.Module):
    def forward(self, x: Tensor) -> tuple[int | str, int | str]:
        if bool(x.sum() > 0):
            a: int | str = 1
            b: int | str = "b"
        else:
            a = "a"
            b = 2
        return a, b


class KeywordOnlyLast(nn.Module):
    def scaled(self, x: Tensor, by: int = 2, *, scale: float) -> Tensor:
        return x * by * scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scaled(x, scale=0.5)


class Pair(NamedTuple):
    left: int
    right: int


class MaybePair(nn.Module):
    def __init__(self, factor: int):
        super().__init__()
        self.factor = factor

    def forward(self, x: int):
        found: Pair | None = None
        if x > 0:
            found = Pair(x, x * self.factor)
        if found is not None:
            return found.right
        return 0


class Point:
    def __init__(self, x: int):
        self.x = x


class MaybePoint(nn.Module):
    def forward(self, x: int):
        found: Point | None = None
        if x > 0:
            found = Point(x)
        if found is not None:
            return found.x
        return 0


class Both(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, x: int):
        return self.first(x), self.second(x)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.tensor([2.0, 3.0])

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(1, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x))


class Clipped(Convolution):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.hardtanh(self.layer(x), -0.5, 0.5)


class TwoElementTypes(nn.Module):
    """Two buffers of different element types over the same bytes."""

    def __init__(self) -> None:
        super().__init__()
        floats = torch.tensor([1.0, 2.0])
        self.register_buffer("floats", floats)
        self.register_buffer("bits", floats.view(torch.int32))

    def forward(self) -> tuple[Tensor, Tensor]:
        return self.floats, self.bits


class Shrunk(nn.Module):
    """A buffer whose storage was taken away, as sharded training does."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.ones(3))
        self.held.untyped_storage().resize_(0)

    def forward(self) -> int:
        return self.held.numel()


class Marker:
    pass


class MaybeMarker(nn.Module):
    def forward(self, x: Marker | None = None):
        return x is None


class Empty(NamedTuple):
    pass


class MaybeNothing(nn.Module):
    def forward(self, x: Empty | None = None):
        return x is None


@torch.jit.interface
class Anything(nn.Module):
    pass


class Held(nn.Module):
    """Of its own: torch compiles no method of what such an interface holds, wherever it is used."""

    def forward(self):
        return 2


class HoldsAnything(nn.Module):
    held: Anything

    def __init__(self) -> None:
        super().__init__()
        self.held = Held()

    def forward(self):
        return 1


class Known:
    def __init__(self, value: int):
        self.value = value


class HoldsKnown(torch.nn.Module):
    several: list[Known]

    def __init__(self):
        super().__init__()
        self.several = [Known(1)]

    def forward(self):
        return self.several[0].value
