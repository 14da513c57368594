"""Operators that only traces record, in programs that executorch lowers."""

import importlib.util
import io

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.functional import interpolate

import tsarchive
from tests.support.archives import TORCH
from tsarchive.lowering import with_core_operators

ATEN = torch.ops.aten
IMAGE = torch.linspace(-1, 1, 2 * 4 * 6 * 6).view(2, 4, 6, 6)
ROWS = IMAGE[:, :, 0].clone()


class Of(nn.Module):
    """A module that is a function; its argument has a name that Python has a meaning for."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, input):
        return self.function(input)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.plain, lambda x: self.plain(-x), (x,))

    def plain(self, x):
        weight, bias = self.conv.weight.detach(), self.conv.bias.detach()
        numbers = [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True, True
        return ATEN._convolution.default(x, weight, bias, *numbers).sum()


TRACED = {
    "one dimension": (nn.Conv1d(4, 3, 3), ROWS),
    "same padding": (nn.Conv2d(4, 4, 3, padding="same", bias=False), IMAGE),
    "transposed": (nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1), IMAGE),
    "nearest, size": (Of(lambda x: interpolate(x, size=(5, 9))), IMAGE),
    "nearest, scale": (Of(lambda x: interpolate(x, scale_factor=1.7)), IMAGE),
    "nearest, one dimension": (Of(lambda x: interpolate(x, size=5)), ROWS),
}


def program_of(name):
    module, given = TRACED[name]
    stream = io.BytesIO()
    tsarchive.save(torch.jit.trace(module.eval(), (given,)), stream)
    stream.seek(0)
    return tsarchive.to_exported_program(tsarchive.load(stream), (given,)), given


def targets(program):
    modules = program.graph_module.modules()
    graphs = (module for module in modules if isinstance(module, torch.fx.GraphModule))
    return [node.target for graph in graphs for node in graph.graph.nodes]


@pytest.mark.parametrize("name", TRACED)
def test_results_stay(name):
    program, given = program_of(name)
    before = targets(program)
    core = with_core_operators(program)
    assert targets(program) == before
    assert not {ATEN._convolution.default, ATEN.upsample_nearest2d.default} & set(targets(core))
    assert torch.equal(core.module()(given), program.module()(given))


@pytest.mark.skipif(TORCH < (2, 13), reason="torch 2.12 and older do not export such a branch")
def test_branches_are_looked_into():
    program = torch.export.export(Branches().eval(), (IMAGE,))
    assert ATEN._convolution.default in targets(program)
    core = with_core_operators(program)
    assert ATEN._convolution.default not in targets(core)
    for given in (IMAGE.abs(), -IMAGE.abs()):
        assert torch.equal(core.module()(given), program.module()(given))


def test_open_sizes():
    given = torch.export.export(
        Of(lambda x: ATEN.upsample_nearest2d.default(x, [7, 7])), (IMAGE,),
        dynamic_shapes=({2: Dim("h", min=2, max=9)},),
    )  # fmt: skip
    core = with_core_operators(given)
    assert torch.equal(core.module()(IMAGE[:, :, :4]), given.module()(IMAGE[:, :, :4]))


@pytest.mark.parametrize(("size", "scale", "is_kept"), [(10, 1.7, False), (9, 1.7, True)])
def test_scales_that_give_other_sizes_are_not_lost(size, scale, is_kept):
    """They say where pixels are read: the core operator takes sizes or scales."""
    called = Of(lambda x: ATEN.upsample_nearest2d.default(x, [size, size], scale, scale))
    program = torch.export.export(called, (IMAGE,))
    core = with_core_operators(program)
    assert (core is program) is is_kept
    assert torch.equal(core.module()(IMAGE), program.module()(IMAGE))


def test_programs_without_them_are_left_alone():
    program = torch.export.export(nn.Conv1d(4, 3, 3), (ROWS,))
    assert with_core_operators(program) is program


@pytest.mark.sample(1, gaps="lowering takes a second, and other tests have each operator")
@pytest.mark.skipif(not importlib.util.find_spec("executorch"), reason="executorch is missing")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRACED)
def test_traces_become_programs(name, tmp_path):
    program, given = program_of(name)
    done = tsarchive.convert(program, tmp_path / "x.pte")
    assert [found.ok for found in done.agreements] == [True]
    torch.testing.assert_close(tsarchive.load(tmp_path / "x.pte")(given), program.module()(given))
