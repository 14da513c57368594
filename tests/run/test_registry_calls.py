"""Every operator of torch's registry, called from an archive on drawn arguments.

Both ways give equal results, or both raise; what differs is named here, with the reason.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

import tsarchive
from tests.support.archives import TORCH
from tests.support.processes import torch_output_of
from tests.support.registry_calls import AGREEMENTS
from tests.support.suite import thinned

SLICES = 12
FEWEST = 4000  # of all slices together
# Outcomes that need no further look, whatever the operator.
EXPECTED = {
    r"no values of .*": "process groups, remote references and such have no values here",
    r"torch ended the process": "it does not check these arguments",
    r"loads differently: (required keyword attribute|ArrayRef: invalid index).*": (
        "torch refuses text that names nodes which its optimiser makes"
    ),
    r"loads differently: analysis != AliasAnalysisKind.*": "as above",
    r"loads differently: +Unknown type name '(Storage|Any\w+)'.*": "text cannot write the type",
    r".*strides\(\) called on an undefined Tensor.*": "torch looks into it when it profiles",
    r".* and ScriptError\('the memory of an out cannot grow'\)": "tensors of a file stay in it",
}
DIFFERING = {
    r"aten::(fused_moving_avg_obs_fake_quant|_transformer_encoder_layer_fwd)(\.out)?": (
        "its arguments are checked first, as torch trusts them"
    ),
    r"aten::(lu_unpack|_weight_norm)(\.out)?": "as above",
    r"aten::(resize|sym_is_contiguous|rand_like)(\.\w+)?|prims::maximum_value": (
        "numbers of no memory format and no dtype are refused"
    ),
    r"aten::(as_)?tensor(\.list)?": "torch takes lists of strings for numbers, or refuses them",
    r"aten::to\.prim_\w+": "a copy to no dtype and no device has the dtype that luck gives it",
    r"aten::hash\.generic": "tensors are hashed by their address",
    r"aten::__is(not)?__": "Python has one object for equal short strings",
    r"aten::save": "writes a file as torch.save does in Python",
    r"aten::(seed|_make_dep_token)": "the result is drawn, or not written to",
    r"aten::(can_cast|promote_types)": "torch reads beyond its table for numbers of no dtype",
    r"aten::sum\.complex": "torch empties the list that it adds up",
    r"aten::set\.out": "torch takes it for another overload",
    r"aten::to\.prim_Device": "reads a dtype that is not given",
    r"aten::(_unsafe_masked_index|_reshape_alias(_copy)?|_pad_circular)(\.out)?": (
        "reads outside of its tensors"
    ),
    r"aten::(_compute_linear_combination|linalg_lstsq|_\w*softmax_backward_data)(\.out)?": (
        "adds to memory that is not written to"
    ),
    r"aten::(_fused_sgd|_weight_norm_interface_backward)\.\w+|aten::from_file(\.out)?": (
        "gives memory that is not written to"
    ),
    r"aten::(sparse_|_sparse_|_nested_|_add_batch_dim|_remove_batch_dim|_neg_view).*": (
        "results that cannot even be shown"
    ),
    r"aten::fbgemm_pack_\w+(\.KN)?|_?quantized::\w+|mkl::\w+|mkldnn::\w+": (
        "the bytes of packed weights hold addresses"
    ),
    r"prim::(Autograd\w+|BroadcastSizes|ReductionSizes|TimePoint)": "made by an optimiser",
    r"prim::(Uninitialized|TupleIndex|awaitable_nowait)": "torch cannot give or take it",
    r"(static_runtime|profiler)::\w+": "made by an optimiser, or addresses",
}


# The few operators of a slice are others in each registry.
LEAST_AGREEING = 0.9 if TORCH == (2, 13) else 0.8


def outcomes(number: int, folder: Path) -> dict[str, str]:
    # Some operators write files.
    command = ("-m", "tests.support.registry_calls", number, thinned(SLICES))
    printed = torch_output_of(*command, cwd=folder)
    return dict(map(json.loads, printed.splitlines()))


def is_explained(key: str, outcome: str) -> bool:
    return (
        any(re.fullmatch(text, outcome) for text in EXPECTED)
        or any(re.fullmatch(name, key) for name in DIFFERING)
        or (outcome == "tsarchive ended the process" and is_unsafe(key))
    )


def is_unsafe(key: str) -> bool:
    """The default policy refuses it: it writes beyond its tensors, and luck says who ends by it."""
    return tsarchive.Policy.default().refusal(key) is not None


@pytest.mark.sample(1, gaps="its numbers are parts of one piece of work")
@pytest.mark.parametrize("number", range(SLICES))
def test_operators_run_as_in_torch(number, tmp_path):
    found = outcomes(number, tmp_path)
    assert len(found) * thinned(SLICES) > FEWEST
    wrong = {
        key: outcome
        for key, outcome in found.items()
        if outcome not in AGREEMENTS and not is_explained(key, outcome)
    }
    assert not wrong
    # Enough operators take one of the draws that results are compared, and not errors alone.
    assert Counter(found.values())["equal"] > len(found) // 3
    assert sum(outcome in AGREEMENTS for outcome in found.values()) > LEAST_AGREEING * len(found)


def test_only_operators_that_are_refused_by_default_may_end_the_process():
    assert is_explained("aten::_foreach_copy.out", "tsarchive ended the process")
    assert not is_explained("aten::_foreach_copy.out", "[1] and [2]")
    assert not is_explained("aten::add.Tensor", "tsarchive ended the process")


@pytest.mark.parametrize("name", DIFFERING)
def test_every_reason_is_about_an_operator(name):
    keys = (
        f"{schema.name}.{schema.overload_name}".removesuffix(".")
        for schema in torch._C._jit_get_all_schemas()
    )
    assert any(re.fullmatch(name, key) for key in keys)
