"""Networks of torch.nn, scripted and traced."""

from __future__ import annotations

import pytest
import torch

from fixtures.modules import all_cases

NETWORKS = {
    "lstm": (lambda: torch.nn.LSTM(3, 4, 2, bidirectional=True), [(5, 2, 3)]),
    "gru": (lambda: torch.nn.GRU(3, 4), [(5, 2, 3)]),
    "attention": (lambda: torch.nn.MultiheadAttention(8, 2), [(5, 2, 8), (5, 2, 8), (5, 2, 8)]),
    "encoder": (
        lambda: torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16), 2),
        [(5, 2, 8)],
    ),
    "transformer": (lambda: torch.nn.Transformer(8, 2, 1, 1, 16), [(5, 2, 8), (5, 2, 8)]),
    "convolution": (
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, padding="same", padding_mode="reflect"),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU6(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Dropout(0.3),
        ),
        [(1, 3, 8, 8)],
    ),
}


def build(name: str, kind: str) -> tuple[torch.jit.ScriptModule, tuple[torch.Tensor, ...]]:
    """A network and inputs for it; ``kind`` is "script" or "trace"."""
    make, shapes = NETWORKS[name]
    network = make().eval()
    inputs = tuple(torch.randn(shape) for shape in shapes)
    if kind == "trace":
        return torch.jit.trace(network, inputs), inputs
    return torch.jit.script(network), inputs


def each_network(test):
    """Run a test with the names and kinds of all networks."""
    test = pytest.mark.parametrize("name", NETWORKS)(test)
    test = pytest.mark.parametrize("kind", ["script", "trace"])(test)
    for warning in ("enable_nested_tensor", "was found in ScriptModule constants"):
        test = pytest.mark.filterwarnings(f"ignore:.*{warning}.*:UserWarning")(test)
    return test


def tensor_cases():
    """Fixture modules whose first call takes tensors and gives one."""
    for case in all_cases():
        if case.inputs and all(isinstance(value, torch.Tensor) for value in case.inputs[0]):
            yield case
