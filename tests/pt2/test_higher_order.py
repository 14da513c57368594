"""Operators that take graphs or other operators, against torch; and such graphs that are broken."""

from __future__ import annotations

import io
import re

import pytest
import torch
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.invoke_subgraph import mark_compile_region
from torch._higher_order_ops.strict_mode import strict_mode
from torch.export import Dim
from torch.utils.checkpoint import checkpoint

import tsarchive
from tests.support.archives import TORCH
from tests.support.features import exports_loops
from tests.support.pt2_running import (
    argument,
    close,
    expected,
    forms,
    graph_of,
    module_of,
    printed,
    run,
    saved_program,
)
from tsarchive.errors import FormatError, UnsupportedError

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5
Y0 = torch.arange(4.0)
YES, NO = torch.tensor(True), torch.tensor(False)
ZERO = torch.tensor(0)
DYNAMIC = {0: Dim.DYNAMIC}


class Model(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, *given):
        return self.call(self, *given)


def nested(m, p, x):
    def inner(x):
        return torch.cond(x.sum() > 0, lambda x: m.linear(x), lambda x: x + 1, (x,))

    return torch.cond(p, inner, lambda x: x.cos(), (x,))


def without_grad(m, x):
    with torch.no_grad():
        y = m.linear(x)
    with torch.no_grad(), torch.enable_grad():
        z = m.linear(y)
    return y, z, m.linear(x)


def cast(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m.linear(x)
    with torch.autocast("cpu", enabled=False):
        return m.linear(x), y.float().sum() * 0


@mark_compile_region
def region(x):
    return x.sin() + 1


ROWS = {
    "a condition": (
        lambda m, p, x: torch.cond(p, lambda x: (-x, m.linear(x)), lambda x: (x * 2, x + 1), (x,)),
        (YES, X),
    ),
    "the other branch": (
        lambda m, p, x: torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,)),
        (NO, X),
    ),
    "conditions in conditions": (nested, (YES, X)),
    "a condition on a size": (
        lambda m, x: torch.cond(x.shape[0] > 2, lambda x: x.sin(), lambda x: x.cos(), (x,)),
        (X,),
        DYNAMIC,
    ),
    "a loop": (
        lambda m, i, x: while_loop(
            lambda i, x: i < 5, lambda i, x: (i + 1, m.linear(x).tanh()), (i, x)
        ),
        (ZERO, X),
    ),
    "a loop without turns": (
        lambda m, i, x: while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x * 2), (i, x)),
        (ZERO, X),
    ),
    "a map": (lambda m, xs, y: mapped(lambda x, y: (x + y, {"a": x * y}), xs, y), (X, Y0)),
    "a map over a tree": (
        lambda m, x, y: mapped(lambda x, y: x["a"][0] * y + x["a"][1], {"a": [x, x * 2]}, y),
        (X, Y0),
    ),
    "a scan": (
        lambda m, xs: scan(lambda c, x: (c + x, [c * x, x.sin()]), torch.zeros(4), xs),
        (X,),
    ),
    "a scan from the end": (
        lambda m, xs: scan(lambda c, x: (c + x, c * x), torch.zeros(3), xs, reverse=True, dim=1),
        (X,),
    ),
    "a scan over any size": (
        lambda m, xs: scan(lambda c, x: (c + x, m.linear(x)), torch.zeros(4), xs),
        (X,),
        DYNAMIC,
    ),
    "without gradients": (without_grad, (X,)),
    "casts": (cast, (X,)),
    "a region": (lambda m, x: region(x) * region(x + 1), (X,)),
    "a checkpoint": (
        lambda m, x: checkpoint(lambda x: m.linear(x).sin(), x, use_reentrant=False),
        (X,),
    ),
    "strictness": (lambda m, x: strict_mode(lambda x: x.sin() + 1, (x,)), (X,)),
}  # fmt: skip
LOOPS = re.compile(r"a (scan|loop|map)\b.*")
"""What torch 2.7 and older do not export, or as operators with other arguments."""
EXPORTED = [name for name in ROWS if TORCH >= (2, 8) or not LOOPS.match(name)]


def programs(name):
    call, given, *shapes = ROWS[name]
    options = {"dynamic_shapes": ((shapes[0],),)} if shapes else {}
    return given, forms(Model(call), given, **options)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", [name for name in ROWS if TORCH >= (2, 8) or not LOOPS.match(name)]
)
def test_graphs_do_what_torch_does(name):
    given, found = programs(name)
    for exported in found:
        module = module_of(saved_program(exported).graph_module.graph)
        wanted = expected(exported, given)
        results = run(exported, module, given)
        assert close(results, wanted)
        data = printed(module)
        for again in (tsarchive.load(io.BytesIO(data)), torch.jit.load(io.BytesIO(data))):
            assert close(run(exported, again, given), wanted)


