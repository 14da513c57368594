"""Which operators run through Python bindings of torch, and that those are the same operators."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.archives import TORCH
from tests.support.comparing import equal
from tests.support.running import scripted, source, trusting
from tsarchive.adopt.torch_jit import adopt_function
from tsarchive.errors import ScriptError
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import FLOAT, INT, TENSOR, ListType, OptionalType
from tsarchive.operators.python_forms import NUMBERS_AS_TENSORS
from tsarchive.policy import Guard, Limits, Policy
from tsarchive.run import direct
from tsarchive.run.calls_from_python import public_function
from tsarchive.run.classes import Classes
from tsarchive.run.direct import signatures_of
from tsarchive.run.operators import operator_schemas

FEWEST = 900
LIMITED = Guard(Policy.trusted(), Limits(seconds=1000))
BINDING_TYPES = (types.BuiltinFunctionType, types.MethodDescriptorType)


def bound() -> Iterator[FunctionSchema]:
    """The overloads that may run through a binding."""
    for name in dict.fromkeys(schema.name for schema in torch._C._jit_get_all_schemas()):
        yield from (schema for schema in operator_schemas(name) if direct.binding_of(schema))


def test_most_operators_have_a_binding_with_their_signature():
    assert len(list(bound())) > FEWEST


def signatures(binding, *named: str) -> list[str]:
    return [
        ", ".join(f"{p.type} {p.name}" + "?" * p.has_default for p in (*s.positional, *s.named))
        for s in signatures_of(binding, named)
    ]


def test_bindings_tell_their_signatures_in_order():
    assert signatures(torch._C.TensorBase.view) == [
        "Tensor self, torch.dtype dtype",
        "Tensor self, tuple of ints size",
    ]
    assert signatures(torch._C._VariableFunctions.relu) == ["Tensor input"]
    assert signatures(torch._C._nn.gelu, "approximate") == ["Tensor input, str approximate?"]


def schema_of(name: str) -> FunctionSchema:
    known = operator_schemas(name.partition(".")[0])
    return next(schema for schema in known if schema.full_name == name)


OPTIONAL = OptionalType(TENSOR)
# An overload, types of arguments, and whether its binding leaves no other choice.
CHOICES = [
    ("aten::relu", [TENSOR], True),
    ("aten::relu", [OPTIONAL], False),
    ("aten::add.Tensor", [TENSOR, TENSOR], True),
    ("aten::add.Tensor", [TENSOR, TENSOR, FLOAT], True),
    ("aten::add.Tensor", [TENSOR, OPTIONAL], False),
    ("aten::eq.Scalar", [TENSOR, INT], True),  # the signature for tensors takes no numbers
    ("aten::masked_fill.Scalar", [TENSOR, TENSOR, FLOAT], True),
    ("aten::max.dim", [TENSOR, INT], True),
    ("aten::softmax.int", [TENSOR, INT], True),
    ("aten::softmax.int", [TENSOR, INT, INT], False),  # the number of a dtype is none
    ("aten::max.other", [TENSOR, TENSOR], True),
    ("aten::view", [TENSOR, ListType(INT)], True),
    ("aten::index_fill.int_Scalar", [TENSOR, INT, TENSOR, FLOAT], True),
    ("aten::full_like", [TENSOR, INT], True),
    *((f"aten::{kind}_like", [TENSOR], True) for kind in ("empty", "ones", "zeros")),
    *((f"aten::{kind}_like", [TENSOR], False) for kind in ("rand", "randn")),
]


@pytest.mark.parametrize(("name", "given", "certain"), CHOICES, ids=str)
def test_what_leaves_no_other_choice(name, given, certain):
    assert direct.is_certain(schema_of(name), given) is certain


@pytest.mark.parametrize("words", ["", "relu() has got too much", "relu(): but expected (magic)"])
def test_a_torch_that_speaks_otherwise_has_no_bindings(words, monkeypatch):
    monkeypatch.setattr(direct, "_bindings", {})
    monkeypatch.setattr(direct, "_certain", {})
    monkeypatch.setattr(direct, "_error", lambda *_args, **_named: words)
    schema = schema_of("aten::relu")
    assert direct.binding_of(schema) is None
    assert not direct.is_certain(schema, [TENSOR])


def test_a_binding_that_takes_anything_is_none():
    assert signatures_of(lambda *given: given, ()) == ()
    assert signatures_of((1).__truediv__, ()) == ()


def test_bindings_take_numbers_for_tensors_where_the_table_says_so():
    schemas = {schema.name: schema for schema in bound() if not is_in_place_or_random(schema)}
    wrong, tried = [], 0
    for name, schema in schemas.items():
        binding = direct.checked_binding(schema)
        found = signatures_of(binding, ()) if isinstance(binding, BINDING_TYPES) else ()
        if len(found) == 1 and [p.type for p in found[0].positional] == ["Tensor", "Tensor"]:
            tried += 1
            if takes_number(binding) is not (name in NUMBERS_AS_TENSORS):
                wrong.append(name)
    assert tried > 40
    assert wrong == []


def is_in_place_or_random(schema: FunctionSchema) -> bool:
    return any(argument.is_write for argument in schema.arguments)


def takes_number(binding: Callable[..., Any]) -> bool:
    try:
        binding(torch.ones(2, 2), 1)
    except TypeError as error:
        return "must be Tensor, not int" not in str(error)
    except RuntimeError:
        pass  # it was taken, and refused by the operator
    return True


NUMBER_CALLS = [
    *((f"aten::{name}.Scalar", (1,)) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    ("aten::eq.Scalar", (0.5,)), ("aten::pow.Tensor_Scalar", (2,)),
    ("aten::remainder.Scalar", (2,)), ("aten::fmod.Scalar", (2.5,)),
    ("aten::max.dim", (0,)), ("aten::min.dim", (1, True)), ("aten::masked_fill.Scalar", (0.5,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given"), NUMBER_CALLS, ids=str)
def test_numbers_choose_their_overload(name, given):
    binding = direct.checked_binding(schema_of(name))
    tensors = [torch.ones(2, 2)]
    if name == "aten::masked_fill.Scalar":
        tensors.append(torch.ones(2, 2) > 0)
    with Recording() as mode:
        binding(*tensors, *given)
    assert mode.names == [name]


# A function body, and the names of the operators in it that are called by their overload.
CALLS = [
    ("return torch.relu(x)", ""),
    ("return torch.add(x, x)", ""),
    ("return torch.add(x, x, alpha=2)", ""),
    ("return torch.add(x, 1)", "add"),
    ("return torch.eq(x, x)", ""),
    ("return torch.eq(x, n)", ""),
    ("return torch.masked_fill(x, x, 1.0)", ""),
    ("return torch.max(x, n)[0]", ""),
    ("return torch.softmax(x, n)", ""),
    ("return torch.softmax(x, n, dtype=6)", "softmax"),
    ("return torch.sum(x, [0, 1], True)", ""),
    ("return torch.sum(x)", ""),
    ("return torch.conv2d(x, x, None, [1, 1], [0, 1])", ""),
    ("return torch.relu_(x)", ""),
    ("return x.view([n, -1])", ""),
    ("return x.add_(x)", ""),
    ("return torch.zeros([n])", "zeros"),
    ("return torch.zeros_like(x)", "zeros_like"),
    ("return x.to(6)", "to"),
    ("return torch.bernoulli(x)", "bernoulli"),
    ("return torch.result_type(x, x)", "result_type"),
    ("return torch.chunk(x, 2)", "chunk"),
    ("a, b = torch.chunk(x, 2)\n  return a + b", ""),
    ("return torch.add(x, x, out=x)", "add"),
    ("return torch.div(x, x, rounding_mode='trunc')", "div"),
    ("return torch.embedding_bag(x, x, x)[0]", "embedding_bag"),
]


def function_of(body: str) -> Any:
    text = f"def f(x, n: int):\n  {body}\n"
    return adopt_function(scripted(text))


def by_overload(run: Any) -> set[str]:
    """The operators that a compiled function does not call through a binding."""
    values = run.compile().__globals__
    return {
        name.removeprefix("aten_").partition(".")[0]
        for name, value in values.items()
        if name.startswith("aten_") and not is_binding(value)
    }


def is_binding(value: Any) -> bool:
    """Not what stands behind an overload, which is a function of C++ as well."""
    is_of_overload = str(getattr(value, "__module__", "")).startswith("torch._ops.")
    return isinstance(value, BINDING_TYPES) and not is_of_overload


@pytest.mark.parametrize(("body", "left"), CALLS)
def test_operators_that_run_through_bindings(body, left):
    found = by_overload(trusting().compiler.function(function_of(body)))
    assert {name for name in found if not name.startswith(left or " ")} == set()
    assert bool(found) == bool(left)


@pytest.mark.parametrize(
    "compiler",
    [trusting().compiler.calling(trusting().enforcement.traced), Classes(guard=LIMITED).compiler],
)
def test_tracers_and_limits_see_overloads(compiler):
    run = compiler.function(function_of("return torch.relu(x)"))
    assert by_overload(run) == {"relu"}


def called(body: str, classes: Classes) -> Callable[..., Any]:
    """The function of that body for Python callers."""
    function = function_of(body)
    return public_function(function, classes.compiler)


def direct_and_overload(body: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return called(body, trusting()), called(body, Classes(guard=LIMITED))


FAULTS = [
    "return torch.mm(x, x)",
    "return x.view([n, 7])",
    "return x.select(n, 0)",
    "return torch.softmax(x, n)",
    "return torch.conv2d(x, x)",
    "return torch.cat([x, x[0]])",
    "return x.expand([n, 2])",
    "return torch.bitwise_not(x)",
    "return x.squeeze_(n)",
    "return x.to(torch.int64).requires_grad_(True)",
    "return torch.batch_norm(x, None, None, None, None, False, 0.1, 0.1, False)",
]


@pytest.mark.parametrize("body", FAULTS)
def test_errors_are_the_same(body):
    found = []
    for run in direct_and_overload(body):
        with pytest.raises(RuntimeError) as caught:
            run(torch.ones(2, 3), 5)
        error = caught.value
        found.append((type(error), str(error), getattr(error, "exception", None)))
    assert found[0] == found[1]


LIKE: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.rand(2, 3),
    "transposed": lambda: torch.rand(2, 3).t(),
    "expanded": lambda: torch.rand(1, 3).expand(2, 3),
    "channels last": lambda: torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "complex": lambda: torch.rand(2, dtype=torch.complex64),
    "with a gradient": lambda: torch.rand(2, requires_grad=True),
    "compressed": lambda: torch.eye(3).to_sparse_csr(),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "quantized": lambda: torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.qint8),
}


MAKERS = ["empty_like(x)", "full_like(x, 2)", "ones_like(x)", "zeros_like(x)"]


@pytest.mark.filterwarnings("ignore")  # about what sparse and quantized tensors come to
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("make", LIKE.values(), ids=LIKE)
def test_tensors_like_others(maker, make):
    like = make()
    one, two = [outcome(run, like) for run in direct_and_overload(f"return torch.{maker}")]
    if isinstance(one, Exception):
        assert (type(one), str(one)) == (type(two), str(two))
        return
    assert "empty" in maker or equal(one, two)
    assert kind_of(one) == kind_of(two)


def kind_of(x: torch.Tensor) -> tuple[object, ...]:
    """All of a tensor but its items."""
    strides = x.stride() if x.layout is torch.strided else None
    scheme = x.qscheme() if x.is_quantized else None
    return x.shape, strides, x.layout, x.dtype, x.device, x.requires_grad, scheme


def outcome(run: Callable[..., Any], x: torch.Tensor) -> Any:
    """What a function gives, or how it fails."""
    try:
        return run(x, 3)
    except RuntimeError as error:
        return error


CELLS = {
    "lstm": "lstm_cell(x, [{state}, {state}], torch.ones([4 * n, 3]), torch.ones([4 * n, n]))",
    "gru": "gru_cell(x, {state}, torch.ones([3 * n, 3]), torch.ones([3 * n, n]))",
    "tanh": "rnn_tanh_cell(x, {state}, torch.ones([n, 3]), torch.ones([n, n]))",
    "relu": "rnn_relu_cell(x, {state}, torch.ones([n, 3]), torch.ones([n, n]))",
}
MISFITS = {
    "rows": "lstm_cell(x, [{state}, {state}], x, torch.ones([4 * n, n]))",
    "one state": "lstm_cell(x, [{state}], torch.ones([4 * n, 3]), torch.ones([4 * n, n]))",
    "no dimensions": "rnn_tanh_cell(x, {state}, torch.ones([]), torch.ones([n, n]))",
    **{f"{name} of one": cell.replace("{state}", "torch.ones([1, n])", 1)
       for name, cell in CELLS.items()},
    **{f"{name} of vectors": cell.replace("{state}", "torch.ones([n])")
       for name, cell in CELLS.items()},
    **{f"{name} of wide": cell.replace("{state}", "torch.ones([2, n + 1])")
       for name, cell in CELLS.items()},
}  # fmt: skip


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_cells(cell):
    body = f"return torch.{cell.format(state='torch.ones([2, n])')}"
    one, two = [run(torch.rand(2, 3).fill_(0.5), 3) for run in direct_and_overload(body)]
    assert equal(one, two)


@pytest.mark.parametrize("cell", MISFITS.values(), ids=MISFITS)
def test_cells_are_checked(cell):
    body = f"return torch.{cell.format(state='torch.ones([2, n])')}"
    for run in direct_and_overload(body):
        with pytest.raises(ScriptError, match=r"a (weight|state) of|2 states"):
            run(torch.ones(2, 3), 3)


def test_a_tensor_that_is_none_is_an_error():
    for run in direct_and_overload("return torch.relu(x)"):
        with pytest.raises(RuntimeError):
            run(None, 1)


class Seen(torch.Tensor):
    """Its own class takes part in every operator."""

    names: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_classes_of_tensors_take_part():
    for run in direct_and_overload("return torch.relu(x).add_(x)"):
        Seen.names.clear()
        result = run(torch.ones(2).as_subclass(Seen), 1)
        assert type(result) is Seen
        assert equal(result.as_subclass(torch.Tensor), torch.full((2,), 2.0))
        assert [name.partition(".")[0] for name in Seen.names[:2]] == ["relu", "add_"]


MIXED = "y = torch.relu(torch.mm(x, x))\n  return y + torch.zeros([n, n]).view([n, n])"


@pytest.mark.parametrize("around", [
    lambda: torch.device("meta"),
    lambda: torch.autocast("cpu", torch.bfloat16),
    torch.inference_mode,
    torch.no_grad,
])  # fmt: skip
def test_modes_take_part(around):
    results = []
    for run in direct_and_overload(MIXED):
        with around():
            result = run(torch.ones(3, 3, device="cpu"), 3)
        results.append((result.device, result.dtype, result.is_inference(), result.tolist()))
    assert results[0] == results[1]


def test_tensors_without_values_take_part():
    run = called(MIXED, trusting())
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        made = mode.from_tensor(torch.ones(3, 3))
        assert run(made, 3).shape == (3, 3)


@pytest.mark.parametrize("body", [MIXED, "a, b = torch.chunk(x, 2, 1)\n  return a.sum() * b.sum()"])
def test_transforms_take_part(body):
    one, two = direct_and_overload(body)
    x = torch.arange(18.0).view(2, 3, 3)
    batched = [torch.func.vmap(run, (0, None))(x, 3) for run in (one, two)]
    assert equal(*batched)
    slopes = [torch.func.grad(lambda t, run=run: run(t, 3).sum())(x[0]) for run in (one, two)]
    assert equal(*slopes)


def test_dispatch_modes_see_the_same_operators():
    seen = []
    for run in direct_and_overload(MIXED):
        with Recording() as mode:
            run(torch.ones(3, 3), 3)
        seen.append(mode.names)
    assert seen[0] == seen[1] != []


class Recording(TorchDispatchMode):
    """Keeps the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


