"""Programs of ExecuTorch that are made: from exported programs, PT2 and TorchScript archives."""

import hashlib
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import tsarchive

pytest.importorskip("executorch.exir", reason="executorch is not installed")


class Counting(nn.Module):
    """Buffers that calls change, one of which does not start as zeros."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("count", torch.full((3,), 5.0))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, scale: float = 2.0):
        self.count.add_(1)
        self.calls.add_(1)
        return self.linear(x) * scale + self.count, self.calls * 1


class Gathering(nn.Module):
    """A buffer that takes what weights gave, which have gradients."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("sum", torch.full((3,), 5.0))

    def forward(self, x):
        self.sum.add_(self.linear(x).sum(0))
        return self.sum * 1


class Nested(nn.Module):
    def forward(self, pair, named):
        return {"sum": pair[0] + pair[1], "twice": [named["x"] * 2]}


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))

    def forward(self, x):
        return self.layers(x)


class Chosen(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


ROWS = torch.linspace(-1, 1, 8).view(2, 4)
CASES = {
    "buffers": (Counting, (ROWS,)),
    "gradients": (Gathering, (ROWS,)),
    "nested": (Nested, ((ROWS, ROWS), {"x": ROWS})),
    "convolution": (Convolutional, (torch.linspace(-1, 1, 16).view(1, 1, 4, 4),)),
    "condition": (Chosen, (ROWS,)),
}
SCRIPTABLE = ("buffers", "gradients", "convolution")


def made(name):
    torch.manual_seed(0)
    module, args = CASES[name]
    return module().eval(), args


def agreeing(done):
    return [(found.method, found.ok) for found in done.agreements]


def outputs(result):
    return torch.utils._pytree.tree_leaves(result)


def assert_equal(path, module, args, calls=3, data=None, atol=1e-5):
    """Calls of the file give what those of the module give."""
    loaded = tsarchive.load(path, data=data)
    for _ in range(calls):
        for found, expected in zip(outputs(loaded(*args)), outputs(module(*args)), strict=True):
            torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=atol)


@pytest.mark.sample(1, gaps="lowering takes a second")
@pytest.mark.parametrize("name", CASES)
def test_an_exported_program(tmp_path, name):
    module, args = made(name)
    done = tsarchive.convert(export(module, args), tmp_path / "x.pte")
    assert (done.file_kind, done.kind, done.data) == ("exported program", "pte", None)
    assert agreeing(done) == [("forward", True)]
    assert_equal(tmp_path / "x.pte", module, args)


@pytest.mark.sample(1, gaps="lowering takes a second")
@pytest.mark.parametrize("name", CASES)
def test_a_pt2_archive_with_the_inputs_that_it_holds(tmp_path, name):
    module, args = made(name)
    tsarchive.save(export(module, args), tmp_path / "x.pt2")
    done = tsarchive.convert(tmp_path / "x.pt2", tmp_path / "x.pte")
    assert done.file_kind == "pt2"
    assert agreeing(done) == [("forward", True)]
    assert_equal(tmp_path / "x.pte", module, args)


@pytest.mark.sample(1, gaps="lowering takes a second")
@pytest.mark.parametrize("name", SCRIPTABLE)
def test_a_torchscript_archive(tmp_path, name):
    module, args = made(name)
    torch.jit.save(torch.jit.script(module), tmp_path / "x.pt")
    done = tsarchive.convert(tmp_path / "x.pt", tmp_path / "x.pte", args=args)
    assert done.file_kind == "torchscript"
    assert agreeing(done) == [("forward", True)]
    assert_equal(tmp_path / "x.pte", module, args)


def test_constants_beside_the_program(tmp_path):
    module, args = made("buffers")
    program, data = tmp_path / "x.pte", tmp_path / "x.ptd"
    done = tsarchive.convert(export(module, args), program, data=data)
    assert done.data == str(data)
    assert agreeing(done) == [("forward", True)]
    with tsarchive.open(data) as archive:
        assert {"linear.weight", "linear.bias"} <= set(archive.tensors)
    assert_equal(program, module, args, data=data)