def test_gradients_are_off_where_they_were():
    given, found = programs("without gradients")
    exported = next(found)
    module = module_of(saved_program(exported).graph_module.graph)
    wanted = [result.requires_grad for result in expected(exported, given)]
    assert wanted == [False, True, True]
    assert [result.requires_grad for result in run(exported, module, given)] == wanted
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("condition", [True, False])
def test_both_branches(condition):
    exported = torch.export.export(Model(ROWS["the other branch"][0]), ROWS["the other branch"][1])
    given = (torch.tensor(condition), X)
    module = module_of(saved_program(exported).graph_module.graph)
    assert close(run(exported, module, given), expected(exported, given))


@exports_loops
def test_scans_of_other_sizes():
    _, found = programs("a scan over any size")
    for exported in found:
        module = module_of(saved_program(exported).graph_module.graph)
        for rows in (2, 7):
            given = (torch.ones(rows, 4),)
            assert close(run(exported, module, given), expected(exported, given))
        assert run(exported, module, (torch.ones(1, 4),))[0].tolist() == [1.0] * 4


@exports_loops
def test_a_loop_without_turns_gives_copies():
    exported = torch.export.export(Model(ROWS["a loop without turns"][0]), (ZERO, X))
    module = module_of(saved_program(exported).graph_module.graph)
    x = X.clone()
    *state, _, _ = [torch.empty(0)] * len(exported.graph_signature.input_specs)
    module(*state, ZERO, x)[1].zero_()
    assert torch.equal(x, X)


def tensor(name):
    return argument("as_tensor", name)


def tensors(*names):
    return {"as_tensors": [{"name": name} for name in names]}


def graph(inputs, rows, outputs):
    """A graph as an argument."""

    def node(target, given, results):
        pairs = [{"name": "", "arg": one} for one in given]
        return {"target": target, "inputs": pairs, "outputs": results, "metadata": {}}

    found = {
        "inputs": [tensor(name) for name in inputs],
        "nodes": [node(*row) for row in rows],
        "outputs": outputs,
        "tensor_values": {},
        "sym_int_values": {},
        "sym_bool_values": {},
    }
    return {"as_graph": {"name": "inner", "graph": found}}


