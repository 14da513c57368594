"""``tsarchive tensors``."""

from __future__ import annotations

import pytest
import torch

from tests.support.archives import ARCHIVES
from tests.support.command_line import SEQUENTIAL, document, run

KEYS = {
    "name", "dtype", "shape", "strides", "nbytes", "record", "storages", "device", "role",
}  # fmt: skip


@pytest.mark.parametrize("name", ["sequential", "buffers", "views", "tied_parameters"])
def test_the_tensors_are_those_of_torch(name):
    path = ARCHIVES / f"{name}.pt"
    module = torch.jit.load(str(path))
    parameters = dict(module.named_parameters(remove_duplicate=False))
    buffers = dict(module.named_buffers(remove_duplicate=False))
    found = {row["name"]: row for row in document("tensors", path)["tensors"]}
    assert found.keys() >= parameters.keys() | buffers.keys()
    for key, tensor in {**parameters, **buffers}.items():
        row = found[key]
        assert row.keys() == KEYS
        assert row["dtype"] == str(tensor.dtype).removeprefix("torch.")
        assert row["shape"] == list(tensor.shape)
        assert row["strides"] == list(tensor.stride())
        assert row["nbytes"] == tensor.numel() * tensor.element_size()
        assert row["role"] == ("parameter" if key in parameters else "buffer")


def names(*options):
    return [row["name"] for row in document("tensors", SEQUENTIAL, *options)["tensors"]]


def test_order():
    in_file = ["layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias"]
    assert names() == in_file
    assert names("--sort", "name") == sorted(in_file)
    assert names("--sort", "size") == [in_file[0], in_file[2], in_file[1], in_file[3]]


def test_match():
    assert names("--match", "*.bias") == ["layers.0.bias", "layers.2.bias"]
    assert names("--match", "nothing") == []
    assert document("tensors", SEQUENTIAL, "--match", "*.bias")["total"] == {
        "count": 2, "elements": 6, "storages": 2, "nbytes": 24
    }  # fmt: skip


def test_a_match_of_nothing_says_so():
    shown = run("tensors", SEQUENTIAL, "--match", "zzz*")
    assert (shown.exit_code, shown.stdout) == (0, "no tensor has a name that fits zzz*\n")


def test_text_has_a_row_for_each_and_a_total():
    lines = run("tensors", SEQUENTIAL).stdout.splitlines()
    assert lines[2].split() == [
        "layers.0.weight", "float32", "4x3", "48", "data/0", "cpu", "parameter"
    ]  # fmt: skip
    assert lines[-1] == "total: 4 tensors in 4 storages, 104 bytes, 26 elements"


def test_sparse_tensors_have_no_single_record(tmp_path):
    class Sparse(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("s", torch.eye(3).to_sparse())

        def forward(self):
            return self.s

    path = tmp_path / "sparse.pt"
    torch.jit.save(torch.jit.script(Sparse()), str(path))
    (row,) = document("tensors", path)["tensors"]
    assert (row["record"], row["shape"], row["device"]) == (None, [3, 3], "cpu")
    assert [storage["nbytes"] for storage in row["storages"]] == [2 * 3 * 8, 3 * 4]
    assert "several" in run("tensors", path).stdout
