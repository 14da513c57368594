"""The table of operators: every one of this process is decided, by one row, for a reason."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
import torch

import tsarchive
from tests.support.archives import TORCH
from tests.support.fresh_registry import NAMES_OF_TORCH
from tsarchive.operators.registry import known_operators
from tsarchive.operators.removed import removed
from tsarchive.operators.risks import REFUSED, Bound, Risk, Row, row_of, rows
from tsarchive.run import guards
from tsarchive.run.natives import BUILTINS, NATIVES

REGISTERED = {name.partition(".")[0] for name in NAMES_OF_TORCH}
TRIED = REGISTERED | known_operators().keys()
OVERLOADS = NAMES_OF_TORCH
BUILTIN = {name.partition(".")[0] for name in BUILTINS}
# Kinds of nodes without a schema, operators of libraries and of other builds of torch.
ELSEWHERE = frozenset(
    {
        "image", "torchvision", "torchaudio", "prepacked",
        "delegate", "dim_order_ops", "et_copy", "executorch", "executorch_prim",
        "quantized_decomposed", "torch_nn",
    }
)  # fmt: skip
NODES = frozenset(
    f"prim::{name}"
    for name in (
        "CallFunction", "CallMethod", "Constant", "CreateObject", "DictConstruct", "Enter", "Exit",
        "GetAttr", "If", "ListConstruct", "ListUnpack", "Loop", "SetAttr", "TupleConstruct",
        "TupleSlice", "awaitable", "fork", "isinstance", "rpc_async", "rpc_remote", "rpc_sync",
    )
)  # fmt: skip
OF_DISTRIBUTED = frozenset({"aten::dist_backward"})
COUNTED = Counter(
    {
        Risk.COMPUTE: 1334,
        Risk.UNKNOWN: 445,
        Risk.MEMORY: 329,
        Risk.NETWORK: 77,
        Risk.RANDOMNESS: 49,
        Risk.PROCESS_INFORMATION: 18,
        Risk.PROCESSES: 10,
        Risk.OUTPUT: 6,
        Risk.GLOBAL_STATE: 4,
        Risk.FILES: 3,
        Risk.NATIVE_CODE: 1,
    }
)


def namespace(name: str) -> str:
    return name.partition("::")[0]


def refused_by_default(names) -> set[str]:
    return {name for name in names if row_of(name).is_refused}


def test_no_pattern_stands_twice():
    counts = Counter(row.pattern for row in rows())
    assert [pattern for pattern, count in counts.items() if count > 1] == []


def test_every_row_gives_a_reason():
    reasons = {row.reason for row in rows()}
    assert all(len(reason) > 4 and reason[0].islower() for reason in reasons)
    assert not any(reason.endswith(".") for reason in reasons)


def test_rows_that_allow_tell_what_keeps_an_operator_within_its_tensors():
    for row in rows():
        assert (row.bound is None) == (row.risk in REFUSED), row.pattern
        assert row.bound is None or len(row.evidence) >= len("strings"), row.pattern
    assert Row("aten::new", Risk.COMPUTE, "computes").is_refused


def test_evidence_names_guards_that_there_are():
    for row in rows():
        if row.bound is Bound.GUARDED:
            named = re.findall(r"\b(\w+_checks|checks|guards|packed)\.(\w+)", row.evidence)
            assert named, row.pattern
            for module, name in named:
                assert hasattr(import_module(f"tsarchive.run.{module}"), name), row


def test_evidence_names_files_that_there_are():
    package = Path(tsarchive.__file__).parent
    named = {
        (row.pattern, name)
        for row in rows()
        for name in re.findall(r"\b(?:run|natives|pt2|executorch|pte)/[\w/]+\.py\b", row.evidence)
    }
    assert len({name for _, name in named}) > 5
    gone = {row for row in named if not list(package.glob(f"**/{row[1]}"))}
    assert gone == set()


def test_operators_with_a_guard_say_so():
    checked = {
        *guards.CHECKS,
        *guards.SAVED_ARGUMENTS,
        *guards.SAVES_RESULTS,
        *guards.READS_MEMORY,
    }
    found = {row_of(name) for name in checked}
    assert [row for row in found if row.bound not in (None, Bound.GUARDED)] == []


def test_rows_name_operators_that_exist():
    names = {row.pattern for row in rows() if "::" in row.pattern and row.pattern[-1] != "*"}
    unknown = names - TRIED - OVERLOADS - BUILTIN - NODES - OF_DISTRIBUTED
    unknown -= {name for name in unknown if removed(name)}
    assert {name for name in unknown if namespace(name) not in ELSEWHERE} == set()


def most_specific(name: str) -> list[str]:
    """The pattern that is the name, else the longest beginnings of it, by looking at all rows."""
    patterns = [row.pattern for row in rows()]
    whole = [pattern for pattern in patterns if pattern == name]
    begin = [p for p in patterns if p[-1] == "*" and name.startswith(p[:-1])]
    return whole or [p for p in begin if len(p) == max(map(len, begin))]


def test_every_operator_has_one_most_specific_row():
    names = sorted(REGISTERED | BUILTIN | NODES)
    assert [name for name in names if most_specific(name) != [row_of(name).pattern]] == []


def test_no_operator_of_a_torch_that_was_tried_is_left_to_the_rows_for_newer_ones():
    newer = {row.pattern for row in rows() if "newer than this table" in row.reason}
    assert {name for name in TRIED if row_of(name).pattern in newer} == set()
    assert {name for name in TRIED if row_of(name).pattern == "*"} == set()


def test_counts_of_operators_by_risk():
    """A change of the table shows here; another torch has other operators."""
    if TORCH != (2, 13) or torch.version.cuda is not None:
        pytest.skip("the counts are those of torch 2.13 without CUDA")
    counts = Counter(row_of(name).risk for name in REGISTERED)
    assert sum(counts.values()) == len(REGISTERED)
    assert counts == COUNTED


@pytest.mark.parametrize(
    ("name", "risk"),
    [
        ("aten::from_file", Risk.FILES),
        ("aten::save", Risk.FILES),
        ("debugprims::load_tensor", Risk.FILES),
        ("image::write_file", Risk.FILES),
        ("torchaudio::sox_io_save_audio_file", Risk.FILES),
        ("prim::rpc_async", Risk.PROCESSES),
        ("aten::to_here", Risk.PROCESSES),
        ("prim::PythonOp", Risk.NATIVE_CODE),
        ("c10d::allreduce_", Risk.NETWORK),
        ("symm_mem::nvshmem_put", Risk.NETWORK),
        ("_c10d_functional::all_reduce", Risk.NETWORK),
        ("aten::manual_seed", Risk.GLOBAL_STATE),
        ("aten::_cufft_set_plan_cache_max_size", Risk.GLOBAL_STATE),
        ("aten::as_strided_", Risk.MEMORY),
        ("aten::set_", Risk.MEMORY),
        ("aten::set_.source_Storage", Risk.MEMORY),
        ("aten::resize_", Risk.MEMORY),
        ("aten::_reshape_alias", Risk.MEMORY),
        ("aten::_unsafe_index", Risk.MEMORY),
        ("aten::_index_put_impl_", Risk.MEMORY),
        ("aten::_cudnn_rnn", Risk.MEMORY),
        ("aten::_nested_view_from_buffer", Risk.MEMORY),
        ("aten::convolution_backward_overrideable", Risk.MEMORY),
        ("profiler::_record_function_enter", Risk.MEMORY),
        ("aten::to_mkldnn", Risk.MEMORY),
        ("aten::slow_conv3d", Risk.MEMORY),
        ("mkldnn_prepacked::conv2d_prepack", Risk.MEMORY),
        ("sparse::qlinear_prepack", Risk.MEMORY),
        ("quantized::add.out", Risk.MEMORY),
        ("quantized::embedding_bag_4bit_rowwise_offsets", Risk.MEMORY),
        ("quantized::conv2d_stride", Risk.UNKNOWN),
        ("_quantized::linear", Risk.UNKNOWN),
        ("mkldnn.ConvOpContext", Risk.MEMORY),
        ("__torch__.torch.classes.sparse.LinearPackedParamsBase", Risk.MEMORY),
        ("xnnpack.AContextOfNextYear", Risk.FOREIGN),
        ("inductor::_alloc_from_pool", Risk.UNKNOWN),
        ("static_runtime::select_tensor", Risk.UNKNOWN),
        ("_test::get_first", Risk.UNKNOWN),
        ("prim::TensorExprGroup", Risk.UNKNOWN),
        ("aten::an_operator_of_next_year", Risk.UNKNOWN),
        ("quantized::an_operator_of_next_year", Risk.UNKNOWN),
        ("a_namespace_of_next_year::add", Risk.FOREIGN),
        ("torchvision::nms", Risk.FOREIGN),
        ("c10d.ProcessGroup", Risk.NETWORK),
        ("dist_rpc.WorkerInfo", Risk.PROCESSES),
        ("_nnapi.Compilation", Risk.NATIVE_CODE),
        ("__torch__.torch.classes.__backends__.demo", Risk.NATIVE_CODE),
        ("profiling._ScriptProfile", Risk.GLOBAL_STATE),
        ("mylib.Packed", Risk.FOREIGN),
    ],
)
def test_refused(name, risk):
    assert row_of(name).risk is risk
    assert risk in REFUSED


@pytest.mark.parametrize(
    ("name", "risk"),
    [
        ("aten::add", Risk.COMPUTE),
        ("aten::add.Tensor", Risk.COMPUTE),
        ("aten::_convolution", Risk.COMPUTE),
        ("aten::_foreach_add_", Risk.COMPUTE),
        ("aten::backward", Risk.COMPUTE),
        ("aten::set_grad_enabled", Risk.COMPUTE),
        ("prim::fork", Risk.COMPUTE),
        ("quantized::conv2d_prepack", Risk.COMPUTE),
        ("aten::dropout", Risk.RANDOMNESS),
        ("aten::manual_seed.generator", Risk.RANDOMNESS),
        ("aten::warn", Risk.OUTPUT),
        ("prim::Print", Risk.OUTPUT),
        ("profiler::_record_function_enter_new", Risk.OUTPUT),
        ("prim::TimePoint", Risk.PROCESS_INFORMATION),
        ("aten::is_autocast_enabled", Risk.PROCESS_INFORMATION),
        ("quantized.LinearPackedParamsBase", Risk.COMPUTE),
        ("__torch__.torch.classes.rnn.CellParamsBase", Risk.COMPUTE),
    ],
)
def test_allowed(name, risk):
    assert row_of(name).risk is risk
    assert risk not in REFUSED


@pytest.mark.parametrize(
    "namespace",
    sorted({namespace(name) for name in REGISTERED} - {"aten", "prim", "quantized", "_quantized"}),
)
def test_namespaces_beside_those_of_models_have_refusing_rows(namespace):
    assert row_of(f"{namespace}::what_nobody_has_named").is_refused


def test_what_runs_without_torch_is_allowed():
    """The native functions of the runner are for what archives may do, and one that some may."""
    assert refused_by_default(NATIVES) == {"aten::save"}


def test_every_private_operator_is_decided_apart_from_the_public_ones():
    private = {name for name in REGISTERED if name.startswith("aten::_")}
    public = {row.pattern for row in rows() if row.risk is Risk.COMPUTE and row.pattern[-1] == "*"}
    assert public == {"aten::_foreach_*", "backendutils.*"}
    assert len(refused_by_default(private)) > len(private) / 3


def test_asking_needs_no_torch():
    code = (
        "import sys; from tsarchive.operators.risks import row_of; row_of('aten::save');"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
