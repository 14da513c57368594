"""Modules loaded from PT2 archives are modules like any other: copied, trained, moved, compiled."""

from __future__ import annotations

import copy
import io
import json
import pickle

import pytest
import torch
from torch.func import functional_call

import tsarchive
from tests.support.archives import export_saved
from tests.support.processes import torch_process
from tests.support.pt2_archives import packaged
from tsarchive.errors import (
    ArchiveError,
    CallError,
    LimitError,
    MissingRecordError,
    PolicyError,
)


def stored(exported, **options):
    return io.BytesIO(export_saved(exported, **options))


def exported(module, *args, **options):
    return stored(torch.export.export(module, args, **options))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Linear(4, 4)
        self.rest = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.rest[0].weight = self.first.weight
        self.first.bias.requires_grad_(False)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("scale", torch.ones(4), persistent=False)
        self.shift = torch.arange(4.0)

    def forward(self, x):
        self.count.add_(1)
        return self.rest(self.first(x)) * self.scale + self.shift


@pytest.fixture
def net():
    return tsarchive.load(exported(Net(), torch.randn(2, 4)))


def test_modules_have_the_names_and_classes_they_had(net):
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0"]
    assert type(net.first).__name__ == "Linear"
    assert isinstance(net, tsarchive.run.classes.ArchiveModule)
    assert list(net.rest) == [net.rest[0]]


def test_buffers_that_are_not_persistent_stay_so(net):
    assert "scale" not in net.state_dict()
    assert dict(net.named_buffers()).keys() == {"count", "scale"}
    assert torch.equal(net.shift, torch.arange(4.0))


def test_flags_of_parameters_are_kept(net):
    assert not net.first.bias.requires_grad
    assert net.first.weight.requires_grad
    assert isinstance(net.first.weight, torch.nn.Parameter)


def test_changes_stay_in_memory(tmp_path):
    path = tmp_path / "net.pt2"
    path.write_bytes(exported(Net(), torch.randn(2, 4)).read())
    before = path.read_bytes()
    net = tsarchive.load(path)
    net(torch.zeros(2, 4))
    with torch.no_grad():
        net.first.weight.zero_()
    assert net.count.item() == 1
    assert not net.rest[0].weight.any()  # it is the same storage
    assert path.read_bytes() == before
    assert tsarchive.load(path).count.item() == 0


def test_training_and_evaluation_change_a_flag_alone(net):
    x = torch.randn(2, 4)
    expected = net(x)
    assert torch.equal(net.eval()(x), expected)
    assert not net.first.training
    assert torch.equal(net.train()(x), expected)


def test_forward_has_the_signature_of_the_original():
    class Two(torch.nn.Module):
        def forward(self, x, pair, *, scale):
            return x * scale + pair[0]

    file = exported(
        Two(), torch.ones(2), (torch.ones(2), torch.ones(2)), kwargs={"scale": torch.ones(1)}
    )
    module = tsarchive.load(file)
    shown = str(module.tsarchive_methods()["forward"])
    assert shown == "(self, x: Tensor, pair: Tuple[Tensor, Tensor], *, scale: Tensor) -> Tensor"


def test_copies(net):
    x = torch.randn(2, 4)
    made = copy.deepcopy(net)
    with torch.no_grad():
        made.first.weight.zero_()
    assert net.first.weight.any()
    assert not made.rest[0].weight.any()
    assert torch.equal(made(x), net.shift.expand(2, 4) + made.rest[0].bias.relu())


def test_pickles(net):
    net.first.bias.data += 1
    made = pickle.loads(pickle.dumps(net))
    x = torch.randn(2, 4)
    assert type(made) is type(net)
    assert torch.equal(made(x), net(x))
    assert dict(made.named_buffers()).keys() == {"count", "scale"}
    assert "scale" not in made.state_dict()


@pytest.mark.long("test_pickles")
def test_pickles_are_read_in_other_processes(net, tmp_path):
    x = torch.ones(2, 4)
    (tmp_path / "net.pkl").write_bytes(pickle.dumps(net))
    code = (
        "import pickle, sys, torch\n"
        "net = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(net(torch.ones(2, 4)).tolist())"
    )
    done = torch_process("-c", code, tmp_path / "net.pkl", cwd=tmp_path)
    torch.testing.assert_close(torch.tensor(json.loads(done.stdout)), net(x))


def test_state_is_loaded_and_saved(net):
    state = {name: torch.full_like(tensor, 0.5) for name, tensor in net.state_dict().items()}
    net.load_state_dict(state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items())
    with pytest.raises(RuntimeError, match="Unexpected key"):
        net.load_state_dict({**state, "other": torch.ones(1)})


def test_modules_move(net):
    assert {tensor.dtype for tensor in net.double().parameters()} == {torch.float64}
    assert net.scale.dtype == torch.float64
    assert net(torch.randn(2, 4).double()).dtype == torch.float64


def test_gradients(net):
    reference = Net()
    x = torch.randn(2, 4)
    for module in (net, reference):
        module(x).sum().backward()
    found = [w.grad for w in (net.first.weight, net.rest[0].weight) if w.grad is not None]
    assert torch.equal(sum(found), reference.first.weight.grad)
    assert net.first.bias.grad is None


