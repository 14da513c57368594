"""The operators of this process, in torch's order, and what runs for each."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.support.comparing import equal
from tsarchive.errors import UnknownOperatorError, UnsupportedError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.schema import parse_schema
from tsarchive.ir.types import TENSOR, OptionalType, TupleType
from tsarchive.run import operators
from tsarchive.run.operators import (
    find_native,
    implementation,
    native_class,
    native_object,
    operator_schemas,
)

LINEAR = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
# Nodes of torch's own optimiser and of remote calls: no archive that can be loaded holds them.
INSIDE_THE_INTERPRETER = ("prim", "static_runtime", "profiler", "cuda")
REMOTE = {"to_here", "local_value", "is_owner", "owner", "owner_name", "confirmed_by_owner", "save"}


@pytest.mark.parametrize("name", ["aten::add", "aten::__getitem__", "aten::split", "prim::min"])
def test_order_is_that_of_the_registry(name):
    registered = torch._C._jit_get_schemas_for_operator(name)
    found = operator_schemas(name)
    assert [schema.overload for schema in found][: len(registered)] == [
        schema.overload_name for schema in registered
    ]
    assert all(schema.overload.startswith("builtin") for schema in found[len(registered) :])


def test_functions_of_torchscript_stand_behind():
    overloads = [schema.overload for schema in operator_schemas("aten::mul")]
    assert overloads[-3:] == [f"builtin_{kind}_Tensor" for kind in ("float", "int", "complex")]


def test_every_operator_runs_or_is_refused():
    names = dict.fromkeys(schema.name for schema in torch._C._jit_get_all_schemas())
    refused = set()
    for name in names:
        for schema in operator_schemas(name):
            try:
                assert callable(implementation(schema))
            except UnknownOperatorError:
                refused.add(name)
    unexpected = {
        name
        for name in refused
        if not name.startswith(INSIDE_THE_INTERPRETER) and name.partition("::")[2] not in REMOTE
    }
    assert not unexpected


def test_operators_found_later(request):
    name = "tsarchive_test::later"
    assert operator_schemas(name) == ()
    library = torch.library.Library("tsarchive_test", "DEF")
    request.addfinalizer(library._destroy)
    library.define("later(Tensor x) -> Tensor")
    library.impl("later", lambda x: x + 1, "CPU")
    (schema,) = operator_schemas(name)
    assert equal(implementation(schema)(torch.ones(1)), torch.full((1,), 2.0))


def test_unknown_operators():
    for text, why in (
        ("no::such(Tensor x) -> Tensor", "no::such is not registered"),
        ("aten::add.no(Tensor x) -> Tensor", "no operator aten::add.no"),
    ):
        with pytest.raises(UnknownOperatorError, match=why):
            implementation(parse_schema(text))


def test_native_functions_go_first():
    (schema,) = (s for s in operator_schemas("aten::add") if s.overload == "int")
    assert find_native(schema) is not None
    assert implementation(schema)(2**63 - 1, 1) == -(2**63)
    (schema,) = (s for s in operator_schemas("aten::add") if s.overload == "Tensor")
    assert find_native(schema) is None


def test_classes_bound_from_cpp():
    found = native_class(LINEAR)
    assert isinstance(found, ClassType)
    assert found.is_native
    assert native_class(LINEAR) is found
    unpack = found.methods["unpack"].schema
    assert unpack.name == "unpack"
    assert [argument.type for argument in unpack.arguments] == [found]
    assert unpack.return_type == TupleType((TENSOR, OptionalType(TENSOR)))
    with pytest.raises(UnsupportedError, match="no graph"):
        _ = found.methods["unpack"].graph


@pytest.mark.parametrize(
    "name",
    [
        "__torch__.torch.classes.no.Such", "__torch__.Net", "", "__torch__.torch.classes.x",
        f"{LINEAR} x) -> () #", f"{LINEAR}\n",
    ],
)  # fmt: skip
def test_names_that_are_no_such_class(name):
    assert native_class(name) is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_objects_bound_from_cpp_from_their_state():
    weight = torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8)
    class_ = native_class(LINEAR)
    made = native_object(class_, (weight, None))
    assert equal(made._get_method("unpack")()[0], weight)
    with pytest.raises(UnsupportedError, match="__setstate__"):
        native_object(ClassType("__torch__.torch.classes.a.B", is_native=True), None)


def test_native_classes_may_name_each_other(monkeypatch):
    """As ProcessGroup and its options do in builds of torch with NCCL."""
    prefix = "__torch__.torch.classes.example"
    texts = {
        f"{prefix}.One": f"other({prefix}.One self) -> {prefix}.Two",
        f"{prefix}.Two": f"other({prefix}.Two self) -> {prefix}.One",
    }

    def empty(name):
        method = SimpleNamespace(schema=texts[name])
        return SimpleNamespace(_method_names=lambda: ["other"], _get_method=lambda _: method)

    monkeypatch.setattr(operators, "_empty_object", empty)
    monkeypatch.setattr(operators, "_native_classes", {})
    one, two = (operators.native_class(name) for name in texts)
    assert one.methods["other"].schema.returns[0].type is two
    assert two.methods["other"].schema.returns[0].type is one
