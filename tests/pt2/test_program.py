"""Graphs of exported programs against torch: one row a construct, each exported in two forms.

The graph runs here, and prints as TorchScript code that reads back to the same operators here,
and runs in torch.jit.
"""

from __future__ import annotations

import io

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import tsarchive
from tests.support.features import CHECKS_MATRICES, exports_vmap
from tests.support.pt2_running import (
    argument,
    close,
    expected,
    forms,
    graph_of,
    module_of,
    operators,
    printed,
    run,
    saved_program,
)
from tsarchive.errors import FormatError, UnknownOperatorError, UnsupportedError
from tsarchive.formats.pt2.building import Body, Operators
from tsarchive.ir.graph import Block
from tsarchive.ir.types import FLOAT, INT, TENSOR, ListType, TupleType
from tsarchive.policy import FOR_STRANGERS, Guard, Policy
from tsarchive.run.operators import operator_schemas

TRUSTED = Guard(Policy.trusted())
X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5
INTS = torch.tensor([3, 1, 2])
ANY = {0: Dim.DYNAMIC}

library = torch.library.Library("pt2program", "DEF")
library.define("bump(Tensor(a!) x, Tensor y, int n=2) -> ()")
library.define("bumped(Tensor(a!) x, Tensor y) -> Tensor")
library.define("spread(Tensor(a!)[] xs, Tensor y) -> ()")
library.define(
    "many(Tensor x, Tensor[] ys, int[] k, float f=1.5, str s='a', bool? b=None)"
    " -> (Tensor, Tensor[], Tensor)"
)
library.define(
    "all_kinds(Tensor x, float[] f, Scalar s, ScalarType t, Device d, bool[] b, str[] w,"
    " Tensor? n) -> Tensor"
)


@torch.library.impl(library, "bump", "CompositeExplicitAutograd")
def bump(x, y, n=2):
    x.add_(y * n)


@torch.library.impl(library, "bumped", "CompositeExplicitAutograd")
def bumped(x, y):
    x.add_(y)
    return x + 1


@torch.library.impl(library, "spread", "CompositeExplicitAutograd")
def spread(xs, y):
    for x in xs:
        x.add_(y)


@torch.library.impl(library, "many", "CompositeExplicitAutograd")
def many(x, ys, k, f=1.5, s="a", b=None):
    return x * f, [y + k[0] for y in ys], x + len(s)


@torch.library.impl(library, "all_kinds", "CompositeExplicitAutograd")
def all_kinds(x, f, s, t, d, b, w, n):
    return (x * f[0] * s + len(b) * len(w)).to(t)


torch.library.register_fake("pt2program::bump", lambda x, y, n=2: None, lib=library)
torch.library.register_fake("pt2program::spread", lambda xs, y: None, lib=library)
torch.library.register_fake("pt2program::bumped", lambda x, y: torch.empty_like(x), lib=library)
OWN = torch.ops.pt2program


def bump_copy(x):
    copied = x + 0
    OWN.bump(copied, x)
    return copied


def bump_slice(x):
    copied = x + 0
    OWN.bump(copied[1:2], x[0:1], 3)
    return copied


def spread_copies(x):
    one, other = x + 1, x + 2
    OWN.spread([one, other], x)
    return one, other


def spread_view(x):
    copied = x + 1
    OWN.spread([copied[0]], x[1])
    return copied


def written_lists(x):
    one, other = x + 1, x * 2
    torch._foreach_add_([one, other], 3)
    return one, other


def in_place(x):
    y = x.clone()
    y.add_(1).mul_(2)
    y[0] = 3.0
    y[1, 2:] += 1
    return y.relu_()


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(4, 2)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        y = F.adaptive_avg_pool2d(torch.relu(self.norm(self.convolution(x))), 1).flatten(1)
        self.count += 1
        return self.linear(y) * self.count


def eigenvalues(x):
    square = x @ x.T
    both = *torch.linalg.eigh(square), *torch.linalg.eigh(square, UPLO="U")
    return *both, torch.linalg.eigvalsh(square), torch.linalg.eigvals(square)


def histograms(x):
    points = x.reshape(6, 2)
    edges = [torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 3)]
    by_edges = torch.histogramdd(points, edges, density=True)
    by_counts = torch.histogramdd(points, [2, 3], weight=points[:, 0].abs())
    return by_edges.hist, by_counts.hist, by_counts.bin_edges


