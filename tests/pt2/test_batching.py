"""What torch.vmap leaves in programs, against torch; and programs that are decomposed instead."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan, generic_associative_scan

import tsarchive
from tests.support.features import stores_vmap
from tests.support.pt2_running import argument, graph_of, module_of
from tsarchive.errors import FormatError, UnsupportedError

X, Y = torch.randn(4, 3), torch.randn(3)
PAIR = torch.randn(2, 4, 3)


def scaled(x):
    return x * 2 + x.sum()


def written(x):
    y = x * 2
    y += x
    y[0] = 1.0
    return y


CALLS = {
    "rows": (lambda x: torch.vmap(scaled)(x), (X,)),
    "columns": (lambda x: torch.vmap(torch.cumsum, (1, None))(x, 0), (X,)),
    "the last dimension": (lambda x: torch.vmap(scaled, in_dims=-1)(x), (X,)),
    "beside others": (lambda x, y: torch.vmap(torch.dot, in_dims=(0, None))(x, y), (X, Y)),
    "from around": (lambda x, y: torch.vmap(lambda row: row * y)(x), (X, Y)),
    "several results": (lambda x: torch.vmap(lambda r: (r.max(), r[None]))(x), (X,)),
    "in each other": (lambda x: torch.vmap(torch.vmap(scaled))(x), (PAIR,)),
    "after each other": (lambda x: torch.vmap(scaled)(torch.vmap(scaled)(x)) + x, (X,)),
    "matrices": (lambda x: torch.vmap(lambda m: m @ m.T)(x), (PAIR,)),
    "written to its own": (lambda x: torch.vmap(written)(x), (X,)),
    "a constant": (lambda x: torch.vmap(lambda row: torch.ones(2))(x), (X,)),
    "a scan": (lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"), (X,)),
    "a scan from the end": (
        lambda x: associative_scan(torch.maximum, x, 1, reverse=True, combine_mode="generic"),
        (X,),
    ),
}


class Model(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *given):
        return self.call(*given)


def exported(call, args, **options):
    return torch.export.export(Model(call), args, **options)


def stored(program, folder):
    path = folder / "net.pt2"
    torch.export.save(program, path)
    return path


def assert_runs(path, args, wanted):
    torch.testing.assert_close(tsarchive.load(path)(*args), wanted)
    tsarchive.convert(path, path.with_suffix(".pt"))
    torch.testing.assert_close(torch.jit.load(path.with_suffix(".pt"))(*args), wanted)


@stores_vmap
@pytest.mark.parametrize("name", CALLS)
def test_batches(name, tmp_path):
    call, args = CALLS[name]
    program = exported(call, args)
    assert_runs(stored(program, tmp_path), args, program.module()(*args))


@stores_vmap
def test_the_size_of_a_batch_may_be_open(tmp_path):
    program = exported(torch.vmap(scaled), (X,), dynamic_shapes=(({0: torch.export.Dim.AUTO},),))
    path = stored(program, tmp_path)
    for size in (2, 7):
        x = torch.randn(size, 3)
        assert_runs(path, (x,), program.module()(x))


REFUSED = {
    "random numbers": (
        lambda x: torch.vmap(lambda r: r + torch.rand(3), randomness="different")(x),
        "random numbers",
    ),
    "written around it": (
        lambda seen, x: torch.vmap(lambda row: row + seen.add_(1))(x),
        "writes to a tensor around it",
    ),
}


@stores_vmap
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_loop_would_do_otherwise_is_refused_and_its_hint_helps(name, tmp_path):
    call, message = REFUSED[name]
    args = (Y, X) if name == "written around it" else (X,)
    program = exported(call, args)
    module = tsarchive.load(stored(program, tmp_path))
    with pytest.raises(UnsupportedError, match=message) as caught:
        module(*copy.deepcopy(args))
    assert "run_decompositions()" in caught.value.hint
    decomposed = program.run_decompositions()
    modules = decomposed.module(), tsarchive.load(stored(decomposed, tmp_path))
    found = []
    for module in modules:
        torch.manual_seed(0)
        found.append(module(*copy.deepcopy(args)))
    torch.testing.assert_close(*found)


PREFIX = "torch._functorch.predispatch."
BEGIN = (
    f"{PREFIX}_vmap_increment_nesting", [{"as_int": 4}, {"as_string": "error"}], [],
)  # fmt: skip
ROW = (
    f"{PREFIX}_add_batch_dim",
    [argument("as_tensor", "x"), {"as_int": 0}, {"as_int": 1}],
    [argument("as_tensor", "row")],
)
REST = (
    f"{PREFIX}_remove_batch_dim",
    [argument("as_tensor", "row"), {"as_int": 1}, {"as_int": 4}, {"as_int": 0}],
    [argument("as_tensor", "y")],
)
END = (f"{PREFIX}_vmap_decrement_nesting", [], [])


@pytest.mark.parametrize(
    ("nodes", "output", "error"),
    [
        ([BEGIN, ROW, REST], "y", FormatError),
        ([ROW], "row", FormatError),
        ([END], "x", FormatError),
        ([BEGIN, ROW, REST, END], "row", FormatError),
        ([BEGIN, BEGIN, ROW, END, REST, END], "y", FormatError),
        ([BEGIN, BEGIN, ROW, REST, END, END], "y", FormatError),
        ([(f"{PREFIX}_jvp_increment_nesting", [], [])], "x", UnsupportedError),
    ],
    ids=["no end", "no batch", "an end", "used after", "twice", "inner alone", "other"],
)
def test_broken_batches(nodes, output, error):
    graph = graph_of({"x": "as_tensor"}, nodes, [argument("as_tensor", output)])
    with pytest.raises(error):
        module_of(graph)(X)


def test_a_batch_by_hand():
    along = (REST[0], [*REST[1][:3], {"as_int": 1}], REST[2])
    for last, wanted in ((REST, X), (along, X.T)):
        graph = graph_of({"x": "as_tensor"}, [BEGIN, ROW, last, END], [argument("as_tensor", "y")])
        assert torch.equal(module_of(graph)(X)[0], wanted)


def test_the_operator_of_scans():
    """torch makes it for GPUs alone."""
    inner = {
        "inputs": [argument("as_tensor", "a"), argument("as_tensor", "b")],
        "outputs": [argument("as_tensor", "c")],
        "nodes": [
            {
                "target": "torch.ops.aten.add.Tensor",
                "inputs": [
                    {"name": "self", "arg": argument("as_tensor", "a")},
                    {"name": "other", "arg": argument("as_tensor", "b")},
                ],
                "outputs": [argument("as_tensor", "c")],
                "metadata": {},
            }
        ],
        "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
    }  # fmt: skip
    scan = (
        "torch.ops.higher_order.associative_scan",
        [
            {"as_graph": {"name": "combine", "graph": inner}},
            {"as_tensors": [{"name": "x"}]},
            {"as_tensors": []},
        ],
        [{"as_tensors": [{"name": "y"}]}],
    )
    graph = graph_of({"x": "as_tensor"}, [scan], [argument("as_tensor", "y")])
    (wanted,) = generic_associative_scan(lambda a, b: (a + b,), (X,))
    torch.testing.assert_close(module_of(graph)(X)[0], wanted)
