"""``tsarchive info``."""

from __future__ import annotations

import zipfile

import pytest
import torch
from cli_support import SEQUENTIAL, document, run, write_archive
from conftest import ARCHIVES

from tsarchive.cli.operators import native_classes_in, operators_in
from tsarchive.cli.records import GROUPS, group_of

KEYS = {
    "file", "bytes", "kind", "format_version", "root", "byte_order", "serialization_id",
    "compression", "groups", "program", "tensors",
}  # fmt: skip
PROGRAM_KEYS = {
    "main_class", "has_traced_inputs", "modules", "classes", "methods", "functions",
    "native_classes", "operators",
}  # fmt: skip
TENSOR_KEYS = {"count", "parameters", "parameter_elements", "bytes", "dtypes", "devices"}


def test_every_fact_of_a_small_archive():
    facts = document("info", SEQUENTIAL)
    assert facts.keys() == KEYS
    assert facts["program"].keys() == PROGRAM_KEYS
    assert facts["tensors"].keys() == TENSOR_KEYS
    assert (facts["kind"], facts["root"], facts["byte_order"]) == (
        "torchscript", "sequential", "little"
    )  # fmt: skip
    program, tensors = facts["program"], facts["tensors"]
    assert program["main_class"] == "__torch__.fixtures.modules.containers.InSequence"
    assert (program["modules"], program["classes"]) == (5, 5)
    assert program["operators"]["aten::linear"] == 2
    assert program["native_classes"] == []
    assert program["has_traced_inputs"] is False
    assert (tensors["count"], tensors["parameters"], tensors["bytes"]) == (4, 4, 104)
    assert tensors["parameter_elements"] == 26
    assert (tensors["dtypes"], tensors["devices"]) == ({"float32": 4}, {"cpu": 4})


@pytest.mark.parametrize("name", ["sequential", "trace_convolution", "quantized_static_linear"])
def test_sums_agree_with_zipfile(name):
    path = ARCHIVES / f"{name}.pt"
    facts = document("info", path)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    groups = facts["groups"].values()
    assert facts["bytes"] == path.stat().st_size
    assert sum(group["records"] for group in groups) == len(members)
    assert sum(group["bytes"] for group in groups) == sum(m.file_size for m in members)
    assert sum(group["stored_bytes"] for group in groups) == sum(m.compress_size for m in members)
    assert sum(facts["compression"].values()) == len(members)


@pytest.mark.parametrize("name", ["sequential", "shared_child", "two_types_of_one_class"])
def test_figures_agree_with_torch(name):
    path = ARCHIVES / f"{name}.pt"
    module = torch.jit.load(str(path))
    facts = document("info", path)
    assert facts["program"]["modules"] == len(list(module.modules()))
    names = dict(module.named_parameters(remove_duplicate=False))
    assert facts["tensors"]["parameters"] == len(names)
    assert facts["tensors"]["parameter_elements"] == sum(p.numel() for p in names.values())


def test_a_traced_archive_says_so():
    assert document("info", ARCHIVES / "trace_convolution.pt")["program"]["has_traced_inputs"]
    assert "traced" in run("info", ARCHIVES / "trace_convolution.pt").stdout


def test_torchbind_classes_are_named():
    facts = document("info", ARCHIVES / "quantized_static_linear.pt")
    assert facts["program"]["native_classes"] == ["quantized.LinearPackedParamsBase"]


def test_a_file_that_is_no_torchscript(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.ones(2)}, path)
    facts = document("info", path)
    assert (facts["kind"], facts["program"], facts["tensors"]) == ("torch.save", None, None)
    assert "torch.save" in run("info", path).stdout


def test_an_archive_without_version(tmp_path):
    path = write_archive(tmp_path / "a.zip", {"notes.txt": b"hello"})
    facts = document("info", path)
    assert (facts["kind"], facts["format_version"]) == ("zip", None)


def test_text_holds_the_same_figures():
    shown = run("info", SEQUENTIAL).stdout
    for text in ("sequential.pt", "5 modules of 5 classes", "26 elements", "aten::linear 2"):
        assert text in shown


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("_0 = torch.add(x, y)", ["aten::add"]),
        ("torch.add(torch.mul(a, b), c)", ["aten::add", "aten::mul"]),
        ("ops.prim.NumToTensor(1)", ["prim::NumToTensor"]),
        ("ops.torchvision.nms(a, b, 0.5)", ["torchvision::nms"]),
        ("torch.autograd.grad([a], [b])", ["aten::grad"]),
        ('x = "torch.add(1)"', []),
        ('x = "a\\"torch.add(1)"', []),
        ("x = 'torch.add(1)'; torch.sub(a)", ["aten::sub"]),
        ("__torch__.torch.nn.functional.relu(x, )", []),
        ("self.torch.add(x)", []),
        ("mytorch.add(x)", []),
        ("torch.float32", []),
    ],
)
def test_operators_in_text(code, expected):
    assert list(operators_in(code)) == expected


def test_native_classes_in_text():
    code = (
        "p : __torch__.torch.classes.quantized.Conv2dPackedParamsBase\n  x : __torch__.torch.nn.X"
    )
    assert native_classes_in(code) == {"__torch__.torch.classes.quantized.Conv2dPackedParamsBase"}


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("extra/data.pkl", "extra"),
        ("data/0", "tensors"),
        ("data.pkl", "objects"),
        ("code/__torch__/a.py", "code"),
        ("code/__torch__/a.py.debug_pkl", "debug"),
        ("constants/3", "constants"),
        ("constants.pkl", "constants"),
        ("version", "other"),
        (".data/serialization_id", "other"),
        ("traced_inputs.pkl", "other"),
    ],
)
def test_groups_of_records(name, group):
    assert group_of(name) == group
    assert group in GROUPS
