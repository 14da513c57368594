"""A loaded archive is an ordinary module."""

from __future__ import annotations

import copy
import io
import mmap

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, torch_loaded, torch_saved
from tests.support.comparing import equal


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.seen += 1
        return self.drop(self.body(x)) * scale

    @torch.jit.export
    def count(self) -> int:
        return int(self.seen.item())


@pytest.fixture
def archive() -> bytes:
    torch.manual_seed(0)
    return torch_saved(torch.jit.script(Net()))


@pytest.fixture
def both(archive):
    return tsarchive.load(io.BytesIO(archive)), torch_loaded(archive)


def test_names_of_everything(both):
    ours, theirs = both
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [
        name for name, _ in theirs.named_parameters()
    ]
    assert [name for name, _ in ours.named_buffers()] == [
        name for name, _ in theirs.named_buffers()
    ]
    assert [name for name, _ in ours.named_modules()] == [
        name for name, _ in theirs.named_modules()
    ]
    assert type(ours).__name__ == "Net"


def test_values_of_everything(both):
    ours, theirs = both
    assert equal(dict(ours.state_dict()), dict(theirs.state_dict()))


def test_train_and_eval_drive_the_code(both):
    ours, theirs = both
    x = torch.randn(5, 4)
    for module in both:
        module.eval()
    assert equal(ours(x), theirs(x))
    results = []
    for module in both:
        module.train()
        torch.manual_seed(3)
        results.append(module(x))
    assert equal(*results)
    assert equal(dict(ours.state_dict()), dict(theirs.state_dict()))


def test_a_training_step_equals_that_of_torch(both):
    x = torch.randn(5, 4)
    for module in both:
        torch.manual_seed(3)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        module(x).sum().backward()
        optimizer.step()
    ours, theirs = both
    assert equal(dict(ours.state_dict()), dict(theirs.state_dict()))


def test_exported_methods(both):
    ours, theirs = both
    for module in both:
        module(torch.randn(2, 4))
    assert ours.count() == theirs.count() == 1


def test_arguments_by_name_and_default(both):
    ours, theirs = (module.eval() for module in both)
    x = torch.randn(2, 4)
    assert equal(ours(x, scale=2), theirs(x, scale=2))
    assert equal(ours(x=x), theirs(x=x))


def test_deepcopy_is_independent(both):
    ours, _ = both
    other = copy.deepcopy(ours)
    with torch.no_grad():
        other.body.get_parameter("0.weight").zero_()
    assert ours.body.get_parameter("0.weight").abs().sum() > 0
    assert other.eval()(torch.ones(1, 4)).shape == (1, 3)


def test_hooks_of_python_fire_on_submodules(both):
    ours, _ = both
    calls = []
    handle = ours.body.register_forward_hook(lambda module, args, result: calls.append(result))
    ours(torch.randn(2, 4))
    handle.remove()
    ours(torch.randn(2, 4))
    assert len(calls) == 1


def test_state_dict_of_the_original_loads(both):
    ours, _ = both
    torch.manual_seed(9)
    fresh = Net()
    ours.load_state_dict(fresh.state_dict())
    assert equal(ours.eval()(torch.ones(1, 4)), fresh.eval()(torch.ones(1, 4)))


def test_changed_weights_are_saved(archive, tmp_path):
    ours = tsarchive.load(io.BytesIO(archive))
    with torch.no_grad():
        ours.seen.fill_(41)
    path = tmp_path / "changed.pt"
    tsarchive.save(ours, path)
    again = torch.jit.load(path)
    again(torch.randn(2, 4))
    assert again.count() == 42


def test_writing_to_a_tensor_does_not_change_the_file(archive, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(archive)
    ours = tsarchive.load(path)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert path.read_bytes() == archive


def test_saving_over_the_loaded_file(archive, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(archive)
    ours = tsarchive.load(path)
    tsarchive.save(ours, path)
    tsarchive.save(tsarchive.load(path), path)
    assert equal(dict(tsarchive.load(path).state_dict()), dict(ours.state_dict()))


def test_tensors_are_views_of_the_map(archive, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(archive)
    weight = tsarchive.load(path).body.get_parameter("0.weight")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        assert view.find(weight.detach().numpy().tobytes()) > 0
    assert weight.data_ptr() % 64 == 0


def test_map_location(archive):
    ours = tsarchive.load(io.BytesIO(archive), map_location="meta")
    assert {parameter.device.type for parameter in ours.parameters()} == {"meta"}
    with pytest.raises(tsarchive.CallError, match="not a device"):
        tsarchive.load(io.BytesIO(archive), map_location="nowhere")


def test_a_module_of_python_cannot_be_slipped_in(archive):
    ours = tsarchive.load(io.BytesIO(archive))
    ours.body = torch.nn.Identity()
    with pytest.raises(tsarchive.SaveError, match="Identity"):
        tsarchive.save(ours, io.BytesIO())


def test_an_archive_runs_as_it_was_saved(case):
    """Live modules, through our save and load, against themselves."""
    module = case.build()
    buffer = io.BytesIO()
    tsarchive.save(module, buffer)
    buffer.seek(0)
    theirs, ours = torch_loaded(torch_saved(module)), tsarchive.load(buffer)
    for method, inputs in {"forward": case.inputs, **case.methods}.items():
        for arguments in inputs:
            expected, result = (
                call(loaded, method, copy.deepcopy(arguments)) for loaded in (theirs, ours)
            )
            assert same(expected, result), method


def call(module, method, arguments):
    torch.manual_seed(0)
    return module(*arguments) if method == "forward" else getattr(module, method)(*arguments)


def same(expected, result) -> bool:
    return equal(expected, result) or repr(expected) == repr(result)


def test_the_smallest_archive_opens_without_reading_it_all():
    path = ARCHIVES / "buffers.pt"
    with tsarchive.open(path) as archive:
        assert archive.kind == "torchscript"
        assert "seen" not in archive.tensors
        assert archive.tree().qualified_class.startswith("__torch__")
