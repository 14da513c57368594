"""Modules with values that torch saves in a form that it does not read back."""

import enum
import math
from typing import Final

import torch
from torch import nn


class WholeFloats(nn.Module):
    sizes: Final[tuple[float, int]]

    def __init__(self):
        super().__init__()
        self.sizes = (-1e10, 2)

    def forward(self, low: float = 1e10, high: float | None = 12345678901234567.0):
        by_name = {"a": 1e10, "b": 0.5}
        by_value = {1e16: "a"}
        return low, high, [1e15, 0.5], (1e12, 1), by_name, by_value, self.sizes


class WholeFloatAsScalar(nn.Module):
    def forward(self):
        return torch.full([2], 1e10)


class ZerosInTuple(nn.Module):
    def forward(self):
        return (0.0, -0.0)


class ZerosInConstant(nn.Module):
    zeros: Final[tuple[float, float]]

    def __init__(self):
        super().__init__()
        self.zeros = (-0.0, 0.0)

    def forward(self):
        return self.zeros


class ZerosInDefaults(nn.Module):
    def forward(self, low: float = -0.0, high: float = 0.0):
        return low, high


class CarriageReturns(nn.Module):
    ending: Final[str]

    def __init__(self):
        super().__init__()
        self.ending = "\r\n"

    def forward(self, sep: str = "\r"):
        if sep == "x\ry":
            raise ValueError("never \r")
        return sep, "a\r", ["\r", "b"], {"\rk": 1}, self.ending


class Quotes(enum.Enum):
    PLAIN = "a"
    DOUBLE = 'say "a"'
    BACKSLASH = "a\\nb"
    LINES = "a\nb"
    RETURN = "a\rb"
    ACCENT = "é"


class EnumStrings(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = Quotes.LINES

    def forward(self):
        values = [Quotes.DOUBLE.value, Quotes.BACKSLASH.value, Quotes.ACCENT.value]
        return values, self.kept.value, self.kept == Quotes.LINES, Quotes.RETURN


class Limit(enum.Enum):
    LOW = -math.inf
    HIGH = math.inf


class NoValue(enum.Enum):
    NONE = math.nan
    ONE = 1.0


class Nothing(enum.Enum):
    BELOW = -0.0
    ONE = 1.0


class EnumInfinity(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = Limit.LOW

    def forward(self):
        return self.kept.value, Limit.HIGH.value, Limit.HIGH


class EnumNan(nn.Module):
    def forward(self, x: int = 0):
        found = NoValue.NONE if x > 0 else NoValue.ONE
        return found.value


class EnumNegativeZero(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = Nothing.BELOW

    def forward(self):
        return self.kept.value, Nothing.ONE
