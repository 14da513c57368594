"""Natives between tensors and numbers, and properties of tensors, against torch."""

import math

import pytest
import torch

from tests.natives.oracle import (
    Failed,
    by_native,
    by_operator,
    by_script,
    check_script,
    same,
    schemas,
    type_of,
)
from tsarchive.run.natives import NATIVES
from tsarchive.run.natives.conversions import DTYPES, LAYOUTS, scalar_type_name
from tsarchive.run.natives.tensors import tensor_of_list

INF, NAN = math.inf, math.nan
TENSORS = {
    "float": torch.arange(6.0).reshape(2, 3),
    "view": torch.arange(12).reshape(3, 4).t()[1:],
    "int": torch.tensor(5),
    "requires grad": torch.ones(2, requires_grad=True),
    "sparse": torch.eye(2).to_sparse(),
    "meta": torch.empty(3, dtype=torch.bfloat16, device="meta"),
    "mkldnn": torch.ones(2, 2).to_mkldnn(),
}
DENSE = ("float", "view", "int", "requires grad", "meta")
PROPERTIES = sorted(
    key
    for key in NATIVES
    if key.startswith("prim::")
    and key != "prim::name"
    and (schema := schemas().get(key))
    and [str(a.type) for a in schema.arguments] == ["Tensor"]
    and not str(schema.returns[0].type).startswith(("Tensor", "t"))
)
SHAPE_QUERIES = (
    *("size", "stride", "dim", "numel", "element_size", "storage_offset", "is_contiguous"),
    *("is_floating_point", "is_complex", "len.Tensor"),
)


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("key", PROPERTIES)
def test_properties(key, name):
    check_script(key, TENSORS[name])


def test_name():
    """torch.ops has no way to this operator: its namespaces have a name of their own."""
    unit = torch.jit.CompilationUnit("def run(x):\n    return x.name\n")
    assert NATIVES["prim::name"](torch.ones(1)) is unit.run(torch.ones(1)) is None


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("query", SHAPE_QUERIES)
def test_shape_queries(query, name):
    check_script(f"aten::{query}", TENSORS[name])


@pytest.mark.parametrize("key", ["aten::size.int", "aten::stride.int"])
def test_size_of_one_dimension(key):
    for dim in (0, 1, -1, -2):
        check_script(key, TENSORS["view"], dim)
    with pytest.raises(IndexError, match="Dimension out of range"):
        NATIVES[key](TENSORS["view"], 2)


def test_tensor_valued_properties():
    tensor = torch.ones(2, requires_grad=True)
    tensor.sum().backward()
    assert torch.equal(NATIVES["prim::grad"](tensor), torch.ones(2))
    assert NATIVES["prim::grad"](torch.ones(1)) is None
    data = NATIVES["prim::data"](tensor)
    assert not data.requires_grad
    assert data.data_ptr() == tensor.data_ptr()


def test_dtype_numbers():
    for number, dtype in DTYPES.items():
        if not dtype.is_complex and "q" not in str(dtype) and "bits" not in str(dtype):
            assert by_operator("prim::dtype", torch.empty(0, dtype=dtype)) == number
    assert scalar_type_name(torch.float8_e4m3fn) == "Float8_e4m3fn"


@pytest.mark.parametrize("number", [5, 6, 7, 9, 10, 11, 15])
def test_dtype_numbers_convert(number):
    assert (
        torch.ones(1).to(DTYPES[number]).dtype
        == torch.ops.aten.to.dtype(torch.ones(1), number).dtype
    )


