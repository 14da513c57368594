"""Modules of torch.nn, scripted and traced, come back as what they are; what differs stays."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.support.archives import loaded, saved
from tsarchive.ir.names import unmangled
from tsarchive.library import arguments, outcomes, proof, recovered

torch.manual_seed(0)  # of inputs and of the weights of modules
X = torch.rand(2, 4, 9, 9)
ROW = torch.rand(2, 4)
STEPS = torch.rand(3, 2, 4)
WORDS = torch.tensor([[1, 0, 3], [2, 2, 1]])

# What traced code tells: its inputs do not decide over training, and it has no sizes of the trace.
BOTH: Final = [
    (nn.Linear(4, 3), ROW),
    (nn.Linear(4, 3, bias=False), ROW),
    (nn.Conv1d(4, 6, 3, padding="same"), X[:, :, 0]),
    (nn.Conv2d(4, 6, 3, stride=2, groups=2), X),
    (nn.Conv2d(4, 6, (3, 5), padding=1, dilation=(1, 2), bias=False), X),
    (nn.Conv3d(4, 2, 2), torch.rand(1, 4, 5, 5, 5)),
    (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), X),
    (nn.Bilinear(4, 4, 3), (ROW, ROW)),
    (nn.Embedding(10, 3), WORDS),
    (nn.Embedding(10, 3, padding_idx=2), WORDS),
    (nn.EmbeddingBag(10, 3), WORDS),
    (nn.LayerNorm(9), X),
    (nn.LayerNorm((9, 9), eps=1e-3), X),
    (nn.GroupNorm(2, 4), X),
    (nn.ReLU(), X),
    (nn.ReLU(inplace=True), X),
    (nn.ReLU6(), X),
    (nn.GELU(), X),
    (nn.GELU("tanh"), X),
    (nn.LeakyReLU(0.2), X),
    (nn.Hardtanh(-2.0, 3.0), X),
    (nn.Softplus(2.0, 3.0), X),
    (nn.Threshold(0.1, 20.0), X),
    (nn.Sigmoid(), X),
    (nn.Softmax(1), X),
    (nn.GLU(), ROW),
    (nn.PReLU(), X),
    (nn.MaxPool2d(2), X),
    (nn.MaxPool2d(3, 2, 1), X),
    (nn.AvgPool2d(2), X),
    (nn.AdaptiveAvgPool2d(1), X),
    (nn.AdaptiveAvgPool2d(3), X),
    (nn.Flatten(), X),
    (nn.Unflatten(1, (2, 2)), X),
    (nn.PixelShuffle(2), X),
    (nn.ReflectionPad2d(2), X),
    (nn.ConstantPad1d(1, 2.5), X[0]),
    (nn.Unfold(2), X),
    (nn.Identity(), X),
    (nn.CosineSimilarity(), (ROW, ROW)),
    (nn.MSELoss(), (ROW, ROW)),
    (nn.CrossEntropyLoss(), (ROW, torch.tensor([1, 0]))),
    (nn.BCELoss(), (ROW, ROW)),
    (nn.TripletMarginLoss(), (ROW, ROW, ROW)),
]
SCRIPTED: Final = [
    nn.Conv2d(4, 6, (3, 5), padding=1, padding_mode="reflect"),
    nn.Conv3d(1, 16, 7, 2, 3, bias=False),  # oneDNN has no gradient of these weights
    nn.BatchNorm1d(4), nn.BatchNorm2d(4, momentum=0.3), nn.InstanceNorm2d(4, affine=True),
    nn.Dropout(0.3), nn.Dropout2d(), nn.AlphaDropout(), nn.RReLU(), nn.LocalResponseNorm(2),
    nn.Upsample(scale_factor=2), nn.LSTM(4, 5, 2, batch_first=True, dropout=0.2),
    nn.GRU(4, 5, bidirectional=True), nn.RNN(4, 5, nonlinearity="relu"),
    nn.LSTMCell(4, 5), nn.GRUCell(4, 5), nn.MultiheadAttention(8, 2),
    nn.MultiheadAttention(64, 8, batch_first=True),
    nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True),
    nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
    nn.TransformerDecoderLayer(8, 2, 16), nn.TransformerDecoderLayer(32, 4, 64),
]  # fmt: skip


def rebuilt(module: Any) -> nn.Module:
    """The object that what was found makes."""
    found = recovered(module)
    assert found is not None, outcomes(module)[0].reason
    assert found.qualified_name.startswith("torch.nn.")
    return getattr(nn, found.qualified_name.rpartition(".")[2])(*found.positional, **found.keywords)


@pytest.mark.parametrize(
    "module", [*(row[0] for row in BOTH), *SCRIPTED], ids=lambda module: str(module)[:40]
)
def test_scripted_modules_come_back(module):
    made = rebuilt(loaded(saved(torch.jit.script(module))))
    assert type(made) is type(module)
    assert repr(made) == repr(module)
    assert made.state_dict().keys() == module.state_dict().keys()


@pytest.mark.parametrize(("module", "inputs"), BOTH, ids=lambda value: str(value)[:40])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_traced_modules_come_back(module, inputs):
    traced = torch.jit.trace(module, inputs, check_trace=False)
    made = rebuilt(loaded(saved(traced)))
    assert type(made) is type(module)
    assert repr(made) == repr(module)


def reason(module: Any) -> str:
    (row,) = outcomes(module)
    assert row.recovered is None
    assert recovered(module) is None
    return row.reason


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (nn.Dropout(0.5), "in training it does something else"),
        (nn.BatchNorm1d(4), "in training it does something else"),
        (nn.BatchNorm2d(4), "in training it does something else"),
    ],
)
def test_what_was_traced_in_evaluation_does_not_come_back(module, why):
    inputs = X[:, :, 0] if isinstance(module, nn.BatchNorm1d) else X
    traced = torch.jit.trace(module.eval(), inputs)
    assert why in reason(loaded(saved(traced)))


class Shifted(nn.Linear):
    """Has the name and the attributes of a class of torch, and gives other results."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight, self.bias) + 1e-3


