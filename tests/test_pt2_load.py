"""Loading PT2 archives: files of the corpus run as torch runs them, or say why they cannot."""

from __future__ import annotations

import copy
import io
import json
import logging
import pickle
import subprocess
import sys
import warnings
import zipfile
from typing import NamedTuple

import pytest
import torch
import torch.utils._pytree as pytree
from conftest import CORPUS, ROOT
from torch.func import functional_call

import tsarchive
from tsarchive.errors import (
    ArchiveError,
    CallError,
    LimitError,
    MissingRecordError,
    PolicyError,
    UnknownClassError,
    UnknownOperatorError,
    UnsupportedError,
)

GENERATED = CORPUS / "generated"
OLDER = ROOT / "fixtures" / "pt2"


class P(NamedTuple):
    a: object
    b: object


class Fields(NamedTuple):
    first: object
    second: object


if "corpus.P" not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
    pytree._register_namedtuple(P, serialized_type_name="corpus.P")

FILES = sorted(GENERATED.glob("pt2_*.pt2")) + sorted((CORPUS / "pt2").glob("*.pt2"))
# Files that this process cannot load or run, by what they say; all others run.
REFUSED_AT_LOAD = {
    "pt2_subclass": (UnsupportedError, "data/weights/weight_0"),
    "pt2_torchbind": (UnknownClassError, "corpustb.Scaler is not registered"),
    "pytorch-executorch__preprocess_7a851d0": (UnsupportedError, "AOTInductor"),
    "pytorch-executorch__preprocess_f59e50c": (UnsupportedError, "AOTInductor"),
}
REFUSED_WHEN_CALLED = {
    "pt2_customop": (UnknownOperatorError, "corpus::scale_add is not registered"),
    "pt2_opaque": (UnknownOperatorError, "corpusop::addcfg is not registered"),
}
# torch.export.load does not load these, or its module cannot be called.
NOT_BY_TORCH = {"pt2_edge", "pt2_joint"}


def is_none(value):
    return value is None


def leaves(value):
    return pytree.tree_leaves(value, is_leaf=is_none)


def in_spec(path):
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        wanted = next(n for n in names if "/models/" in n or n.endswith("exported_program.json"))
        program = json.loads(archive.read(wanted))
    return program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"]


def cases(path):
    """Arguments and expected leaves, which stand beside the file without their structure."""
    beside = path.with_suffix(".io.pt")
    if not beside.exists():
        return
    specification = pytree.treespec_loads(in_spec(path))
    for case in torch.load(beside, weights_only=False).get("model", ()):
        flat = leaves((case["args"], case["kwargs"]))
        args, kwargs = pytree.tree_unflatten(flat, specification)
        yield args, kwargs, case["expected"]


def by_torch(path):
    logging.disable(logging.CRITICAL)
    # Sample inputs, which torch unpickles, name a class of the script that exported them.
    sys.modules["__main__"].P = P
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.load(path).module()
    finally:
        del sys.modules["__main__"].P
        logging.disable(logging.NOTSET)


def assert_same(found, expected):
    """Equal leaves of equal types."""
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-5, atol=1e-6)
    else:
        assert found == expected


def saved(exported, **options):
    file = io.BytesIO()
    torch.export.save(exported, file, **options)
    file.seek(0)
    return file


def exported(module, *args, **options):
    return saved(torch.export.export(module, args, **options))


RUNNING = [
    path
    for path in FILES
    if path.stem not in REFUSED_AT_LOAD and path.stem not in REFUSED_WHEN_CALLED
]


@pytest.mark.parametrize("path", RUNNING, ids=lambda path: path.stem)
def test_outputs_are_the_expected_ones(path):
    module = tsarchive.load(path)
    for args, kwargs, expected in cases(path):
        if expected is not None:
            found = leaves(module(*args, **kwargs))
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                assert_same(one, other)


@pytest.mark.parametrize(
    "path", [path for path in RUNNING if path.stem not in NOT_BY_TORCH], ids=lambda path: path.stem
)
def test_module_is_that_of_torch(path):
    """Results with their structure, names, order, sharing and flags of tensors."""
    module, expected = tsarchive.load(path), by_torch(path)
    assert_same_state(module, expected)
    for args, kwargs, _ in cases(path):
        given = copy.deepcopy((args, kwargs))
        torch.manual_seed(0)
        found = module(*args, **kwargs)
        torch.manual_seed(0)
        wanted = expected(*given[0], **given[1])
        assert pytree.tree_structure(found) == pytree.tree_structure(wanted)
        for one, other in zip(leaves((found, args)), leaves((wanted, given[0])), strict=True):
            assert_same(one, other)
    assert_same_state(module, expected)


