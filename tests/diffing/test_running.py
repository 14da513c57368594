"""The first module whose result is another when two models run; plain modules are the oracle."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import linecache
from collections import namedtuple
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tsarchive
from tests.support.archives import ARCHIVES, ROOT, export_saved, loaded, saved
from tsarchive.diffing import Call, diff
from tsarchive.diffing.results import Tolerance, contrast, leaves_of
from tsarchive.diffing.running import divergence
from tsarchive.errors import CallError, LimitError, PolicyError

EXACT = Tolerance(0.0, 0.0)
CLOSE = Tolerance(1e-5, 1e-8)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x))
        return self.drop(torch.relu(y))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 3)])
        self.scale = 1.5

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.blocks(self.stem(x))
        y = y.mean([2, 3]) * self.scale
        found = {"y": y}
        for index, head in enumerate(self.heads):
            found[f"head {index}"] = head(y)
        return found


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def image() -> Tensor:
    return torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)


def live(module: nn.Module) -> nn.Module:
    return loaded(archive(module))


def archive(module: nn.Module) -> bytes:
    return saved(torch.jit.script(module))


@cache
def net_archive() -> bytes:
    """The network, which takes long to script; weights are changed when it is loaded."""
    return archive(net())


def changed(model: nn.Module, path: str) -> nn.Module:
    with torch.no_grad():
        next(model.get_submodule(path).parameters()).add_(0.25)
    return model


def calls_of(model: nn.Module, x: Tensor) -> list[tuple[str, tuple[Any, ...], Any]]:
    """What eager modules are given and give, in the order in which their calls end."""
    found: list[tuple[str, tuple[Any, ...], Any]] = []
    for path, module in model.named_modules():
        module.register_forward_hook(
            lambda _, given, result, path=path: found.append(
                (path, copy.deepcopy(given), copy.deepcopy(result))
            )
        )
    torch.manual_seed(0)
    with torch.no_grad():
        model(x)
    return found


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(is_same(one[key], other[key]) for key in one)
    pairs = zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
    return all(torch.equal(*pair) for pair in pairs)


def first_by_torch(before: nn.Module, after: nn.Module, x: Tensor) -> str | None:
    rows = zip(calls_of(before, x), calls_of(after, x), strict=True)
    for (path, given, result), (_, other_given, other_result) in rows:
        if is_same(given, other_given) and not is_same(result, other_result):
            return path
    return None


WITH_TENSORS = [path for path, module in net().named_modules() if [*module.parameters(False)]]


@pytest.mark.sample(2, gaps="each row loads a network twice")
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("path", WITH_TENSORS)
def test_the_module_with_another_weight_is_named(path, mode):
    before, after, *eager = (
        model.train(mode == "train")
        for model in (loaded(net_archive()), loaded(net_archive()), net(), net())
    )
    found = divergence(before, changed(after, path), Call((image(),)), EXACT)
    assert found.where == first_by_torch(eager[0], changed(eager[1], path), image()) == path
    assert found.values.differing > 0
    name = type(eager[0].get_submodule(path)).__name__
    assert found.class_name.rpartition(".")[2] == name


def test_what_is_changed_by_two_modules_is_told_of_the_first():
    models = [(loaded(net_archive()), loaded(net_archive())), (net(), net())]
    for _, after in models:
        changed(changed(after, "heads.1"), "blocks.1.conv")
    found = divergence(*models[0], Call((image(),)), EXACT)
    assert found.where == first_by_torch(*models[1], image()) == "blocks.1.conv"


def test_the_line_of_the_call_is_told():
    before, after = loaded(net_archive()), changed(loaded(net_archive()), "blocks.0.norm")
    source = divergence(before, after, Call((image(),)), EXACT).source
    assert source.file == __file__
    assert source.text == linecache.getline(__file__, source.line).strip()
    assert source.text == "y = self.norm(self.conv(x))"


def test_a_module_whose_own_code_differs_is_named():
    before, after = loaded(net_archive()), loaded(net_archive())
    after.scale = 1.75
    found = divergence(before, after, Call((image(),)), EXACT)
    assert found.where == ""
    assert found.class_name.endswith(".Net")
    assert found.before.startswith("['y']: float32 2x4, ")
    assert found.source is None  # as it is no line that differs


def test_like_models_have_no_divergence():
    """Also where they draw random numbers, and change buffers."""
    call = Call((image(),), seed=7)
    assert divergence(loaded(net_archive()), loaded(net_archive()), call, EXACT) is None


def test_tolerances():
    for tolerance, where in ((EXACT, "stem"), (Tolerance(1e-3, 1e-4), None)):
        models = loaded(net_archive()), loaded(net_archive())
        with torch.no_grad():
            models[1].stem.weight.mul_(1 + 1e-6)
        found = divergence(*models, Call((image(),)), tolerance)
        assert (found and found.where) == where


def test_seeds_and_inputs_of_the_caller_stay():
    x = image()
    model = live(InPlace())
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    assert divergence(model, model, Call((x,)), EXACT) is None
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(x, image())
    assert not any(module._forward_hooks for module in model.modules())


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x.add_(1))


class Renamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.trunk(x))


class Original(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x))


def test_renamed_modules_are_compared():
    before, after = Original(), Renamed()
    after.trunk.load_state_dict(before.body.state_dict())
    with torch.no_grad():
        after.trunk.bias.add_(1)
    after.last = before.last
    call = Call((torch.ones(2, 4),))
    names = {"body": "trunk", "last": "last", "": ""}
    models = live(before), live(after)
    assert divergence(*models, call, EXACT, names).where == "trunk"
    assert divergence(*models, call, EXACT).where == ""


class Checked(nn.Module):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        if float(x.sum()) > self.limit:
            raise ValueError("too much")
        return self.inner(x)


def test_a_model_that_raises_is_told():
    quiet, loud = live(Checked(100.0)), live(Checked(1.0))
    call = Call((torch.ones(2, 2),))
    raised, gave = "raises ValueError: too much", "gives float32 2x2"
    found = divergence(quiet, loud, call, CLOSE)
    assert (found.where, found.before, found.after) == ("", gave, raised)
    found = divergence(loud, quiet, call, CLOSE)
    assert (found.where, found.before, found.after) == ("", raised, gave)
    assert found.source.text.startswith(("raise ValueError", "if float(x.sum())"))


def test_errors_inside_a_module_name_it():
    wide = Checked(100.0)
    wide.inner = nn.Linear(3, 2)
    found = divergence(live(Checked(100.0)), live(wide), Call((torch.ones(2, 2),)), CLOSE)
    assert found.where == "inner"
    assert found.after.startswith("raises RuntimeError: ")


def test_arguments_that_both_refuse_are_an_error():
    model = live(Checked(1.0))
    for args in ((torch.ones(2, 5),), (), ("text",)):
        with pytest.raises(CallError, match=r"^each model raises \w+: "):
            divergence(model, model, Call(args), CLOSE)
    with pytest.raises(CallError, match="has no method 'predict'"):
        divergence(model, model, Call((torch.ones(2, 2),), method="predict"), CLOSE)


def test_a_signature_that_one_refuses_is_told():
    found = divergence(live(Original()), live(Two()), Call((torch.ones(2, 4),)), CLOSE)
    assert found.where == ""
    assert found.after.startswith("raises CallError: ")


class Two(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Reading(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.from_file("/nothing", False, 2)


def test_policies_and_limits_hold():
    files = [io.BytesIO(archive(module)) for module in (Two(), Reading())]
    with pytest.raises(PolicyError):
        diff(*files, run=(torch.ones(2),))
    model = archive(Original())
    files = [io.BytesIO(model), io.BytesIO(model)]
    with pytest.raises(LimitError):
        diff(*files, run=(torch.ones(2, 4),), limits=tsarchive.Limits(steps=1))


def test_one_of_several_models_runs():
    path = ROOT / "fixtures/pt2/two_models.pt2"
    for model, given in (("first", torch.ones(2, 4)), ("second", torch.tensor([0, 1]))):
        with pytest.raises(CallError, match="has 2 models"):
            diff(path, path, run=given)
        assert diff(path, path, run=Call((given,), model=model)).same


def test_the_verb_runs_both():
    before, after = Original(), Original()
    after.load_state_dict(before.state_dict())
    with torch.no_grad():
        after.last.bias[1] += 1
    files = [torch.jit.script(module) for module in (before, after)]
    x = torch.ones(2, 4)
    for run in (x, (x,), {"x": x}, Call(kwargs={"x": x}, seed=3)):
        assert diff(*files, run=run).divergence.where == "last"
        assert diff(*files, run=run, atol=2.0).divergence is None
        assert diff(files[0], files[0], run=run).same
    assert diff(*files).divergence is None


@pytest.mark.long("test_the_verb_runs_both")
def test_programs_of_torch_export_are_compared_as_a_whole():
    model = Original().eval()
    x = torch.ones(2, 4)
    script, program = archive(model), export_saved(torch.export.export(model, (x,)))
    assert divergence(loaded(script), loaded(program), Call((x,)), CLOSE) is None
    with torch.no_grad():
        model.body.bias.add_(1)
    other = archive(model)
    assert divergence(loaded(other), loaded(program), Call((x,)), CLOSE).where == ""


class Act(nn.Module):
    def __init__(self, is_other: bool) -> None:
        super().__init__()
        self.is_other = is_other

    def forward(self, x: Tensor) -> Tensor:
        if self.is_other:
            return torch.sigmoid(x)
        return torch.relu(x)


class Acts(nn.Module):
    def __init__(self, is_other: bool = False) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Act(False), Act(is_other))

    def forward(self, x: Tensor) -> Tensor:
        x = x + 1
        return self.blocks(x)


def test_nodes_of_a_program_are_told_in_their_modules():
    """And a divergence of the whole program by the line that differs."""
    x = torch.ones(2, 4)
    exported = (torch.export.export(Acts(other).eval(), (x,)) for other in (False, True))
    files = [io.BytesIO(export_saved(program)) for program in exported]
    report = diff(*files, run=x)
    (change,) = report.changes
    assert (change.kind, change.where) == ("operator", "blocks.1.forward")
    assert report.divergence.source == change.source[1]
    assert report.divergence.source.text == "return torch.sigmoid(x)"


Named = namedtuple("Named", ["a", "b"])
ONE = torch.tensor([1.0, 2.0])
NAN = float("nan")
ALIKE: list[tuple[Any, Any]] = [
    (ONE, ONE + 1e-7),
    (torch.tensor([NAN, float("inf")]), torch.tensor([NAN, float("inf")])),
    ((ONE, [1, "a"]), (ONE.clone(), [1, "a"])),
    ({"a": 1, "b": 2.0}, {"b": 2.0, "a": 1}),
    (NAN, NAN),
    (1.0, 1.0 + 1e-9),
    (2j, 2j),
    (None, None),
    (torch.empty(0), torch.empty(0)),
    (torch.tensor([1.0 + 2j]), torch.tensor([1.0 + 2j])),
    (torch.eye(2).to_sparse(), torch.eye(2).to_sparse()),
    (torch.empty(2, device="meta"), torch.empty(2, device="meta")),
]
UNLIKE: list[tuple[Any, Any, str, str]] = [
    (ONE, ONE + torch.tensor([0, 0.5]), "float32 2, 2 at [1]", "float32 2, 2.5 at [1]"),
    (ONE, ONE.double(), "float32 2", "float64 2"),
    (ONE, ONE[None], "float32 2", "float32 1x2"),
    (ONE, torch.tensor([1.0, NAN]), "float32 2, 2 at [1]", "float32 2, nan at [1]"),
    (ONE, torch.tensor([float("inf"), 2.0]), "float32 2, 1 at [0]", "float32 2, inf at [0]"),
    (torch.tensor([7, 1 << 60]), torch.tensor([7, (1 << 60) + 1]),
     f"int64 2, {1 << 60} at [1]", f"int64 2, {(1 << 60) + 1} at [1]"),
    (torch.tensor(True), torch.tensor(False),
     "bool scalar, True at []", "bool scalar, False at []"),
    (torch.tensor([2j]), torch.tensor([3j]), "complex64 1, 2j at [0]", "complex64 1, 3j at [0]"),
    (torch.eye(2).to_sparse(), torch.eye(2), "float32 2x2, sparse_coo", "float32 2x2"),
    ([1, 2], [1, 3], "[1]: int 2", "[1]: int 3"),
    ([1], [1, 2], "list of 1", "list of 2"),
    ((1,), [1], "tuple of 1", "list of 1"),
    ({"a": 1}, {"b": 1}, "['a']: int 1", "['a']: nothing"),
    (1, 1.0, "int 1", "float 1.0"),
    (True, 1, "bool True", "int 1"),
    (1.0, 1.1, "float 1.0", "float 1.1"),
    ("a", "b", "str 'a'", "str 'b'"),
    (None, 0, "None", "int 0"),
    (Named(ONE, 1), Named(ONE, 2), ".b: int 1", ".b: int 2"),
    ([{"k": (ONE,)}], [{"k": (ONE * 2,)}],
     "[0]['k'][0]: float32 2, 2 at [1]", "[0]['k'][0]: float32 2, 4 at [1]"),
]  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize(("before", "after"), ALIKE, ids=itertools.count())
def test_results_that_are_alike(before, after):
    assert contrast(leaves_of(before), leaves_of(after), CLOSE) is None


@pytest.mark.whole
@pytest.mark.parametrize(("before", "after", "one", "other"), UNLIKE, ids=itertools.count())
def test_results_that_are_not(before, after, one, other):
    found = contrast(leaves_of(before), leaves_of(after), CLOSE)
    assert (found.before, found.after) == (one, other)
    assert contrast(leaves_of(after), leaves_of(before), CLOSE) is not None


def test_closeness_is_that_of_torch():
    torch.manual_seed(0)
    before = torch.randn(40)
    for exponent in range(-9, 0):
        after = before + torch.randn(40) * 10.0**exponent
        for one, other in zip(before, after, strict=True):
            is_close = contrast(leaves_of(one), leaves_of(other), CLOSE) is None
            assert is_close == torch.allclose(other.double(), one.double(), 1e-5, 1e-8)


NAMES = sorted(path.name.replace(".io", "") for path in ARCHIVES.glob("*.io.pt"))


@pytest.mark.parametrize("name", NAMES)
def test_archives_give_what_they_give(name):
    """Each fixture beside itself: it gives the same, or raises the same."""
    data = (ARCHIVES / name).read_bytes()
    record = torch.load(ARCHIVES / name.replace(".pt", ".io.pt"), weights_only=False)
    for method, calls in record.items():
        for call in calls:
            given = Call(call["args"], call["kwargs"], method)
            with contextlib.suppress(CallError):
                assert divergence(loaded(data), loaded(data), given, EXACT) is None
