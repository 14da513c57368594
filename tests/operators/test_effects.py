"""What the tables of effects say beside the schemas, against torch."""

from __future__ import annotations

from itertools import chain, product

import pytest
import torch

from tsarchive.ir.graph import Node
from tsarchive.ir.types import INT
from tsarchive.operators.effects import (
    ASKING_SIZES,
    ASKING_TYPES,
    CUTTING,
    NEW_TENSORS,
    is_pure,
    may_write,
)
from tsarchive.run.operators import operator_schemas

X, SQUARE = torch.randn(1, 2, 4, 4), torch.randn(3, 3)
STRIDE = [1], [0], [1]
ONE, TWO, THREE = (tuple(each * n for each in STRIDE) for n in (1, 2, 3))
VOLUME, CUBE = torch.randn(1, 2, 4, 4, 4), torch.randn(2, 2, 1, 1, 1)
LINE, SHORT, SMALL = X[:, :, 0], torch.randn(2, 2, 1), torch.randn(2, 2, 1, 1)
NO = False
_TURNED = (NO, [0, 0], 1, NO, NO, NO)
CALLS = {
    "linear": (SQUARE, SQUARE), "mm": (SQUARE, SQUARE), "addmm": (SQUARE, SQUARE, SQUARE),
    "add.Tensor": (X, torch.tensor(0.0)), "add.Scalar": (X, 0), "sub.Tensor": (X, torch.tensor(0)),
    "sub.Scalar": (X, 0), "mul.Tensor": (X, torch.tensor(1)), "rsub.Scalar": (X, 0), "neg": (X,),
    "cat": ([X],), "sigmoid": (X,), "tanh": (X,), "relu": (X.abs(),),
    "batch_norm": (X, None, None, torch.zeros(2), torch.ones(2), NO, 0.1, 0.0, NO),
    "conv1d": (LINE, SHORT, None, *ONE), "conv1d.padding": (LINE, SHORT),
    "conv2d": (X, SMALL, None, *TWO), "conv2d.padding": (X, SMALL),
    "conv3d": (VOLUME, CUBE, None, *THREE), "conv3d.padding": (VOLUME, CUBE),
    "_convolution": (X, SMALL, None, *TWO, *_TURNED, NO),
    "_convolution.deprecated": (X, SMALL, None, *TWO, *_TURNED),
    "conv_transpose1d": (LINE, SHORT), "conv_transpose2d.input": (X, SMALL),
    "conv_transpose3d.input": (VOLUME, CUBE), "max_pool2d": (X, [1, 1]), "avg_pool2d": (X, [1, 1]),
    "adaptive_avg_pool2d": (X, [4, 4]),
}  # fmt: skip


def schema_of(name):
    kind, _, overload = name.partition(".")
    (found,) = [schema for schema in operator_schemas(kind) if schema.overload == overload]
    return found


def operator(name):
    kind, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, kind), overload or "default")


def test_every_operator_that_gives_new_tensors_has_a_call():
    assert {f"aten::{name}" for name in CALLS} == NEW_TENSORS


@pytest.mark.parametrize("name", sorted(CALLS))
def test_results_are_new_also_where_they_are_what_was_given(name):
    made = operator(name)(*CALLS[name])
    tensors = [each for each in CALLS[name] if isinstance(each, torch.Tensor)]
    for given in tensors or CALLS[name][0]:
        assert made.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", sorted(NEW_TENSORS | CUTTING | ASKING_SIZES | ASKING_TYPES))
def test_operators_of_the_tables_write_nothing(name):
    schema = schema_of(name)
    assert not any(argument.is_write for argument in schema.arguments)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", sorted(CUTTING))
def test_parts_have_no_item_in_common(name, dim):
    x = torch.zeros(5, 5)
    taken = schema_of(name).arguments[1].type
    parts = operator(name)(x, 2 if taken == INT else [2, 3], dim)
    assert len(parts) > 1
    assert sorted(chain.from_iterable(map(addresses, parts))) == sorted(addresses(x))


def addresses(tensor):
    """Where each item of a tensor lies."""
    steps = [
        range(0, size * stride, stride)
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    return [tensor.data_ptr() + sum(at) * tensor.element_size() for at in product(*steps)]


@pytest.mark.parametrize(
    ("name", "writes", "pure"),
    [
        ("aten::add.Tensor", False, True),
        ("aten::add_.Tensor", True, False),
        ("aten::add.out", True, False),
        ("aten::manual_seed", False, False),
        ("aten::is_grad_enabled", False, False),
        ("aten::wait", False, False),
        ("mkldnn::_linear_pointwise", False, True),
        ("quantized::add", True, False),
        ("prim::Print", False, False),
    ],
)
def test_schemas_tell_of_writes_but_for_other_namespaces(name, writes, pure):
    node = Node(name.partition(".")[0], schema=schema_of(name))
    assert (may_write(node), is_pure(node)) == (writes, pure)


@pytest.mark.parametrize(
    ("kind", "writes", "pure"),
    [
        ("prim::TupleUnpack", False, True),
        ("prim::Constant", False, True),
        ("prim::SetAttr", True, False),
        ("prim::CallMethod", True, False),
    ],
)
def test_other_nodes(kind, writes, pure):
    assert (may_write(Node(kind)), is_pure(Node(kind))) == (writes, pure)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_are_written_in_training(training):
    node = Node("aten::batch_norm", schema=schema_of("aten::batch_norm"))
    for place, argument in enumerate(node.schema.arguments):
        made = Node("prim::Constant", attributes={"value": training if place == 5 else None})
        node.add_input(made.add_output(argument.type))
    assert (may_write(node), is_pure(node)) == (training, not training)
