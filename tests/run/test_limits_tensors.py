"""What tensors cost: counted before memory is taken, without changing any result."""

from __future__ import annotations

import pytest
import torch

from tests.support.archives import case_archive, loaded
from tests.support.comparing import equal
from tests.support.running import function_saved, is_same, outcome
from tsarchive import LimitError, Limits

GENEROUS = Limits(steps=10**9, seconds=3600, nbytes=10**11)
X = torch.arange(1000.0)
N = 10**12

# Each takes terabytes. ``n`` is 10**12, ``m`` 10**9 and ``k`` 10**6, of which torch folds none.
HUGE = (
    "torch.zeros([m, m])", "torch.ones([n])", "torch.full([n], 1.5)", "torch.rand([n])",
    "torch.randint(0, 10, [n])", "torch.randperm(n)", "torch.arange(n)",
    "torch.linspace(0, 1, n)", "torch.eye(k)", "torch.tril_indices(k, k)",
    "torch.hann_window(n)", "torch.empty([n])", "torch.normal(0.0, 1.0, [n])",
    "x.new_zeros([n])", "x.repeat(m)", "x.tile([m])", "x.repeat_interleave(m)",
    "x.expand(m, 1000).contiguous()", "x.expand(m, 1000).clone()", "x.expand(m, 1000) + 1",
    "x.expand(m, 1000).reshape(-1)", "x.expand(m, 1000).double()", "x.expand(m, 1000).sum()",
    "torch.zeros_like(x.expand(m, 1000))", "x.as_strided([k, k], [0, 0]).clone()",
    "torch.nn.functional.one_hot(x.long(), n)",
    "torch.nn.functional.one_hot(torch.full([10], n).long())",
    "torch.nn.functional.pad(x, [0, n])",
    "torch.nn.functional.interpolate(x.view(1, 1, 10, 100), [k, k])",
    "torch.nn.functional.conv1d(x.view(1, 1, 1000), x.view(1, 1, 1000), None, 1, m)",
    "torch.kron(x, x.expand(k, 1000))", "torch.outer(x.repeat(1000), x.repeat(1000))",
    "torch.cartesian_prod([x, x, x])", "torch.combinations(x, 4)",
    "torch.einsum('i,j->ij', [x.repeat(1000), x.repeat(1000)])",
    "torch.mm(x.view(-1, 1).repeat(1000, 1), x.view(1, -1).repeat(1, 1000))",
    "torch.repeat_interleave(torch.full([1], n).long())",
    "torch.bincount(torch.full([1], n).long())", "torch.bincount(x.long(), None, n)",
    "torch.histc(x.double(), n)", "torch.histogram(x, n)[0]",
    "torch.histogramdd(x.view(500, 2), [k, k])[0]",
    "torch.stack([x.expand(m, 1000), x.expand(m, 1000)])",
    "x[torch.zeros([1], dtype=torch.long).expand(n)]",
    "torch.gather(x, 0, torch.zeros([1], dtype=torch.long).expand(n))",
    "x.expand(m, 1000)[(x > 0).expand(m, 1000)]",
    "torch.masked_select(x.expand(m, 1000), x > 0)", "torch.nonzero(x.expand(m, 1000))",
    "torch._unique2(x.expand(m, 1000))[0]",
    "torch.sparse_coo_tensor(x[1:3].long().view(2, 1), x[:1], [k, k]).to_dense()",
    "torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).repeat(m).dequantize()",
    "torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).expand(m, 1000).dequantize()",
    "torch.diag_embed(x.repeat(1000))", "torch.fft.fft(x, n)",
    "torch.multinomial(x + 1, n, True)", "torch.vander(x, m)",
    "torch.range(0, m * 1000)", "torch.complex(x.expand(m, 1000), x.expand(m, 1000)).abs()",
)  # fmt: skip


