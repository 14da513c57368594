"""Differences of checkpoints, of files of two formats, and beside models."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tsarchive
from tests.support.archives import export_saved, records_of, saved
from tests.support.command_line import run
from tests.support.verifying import packed
from tsarchive.diffing import Change, diff
from tsarchive.diffing.packing import extra_file_changes


def checkpoint(value: Any) -> io.BytesIO:
    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    return stream


def training() -> dict[Any, Any]:
    """A checkpoint as training writes it."""
    module = torch.nn.Linear(2, 2)
    with torch.no_grad():
        module.weight.fill_(1)
        module.bias.fill_(2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return {
        "epoch": 1,
        "model": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "names": ["a", "b"],
        "none": None,
        "size": torch.Size([1]),
        3: (1.0, 2.0),
    }


def item(*keys: Any) -> Callable[[Any], Any]:
    def found(value: Any) -> Any:
        for key in keys:
            value = value[key]
        return value

    return found


def setting(*keys: Any, to: Any) -> Callable[[Any], None]:
    return lambda value: item(*keys[:-1])(value).__setitem__(keys[-1], to)


# A change of a checkpoint, and the places of what is told.
CHECKPOINTS: dict[str, tuple[Callable[[Any], Any], list[tuple[str, str]]]] = {
    "nothing": (lambda value: None, []),
    "number": (setting("epoch", to=2), [("attribute", "epoch")]),
    "deep number": (
        setting("optimizer", "param_groups", 0, "lr", to=0.25),
        [("attribute", "optimizer.param_groups.0.lr")],
    ),
    "item of a tuple": (setting(3, to=(1.0, 3.0)), [("attribute", "3.1")]),
    "size": (setting("size", to=torch.Size([2])), [("attribute", "size")]),
    "added item": (lambda value: value["names"].append("c"), [("attribute", "names.2")]),
    "list for tuple": (setting("names", to=("a", "b")), [("attribute", "names")]),
    "none": (setting("none", to=0), [("attribute", "none")]),
    "added none": (setting("new", to=None), [("attribute", "new")]),
    "empty dict": (setting("new", to={}), [("attribute", "new")]),
    "removed": (lambda value: value.pop("none"), [("attribute", "none")]),
    "tensor": (lambda value: value["model"]["bias"].add_(1), [("tensor values", "model.bias")]),
    "removed tensor": (lambda value: value["model"].pop("bias"), [("tensor", "model.bias")]),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_changes_of_a_checkpoint_have_their_places(name):
    change, expected = CHECKPOINTS[name]
    after = training()
    change(after)
    found = diff(checkpoint(training()), checkpoint(after)).changes
    assert [(c.kind, c.where) for c in found if c.kind != "attribute order"] == expected


@pytest.mark.parametrize("held", [1, torch.ones(1)])
@pytest.mark.parametrize("nest", [lambda state: state, lambda state: {"state": state}])
def test_the_order_of_keys_of_a_checkpoint_is_told(held, nest):
    before, after = nest({"b": held, "a": 2}), nest({"a": 2, "b": held})
    (found,) = diff(checkpoint(before), checkpoint(after)).changes
    assert (found.kind, found.where) == ("attribute order", "")
    orders = [
        [name[-1] for name in side if name[-1] in "ab"] for side in (found.before, found.after)
    ]
    assert orders == [["b", "a"], ["a", "b"]]


def test_a_key_is_no_text_that_looks_like_it():
    before, after = {"state": {0: 1}}, {"state": {"0": 1}}
    (found,) = diff(checkpoint(before), checkpoint(after)).changes
    assert (found.where, found.after) == ("state.<key 0>", "0")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.tied = torch.nn.Linear(3, 3)
        self.tied.weight = self.layer.weight
        self.register_buffer("scale", torch.ones(3), persistent=False)

    def forward(self, x):
        return self.norm(self.tied(self.layer(x))) * self.scale


@pytest.fixture(scope="module")
def net() -> Net:
    return Net().eval()


def files_of(net: Net, folder: Path) -> dict[str, Any]:
    """A model in each format."""
    inputs = (torch.ones(2, 3),)
    tsarchive.save(torch.jit.script(net), folder / "net.pt")
    tsarchive.convert(folder / "net.pt", folder / "net.pt2", args=inputs)
    return {
        "torchscript": folder / "net.pt",
        "converted": folder / "net.pt2",
        "exported": io.BytesIO(export_saved(torch.export.export(net, inputs))),
        "state dict": checkpoint(net.state_dict()),
    }


def test_one_model_in_several_formats_has_the_same_weights(net, tmp_path):
    files = files_of(net, tmp_path)
    report = diff(files["torchscript"], files["converted"])
    assert (report.changes, report.compared) == ([], ("weights", "extra files"))
    report = diff(files["torchscript"], files["exported"])
    assert (report.same, report.not_compared) == (None, ("code", "structure"))
    report = diff(files["torchscript"], files["state dict"])
    assert (report.changes, report.compared) == ([], ("weights",))
    for stream in ("exported", "state dict"):
        files[stream].seek(0)
    assert diff(files["state dict"], files["exported"], only=["weights"]).same


def test_other_weights_are_told_across_formats(net, tmp_path):
    files = files_of(net, tmp_path)
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.norm.weight[1] += 1
    (found,) = diff(files["converted"], checkpoint(other.state_dict())).changes
    assert (found.kind, found.where) == ("tensor values", "norm.weight")
    assert found.values is not None
    assert (found.values.differing, found.values.max_absolute) == (1, 1.0)


@pytest.mark.parametrize("is_after", [True, False])
def test_names_may_stand_below_one_key_of_a_checkpoint(net, is_after):
    """Such as that of a checkpoint with the epoch beside the state dict."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.norm.weight[1] += 1
    module = io.BytesIO(saved(torch.jit.script(net)))
    nested = checkpoint({"model": {"state_dict": other.state_dict()}, "epoch": 3})
    sides = (module, nested) if is_after else (nested, module)
    report = diff(*sides)
    assert report.compared == ("weights",)
    (found,) = report.changes
    place = "model.state_dict.norm.weight" if is_after else "norm.weight"
    assert (found.kind, found.where) == ("tensor values", place)
    (told,) = [change for change in report.packing if change.kind == "prefix of names"]
    prefixes = ("none", "model.state_dict.")
    assert (told.before, told.after) == (prefixes if is_after else prefixes[::-1])


