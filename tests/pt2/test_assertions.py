"""What programs assert stops them as it stops torch, here and in the code that is printed."""

from __future__ import annotations

import pytest
import torch

import tsarchive
from tests.support.archives import TORCH
from tests.support.features import CHECKS_MATRICES
from tests.support.pt2_running import argument, forms, graph_of, module_of

ROWS = {
    "message": (lambda x: (torch._assert_async((x < 9).all(), "too large"), x)[1] + 1, 2.0, 10.0),
    "number": (lambda x: (torch._check(x.item() < 9), x + 1)[1], 2, 10),
    "size": (lambda x: (torch._check(x.item() < 9), torch.ones(x.item()))[1], 2, -1),
    "dtype": (lambda x: x.to(torch.int32), 2.0, torch.tensor(2.0, dtype=torch.float64)),
    "matrix": (lambda x: torch.linalg.cholesky(x), torch.eye(2), torch.zeros(2, 2)),
}


# What programs of an older torch do not check.
STOPS = {"matrix": CHECKS_MATRICES, "dtype": TORCH >= (2, 8)}


class Calling(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [name for name in ROWS if STOPS.get(name, True)])
def test_programs_stop_where_torch_does(name, tmp_path):
    call, *given = ROWS[name]
    good, bad = map(torch.as_tensor, given)
    file, script = tmp_path / "model.pt2", tmp_path / "model.pt"
    for exported in forms(Calling(call), (good,)):
        torch.export.save(exported, file)
        tsarchive.convert(file, script)
        for runner in (exported.module(), tsarchive.load(file), torch.jit.load(script)):
            assert torch.equal(runner(good), call(good))
            with pytest.raises((RuntimeError, torch.jit.Error)):
                runner(bad)


def test_the_message_is_that_of_the_program(tmp_path):
    call, good, bad = ROWS["message"]
    torch.export.save(torch.export.export(Calling(call), (torch.tensor(good),)), tmp_path / "a.pt2")
    ours = tsarchive.load(tmp_path / "a.pt2")
    with pytest.raises(RuntimeError, match="too large"):
        ours(torch.tensor(bad))


INPUT = [("", argument("as_tensor", "x"))]


@pytest.mark.parametrize(
    ("name", "given", "wrong"),
    [
        ("size", {"as_ints": [2, 3]}, torch.ones(3, 2)),
        ("stride", {"as_ints": [3, 1]}, torch.ones(3, 2).t()),
        ("dtype", {"as_scalar_type": 7}, torch.ones(2, 3).double()),
        ("device", {"as_device": {"type": "cpu", "index": None}}, torch.ones(2, 3, device="meta")),
        ("layout", {"as_layout": 7}, torch.ones(2, 3).to_sparse()),
    ],
)
def test_each_property_of_a_tensor_is_asserted(name, given, wrong):
    nodes = [("torch.ops.aten._assert_tensor_metadata.default", [*INPUT, (name, given)], [])]
    module = module_of(graph_of({"x": "as_tensor"}, nodes, [argument("as_tensor", "x")]))
    right = torch.ones(2, 3)
    assert module(right)[0] is right
    with pytest.raises(RuntimeError, match=f"of another {name}"):
        module(wrong)


@pytest.mark.parametrize(
    ("target", "bounds", "right", "wrong"),
    [
        ("sym_constrain_range", {"min": 2}, 2, 1),
        ("sym_constrain_range", {"max": 5}, -5, 6),
        ("sym_constrain_range_for_size", {"max": 5}, 0, -1),
    ],
)
def test_ranges_of_numbers_are_asserted(target, bounds, right, wrong):
    given = [("size", argument("as_sym_int", "n"))]
    given += [(name, {"as_int": bound}) for name, bound in bounds.items()]
    nodes = [(f"torch.ops.aten.{target}.default", given, [])]
    module = module_of(graph_of({"n": "as_sym_int"}, nodes, [argument("as_sym_int", "n")]))
    assert module(right) == (right,)
    with pytest.raises(RuntimeError, match="than the program was exported for"):
        module(wrong)


def test_assertions_without_a_message():
    nodes = [("torch.ops.aten._assert_async.default", [("self", argument("as_tensor", "x"))], [])]
    module = module_of(graph_of({"x": "as_tensor"}, nodes, []))
    assert module(torch.tensor(True)) == ()
    with pytest.raises(RuntimeError, match="must hold a true value"):
        module(torch.tensor(False))


def test_functional_assertions_give_their_token():
    given = [
        ("self", argument("as_tensor", "x")),
        ("assert_msg", {"as_string": "no"}),
        ("dep_token", argument("as_tensor", "t")),
    ]
    target = "torch.ops.aten._functional_assert_async.msg"
    nodes = [(target, given, [argument("as_tensor", "after")])]
    inputs = {"x": "as_tensor", "t": "as_tensor"}
    module = module_of(graph_of(inputs, nodes, [argument("as_tensor", "after")]))
    token = torch.ones(1)
    assert torch.equal(module(torch.tensor(True), token)[0], token)
    with pytest.raises(RuntimeError, match="no"):
        module(torch.tensor(False), token)


def test_exporting_again_keeps_assertions(tmp_path):
    call, good, bad = ROWS["size"]
    exported = torch.export.export(Calling(call), (torch.tensor(good),))
    torch.export.save(exported, tmp_path / "model.pt2")
    given = (torch.tensor(good),)
    again = tsarchive.to_exported_program(tsarchive.load(tmp_path / "model.pt2"), given).module()
    assert torch.equal(again(*given), torch.ones(good))
    for wrong in (bad, 10):
        with pytest.raises(RuntimeError):
            again(torch.tensor(wrong))