@pytest.mark.parametrize("expression", HUGE)
def test_huge_tensors_are_not_made(expression):
    data = function_saved(f"return {expression}", "f(x: Tensor, n: int, m: int, k: int)")
    with pytest.raises(LimitError, match="bytes"):
        loaded(data, limits=Limits(nbytes=10**8))(X, N, 10**9, 10**6)


# What is taken, in bytes, for four floats.
COUNTED = {
    "view": ("x.t()[1:3].unsqueeze(0)", 0),
    "in place": ("x.add_(1)", 0),
    "one": ("x + 1", 16),
    "several": ("(x + 1) * 2 - x", 48),
    "given back": ("(x + 1).sum()", 20),
    "factory": ("torch.zeros([10])", 40 + 56 + 8),
    "dtype": ("x.double()", 32),
    "same dtype": ("x.float()", 0),
    "contiguous": ("x.contiguous()", 0),
    "cat": ("torch.cat([x, x])", 32 + 56 + 16),
    "mask": ("x[x > 1]", 4 + 8 + 56 + 8),
}


@pytest.mark.parametrize("name", COUNTED)
def test_bytes_are_counted_exactly(name):
    expression, size = COUNTED[name]
    data = function_saved(f"return {expression}")
    x = torch.arange(4.0)
    assert equal(loaded(data, limits=Limits(nbytes=size))(x.clone()), loaded(data)(x.clone()))
    if size:
        with pytest.raises(LimitError, match="bytes"):
            loaded(data, limits=Limits(nbytes=size - 1))(x.clone())


def test_parts_of_an_operator_are_counted():
    """Those of an operator that has no kernel of its own."""
    data = function_saved("return torch.cov(x)")
    assert loaded(data, limits=Limits(nbytes=100_000))(X).shape == ()
    with pytest.raises(LimitError):
        loaded(data, limits=Limits(nbytes=1000))(X)


def test_fixtures_give_the_same_with_limits(case):
    """Outputs to the bit, errors to the word, and gradients."""
    data = case_archive(case)
    plain, limited = loaded(data), loaded(data, limits=GENEROUS)
    calls = [("forward", case.inputs), *case.methods.items(), ("forward", case.failing)]
    for name, inputs in calls:
        for arguments in inputs:
            expected, found = (outcome(call_of(m, name), *arguments) for m in (plain, limited))
            assert is_same(expected, found), (arguments, expected[1], found[1])
            if expected[0] == "error":
                assert str(expected[1]) == str(found[1])
                assert type(expected[1]) is type(found[1])
            elif isinstance(expected[1], torch.Tensor) and expected[1].requires_grad:
                check_gradients(plain, limited, expected[1], found[1])


def call_of(module, name):
    return module if name == "forward" else getattr(module, name)


def check_gradients(plain, limited, expected, found):
    for result in (expected, found):
        (result.abs() if result.is_complex() else result).sum().backward()
    pairs = zip(plain.parameters(), limited.parameters(), strict=True)
    for one, other in pairs:
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.equal(one.grad, other.grad)


CONTEXTS = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_contexts_of_the_caller(context):
    data = function_saved(
        "y = torch.mm(x, x.t())\nreturn torch.dropout(y + torch.rand_like(y), 0.5, True)"
    )
    results = []
    for limits in (None, GENEROUS):
        torch.manual_seed(0)
        with context():
            results.append(loaded(data, limits=limits)(torch.rand(8, 8)))
    assert equal(*results)


def test_transforms_of_the_caller():
    data = function_saved("return (torch.sin(x) * x).sum()")
    x = torch.rand(5, 3)
    plain, limited = loaded(data), loaded(data, limits=GENEROUS)
    for transform in (torch.func.grad, torch.func.vmap):
        assert equal(transform(plain)(x), transform(limited)(x))


def test_backward_inside_the_archive():
    data = function_saved("y = (x * x).sum()\ny.backward()\nreturn y")
    gradients = []
    for limits in (None, GENEROUS):
        x = torch.ones(3, requires_grad=True)
        loaded(data, limits=limits)(x)
        gradients.append(x.grad)
    assert equal(*gradients)