def test_files_with_nothing_in_common_are_not_compared(net):
    module = io.BytesIO(saved(torch.jit.script(net)))
    report = diff(module, checkpoint({"other": torch.ones(1)}))
    assert (report.changes, report.compared, report.same) == ([], (), None)


EXTRA_FILES = {
    "text": (b"one", b"two\n", ("one", "two\n")),
    "added": (None, b"", (None, "")),
    "removed": (b"one", None, ("one", None)),
}


@pytest.mark.parametrize("name", EXTRA_FILES)
def test_short_texts_of_extra_files_are_shown(name):
    before, after, expected = EXTRA_FILES[name]
    sides = ({} if content is None else {"notes": content} for content in (before, after))
    (found,) = extra_file_changes(*sides)
    assert (found.kind, found.where, found.part) == ("extra file", "notes", "extra files")
    assert (found.before, found.after) == expected


@pytest.mark.parametrize("content", [b"\xff", b"\0", b"long" * 100])
def test_other_extra_files_are_told_by_size_and_digest(content):
    (found,) = extra_file_changes({"notes": b"one"}, {"notes": content})
    assert str(found.after).startswith(f"{len(content)} bytes, sha256 ")
    assert str(found.before).startswith("3 bytes, sha256 ")


def packing(before: bytes, after: bytes) -> list[Change]:
    report = diff(io.BytesIO(before), io.BytesIO(after))
    assert report.same
    return report.packing


def test_how_a_file_is_packed_is_no_change(net):
    data = saved(torch.jit.script(net))
    records = records_of(data)
    stored = {change.kind: change for change in packing(data, packed(records))}
    assert stored["compression"].before == "deflated, stored"
    without = {name: content for name, content in records.items() if "debug" not in name}
    found = {change.kind: change for change in packing(packed(records), packed(without))}
    assert found["debug records"].after == 0
    assert {change.part for change in found.values()} == {None}


def test_records_of_one_side_are_told(net):
    records = records_of(saved(torch.jit.script(net)))
    found = packing(packed(records), packed({**records, "unknown.txt": b"text"}))
    assert [(c.kind, c.where, c.before) for c in found] == [("record", "unknown.txt", None)]


class Two(torch.nn.Module):
    def __init__(self, is_tied: bool) -> None:
        super().__init__()
        self.l1, self.l2 = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        torch.nn.init.ones_(self.l1.weight)
        self.l2.weight = self.l1.weight if is_tied else torch.nn.Parameter(torch.ones(2, 2))
        self.l2.bias = self.l1.bias = None

    def forward(self, x):
        return self.l2(self.l1(x))


def test_tensors_that_share_a_storage_on_one_side_are_told():
    files = [io.BytesIO(saved(torch.jit.script(Two(is_tied)))) for is_tied in (True, False)]
    report = diff(*files)
    assert report.same
    (found,) = [change for change in report.packing if change.kind == "tensors in one storage"]
    assert (found.before, found.after) == ("l1.weight = l2.weight", "none")
    (tied,) = {stream.getvalue() for stream in files[:1]}
    assert diff(io.BytesIO(tied), io.BytesIO(tied)).packing == []


def test_formats_are_told(net, tmp_path):
    files = files_of(net, tmp_path)
    found = {c.kind: c for c in diff(files["torchscript"], files["converted"]).packing}
    assert (found["format"].before, found["format"].after) == ("TorchScript", "PT2")


def test_the_command_does_not_call_what_it_cannot_compare_the_same(net, tmp_path):
    module, other = tmp_path / "net.pt", tmp_path / "other.pt"
    module.write_bytes(saved(torch.jit.script(net)))
    other.write_bytes(checkpoint({"other": torch.ones(1)}).read())
    result = run("diff", module, other)
    assert result.exit_code == 2
    assert "have nothing that can be compared" in result.output
    assert run("diff", module, other, "--json").exit_code == 2
