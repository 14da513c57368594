"""Which operators run through Python bindings of torch, and that those are the same operators."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.run.binding_signatures import Parameter, Signature, signatures_of
from tests.support.comparing import equal
from tests.support.running import scripted, source, trusting
from tsarchive.policy import Guard, Limits, Policy
from tsarchive.printer.adopt import adopt_function
from tsarchive.printer.schema import FunctionSchema
from tsarchive.printer.types import (
    BOOL,
    FLOAT,
    GENERATOR,
    INT,
    NUMBER,
    STRING,
    TENSOR,
    ListType,
    OptionalType,
    Type,
)
from tsarchive.run import direct
from tsarchive.run.boundary import public_function
from tsarchive.run.classes import Classes
from tsarchive.run.enumerations import enumerations
from tsarchive.run.operators import operator_schemas

FEWEST = 900
LIMITED = Guard(Policy.trusted(), Limits(seconds=1000))
BINDING_TYPES = (types.BuiltinFunctionType, types.MethodDescriptorType)
# What the parser of a binding calls the types of a schema.
SHOWN: dict[Type, str] = {
    TENSOR: "Tensor",
    INT: "int",
    FLOAT: "float",
    BOOL: "bool",
    NUMBER: "Number",
    STRING: "str",
    GENERATOR: "torch.Generator",
    ListType(INT): "tuple of ints",
    ListType(FLOAT): "tuple of floats",
    ListType(BOOL): "tuple of bools",
    ListType(NUMBER): "tuple of Scalars",
    ListType(TENSOR): "tuple of Tensors",
    ListType(OptionalType(TENSOR)): "tuple of Tensors",
}
KINDS = {
    "ScalarType": "torch.dtype",
    "Layout": "torch.layout",
    "MemoryFormat": "torch.memory_format",
}
# They take no arguments, so their bindings have no parser.
WITHOUT_ARGUMENTS = {
    "aten::_nnpack_available", "aten::_use_cudnn_rnn_flatten_weight", "aten::is_vulkan_available",
}  # fmt: skip


def overloads() -> Iterator[FunctionSchema]:
    """The overloads that may run through a binding."""
    names = dict.fromkeys(schema.name for schema in torch._C._jit_get_all_schemas())
    for name in names:
        for schema in operator_schemas(name):
            if direct.binding_of(schema) is not None and schema.full_name not in WITHOUT_ARGUMENTS:
                yield schema


def known_signatures(schema: FunctionSchema) -> list[Signature]:
    """What the binding says of itself."""
    named = [argument.name for argument in schema.arguments if argument.kwarg_only]
    return signatures_of(direct.binding_of(schema), named)


def shown(schema: FunctionSchema, offset: int) -> str:
    kind = enumerations(schema).get(offset)
    type_ = schema.arguments[offset].type
    plain = type_.element if isinstance(type_, OptionalType) else type_
    return KINDS[kind] if kind is not None else SHOWN[plain]


def is_like(schema: FunctionSchema, signature: Signature) -> bool:
    """Whether types, order, defaults and names of named arguments are those of the operator."""
    numbered = list(enumerate(schema.arguments))
    positional = [(shown(schema, i), a.has_default) for i, a in numbered if not a.kwarg_only]
    named = {(a.name, shown(schema, i)) for i, a in numbered if a.kwarg_only}
    found = [(parameter.type, parameter.default is not None) for parameter in signature.positional]
    return found == positional and named == {
        (parameter.name, parameter.type) for parameter in signature.named if parameter.name != "out"
    }


def test_bindings_have_the_signatures_of_their_operators():
    found = list(overloads())
    assert len(found) > FEWEST
    strange = [s.full_name for s in found if not any(is_like(s, k) for k in known_signatures(s))]
    assert strange == []


def may_take(parameter: Parameter, type_: Type) -> bool:
    """Whether the parser might accept a value; torch takes tensors of one number for numbers."""
    if type_ == TENSOR or type_ in (INT, FLOAT, BOOL):
        takes = {"Tensor", "Number", "int", "float", "bool", "complex"}
        return parameter.type in takes and not (type_ == TENSOR and parameter.type == "bool")
    if isinstance(type_, ListType):
        return parameter.type.startswith("tuple of ")
    return type_ == STRING and parameter.type in ("str", "torch.device")


def comes_first(signature: Signature, types: Sequence[Type]) -> bool:
    positional = signature.positional
    if len(types) > len(positional) or any(p.default is None for p in positional[len(types) :]):
        return False
    pairs = zip(positional, types, strict=False)
    return all(may_take(*pair) for pair in pairs) and all(p.default for p in signature.named)


def test_no_other_signature_takes_the_arguments():
    checked = 0
    for schema in overloads():
        known = known_signatures(schema)
        own = next(i for i, signature in enumerate(known) if is_like(schema, signature))
        for count in range(1, len(schema.arguments) + 1):
            given = schema.arguments[:count]
            types = [a.type.element if isinstance(a.type, OptionalType) else a.type for a in given]
            types = [INT if type_ == NUMBER else type_ for type_ in types]
            is_whole = all(a.has_default for a in schema.arguments[count:])
            if given[-1].kwarg_only or not is_whole or not direct.is_certain(schema, types):
                continue
            before = [signature for signature in known[:own] if comes_first(signature, types)]
            assert before == [], (schema.full_name, types)
            checked += 1
    assert checked > FEWEST


# A function body, and the names of the operators in it that are called by their overload.
CALLS = [
    ("return torch.relu(x)", ""),
    ("return torch.add(x, x)", ""),
    ("return torch.add(x, x, alpha=2)", ""),
    ("return torch.add(x, 1)", "add"),
    ("return torch.eq(x, x)", ""),
    ("return torch.eq(x, n)", "eq"),
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
    found = by_overload(trusting().function(function_of(body)))
    assert {name for name in found if not name.startswith(left or " ")} == set()
    assert bool(found) == bool(left)


@pytest.mark.parametrize("classes", [trusting().for_tracing, Classes(guard=LIMITED)])
def test_tracers_and_limits_see_overloads(classes):
    run = classes.function(function_of("return torch.relu(x)"))
    assert by_overload(run) == {"relu"}


def called(body: str, classes: Classes) -> Callable[..., Any]:
    """The function of that body for Python callers."""
    function = function_of(body)
    return public_function(function, classes.function(function), classes)


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
WRITTEN = [
    ("return torch.conv2d(x, x, None, [1, 1], [0, 1])", "aten_conv2d(x, x, None, 1, [0, 1])"),
    ("return torch.max_pool2d(x, [2, 2])", "aten_max_pool2d(x, 2)"),
    ("return torch.sum(x, [0])", "aten_sum_dim_IntList(x, 0)"),
    ("return x.view([n, -1])", "aten_view(x, n, -1)"),
    ("return x.view([n])", "aten_view(x, n)"),
    ("return x.expand([2, 3])", "aten_expand(x, 2, 3)"),
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