RELU = "torch.ops.aten.relu.default"
HOP = "torch.ops.higher_order."
SAME = graph(["a"], [], [tensor("a")])
RELUS = graph(["a"], [(RELU, [tensor("a")], [tensor("b")])], [tensor("b")])
N = argument("as_sym_int", "n")
COUNT = graph(["a"], [("torch.ops.aten.numel.default", [tensor("a")], [N])], [N])
NOTHING = graph(["a"], [], [])
OUTSIDE = graph(["a"], [(RELU, [tensor("x")], [tensor("b")])], [tensor("b")])
CYCLE = graph(["a"], [(RELU, [tensor("b")], [tensor("b")])], [tensor("b")])
Y, GIVEN = [tensor("y")], tensors("x")
BROKEN = {
    "no branches": (f"{HOP}cond", [tensor("x")], Y, "argument 1 is missing|argument 3 is missing"),
    "a branch that is no graph": (
        f"{HOP}cond", [tensor("x"), tensor("x"), SAME, GIVEN], Y, "is as_tensor, not as_graph",
    ),
    "branches of other counts": (
        f"{HOP}cond", [tensor("x"), SAME, NOTHING, GIVEN], Y, "branches give 1 and 0 results",
    ),
    "branches of other types": (
        f"{HOP}cond", [tensor("x"), SAME, COUNT, GIVEN], Y, "Tensor in one branch and int in the",
    ),
    "a condition that is none": (
        f"{HOP}cond", [{"as_string": "x"}, SAME, SAME, GIVEN], Y, "a condition cannot be a str",
    ),
    "many conditions": (
        f"{HOP}cond", [tensors("x", "x"), SAME, SAME, GIVEN], Y, "2 conditions, not 1",
    ),
    "inputs of other counts": (
        f"{HOP}cond", [tensor("x"), SAME, SAME, tensors("x", "x")], Y, "1 inputs and is given 2",
    ),
    "a name of the graph around": (
        f"{HOP}cond", [tensor("x"), OUTSIDE, SAME, GIVEN], Y, "'x' is used and not defined",
    ),
    "a graph that takes its own result": (
        f"{HOP}cond", [tensor("x"), CYCLE, SAME, GIVEN], Y, "'b' is used and not defined",
    ),
    "more results than there are": (
        f"{HOP}cond", [tensor("x"), SAME, SAME, GIVEN], [tensors("y", "z")], "2 outputs are named",
    ),
    "a loop that changes a type": (
        f"{HOP}while_loop", [SAME, COUNT, GIVEN, tensors()], Y, "carried Tensor becomes a int",
    ),
    "a loop that carries less": (
        f"{HOP}while_loop", [SAME, NOTHING, GIVEN, tensors()], Y, "takes 1 inputs and is given 0",
    ),
    "a loop without a condition": (
        f"{HOP}while_loop", [NOTHING, SAME, GIVEN, tensors()], Y, "0 conditions, not 1",
    ),
    "a map over nothing": (
        f"{HOP}map_impl", [SAME, tensors(), tensors()], Y, "goes over no tensors",
    ),
    "a map of numbers": (
        f"{HOP}map_impl", [COUNT, GIVEN, tensors()], Y, "no overload of aten::append",
    ),
    "a scan that gives less": (
        f"{HOP}scan", [NOTHING, GIVEN, GIVEN, tensors()], Y, "takes 1 inputs and is given 2",
    ),
    "a mode that is no bool": (
        f"{HOP}wrap_with_set_grad_enabled", [{"as_int": 1}, SAME, tensor("x")], Y, "not as_bool",
    ),
    "a device that is no text": (
        f"{HOP}wrap_with_autocast",
        [{"as_int": 1}, {"as_none": True}, {"as_bool": True}, {"as_none": True}, SAME, tensor("x")],
        Y, "does not take these arguments",
    ),
    "an operator that is no text": (
        f"{HOP}with_effects", [tensor("x"), {"as_int": 1}], Y, "not as_operator",
    ),
    "a method of a tensor": (
        f"{HOP}call_torchbind", [tensor("x"), {"as_string": "f"}], Y, "a Tensor has no method 'f'",
    ),
    "bases that are missing": (
        f"{HOP}auto_functionalized_v2", [{"as_operator": RELU}], Y, "'_all_bases' is missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs_are_refused(name):
    target, given, outputs, message = BROKEN[name]
    with pytest.raises(FormatError, match=message) as caught:
        module_of(graph_of({"x": "as_tensor"}, [(target, given, outputs)], []))
    assert caught.value.record == "models/model.json"


@pytest.mark.parametrize("name", ["no_such", "out_dtype", "flex_attention", "__class__", ""])
def test_what_nothing_stands_for(name):
    with pytest.raises(UnsupportedError, match="nothing here stands for") as caught:
        module_of(graph_of({"x": "as_tensor"}, [(f"{HOP}{name}", [tensor("x")], Y)], []))
    assert f"({HOP}{name})" in str(caught.value)


def test_effects_of_operators_of_higher_order_are_refused():
    given = [tensor("x"), {"as_operator": f"{HOP}print"}, {"as_string": "x"}]
    with pytest.raises(UnsupportedError, match=r"higher_order\.print"):
        module_of(graph_of({"x": "as_tensor"}, [(f"{HOP}with_effects", given, Y)], []))


def deep(levels):
    inner = RELUS
    for _ in range(levels):
        rows = [(f"{HOP}cond", [tensor("a"), inner, inner, tensors("a")], [tensor("b")])]
        inner = graph(["a"], rows, [tensor("b")])
        inner["as_graph"]["graph"]["nodes"][0]["inputs"][2]["arg"] = SAME
    return graph_of({"x": "as_tensor"}, [(f"{HOP}wrap", [inner, tensor("x")], Y)], Y)


def test_graphs_in_graphs():
    assert torch.equal(module_of(deep(20))(torch.ones(()))[0], torch.ones(()))


def test_graphs_stand_in_each_other_a_few_times_only():
    with pytest.raises(UnsupportedError, match="too deeply"):
        module_of(deep(60))


def test_a_graph_that_many_nodes_share():
    rows = [
        (f"{HOP}wrap", [RELUS, tensor(given)], [tensor(name)])
        for given, name in (("x", "y"), ("y", "z"))
    ]
    module = module_of(graph_of({"x": "as_tensor"}, rows, [tensor("z")]))
    assert torch.equal(module(X)[0], X.relu())


def test_a_token_is_passed_on():
    given = [tensor("x"), {"as_operator": RELU}, tensor("x")]
    rows = [(f"{HOP}with_effects", given, [tensor("token"), tensor("y")])]
    module = module_of(graph_of({"x": "as_tensor"}, rows, [tensor("token"), tensor("y")]))
    token, result = module(X)
    assert token is X
    assert torch.equal(result, X.relu())
