"""Programs to convert: one row a construct, each a module and calls of it."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.utils import _pytree as pytree

OPEN = Dim.DYNAMIC


class Pair(NamedTuple):
    a: Any
    b: Any


class Registered:
    def __init__(self, x):
        self.x = x


if Pair not in pytree.SUPPORTED_NODES:
    pytree._register_namedtuple(Pair, serialized_type_name="converting.Pair")
    pytree.register_pytree_node(
        Registered,
        lambda value: ([value.x], None),
        lambda children, _: Registered(*children),
        flatten_with_keys_fn=lambda value: ([(pytree.GetAttrKey("x"), value.x)], None),
        serialized_type_name="converting.Registered",
    )


class Module(torch.nn.Module):
    """``call`` is its forward."""

    def __init__(self, prepare=None):
        super().__init__()
        if prepare is not None:
            prepare(self)


@dataclass(frozen=True)
class Row:
    """``more`` are arguments of other calls of a program that was exported with ``args``."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any
    more: tuple[tuple[Any, ...], ...]
    prepare: Callable[[torch.nn.Module], None] | None

    def module(self) -> torch.nn.Module:
        class Network(Module):
            forward = self.call

        torch.manual_seed(0)
        return Network(self.prepare)

    def exported(self) -> torch.export.ExportedProgram:
        return torch.export.export(
            self.module(), self.args, self.kwargs or None, dynamic_shapes=self.dynamic_shapes
        )


ROWS: dict[str, Row] = {}


def row(*args, kwargs=None, dynamic_shapes=None, more=(), prepare=None):
    def register(call):
        name = call.__name__.strip("_").replace("_", " ")
        ROWS[name] = Row(call, args, kwargs or {}, dynamic_shapes, tuple(more), prepare)
        return call

    return register


def x(*shape):
    return torch.randn(shape or (2,))


# Arguments


@row(x(), 3, 2.5, "mode", True, None)
def constants(self, x, i, f, s, b, n):
    return x * i + f


@row(x(), kwargs={"scale": x(), "float": x()})
def keywords(self, x, *, scale, float):
    return x * scale - float


@row(x(), x(), x(), x(), x())
def names_of_types(self, list, int, str, torch_, print):
    return list + int * 2 + str * 3 + torch_ * 4 + print * 5


@row(x(), x(), x(), x(), x())
def names_of_code(self, x, x_, ops, CONSTANTS, Tensor):
    return x + x_ * 2 + ops * 3 + CONSTANTS * 4 + Tensor * 5


@row([], {}, (), x())
def empty_containers(self, a, b, c, x):
    return x + 1


@row({1: x(), 2: x()}, {1.5: x()}, {True: x()})
def keys_of_other_types(self, a, b, c):
    return a[1] - a[2] + b[1.5] * c[True]


@row({"a": {"b": [x(), x()]}, "c": {"b": [x()]}})
def nested_dicts(self, d):
    return d["a"]["b"][1] - d["c"]["b"][0]


@row([(x(), 1), (x(), 2)], [(x(),), (x(), x())])
def tuples_in_lists(self, same, ragged):
    return same[0][0] + ragged[1][1]


@row(Pair(x(2), x(3)), Pair(x(2), (x(3), [x(1)])))
def named_tuples(self, one, two):
    return Pair(one.a + two.a, Pair(two.b[0], two.b[1][0] + one.b))


@row(collections.deque([x(), x()]), collections.OrderedDict(b=x(), a=x()))
def kinds_of_containers(self, d, o):
    return collections.OrderedDict(z=d[0] - o["b"], y=o["a"]), collections.deque([d[1]])


@row(collections.defaultdict(list, {"a": x()}))
def default_dict(self, d):
    return d["a"] + 1


@row([x(), None], [None, None], {"a": None, "b": x()}, [[x()], None], [None, x()])
def options(self, a, b, c, d, e):
    return a[0] + c["b"] + d[0][0] + e[1]


# Items of several types


@row([x(), 3, "a", None, 2.5, True], [True, 1])
def mixed_list(self, x, y):
    return x[0] * x[1] + x[4] + y[1]


@row({"a": x(), "b": 3, "c": "x"})
def mixed_dict(self, x):
    return x["a"] * x["b"]


