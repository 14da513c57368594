"""Sums of residual networks, which convolutions write over the term that nobody else reads."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

import tsarchive
from tsarchive.errors import PolicyError, ScriptError

from .test_optimize import check, done, needs_onednn, trained

pytestmark = needs_onednn


class Residual(nn.Module):
    """Two blocks; what else is read decides which of their sums stay."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.one, self.two = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.three, self.side = nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.Conv2d(4, 6, 1, 2)

    def forward(self, x):
        x = torch.relu(self.first(x))
        view = x[:, 1:]
        y = self.norm(self.two(torch.relu(self.one(x))))
        if self.way == "in place":
            y += x
            y = torch.relu_(y)
        elif self.way == "own input":
            y = y + torch.relu(self.one(x) + x)
        elif self.way == "spread":
            y = torch.relu(y + x.mean([2, 3], keepdim=True))
        elif self.way == "sigmoid":
            y = torch.sigmoid(x + y)
        else:
            y = torch.relu(y + x)
        z = torch.relu(self.three(y) + self.side(y))
        if self.way == "read later":
            return z, x
        if self.way == "view":
            return z, view
        return z, z


SUMS = {
    "plain": 2,
    "in place": 2,
    "sigmoid": 2,
    "own input": 1,
    "spread": 1,
    "read later": 1,
    "view": 1,
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("form", ["script", "trace"])
@pytest.mark.parametrize("way", SUMS)
def test_sums_are_written_over_a_term_that_nobody_reads(way, form, always_quicker, each_way_pays):
    x = torch.randn(2, 3, 8, 8)
    live = trained(Residual(way), 2, 3, 8, 8)
    module = torch.jit.script(live) if form == "script" else torch.jit.trace(live, x)
    optimized = tsarchive.optimize(module, args=x)
    assert done(optimized).get("sum in its layer", 0) == SUMS[way]
    turned = torch.randn(8, 8, 3, 2).permute(3, 2, 0, 1)
    check(
        module,
        optimized,
        (x,),
        (x,),
        (turned,),
        (torch.randn(1, 3, 8, 8),),
        (torch.randn(2, 3, 5, 9),),
    )


def calls():
    """Wrong arguments for a sum, by what is wrong with them."""
    return {
        "spread": "torch.slice(y, 2, 0, 1), x, p, None, [1, 1], [1, 1]",
        "more images": "torch.cat([y, y]), x, p, None, [1, 1], [1, 1]",
        "doubles": "torch.to(y, 7), x, p, None, [1, 1], [1, 1]",
        "own input": "x, x, p, None, [1, 1], [1, 1]",
        "plain weight": "y, x, w, None, [1, 1], [1, 1]",
        "other padding": "y, x, p, None, [0, 0], [1, 1]",
    }


@pytest.mark.parametrize("name", calls())
def test_sums_check_what_they_are_given(name):
    module = with_call(calls()[name], '"relu"')
    with pytest.raises(ScriptError, match="layer of oneDNN"):
        module(torch.randn(1, 3, 5, 5), torch.randn(1, 3, 5, 5), torch.randn(3, 3, 3, 3))


@pytest.mark.parametrize("attribute", ['"relu"', "None"])
def test_sums_as_torch_has_them(attribute):
    x, y, weight = torch.randn(1, 3, 5, 5), torch.randn(1, 3, 5, 5), torch.randn(3, 3, 3, 3)
    expected = torch.conv2d(x, weight, padding=1) + y
    if attribute != "None":
        expected = expected.relu()
    made = with_call("y, x, p, None, [1, 1], [1, 1]", attribute)(x, y, weight)
    torch.testing.assert_close(made, expected)
    assert made.data_ptr() == y.data_ptr()


def with_call(arguments, attribute):
    from tests.support.auditing import archive_with

    code = (
        "class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
        "  def forward(self: __torch__.Net,\n    x: Tensor,\n    y: Tensor,\n"
        "    w: Tensor) -> Tensor:\n"
        "    p = ops.mkldnn._reorder_convolution_weight(w, [1, 1], [1, 1], [1, 1], 1, None)\n"
        f"    return ops.mkldnn._convolution_pointwise_({arguments}, [1, 1], 1, "
        f'"add", None, {attribute}, annotate(List[Optional[number]], []), None)\n'
    )
    return tsarchive.load(io.BytesIO(archive_with(code)))


def test_sums_that_nothing_checks_are_refused():
    from tests.support.auditing import archive_with

    code = (
        "class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
        "  def forward(self: __torch__.Net,\n    x: Tensor,\n    w: Tensor) -> Tensor:\n"
        '    return ops.mkldnn._linear_pointwise(x, x, w, None, "add")\n'
    )
    module = tsarchive.load(io.BytesIO(archive_with(code)))
    with pytest.raises(PolicyError, match="mkldnn::_linear_pointwise"):
        module(torch.ones(2, 2), torch.ones(2, 2))
