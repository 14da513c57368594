"""``tsarchive tree``."""

from __future__ import annotations

import pytest
import torch

from tests.support.archives import ARCHIVES
from tests.support.command_line import SEQUENTIAL, document, run, write_archive
from tsarchive.pickler import Global, Object, Reduce, dumps

KEYS = {
    "name", "class", "methods", "parameters", "nbytes", "total_parameters", "total_nbytes",
    "children",
}  # fmt: skip


def flat(node, prefix=""):
    name = f"{prefix}{node['name']}"
    yield name, node
    for child in node["children"]:
        yield from flat(child, f"{name}." if name else "")


@pytest.mark.parametrize("name", ["sequential", "two_types_of_one_class", "hook_of_child"])
def test_the_tree_is_that_of_torch(name):
    path = ARCHIVES / f"{name}.pt"
    expected = dict(torch.jit.load(str(path)).named_modules())
    found = dict(flat(document("tree", path)["root"]))
    assert found.keys() == expected.keys()
    for key, node in found.items():
        assert node.keys() == KEYS
        module = expected[key]
        assert node["parameters"] == sum(p.numel() for p in module.parameters(recurse=False))
        assert node["total_parameters"] == sum(p.numel() for p in module.parameters())
        assert "forward" in node["methods"]


def test_depth_ends_the_listing():
    assert document("tree", SEQUENTIAL, "--depth", 0)["root"]["children"] is None
    (layers,) = document("tree", SEQUENTIAL, "--depth", 1)["root"]["children"]
    assert (layers["name"], layers["children"]) == ("layers", None)
    assert layers["total_parameters"] == 26
    deep = document("tree", SEQUENTIAL, "--depth", 9)
    assert deep["root"] == document("tree", SEQUENTIAL)["root"]


def test_text_has_one_line_per_module():
    lines = run("tree", SEQUENTIAL).stdout.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("(root)  __torch__.fixtures.modules.containers.InSequence")
    assert [line.split()[-1] for line in lines[2:]] == ["forward"] * 3
    assert "16 parameters, 64 bytes" in lines[2]
    assert len(run("tree", SEQUENTIAL, "--depth", 1).stdout.splitlines()) == 2


def test_signatures_on_request():
    signature = "forward(input: Tensor) -> Tensor"
    lines = run("tree", SEQUENTIAL, "--signatures").stdout.splitlines()
    assert [line.endswith(signature) for line in lines[2:]] == [True] * 3
    root = document("tree", SEQUENTIAL, "--signatures")["root"]
    assert root["methods"] == ["forward(x: Tensor) -> Tensor"]
    assert root["children"][0]["children"][0]["methods"] == [signature]


def test_a_method_that_does_not_say_what_it_gives(tmp_path):
    """Its result is that of an operator, and operators are known to torch."""
    records = {
        "data.pkl": dumps(Object(Global("__torch__", "Net"), {})),
        "code/__torch__.py": b"class Net(Module):\n"
        b"  def a(self: __torch__.Net, x: Tensor, y: int=2, z: List[int]=[1]):\n"
        b"    return torch.add(x, y)\n"
        b"  def b(self: __torch__.Net, x: Tensor, y: int=2, z: List[int]=[1]):\n"
        b"    return y\n",
        "constants.pkl": dumps(()),
        "version": b"3",
    }
    path = write_archive(tmp_path / "a.pt", records)
    assert document("info", path)["program"]["signatures"] == [
        "a(...)", "b(x: Tensor, y: int=2, z: List[int]=...) -> int"
    ]  # fmt: skip


def test_a_shared_module_appears_in_both_places():
    names = [name for name, _ in flat(document("tree", ARCHIVES / "shared_child.pt")["root"])]
    module = torch.jit.load(str(ARCHIVES / "shared_child.pt"))
    assert names == [name for name, _ in module.named_modules(remove_duplicate=False)]


def test_signatures_with_constant_tensors_as_defaults(tmp_path):
    code = (
        b"class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
        b"  def forward(self: __torch__.M,\n    h: Tensor=CONSTANTS.c0,\n    n: int=1) -> Tensor:\n"
        b"    return h\n"
    )
    tensor = Reduce(Global("torch._utils", "_rebuild_tensor_v2"), ())
    records = {
        "data.pkl": dumps(Object(Global("__torch__", "M"), {"training": False})),
        "code/__torch__.py": code,
        "constants.pkl": dumps((tensor,)),
        "version": b"3\n",
    }
    name = write_archive(tmp_path / "defaults.pt", records)
    shown = run("tree", "--signatures", name).stdout
    assert "forward(h: Tensor=..., n: int=1) -> Tensor" in shown