@row([x(), [x(), x()], {"k": x()}, (x(), 1), (), [()]])
def containers_in_a_mixed_list(self, x):
    return x[0] + x[1][0] + x[2]["k"] + x[3][0] * x[3][1]


@row([x(), [x(), None], [None, x()], [None, None], {"a": None, "b": x()}, (x(), None)])
def options_in_a_mixed_list(self, x):
    return x[0] + x[1][0] + x[2][1] + x[4]["b"] + x[5][0]


@row([x(), Pair(x(), 1), [Pair(x(), 1), Pair(x(), 2)], [(x(), None), (x(), None)]])
def tuples_in_a_mixed_list(self, x):
    return x[0] + x[1].a + x[2][1].a * x[2][1].b + x[3][0][0]


@row([x(), {1: x()}, {1.5: x()}, {True: x()}, {"a": {"b": x()}}, [1, 2], ["a"], [1.5]])
def dicts_in_a_mixed_list(self, x):
    return x[0] + x[1][1] + x[4]["a"]["b"] + x[5][0]


# Results


@row(x())
def results(self, x):
    return x + 1, None, 3, "abc", 2.5, True, x, [x], [], {}, ()


@row(x())
def mixed_results(self, x):
    return [x + 1, 3, "abc", {"a": x, "b": 1}], {"a": [x + 1, 2], "b": (x, [x, None])}


@row(x())
def no_result(self, x):
    x.add_(1)


# Sizes


@row(x(4, 3), dynamic_shapes=({0: OPEN},), more=[(x(7, 3),), (x(2, 3),)])
def open_size(self, x):
    n = x.shape[0]
    return x.reshape(-1).view(n, 3).sum(0) * n, n * 2, n // 2 + 1, n / 3, x + n**2, n


@row([x(4, 3), x(4, 3)], dynamic_shapes=([{0: OPEN}, {0: OPEN}],), more=[([x(7, 3), x(7, 3)],)])
def equal_sizes(self, xs):
    return xs[0] + xs[1], [x.shape[0] for x in xs]


@row(x(4), 6, [6, 7], dynamic_shapes=(None, OPEN, [OPEN, OPEN]), more=[(x(4), 9, [9, 10])])
def numbers_as_arguments(self, x, n, m):
    return x.unsqueeze(0).expand(n, 4), n + 1, torch.zeros(m[0], m[1]) + x.sum()


@row(x(8, 3), dynamic_shapes=({0: OPEN},), more=[(x(12, 3),)])
def arithmetic(self, x):
    n = x.shape[0]
    return torch.zeros(n % 5 + 1), torch.zeros(max(n, 9)), torch.zeros(min(n, 9)), -n, n * 1.5


@row(x(4, 4), dynamic_shapes=({0: OPEN, 1: OPEN},), more=[(x(5, 6),)])
def strides(self, x):
    return x.stride(0), x.numel(), x.storage_offset(), x.t().stride(), x.shape


@row(torch.tensor([1, 0, 2]), more=[(torch.tensor([3, 4, 0]),)])
def sizes_of_values(self, x):
    n = x.sum().item()
    torch._check(n >= 0)
    torch._check(n < 100)
    return torch.zeros(n), x.nonzero(), x[x > 0], n


# State


def _state(self):
    self.register_buffer("count", torch.zeros(2))
    self.register_buffer("passing", torch.ones(2), persistent=False)
    self.plain = torch.arange(2.0)
    self.weight = torch.nn.Parameter(x())
    self.frozen = torch.nn.Parameter(x(), requires_grad=False)


@row(x(), prepare=_state)
def state(self, x):
    self.count.add_(1)
    self.passing.mul_(2)
    made = self.plain * self.weight + self.frozen + torch.tensor([1.0, 2.0])
    return x + self.count * self.passing + made


def _tied(self):
    self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    self.b.weight = self.a.weight
    self.register_buffer("part", self.a.weight.detach()[1:])
    self.c = self.a


@row(x(2, 3), prepare=_tied)
def tied(self, x):
    return self.b(self.a(x)) + self.c(x) + self.part.sum()


def _odd_names(self):
    for name in ("a-b", "a_b", "0", "forward_", "__x", "training_", "T", "shape", "é"):
        self.register_buffer(name, torch.full((2,), float(len(name))))
    self.add_module("weird name", torch.nn.Linear(2, 2))
    names = torch.nn.ModuleDict({"a b": torch.nn.Linear(2, 2), "None": torch.nn.Linear(2, 2)})
    self.add_module("list", names)