SCALARS = [
    torch.tensor(value, dtype=dtype)
    for value, dtype in (
        *((v, torch.float32) for v in (1.75, -1.75, NAN, INF, 1e30, -0.0)),
        *((v, torch.float64) for v in (0.1, 2.0**63, -(2.0**63))),
        *((v, torch.int64) for v in (5, 2**63 - 1)),
        *(
            (True, torch.bool),
            (3, torch.uint8),
            (1 + 0j, torch.complex64),
            (1 + 2j, torch.complex128),
        ),
    )
]
NOT_SCALARS = [torch.tensor([1.5]), torch.tensor([[2]]), torch.tensor(1.0, requires_grad=True)]
NUMBERS_OF_TENSORS = (
    *("aten::Int.Tensor", "aten::Float.Tensor", "aten::Bool.Tensor", "aten::item"),
    *("aten::IntImplicit", "aten::FloatImplicit", "aten::ComplexImplicit", "aten::ScalarImplicit"),
)


@pytest.mark.parametrize("key", NUMBERS_OF_TENSORS)
def test_numbers_of_tensors(key):
    for tensor in (*SCALARS, *NOT_SCALARS, torch.ones(2), torch.ones(0)):
        ours, theirs = by_native(key, tensor), by_operator(key, tensor)
        assert same(ours, theirs), (key, tensor, ours, theirs)


@pytest.mark.parametrize("value", [3, -(2**63), 0.1, NAN, True, 1 + 2j], ids=repr)
def test_tensor_of_number(value):
    key = "prim::NumToTensor.bool" if value is True else "prim::NumToTensor.Scalar"
    ours, theirs = NATIVES[key](value), by_operator(key, value)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert same(ours.item(), theirs.item())


LISTS = (
    *([1, 2], [0.1, 2.5], [True, False], [[1], [2]], [[[0.5, NAN]]]),
    *([[1], [1, 2]], [["a"]], [torch.ones(1)]),
)
NO_DTYPES = (None, 6, 7, 4, 11, 5, 15)


@pytest.mark.parametrize("key", ["aten::tensor", "aten::as_tensor.list"])
@pytest.mark.parametrize("dtype", NO_DTYPES)
def test_tensor_of_list(key, dtype):
    for values in LISTS:
        element = type_of(values).rpartition("[")[2].rstrip("]")
        check_tensor_of_list(key, values, dtype, (), element)


def check_tensor_of_list(key, values, dtype, types, element):
    options = [f"dtype={dtype}"]
    arguments = {"dtype": dtype, "device": None}
    if key == "aten::tensor":
        options.append("requires_grad=False")
        arguments["requires_grad"] = False
    theirs = by_script(key, values, types=types, options=options)
    ours = by_native(key, values, **arguments, element=element)
    expected = theirs if isinstance(theirs, Failed) else theirs[0]
    assert same(ours, expected), (values, dtype, ours, theirs)


@pytest.mark.parametrize("element", ["int", "float", "bool"])
@pytest.mark.filterwarnings("ignore:Creating a tensor from an empty")
def test_tensor_of_empty_list(element):
    for values, annotation in (
        ([], f"List[{element}]"),
        ([[], []], f"List[List[{element}]]"),
    ):
        for dtype in (None, 7):
            check_tensor_of_list("aten::tensor", values, dtype, (annotation,), element)


def test_lists_of_which_nothing_is_told_are_of_floats():
    assert tensor_of_list([], None, None).dtype == torch.float32
    assert tensor_of_list([[]], None, None).shape == (1, 0)


@pytest.mark.parametrize("element", ["Tensor", "str"])
def test_empty_lists_of_other_types_are_refused(element):
    options = ["dtype=None", "requires_grad=False"]
    theirs = by_script("aten::tensor", [], types=(f"List[{element}]",), options=options)
    arguments = {"dtype": None, "device": None, "requires_grad": False, "element": element}
    assert same(by_native("aten::tensor", [], **arguments), theirs)


def test_new_tensors_take_device_and_gradient():
    tensor = NATIVES["aten::tensor"](
        [1.0], dtype=7, device=torch.device("meta"), requires_grad=True
    )
    assert (tensor.dtype, tensor.device.type, tensor.requires_grad) == (
        torch.float64,
        "meta",
        True,
    )


def test_complex_lists_are_refused_as_in_torch():
    assert isinstance(by_script("aten::tensor", [1j], options=["dtype=10"]), Failed)
    arguments = {"dtype": 10, "device": None, "requires_grad": False, "element": "complex"}
    assert isinstance(by_native("aten::tensor", [1j], **arguments), Failed)