def assert_same_state(module, expected):
    assert module.state_dict().keys() == expected.state_dict().keys()
    for named in ("named_parameters", "named_buffers"):
        found, wanted = dict(getattr(module, named)()), dict(getattr(expected, named)())
        assert found.keys() == wanted.keys()
        for name, tensor in wanted.items():
            assert found[name].requires_grad == tensor.requires_grad
            assert found[name].stride() == tensor.stride()
            assert_same(found[name], tensor)
    assert sharing(module) == sharing(expected)


def sharing(module):
    """The names of tensors that share a storage."""
    groups = {}
    for name, tensor in module.state_dict().items():
        if tensor.untyped_storage().nbytes():
            groups.setdefault(tensor.untyped_storage().data_ptr(), set()).add(name)
    return sorted(map(sorted, groups.values()))


@pytest.mark.parametrize("path", sorted(OLDER.glob("*-2.*.pt2")), ids=lambda path: path.stem)
def test_layouts_of_older_versions(path):
    """The same module in the layout of an older torch, with the state that it had when saved."""
    newer = tsarchive.load(path.with_name(f"{path.stem.partition('-')[0]}.pt2"))
    module = tsarchive.load(path)
    assert module.state_dict().keys() == newer.state_dict().keys()
    assert sharing(module) == sharing(newer)
    assert dict(module.named_buffers()).keys() == dict(newer.named_buffers()).keys()
    newer.load_state_dict(module.state_dict())
    for name, buffer in newer.named_buffers():
        buffer.data.copy_(module.get_buffer(name))
    for args, kwargs in older_cases(path):
        given = copy.deepcopy((args, kwargs))
        found, wanted = module(*args, **kwargs), newer(*given[0], **given[1])
        for one, other in zip(leaves((found, args)), leaves((wanted, given[0])), strict=True):
            assert_same(one, other)


def older_cases(path):
    """Arguments with their structure, but for named tuples, which are plain ones there."""
    beside = path.with_name(f"{path.stem.partition('-')[0]}.io.pt")
    for case in torch.load(beside)["model"]:
        args = [Fields(*one) if type(one) is tuple else one for one in case["args"]]
        yield args, case["kwargs"]


@pytest.mark.parametrize("stem", REFUSED_AT_LOAD)
def test_what_cannot_be_loaded_says_why(stem, corpus):
    (path,) = [path for path in FILES if path.stem == stem]
    kind, text = REFUSED_AT_LOAD[stem]
    with pytest.raises(kind, match=text):
        tsarchive.load(path)


@pytest.mark.parametrize("stem", REFUSED_WHEN_CALLED)
def test_what_cannot_run_says_why(stem, corpus):
    (path,) = [path for path in FILES if path.stem == stem]
    kind, text = REFUSED_WHEN_CALLED[stem]
    module = tsarchive.load(path)
    args, kwargs, _ = next(cases(path))
    with pytest.raises(kind, match=text):
        module(*args, **kwargs)


# Modules


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


def test_pickles_are_read_in_other_processes(net, tmp_path):
    x = torch.ones(2, 4)
    (tmp_path / "net.pkl").write_bytes(pickle.dumps(net))
    code = (
        "import pickle, sys, torch\n"
        "net = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(net(torch.ones(2, 4)).tolist())"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "net.pkl")]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    torch.testing.assert_close(torch.tensor(json.loads(out)), net(x))


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
    from torch.export.pt2_archive._package import package_pt2

    programs = {
        name: torch.export.export(Plus(i), (torch.zeros(2),)) for i, name in enumerate(names)
    }
    file = io.BytesIO()
    package_pt2(file, exported_programs=programs)
    file.seek(0)
    return file


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

    limits = tsarchive.Limits(bytes=1 << 20)
    module = tsarchive.load(exported(Large(), torch.ones(1)), limits=limits)
    with pytest.raises(LimitError):
        module(torch.ones(1))


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
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch.Size([2, 4])\n"


def test_errors_are_of_the_family():
    with pytest.raises(ArchiveError):
        tsarchive.load(io.BytesIO(b"no archive"))