@pytest.mark.long("test_a_torchscript_archive")
def test_a_backend(tmp_path):
    module, args = made("convolution")
    done = tsarchive.convert(export(module, args), tmp_path / "x.pte", backends=["xnnpack"])
    assert agreeing(done) == [("forward", True)]
    with tsarchive.open(tmp_path / "x.pte") as archive:
        assert "XnnpackBackend" in archive.code["forward"]
    assert_equal(tmp_path / "x.pte", module, args)


def test_open_sizes_stay_open(tmp_path):
    module, args = made("buffers")
    sizes = {"x": {0: Dim("rows", min=1, max=16)}, "scale": None}
    torch.jit.save(torch.jit.script(module), tmp_path / "x.pt")
    tsarchive.convert(
        tmp_path / "x.pt", tmp_path / "x.pte", args=(*args, 2.0), dynamic_shapes=sizes
    )
    loaded = tsarchive.load(tmp_path / "x.pte")
    for rows in (1, 7, 16):
        found, _ = loaded(torch.ones(rows, 4), 2.0)
        assert found.shape == (rows, 3)
    with pytest.raises(tsarchive.CallError):
        loaded(torch.ones(17, 4), 2.0)


@pytest.mark.long("test_a_torchscript_archive")
def test_several_models_are_methods(tmp_path):
    module, args = made("convolution")
    programs = {"one": export(module, args), "two": export(Chosen(), (ROWS,))}
    tsarchive.save(programs, tmp_path / "x.pt2")
    done = tsarchive.convert(tmp_path / "x.pt2", tmp_path / "x.pte")
    assert sorted(agreeing(done)) == [("one", True), ("two", True)]
    assert torch.equal(tsarchive.load(tmp_path / "x.pte").two(ROWS), Chosen()(ROWS))
    done = tsarchive.convert(tmp_path / "x.pt2", tmp_path / "y.pte", model="two")
    assert agreeing(done) == [("forward", True)]


@pytest.mark.long("test_a_torchscript_archive")
def test_the_bytes_are_the_same_in_each_process(tmp_path):
    module, args = made("buffers")
    tsarchive.save(export(module, args), tmp_path / "x.pt2")
    code = "import sys, tsarchive; tsarchive.convert(sys.argv[1], sys.argv[2])"
    found = set()
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.pte"
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, tmp_path / "x.pt2", target],
            check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        found.add(hashlib.sha256(target.read_bytes()).hexdigest())
    assert len(found) == 1


def test_randomness_does_not_agree_and_is_told(tmp_path):
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.rand(2, 4)

    done = tsarchive.convert(export(Noisy(), (ROWS,)), tmp_path / "x.pte")
    assert [found.ok for found in done.agreements] == [False]
    assert "up to" in done.agreements[0].problem


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, tsarchive.CallError, "with example arguments"),
        ({"args": (ROWS,), "backends": ["none"]}, tsarchive.CallError, "no backend is called"),
        ({"args": (ROWS,), "data": "x.bin"}, tsarchive.CallError, "does not end in .ptd"),
        ({"args": (ROWS,), "map_location": "cpu"}, tsarchive.CallError, "map_location"),
        ({"args": (ROWS, ROWS, ROWS)}, tsarchive.CallError, "forward"),
    ],
)
def test_what_cannot_be_asked_leaves_the_old_file(tmp_path, options, error, message):
    module, _ = made("buffers")
    torch.jit.save(torch.jit.script(module), tmp_path / "x.pt")
    target = tmp_path / "x.pte"
    target.write_bytes(b"old")
    with pytest.raises(error, match=message):
        tsarchive.convert(tmp_path / "x.pt", target, **options)
    assert target.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.pt", "x.pte"]


def test_what_the_package_cannot_lower(tmp_path):
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    message = r"executorch cannot lower.*rand_like"
    with pytest.raises(tsarchive.UnsupportedError, match=message) as caught:
        tsarchive.convert(export(Noisy(), (ROWS,)), tmp_path / "x.pte")
    assert caught.value.__cause__ is not None
    assert not (tmp_path / "x.pte").exists()