TOLIST = [
    ("List[int]", torch.tensor([1, 2]), 1, 0),
    ("List[List[float]]", torch.tensor([[1.5, 2]]), 2, 1),
    ("List[float]", torch.tensor([0.1], dtype=torch.float64), 1, 1),
    ("float", torch.tensor(1.5), 0, 1),
    ("List[bool]", torch.tensor([True]), 1, 2),
    ("List[complex]", torch.tensor([1j]), 1, 3),
    ("List[int]", torch.tensor([1.0]), 1, 0),
    ("List[int]", torch.tensor([1], dtype=torch.int32), 1, 0),
    ("List[int]", torch.tensor([[1]]), 1, 0),
    ("List[float]", torch.tensor([1]), 1, 1),
    ("List[int]", torch.zeros(0, dtype=torch.int64), 1, 0),
]


@pytest.mark.parametrize(("annotation", "tensor", "depth", "element"), TOLIST)
def test_tolist(annotation, tensor, depth, element):
    unit = torch.jit.CompilationUnit(
        f"def run(x):\n    values: {annotation} = x.tolist()\n    return values\n"
    )
    try:
        theirs = unit.run(tensor)
    except RuntimeError as error:
        theirs = Failed(str(error))
    assert same(by_native("prim::tolist", tensor, depth, element), theirs)


def test_dequantize_keeps_what_is_no_tensor():
    one = torch.ones(1)
    assert same(NATIVES["aten::dequantize.any"]([one]), by_operator("aten::dequantize.any", [one]))
    assert NATIVES["aten::dequantize.any"]((one, 3)) == (one, 3)


@pytest.mark.parametrize(
    ("subscripts", "result", "equation"),
    [(([0, 1], [1, 2]), [[0, 2]], "ab,bc->ac"), (([0, 27], [27, 2]), [], "ab,bc")],
)
def test_einsum_with_lists(subscripts, result, equation):
    a, b = torch.rand(2, 3), torch.rand(3, 4)
    ours = NATIVES["aten::einsum.sublist"](a, subscripts[0], b, subscripts[1], *result)
    assert torch.equal(ours, torch.ops.aten.einsum(equation, [a, b]))


def test_einsum_has_52_letters():
    assert isinstance(by_native("aten::einsum.sublist", torch.ones(1), [52]), Failed)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_tensors_joined(dim):
    a, b = torch.rand(2, 3), torch.rand(2, 3)
    assert torch.equal(NATIVES["prim::VarConcat"](a, b, dim), torch.cat([a, b], dim))
    assert torch.equal(NATIVES["prim::VarStack"](a, b, dim), torch.stack([a, b], dim))


@pytest.mark.parametrize("a", [1, 2.5, True])
def test_result_type(a):
    for b in (1, 2.5, True):
        key = "aten::result_type.Scalar_Scalar"
        assert by_native(key, a, b) == by_operator(key, a, b)


@pytest.mark.parametrize("text", ["cpu", "cuda", "cuda:1", "meta", "foo", "cuda:x", ""])
def test_device_of_string(text):
    ours, theirs = by_native("aten::device", text), by_operator("aten::device", text)
    assert same(ours, theirs)
    if isinstance(theirs, torch.device):
        assert NATIVES["prim::type"](ours) == by_operator("prim::type", theirs)
        check_script("prim::index", ours)
        assert NATIVES["aten::device.with_index"](ours.type, 3).index == 3


@pytest.mark.filterwarnings("ignore:Sparse CSC tensor support")
def test_layout_numbers():
    assert sorted(LAYOUTS.values()) == list(range(len(LAYOUTS)))
    eye = torch.eye(2)
    for layout in (torch.sparse_csc, torch.sparse_coo):
        tensor = eye.to_sparse(layout=layout)
        assert by_native("prim::layout", tensor) == by_operator("prim::layout", tensor)
