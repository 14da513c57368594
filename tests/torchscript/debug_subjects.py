"""Modules whose source ranges are hard to tell: torch's own source has to be read to see why."""

import dataclasses
import enum
import importlib
from typing import NamedTuple

import torch
from torch import Tensor, nn

# A function of the same name hides it.
quantize_jit = importlib.import_module("torch.ao.quantization.quantize_jit")


class NumbersAtLineEnds(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1e9
        x = x + 1e5
        y = x * -1e9

        x = x - 1e-5
        z = x + 0xFFFF  # 1e5
        w = (x + 1e8
             )  # fmt: skip
        for _ in range(int(1e1)):
            x = x + 1e1

        while bool(x.sum() < 1e5):
            x = x * 1e0
            # a comment

        return x + y + z + w + 1e7


class Chains(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = (
            x.view(-1, (3))
            .unsqueeze(0)
            .transpose(0, -2)
            .contiguous()
        )  # fmt: skip
        z = x.view(
            -1,
        ).unsqueeze(0) \
            .transpose(0, 1)  # fmt: skip
        return y.sum() + z.sum().to(
            torch.float32
        )  # fmt: skip


class Subscripts(nn.Module):
    def forward(self, x: Tensor, sizes: dict[str, int], steps: list[int]) -> Tensor:
        z = x.sum()
        if (z > 3
                and z < 1e2
        ):  # fmt: skip
            z = z + steps[
                0
            ] + sizes["a b"
            ]  # fmt: skip
        return z + x[
            0, :, 1:2,
        ][..., None
        ] * (1 if sizes["a"] > 3 else
             2)  # fmt: skip


class Strings(nn.Module):
    def forward(self, x: Tensor) -> str:
        s = "é" "ü\n\t"  "a string of several parts, 漢字"  # fmt: skip
        t = s + "\x41\u00e9" \
            "abc"  # fmt: skip
        u = f"{x.size(0)} {s} {t}"
        v = f"""{x.size(0)}
 {s}
   """ + "{}".format(
            "abc")  # fmt: skip
        assert len(s) > 0, "a message that is long " \
                           "and split"  # fmt: skip
        if len(s) > 100:
            raise ValueError(
                "abc"
                "def")  # fmt: skip
        return u + v


class RaisesInBoth(nn.Module):
    def forward(self, x: Tensor, a: int) -> Tensor:
        if a > 1:
            raise ValueError("bad")
        else:
            raise RuntimeError("worse %d" % a)  # noqa: UP031


class RaisesAtLast(nn.Module):
    def forward(self, x: Tensor, a: int):
        x = x + a
        raise NotImplementedError


class RaisesInOne(nn.Module):
    def forward(self, x: Tensor, a: int) -> tuple[Tensor, int, str]:
        if a == 1:
            y, k, s = x, 1, "a"
        elif a == 2:
            raise RuntimeError("two")
        else:
            raise RuntimeError("not one")
        return y, k, s


class Unused(nn.Module):
    def forward(self, x: Tensor, flag: bool) -> Tensor:
        if flag:
            return self.python(x, [1])[0]
        return self.more(x)

    @torch.jit.unused
    def python(self, x: Tensor, k: list[int]) -> tuple[Tensor, int]:
        return x, len(k)

    @torch.jit.unused
    def more(self, x):
        # type: (Tensor) -> Tensor
        return x


@torch.jit.script
class WithUnusedMethods:
    def __init__(self, a: int):
        self.a = a

    @torch.jit.unused
    def first(self, x: Tensor,
              y: int) -> Tensor:  # fmt: skip
        return x

    @torch.jit.unused
    def second(self):
        # type: () -> int
        return 3

    def used(self) -> int:
        return self.a


class UsesUnusedMethods(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + WithUnusedMethods(2).used()


def scaled(
    x: Tensor, name: str = "a", other: Tensor | None = None, flag: bool = True, by: float = 1.0,
    again: str = "a", times: int = 2,
) -> Tensor:  # fmt: skip
    return x


class Forks(nn.Module):
    def __init__(self):
        super().__init__()
        self.name = "a"
        self.steps = [1, 2]
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor, s: str) -> Tensor:
        if s == "a":
            x = x.sum(0, True)
        a = torch.jit.fork(scaled, x, "a", None, True, 2.0)
        b = torch.jit.fork(scaled, x, "b", x, False)
        c = torch.jit.fork(scaled, x * 2 + x[0], s + "q", None, s == "a", by=x.size(0) * 2.0)
        d = torch.jit.fork(scaled, self.weight[0], self.name, None, len(self.steps) > 2)
        e = torch.jit.fork(scaled, x[0][1:], s[0], times=self.steps[0] if len(s) > 2 else 3)
        f = torch.jit.fork(scaled, -x, times=-1, by=-2.5)
        g = torch.jit.fork(self.of_containers, x, [1, 2, 3], (1, "a"), {"a": 2})
        if s == "b":
            x = x * 2.0
        total = x - 1
        for future in [a, b, c, d, e, f, g]:
            total = total + torch.jit.wait(future)
        return total

    def of_containers(
        self, x: Tensor, sizes: list[int], pair: tuple[int, str], named: dict[str, int]
    ) -> Tensor:
        return x


class ForksInLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        futures = torch.jit.annotate(list[torch.jit.Future[Tensor]], [])
        for i in range(3):
            futures.append(torch.jit.fork(scaled, x[i], times=x.size(0) * 2))
        total = torch.zeros(1)
        for future in futures:
            total += torch.jit.wait(future)
        return total + torch.jit.fork(scaled, (x + 1).view(-1)[0:3], times=2).wait()


class Awaitables(nn.Module):
    def forward(self, x: Tensor, s: str) -> Tensor:
        k = torch.jit._awaitable(scaled, x, "a", None, True, 2.0, "a")
        m = torch.jit._awaitable(scaled, x * 2, "a", x + 1)
        return torch.jit._awaitable_wait(k) + torch.jit._awaitable_wait(m)


class Nans(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.nan_to_num(x, float("nan")) + float("nan") + float("inf")
        return y + float("nan") + float("inf") + x * float("-inf")


class FoldedConstants(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b = torch.zeros(2, device="cpu", dtype=torch.float64)
        e = (1, 2.0, "a", None, True)
        f = 1 + 2j
        pairs = [(1, 2), (3, 4)]
        for m, n in pairs:
            x = x + m * n
        named = [(8, ""), (int(x.size(0)), "")]
        return x.to(torch.device("cpu")) + b + e[1] + f * 2j + len(named)


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Enums(nn.Module):
    def forward(self, x: Tensor, colour: Colour) -> tuple[Tensor, str, Colour]:
        if colour == Colour.RED or colour == Colour.GREEN:
            x = x + 1
        other = Colour.RED
        return x, colour.name + other.value, Colour.RED


@torch.jit.script
@dataclasses.dataclass
class Options:
    a: int
    b: float = 2.0
    c: int | None = None
    d: str = "x"
    e: int = 4

    def __post_init__(self):
        self.e = self.e + 1

    @property
    def twice(self) -> int:
        return self.a * 2


class UsesDataclass(nn.Module):
    def forward(self, x: Tensor, k: int) -> Tensor:
        options = Options(k)
        if options == Options(k, 3.0, 4, d="q"):
            x = x + 1
        return x * options.e + options.twice


class Pair(NamedTuple):
    a: Tensor
    b: int = 3


class BuiltinFunctions(nn.Module):
    """Calls functions that torch compiles from its own texts."""

    def forward(self, x: Tensor, c: complex, i: int, f: float, s: str, sizes: list[int]):
        properties = (x.shape, x.ndim, x.T, x.H, x.mT, x.mH)
        mixed = [
            c * x, c + x, c != x, c == x, c - x, c / x,
            i * x, i + x, i != x, i == x, i - x, i / x,
            f * x, f + x, f != x, f == x, f - x, f / x,
        ]  # fmt: skip
        compared = [i < x, i > x, i <= x, i >= x, f < x, f > x, f <= x, f >= x]
        divided = [x // i, x // f, x // x]
        assert "a" in s
        defaults = torch.nn.modules.utils._list_with_default(sizes, sizes)
        return properties, mixed, compared, divided, torch.device(s), x.type(6), defaults


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor, k: int = 3) -> Tensor:
        x = self.norm(self.convolution(x))
        if k > 2:
            x = x.view(-1, (2))
        for _ in range(k):
            x = x + 1
        return nn.functional.adaptive_avg_pool2d(x, 1) * 2


def frozen():
    return torch.jit.freeze(torch.jit.script(Small().eval()))


def frozen_trace():
    return torch.jit.freeze(torch.jit.trace(Small().eval(), torch.ones(1, 3, 8, 8)))


def defined():
    """Text without a file. Every line of it is shown around some node."""
    module = torch.jit.ScriptModule()
    module.define("""
def f(self, x):
    a = x + 1
    b = a * 2


    return b - 1

def forward(self, x):
    y = self.f(x)
    for i in range(3):
        y = y + i
    return y
""")
    return module


def symbolically_traced():
    """Text that torch.fx wrote; only linecache has it."""
    return torch.jit.script(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))


def quantized():
    layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    return torch.jit.script(torch.ao.quantization.quantize_dynamic(layers, {nn.Linear}))


def quantized_graph():
    """Operators that passes have put into a graph."""
    qconfig = {"": torch.ao.quantization.get_default_qconfig("qnnpack")}
    module = torch.jit.script(Small().eval().requires_grad_(False))
    prepared = quantize_jit.prepare_jit(module, qconfig)
    prepared(torch.ones(1, 3, 8, 8), 1)
    return quantize_jit.convert_jit(prepared)


SCRIPTED = (
    NumbersAtLineEnds, Chains, Subscripts, Strings, RaisesInBoth,
    RaisesAtLast, RaisesInOne, Unused, UsesUnusedMethods, Forks, ForksInLoop, Awaitables, Nans,
    FoldedConstants, Enums, UsesDataclass, BuiltinFunctions, Small,
)  # fmt: skip
MADE = (frozen, frozen_trace, defined, symbolically_traced, quantized, quantized_graph)
SUBJECTS = {
    **{made.__name__: lambda made=made: torch.jit.script(made()) for made in SCRIPTED},
    **{made.__name__: made for made in MADE},
}

# Whole files, since their line ends and blanks matter.
FILES = {
    "carriage_returns": b"""\
from torch import nn, Tensor\r
class Subject(nn.Module):\r
    def forward(self, x: Tensor) -> Tensor:\r
        y = x + 1  # c\r
        s = \"\"\"a\r
  b\"\"\"\r
\r
        return y * 1e9 + len(s)\r
""",
    "tabs": b"""\
from torch import nn, Tensor
class Subject(nn.Module):
\tdef forward(self, x: Tensor) -> Tensor:
\t\ty = x + 1
\t\tif x.sum() > 1:
\t\t\ty = (y *
\t\t\t\t1e9
\t\t\t)
\t\treturn y.view(-1, (2))\\
\t\t\t.sum()
""",
    "form_feeds": """\
from torch import nn, Tensor
class Subject(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
\x0c
        z = y + 2 # \x0b \u2028 \x85 x
        return y * z
""".encode(),
    "lines_that_look_like_marks": b'''\
from torch import Tensor, nn
class Subject(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        """
        Title
        ~~~~~
        """
        if x.sum() > 1:
            x = x + 2
            # Below
            """
            ~~~~~~~
            """
            x = x + 1
            """
            ~~~~~~~ <--- HERE
            """
        return x
        # a comment that belongs to the function
    # one that does not
''',
    "less_indented_lines": b'''\
from torch import Tensor, nn
class Subject(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        s = """
less
   text {}
"""
# a comment in the first column
        y = x + 1
        return y + len(s.format(3))
''',
    "no_line_end": b"""\
from torch import nn, Tensor
class Subject(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        return y * 2""",
    "nested": b"""\
from torch import nn, Tensor
def made():
    def inner(x: Tensor) -> Tensor:
        return x + 5
    class Made(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return inner(x) + 6
    return Made()
def unchanged(function):
    return function
class Base(nn.Module):
    @unchanged
    # between

    @unchanged
    def _steps(
        self, x: Tensor,
    ) -> Tensor:
        # first

        return (x +

           3

        )

        # last
    forward = _steps
    # outside
Subject = made
class Other(Base): pass
""",
}
