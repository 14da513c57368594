"""Where torch has several threads, which the rest of the suite does without."""

from __future__ import annotations

import torch
from torch import nn

from tests.support.archives import loaded, torch_loaded, torch_saved
from tests.support.comparing import equal
from tests.support.processes import torch_output_of


class Wide(nn.Module):
    """Operators that share their work among threads, on tensors that are large enough for it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.linear = nn.Linear(254, 300)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.linear(self.layers(x))
        return x.softmax(3).sum(2), (x * x + torch.sin(x)).mean() / x.std()


def print_whether_equal() -> None:
    """What the test below reads from a process of its own, whose threads end with it."""
    torch.set_num_threads(2)
    module, x = Wide().eval(), torch.randn(2, 3, 256, 256)
    for made in (torch.jit.script(module), torch.jit.trace(module, x)):
        data = torch_saved(made)
        ours, theirs = loaded(data), torch_loaded(data)
        for _ in range(3):
            print(torch.get_num_threads(), equal(ours(x), theirs(x)))


def test_results_are_those_of_torch():
    code = f"from {__name__} import print_whether_equal; print_whether_equal()"
    assert torch_output_of("-W", "ignore", "-c", code).splitlines() == ["2 True"] * 6