def test_functional_call(net):
    x = torch.randn(2, 4)
    zeros = {name: torch.zeros_like(tensor) for name, tensor in net.named_parameters()}
    with torch.no_grad():
        assert torch.equal(functional_call(net, zeros, (x,)), net.shift.expand(2, 4))


def test_the_module_is_exported_again(net):
    x = torch.randn(2, 4)
    again = torch.export.export(net, (x,))
    assert torch.equal(again.module()(x), net(x))
    assert set(again.state_dict) == {*net.state_dict()}


def test_the_module_is_compiled(net):
    x = torch.randn(2, 4)
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), net(x))


# Devices, models, policies


def test_tensors_and_devices_in_the_graph_move():
    class Maker(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x + torch.zeros(2, device="cpu") + self.w

    module = tsarchive.load(exported(Maker(), torch.ones(2)), map_location="meta")
    assert module.w.is_meta
    assert module(torch.ones(2, device="meta")).is_meta


class Plus(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x + self.number


def several(*names):
    programs = {
        name: torch.export.export(Plus(i), (torch.zeros(2),)) for i, name in enumerate(names)
    }
    return io.BytesIO(packaged(programs))


def test_models_by_name():
    for number, name in enumerate(("one", "two")):
        module = tsarchive.load(several("one", "two"), model=name)
        assert module(torch.zeros(2)).tolist() == [number, number]


def test_several_models_need_a_name():
    with pytest.raises(CallError, match=r"2 models: one, two.*model='one'"):
        tsarchive.load(several("one", "two"))
    with pytest.raises(MissingRecordError, match=r"no model 'three'.*It has: one, two"):
        tsarchive.load(several("one", "two"), model="three")


def test_the_usual_name_is_meant_unless_another_is_said():
    assert tsarchive.load(several("other", "model"))(torch.zeros(1).expand(2)).tolist() == [1, 1]


def test_only_these_archives_have_models(tmp_path):
    tsarchive.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "m.pt")
    with pytest.raises(CallError, match="no models by name"):
        tsarchive.load(tmp_path / "m.pt", model="model")


def test_the_policy_holds():
    @torch.library.custom_op("pt2tests::own", mutates_args=())
    def own(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    own.register_fake(torch.empty_like)

    class Caller(torch.nn.Module):
        def forward(self, x):
            return torch.ops.pt2tests.own(x)

    file = exported(Caller(), torch.ones(2))
    with pytest.raises(PolicyError, match="pt2tests::own"):
        tsarchive.load(file)(torch.ones(2))
    file.seek(0)
    allowed = tsarchive.Policy.default().allow("pt2tests::own")
    assert tsarchive.load(file, policy=allowed)(torch.ones(2)).tolist() == [2, 2]


def test_limits_hold():
    class Large(torch.nn.Module):
        def forward(self, x):
            return x.expand(1000, 1000) + 1

    limits = tsarchive.Limits(nbytes=1 << 20)
    module = tsarchive.load(exported(Large(), torch.ones(1)), limits=limits)
    with pytest.raises(LimitError):
        module(torch.ones(1))


@pytest.mark.long("test_pickles")
def test_nothing_of_torch_export_is_needed(tmp_path):
    """Neither sympy nor torch.export runs, and no pickle is read by Python's reader."""
    path = tmp_path / "net.pt2"
    path.write_bytes(exported(Net(), torch.randn(2, 4)).read())
    code = (
        "import sys, torch, pickle\n"
        "before = set(sys.modules)\n"
        "pickle.loads = pickle.load = pickle.Unpickler = torch.load = None\n"
        "import tsarchive\n"
        "print(tsarchive.load(sys.argv[1])(torch.zeros(2, 4)).shape)\n"
        "new = set(sys.modules) - before\n"
        "assert not {m for m in new if m.startswith(('sympy', 'torch.export', 'torch._export'))}"
    )
    done = torch_process("-c", code, path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch.Size([2, 4])\n"


def test_errors_are_of_the_family():
    with pytest.raises(ArchiveError):
        tsarchive.load(io.BytesIO(b"no archive"))


def test_effect_tokens_are_no_arguments():
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    @torch.library.custom_op("pt2tests::noted", mutates_args=())
    def noted(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    noted.register_fake(torch.empty_like)
    _register_effectful_op(torch.ops.pt2tests.noted.default, _EffectType.ORDERED)

    class Caller(torch.nn.Module):
        def forward(self, x):
            return torch.ops.pt2tests.noted(x) * 2

    program = torch.export.export(Caller(), (torch.ones(2),)).run_decompositions()
    assert "token" in str(program.graph_signature).lower()
    policy = tsarchive.Policy.default().allow("pt2tests::noted")
    assert tsarchive.load(stored(program), policy=policy)(torch.ones(2)).tolist() == [4, 4]


@pytest.mark.long("test_pickles")
def test_pickles_keep_the_device(tmp_path):
    path = tmp_path / "maker.pt2"
    path.write_bytes(exported(Net(), torch.randn(2, 4)).read())
    moved = tsarchive.load(path, map_location="meta")
    (tmp_path / "net.pkl").write_bytes(pickle.dumps(moved))
    code = (
        "import pickle, sys, torch\n"
        "net = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(net(torch.ones(2, 4, device='meta')).device)"
    )
    done = torch_process("-c", code, tmp_path / "net.pkl", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("meta\n", "")
