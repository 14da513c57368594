"""Where torch's executor takes a tensor for its sum with the int 0 or its product with the int 1.

A bool tensor shows it: such arithmetic would make it a tensor of ints.
"""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.support.archives import torch_loaded, torch_saved
from tests.support.comparing import equal
from tests.support.running import check_same, hand_written, method, outcome

HELPERS = (
    method("return torch.gt(x, 0)", "mask(self, x: Tensor) -> Tensor")
    + method("return (x, y)", "both(self, x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]")
    + method(
        "_0 = torch.logical_not_(y)\nreturn torch.add(x, 1)",
        "writes(self, x: Tensor, y: Tensor) -> Tensor",
    )
    + method("return torch.mul(torch.mul(x, 1), y)", "uses(self, x: Tensor, y: Tensor) -> Tensor")
)
# ``y`` is a bool tensor that the code makes; ``self.flags`` and ``x`` are known outside.
BODIES = {
    "a product": "return torch.mul(y, 1)",
    "a sum": "return torch.add(y, 0)",
    "a difference": "return torch.sub(y, 0)",
    "a weighted sum": "return torch.add(y, 0, alpha=2)",
    "a product with two": "return torch.mul(y, 2)",
    "a product with a float": "return torch.mul(y, 1.)",
    "a product with a bool": "return torch.mul(y, True)",
    "a product with a number that is computed": "return torch.mul(y, torch.dim(x))",
    "a chain": "return torch.add(torch.mul(y, 1), 0)",
    "both are returned": "return (y, torch.mul(y, 1))",
    "two of one": "return [torch.mul(y, 1), torch.add(y, 0)]",
    "one after the other": "z = torch.mul(y, 1)\nreturn (z, torch.mul(z, 1))",
    "in a list": "return [torch.mul(y, 1)]",
    "in a dict": 'return {"a": torch.mul(y, 1)}',
    "in a branch": "if bool(torch.any(y)):\n  z = torch.mul(y, 1)\nelse:\n  z = y\nreturn z",
    "of a view": "return torch.mul(torch.view(y, [-1]), 1)",
    "views of one": "return (torch.select(y, 0, 0), torch.mul(torch.select(y, 0, 0), 1))",
    "stacked": "return torch.stack([torch.mul(y, 1)])",
    "the result changes": "z = torch.mul(y, 1)\n_0 = torch.add_(z, 1)\nreturn z",
    "the operand changes":
        "z = torch.mul(y, 1)\n_0 = torch.logical_not_(y)\nreturn (torch.any(y), z)",
    "a view changes":
        "z = torch.mul(y, 1)\n_0 = torch.logical_not_(torch.view(z, [-1]))\nreturn z",
    "a buffer": "return torch.mul(self.flags, 1)",
    "a buffer used inside": "return ops.prim.dtype(torch.mul(self.flags, 1))",
    "a buffer is set": "self.flags = y\nreturn torch.mul(y, 1)",
    "an argument": "return torch.mul(x, 1)",
    "an argument used inside": "return torch.sum(torch.mul(x, 1))",
    "the result of a call": "return torch.mul((self).mask(x), 1)",
    "given to a call": "return (self).both(x, torch.mul(y, 1))",
    "given to a call that uses it": "return (self).uses(y, x)",
    "given to a call that changes it": "z = torch.mul(y, 1)\n_0 = (self).writes(x, z)\nreturn z",
    "of a future":
        "def __forked_function():\n  return torch.gt(x, 0)\n_0 = fork(__forked_function)\n"
        "return torch.mul(torch.wait(_0), 1)",
    "printed": "z = torch.mul(y, 1)\nprint(z)\nreturn z",
    "inverted": "return torch.bitwise_not(torch.mul(y, 1))",
    "with itself": "z = torch.mul(y, 1)\nreturn torch.mul(z, z)",
}  # fmt: skip


class Template(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("flags", torch.tensor([True, False]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.flags


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_which_results_are_their_operand(body, capfd):
    text = method(f"y = torch.gt(x, 0)\n{body}", "forward(self, x: Tensor)") + HELPERS
    data = hand_written(text, torch.jit.script(Template()))
    theirs, mine = torch.jit.load(io.BytesIO(data)), tsarchive.load(io.BytesIO(data))
    expected, printed = outcome(theirs, torch.tensor([1.0, -2.0])), capfd.readouterr().out
    found = outcome(mine, torch.tensor([1.0, -2.0]))
    assert found[0] == expected[0] == "result", (expected[1], found[1])
    assert equal(expected[1], found[1]), (expected[1], found[1])
    assert capfd.readouterr().out == printed


class Traced(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = (x > 0) * 1
        return mask * ((x < 1) * 1), (x > 0) + torch.tensor(0)


def test_constants_of_traces_count():
    module = torch.jit.trace(Traced(), torch.ones(2), check_trace=False)
    data = torch_saved(module)
    check_same(torch_loaded(data), tsarchive.load(io.BytesIO(data)), torch.tensor([1.0, -2.0]))
    assert tsarchive.load(io.BytesIO(data))(torch.ones(2))[0].dtype == torch.bool
