"""Text of calls that is taken from earlier ones, and what is read or made once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.archives import CORPUS, loaded, torch_loaded, torch_saved
from tests.support.comparing import equal
from tests.support.networks import build, each_network
from tests.support.running import Graph, check_same, operator, our_module, ours, scripted, source
from tsarchive.ir.types import TENSOR
from tsarchive.run import codegen
from tsarchive.run.codegen import generate
from tsarchive.run.expressions import Expressions

PATHS = sorted((CORPUS / "torchscript").glob("*.pt*")) if CORPUS.is_dir() else []


def compare_texts(monkeypatch) -> list[str]:
    """Let each function be generated without patterns too; return the names of those."""
    compared: list[str] = []

    def both(function, linkage, *given):
        found = generate(function, linkage, *given)
        with monkeypatch.context() as changed:
            changed.setattr(Expressions, "_decided_by", lambda *_: None)
            plain = generate(function, linkage, *given)
        assert found.lines == plain.lines
        assert found.namespace.keys() == plain.namespace.keys()
        compared.append(function.qualified_name)
        return found

    monkeypatch.setattr(codegen, "generate", both)
    return compared


@pytest.mark.sample(3)
@each_network
def test_text_is_that_of_each_call_alone(monkeypatch, name, kind):
    compared = compare_texts(monkeypatch)
    script, inputs = build(name, kind)
    loaded(torch_saved(script))(*inputs)
    assert compared


@pytest.mark.skipif(not PATHS, reason="the corpus of real archives is not beside the repository")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.sample(3)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_text_is_that_of_each_call_alone_in_real_archives(monkeypatch, path):
    try:
        module = loaded(path.read_bytes(), map_location="cpu")
    except Exception as error:
        pytest.skip(f"it does not load: {error}")
    compared = compare_texts(monkeypatch)
    classes = type(module).tsarchive_classes
    for method in type(module).tsarchive_class.methods.values():
        try:
            classes.compiler.function(method).compile()
        except Exception:
            continue  # what is refused has no text
    if not compared:
        pytest.skip("no method of the root compiles")


CALLS = [
    ("torch.conv2d(x, w, None, [{0}, 1], [0, 0])", (1, 2, 1)),
    ("torch.add(x, {0})", (1, 1.0, -0.0, 0.0, 1)),
    ("torch.sum(x, [{0}])", (0, 1, 0)),
    ("torch.mul(x, torch.tensor({0}))", (2, 2.0, 2)),
    ("x.view([{0}, -1])", (1, 2, "n", 1)),
    ("torch.sum(x, [0], {0})", ("True", "False", "b")),
]


@pytest.mark.parametrize(("call", "values"), CALLS, ids=[call for call, _ in CALLS])
def test_calls_that_differ_in_constants(call, values):
    lines = "".join(f"  y{i} = {call.format(v)}\n" for i, v in enumerate(values))
    results = ", ".join(f"y{i}" for i in range(len(values)))
    text = f"def f(x: Tensor, w: Tensor, n: int, b: bool):\n{lines}  return {results}\n"
    function = scripted(text)
    x, w = torch.randn(1, 2, 6, 6), torch.randn(2, 2, 3, 3)
    for b in (True, False):
        check_same(function, ours(function), x, w, 2, b)


def test_tuples_of_bindings_are_made_once():
    function = scripted(
        "def f(x: Tensor):\n  y = torch.conv2d(x, x, None, [1, 1], [0, 1])\n"
        "  return torch.conv2d(y, x, None, [1, 1], [0, 1])\n"
    )
    x = torch.randn(1, 1, 1, 3)
    found = ours(function)
    assert source_of_function(function).count("ints") == 2
    check_same(function, found, x)


def source_of_function(function) -> str:
    from tsarchive.adopt.torch_jit import adopt_function

    return source(adopt_function(function))


def test_a_list_that_may_be_changed_is_made_each_time():
    function = scripted(
        "def f(x: Tensor, n: int):\n  sizes = [1, 1]\n  sizes.append(n)\n"
        "  return torch.sum(x, sizes), sizes\n"
    )
    for n in (0, 0):
        check_same(function, ours(function), torch.rand(2, 2), n)


SIZES = [
    ("y = x.t_()", 2),
    ("y = x.resize_([4])", 2),
    ("y = x.squeeze_(0)", 2),
    ("y = x.relu_()", 2),
    ("y = x.relu()", 1),
    ("y = x + 1", 1),
    ("x.set_(torch.ones([3, 3]))\n  y = x", 2),
]


@pytest.mark.parametrize(("between", "reads"), SIZES)
def test_sizes_are_read_again_where_they_may_differ(between, reads):
    text = f"def f(x: Tensor):\n  a = x.size(0)\n  {between}\n  return a, x.size(0), y\n"
    function = scripted(text)
    assert source_of_function(function).count("aten_size_int(") == reads
    check_same(function, ours(function), torch.rand(1, 4))


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.inner = nn.Linear(2, 2)

    def step(self) -> int:
        self.count += 1
        return self.count

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, int, int]:
        before = self.count
        self.step()
        between = self.count
        self.count = between + 5
        for _ in range(2):
            self.count += self.count
        return self.inner(x) + self.inner.weight, before, between, self.count


def test_attributes_are_read_again_where_they_may_differ():
    script = torch.jit.script(Counted())
    found, theirs = our_module(script), torch_loaded(torch_saved(script))
    x = torch.rand(2, 2)
    for _ in range(2):
        assert equal(found(x), theirs(x))


def test_a_hook_that_replaces_a_parameter_is_seen():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2, bias=False)
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x * self.scale) * self.scale

    found = our_module(torch.jit.script(Twice()))

    def replace(*_):
        found.scale = nn.Parameter(torch.full((1,), 3.0))

    handle = found.inner.register_forward_hook(replace)
    x = torch.ones(1, 2)
    result = found(x)
    handle.remove()
    assert torch.equal(result, found.inner(x) * 3)


def test_a_variable_that_two_results_share_is_no_loops_own():
    function = scripted(
        "def f(x: Tensor, n: int):\n  a = x.size(0)\n  b = x.size(0)\n"
        "  for i in range(n):\n    a = a + i\n  return a, b\n"
    )
    for n in (0, 3):
        check_same(function, ours(function), torch.rand(4), n)


def test_percent_signs_and_braces_stay():
    function = scripted(
        "def f(x: Tensor):\n  return torch.add(x, 1), '{} %s %d %%'.format(x.dim()), '%s{}'\n"
    )
    check_same(function, ours(function), torch.rand(1))


def test_a_result_does_not_take_the_variable_of_another():
    graph = Graph()
    x = graph.param(TENSOR, "x")
    first = operator(graph.block, "aten::relu", x)
    second = operator(graph.block, "aten::neg", x)
    third = operator(graph.block, "aten::mul.Tensor", first, second)
    text = source(graph.function(third))
    assert text.splitlines()[1:] == [
        "    relu = aten_relu(x)",
        "    x = aten_neg(x)",
        "    relu = aten_mul_Tensor(relu, x); del x",
        "    return relu",
    ]
