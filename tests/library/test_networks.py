"""Loaded networks whose leaves are modules of torch.nn."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tests.support.archives import ARCHIVES, CORPUS, FIXTURES, loaded, saved
from tests.support.comparing import equal
from tests.support.corpus_inputs import arguments_for, call
from tsarchive.errors import ArchiveError, CallError, SaveError
from tsarchive.library import outcomes

import tsarchive  # isort: skip

# Large layers take seconds each: their sizes change nothing in how they are compared.
SMALL = 1 << 19
PATHS = (
    [p for p in sorted((CORPUS / "torchscript").glob("*")) if p.stat().st_size < SMALL][::5]
    if CORPUS.is_dir()
    else []
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(8, 5)
        self.tied = nn.Linear(8, 5)
        self.tied.weight = self.head.weight
        self.drop = nn.Dropout(0.2)
        self.head.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return self.drop(self.head(y) + self.tied(y))


X = torch.rand(4, 3, 9, 9, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def data() -> bytes:
    torch.manual_seed(0)
    return saved(torch.jit.script(Net()))


@pytest.fixture
def net(data) -> Any:
    return loaded(data, modules="torch")


def seeded(module: Any, *arguments: Any) -> Any:
    torch.manual_seed(5)
    return module(*arguments)


def test_results_are_the_same(data, net):
    plain = loaded(data)
    for is_training in (True, False):
        plain.train(is_training)
        net.train(is_training)
        assert torch.equal(seeded(net, X), seeded(plain, X))
    assert equal(dict(net.state_dict()), dict(plain.state_dict()))


def test_leaves_are_of_torch(net):
    types = [type(module) for module in net.body.children()]
    assert types == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.AdaptiveAvgPool2d, nn.Flatten]
    assert type(net.head) is nn.Linear
    assert net.head.weight is net.tied.weight
    assert not net.head.bias.requires_grad


def test_outcomes_name_each_module(data):
    rows = {row.path: row for row in outcomes(loaded(data))}
    assert rows["head"].recovered.positional == (8, 5)
    assert rows["body.0"].recovered.qualified_name == "torch.nn.Conv2d"
    assert "of no library" in rows[""].reason
    assert rows[""].original_name == "Net"


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_linear_layers_are_quantized(net):
    net.eval()
    quantized = torch.ao.quantization.quantize_dynamic(net, {nn.Linear})
    assert type(quantized.head) is torch.ao.nn.quantized.dynamic.Linear
    result, expected = quantized(X), net(X)
    assert not torch.equal(result, expected)
    assert torch.allclose(result, expected, atol=0.1)


def test_weights_are_pruned(net):
    net.eval()
    before = net(X)
    prune.l1_unstructured(net.head, "weight", amount=0.9)
    assert not torch.equal(net(X), before)
    prune.remove(net.head, "weight")
    assert (net.head.weight == 0).float().mean() == 0.9


def test_hooks_and_wrappers_take_effect(net):
    class Adapted(nn.Module):
        def __init__(self, inner: nn.Linear) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + 1

    net.eval()
    before = net(X)
    met = []
    net.head.register_forward_hook(lambda *_: met.append("head"))
    net.head = Adapted(net.head)
    assert torch.allclose(net(X), before + 1)
    assert met == ["head"]


def test_parametrizations_take_effect(net):
    class Doubled(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight * 2

    net.eval()
    plain = copy.deepcopy(net)
    nn.utils.parametrize.register_parametrization(net.tied, "weight", Doubled())
    with torch.no_grad():
        plain.tied.weight = nn.Parameter(plain.tied.weight * 2)
    assert torch.equal(net(X), plain(X))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies(net, copied):
    other = copied(net.eval())
    assert type(other.head) is nn.Linear
    assert other.head.weight is other.tied.weight is not net.head.weight
    assert torch.equal(other(X), net(X))


def test_saving_is_refused(net, tmp_path):
    with pytest.raises(SaveError, match="Conv2d"):
        tsarchive.save(net, tmp_path / "net.pt")


def test_large_weights_are_written_to_by_no_comparison():
    table = nn.Embedding(1100, 1000, max_norm=1.0)
    before = table.weight.detach().clone()
    net = loaded(saved(torch.jit.script(table)), modules="torch")
    assert torch.equal(net.weight, before)


def test_a_network_may_be_one_layer():
    linear = nn.Linear(4, 3)
    net = loaded(saved(torch.jit.script(linear)), modules="torch")
    assert type(net) is nn.Linear
    assert torch.equal(net.weight, linear.weight)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        result: PackedSequence = self.lstm(packed)[0]
        return pad_packed_sequence(result)[0]


def test_packed_sequences_go_through():
    archive = saved(torch.jit.script(Packed()))
    net, plain = loaded(archive, modules="torch"), loaded(archive)
    given = torch.rand(3, 2, 4), torch.tensor([2, 3])
    assert type(net.lstm) is nn.LSTM
    assert torch.equal(net(*given), plain(*given))


class Reaching(nn.Module):
    """Calls another method of a layer than ``forward``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 2, 1)
        self.other = nn.Conv1d(3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv._conv_forward(x, self.conv.weight, None)


def test_what_other_code_calls_by_a_method_stays():
    archive = saved(torch.jit.script(Reaching()))
    net, x = loaded(archive, modules="torch"), torch.rand(1, 2, 3)
    assert type(net.conv) is not nn.Conv1d
    assert type(net.other) is nn.Conv1d
    assert torch.equal(net(x), loaded(archive)(x))


@pytest.mark.parametrize(
    ("file", "options"),
    [
        (ARCHIVES / "sequential.pt", {"modules": "torch", "lazy": True}),
        (FIXTURES / "pt2" / "control_flow.pt2", {"modules": "torch"}),
        (ARCHIVES / "sequential.pt", {"modules": "nn"}),
    ],
    ids=["lazy", "pt2", "unknown"],
)
def test_what_cannot_be_loaded_is_refused(file, options):
    with pytest.raises(CallError) as caught:
        tsarchive.load(file, **options)
    assert caught.value.hint


@pytest.mark.skipif(not PATHS, reason="the corpus of real archives is not beside the repository")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.sample(2)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_real_archives_give_the_same(path):
    try:
        probe = torch.jit.load(path, map_location="cpu")
        plain = tsarchive.load(path, map_location="cpu")
    except (RuntimeError, ArchiveError):
        pytest.skip("it is not loaded here")
    has_forward = "forward" in plain.tsarchive_methods()
    arguments = arguments_for(path.name, probe, "forward") if has_forward else None
    if arguments is None:
        pytest.skip("no arguments are known that torch.jit takes")
    net = tsarchive.load(path, map_location="cpu", modules="torch")
    assert equal(call(net, "forward", arguments), call(plain, "forward", arguments))