# What a call of an operator looks like in generated code.
SIZES = "2, 3" if TORCH >= (2, 10) else "[2, 3]"  # as the signatures of bindings tell
WRITTEN = [
    ("return torch.conv2d(x, x, None, [1, 1], [0, 1])", "aten_conv2d(x, x, None, 1, ints)"),
    ("return torch.max_pool2d(x, [2, 2])", "aten_max_pool2d(x, 2)"),
    ("return torch.sum(x, [0])", "aten_sum_dim_IntList(x, 0)"),
    ("return x.view([n, -1])", "aten_view(x, n, -1)"),
    ("return x.view([n])", "aten_view(x, n)"),
    ("return x.expand([2, 3])", f"aten_expand(x, {SIZES})"),
    ("p = [2, 2]\n  p.append(n)\n  return torch.max_pool2d(x, p)", "aten_max_pool2d(x, p)"),
    ("p = [2, 2]\n  q = torch.max_pool2d(x, p)\n  return torch.max_pool2d(q, p)", "(q, p)"),
    ("return x.view(torch.jit.annotate(List[int], []))", "aten_view(x, [])"),
]


@pytest.mark.parametrize(("body", "text"), WRITTEN)
def test_how_lists_are_passed(body, text):
    assert text in source(function_of(body))


@pytest.mark.parametrize("list_", ["[n, -1]", "[-1]", "[n, n // n, 6 // n]"])
def test_sizes_are_those_of_torch(list_):
    body = f"return x.view({list_})"
    x = torch.arange(6.0)
    assert equal(called(body, trusting())(x, 2), scripted(f"def f(x, n: int):\n  {body}\n")(x, 2))