@row(x(2, 2), prepare=_odd_names)
def odd_names(self, x):
    for name, buffer in self.named_buffers():
        x = x + buffer * len(name)
    return self.list["a b"](x) + self.list["None"](getattr(self, "weird name")(x))


def _network(self):
    self.net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 2),
    )


@row(x(2, 3, 8, 8), prepare=_network)
def training(self, x):
    return self.net(x)


def _recurrent(self):
    self.lstm = torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)
    self.gru = torch.nn.GRU(3, 4)


@row(x(2, 5, 3), prepare=_recurrent)
def recurrent(self, x):
    return self.lstm(x), self.gru(x)


def _attention(self):
    self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    self.embedding = torch.nn.Embedding(10, 8)


@row(
    torch.randint(10, (2, 5)),
    prepare=_attention,
    dynamic_shapes=({0: OPEN, 1: OPEN},),
    more=[(torch.randint(10, (3, 4)),)],
)
def attention(self, i):
    x = self.embedding(i)
    return self.attention(x, x, x)


@row(x(4))
def changed_arguments(self, x):
    x.add_(1)
    x.mul_(2)
    return x.sum()


# Literals


@row(x())
def floats(self, x):
    inf, nan = float("inf"), float("nan")
    return x.clamp(-inf, 1e30), x * 1e-45, x.nan_to_num(nan), torch.full((2,), inf), x + 1e22


@row(x(2, 3, 4, 4))
def kinds_of_tensors(self, x):
    made = torch.zeros(2, dtype=torch.complex64), torch.ones(2, device="cpu"), x.long()
    return x.to(memory_format=torch.channels_last), x.to("cpu", torch.float64), made


@row(x(4, 4), x(4, 4))
def strings(self, x, y):
    gelu = torch.nn.functional.gelu(x, approximate="tanh")
    return torch.einsum("ij,jk->ik", x, y), gelu, torch.div(x, y, rounding_mode="floor")


@row(torch.randn(2, dtype=torch.complex64))
def complex_numbers(self, x):
    return x * (1 + 2j), torch.view_as_real(x), x.abs()


@row(x(6, 4), torch.tensor([0, 2]))
def indexing(self, x, i):
    y = x.clone()
    y[i] = 0
    y[:, i] += 1
    y[x > 0] = 2
    return y, x[i], x[..., 0], x[1:3, ::2], x[i, i], x.split([1, 2, 3]), x.unbind(), x.max(1)[0]


# Control flow


@row(x(), torch.tensor(True), more=[(x(), torch.tensor(False))])
def branches(self, x, c):
    one = torch.cond(c, lambda x: x + 1, lambda x: x * 2, (x,))
    two = torch.cond(x.sum() > 0, lambda x: (x.sin(), x + 1), lambda x: (x.cos(), -x), (x,))
    return one, two


@row(x(4), dynamic_shapes=({0: OPEN},), more=[(x(12),)])
def branches_by_size(self, x):
    return torch.cond(x.shape[0] > 8, lambda x: x[:4] + 1, lambda x: x[:4] * 2, (x,))


@row(x(3, 2), x(2))
def maps(self, x, y):
    return torch_map(lambda a, b: (a * b, a + 1), x, y)


@row(torch.tensor(3), x(), more=[(torch.tensor(0), x())])
def loops(self, n, x):
    return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (n, x))


@row(x(), x(3, 2))
def scans(self, initial, x):
    return scan(lambda c, a: (c + a, c * a), initial, x)


@row(torch.randn(2, requires_grad=True))
def gradients(self, x):
    with torch.no_grad():
        y = x * 2
    with torch.enable_grad():
        z = y + x
    return y, z * 3


@row(x(2, 2))
def autocast(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
    with torch.autocast("cpu", enabled=False):
        z = y.float() @ x
    return y, z


@row(x(3))
def assertions(self, x):
    torch._assert_async((x == x).all(), "finite")
    return x + 1


@row(x(3))
def random_numbers(self, x):
    return torch.rand(3) * x, torch.randn_like(x), torch.nn.functional.dropout(x, 0.5, True)