def running_statistics(x):
    mean, variance = x[0] * 0, x[0] * 0 + 1
    rest = x[0] + 1, x[1], mean, variance, 0.1, 1e-5
    normal = torch.ops.aten._batch_norm_with_update(x, *rest)[:3]
    return *normal, torch.ops.aten._batch_norm_no_update(x, *rest)[0], mean, variance


ROWS = {
    "arithmetic": (lambda x: (x + 2, 2 - x, x / 3, x // 2, x % 2, -x, x**2, 2**x, x * True), X),
    "comparisons": (lambda x: (x > 0, x <= x.mean(), (x == 0) | (x != 1), ~(x < 0)), X),
    "bools as numbers": (lambda x: ((x > 0) + True, torch.where(x > 0, x > 1, True)), X),
    "numbers as tensors": (lambda x: (5 // x, 0.1 // x.double(), torch.xlogy(2, x + 1)), X),
    "numbers as tensors beside integers": (lambda i: (7 // i, 7.5 // i, 7.5 // i.sum()), INTS),
    "tensors of bools": (lambda x: (torch.full((2,), True), torch.scalar_tensor(True)), X),
    "a tuple of results": (lambda x: (*x.max(1), *torch.var_mean(x), *x.topk(2)), X),
    "a list of results": (lambda x: (*x.split(2, 1), *x.unbind(0), *x.tensor_split(3, 1)), X),
    "unused results": (lambda x: (x.sort(1)[1], x.split(1)[2], torch.aminmax(x)[0]), X),
    "optional tensors": (lambda x: (x[:, [0, 2]], x[[0, 1], [1, 2]], x[x > 0].sum()), X),
    "in place": (in_place, X),
    "dtypes": (lambda x: (x.to(torch.float16), x.long(), x.sum(1, dtype=torch.float64)), X),
    "narrow dtypes": (lambda x: x.to(torch.float8_e4m3fn).to(torch.bfloat16), X),
    "memory formats": (lambda x: torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last), X),
    "devices": (lambda x: torch.zeros(3, device="cpu") + torch.arange(3, device=x.device), X),
    "ranges": (lambda x: (torch.arange(5), torch.arange(1, 9, 2), torch.linspace(0, 1, 3)), X),
    "special numbers": (lambda x: (x.clamp(max=float("inf")) * float("nan"), x + 2.5e-310), X),
    "large integers": (lambda x: x.long() + 2**62, X),
    "complex numbers": (lambda x: x * (1 + 2j) + torch.view_as_complex(x.reshape(6, 2))[0], X),
    "strings": (lambda x: (torch.einsum("ij,kj->ik", x, x), x.div(2, rounding_mode="floor")), X),
    "items": (lambda x: x.sum() * x[0, 0].item() + x[1, 1].item(), X),
    "an integer of a tensor": (lambda i: torch.zeros(4) + i[0].item() * 2, INTS),
    "checked size": (lambda i: (torch._check(i[0].item() < 9), torch.ones(i[0].item()))[1], INTS),
    "normalisation": (lambda x: (F.layer_norm(x, [4]), F.group_norm(x[None], 1), x.softmax(1)), X),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False), X),
    "attention": (lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 1, 3, 4)] * 3), X),
    "interpolation": (lambda x: F.interpolate(x[None, None], scale_factor=2.0, mode="bilinear"), X),
    "windows": (lambda x: (F.unfold(x[None, None], 2), F.max_pool1d(x, 2), F.pad(x, (1, 2))), X),
    "spectra": (lambda x: (torch.fft.rfft(x), torch.fft.rfftn(x, norm="ortho")), X),
    "complex spectra": (lambda x: torch.fft.ifft2(torch.fft.fftn(x, norm="forward")), X),
    "signals of spectra": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=(3, 4)), X),
    "statistics": (lambda x: (x.std(), x.std(1), x.var(1, correction=0), x.std(correction=2)), X),
    "scatter": (lambda x: x.index_put((torch.tensor([0, 1]),), torch.tensor(1.0)), X),
    "quantised": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), X),
    "sparse": (lambda x: x.to_sparse().to_dense(), X),
    "other elements of memory": (lambda x: torch.view_as_real(x.to(torch.complex64)), X),
    "a loop that is no loop": (lambda x: sum(x[:, i] * i for i in range(4)), X),
    "written in a copy": (bump_copy, X),
    "written in a slice": (bump_slice, X),
    "written in a list": (spread_copies, X),
    "written in a view in a list": (spread_view, X),
    "written in lists by torch": (written_lists, X),
    "written with a result": (lambda x: OWN.bumped(x + 0, x), X),
    "results of all kinds": (
        lambda x: [*OWN.many(x, [x, x * 2], [x.shape[1], 4], s="q", b=True)[1]],
        X,
    ),
    "arguments of all kinds": (
        lambda x: OWN.all_kinds(
            x, [1.5, 2.0], 3, torch.float64, x.device, [True], ["a", "b"], None
        ),
        X,
    ),
    "distances": (lambda x: (torch.cdist(x, x), torch.pdist(x)), X),
    "bags": (lambda x: F.embedding_bag(torch.tensor([[0, 1], [2, 0]]), x, mode="sum"), X),
    "pools": (lambda x: F.adaptive_avg_pool2d(x[None], (2, 2)), X),
    "singular values": (lambda x: (*torch.linalg.svd(x, driver=None), torch.linalg.svdvals(x)), X),
    "eigenvalues": (eigenvalues, X),
    "determinants": (lambda x: (torch.det(x @ x.T), *torch.linalg.slogdet(x @ x.T)), X),
    "histograms": (histograms, X),
    "running statistics": (running_statistics, X),
    "sparse rows": (lambda x: x.to_sparse(1).to_dense(), X),
    "batch statistics": (lambda x: F.batch_norm(x, None, None, training=True), X),
    "sizes": (lambda x: x.reshape(-1, x.shape[0]) + x.shape[0] * 2 - x.shape[0] // 2, X, ANY),
    "made of sizes": (lambda x: x.new_zeros(x.size(0) + 1) + torch.arange(x.size(0) + 1), X, ANY),
    "floats of sizes": (lambda x: x * (x.size(0) / 3) + x.size(0) ** 0.5 + x.size(0) ** 2, X, ANY),
    "chosen sizes": (lambda x: x[: max(x.shape[0] // 2, 1)] * min(x.shape[0], 7), X, ANY),
    "mixed sizes": (lambda x: x.expand(2, x.shape[0], 4).reshape(2 * x.shape[0], 4), X, ANY),
    "strides": (lambda x: x.as_strided((2, 2), (x.stride(0), 1), x.storage_offset()), X, ANY),
    "counts": (lambda x: x.sum() / x.numel() + x.t().contiguous().view(x.numel()), X, ANY),
}  # fmt: skip
# Operators of a library, and steps of torch's own that the default policy refuses.
FOREIGN = {name for name in ROWS if name.startswith("written") or "all kinds" in name}
# Its text would mean the overload that takes a size.
WITHOUT_TEXT = {"bits of memory": (lambda x: x.view(torch.int32), X)}


class Calling(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x)


def programs(name):
    call, x, *shapes = {**ROWS, **WITHOUT_TEXT}[name]
    module = call() if isinstance(call, type) else Calling(call)
    return x, forms(module.eval(), (x,), dynamic_shapes=({"x": shapes[0]} if shapes else None))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", {**ROWS, **WITHOUT_TEXT})
def test_graphs_do_what_torch_does(name):
    x, found = programs(name)
    for exported in found:
        guard = TRUSTED if name in FOREIGN else FOR_STRANGERS
        module = module_of(saved_program(exported).graph_module.graph, guard)
        wanted = expected(exported, (x,))
        assert close(run(exported, module, (x,)), wanted)
        if name in WITHOUT_TEXT:
            continue
        data = printed(module)
        again = tsarchive.load(io.BytesIO(data), policy=Policy.trusted())
        assert {*operators(again)} <= {*operators(module), *SAME}
        assert close(run(exported, again, (x,)), wanted)
        assert close(run(exported, torch.jit.load(io.BytesIO(data)), (x,)), wanted)


@exports_vmap
def test_what_is_mapped_over_a_dimension_runs_decomposed():
    """Numbers stand for tensors there where no tensor is near."""
    mapped = Calling(lambda x: torch.func.vmap(lambda row: row.sum() * 2 + row * 1.5)(x))
    exported = torch.export.export(mapped, (X,)).run_decompositions()
    assert "torch.ops.aten._to_copy.default(2" in str(exported.graph_module.code)
    module = module_of(saved_program(exported).graph_module.graph)
    assert close(run(exported, module, (X,)), expected(exported, (X,)))


def test_what_text_cannot_say_is_not_printed():
    _, found = programs("bits of memory")
    with pytest.raises(tsarchive.SaveError, match="the overload dtype, which code cannot say"):
        printed(module_of(saved_program(next(found)).graph_module.graph))


# Without what is left out, their text means these, which do the same.
SAME = {"aten::std", "aten::std_mean", "aten::var", "aten::var_mean", "aten::arange.start"}


def test_modules_are_taken_with_their_state():
    x = torch.randn(2, 3, 5, 5)
    for exported in forms(Network().eval(), (x,)):
        module = module_of(saved_program(exported).graph_module.graph)
        assert close(run(exported, module, (x,)), expected(exported, (x,)))


def tensor(name):
    return argument("as_tensor", name)


ADD = "torch.ops.aten.add.Tensor"
RELU = "torch.ops.aten.relu.default"


def one_node(target, given, outputs, inputs=None):
    return graph_of(inputs or {"x": "as_tensor"}, [(target, given, outputs)], [])


def nodes_of(*rows):
    return graph_of({"x": "as_tensor"}, rows, [])


BROKEN = {
    "a name that is not defined": (nodes_of((RELU, [tensor("y")], [tensor("z")])), "'y' is used"),
    "a name that is defined later": (
        nodes_of((RELU, [tensor("z")], [tensor("y")]), (RELU, [tensor("x")], [tensor("z")])),
        "'z' is used and not defined before",
    ),
    "a node that takes its own result": (
        nodes_of((RELU, [tensor("y")], [tensor("y")])),
        "'y' is used and not defined before",
    ),
    "a name of two results": (
        nodes_of((RELU, [tensor("x")], [tensor("y")]), (RELU, [tensor("x")], [tensor("y")])),
        "'y' is defined twice",
    ),
    "the name of an input": (nodes_of((RELU, [tensor("x")], [tensor("x")])), "'x' is defined"),
    "a number for a tensor": (nodes_of((RELU, [{"as_int": 1}], [tensor("y")])), "no overload of"),
    "a string for a tensor": (
        nodes_of((ADD, [tensor("x"), {"as_string": "x"}], [tensor("y")])),
        "no overload of aten::add takes",
    ),
    "too few arguments": (nodes_of((RELU, [], [tensor("y")])), "no overload of aten::relu"),
    "too many arguments": (
        nodes_of((RELU, [tensor("x"), tensor("x")], [tensor("y")])),
        "aten::relu has no argument 1",
    ),
    "an argument that is unknown": (
        nodes_of((RELU, [("other", tensor("x"))], [tensor("y")])),
        "aten::relu has no argument 'other'",
    ),
    "an argument twice": (
        nodes_of((RELU, [("self", tensor("x")), ("self", tensor("x"))], [tensor("y")])),
        "'self' of aten::relu is given twice",
    ),
    "an argument before one that is missing": (
        nodes_of(("torch.ops.aten.addmm.default", [("mat2", tensor("x"))], [tensor("y")])),
        "the argument 'self' is missing",
    ),
    "too many results": (
        nodes_of((RELU, [tensor("x")], [tensor("y"), tensor("z")])),
        "2 outputs are named, and there are 1 results",
    ),
    "a list where one is": (
        nodes_of((RELU, [tensor("x")], [{"as_tensors": [{"name": "y"}]}])),
        "1 results are named where one Tensor is",
    ),
    "an integer of more than 64 bits": (
        nodes_of((ADD, [tensor("x"), {"as_int": 2**63}], [tensor("y")])),
        "does not fit 64 bits",
    ),
    "a dtype that is none": (
        nodes_of(
            (
                "torch.ops.aten.to.dtype",
                [tensor("x"), {"as_scalar_type": 0}],
                [tensor("y")],
            )
        ),
        "as_scalar_type cannot be UNKNOWN",
    ),
    "no one element": (
        nodes_of(("torch.ops.aten.item.default", [], [argument("as_sym_int", "y")])),
        "takes one tensor, not 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs_are_refused(name):
    graph, message = BROKEN[name]
    with pytest.raises(FormatError, match=message) as caught:
        module_of(graph)
    assert caught.value.record == "models/model.json"
    assert str(caught.value).startswith("node '")


def test_numbers_are_not_lists_of_tensors():
    given = [{"as_tensors": [{"name": "x"}, {"name": "n"}]}]
    graph = one_node(
        "torch.ops.aten.cat.default", given, [tensor("y")], {"x": "as_tensor", "n": "as_sym_int"}
    )
    with pytest.raises(FormatError, match="of type int stands in a list of Tensor"):
        module_of(graph)


def overload_of(target):
    """The operator of torch that a target names."""
    packet, overload = target.removeprefix("torch.ops.aten.").split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


TAKING_A_NUMBER = (
    "add.Tensor", "add.Scalar", "clamp.default", "full_like.default", "pow.Tensor_Scalar",
)  # fmt: skip


@pytest.mark.parametrize("name", TAKING_A_NUMBER)
@pytest.mark.parametrize("number", [2.5, -1.0, 0.0, 3])
def test_literals_that_are_numbers_keep_their_kind(name, number):
    target = f"torch.ops.aten.{name}"
    literal = {"as_int" if isinstance(number, int) else "as_float": number}
    row = (target, [tensor("x"), literal], [tensor("y")])
    module = module_of(graph_of({"x": "as_tensor"}, [row], [tensor("y")]))
    (found,) = module(INTS)
    torch.testing.assert_close(found, overload_of(target)(INTS, number), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("target", "literals"),
    [
        ("torch.ops.aten.select.int", [{"as_float": 1.0}, {"as_int": 0}]),
        ("torch.ops.aten.sum.dim_IntList", [{"as_floats": [1.0]}]),
    ],
)
def test_floats_are_no_integers(target, literals):
    """As in torch, which takes neither, not even where the float is whole."""
    with pytest.raises(FormatError, match=r"int, not float|float stands in a list of int"):
        module_of(one_node(target, [tensor("x"), *literals], [tensor("y")]))
    values = [value for literal in literals for value in literal.values()]
    with pytest.raises(RuntimeError, match="Expected a value of type"):
        overload_of(target)(X, *values)


@pytest.mark.parametrize("dims", [(0,), (0, 1), (1, -2)])
def test_tuples_of_integers_are_lists_to_operators(dims):
    """torch.ops takes the one for the other too, as long as the items are of the type."""
    body = Body(Block(), Operators(operator_schemas))
    given = body.block.add_param(TENSOR, "x")
    items = [body.integer(dim) for dim in dims]
    types = TupleType(tuple(item.type for item in items))
    pair = body.append("prim::TupleConstruct", items, types).output
    made = body.value("aten::sum", given, pair).node.inputs[1].node
    assert (made.kind, made.output.type, list(made.inputs)) == (
        "prim::ListConstruct", ListType(INT), items,
    )  # fmt: skip
    assert torch.equal(torch.ops.aten.sum.dim_IntList(X, dims), X.sum(list(dims)))
    mixed = TupleType((INT, FLOAT))
    other = [body.integer(0), body.constant(1.0, FLOAT)]
    with pytest.raises(FormatError, match="no overload of aten::sum takes"):
        body.value("aten::sum", given, body.append("prim::TupleConstruct", other, mixed).output)


UNKNOWN = {
    "torch.ops.aten.no_such_operator.default": "Another version or build of torch",
    "torch.ops.aten.add.NoSuchOverload": "aten::add.NoSuchOverload is not registered",
    "torch.ops.torchvision.nms.default": "import torchvision",
    "torch.ops.nobody.thing.default": "defines the namespace 'nobody'",
    "#nobody:thing.Tensor": "defines the namespace 'nobody'",
}


@pytest.mark.parametrize("target", UNKNOWN)
def test_operators_that_nobody_registered(target):
    with pytest.raises(UnknownOperatorError) as caught:
        module_of(nodes_of((target, [tensor("x")], [tensor("y")])))
    assert UNKNOWN[target] in str(caught.value)


@pytest.mark.parametrize(
    "target",
    [
        "os.system", "torch.os.system", "torch.load", "builtins.eval", "_operator.getitem",
        "_operator.attrgetter", "math.__loader__", "torch.ops.aten.add.Tensor.x", "",
        "torch._functorch.vmap._add_batch_dim", "torch.ops", "torch.ops.aten",
    ],
)  # fmt: skip
def test_targets_that_are_no_operators(target):
    with pytest.raises(UnsupportedError, match="names no operator"):
        module_of(nodes_of((target, [tensor("x")], [tensor("y")])))


@pytest.mark.parametrize("name", ["TupleIndex", "Uninitialized", "unchecked_cast"])
def test_structure_of_code_is_no_operator(name):
    with pytest.raises(UnsupportedError, match="nothing here stands for"):
        module_of(nodes_of((f"torch.ops.prim.{name}.default", [tensor("x")], [tensor("y")])))


@pytest.mark.parametrize(
    "target",
    [
        "executorch.exir.dialects.edge._ops.aten.relu.default", "#aten:relu.default", "#aten:relu",
        "torch.ops.aten.relu",
    ],
)  # fmt: skip
def test_other_names_of_operators(target):
    graph = graph_of({"x": "as_tensor"}, [(target, [tensor("x")], [tensor("y")])], [tensor("y")])
    assert torch.equal(module_of(graph)(X)[0], X.relu())


def test_the_policy_holds():
    text = {"as_string": "/tmp/x"}
    rows = [("torch.ops.aten.from_file.default", [text], [tensor("y")])]
    graph = graph_of({"x": "as_tensor"}, rows, [tensor("y")])
    module = module_of(graph)
    with pytest.raises(tsarchive.PolicyError, match="aten::from_file"):
        module(X)


def test_names_that_are_no_identifiers():
    names = ["a b", "1", "if", "self", "x.y", "é", "__import__('os')", "torch"]
    pairs = zip(["x", *names[:-1]], names, strict=True)
    rows = [(RELU, [tensor(given)], [tensor(name)]) for given, name in pairs]
    module = module_of(graph_of({"x": "as_tensor"}, rows, [tensor("torch"), tensor("a b")]))
    again = torch.jit.load(io.BytesIO(printed(module)))
    for found in (module(X), again(X)):
        assert torch.equal(found[0], X.relu())


def test_constants_are_one_node_in_a_block():
    rows = [
        (ADD, [tensor("x"), {"as_int": 1}], [tensor("y")]),
        (ADD, [tensor("y"), {"as_int": 1}], [tensor("z")]),
    ]
    class_ = type(module_of(nodes_of(*rows))).tsarchive_class
    block = class_.methods["forward"].graph
    assert len([node for node in block.nodes if node.is_constant]) == 1


def test_errors_show_the_line_of_the_user():
    exported = torch.export.export(Calling(lambda x: x.reshape(2, -1)), (torch.ones(4),))
    module = module_of(saved_program(exported).graph_module.graph)
    with pytest.raises(RuntimeError, match="shape") as caught:
        module(torch.ones(3))
    lines = [str(entry) for entry in caught.traceback]
    assert "test_program.py" in lines[-1]
    assert "self.call(x)" in lines[-1]


def test_lines_of_code_know_where_they_come_from():
    exported = torch.export.export(Network().eval(), (torch.randn(1, 3, 4, 4),))
    class_ = type(module_of(saved_program(exported).graph_module.graph)).tsarchive_class
    places = [
        node.range.location
        for node in class_.methods["forward"].graph.nodes
        if node.schema is not None and node.range is not None
    ]
    assert {place.filename for place in places} == {__file__}
    assert any("self.linear(y)" in place.text for place in places)


def test_equations_are_solved_and_their_errors_told(tmp_path):
    """The check of errors stands among effects, which have an order."""

    class Solving(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.solve(x @ x.T, x)

    program = torch.export.export(Solving(), (X,)).run_decompositions()
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    tsarchive.convert(path, tmp_path / "net.pt")
    modules = tsarchive.load(path), torch.jit.load(tmp_path / "net.pt")
    x = torch.randn(3, 4)
    for module in modules:
        torch.testing.assert_close(module(x), program.module()(x))
        if CHECKS_MATRICES:
            with pytest.raises(Exception, match=r"linalg\.solve"):
                module(torch.zeros(3, 4))
