"""Every operator without tensors in torch's registry is native, or has a reason not to be."""

import contextlib
import inspect
import re

import pytest
import torch

import tsarchive.formats.executorch.modules.natives  # noqa: F401  # importing them enters them into the table
from tests.natives import (
    test_containers,
    test_fbgemm,
    test_formatting,
    test_numbers,
    test_onednn,
    test_quantized,
    test_spectra,
    test_strings,
    test_tensors,
    test_values,
)
from tests.natives.oracle import OF_EXECUTORCH, natives_of_torch, schemas
from tests.policy import test_policies
from tests.support.fresh_registry import NAMES_OF_TORCH
from tsarchive.operators.registry import known_operators
from tsarchive.run.natives import NATIVES

COMPUTED_BY_TORCH = {
    r"aten::\w+\.(\w+_)?complex(_\w+)?": "complex arithmetic is the C++ library's",
    r"aten::polar(\.\w+)?": "complex arithmetic is the C++ library's",
    r"(aten::\w+|prim::abs)\.Scalar": "functions of one Scalar compute in 32 bits",
    r"aten::l?gamma\.(int|float)": "Python's gamma functions are not the C library's",
    r"aten::divmod\.(int_float|float_int)": "computed in 32 bits",
    r"aten::(manual_seed|seed|initial_seed|Generator)(\.\w+)?": "random generators",
    r"aten::(get|is)_autocast_\w+": "asks the process",
    r"aten::(_nnpack|is_vulkan)_available": "asks the process",
    r"aten::_(use_cudnn_rnn_flatten_weight|get_cpu_capability|cufft_\w+)": "asks the process",
    r"aten::(_infer_size|_assert_scalar|sym_constrain_range(_for_size)?)": "rare, checks included",
    r"aten::_print": "writes to the standard output of C",
    r"(mkldnn|prims|debug_mode_ops)::\w+": "belongs to another library",
    r"quantized::\w+": "takes the packed parameters of a quantized module",
    r"_test::\w+": "belongs to torch's own tests",
}
NOT_RUN = {
    r"prim::rpc_\w+": "calls another machine",
    r"aten::(to_here|local_value|(is_)?owner(_name)?|confirmed_by_owner)": "calls another machine",
    r"symm_mem::\w+": "calls another machine",
    r"cuda::\w+(\.\w+)?": "chooses devices and streams",
    r"profiler::[\w.]+": "measures torch's own interpreter",
    r"prim::(AddStatValue|TimePoint)": "measures torch's own interpreter",
    r"prim::PythonOp": "calls Python, no archive holds it",
    r"prim::TupleUnpack": "an assignment in the text, no call",
    r"static_runtime::\w+": "made by an optimiser after loading",
    r"prim::(Autograd\w+|(Broadcast|Reduction|Chunk)Sizes|ConstantChunk|MM\w+|FusedConcat)": (
        "made by an optimiser after loading"
    ),
    r"prim::(profile\w*|BailOut|BailoutTemplate|FallbackGraph|\w+(Check|Guard))": (
        "made by an optimiser after loading"
    ),
    r"prim::(\w*(Fusion|TensorExprDynamic|TensorExpr)Group|DifferentiableGraph|Static\w+)": (
        "made by an optimiser after loading"
    ),
    r"prim::(ConstantMKLDNNTensor|BroadcastMKLDNNTensors)": "made by an optimiser after loading",
}
# The schema says "any number", the operator takes this many.
OF_FIXED_NUMBER = {"aten::percentFormat": 2, "prim::tolist": 3}


def kinds(kind):
    yield kind.kind()
    for part in kind.containedTypes():
        yield from kinds(part)


def calls_for_a_native(schema):
    """No tensor, or a type variable, or any number of arguments or results."""
    text = str(schema)
    ends = [*schema.arguments, *schema.returns]
    has_variable = any("VarType" in kinds(end.type) for end in ends)
    return has_variable or "Tensor" not in text or "..." in text


EXPECTED = sorted(
    key for key, schema in schemas().items() if calls_for_a_native(schema) and key in NAMES_OF_TORCH
)
MISSING = [key for key in EXPECTED if key not in NATIVES]


def matching(rows, key):
    return [pattern for pattern in rows if re.fullmatch(pattern, key)]


def test_the_registry_was_read():
    assert len(EXPECTED) > 600
    assert len(EXPECTED) - len(MISSING) > 450


@pytest.mark.parametrize("key", MISSING)
def test_what_is_not_native_has_a_reason(key):
    assert matching(COMPUTED_BY_TORCH, key) or matching(NOT_RUN, key)


@pytest.mark.parametrize("key", [key for key in MISSING if matching(COMPUTED_BY_TORCH, key)])
def test_what_torch_computes_is_there_to_call(key):
    namespace, name, overload = (*key.replace("::", ".").split("."), "default")[:3]
    packet = getattr(getattr(torch.ops, namespace), name)
    assert callable(getattr(packet, overload))


@pytest.mark.parametrize("pattern", [*COMPUTED_BY_TORCH, *NOT_RUN])
def test_every_reason_is_needed(pattern):
    # Other builds of torch have more operators.
    assert any(re.fullmatch(pattern, key) for key in (*MISSING, *known_operators()))


OF_TORCH = natives_of_torch()


def test_every_native_is_an_operator_of_torch():
    others = {key for key in NATIVES if not OF_EXECUTORCH.match(key)} - NAMES_OF_TORCH
    here, elsewhere = ({key.partition(".")[0] for key in keys} for keys in (NAMES_OF_TORCH, others))
    assert elsewhere <= known_operators().keys() - here
    assert OF_TORCH.keys() < NATIVES.keys()


def signatures():
    """The signatures of all natives but those that are builtins of Python without one."""
    for key, function in OF_TORCH.items():
        with contextlib.suppress(ValueError):
            yield key, inspect.signature(function)


@pytest.mark.parametrize(("key", "signature"), list(signatures()))
def test_natives_take_the_arguments_of_the_schema(key, signature):
    schema = schemas()[key]
    if key in OF_FIXED_NUMBER:
        assert len(signature.parameters) == OF_FIXED_NUMBER[key]
        return
    if "..." in str(schema):
        assert any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
        return
    positional = [a for a in schema.arguments if not a.kwarg_only]
    keywords = [a.name for a in schema.arguments if a.kwarg_only]
    signature.bind(*positional, **dict.fromkeys(keywords))


MODULES = (
    test_containers,
    test_fbgemm,
    test_formatting,
    test_onednn,
    test_quantized,
    test_spectra,
    test_tensors,
    test_values,
    test_policies,
)


def keys_of_tests():
    """The keys that tests compare with torch or that the text of a test names."""
    keys = {
        *test_numbers.NUMERIC,
        *test_strings.STRING_OPERATORS,
        *test_containers.LIST_CALLS,
        *test_containers.DICT_OPERATORS,
        *(f"aten::sort.{kind}" for kind in test_containers.SORTED_LISTS),
        *(f"aten::sorted.{kind}" for kind in test_containers.SORTED_LISTS),
        *test_tensors.PROPERTIES,
        *test_tensors.NUMBERS_OF_TENSORS,
        *(f"aten::{name}" for name in test_tensors.SHAPE_QUERIES),
    }
    for module in MODULES:
        keys.update(
            re.findall(r'"((?:aten|mkldnn|prim|quantized)::[\w.]+)"', inspect.getsource(module))
        )
    return keys


def test_no_native_is_without_test():
    assert sorted(set(OF_TORCH) - keys_of_tests()) == []