class ShiftedForNone(nn.Linear):
    """Gives other results only where there is no sample."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        found = F.linear(input, self.weight, self.bias)
        return found if len(input) else found.sum()


class OtherInTraining(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        found = F.linear(input, self.weight, self.bias)
        return found * 2 if self.training else found


class OtherGradient(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight.detach(), self.bias)


class WithRandomNumber(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight, self.bias) + torch.rand(1) * 0


class WithMethod(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight, self.bias)

    @torch.jit.export
    def doubled(self, input: torch.Tensor) -> torch.Tensor:
        return self.forward(input) * 2


class WithAttribute(nn.Linear):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.scale = 2.0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight * (self.scale / 2.0), self.bias)


class GivingTwo(nn.Linear):
    def forward(self, input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = F.linear(input, self.weight, self.bias)
        return found, found


class Clamped(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight, self.bias).clamp(-1e4, 1e4)


class WithoutNan(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        found = F.linear(input, self.weight, self.bias)
        return torch.where(found.isnan(), torch.zeros_like(found), found)


class OtherForMany(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight, None if input.size(0) > 300 else self.bias)


class TakesDoubles(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input.to(torch.float32), self.weight, self.bias)


class Printing(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        print("linear")
        return F.linear(input, self.weight, self.bias)


class EndingTraining(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self.training = False
        return F.linear(input, self.weight, self.bias)


class DecidingByValues(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        is_rare = input.dim() > 0 and 0.5 < float(input.sum()) < 0.50001
        return F.linear(input, self.weight, None if is_rare else self.bias)


class Contiguous(nn.GELU):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.gelu(input, approximate=self.approximate).contiguous()


class ContiguousImages(nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._conv_forward(input.contiguous(), self.weight, self.bias)


ARGUMENTS: Final = {nn.Linear: (4, 3), nn.GELU: (), nn.Conv2d: (4, 4, 3)}


@pytest.mark.parametrize(
    ("class_", "why"),
    [
        (Shifted, "in training it does something else"),
        (ShiftedForNone, "it does something else with inputs of sizes [[0"),
        (OtherInTraining, "in training it does something else"),
        (OtherGradient, "in training it does something else"),
        (WithRandomNumber, "it does something else"),
        (GivingTwo, "it gives another number of tensors than its class for"),
        (Clamped, "it does something else"),
        (WithoutNan, "it does something else"),
        (OtherForMany, "it does something else with inputs of sizes [[301, 4]]"),
        (TakesDoubles, "its class refuses"),
        (Printing, "its code prints"),
        (EndingTraining, "its code sets 'training'"),
        (DecidingByValues, "its code decides by the values of a tensor"),
        (Contiguous, "it does something else"),
        (ContiguousImages, "it does something else"),
        (WithMethod, "Linear has no method 'doubled'"),
        (WithAttribute, "Linear has no attribute 'scale'"),
    ],
)
def test_a_name_alone_makes_no_module_of_torch(class_, why):
    base = class_.__base__
    named = type(base.__name__, (class_,), {"__module__": base.__module__})
    module = loaded(saved(torch.jit.script(named(*ARGUMENTS[base]))))
    name = unmangled(module.tsarchive_class.qualified_name)
    assert name == f"__torch__.{base.__module__}.{base.__name__}"
    assert why in reason(module)


class OtherForFive(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        found = F.linear(input, self.weight, self.bias)
        return found + 1 if self.weight.size(0) == 5 else found


def test_code_that_is_proven_is_compared_with_other_sizes_all_the_same():
    named = type("Linear", (OtherForFive,), {"__module__": nn.Linear.__module__})
    layers = nn.Sequential(named(4, 3), named(3, 6), named(6, 5))
    rows = {row.path: row for row in outcomes(loaded(saved(torch.jit.script(layers))))}
    assert [rows[path].recovered.positional for path in ("0", "1")] == [(4, 3), (3, 6)]
    assert "in training it does something else" in rows["2"].reason


def test_a_proof_has_a_limit(monkeypatch):
    monkeypatch.setattr(proof, "_MOST_WORK", 0)
    module = loaded(saved(torch.jit.script(nn.Linear(4, 3))))
    assert reason(module) == "the proof reached a limit"


def test_a_search_for_arguments_has_a_limit(monkeypatch):
    monkeypatch.setattr(arguments, "_MOST_CALLS", 0)
    module = loaded(saved(torch.jit.script(nn.Linear(4, 3))))
    assert "the proof reached a limit: the search for its arguments is long" in reason(module)


def test_flags_come_back_as_flags():
    traced = torch.jit.trace(nn.Conv2d(4, 6, 3, bias=False), X)
    assert recovered(loaded(saved(traced))).keywords == {"bias": False}


def test_modules_with_hooks_stay():
    linear = nn.Linear(4, 3)

    def double(self: nn.Linear, input: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        return output * 2

    linear.register_forward_hook(double)
    module = loaded(saved(torch.jit.script(linear)))
    assert reason(module) == "the archive has hooks for it"


def test_looking_changes_nothing():
    module = loaded(saved(torch.jit.script(nn.BatchNorm2d(4)))).eval()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state = torch.get_rng_state()
    assert recovered(module) is not None
    assert torch.equal(torch.get_rng_state(), state)
    assert not module.training
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
