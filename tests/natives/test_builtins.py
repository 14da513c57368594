"""Functions that TorchScript defines beside the operators, against calls in TorchScript."""

import pytest
import torch

from tests.natives.oracle import Failed, same, schemas
from tsarchive.errors import ScriptError
from tsarchive.operators.overloads import builtin_texts
from tsarchive.run.natives import BUILTINS

SCHEMAS = {text.partition("(")[0]: torch._C.parse_schema(text) for text in builtin_texts()}
FUNCTIONS = {name: (schema, BUILTINS[name]) for name, schema in SCHEMAS.items()}
TENSOR = torch.tensor([[1.0, -2.0], [0.5, 4.0]])
SAMPLES = {
    "Tensor": (TENSOR, torch.tensor([3, 0]), torch.tensor(2)),
    "float": (2.0, -0.5),
    "int": (2, -3),
    "complex": (1j, 2 + 0j),
    "number": (2, 0.5),
}
# Python's names for the functions that are no attributes of torch.ops.aten.
FORMS = {
    "_single": "torch.nn.modules.utils._single({})",
    "_pair": "torch.nn.modules.utils._pair({})",
    "_triple": "torch.nn.modules.utils._triple({})",
    "_quadruple": "torch.nn.modules.utils._quadruple({})",
    "list_with_default": "torch.nn.modules.utils._list_with_default({})",
    "_assert": "torch._assert({})",
    "_assert_int_or_pair": "torch.nn.functional.assert_int_or_pair({})",
    "type": "a0.type(a1, a2, a3)",
    "device": "torch.device(type={})",
    "__contains__": "a1 in a0",
    **{name: f"a0.{name}" for name in ("ndim", "shape", "T", "H", "mT", "mH")},
}


def call_in_torchscript(name, schema, arguments):
    kinds = [str(argument.type) for argument in schema.arguments]
    annotations = ["Union[int, float, complex]" if kind == "number" else kind for kind in kinds]
    parameters = ", ".join(f"a{i}: {kind}" for i, kind in enumerate(annotations))
    values = ", ".join(f"a{i}" for i in range(len(kinds)))
    plain = name.split("::")[1].split(".")[0]
    call = FORMS.get(plain, f"torch.ops.aten.{plain}({{}})").format(values)
    text = f"def run({parameters}):\n    return {call}\n"
    try:
        return torch.jit.CompilationUnit(text).run(*arguments)
    except (RuntimeError, torch.jit.Error) as error:
        return Failed(str(error))


def ours(function, arguments):
    try:
        return function(*arguments)
    except ScriptError as error:
        return Failed(error.message)
    except RuntimeError as error:
        return Failed(str(error).splitlines()[0])


OF_NUMBER_AND_TENSOR = sorted(
    name
    for name, (schema, _) in FUNCTIONS.items()
    if name.startswith("aten")
    and {str(a.type) for a in schema.arguments} & {"Tensor"}
    and {str(a.type) for a in schema.arguments} <= set(SAMPLES)
)


@pytest.mark.parametrize("name", OF_NUMBER_AND_TENSOR)
def test_equals_torchscript(name):
    schema, function = FUNCTIONS[name]
    pools = [SAMPLES[str(argument.type)] for argument in schema.arguments]
    for arguments in zip(*(pool * 3 for pool in pools), strict=False):
        expected = call_in_torchscript(name, schema, arguments)
        assert same(ours(function, arguments), expected), (name, arguments, expected)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n.startswith("prim")])
def test_properties_of_matrices(name):
    schema, function = FUNCTIONS[name]
    assert same(function(TENSOR), call_in_torchscript(name, schema, (TENSOR,)))


ROWS = {
    "aten::_single.builtin_int": [([3],)],
    "aten::_pair.builtin_float": [([0.5, 1.0],)],
    "aten::_triple.builtin_int": [([1, 2, 3],)],
    "aten::_quadruple.builtin_float": [([1.0, 2.0, 3.0, 4.0],)],
    "aten::_assert_int_or_pair.builtin": [([1, 2], "a", "b")],
    "aten::list_with_default.builtin": [([1], [2, 3]), ([1, 2], [3])],
    "aten::_assert.builtin_bool": [(True, "m"), (False, "m")],
    "aten::device.builtin": [("cpu",), ("cuda:1",)],
    "aten::type.builtin": [(TENSOR, 4, False, False), (TENSOR, 6, False, True)],
    "aten::__contains__.builtin_str": [("abc", "bc"), ("abc", "x"), ("", ""), ("é", "\u00e9")],
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    schema, function = FUNCTIONS[name]
    for arguments in ROWS[name]:
        expected = call_in_torchscript(name, schema, arguments)
        assert same(ours(function, arguments), expected), (arguments, expected)


def test_assertion_of_a_tensor():
    _, function = FUNCTIONS["aten::_assert.builtin_Tensor"]
    assert function(torch.tensor(1), "m") is None
    with pytest.raises(AssertionError, match=r"^m$"):
        function(torch.tensor(0), "m")


def test_names_differ_from_those_of_operators():
    assert len(FUNCTIONS) == len(BUILTINS) == len(list(builtin_texts()))
    assert not set(FUNCTIONS) & set(schemas())
